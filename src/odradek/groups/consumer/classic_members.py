"""Decides about members that use the classic protocol in a consumer group.

JoinGroup is treated as a heartbeat with all fields and is answered at once: there is no leader, and
the generation is the member epoch. SyncGroup returns the member's current assignment. Heartbeat is
answered with REBALANCE_IN_PROGRESS while the member has partitions to revoke or to fetch; it then
has to rejoin within its rebalance timeout.
"""

from collections.abc import Callable
from typing import Any

from odradek.config.coordinator_settings import GroupSettings
from odradek.groups.classic_group import CONSUMER_PROTOCOL
from odradek.groups.classic_membership import check_session_timeout
from odradek.groups.commands import (
    ClassicCommand,
    Heartbeat,
    JoinGroup,
    JoinReply,
    LeaveGroup,
    LeavingMember,
    SyncGroup,
    SyncReply,
)
from odradek.groups.consumer.decision import JOIN, SYNC, ConsumerDecision
from odradek.groups.consumer.group import ConsumerGroup
from odradek.groups.consumer.member import ClassicProfile, ConsumerMember, MemberState, Profile
from odradek.groups.consumer.migration import (
    classic_assignment,
    downgrade_for,
    owned_partitions,
    remove_or_downgrade,
)
from odradek.groups.group import GroupOutcome
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode, MalformedMessage
from odradek.protocol.messages.consumer_protocol import (
    ConsumerProtocolSubscription,
    decode_versioned,
)
from odradek.statemachine.machine import Caller


class ClassicMembers:
    """Decides for the classic members of all consumer groups of a machine. It has no state."""

    def __init__(self, settings: GroupSettings, new_identifier: Callable[[], str]) -> None:
        self._settings = settings
        self._new_identifier = new_identifier

    def decide(
        self, decision: ConsumerDecision, command: ClassicCommand, caller: Caller[Any] | None
    ) -> GroupOutcome:
        if isinstance(command, JoinGroup):
            return self._join(decision, command, caller)
        if isinstance(command, SyncGroup):
            return decision.outcome_for(caller, _sync(decision, command))
        if isinstance(command, LeaveGroup):
            return decision.outcome_for(caller, _leave(decision, command))
        return decision.outcome_for(caller, _heartbeat(decision, command))

    def _join(
        self, decision: ConsumerDecision, command: JoinGroup, caller: Caller[JoinReply] | None
    ) -> GroupOutcome:
        self._check(decision.group, command)
        if command.requires_member_id and not command.member_id and not command.group_instance_id:
            member_id = f"{command.client_id}-{self._new_identifier()}"
            return decision.outcome_for(caller, JoinReply(ErrorCode.MEMBER_ID_REQUIRED, member_id))
        subscription = _subscription(command)
        member = self._member(decision, command)
        profile = Profile(
            command.group_instance_id,
            subscription.rack_id,
            command.client_id,
            command.client_host,
            frozenset(subscription.topics),
            "",
            command.rebalance_timeout_ms,
            None,
            ClassicProfile(command.session_timeout_ms, command.protocols),
        )
        if decision.update_profile(member, profile):
            decision.bump_epoch()
        if downgrade_for(decision, member, caller):
            return decision.outcome()
        decision.assign_if_due()
        owned = owned_partitions(subscription.owned_partitions, decision.image)
        member = decision.reconcile(decision.group.members[member.member_id], owned)
        decision.renew_session(member)
        decision.set_deadline(JOIN, member.member_id, None)
        decision.set_deadline(SYNC, member.member_id, command.rebalance_timeout_ms)
        name = command.protocols[0].name
        reply = JoinReply(ErrorCode.NONE, member.member_id, member.epoch, CONSUMER_PROTOCOL, name)
        return decision.outcome_for(caller, reply)

    def _check(self, group: ConsumerGroup, command: JoinGroup) -> None:
        settings = self._settings
        check_session_timeout(command.session_timeout_ms, settings)
        group.check_room(
            command.member_id, command.group_instance_id, settings.group_consumer_max_size
        )
        if not _supports(group, command):
            raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)

    def _member(self, decision: ConsumerDecision, command: JoinGroup) -> ConsumerMember:
        group = decision.group
        instance_id = command.group_instance_id
        if instance_id is not None and command.member_id:
            return group.check_member(command.member_id, instance_id)
        if instance_id is not None:
            member_id = f"{instance_id}-{self._new_identifier()}"
            holder = group.static_members.get(instance_id)
            if holder is not None:
                return decision.replace_static(group.members[holder], member_id)
            return ConsumerMember(member_id)
        member_id = command.member_id or f"{command.client_id}-{self._new_identifier()}"
        return group.members.get(member_id) or ConsumerMember(member_id)


