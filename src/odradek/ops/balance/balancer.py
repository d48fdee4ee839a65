"""What the command and the HTTP service do with a cluster: plan, run, look, cancel."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from odradek.ops.balance.execution import (
    Execution,
    Options,
    Progress,
    Say,
    entry_of,
    progress,
)
from odradek.ops.balance.journal import AlreadyRunning, Entry, Journal, State, default_path
from odradek.ops.balance.model import ClusterModel
from odradek.ops.balance.plan import Plan
from odradek.ops.balance.planner import PlanImpossible, Request, make_plan, refuse_unknown
from odradek.ops.balance.reading import BalanceAdmin, read_model
from odradek.protocol.types import TopicPartition
from odradek.world.clock import Clock
from odradek.world.disk import Disk

# How long `cancel` waits for the process that it asked to stop.
_STOPPING_S: Final = 60.0
_LOOK_AGAIN_S: Final = 0.1
_ACQUIRE_TRIES: Final = 5


@dataclass(frozen=True, slots=True)
class Measuring:
    """How byte rates are found: given, or by two readings of the sizes."""

    seconds: float = 0.0
    rates: Mapping[TopicPartition, float] | None = None


class Balancer:
    """A cluster with its journal. It keeps nothing in memory between calls."""

    def __init__(self, admin: BalanceAdmin, disk: Disk, clock: Clock, journal: Journal) -> None:
        self._admin = admin
        self._disk = disk
        self._clock = clock
        self.journal = journal

    @classmethod
    async def open(
        cls, admin: BalanceAdmin, disk: Disk, clock: Clock, path: str | None = None
    ) -> "Balancer":
        """Returns the balancer of the cluster that the admin client is connected to."""
        if path is None:
            path = default_path((await admin.describe_cluster()).cluster_id)
        return cls(admin, disk, clock, Journal(disk, path))

    async def model(self, measuring: Measuring) -> ClusterModel:
        return await read_model(self._admin, measure_s=measuring.seconds, rates=measuring.rates)

    async def plan(self, request: Request, measuring: Measuring) -> Plan:
        """Returns a plan of the cluster as it is now. Raises `PlanImpossible`."""
        if request.brokers:
            # Before seconds of measurement.
            cluster = await self._admin.describe_cluster()
            refuse_unknown(request, [broker.id for broker in cluster.brokers])
        model = await self.model(measuring)
        # Seconds of computation for thousands of partitions. In a thread the event loop gets its
        # turns meanwhile, so a service that plans answers other requests.
        return await asyncio.to_thread(make_plan, model, request)

    async def interrupted(self) -> Entry | None:
        """Returns the journal of a run that was killed, if the last one was."""
        entry = self.journal.read()
        if entry is None or entry.state is not State.RUNNING or self.journal.is_locked():
            return None
        return entry

    async def _acquire(self) -> None:
        """Takes the lock. A command that only looks holds it for a moment, so it is tried again."""
        for _ in range(_ACQUIRE_TRIES - 1):
            try:
                return self.journal.acquire()
            except AlreadyRunning:
                await asyncio.sleep(_LOOK_AGAIN_S)
        return self.journal.acquire()

    async def run(
        self,
        plan: Plan,
        kind: str,
        options: Options,
        say: Say,
        on_start: Callable[[], None] | None = None,
    ) -> Entry:
        """Carries a plan out. Raises `AlreadyRunning` if another run, ours or that of a person with
        reassign-partitions, is not over; else `on_start` is called first."""
        entry = entry_of(plan, kind, options, self._clock.now_ms())
        await self._acquire()
        try:
            before = self.journal.read()
            if before is not None and before.state is State.RUNNING:
                raise AlreadyRunning("the last run was interrupted; resume or cancel it first")
            if await self._admin.list_partition_reassignments():
                raise AlreadyRunning(
                    "partitions are being reassigned already; odradek reassign-partitions --list"
                    " shows them"
                )
            if before is not None and not before.throttles.is_empty:
                raise AlreadyRunning(
                    f"broker {', '.join(before.throttles.brokers)} was down when the last run ended"
                    " and has its throttle still; run odradek balance cancel when it is back"
                )
            if on_start is not None:
                on_start()
            return await self._execute(entry, options, say)
        finally:
            self.journal.release()

    async def resume(self, options: Options, say: Say) -> Entry:
        """Goes on with the journal of a run that was interrupted."""
        await self._acquire()
        try:
            entry = self.journal.read()
            if entry is None or entry.state is not State.RUNNING:
                raise PlanImpossible("no run was interrupted")
            return await self._execute(entry, options, say)
        finally:
            self.journal.release()

    async def _execute(self, entry: Entry, options: Options, say: Say) -> Entry:
        execution = Execution(self._admin, self.journal, entry, say, stalled_s=options.stalled_s)
        return await execution.run()

    async def status(self) -> Progress | None:
        """Returns how far the last run is, or None if there was none."""
        entry = self.journal.read()
        return None if entry is None else await progress(self._admin, self.journal, entry)

    async def cancel(self, say: Say) -> Entry | None:
        """Stops the run in progress, or cleans up after one that was killed. Returns its journal,
        or None if there is nothing to stop."""
        if self.journal.is_locked():
            self.journal.ask_to_stop()
            async with asyncio.timeout(_STOPPING_S):
                while self.journal.is_locked():  # noqa: ASYNC110 - of another process
                    await asyncio.sleep(_LOOK_AGAIN_S)
            return self.journal.read()
        await self._acquire()
        try:
            entry = self.journal.read()
            if entry is None or (entry.state is not State.RUNNING and entry.throttles.is_empty):
                return None
            execution = Execution(self._admin, self.journal, entry, say)
            if entry.state is State.RUNNING:
                await execution.stop(State.CANCELLED, "cancelled by odradek balance cancel")
            else:
                await execution.stop(entry.state, entry.reason)
            return execution.entry
        finally:
            self.journal.release()
