"""The checkpoint files of all log directories: recovery points, log start offsets, high watermarks,
and the offsets up to which logs are compacted.

The table in docs/storage.md ("Checkpoint files") lists what each file may contain when it is stale.
All of them are written by `CheckpointFile`.

Invariant: a checkpoint on disk never claims more than is true, and never contains an entry of a
deleted topic once a new topic has the same name.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from odradek.protocol.types import FIRST_OFFSET, Offset, TopicPartition
from odradek.storage.checkpoint_file import CheckpointFile, Offsets
from odradek.storage.file_names import (
    CLEANER_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
)
from odradek.storage.locked_log import LockedLog
from odradek.storage.log import Log
from odradek.storage.log_directory import LogDirectory
from odradek.world import World


class Checkpoints(NamedTuple):
    """The checkpoint files of one log directory."""

    recovery_points: CheckpointFile
    log_starts: CheckpointFile
    high_watermarks: CheckpointFile
    compacted: CheckpointFile

    def read(self) -> "CheckpointedOffsets":
        return CheckpointedOffsets(
            self.recovery_points.read(),
            self.log_starts.read(),
            self.high_watermarks.read(),
            self.compacted.read(),
            has_recovery_points=self.recovery_points.was_found,
        )


class CheckpointedOffsets(NamedTuple):
    """The content of the checkpoint files of one log directory when it is loaded."""

    recovery_points: Offsets
    log_starts: Offsets
    high_watermarks: Offsets
    compacted: Offsets
    has_recovery_points: bool

    def gaps_allowed_below(self, topic_partition: TopicPartition) -> Offset | None:
        """Returns the offset below which compaction may have left gaps between segments.

        A pass of the cleaner ends below a recovery point that it has made durable first. None if
        the file with the recovery points was lost: then nothing is known.
        """
        if not self.has_recovery_points:
            return None
        return max(
            self.recovery_points.get(topic_partition, FIRST_OFFSET),
            # Kafka's cleaner does not wait for the recovery point.
            self.compacted.get(topic_partition, FIRST_OFFSET),
        )

    def with_records(self, *, is_whole: bool) -> dict[TopicPartition, None]:
        """Returns the partitions whose records, and so whose directories, were on the disk when
        the files were written. `is_whole` says that nothing was lost with a page cache since: then
        those with committed records count too, whether or not they were flushed."""
        known = [self.recovery_points, self.high_watermarks] if is_whole else [self.recovery_points]
        return {
            topic_partition: None
            for offsets in known
            for topic_partition, offset in offsets.items()
            if offset > 0
        }


class Checkpointer:
    """Writes the checkpoints of all directories. `logs` is `LogManager.logs`, which changes."""

    def __init__(self, logs: Mapping[TopicPartition, Log], world: World) -> None:
        self._logs = logs
        self._world = world
        self._checkpoints: dict[LogDirectory, Checkpoints] = {}
        # Logs that are not loaded, because their keys cannot be had, keep their entries.
        self.locked: Mapping[TopicPartition, LockedLog] = {}
        # Logs that had records, and whose directory was not there any more when the broker started.
        # They keep their entries, which alone tell of them, until the broker has registered.
        self.removed: dict[TopicPartition, LogDirectory] = {}
        # Directories in which logs were deleted since their files were written.
        self._with_deleted_logs: set[LogDirectory] = set()

    def of_directory(self, directory: LogDirectory) -> Checkpoints:
        checkpoints = self._checkpoints.get(directory)
        if checkpoints is None:
            make = partial(self._make, directory)
            checkpoints = self._checkpoints[directory] = Checkpoints(
                make(RECOVERY_POINT_CHECKPOINT, _recovery_point),
                make(LOG_START_CHECKPOINT, _log_start),
                make(HIGH_WATERMARK_CHECKPOINT, _high_watermark),
                make(CLEANER_CHECKPOINT, _compacted),
            )
        return checkpoints

    def _make(
        self, directory: LogDirectory, name: str, offset_of: Callable[[Log], Offset | None]
    ) -> CheckpointFile:
        """`offset_of` returns None for a log that has no entry in this file."""

        def current() -> Iterator[tuple[TopicPartition, Offset | None]]:
            for locked in self.locked.values():
                if locked.directory is directory:
                    yield locked.topic_partition, file.entries.get(locked.topic_partition)
            for removed, home in self.removed.items():
                if home is directory:
                    yield removed, file.entries.get(removed)
            for log in self._logs_in(directory):
                name = log.topic_partition
                # It may have been deleted, or replaced by another, since the list was made.
                yield name, offset_of(log) if self._logs.get(name) is log else None

        file = CheckpointFile(directory, name, self._world, current)
        return file

    def _logs_in(self, directory: LogDirectory) -> list[Log]:
        return [log for log in self._logs.values() if log.directory is directory]

    # Changes that must be written at once

    def truncated(self, log: Log) -> None:
        """A log was truncated, and its start offset may have been set back. `Log` calls this before
        the next append. With the old checkpoints a crash could skip or hide new records."""
        files, name = self.of_directory(log.directory), log.topic_partition
        files.recovery_points.limit(name, log.recovery_point)
        files.log_starts.limit(name, log.log_start_offset)
        files.high_watermarks.limit(name, log.high_watermark)
        files.compacted.limit(name, log.first_dirty_offset)

    def recovered(self, directory: LogDirectory) -> None:
        """The logs of a directory were recovered, and some may end below their checkpoints: a power
        cut removed their last records, or interrupted a truncation. `LogManager` calls this before
        the first append, after which the checkpoints would look correct."""
        for log in self._logs_in(directory):
            self.truncated(log)

    def forget(self, directory: LogDirectory, topic_partition: TopicPartition) -> None:
        """Removes the entries of an earlier topic of the same name, before a log is made."""
        self.removed.pop(topic_partition, None)
        for file in self.of_directory(directory):
            file.forget(topic_partition)

    def retired(self, log: Log) -> None:
        """A log was deleted. Housekeeping removes its entries (`drop_retired`)."""
        self._with_deleted_logs.add(log.directory)

    # Changes that are written from time to time

    async def drop_retired(self) -> None:
        """Removes the entries of deleted logs, so that `forget` seldom has to write."""
        directories, self._with_deleted_logs = self._with_deleted_logs, set()
        for directory in sorted(directories, key=lambda directory: directory.path):
            for file in self.of_directory(directory):
                await file.write()

    async def write_recovery_points(self, directory: LogDirectory) -> bool:
        return await self.of_directory(directory).recovery_points.write()

    def durable_recovery_point(self, log: Log) -> Offset:
        """Returns what the file says of a log now, which may be less than `Log.recovery_point`."""
        entries = self.of_directory(log.directory).recovery_points.entries
        return entries.get(log.topic_partition, FIRST_OFFSET)

    async def write_log_starts(self, directory: LogDirectory) -> None:
        moved = {log: log.log_start_offset for log in directory.moved_starts}
        logs = [log for log in moved if log.log_start_offset <= log.segments[0].base_offset]
        if not await self._sync_names(directory, logs):
            return
        if not await self.of_directory(directory).log_starts.write():
            return
        for log, start in moved.items():
            log.set_durable_start(start)
            if log.log_start_offset <= start:
                directory.moved_starts.pop(log, None)

    async def _sync_names(self, directory: LogDirectory, logs: list[Log]) -> bool:
        """Makes the deletion of segments durable in logs that start at their first segment. Such a
        log start is not in the checkpoint, and a power cut could restore deleted segments. Returns
        False if a sync failed."""
        for log in logs:
            try:
                with suppress(FileNotFoundError):  # Its topic was deleted.
                    await self._world.workers.run_blocking(
                        partial(self._world.disk.sync_directory, log.path)
                    )
            except OSError as error:
                directory.fail(error)
                return False
        return True

    async def checkpoint_log_start_offsets(self, directory: LogDirectory) -> None:
        """Writes log starts that have moved; `Log.durable_start_offset` says whether it worked."""
        if directory.moved_starts:
            await self.write_log_starts(directory)

    async def write_high_watermarks(self, directory: LogDirectory) -> None:
        await self.of_directory(directory).high_watermarks.write()

    async def write_compacted(self, directory: LogDirectory) -> None:
        await self.of_directory(directory).compacted.write()


def _recovery_point(log: Log) -> Offset | None:
    return None if log.has_failed else log.recovery_point


def _log_start(log: Log) -> Offset | None:
    """Only log start offsets that differ from the base offset of the first segment."""
    start = log.log_start_offset
    return start if start > log.segments[0].base_offset else None


def _high_watermark(log: Log) -> Offset | None:
    return None if log.has_failed else log.high_watermark


def _compacted(log: Log) -> Offset | None:
    """A log that has failed keeps its entry: without it, and without a recovery point, the next
    start would take the gaps that compaction left for a loss."""
    offset = log.first_dirty_offset
    return offset if log.settings.is_compacted and offset > 0 else None
