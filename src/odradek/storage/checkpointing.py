"""Writes the checkpoints of a log directory: where recovery starts, logs start, replicas agree.

Offsets that rose are written when it is time, off the loop: an older checkpoint is true as well.
An offset that fell is written at once, and where there is no room for that, the file goes.

Invariant: a checkpoint on disk never says more than is true.
"""

from collections.abc import Mapping
from contextlib import suppress
from functools import partial

from odradek.protocol.types import TopicPartition
from odradek.storage.checkpoints import encode_offsets
from odradek.storage.directory import LogDirectory
from odradek.storage.log import Log
from odradek.storage.names import (
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
)
from odradek.world import World


class Checkpointer:
    """`logs` are those of all directories, as they come and go."""

    def __init__(self, logs: Mapping[TopicPartition, Log], world: World) -> None:
        self._logs = logs
        self._world = world
        # Whose recovery points are being written, and are to be written again.
        self._writing: set[LogDirectory] = set()
        self._again: set[LogDirectory] = set()

    async def write_recovery_points(self, directory: LogDirectory) -> None:
        """Where recovery would have to start."""
        self._writing.add(directory)
        try:
            await self._write(
                directory, RECOVERY_POINT_CHECKPOINT, self._recovery_points(directory)
            )
        finally:
            self._writing.discard(directory)
        if directory in self._again:
            self._again.discard(directory)
            self.recovery_point_fell(directory)

    def recovery_point_fell(self, directory: LogDirectory) -> None:
        """Until that is on disk, a crash could skip unflushed records."""
        if directory in self._writing:
            self._again.add(directory)
            return
        # Without a checkpoint everything is recovered: slow, and right.
        self.lower(directory, RECOVERY_POINT_CHECKPOINT, self._recovery_points(directory))

    def lower(
        self, directory: LogDirectory, name: str, offsets: Mapping[TopicPartition, int]
    ) -> None:
        """Writes offsets of which one fell, before anything else happens."""
        disk, path = self._world.disk, f"{directory.path}/{name}"
        try:
            disk.replace(path, encode_offsets(offsets))
        except OSError as error:
            directory.fail(error)
            if directory.is_online:
                # For want of room or of a descriptor, and a removal needs neither.
                try:
                    with suppress(FileNotFoundError):
                        disk.remove(path)
                        disk.sync_directory(directory.path)
                except OSError as failure:
                    directory.fail(failure, is_halfway=True)

    async def write_log_starts(self, directory: LogDirectory) -> None:
        async with directory.log_starts_lock:
            await self._write_log_starts(directory)

    async def keep_log_starts(self, directory: LogDirectory) -> None:
        """Returns when no crash can take back a log start that has moved."""
        async with directory.log_starts_lock:
            if directory.log_starts_changed:
                await self._write_log_starts(directory)

    async def _write_log_starts(self, directory: LogDirectory) -> None:
        """Only offsets that no segment's name tells."""
        directory.log_starts_changed = False
        offsets = {
            log.topic_partition: log.log_start_offset
            for log in self._logs_in(directory)
            if log.log_start_offset > log.segments[0].base_offset
        }
        if not await self._write(directory, LOG_START_CHECKPOINT, offsets):
            directory.log_starts_changed = True

    async def write_high_watermarks(self, directory: LogDirectory) -> None:
        offsets = {log.topic_partition: log.high_watermark for log in self._logs_in(directory)}
        await self._write(directory, HIGH_WATERMARK_CHECKPOINT, offsets)

    def _recovery_points(self, directory: LogDirectory) -> dict[TopicPartition, int]:
        return {log.topic_partition: log.recovery_point for log in self._logs_in(directory)}

    def _logs_in(self, directory: LogDirectory) -> list[Log]:
        return [log for log in self._logs.values() if log.directory is directory]

    async def _write(
        self, directory: LogDirectory, name: str, offsets: Mapping[TopicPartition, int]
    ) -> bool:
        if not directory.is_online:
            return False
        work = partial(
            self._world.disk.replace, f"{directory.path}/{name}", encode_offsets(offsets)
        )
        try:
            await self._world.workers.run_blocking(work)
        except OSError as error:
            directory.fail(error)
            return False
        return True
