"""The records of consumer groups in `__consumer_offsets`, in Kafka's format.

kind   key              value
3      group            the group epoch, and a hash of the metadata of the subscribed topics
4      group            the subscribed topics, as Kafka 4.0 wrote them: not read, but deleted
5      group, member    the profile of a member: client, subscription, settings
6      group            the assignment epoch
7      group, member    the target assignment of a member
8      group, member    the member epoch, state and current assignment of a member
16     group, pattern   the topics that a regular expression matches
"""

import struct
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from odradek.groups.commands import Protocol
from odradek.groups.consumer.member import (
    NO_PARTITIONS,
    Assignment,
    ClassicProfile,
    ConsumerMember,
    MemberState,
    Profile,
    TopicIdPartition,
)
from odradek.protocol.errors import MalformedMessage
from odradek.protocol.messages.consumer_protocol import decode_versioned, encode_versioned
from odradek.protocol.schema import (
    Message,
    Struct,
    array,
    bytes_,
    int8,
    int32,
    int64,
    nested,
    string,
    uuid,
)
from odradek.protocol.types import TopicId
from odradek.statemachine.machine import LogRecord

GROUP: Final = 3
OLD_TOPICS: Final = 4
MEMBER: Final = 5
TARGET_EPOCH: Final = 6
TARGET: Final = 7
CURRENT: Final = 8
PATTERN: Final = 16

KINDS: Final = frozenset({GROUP, OLD_TOPICS, MEMBER, TARGET_EPOCH, TARGET, CURRENT, PATTERN})
_KINDS_OF_GROUPS: Final = frozenset({GROUP, OLD_TOPICS, TARGET_EPOCH})

_KIND: Final = struct.Struct(">h")


class GroupKey(Message, versions="0"):
    group_id: str = string()


class PartKey(Message, versions="0"):
    """The key of a record about a member or a pattern of a group."""

    group_id: str = string()
    part: str = string()


class ConsumerGroupMetadataValue(Message, versions="0", flexible="0+"):
    epoch: int = int32()
    metadata_hash: int = int64(tag=0)


class ClassicProtocol(Struct):
    name: str = string()
    metadata: bytes = bytes_()


class ClassicMemberMetadata(Struct):
    session_timeout_ms: int = int32()
    supported_protocols: list[ClassicProtocol] = array(ClassicProtocol)


class ConsumerGroupMemberMetadataValue(Message, versions="0", flexible="0+"):
    instance_id: str | None = string(nullable="0+", default=None)
    rack_id: str | None = string(nullable="0+", default=None)
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: list[str] = array(string)
    subscribed_topic_regex: str | None = string(nullable="0+", default=None)
    rebalance_timeout_ms: int = int32(default=-1)
    server_assignor: str | None = string(nullable="0+", default=None)
    classic_member_metadata: ClassicMemberMetadata | None = nested(
        ClassicMemberMetadata, nullable="0+", tag=0
    )


class ConsumerGroupTargetAssignmentMetadataValue(Message, versions="0", flexible="0+"):
    assignment_epoch: int = int32()
    assignment_timestamp: int = int64(tag=0)


class TargetPartitions(Struct):
    topic_id: TopicId = uuid()
    partitions: list[int] = array(int32)


class ConsumerGroupTargetAssignmentMemberValue(Message, versions="0", flexible="0+"):
    topic_partitions: list[TargetPartitions] = array(TargetPartitions)


class CurrentPartitions(Struct):
    topic_id: TopicId = uuid()
    partitions: list[int] = array(int32)
    assignment_epochs: list[int] | None = array(int32, nullable="0+", default=None, tag=0)


class ConsumerGroupCurrentMemberAssignmentValue(Message, versions="0", flexible="0+"):
    member_epoch: int = int32()
    previous_member_epoch: int = int32()
    state: int = int8()
    assigned_partitions: list[CurrentPartitions] = array(CurrentPartitions)
    partitions_pending_revocation: list[CurrentPartitions] = array(CurrentPartitions)


