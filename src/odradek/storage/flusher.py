"""Makes a log durable with one sync at a time, in a worker thread, for all requests that wait.

`flushed` is the offset below which every record survives a power cut. The directory entries of new
files and the leader epochs are synced with the records. `recovery_point` is where recovery would
have to start: the first segment that is not durable as a whole. Its indexes and its producer
snapshot belong to it, and are synced only once it is closed.

A sync that fails takes the log directory offline and is never retried: after a failed sync the
kernel may report pages as clean that never reached the disk.
"""

import asyncio
import errno
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from odradek.protocol.types import Offset
from odradek.statemachine.watermark import Watermark
from odradek.storage.errors import LogClosed, StorageError
from odradek.storage.file_names import (
    INDEX_SUFFIX,
    LEADER_EPOCH_CHECKPOINT,
    PARTITION_METADATA,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    offset_file,
)
from odradek.storage.segment import Segment
from odradek.world import World
from odradek.world.disk import Disk, File

if TYPE_CHECKING:
    from odradek.storage.local_log import LocalLog


class Flusher:
    """Owned by a `LocalLog`. Invariant: recovery point <= flushed <= log end offset."""

    __slots__ = (
        "_clock",
        "_closed",
        "_generation",
        "_is_closed",
        "_log",
        "_requested",
        "_syncing",
        "_task",
        "_unflushed_records",
        "_workers",
        "flushed",
        "unflushed_since_s",
    )

    def __init__(self, log: "LocalLog", world: World, recovery_point: Offset) -> None:
        self.flushed = Watermark(recovery_point)
        # When the oldest record that no sync has begun for was appended, by the monotonic clock.
        self.unflushed_since_s = 0.0
        self._unflushed_records = 0
        self._log = log
        self._clock = world.clock
        self._workers = world.workers
        # Closed segments that are to be synced, and those that a sync is under way for.
        self._closed: list[Segment] = []
        self._syncing: Sequence[Segment] = ()
        self._is_closed = False
        self._requested = recovery_point
        # Counts truncations: a sync that began before one proves nothing.
        self._generation = 0
        self._task: asyncio.Task[None] | None = None

    @property
    def recovery_point(self) -> Offset:
        """Everything below it is durable, indexes and snapshots included. Never above `flushed`."""
        if self._is_closed:
            return self._log.offsets.end
        first = (self._syncing or self._closed or [self._log.segments.active])[0]
        return min(first.base_offset, self.flushed.value)

    def appended(self, record_count: int) -> None:
        """Records were appended: `flush.messages` may ask for a sync."""
        if not self._unflushed_records:
            self.unflushed_since_s = self._clock.monotonic_s()
        self._unflushed_records += record_count
        if self._unflushed_records >= self._log.segments.rules.flush_messages:
            self.request(self._log.offsets.end)

    async def flush_to(self, offset: Offset) -> None:
        """Returns when everything below `offset` survives a power cut."""
        if self.flushed.value < offset:
            self.request(offset)
            await self.flushed.wait_for(offset)

    def request(self, offset: Offset) -> None:
        """Starts a sync up to `offset` unless one is under way, which then goes on to it."""
        self._requested = max(self._requested, offset)
        if self._task is None:
            try:
                loop = asyncio.get_running_loop()
            except RuntimeError:
                return  # The next sync that runs on a loop, at the latest in `close`, includes it.
            self._task = loop.create_task(self._run())

    def segment_closed(self, segment: Segment) -> None:
        """A segment was closed: it is synced soon, although no request waits for it."""
        self._closed.append(segment)
        self.request(segment.next_offset)

    def segments_gone(self, segments: Sequence[Segment]) -> None:
        """Segments have left the log: they are not to be synced any more, nor again if the sync
        that is under way fails."""
        self._closed = [segment for segment in self._closed if segment not in segments]
        self._syncing = [segment for segment in self._syncing if segment not in segments]

    def truncated(self, log_end_offset: Offset) -> None:
        """The log was truncated: requests that wait for a higher offset fail, and `flushed` is set
        back to the log end."""
        self._generation += 1
        self._requested = min(self._requested, log_end_offset)
        flushed = self.flushed
        self.flushed = Watermark(min(flushed.value, log_end_offset))
        flushed.fail(LogClosed("the log was truncated below what was to be flushed"))

    @property
    def truncations(self) -> int:
        """How often the log was truncated. The cleaner gives up a pass when this changes."""
        return self._generation

    def fail(self, reason: StorageError) -> None:
        self.flushed.fail(reason)

    def adopt(self, segments: Sequence[Segment]) -> None:
        """Takes over closed segments that recovery has read: they are possibly not durable."""
        self._closed.extend(segments)

    async def close(self) -> bool:
        """Syncs everything: the indexes and the snapshot of the active segment, the leader epochs,
        the directory entries. Returns False if that failed: then the next start must recover."""
        while self._task is not None:
            await asyncio.wait([self._task])
        if not self._log.is_usable:
            return False
        self._requested = self._log.offsets.end
        self._is_closed = await self._sync(is_last=True)
        return self._is_closed

    async def _run(self) -> None:
        try:
            while self._log.is_usable and (self._requested > self.flushed.value or self._closed):
                if not await self._sync():
                    break
        finally:
            self._task = None

    async def _sync(self, *, is_last: bool = False) -> bool:
        """Syncs up to the offset that was requested last. Returns False if that failed."""
        log, generation = self._log, self._generation
        directory, end = log.directory, log.offsets.end
        active = log.segments.active
        closed, self._closed = self._closed, []
        self._syncing = closed
        target = end if self._requested > active.base_offset else active.base_offset
        segments = [*closed, active] if target > active.base_offset and active.size else closed
        handles: list[File] = []
        epochs = log.leader_epochs.take_unsynced()
        unsynced = log.entries.take_unsynced()
        whole = segments if is_last else closed
        paths = [path for segment in whole for path in _files_of_closed(segment, log.path)]
        if unsynced.has_new_topic_id:
            paths.append(f"{log.path}/{PARTITION_METADATA}")
        parent = directory.path if log.entries.created_version > directory.synced_version else None
        work = partial(
            _sync_files,
            directory.disk,
            handles,
            paths,
            log,
            epochs,
            has_new_entries=unsynced.has_changed,
            parent=parent,
        )
        names_version = directory.names_version
        if target == end:
            self._unflushed_records = 0
        try:
            for segment in segments:
                handles.append(segment.file.pin())
            await self._workers.run_blocking(work)
        except OSError as error:
            log.entries.keep_topic_id(unsynced)
            if log.is_usable:  # The files of a deleted log are expected to be gone.
                self._failed(directory.fail(error))
            return False
        else:
            if parent is not None:
                directory.synced_version = max(directory.synced_version, names_version)
            if generation == self._generation and log.is_usable:
                # A log that went offline meanwhile has left out the directory entries.
                self._advance(target)
            return True
        finally:
            self._syncing = ()
            for segment in segments[: len(handles)]:
                segment.file.unpin()

    def _advance(self, flushed: Offset) -> None:
        """Everything below `flushed` was synced."""
        if flushed > self._log.offsets.end:
            # The task that syncs is awaited by no caller; those who wait for `flushed` fail.
            self._log.fail(
                self._log.history.violation(
                    f"{flushed} is flushed, but the log ends at {self._log.offsets.end}"
                )
            )
            return
        self.flushed.advance(flushed)

    def check(self) -> None:
        end = self._log.offsets.end
        if not self.recovery_point <= self.flushed.value <= end:
            raise self._log.history.violation(
                f"the recovery point is {self.recovery_point}, {self.flushed.value} is flushed, "
                f"but the log ends at {end}"
            )

    def _failed(self, reason: StorageError) -> None:
        """If the directory went offline, its logs have failed everything that waits. Else there was
        no descriptor or no space: requests that wait fail, nothing is recorded as synced, and a
        later sync may succeed."""
        if self._log.is_usable:
            self._closed[:0] = self._syncing
            self._log.entries.change()
            self._log.leader_epochs.is_dirty = True
            self._requested = self.flushed.value
            waiting, self.flushed = self.flushed, Watermark(self.flushed.value)
            waiting.fail(reason)


