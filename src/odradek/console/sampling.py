"""Takes the samples of a cluster's figures in a thread that has its own event loop.

A sample of 10,000 topics needs a second of computation. Its longest step, the decoding of one
response, takes a fifth of a second, and cannot be split without changing the client. On the event
loop that serves browsers, every page would wait for such a step. In another thread the two share
the processor: while a sample is taken, a page takes twice as long, but does not wait.
"""

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar, cast

from odradek.client.admin.admin import Admin
from odradek.client.sync.loop_thread import LoopThread
from odradek.ops.top.figures import ClusterFigures
from odradek.ops.top.monitor import Monitor, MonitorAdmin
from odradek.world.clock import SystemClock

T = TypeVar("T")


class SamplingThread:
    """The thread of one cluster's watchers, started when it is first needed."""

    def __init__(self) -> None:
        self._thread: LoopThread | None = None

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine in the thread and returns its result."""
        if self._thread is None:
            self._thread = LoopThread("odradek-sampling")
        return await asyncio.wrap_future(self._thread.begin(work))

    async def close(self) -> None:
        thread, self._thread = self._thread, None
        if thread is not None:
            await asyncio.to_thread(thread.stop)


class Sampler:
    """Takes the samples of one caller, with a client of its own. `properties` are those of an admin
    client, with the log-in of the caller."""

    def __init__(self, thread: SamplingThread, properties: Mapping[str, object]) -> None:
        self._thread = thread
        self._properties = properties
        self._admin: Admin | None = None
        self._monitor: Monitor | None = None

    async def refresh(self) -> ClusterFigures:
        """Takes a sample, and returns the figures since the last one. Raises if no broker
        answers."""
        return await self._thread.run(self._refresh())

    async def close(self) -> None:
        await self._thread.run(self._close())

    # These run in the thread

    async def _refresh(self) -> ClusterFigures:
        if self._monitor is None:
            self._admin = Admin(self._properties)
            # An admin client has the calls of all smaller ones.
            self._monitor = Monitor(cast(MonitorAdmin, self._admin), SystemClock())
        return await self._monitor.refresh()

    async def _close(self) -> None:
        if self._admin is not None:
            await self._admin.close()
