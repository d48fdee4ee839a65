"""Compacts logs, one after the other, the dirtiest first. This part runs on the event loop.

A worker process reads and rewrites segments (`rewriting`). The cleaner chooses a log (`cleanable`),
puts each finished segment in place (`segment_replacement`), and notes how far the log is compacted
in `cleaner-offset-checkpoint`. The process starts with the first pass and ends when no log is due.

A log may change during a pass: if it is deleted, truncated or loses segments, the pass is given up
and its files are removed. If the worker dies it is started again, with a back-off. A damaged log is
not compacted until the broker starts again; the other logs are.

Tombstones and transaction markers are removed only while every replica of the partition is in the
ISR (`is_on_every_replica`). A replica that was away and still has a deleted value would otherwise
never get the tombstone: it would keep the value, and show it once it leads.

Invariant: a checkpoint on disk never claims that more is compacted than is (`checkpointer`).
"""

import asyncio
import errno
import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from odradek.invariants import InvariantViolation
from odradek.protocol.types import NO_OFFSET, TopicPartition
from odradek.storage.compaction.cleanable import Cleanable, examine, filthiest
from odradek.storage.compaction.metrics import CleanerMetrics
from odradek.storage.compaction.segment_replacement import find_replaced, replace_segments
from odradek.storage.errors import CorruptLog, StorageError
from odradek.storage.file_names import CLEANED_SUFFIX
from odradek.storage.log import Log
from odradek.storage.worker_disk import keys_for_worker
from odradek.wording import counted
from odradek.world import World
from odradek.world.processes import Message, Worker, WorkerDied, WorkFailed

if TYPE_CHECKING:
    from odradek.storage.compaction.job import Job, Outcome
    from odradek.storage.manager import LogManager

logger: Final = logging.getLogger("odradek.log_cleaner")

# After so many logs the loop yields to other tasks.
_LOGS_A_TURN: Final = 16
# The back-off of a log after its worker died or its disk was full: twice as long every time.
_FIRST_BACK_OFF_S: Final = 1.0
_MAX_BACK_OFF_S: Final = 300.0
# What the worker raises if the log is damaged.
_DAMAGE: Final = ("CorruptLog", "MalformedRecords", "UnsupportedRecordFormat")


class CleaningAborted(Exception):
    """The log changed during the pass, which is given up."""


