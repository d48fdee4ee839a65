"""A group that changes from one protocol to the other while its members are at work.

Up: the first member of the new protocol comes to a classic group of consumers. The group's
generation becomes its epoch, what each member has becomes its place and its target, and the
classic members go on as members that speak another language (`classic_members`). Whoever
waits for a rebalance is told to join again.

Down: the last member of the new protocol goes, or comes back (a static member) with the
classic one. Those who are left become a classic group in the generation of the epoch, which
rebalances at once.

`group.consumer.migration.policy` says which of the two may happen. An empty group changes
either way, whatever the policy.
"""

from collections.abc import Mapping
from typing import Final

from odradek.config.coordinator_settings import GroupSettings
from odradek.groups.classic import CONSUMER_PROTOCOL, ClassicGroup
from odradek.groups.classic import Member as ClassicMember
from odradek.groups.commands import JoinReply, SyncReply
from odradek.groups.consumer.member import (
    ClassicSide,
    ConsumerMember,
    Given,
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
from odradek.groups.consumer.turn import JOIN, REBALANCE, SESSION, SYNC, Turn
from odradek.groups.rebalance import JOIN as CLASSIC_JOIN
from odradek.groups.rebalance import SESSION as CLASSIC_SESSION
from odradek.groups.rebalance import SYNC as CLASSIC_SYNC
from odradek.groups.rebalance import Turn as ClassicTurn
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

_UP: Final = ("upgrade", "bidirectional")
_DOWN: Final = ("downgrade", "bidirectional")
_VERSION_BYTES: Final = 2


def may_upgrade(group: ClassicGroup, settings: GroupSettings) -> bool:
    return (
        settings.group_consumer_migration_policy in _UP
        and group.uses_consumer_protocol
        and len(group.members) <= settings.group_consumer_max_size
    )


def upgrade(turn: Turn, classic: ClassicGroup) -> None:
    """Turns a classic group into the turn's group, which is new."""
    group_id, epoch = classic.group_id, classic.generation_id
    try:
        members = [_upgraded(each, classic, turn.image) for each in classic.members.values()]
    except MalformedMessage as error:
        raise ApiError(
            ErrorCode.GROUP_ID_NOT_FOUND,
            f"Classic group {group_id} cannot be upgraded: what its members say is malformed.",
        ) from error
    _send_home(turn, classic)
    turn.records += classic.tombstones()
    group = turn.group
    taken: set[TopicIdPartition] = set()
    for member in members:
        given = {each: since for each, since in member.assigned.items() if each not in taken}
        taken.update(given)
        group.put_member(member._replace(assigned=given))
    group.epoch = group.assignment_epoch = epoch
    group.metadata_hash = metadata_hash(group.subscribed_topics, turn.image)
    placed = list(group.members.values())
    turn.records += [member_record(group_id, member) for member in placed]
    turn.records.append(group_record(group_id, epoch, group.metadata_hash))
    for member in placed:
        group.targets[member.member_id] = frozenset(member.assigned)
        turn.records.append(target_record(group_id, member.member_id, member.assigned))
    turn.records.append(target_epoch_record(group_id, epoch, turn.now.wall_ms))
    for member in placed:
        turn.put_member(member)
        turn.expect_sign_of_life(member)


def _send_home(turn: Turn, classic: ClassicGroup) -> None:
    """Whoever waits in a rebalance joins again; the classic group's deadlines are lifted."""
    group_id = classic.group_id
    for member in classic.members.values():
        again = ErrorCode.REBALANCE_IN_PROGRESS
        turn.answer(member.awaiting_join, JoinReply(again, member.member_id))
        turn.answer(member.awaiting_sync, SyncReply(again))
        turn.deadlines.append(Deadline((CLASSIC_SESSION, group_id, member.member_id), None))
    for member_id in classic.pending_joins:
        turn.deadlines.append(Deadline((CLASSIC_SESSION, group_id, member_id), None))
    turn.deadlines += [Deadline((kind, group_id), None) for kind in (CLASSIC_JOIN, CLASSIC_SYNC)]


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
            classic=ClassicSide(member.session_timeout_ms, member.protocols),
        ),
        epoch,
        epoch,
        assigned=dict.fromkeys(owned_partitions(assigned, image), epoch),
    )


def owned_partitions(
    topics: list[TopicPartition], image: ClusterImage
) -> frozenset[TopicIdPartition]:
    """By topic ids; of topics that are gone nobody owns anything."""
    found: set[TopicIdPartition] = set()
    for topic in topics:
        known = image.topics.get(topic.topic)
        if known is not None:
            found.update(TopicIdPartition(known.topic_id, each) for each in topic.partitions)
    return frozenset(found)


