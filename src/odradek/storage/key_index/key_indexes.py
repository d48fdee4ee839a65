"""The key indexes of a broker. The index of a log is made with the first look-up of a key, and
extended for an hour after the last one.

A log without look-ups has no index and costs nothing. Jobs are done one at a time by a worker
process; until they are done, look-ups read the records that are not indexed. A job that fails,
because the disk is full or the log was compacted meanwhile, is retried later with a back-off.
"""

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, ClassVar, Final

from odradek.protocol.types import TopicPartition
from odradek.storage.errors import StorageError
from odradek.storage.key_index.index import DEFAULT_LIMITS, KeyIndex, KeyIndexLimits
from odradek.storage.key_index.run import DamagedRun, RunHeader
from odradek.storage.key_index.run_builder import Job, carry_out, encode_job
from odradek.storage.log import Log
from odradek.storage.worker_disk import ENCRYPTION, keys_for_worker
from odradek.world import World
from odradek.world.processes import Worker, WorkerDied, WorkFailed

_logger = logging.getLogger("odradek.storage")

_INTERVAL_S: Final = 1.0
# The shortest time between two rounds.
_MIN_INTERVAL_S: Final = 0.1
# A worker process without jobs ends after so long.
_IDLE_S: Final = 10.0
# An index is extended for so long after the last look-up.
_MAX_UNUSED_S: Final = 3600.0
_FIRST_PAUSE_S: Final = 1.0
_MAX_PAUSE_S: Final = 300.0


class KeyIndexes:
    limits: ClassVar[KeyIndexLimits] = DEFAULT_LIMITS

    def __init__(self, world: World, limits: KeyIndexLimits | None = None) -> None:
        self._world = world
        self._limits = limits or self.limits
        self._indexes: dict[TopicPartition, KeyIndex] = {}
        self._pauses: dict[TopicPartition, _Pause] = {}
        self._has_work = asyncio.Event()
        self._worker: Worker = world.processes.worker(world.disk, world.clock)

    def of(self, log: Log) -> KeyIndex:
        """The index of a log; raises `StorageError`."""
        log.require_usable()
        index = self._indexes.get(log.topic_partition)
        if index is None or index.log is not log:
            try:
                index = KeyIndex(log, self._world, self._limits)
            except OSError as error:
                raise StorageError(
                    f"the key index of {log.path} cannot be read: {error}"
                ) from error
            self._indexes[log.topic_partition] = index
            self._has_work.set()
        index.asked_s = self._world.clock.monotonic_s()
        return index

    def looked_up(self, index: KeyIndex) -> int:
        """A look-up is done. Returns how many bytes of the log are not indexed; if they are many, a
        job is started soon."""
        unindexed_bytes = index.unindexed_bytes()
        if unindexed_bytes >= self._limits.min_bytes:
            self._has_work.set()
        return unindexed_bytes

    async def run(self) -> None:
        """Extends the indexes that are in use, until it is cancelled."""
        idle_since_s = self._world.clock.monotonic_s()
        try:
            while True:
                worked = False
                for topic_partition, index in list(self._indexes.items()):
                    if self._is_over(index):
                        self._indexes.pop(topic_partition)
                        self._pauses.pop(topic_partition, None)
                    elif self._indexes.get(topic_partition) is index:
                        worked |= await self._keep(topic_partition, index)
                now_s = self._world.clock.monotonic_s()
                if worked:
                    idle_since_s = now_s
                elif now_s - idle_since_s > _IDLE_S or not self._indexes:
                    await self._worker.end()
                await self._wait_for_work()
        finally:
            await self._worker.end()

    async def _wait_for_work(self) -> None:
        """Waits until a look-up asks for a job; with indexes in use no longer than a second."""
        if self._indexes:
            await asyncio.sleep(_MIN_INTERVAL_S)
        try:
            async with asyncio.timeout(_INTERVAL_S if self._indexes else None):
                await self._has_work.wait()
        except TimeoutError:
            return
        self._has_work.clear()

    def _is_over(self, index: KeyIndex) -> bool:
        unasked_s = self._world.clock.monotonic_s() - index.asked_s
        return not index.log.is_usable or unasked_s > _MAX_UNUSED_S

    async def _keep(self, topic_partition: TopicPartition, index: KeyIndex) -> bool:
        """Does all jobs of one index, one after the other. Returns False if there was none."""
        pause = self._pauses.get(topic_partition)
        if pause is not None and self._world.clock.monotonic_s() < pause.until_s:
            return False
        worked = False
        try:
            while index.log.is_usable and (job := index.next_job()) is not None:
                worked = True
                header = await self._do(index, job)
                if index.log.is_usable:
                    index.adopt(header)
                self._pauses.pop(topic_partition, None)
        except (StorageError, OSError, WorkFailed, WorkerDied) as error:
            if index.log.is_usable:
                pause = self._pauses.setdefault(topic_partition, _Pause())
                pause.lengthen(self._world.clock.monotonic_s())
                _logger.warning(
                    "the key index of %s stays as it is for %d s: %s",
                    index.log.path,
                    pause.length_s,
                    error,
                )
        return worked

    async def _do(self, index: KeyIndex, job: Job) -> RunHeader:
        try:
            message = {**encode_job(job), ENCRYPTION: keys_for_worker(index.log)}
            made: Mapping[str, Any] = await self._worker.run(carry_out, message, _ignore)
        except WorkFailed as failure:
            if failure.kind == DamagedRun.__name__:
                index.distrust(job)
            raise
        return RunHeader(**made)


def _ignore(_: object) -> None:
    """The progress of a job is not shown."""


class _Pause:
    """The back-off of a job that fails."""

    __slots__ = ("length_s", "until_s")

    def __init__(self) -> None:
        self.length_s = _FIRST_PAUSE_S / 2
        self.until_s = 0.0

    def lengthen(self, now_s: float) -> None:
        self.length_s = min(2 * self.length_s, _MAX_PAUSE_S)
        self.until_s = now_s + self.length_s
