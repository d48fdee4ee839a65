"""Converts a group from one protocol to the other while it has members (KIP-848, online migration).

Upgrade: the first member of the consumer protocol joins a classic group of consumers. The
generation becomes the group epoch, the assignment of each member becomes its current and its target
assignment, and the classic members stay in the group (`classic_members`). Members that wait in a
rebalance are told to rejoin.

Downgrade: the last member of the consumer protocol leaves, or (a static member) rejoins with the
classic protocol. The remaining members become a classic group whose generation is the group epoch,
and which rebalances at once.

`group.consumer.migration.policy` says which of the two may happen. An empty group may change its
type in both directions, whatever the policy says.
"""

from collections.abc import Mapping
from typing import Final

from odradek.config.coordinator_settings import GroupSettings
from odradek.groups.classic_group import CONSUMER_PROTOCOL, ClassicGroup
from odradek.groups.classic_member import ClassicMember
from odradek.groups.classic_rebalance import JOIN as CLASSIC_JOIN
from odradek.groups.classic_rebalance import SESSION as CLASSIC_SESSION
from odradek.groups.classic_rebalance import SYNC as CLASSIC_SYNC
from odradek.groups.classic_rebalance import ClassicDecision
from odradek.groups.commands import JoinReply, SyncReply
from odradek.groups.consumer.decision import JOIN, REBALANCE, SESSION, SYNC, ConsumerDecision
from odradek.groups.consumer.member import (
    Assignment,
    ClassicProfile,
    ConsumerMember,
    Profile,
    TopicIdPartition,
)
from odradek.groups.consumer.records import (
    by_topic,
    group_record,
    member_record,
    target_epoch_record,
    target_record,
)
from odradek.groups.consumer.subscriptions import metadata_hash
from odradek.groups.records import GroupMetadataValue, MemberMetadata
from odradek.metadata import ClusterImage
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode, MalformedMessage
from odradek.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
    decode_versioned,
    encode_versioned,
)
from odradek.statemachine.machine import Caller, Deadline

_UPGRADE_POLICIES: Final = ("upgrade", "bidirectional")
_DOWNGRADE_POLICIES: Final = ("downgrade", "bidirectional")
_VERSION_BYTES: Final = 2


def may_upgrade(group: ClassicGroup, settings: GroupSettings) -> bool:
    return (
        settings.group_consumer_migration_policy in _UPGRADE_POLICIES
        and group.uses_consumer_protocol
        and len(group.members) <= settings.group_consumer_max_size
    )


def upgrade(decision: ConsumerDecision, classic: ClassicGroup) -> None:
    """Converts a classic group into the decision's group, which is new."""
    group_id, epoch = classic.group_id, classic.generation_id
    try:
        members = [
            _upgraded(member, classic, decision.image) for member in classic.members.values()
        ]
    except MalformedMessage as error:
        raise ApiError(
            ErrorCode.GROUP_ID_NOT_FOUND,
            f"Classic group {group_id} cannot be upgraded: what its members say is malformed.",
        ) from error
    _end_rebalance(decision, classic)
    decision.records += classic.tombstones()
    group = decision.group
    taken: set[TopicIdPartition] = set()
    for member in members:
        # A classic leader may have assigned a partition twice: the first member keeps it.
        assigned = {
            partition: epoch
            for partition, epoch in member.assigned.items()
            if partition not in taken
        }
        taken.update(assigned)
        group.put_member(member._replace(assigned=assigned))
    group.epoch = group.assignment_epoch = epoch
    group.metadata_hash = metadata_hash(group.subscribed_topics, decision.image)
    upgraded = list(group.members.values())
    decision.records += [member_record(group_id, member) for member in upgraded]
    decision.records.append(group_record(group_id, epoch, group.metadata_hash))
    for member in upgraded:
        group.targets[member.member_id] = frozenset(member.assigned)
        decision.records.append(target_record(group_id, member.member_id, member.assigned))
    decision.records.append(target_epoch_record(group_id, epoch, decision.now.wall_ms))
    for member in upgraded:
        decision.put_member(member)
        decision.renew_session(member)


def _end_rebalance(decision: ConsumerDecision, classic: ClassicGroup) -> None:
    """Tells members that wait in a rebalance to rejoin, and removes the classic deadlines."""
    group_id = classic.group_id
    for member in classic.members.values():
        error = ErrorCode.REBALANCE_IN_PROGRESS
        decision.answer(member.awaiting_join, JoinReply(error, member.member_id))
        decision.answer(member.awaiting_sync, SyncReply(error))
        decision.deadlines.append(Deadline((CLASSIC_SESSION, group_id, member.member_id), None))
    for member_id in classic.pending_joins:
        decision.deadlines.append(Deadline((CLASSIC_SESSION, group_id, member_id), None))
    decision.deadlines += [
        Deadline((kind, group_id), None) for kind in (CLASSIC_JOIN, CLASSIC_SYNC)
    ]


def _upgraded(member: ClassicMember, group: ClassicGroup, image: ClusterImage) -> ConsumerMember:
    metadata = member.metadata(group.protocol_name) or member.protocols[0].metadata
    subscription = decode_versioned(ConsumerProtocolSubscription, metadata)
    assigned: list[TopicPartition] = []
    if member.assignment:
        assignment = decode_versioned(ConsumerProtocolAssignment, member.assignment)
        assigned = assignment.assigned_partitions
    epoch = group.generation_id
    return ConsumerMember(
        member.member_id,
        Profile(
            member.group_instance_id,
            subscription.rack_id,
            member.client_id,
            member.client_host,
            frozenset(subscription.topics),
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            classic=ClassicProfile(member.session_timeout_ms, member.protocols),
        ),
        epoch,
        epoch,
        assigned=dict.fromkeys(owned_partitions(assigned, image), epoch),
    )


