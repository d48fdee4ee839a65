"""One of the `log.dirs`: online until its first failed write or sync, offline ever after.

After a failed sync the kernel may call pages clean that never reached the disk, so a retry
would lie. The directory goes offline at once, with every log in it; the others go on.
"""

import asyncio
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from typing import Protocol
from uuid import UUID

from odradek.storage.descriptors import NO_DESCRIPTOR_LEFT
from odradek.storage.errors import LogDirectoryFailed, StorageError
from odradek.storage.segment import SegmentStores
from odradek.world.disk import Disk

NO_DIRECTORY_ID = UUID(int=0)


class InDirectory(Protocol):
    """A log, as far as its directory cares."""

    def go_offline(self, failure: LogDirectoryFailed) -> None: ...


class LogDirectory:
    __slots__ = (
        "_deletions",
        "_tickets",
        "directory_id",
        "disk",
        "failure",
        "log_starts_changed",
        "log_starts_lock",
        "logs",
        "names_version",
        "on_clean_part_cut",
        "on_failure",
        "on_truncation",
        "path",
        "store_id",
        "stores",
        "synced_version",
    )

    def __init__(self, path: str, disk: Disk, stores: SegmentStores | None = None) -> None:
        self.path = path
        self.disk = disk
        self.stores = stores or SegmentStores(disk)
        self.directory_id = NO_DIRECTORY_ID
        # The metadata store in which the logs of this directory are written down.
        self.store_id = ""
        self.failure: LogDirectoryFailed | None = None
        self.logs: dict[InDirectory, None] = {}
        # How many partition directories were made, and how many of their names are durable.
        self.names_version = 0
        self.synced_version = 0
        # Whether a log start offset has moved since it was last checkpointed.
        self.log_starts_changed = False
        # Two replacements of one checkpoint must not overlap.
        self.log_starts_lock = asyncio.Lock()
        self.on_failure: Callable[[LogDirectory], None] | None = None
        # Called when a recovery point fell: one on disk must not claim more than is flushed.
        self.on_truncation: Callable[[LogDirectory], None] | None = None
        # Called when records were cut off that count as compacted: the checkpoint must not say so.
        self.on_clean_part_cut: Callable[[LogDirectory], None] | None = None
        self._deletions: list[tuple[float, int, Callable[[], None]]] = []
        self._tickets = count()

    @property
    def is_online(self) -> bool:
        return self.failure is None

    def fail(self, error: OSError) -> StorageError:
        """Takes the directory offline, if it is not, and returns what to raise.

        Too many open files is not the disk's fault: the call fails, the directory stays.
        """
        if self.failure is not None:
            return self.failure
        if error.errno in NO_DESCRIPTOR_LEFT:
            return StorageError(f"too many open files, raise the limit (ulimit -n): {error}")
        failure = self.failure = LogDirectoryFailed(self.path, str(error))
        logs, self.logs = self.logs, {}
        for log in logs:
            log.go_offline(failure)
        if self.on_failure is not None:
            self.on_failure(self)
        return failure

    def add_name(self) -> int:
        """A partition's directory was made: it is durable once this version was synced."""
        self.names_version += 1
        return self.names_version

    # Deletions that wait for `file.delete.delay.ms`

    def delete_later(self, due_s: float, delete: Callable[[], None]) -> None:
        heappush(self._deletions, (due_s, next(self._tickets), delete))

    def take_due_deletions(self, now_s: float, most: int = 64) -> list[Callable[[], None]]:
        """The deletions whose time has come, a bounded number of them.

        To be run off the loop: freeing a file of a gigabyte takes its time.
        """
        due: list[Callable[[], None]] = []
        waiting = self._deletions
        while waiting and waiting[0][0] <= now_s and len(due) < most and self.is_online:
            due.append(heappop(waiting)[2])
        return due