def _supports(group: ConsumerGroup, command: JoinGroup) -> bool:
    """Returns whether all classic members, this one included, support a common protocol, so that
    the group could be downgraded to a classic one."""
    if command.protocol_type != CONSUMER_PROTOCOL:
        return False
    common = {protocol.name for protocol in command.protocols}
    for member_id, member in group.members.items():
        if member.profile.classic is not None and member_id != command.member_id:
            common &= {protocol.name for protocol in member.profile.classic.protocols}
    return bool(common)


def _subscription(command: JoinGroup) -> ConsumerProtocolSubscription:
    try:
        return decode_versioned(ConsumerProtocolSubscription, command.protocols[0].metadata)
    except MalformedMessage as error:
        raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, str(error)) from error


def _classic_member(
    group: ConsumerGroup, member_id: str, instance_id: str | None
) -> tuple[ConsumerMember, ClassicProfile]:
    member = group.check_member(member_id, instance_id)
    if member.profile.classic is None:
        raise ApiError(
            ErrorCode.UNKNOWN_MEMBER_ID,
            f"Member {member_id} does not use the classic protocol.",
        )
    return member, member.profile.classic


def _sync(decision: ConsumerDecision, command: SyncGroup) -> SyncReply:
    group = decision.group
    member, classic = _classic_member(group, command.member_id, command.group_instance_id)
    if command.generation_id != member.epoch:
        raise ApiError(ErrorCode.ILLEGAL_GENERATION)
    name = classic.protocols[0].name
    for sent, expected in (
        (command.protocol_type, CONSUMER_PROTOCOL),
        (command.protocol_name, name),
    ):
        if sent is not None and sent != expected:
            raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    decision.renew_session(member)
    decision.set_deadline(SYNC, member.member_id, None)
    if group.epoch > member.epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
        decision.set_deadline(JOIN, member.member_id, member.profile.rebalance_timeout_ms)
        return SyncReply(ErrorCode.REBALANCE_IN_PROGRESS)
    assignment = classic_assignment(member.assigned, classic.protocols[0].metadata, decision.image)
    return SyncReply(ErrorCode.NONE, CONSUMER_PROTOCOL, name, assignment)


def _heartbeat(decision: ConsumerDecision, command: Heartbeat) -> ErrorCode:
    group = decision.group
    member, _ = _classic_member(group, command.member_id, command.group_instance_id)
    if command.generation_id != member.epoch:
        raise ApiError(ErrorCode.ILLEGAL_GENERATION)
    decision.renew_session(member)
    if not _has_to_join(group, member):
        return ErrorCode.NONE
    decision.set_deadline(JOIN, member.member_id, member.profile.rebalance_timeout_ms)
    return ErrorCode.REBALANCE_IN_PROGRESS


def _has_to_join(group: ConsumerGroup, member: ConsumerMember) -> bool:
    if member.epoch < group.epoch or member.state is MemberState.UNREVOKED_PARTITIONS:
        return True
    if member.state is not MemberState.UNRELEASED_PARTITIONS:
        return False
    missing = group.target_of(member.member_id) - member.assigned.keys()
    return all(group.owners.get(partition) in (None, member.member_id) for partition in missing)


def _leave(decision: ConsumerDecision, command: LeaveGroup) -> list[ErrorCode]:
    """Removes members that leave or that an administrator removes. The latter may also be members
    of the consumer protocol, which learn of it at their next heartbeat and rejoin."""
    errors: list[ErrorCode] = []
    leaving_members: dict[str, ConsumerMember] = {}
    for leaving in command.members:
        try:
            member = _leaving_member(decision.group, leaving)
            if member.member_id in leaving_members:
                raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
        except ApiError as error:
            errors.append(error.code)
        else:
            errors.append(ErrorCode.NONE)
            leaving_members[member.member_id] = member
    if leaving_members:
        remove_or_downgrade(decision, *leaving_members.values())
    return errors


def _leaving_member(group: ConsumerGroup, leaving: LeavingMember) -> ConsumerMember:
    """An administrator names a static member by its instance id alone."""
    instance_id = leaving.group_instance_id
    member_id = leaving.member_id or group.static_members.get(instance_id or "", "")
    return group.check_member(member_id, instance_id)
