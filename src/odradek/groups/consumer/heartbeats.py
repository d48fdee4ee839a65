"""Checks the fields of a ConsumerGroupHeartbeat, and reads what it says about the member."""

from collections.abc import Sequence

from odradek.groups.consumer.commands import ConsumerHeartbeat
from odradek.groups.consumer.member import (
    JOINING_EPOCH,
    LEAVING_EPOCH,
    STATIC_LEAVING_EPOCH,
    ConsumerMember,
    Profile,
)
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode


def check_heartbeat(heartbeat: ConsumerHeartbeat, assignors: Sequence[str]) -> None:
    """Raises `ApiError` if the fields of a heartbeat do not fit together, in Kafka's words."""
    epoch = heartbeat.member_epoch
    if heartbeat.makes_own_id or epoch > JOINING_EPOCH or epoch == LEAVING_EPOCH:
        _require(heartbeat.member_id.strip(), "MemberId can't be empty.")
    _require(heartbeat.group_id.strip(), "GroupId can't be empty.")
    for value, name in ((heartbeat.instance_id, "InstanceId"), (heartbeat.rack_id, "RackId")):
        _require(value is None or value.strip(), f"{name} can't be empty.")
    if epoch == JOINING_EPOCH:
        _require(
            heartbeat.rebalance_timeout_ms != -1,
            "RebalanceTimeoutMs must be provided in first request.",
        )
        _require(
            heartbeat.owned is not None and not heartbeat.owned,
            "TopicPartitions must be empty when (re-)joining.",
        )
        _require(
            heartbeat.topics is not None or heartbeat.pattern is not None,
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null"
            " when (re-)joining.",
        )
    elif epoch == STATIC_LEAVING_EPOCH:
        _require(heartbeat.instance_id is not None, "InstanceId can't be null.")
    _require(epoch >= STATIC_LEAVING_EPOCH, "MemberEpoch is invalid.")
    if heartbeat.assignor is not None and heartbeat.assignor not in assignors:
        raise ApiError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {heartbeat.assignor} is not supported."
            f" Supported assignors: {', '.join(assignors)}.",
        )


def _require(holds: object, message: str) -> None:
    if not holds:
        raise ApiError(ErrorCode.INVALID_REQUEST, message)


def check_epoch(member: ConsumerMember, heartbeat: ConsumerHeartbeat) -> None:
    """Raises `ApiError` unless the heartbeat has the member epoch that the coordinator knows. The
    epoch before is accepted too if the member owns no more than its assignment: the reply
    with the current epoch may have been lost."""
    if heartbeat.member_epoch == member.epoch:
        return
    owns_no_more = heartbeat.owned is not None and all(
        partition in member.assigned for partition in heartbeat.owned
    )
    if heartbeat.member_epoch > member.epoch:
        how = "greater"
    elif heartbeat.member_epoch == member.previous_epoch and owns_no_more:
        return
    else:
        how = "smaller"
    raise ApiError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {how} member epoch ({heartbeat.member_epoch}) than the"
        f" one known by the group coordinator ({member.epoch})."
        " The member must abandon all its partitions and rejoin.",
    )


def updated_profile(before: Profile, heartbeat: ConsumerHeartbeat) -> Profile:
    """Returns the profile with the fields of the heartbeat; fields that it leaves out stay the
    same."""
    return Profile(
        before.instance_id if heartbeat.instance_id is None else heartbeat.instance_id,
        before.rack_id if heartbeat.rack_id is None else heartbeat.rack_id,
        heartbeat.client_id,
        heartbeat.client_host,
        before.topics if heartbeat.topics is None else heartbeat.topics,
        before.pattern if heartbeat.pattern is None else heartbeat.pattern,
        before.rebalance_timeout_ms
        if heartbeat.rebalance_timeout_ms == -1
        else heartbeat.rebalance_timeout_ms,
        before.assignor if heartbeat.assignor is None else heartbeat.assignor,
    )


def is_complete(heartbeat: ConsumerHeartbeat) -> bool:
    """Returns whether a heartbeat has all fields. A member sends such a one when it joins, and
    after an error, when it does not know which fields were received."""
    return (
        heartbeat.rebalance_timeout_ms != -1
        and (heartbeat.topics is not None or heartbeat.pattern is not None)
        and heartbeat.owned is not None
    )