class ConsumerGroupRegularExpressionValue(Message, versions="0", flexible="0+"):
    topics: list[str] = array(string)
    version: int = int64()
    timestamp: int = int64()


class Key(NamedTuple):
    """`part` is a member id or a pattern, depending on the kind; empty for the group itself."""

    kind: int
    group_id: str
    part: str = ""


class ResolvedPattern(NamedTuple):
    """The topics that a pattern matches, and the number of the image in which it matched them."""

    topics: frozenset[str]
    version: int
    timestamp_ms: int


# Keys


def key_of(kind: int, group_id: str, part: str = "") -> bytes:
    key = GroupKey(group_id=group_id)
    if kind not in _KINDS_OF_GROUPS:
        return _encoded(PartKey(group_id=group_id, part=part), kind)
    return _encoded(key, kind)


def _encoded(key: Message, kind: int) -> bytes:
    (content,) = key.encode(0, [_KIND.pack(kind)])
    if not isinstance(content, bytes):
        raise TypeError("a key is bytes")
    return content


def read_key(key: bytes) -> Key:
    kind: int = _KIND.unpack_from(key)[0]
    if kind in _KINDS_OF_GROUPS:
        return Key(kind, GroupKey.decode(key, 0, _KIND.size).group_id)
    read = PartKey.decode(key, 0, _KIND.size)
    return Key(kind, read.group_id, read.part)


def tombstone(kind: int, group_id: str, part: str = "") -> LogRecord:
    return LogRecord(key_of(kind, group_id, part), None)


def member_tombstones(group_id: str, member_id: str) -> list[LogRecord]:
    return [tombstone(kind, group_id, member_id) for kind in (CURRENT, TARGET, MEMBER)]


# What is written


def group_record(group_id: str, epoch: int, metadata_hash: int) -> LogRecord:
    value = ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return LogRecord(key_of(GROUP, group_id), encode_versioned(value, 0))


def member_record(group_id: str, member: ConsumerMember) -> LogRecord:
    profile, classic = member.profile, member.profile.classic
    value = ConsumerGroupMemberMetadataValue(
        instance_id=profile.instance_id,
        rack_id=profile.rack_id,
        client_id=profile.client_id,
        client_host=profile.client_host,
        subscribed_topic_names=sorted(profile.topics),
        subscribed_topic_regex=profile.pattern,
        rebalance_timeout_ms=profile.rebalance_timeout_ms,
        server_assignor=profile.assignor,
        classic_member_metadata=None
        if classic is None
        else ClassicMemberMetadata(
            session_timeout_ms=classic.session_timeout_ms,
            supported_protocols=[
                ClassicProtocol(name=protocol.name, metadata=protocol.metadata)
                for protocol in classic.protocols
            ],
        ),
    )
    return LogRecord(key_of(MEMBER, group_id, member.member_id), encode_versioned(value, 0))


def target_epoch_record(group_id: str, epoch: int, timestamp_ms: int) -> LogRecord:
    value = ConsumerGroupTargetAssignmentMetadataValue(
        assignment_epoch=epoch, assignment_timestamp=timestamp_ms
    )
    return LogRecord(key_of(TARGET_EPOCH, group_id), encode_versioned(value, 0))


def target_record(group_id: str, member_id: str, target: Iterable[TopicIdPartition]) -> LogRecord:
    value = ConsumerGroupTargetAssignmentMemberValue(
        topic_partitions=[
            TargetPartitions(topic_id=topic_id, partitions=partitions)
            for topic_id, partitions in by_topic(target).items()
        ]
    )
    return LogRecord(key_of(TARGET, group_id, member_id), encode_versioned(value, 0))


def current_record(group_id: str, member: ConsumerMember) -> LogRecord:
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=member.state,
        assigned_partitions=_current_partitions(member.assigned),
        partitions_pending_revocation=_current_partitions(member.to_revoke),
    )
    return LogRecord(key_of(CURRENT, group_id, member.member_id), encode_versioned(value, 0))