def owned_partitions(
    topics: list[TopicPartition], image: ClusterImage
) -> frozenset[TopicIdPartition]:
    """Returns the partitions by topic id, without those of topics that no longer exist."""
    partitions: set[TopicIdPartition] = set()
    for topic in topics:
        topic_image = image.topics.get(topic.topic)
        if topic_image is not None:
            partitions.update(
                TopicIdPartition(topic_image.topic_id, index) for index in topic.partitions
            )
    return frozenset(partitions)


# Downgrade


def remove_or_downgrade(decision: ConsumerDecision, *members: ConsumerMember) -> None:
    """Removes the members. If the last member of the consumer protocol is among them, the group
    becomes a classic one."""
    removed = {member.member_id: None for member in members}
    others = [
        member for member in decision.group.members.values() if member.member_id not in removed
    ]
    has_consumer_member = any(member.profile.classic is None for member in members)
    if has_consumer_member and _may_downgrade(decision, others):
        _downgrade(decision, others, f"{', '.join(removed)} is gone")
        return
    for member in members:
        decision.remove(member)
    decision.bump_epoch()


def downgrade_for(
    decision: ConsumerDecision, joining: ConsumerMember, caller: Caller[JoinReply] | None
) -> bool:
    """Downgrades the group if the joining classic member replaced the last member of the consumer
    protocol. Returns whether it did; then the joining member waits in the rebalance."""
    members = list(decision.group.members.values())
    if not _may_downgrade(decision, members):
        return False
    _downgrade(decision, members, f"{joining.member_id} came back", {joining.member_id: caller})
    return True


def _may_downgrade(decision: ConsumerDecision, members: list[ConsumerMember]) -> bool:
    """Returns whether these members alone could be a classic group."""
    return (
        bool(members)
        and all(member.profile.classic is not None for member in members)
        and decision.settings.group_consumer_migration_policy in _DOWNGRADE_POLICIES
        and len(members) <= decision.settings.group_max_size
        and len(_common_protocols(members)) > 0
    )


def _common_protocols(members: list[ConsumerMember]) -> list[str]:
    """Returns the protocols that all members support, in the order of the first member."""
    offered = [
        [offered.name for offered in member.profile.classic.protocols]
        for member in members
        if member.profile.classic is not None
    ]
    return [name for name in offered[0] if all(name in names for names in offered[1:])]


def _downgrade(
    decision: ConsumerDecision,
    members: list[ConsumerMember],
    why: str,
    waiting: Mapping[str, Caller[JoinReply] | None] | None = None,
) -> None:
    group = decision.group
    protocol = _common_protocols(members)[0]
    classic = ClassicGroup.from_value(
        group.group_id,
        GroupMetadataValue(
            protocol_type=CONSUMER_PROTOCOL,
            generation=group.epoch,
            protocol=protocol,
            leader=members[0].member_id,
            current_state_timestamp=decision.now.wall_ms,
            members=[_downgraded(member, protocol, decision) for member in members],
        ),
    )
    for member in members:
        if member.profile.classic is not None:
            former_member = classic.members[member.member_id]
            classic.members[member.member_id] = former_member._replace(
                protocols=member.profile.classic.protocols,
                awaiting_join=(waiting or {}).get(member.member_id),
            )
    for member_id in group.members:
        for kind in (SESSION, REBALANCE, JOIN, SYNC):
            decision.set_deadline(kind, member_id, None)
    classic_decision = ClassicDecision(classic, decision.settings, decision.now)
    classic_decision.records += [*group.tombstones(), classic.record(must_rebalance=True)]
    for classic_member in classic.members.values():
        classic_decision.renew_session(classic_member)
    classic_decision.rebalance(f"no member uses the consumer protocol any more: {why}")
    outcome = classic_decision.outcome()
    decision.records += outcome.records
    decision.events += outcome.events
    decision.replies += outcome.replies
    decision.deadlines += outcome.deadlines
    decision.log_lines += outcome.log_lines


def _downgraded(
    member: ConsumerMember, protocol: str, decision: ConsumerDecision
) -> MemberMetadata:
    profile = member.profile
    assert profile.classic is not None
    metadata = next(
        offered.metadata for offered in profile.classic.protocols if offered.name == protocol
    )
    target = dict.fromkeys(decision.group.target_of(member.member_id), 0)
    return MemberMetadata(
        member_id=member.member_id,
        group_instance_id=profile.instance_id,
        client_id=profile.client_id,
        client_host=profile.client_host,
        rebalance_timeout=profile.rebalance_timeout_ms,
        session_timeout=profile.classic.session_timeout_ms,
        subscription=metadata,
        assignment=classic_assignment(target, metadata, decision.image),
    )


def classic_assignment(assignment: Assignment, metadata: bytes, image: ClusterImage) -> bytes:
    """Encodes an assignment in the version that the member used for its metadata."""
    version = int.from_bytes(metadata[:_VERSION_BYTES], "big")
    topics = [
        TopicPartition(topic=topic.name, partitions=partitions)
        for topic_id, partitions in by_topic(assignment).items()
        if (topic := image.topics_by_id.get(topic_id)) is not None
    ]
    highest = ConsumerProtocolAssignment.versions.last
    encoded = ConsumerProtocolAssignment(assigned_partitions=topics)
    return encode_versioned(encoded, max(0, min(version, highest)))
