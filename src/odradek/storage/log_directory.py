"""One of the `log.dirs`: online until its first failed write or sync, then offline until a restart.

After a failed sync the kernel may report pages as clean that never reached the disk, so a retry
would succeed wrongly. The directory goes offline at once, with every log in it; the other
directories are served.

A full disk is not a broken disk: a write that found no space was truncated to the last whole batch.
The directory is *full* then, not offline. Its logs refuse records and are read as before, and the
reserved space is released for what must still be written. When there is space again the logs take
records again.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Protocol
from uuid import UUID

from odradek.protocol.types import TopicPartition
from odradek.storage.disk_errors import Answer, answer_to
from odradek.storage.errors import (
    LogDirectoryFailed,
    LogDirectoryFull,
    ResourceShortage,
    StorageError,
)
from odradek.storage.reserved_space import ReservedSpace
from odradek.storage.segment_indexes import SegmentStores
from odradek.storage.subscribers import Subscribers
from odradek.world.disk import Disk

if TYPE_CHECKING:
    from odradek.storage.log import Log

NO_DIRECTORY_ID = UUID(int=0)


class InDirectory(Protocol):
    """What a directory needs of a log."""

    def go_offline(self, failure: LogDirectoryFailed) -> None: ...

    def refuse_appends(self, reason: LogDirectoryFull | None) -> None:
        """Appends raise `reason` from now on; with None they succeed again."""
        ...


class LogDirectory:
    __slots__ = (
        "_deletions",
        "_tickets",
        "decompression_lock",
        "directory_id",
        "disk",
        "failure",
        "full",
        "logs",
        "moved_starts",
        "must_recover",
        "names_version",
        "on_failure",
        "on_full",
        "on_log_failure",
        "on_truncation",
        "path",
        "reserve",
        "shortened",
        "store_id",
        "stores",
        "synced_version",
    )

    def __init__(
        self,
        path: str,
        disk: Disk,
        stores: SegmentStores | None = None,
        *,
        reserve_bytes: int = 0,
    ) -> None:
        self.path = path
        self.disk = disk
        self.stores = stores or SegmentStores(disk)
        self.directory_id = NO_DIRECTORY_ID
        # The id of the metadata store that knows the logs of this directory.
        self.store_id = ""
        self.failure: LogDirectoryFailed | None = None
        self.full: LogDirectoryFull | None = None
        self.reserve = ReservedSpace(disk, path, reserve_bytes)
        self.logs: dict[InDirectory, None] = {}
        # How many partition directories were made, and how many of them are durable.
        self.names_version = 0
        self.synced_version = 0
        # Logs whose start DeleteRecords, or the leader, has moved since it was last checkpointed.
        self.moved_starts: dict[Log, None] = {}
        # Held while a very large batch is decompressed (`validation.validate_in_steps`).
        self.decompression_lock = asyncio.Lock()
        # Logs with segments below their start offset that are still to be deleted.
        self.shortened: dict[Log, None] = {}
        # Whether a log could not be closed cleanly: then the next start must recover.
        self.must_recover = False
        # Called when a single log went offline (`Log.fail`).
        self.on_log_failure: Subscribers[TopicPartition] = Subscribers()
        # Called when the directory went offline, and when it has become full.
        self.on_failure: Subscribers[LogDirectory] = Subscribers()
        self.on_full: Subscribers[LogDirectory] = Subscribers()
        # Called when a log was truncated: no checkpoint may claim more than is left of it.
        self.on_truncation: Subscribers[Log] = Subscribers()
        self._deletions: list[tuple[float, int, Callable[[], None]]] = []
        self._tickets = count()

    @property
    def is_online(self) -> bool:
        return self.failure is None

    def fail(self, error: OSError, *, is_halfway: bool = False) -> StorageError:
        """Does what `disk_errors` decides about an error, and returns the exception to raise.

        `is_halfway` says that the caller cannot undo what it has begun.
        """
        if self.failure is not None:
            return self.failure
        answer = answer_to(error, is_halfway=is_halfway)
        if answer is Answer.REFUSE:
            return ResourceShortage(error)
        if answer is Answer.FULL:
            return self.run_out_of_room(error)
        failure = self.failure = LogDirectoryFailed(self.path, str(error))
        logs, self.logs = self.logs, {}
        for log in logs:
            log.go_offline(failure)
        self.on_failure.notify(self)
        return failure

    @contextmanager
    def disk_errors(self) -> Iterator[None]:
        """Raises what `fail` returns for an `OSError` inside. Too slow for every append."""
        try:
            yield
        except OSError as error:
            raise self.fail(error) from error

    def run_out_of_room(self, error: OSError) -> LogDirectoryFull:
        """The logs refuse records from now on, until `find_room` has found space."""
        if self.full is None:
            self.full = LogDirectoryFull(self.path, error.strerror or str(error))
            with suppress(OSError):  # Then checkpoints find no space either.
                self.reserve.release()
            for log in self.logs:
                log.refuse_appends(self.full)
            self.on_full.notify(self)
        return self.full

    def find_room(self) -> bool:
        """Returns whether a full directory takes records again."""
        if self.failure is not None or self.full is None or not self.reserve.find_room():
            return False
        self.full = None
        for log in self.logs:
            log.refuse_appends(None)
        return True

    def add_name(self) -> int:
        """A partition's directory was made. It is durable once the returned version is synced."""
        self.names_version += 1
        return self.names_version

    # Deletions that wait for `file.delete.delay.ms`

    def delete_later(self, due_s: float, delete: Callable[[], None]) -> None:
        heappush(self._deletions, (due_s, next(self._tickets), delete))

    def take_due_deletions(self, now_s: float, most: int = 64) -> list[Callable[[], None]]:
        """The deletions that are due, a bounded number of them. If the disk is full all are due.

        To be run in a worker thread: deleting a file of a gigabyte takes long.
        """
        due: list[Callable[[], None]] = []
        waiting = self._deletions
        if self.full is not None:
            now_s = float("inf")
        while waiting and waiting[0][0] <= now_s and len(due) < most and self.is_online:
            due.append(heappop(waiting)[2])
        return due
