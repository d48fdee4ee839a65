"""The records of offsets and classic groups in `__consumer_offsets`, in Kafka's format.

A key begins with two bytes for the kind of the record, a value with two bytes for its version. A
key without a value (a tombstone) is deleted.

    kind   key                        value
    0, 1   group, topic, partition    an offset: written as version 4, or 1 with an expiry
    2      group                      a classic group: written as version 3
    3 ...  groups of other types      read by their plugin; unknown kinds are skipped

Offsets in a transaction are in batches of its producer and count once the transaction commits.
"""

import struct
from typing import Final, NamedTuple

from odradek.protocol.errors import MalformedMessage
from odradek.protocol.messages.consumer_protocol import decode_versioned, encode_versioned
from odradek.protocol.schema import Message, Struct, array, bytes_, int32, int64, string, uuid
from odradek.protocol.types import NO_TOPIC_ID, TopicId, TopicPartition
from odradek.statemachine.machine import LogRecord

# Kinds of records, by the first two bytes of their key.
OLD_OFFSET: Final = 0
OFFSET: Final = 1
CLASSIC_GROUP: Final = 2

_OFFSET_VERSION: Final = 4
_OFFSET_VERSION_WITH_EXPIRY: Final = 1
_GROUP_VERSION: Final = 3

_KIND: Final = struct.Struct(">h")
_LENGTH: Final = struct.Struct(">h")
_PARTITION: Final = struct.Struct(">i")
_TIMESTAMP: Final = struct.Struct(">q")
# Version, offset, leader epoch, and the length of the metadata plus one in a byte.
_VALUE_START: Final = struct.Struct(">hqiB")
_MAX_FAST_METADATA_BYTES: Final = 126
_MIN_VALUE_BYTES: Final = _VALUE_START.size + _TIMESTAMP.size + 1
# The tagged field 0, of sixteen bytes.
_TOPIC_ID_TAG: Final = b"\x01\x00\x10"
_TAGS_WITH_TOPIC_ID_BYTES: Final = len(_TOPIC_ID_TAG) + 16


class OffsetCommitKey(Message, versions="0-1"):
    group: str = string()
    topic: str = string()
    partition: int = int32()


class OffsetCommitValue(Message, versions="0-4", flexible="4+"):
    offset: int = int64()
    leader_epoch: int = int32("3+", default=-1)
    metadata: str = string()
    commit_timestamp: int = int64()
    expire_timestamp: int = int64("1", default=-1)
    topic_id: TopicId = uuid("4+", tag=0)


class GroupMetadataKey(Message, versions="2"):
    group: str = string()


class MemberMetadata(Struct):
    member_id: str = string()
    group_instance_id: str | None = string("3+", nullable="3+", default=None)
    client_id: str = string()
    client_host: str = string()
    rebalance_timeout: int = int32("1+", default=-1)
    session_timeout: int = int32()
    subscription: bytes = bytes_()
    assignment: bytes = bytes_()


class GroupMetadataValue(Message, versions="0-4", flexible="4+"):
    protocol_type: str = string()
    generation: int = int32()
    protocol: str | None = string(nullable="0+", default=None)
    leader: str | None = string(nullable="0+", default=None)
    current_state_timestamp: int = int64("2+", default=-1)
    members: list[MemberMetadata] = array(MemberMetadata)


