"""What the parts of one log share: the place of its files, and the objects that note changes."""

from typing import NamedTuple

from odradek.storage.directory_entries import DirectoryEntries
from odradek.storage.log_directory import LogDirectory
from odradek.storage.log_history import LogHistory
from odradek.world import World
from odradek.world.disk import Disk


class LogContext(NamedTuple):
    # The directory of the partition, and the one of the `log.dirs` that holds it.
    path: str
    directory: LogDirectory
    world: World
    entries: DirectoryEntries
    history: LogHistory

    @property
    def disk(self) -> Disk:
        return self.directory.disk
