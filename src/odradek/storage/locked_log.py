"""A log that is on disk and was not loaded, because the keys of its encrypted files cannot be had.

`LogManager` makes it when the broker starts, in place of the log, and loads the log when the keys
can be had.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from odradek.protocol.types import NO_TOPIC_ID, TopicId, TopicPartition
from odradek.storage.file_names import PARTITION_METADATA
from odradek.storage.text_files import MalformedCheckpoint, decode_partition_metadata
from odradek.world import Disk

if TYPE_CHECKING:
    from odradek.storage.log import Log
    from odradek.storage.log_directory import LogDirectory


class LockedLog(NamedTuple):
    topic_partition: TopicPartition
    directory: "LogDirectory"
    path: str
    topic_id: TopicId
    # Whether the last broker was stopped cleanly. If not, the log is to be recovered.
    is_clean: bool
    load: Callable[[], "Log"]


def read_topic_id(disk: Disk, path: str) -> TopicId:
    """The topic id of the log in a directory; NO_TOPIC_ID if it is not known."""
    try:
        return decode_partition_metadata(disk.read(f"{path}/{PARTITION_METADATA}"))
    except (FileNotFoundError, MalformedCheckpoint):
        return NO_TOPIC_ID