# Down


def remove_or_downgrade(turn: Turn, *members: ConsumerMember) -> None:
    """Removes the members. If the last of the new protocol is among them, the group becomes a
    classic one."""
    gone = {member.member_id for member in members}
    others = [each for each in turn.group.members.values() if each.member_id not in gone]
    has_new = any(member.profile.classic is None for member in members)
    if has_new and _may_downgrade(turn, others):
        _downgrade(turn, others, f"{', '.join(gone)} is gone")
        return
    for member in members:
        turn.remove(member)
    turn.bump_epoch()


def downgrade_for(turn: Turn, joining: ConsumerMember, caller: Caller | None) -> bool:
    """A classic member took the place of the last one of the new protocol: whether the group
    is a classic one now, in whose rebalance the joining member waits."""
    members = list(turn.group.members.values())
    if not _may_downgrade(turn, members):
        return False
    _downgrade(turn, members, f"{joining.member_id} came back", {joining.member_id: caller})
    return True


def _may_downgrade(turn: Turn, members: list[ConsumerMember]) -> bool:
    """Whether these could be a classic group by themselves."""
    return (
        bool(members)
        and all(each.profile.classic is not None for each in members)
        and turn.settings.group_consumer_migration_policy in _DOWN
        and len(members) <= turn.settings.group_max_size
        and len(_common_protocols(members)) > 0
    )


def _common_protocols(members: list[ConsumerMember]) -> list[str]:
    """Names that all of them have, in the order of the first one."""
    offered = [
        [each.name for each in member.profile.classic.protocols]
        for member in members
        if member.profile.classic is not None
    ]
    return [name for name in offered[0] if all(name in names for names in offered[1:])]


def _downgrade(
    turn: Turn,
    members: list[ConsumerMember],
    why: str,
    waiting: Mapping[str, Caller | None] | None = None,
) -> None:
    group = turn.group
    protocol = _common_protocols(members)[0]
    classic = ClassicGroup.from_value(
        group.group_id,
        GroupMetadataValue(
            protocol_type=CONSUMER_PROTOCOL,
            generation=group.epoch,
            protocol=protocol,
            leader=members[0].member_id,
            current_state_timestamp=turn.now.wall_ms,
            members=[_downgraded(each, protocol, turn) for each in members],
        ),
    )
    for member in members:
        if member.profile.classic is not None:
            known = classic.members[member.member_id]
            classic.members[member.member_id] = known._replace(
                protocols=member.profile.classic.protocols,
                awaiting_join=(waiting or {}).get(member.member_id),
            )
    for member_id in group.members:
        for kind in (SESSION, REBALANCE, JOIN, SYNC):
            turn.set_deadline(kind, member_id, None)
    after = ClassicTurn(classic, turn.settings, turn.now)
    after.records += [*group.tombstones(), classic.record()]
    for each in classic.members.values():
        after.expect_sign_of_life(each)
    after.rebalance(f"nobody speaks the consumer protocol any more: {why}")
    outcome = after.outcome()
    turn.records += outcome.records
    turn.events += outcome.events
    turn.replies += outcome.replies
    turn.deadlines += outcome.deadlines


def _downgraded(member: ConsumerMember, protocol: str, turn: Turn) -> MemberMetadata:
    profile = member.profile
    assert profile.classic is not None
    metadata = next(each.metadata for each in profile.classic.protocols if each.name == protocol)
    target = dict.fromkeys(turn.group.target_of(member.member_id), 0)
    return MemberMetadata(
        member_id=member.member_id,
        group_instance_id=profile.instance_id,
        client_id=profile.client_id,
        client_host=profile.client_host,
        rebalance_timeout=profile.rebalance_timeout_ms,
        session_timeout=profile.classic.session_timeout_ms,
        subscription=metadata,
        assignment=classic_assignment(target, metadata, turn.image),
    )


def classic_assignment(given: Given, metadata: bytes, image: ClusterImage) -> bytes:
    """In the version that the member used in its metadata."""
    version = int.from_bytes(metadata[:_VERSION_BYTES], "big")
    topics = [
        TopicPartition(topic=topic.name, partitions=partitions)
        for topic_id, partitions in by_topic(given).items()
        if (topic := image.topics_by_id.get(topic_id)) is not None
    ]
    highest = ConsumerProtocolAssignment.versions.last
    assignment = ConsumerProtocolAssignment(assigned_partitions=topics)
    return encode_versioned(assignment, max(0, min(version, highest)))