class CommittedOffset(NamedTuple):
    """`log_offset` is the offset of the record in the log: of two commits for a partition the later
    one counts, even if the earlier one is in a transaction that ends after it."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int = -1
    topic_id: TopicId = NO_TOPIC_ID
    log_offset: int = -1


def kind_of(key: bytes) -> int:
    """Returns the kind of a record. Raises `MalformedMessage` for a key that is too short."""
    if len(key) < _KIND.size:
        raise MalformedMessage("a record's key has no kind")
    kind: int = _KIND.unpack_from(key)[0]
    return kind


# Offsets. Most records are commits, so their common form is encoded and decoded by hand, which is
# four times as fast as by its declaration. The uncommon forms use the declaration.


def offset_key(group_id: str, partition: TopicPartition) -> bytes:
    group, topic = group_id.encode(), partition.topic.encode()
    return b"".join(
        (
            b"\x00\x01",
            _LENGTH.pack(len(group)),
            group,
            _LENGTH.pack(len(topic)),
            topic,
            _PARTITION.pack(partition.partition),
        )
    )


def offset_record(
    group_id: str, partition: TopicPartition, committed: CommittedOffset
) -> LogRecord:
    key = offset_key(group_id, partition)
    metadata = committed.metadata.encode()
    if committed.expire_timestamp_ms >= 0 or len(metadata) > _MAX_FAST_METADATA_BYTES:
        return LogRecord(key, _offset_by_declaration(committed))
    topic_id = committed.topic_id
    value = b"".join(
        (
            _VALUE_START.pack(
                _OFFSET_VERSION, committed.offset, committed.leader_epoch, len(metadata) + 1
            ),
            metadata,
            _TIMESTAMP.pack(committed.commit_timestamp_ms),
            b"\x00" if topic_id == NO_TOPIC_ID else _TOPIC_ID_TAG + topic_id,
        )
    )
    return LogRecord(key, value)


def _offset_by_declaration(committed: CommittedOffset) -> bytes:
    version = _OFFSET_VERSION if committed.expire_timestamp_ms < 0 else _OFFSET_VERSION_WITH_EXPIRY
    value = OffsetCommitValue(
        offset=committed.offset,
        leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        commit_timestamp=committed.commit_timestamp_ms,
        expire_timestamp=committed.expire_timestamp_ms,
        topic_id=committed.topic_id,
    )
    return encode_versioned(value, version)


def offset_tombstone(group_id: str, partition: TopicPartition) -> LogRecord:
    return LogRecord(offset_key(group_id, partition), None)


def read_offset_key(key: bytes) -> tuple[str, TopicPartition]:
    try:
        topic_at = 6 + _LENGTH.unpack_from(key, 2)[0]
        end = topic_at + _LENGTH.unpack_from(key, topic_at - 2)[0]
        if topic_at >= 6 and end >= topic_at and len(key) == end + _PARTITION.size:
            topic = key[topic_at:end].decode()
            partition = TopicPartition(topic, _PARTITION.unpack_from(key, end)[0])
            return key[4 : topic_at - 2].decode(), partition
    except (struct.error, UnicodeDecodeError):
        pass
    # The declaration raises an error that says what is wrong.
    read = OffsetCommitKey.decode(key, 1, _KIND.size)
    return read.group, TopicPartition(read.topic, read.partition)


def read_offset(value: bytes, log_offset: int) -> CommittedOffset:
    size = len(value)
    if size >= _MIN_VALUE_BYTES:
        version, offset, leader_epoch, length = _VALUE_START.unpack_from(value)
        # The positions of the commit timestamp and of the tagged fields.
        time_at = _VALUE_START.size - 1 + length
        tags_at = time_at + _TIMESTAMP.size
        if (
            version == _OFFSET_VERSION
            and 0 < length <= _MAX_FAST_METADATA_BYTES + 1
            and tags_at < size
        ):
            tags = value[tags_at:]
            has_id = len(tags) == _TAGS_WITH_TOPIC_ID_BYTES and tags.startswith(_TOPIC_ID_TAG)
            if has_id or tags == b"\x00":
                return CommittedOffset(
                    offset,
                    leader_epoch,
                    _text(value[_VALUE_START.size : time_at]),
                    _TIMESTAMP.unpack_from(value, time_at)[0],
                    -1,
                    TopicId(tags[len(_TOPIC_ID_TAG) :]) if has_id else NO_TOPIC_ID,
                    log_offset,
                )
    read = decode_versioned(OffsetCommitValue, value)
    return CommittedOffset(
        read.offset,
        read.leader_epoch,
        read.metadata,
        read.commit_timestamp,
        read.expire_timestamp,
        read.topic_id,
        log_offset,
    )


def _text(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise MalformedMessage("an offset's metadata is not UTF-8 text") from error


# Classic groups


def group_key(group_id: str) -> bytes:
    (content,) = GroupMetadataKey(group=group_id).encode(2, [_KIND.pack(CLASSIC_GROUP)])
    if not isinstance(content, bytes):
        raise TypeError("a key is bytes")
    return content


def group_record(group_id: str, value: GroupMetadataValue) -> LogRecord:
    return LogRecord(group_key(group_id), encode_versioned(value, _GROUP_VERSION))


def group_tombstone(group_id: str) -> LogRecord:
    return LogRecord(group_key(group_id), None)


def read_group_key(key: bytes) -> str:
    return GroupMetadataKey.decode(key, 2, _KIND.size).group


def read_group(value: bytes) -> GroupMetadataValue:
    return decode_versioned(GroupMetadataValue, value)