class LogCleaner:
    def __init__(self, manager: "LogManager", world: World) -> None:
        self._manager = manager
        self._world = world
        self._worker: Worker = world.processes.worker(world.disk, world.clock)
        # Logs that are not compacted for a while: their last back-off, and until when.
        self._backing_off: dict[Log, tuple[float, float]] = {}
        # Damaged logs, and what is wrong with each.
        self.uncleanable: dict[Log, str] = {}
        self.metrics = CleanerMetrics()
        # Whether every replica of a partition has all that is committed. `Replicas` sets it; a log
        # manager without `Replicas` has the only replicas there are.
        self.is_on_every_replica: Callable[[TopicPartition], bool] = lambda _: True

    async def run(self) -> None:
        """Compacts logs until it is cancelled."""
        was_idle = False
        try:
            while True:
                if self._is_enabled and await self.clean_one():
                    was_idle = False
                    continue
                if was_idle:
                    await self.end()
                was_idle = True
                await asyncio.sleep(max(self._manager.settings.log_cleaner_backoff_ms, 1) / 1000)
        finally:
            await self.end()

    @property
    def _is_enabled(self) -> bool:
        settings = self._manager.settings
        return settings.log_cleaner_enable and settings.log_cleaner_threads > 0

    async def clean_one(self) -> bool:
        """Compacts the log that needs it most. Returns False if none is due."""
        chosen = filthiest(await self._examine_all())
        if chosen is None:
            return False
        await self._clean(chosen.log)
        return True

    async def end(self) -> None:
        """Ends the worker process."""
        await self._worker.end()

    # Choosing

    async def _examine_all(self) -> list[Cleanable]:
        now_ms, now_s = self._world.clock.now_ms(), self._world.clock.monotonic_s()
        candidates: list[Cleanable] = []
        self._drop_unusable()
        for number, log in enumerate(list(self._manager.logs.values())):
            if number % _LOGS_A_TURN == 0:
                await asyncio.sleep(0)
            if not log.settings.is_compacted or not log.is_usable or log in self.uncleanable:
                continue
            if log.directory.full is not None or self._backing_off.get(log, (0.0, 0.0))[1] > now_s:
                continue
            if log.recovery_point < log.active_segment.base_offset:
                # Segments are closed but not durable yet, as after a recovery: they can be
                # compacted once they are.
                log.flusher.request(log.active_segment.base_offset)
            found = self._examine(log)
            if found is not None:
                candidates.append(found)
        self.metrics.examined(candidates, now_ms)
        return candidates

    def _examine(self, log: Log) -> Cleanable | None:
        try:
            return examine(log, self._world.clock.now_ms())
        except CorruptLog as error:
            self._set_aside(log, str(error))
        except OSError as error:
            log.directory.fail(error)
        return None

    def _drop_unusable(self) -> None:
        for known in (self._backing_off, self.uncleanable):
            for log in [log for log in known if not log.is_usable]:
                del known[log]
        self.metrics.uncleanable = len(self.uncleanable)
        self.metrics.uncleanable_bytes = sum(log.size_bytes for log in self.uncleanable)

    def _set_aside(self, log: Log, reason: str) -> None:
        self.uncleanable[log] = reason
        self._drop_unusable()
        logger.error(
            "%s cannot be compacted and is left as it is until the broker starts again: %s. "
            "Its records are served; delete or restore the partition to mend it.",
            _name(log),
            reason,
        )

    def _back_off(self, log: Log, reason: str) -> None:
        last_s = self._backing_off.get(log, (0.0, 0.0))[0]
        back_off_s = min(max(2 * last_s, _FIRST_BACK_OFF_S), _MAX_BACK_OFF_S)
        self._backing_off[log] = back_off_s, self._world.clock.monotonic_s() + back_off_s
        logger.warning(
            "%s was not compacted: %s. Trying again in %.0f s.", _name(log), reason, back_off_s
        )

    # One pass

    async def _clean(self, log: Log) -> None:
        chosen = await self._examine_durable(log)
        if chosen is None:
            return
        truncations = log.flusher.truncations
        logger.info(
            "%s: compacting offsets %d to %d, %.0f %% of %d bytes are dirty",
            _name(log),
            chosen.first_dirty_offset,
            chosen.end_offset,
            100 * chosen.dirty_ratio,
            chosen.clean_bytes + chosen.dirty_bytes,
        )
        self.metrics.begin(chosen)
        is_done = False
        take = partial(self._take, log, truncations)
        try:
            outcome = await self._work(chosen, take)
            await self._world.workers.run_blocking(
                partial(self._world.disk.sync_directory, log.path)
            )
            take({})
            is_done = True
            log.first_dirty_offset = max(log.first_dirty_offset, outcome.end_offset)
            self._report(log, outcome)
            await self._manager.checkpoints.write_compacted(log.directory)
            self._backing_off.pop(log, None)
        except CleaningAborted as reason:
            logger.info("%s: compaction given up, %s", _name(log), reason)
        except WorkerDied as death:
            self._back_off(log, str(death))
        except WorkFailed as failure:
            self._judge(log, failure)
        except InvariantViolation as violation:
            log.fail(violation)
        except StorageError:
            pass  # The directory is offline now, and has logged it.
        except OSError as error:
            if log.is_usable:  # The files of a deleted log are expected to be gone.
                log.directory.fail(error)
                self._back_off(log, str(error))
        finally:
            self.metrics.end()
            if not is_done:
                self._remove_leftovers(log)

    async def _examine_durable(self, log: Log) -> Cleanable | None:
        """Makes the recovery point durable, and returns what is to be done below it; None if that
        is nothing. Below a durable recovery point gaps between segments are no loss: see
        `recovery`."""
        checkpoints = self._manager.checkpoints
        if not await checkpoints.write_recovery_points(log.directory):
            if log.is_usable:
                self._back_off(log, "its recovery point could not be written")
            return None
        is_possible = log.is_usable and log.directory.full is None
        chosen = self._examine(log) if is_possible else None
        if chosen is None or not chosen.is_due:
            return None
        if chosen.end_offset > checkpoints.durable_recovery_point(log):
            return None  # More was flushed while the file was written: it is written again.
        return chosen

    async def _work(self, chosen: Cleanable, take: Callable[[Message], None]) -> "Outcome":
        # Imported here, so that a broker that compacts nothing does not load them.
        from odradek.storage.compaction.job import Outcome  # noqa: PLC0415
        from odradek.storage.compaction.rewriting import compact  # noqa: PLC0415

        job = self._job(chosen)
        if not job.is_on_every_replica:
            logger.info(
                "%s: tombstones and transaction markers stay in this pass, because not every "
                "replica is in sync",
                _name(chosen.log),
            )
        result = await self._worker.run(compact, job.as_message(), take)
        return Outcome(**result)  # type: ignore[arg-type]  # it says what `as_message` said

    def _job(self, chosen: Cleanable) -> "Job":
        from odradek.storage.compaction.job import Job  # noqa: PLC0415

        log, settings = chosen.log, self._manager.settings
        buffer_bytes = settings.log_cleaner_dedupe_buffer_size
        return Job(
            directory=log.path,
            segments=[(segment.base_offset, segment.size) for segment in chosen.segments],
            end_offset=chosen.end_offset,
            first_dirty_offset=chosen.first_dirty_offset,
            now_ms=self._world.clock.now_ms(),
            delete_retention_ms=log.settings.delete_retention_ms,
            segment_bytes=log.settings.segment_bytes,
            segment_index_bytes=log.settings.segment_index_bytes,
            index_interval_bytes=log.settings.index_interval_bytes,
            key_map_bytes=int(buffer_bytes * settings.log_cleaner_io_buffer_load_factor),
            io_buffer_bytes=settings.log_cleaner_io_buffer_size,
            max_bytes_per_second=settings.log_cleaner_io_max_bytes_per_second,
            is_on_every_replica=self.is_on_every_replica(log.topic_partition),
            aborted=[entry for entry in log.aborted if entry.first_offset < chosen.end_offset],
            producers=[
                (
                    producer_id,
                    entry.epoch,
                    entry.batches[-1].last_offset if entry.batches else NO_OFFSET,
                )
                for producer_id, entry in log.producers.entries.items()
            ],
            encryption=keys_for_worker(log),
        )

    def _take(self, log: Log, truncations: int, message: Message) -> None:
        """Handles a message of the worker: its progress, or a segment to put in place."""
        from odradek.storage.compaction.job import read_replacement  # noqa: PLC0415

        if not log.is_usable:
            raise CleaningAborted("the log is no longer here")
        if log.flusher.truncations != truncations:
            raise CleaningAborted("the log was truncated")
        replacement = read_replacement(message)
        if replacement is None:
            self.metrics.progressed(message)
            return
        old = find_replaced(log, replacement)
        if old is None:
            raise CleaningAborted("retention removed segments")
        replace_segments(log, old, replacement)

    def _judge(self, log: Log, failure: WorkFailed) -> None:
        if not log.is_usable:
            return
        if failure.kind in _DAMAGE:
            self._set_aside(log, str(failure))
        elif failure.kind == "FileNotFoundError":
            # Retention deleted it; or it was removed by hand, and will be missing again.
            self._back_off(log, f"a segment is gone ({failure})")
        elif failure.number == errno.ENOSPC:
            self._back_off(
                log, f"the disk is full ({failure}); compaction needs room for a segment"
            )
        elif failure.number is not None:
            self._back_off(log, str(failure))
        else:
            self._set_aside(log, f"{failure.kind}: {failure}")

    def _report(self, log: Log, outcome: "Outcome") -> None:
        self.metrics.done(outcome)
        if outcome.unreadable:
            logger.warning(
                "%s: the records of %s cannot be read, the first at offset %d; they "
                "are kept as they are",
                _name(log),
                counted(outcome.unreadable, "batch", "batches"),
                outcome.first_unreadable,
            )
        logger.info(
            "%s: compacted up to offset %d in %.1f s (%.1f indexing, %.1f cleaning, %.1f paused): "
            "%d of %d records stay, %d of %d bytes, %s in a %s",
            _name(log),
            outcome.end_offset,
            outcome.index_s + outcome.clean_s,
            outcome.index_s,
            outcome.clean_s,
            outcome.paused_s,
            outcome.records_kept,
            outcome.records_read,
            outcome.bytes_written,
            outcome.bytes_read,
            counted(outcome.keys, "key"),
            outcome.key_map,
        )

    def _remove_leftovers(self, log: Log) -> None:
        """Removes the files of a pass that was given up."""
        disk = self._world.disk
        try:
            for name in disk.list_directory(log.path):
                if name.endswith(CLEANED_SUFFIX):
                    disk.remove(f"{log.path}/{name}")
        except FileNotFoundError:
            return  # The log was deleted with its directory.
        except OSError as error:
            log.directory.fail(error)


def _name(log: Log) -> str:
    topic, partition = log.topic_partition
    return f"{topic}-{partition}"