def _current_partitions(assignment: Assignment) -> list[CurrentPartitions]:
    return [
        CurrentPartitions(
            topic_id=topic_id,
            partitions=partitions,
            assignment_epochs=[
                assignment[TopicIdPartition(topic_id, index)] for index in partitions
            ],
        )
        for topic_id, partitions in by_topic(assignment).items()
    ]


def pattern_record(group_id: str, pattern: str, resolved: ResolvedPattern) -> LogRecord:
    value = ConsumerGroupRegularExpressionValue(
        topics=sorted(resolved.topics), version=resolved.version, timestamp=resolved.timestamp_ms
    )
    return LogRecord(key_of(PATTERN, group_id, pattern), encode_versioned(value, 0))


def by_topic(partitions: Iterable[TopicIdPartition]) -> Mapping[TopicId, list[int]]:
    """Groups partitions by topic, sorted, so that the same state is always written the same way."""
    topics: dict[TopicId, list[int]] = {}
    for topic_id, partition in sorted(partitions):
        topics.setdefault(topic_id, []).append(partition)
    return topics


# Reading


def read_group(value: bytes) -> ConsumerGroupMetadataValue:
    return decode_versioned(ConsumerGroupMetadataValue, value)


def read_profile(value: bytes) -> Profile:
    read = decode_versioned(ConsumerGroupMemberMetadataValue, value)
    classic = read.classic_member_metadata
    return Profile(
        read.instance_id,
        read.rack_id,
        read.client_id,
        read.client_host,
        frozenset(read.subscribed_topic_names),
        read.subscribed_topic_regex or "",
        read.rebalance_timeout_ms,
        read.server_assignor,
        None
        if classic is None
        else ClassicProfile(
            classic.session_timeout_ms,
            tuple(
                Protocol(protocol.name, bytes(protocol.metadata))
                for protocol in classic.supported_protocols
            ),
        ),
    )


def read_target_epoch(value: bytes) -> int:
    return decode_versioned(ConsumerGroupTargetAssignmentMetadataValue, value).assignment_epoch


def read_target(value: bytes) -> frozenset[TopicIdPartition]:
    read = decode_versioned(ConsumerGroupTargetAssignmentMemberValue, value)
    return frozenset(
        TopicIdPartition(topic.topic_id, partition)
        for topic in read.topic_partitions
        for partition in topic.partitions
    )


def read_current(member: ConsumerMember, value: bytes) -> ConsumerMember:
    read = decode_versioned(ConsumerGroupCurrentMemberAssignmentValue, value)
    try:
        state = MemberState(read.state)
    except ValueError:
        state = MemberState.UNKNOWN
    return member._replace(
        epoch=read.member_epoch,
        previous_epoch=read.previous_member_epoch,
        state=state,
        assigned=_assignment(read.assigned_partitions, read.member_epoch),
        to_revoke=_assignment(read.partitions_pending_revocation, read.member_epoch),
    )


def _assignment(topics: list[CurrentPartitions], member_epoch: int) -> Assignment:
    """Kafka before 4.3 wrote no epochs for partitions. Then the member epoch is used, which is the
    latest that they can have."""
    if not topics:
        return NO_PARTITIONS
    assignment = {}
    for topic in topics:
        epochs = topic.assignment_epochs
        if not epochs:
            epochs = [member_epoch] * len(topic.partitions)
        elif len(epochs) != len(topic.partitions):
            raise MalformedMessage("a member's partitions and their epochs differ in number")
        for partition, epoch in zip(topic.partitions, epochs, strict=True):
            assignment[TopicIdPartition(topic.topic_id, partition)] = epoch
    return assignment


def read_pattern(value: bytes) -> ResolvedPattern:
    read = decode_versioned(ConsumerGroupRegularExpressionValue, value)
    return ResolvedPattern(frozenset(read.topics), read.version, read.timestamp)
