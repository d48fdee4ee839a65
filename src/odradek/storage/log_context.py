"""The directory of one log, and the objects that the parts of the log share."""

from typing import NamedTuple

from odradek.storage.directory_entries import DirectoryEntries
from odradek.storage.log_directory import LogDirectory
from odradek.storage.log_history import LogHistory
from odradek.world import World
from odradek.world.disk import Disk


class LogContext(NamedTuple):
    # The directory of the partition.
    partition_path: str
    # The directory in `log.dirs` that contains it.
    log_directory: LogDirectory
    world: World
    # Which changes of file names in the partition's directory are durable.
    directory_entries: DirectoryEntries
    # The last events of the log, for the message of an `InvariantViolation`.
    history: LogHistory

    @property
    def disk(self) -> Disk:
        return self.log_directory.disk