def _files_of_closed(segment: Segment, directory: str) -> list[str]:
    """The index files of a closed segment, and the snapshot taken when it was closed."""
    return [
        offset_file(directory, segment.base_offset, INDEX_SUFFIX),
        offset_file(directory, segment.base_offset, TIME_INDEX_SUFFIX),
        offset_file(directory, segment.base_offset, TRANSACTION_INDEX_SUFFIX),
        offset_file(directory, segment.next_offset, SNAPSHOT_SUFFIX),
    ]


def _sync_files(
    disk: Disk,
    handles: list[File],
    paths: list[str],
    log: "LocalLog",
    epochs: bytes | None,
    *,
    has_new_entries: bool,
    parent: str | None,
) -> None:
    """Runs in a worker thread: nothing here changes the log's own state."""
    for handle in handles:
        _sync_file(handle)
    for path in paths:
        try:
            file = disk.open(path)
        except FileNotFoundError:
            continue  # Retention has deleted it meanwhile.
        try:
            _sync_file(file)
        finally:
            file.close()
    directory = log.path
    if not log.is_usable:
        return  # Deleted meanwhile; another log may have taken its name.
    if epochs is not None:
        # This syncs the directory, and with it all its entries.
        disk.replace(f"{directory}/{LEADER_EPOCH_CHECKPOINT}", epochs)
    elif has_new_entries:
        disk.sync_directory(directory)
    if parent is not None:
        disk.sync_directory(parent)


def _sync_file(file: File) -> None:
    """A sync that fails is never retried, not even after ENOSPC: the pages may be lost."""
    try:
        file.sync()
    except OSError as error:
        raise OSError(errno.EIO, f"a sync failed: {error.strerror}") from error
