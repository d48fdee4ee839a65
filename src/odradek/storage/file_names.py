"""The names of files and directories. They are the same as Kafka's."""

import re
from uuid import UUID

from odradek.protocol.types import Offset, TopicPartition

LOG_SUFFIX = ".log"
INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
TRANSACTION_INDEX_SUFFIX = ".txnindex"
SNAPSHOT_SUFFIX = ".snapshot"
DELETED_SUFFIX = ".deleted"
CLEANED_SUFFIX = ".cleaned"
SWAP_SUFFIX = ".swap"

# The first bytes of an encrypted file. No segment begins like this: its first offset is positive.
ENCRYPTED_FILE = b"\xf0ODRKENC"

# The files of a compacted segment. The `.log` is renamed last: from then on the new segment counts.
COMPACTED_FILES = (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX, LOG_SUFFIX)
SEGMENT_SUFFIXES = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)

LEADER_EPOCH_CHECKPOINT = "leader-epoch-checkpoint"
PARTITION_METADATA = "partition.metadata"

META_PROPERTIES = "meta.properties"
RECOVERY_POINT_CHECKPOINT = "recovery-point-offset-checkpoint"
LOG_START_CHECKPOINT = "log-start-offset-checkpoint"
CLEANER_CHECKPOINT = "cleaner-offset-checkpoint"
HIGH_WATERMARK_CHECKPOINT = "replication-offset-checkpoint"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
LOCK = ".lock"

# Kafka's own metadata log is beside the partitions. Kafka's brokers skip it, and so do we.
METADATA_TOPIC = "__cluster_metadata"

DELETE_DIRECTORY_SUFFIX = "-delete"
STRAY_DIRECTORY_SUFFIX = "-stray"
_MAX_NAME_BYTES = 255

_PARTITION_DIRECTORY = re.compile(r"([A-Za-z0-9._-]{1,249})-(0|[1-9][0-9]{0,9})")
_DELETED_DIRECTORY = re.compile(r".+\.[0-9a-f]{32}-(delete|stray|future)")
_OFFSET_DIGITS = 20
# Of the identifier in the name of a deleted directory.
_HEX_DIGITS = 32


def offset_file(directory: str, offset: Offset, suffix: str) -> str:
    return f"{directory}/{offset:020d}{suffix}"


def parse_offset_file(name: str) -> tuple[Offset, str] | None:
    """Returns offset and suffix of a segment's file or a snapshot; None for any other name."""
    digits, suffix = name[:_OFFSET_DIGITS], name[_OFFSET_DIGITS:]
    if len(digits) != _OFFSET_DIGITS or not digits.isdecimal() or suffix.rfind(".") != 0:
        return None
    return Offset(int(digits)), suffix


def partition_directory(topic_partition: TopicPartition) -> str:
    return f"{topic_partition.topic}-{topic_partition.partition}"


def parse_partition_directory(name: str) -> TopicPartition | None:
    match = _PARTITION_DIRECTORY.fullmatch(name)
    if not match or match[1] in (".", "..", METADATA_TOPIC):
        return None
    return TopicPartition(match[1], int(match[2]))


def deleted_directory(topic_partition: TopicPartition, unique: UUID) -> str:
    return _renamed(topic_partition, unique, DELETE_DIRECTORY_SUFFIX)


def stray_directory(topic_partition: TopicPartition, unique: UUID) -> str:
    """The directory of a log that the cluster does not know: it is neither served nor deleted."""
    return _renamed(topic_partition, unique, STRAY_DIRECTORY_SUFFIX)


def _renamed(topic_partition: TopicPartition, unique: UUID, ending: str) -> str:
    suffix = f"-{topic_partition.partition}.{unique.hex}{ending}"
    return topic_partition.topic[: _MAX_NAME_BYTES - len(suffix)] + suffix


def is_former_directory(name: str, topic_partition: TopicPartition) -> bool:
    """Returns whether a directory is what the broker made of that of this partition, when it
    deleted the log or set it aside."""
    for ending in (DELETE_DIRECTORY_SUFFIX, STRAY_DIRECTORY_SUFFIX):
        # The name without the identifier, which is the same for every partition directory.
        before = _renamed(topic_partition, UUID(int=0), ending)[: -_HEX_DIGITS - len(ending)]
        if name.startswith(before) and name.endswith(ending):
            return _DELETED_DIRECTORY.fullmatch(name) is not None
    return False


def is_deleted_directory(name: str) -> bool:
    return name.endswith(DELETE_DIRECTORY_SUFFIX) and _DELETED_DIRECTORY.fullmatch(name) is not None
