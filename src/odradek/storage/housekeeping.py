"""The periodic work on the logs of a broker: `flush.ms`, checkpoints, retention, file deletion.

Each kind of work has its own loop with its own interval. A round over thousands of logs or segments
yields to other tasks after each `Timeslice`, so that requests are not delayed.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING

from odradek.invariants import InvariantViolation
from odradek.storage.errors import StorageError
from odradek.storage.log import REMOVED_AT_ONCE, Log
from odradek.storage.validation import MAX_LONG
from odradek.world import World
from odradek.world.timeslice import Timeslice

if TYPE_CHECKING:
    from odradek.storage.manager import LogManager

logger = logging.getLogger("odradek.storage")

_TICK_S = 1.0
_MIN_TICK_S = 0.01
_DELETION_RETRY_S = 10.0


class Housekeeping:
    def __init__(self, manager: "LogManager", world: World) -> None:
        self._manager = manager
        self._world = world

    async def run(self) -> None:
        settings = self._manager.settings
        async with asyncio.TaskGroup() as group:
            group.create_task(self._tick())
            group.create_task(
                _every(settings.log_flush_offset_checkpoint_interval_ms, self.write_checkpoints)
            )
            group.create_task(
                _every(settings.log_flush_start_offset_checkpoint_interval_ms, self._log_starts)
            )
            group.create_task(
                _every(
                    settings.log_retention_check_interval_ms,
                    self.apply_retention,
                    first_ms=settings.log_initial_task_delay_ms,
                )
            )
            group.create_task(
                _every(settings.producer_id_expiration_check_interval_ms, self.expire_producers)
            )

    async def _tick(self) -> None:
        await self.make_reserves()
        while True:
            await asyncio.sleep(self._next_tick_s())
            self.flush_by_age()
            await self.write_indexes()
            if self._manager.full_directories:
                await self.make_room()
            await self.remove_passed()
            await self.delete_files()
            # Records that DeleteRecords deleted should not be there again after a kill.
            await self._manager.checkpoint_log_start_offsets()
            await self._manager.checkpoints.drop_retired()

    async def make_reserves(self) -> None:
        for directory in self._manager.directories:
            if directory.is_online and directory.full is None:
                try:
                    await self._world.workers.run_blocking(directory.reserve.make)
                except OSError as error:
                    directory.fail(error)

    async def make_room(self) -> None:
        """A disk is full: deletes what retention allows, and files without waiting for
        `file.delete.delay.ms`."""
        await self.apply_retention()
        await self.delete_files()
        self._manager.find_room()

    def _next_tick_s(self) -> float:
        shortest_ms = min(
            (log.settings.flush_ms for log in self._manager.flushed_by_age), default=MAX_LONG
        )
        return max(_MIN_TICK_S, min(_TICK_S, shortest_ms / 1000))

    def _logs(self) -> list[Log]:
        return [log for log in self._manager.logs.values() if log.is_usable]

    def flush_by_age(self) -> None:
        """Applies `flush.ms`: starts syncs, and does not wait for them."""
        now_s = self._world.clock.monotonic_s()
        for log in self._manager.flushed_by_age:
            if (
                log.is_usable
                and log.has_unflushed
                and now_s - log.flusher.unflushed_since_s >= log.settings.flush_ms / 1000
            ):
                log.flusher.request(log.log_end_offset)

    async def write_indexes(self) -> None:
        """Writes index entries that are only in memory, so that tools see them within a second."""
        for directory in self._manager.directories:
            timeslice = Timeslice.of_running_loop()
            for indexes in list(directory.stores.unwritten):
                if timeslice.is_over():
                    await timeslice.next_turn()
                if indexes not in directory.stores.unwritten or not directory.is_online:
                    continue  # It was written or removed meanwhile.
                if directory.full is not None:
                    break
                try:
                    indexes.write()
                except OSError as error:
                    directory.fail(error)

    async def delete_files(self) -> None:
        for directory in self._manager.directories:
            now_s = self._world.clock.monotonic_s()
            while due := directory.take_due_deletions(now_s):
                error = await self._world.workers.run_blocking(partial(_run_all, due))
                if error is not None:
                    directory.fail(error)
                    # The other files are deleted later.
                    for delete in due:
                        directory.delete_later(now_s + _DELETION_RETRY_S, delete)
                    break

    async def write_checkpoints(self) -> None:
        for directory in self._manager.directories:
            await self._manager.checkpoints.write_recovery_points(directory)
            await self._manager.checkpoints.write_high_watermarks(directory)
            await self._manager.checkpoints.write_compacted(directory)

    async def _log_starts(self) -> None:
        for directory in self._manager.directories:
            await self._manager.checkpoints.write_log_starts(directory)

    async def apply_retention(self) -> None:
        for log in self._logs():
            await self._shorten(log)

    async def remove_passed(self) -> None:
        """Deletes the segments below a log start that DeleteRecords has moved."""
        for directory in self._manager.directories:
            shortened, directory.shortened = directory.shortened, {}
            for log in shortened:
                await self._shorten(log)

    async def _shorten(self, log: Log) -> None:
        """Applies retention to one log, a few segments at a time."""
        timeslice = Timeslice.of_running_loop()
        start, removed, is_done = log.log_start_offset, 0, False
        while not is_done:
            if timeslice.is_over():
                await timeslice.next_turn()
            if not log.is_usable:
                break
            try:
                count = log.delete_old_segments(log.high_watermark, REMOVED_AT_ONCE)
            except InvariantViolation as violation:
                log.fail(violation)
                break
            except StorageError:
                # The directory has logged it if it is offline or full; else the next check retries.
                break
            removed += count
            is_done = count < REMOVED_AT_ONCE
        if log.log_start_offset > start:
            logger.info(
                "%s: retention takes what lies below offset %d (segments: %d)",
                log.topic_partition,
                log.log_start_offset,
                removed,
            )
            self._manager.start_moved(log)

    async def expire_producers(self) -> None:
        settings = self._manager.settings
        now_ms = self._world.clock.now_ms()
        timeslice = Timeslice.of_running_loop()
        for log in self._logs():
            if timeslice.is_over():
                await timeslice.next_turn()
            log.producers.expire(now_ms, settings.producer_id_expiration_ms)


def _run_all(deletions: list[Callable[[], None]]) -> OSError | None:
    """Runs in a worker thread. Removes what is done from the list, up to the first error."""
    while deletions:
        try:
            deletions[0]()
        except FileNotFoundError:
            pass
        except OSError as error:
            return error
        del deletions[0]
    return None


async def _every(
    interval_ms: int, work: Callable[[], Awaitable[None]], first_ms: int | None = None
) -> None:
    delay_ms = interval_ms if first_ms is None else min(first_ms, interval_ms)
    while True:
        await asyncio.sleep(max(delay_ms, 1) / 1000)
        delay_ms = interval_ms
        await work()
