"""The figures of a cluster for those who look at it, sampled again and again.

A watcher belongs to one cluster and one caller, and asks the brokers as that caller: who may not
see a topic does not find it in a chart either. It starts when a page needs figures and ends when
nobody has asked for them for `_IDLE_S`. The last hour is kept in a ring buffer, so charts need no
other program. A sample of a large cluster costs the brokers something, so a watcher rests twenty
times as long as a sample took, up to a minute.
"""

import asyncio
import logging
from array import array
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from odradek.client.errors import ClientError
from odradek.console.sampling import Sampler, SamplingThread
from odradek.ops.top.figures import ClusterFigures, total
from odradek.protocol.errors import KafkaError
from odradek.services.client_pool import ClientPool
from odradek.services.identity import Caller
from odradek.web.problems import Problem

logger = logging.getLogger("odradek.console")

_KEPT_S: Final = 3600.0
_IDLE_S: Final = 900.0
_REST: Final = 20.0
_LONGEST_REST_S: Final = 60.0
_MAX_WATCHERS: Final = 50
_FORGOTTEN_S: Final = 90.0
"""After which time a watcher may be ended for the sake of another: longer than between samples."""
_FIRST_WAIT_S: Final = 2.5
_PATIENCE_S: Final = 60.0
_HEARD_S: Final = 3.0


@dataclass(frozen=True, slots=True)
class Point:
    """One place of the charts. None is not known."""

    at_s: float
    bytes_in: float | None
    bytes_out: float | None
    messages_in: float | None
    lag: int | None

    def to_json(self) -> list[Any]:
        return [self.at_s, self.bytes_in, self.bytes_out, self.messages_in, self.lag]


class LagHistory:
    """The lag of each group at each point of the charts; -1 is not known. Arrays, for there may be
    hundreds of groups."""

    def __init__(self, length: int) -> None:
        self._length = length
        self._points = 0
        self._lags: dict[str, array[int]] = {}

    def add(self, lags: Mapping[str, int]) -> None:
        """Adds a point. A group that has had no lag to tell in the whole time is forgotten."""
        for name in lags.keys() - self._lags.keys():
            self._lags[name] = array("q", [-1] * self._points)
        self._points = min(self._points + 1, self._length)
        for name, known in list(self._lags.items()):
            known.append(lags.get(name, -1))
            del known[: -self._length]
            if name not in lags and max(known) < 0:
                del self._lags[name]

    def of(self, name: str) -> Sequence[int]:
        return self._lags.get(name, array("q", [-1] * self._points))


class Watcher:
    """Samples one cluster as one caller. `figures` are the newest ones, `problem` says why there
    are none that are new."""

    def __init__(
        self, pool: ClientPool, caller: Caller, interval_s: float, thread: SamplingThread
    ) -> None:
        self._pool = pool
        self._caller = caller
        self._thread = thread
        self._interval_s = interval_s
        kept = max(1, int(_KEPT_S / interval_s))
        self.points: deque[Point] = deque(maxlen=kept)
        self.lags = LagHistory(kept)
        self.figures: ClusterFigures | None = None
        self.problem = ""
        self.is_stale = False
        """Whether the console has changed something since the newest sample."""
        self._changed_s = -_HEARD_S
        self._changed = asyncio.Event()
        self._wanted = asyncio.Event()
        self.used_s = asyncio.get_running_loop().time()
        self.task = asyncio.create_task(self._run())

    def touch(self) -> None:
        self.used_s = asyncio.get_running_loop().time()

    def note_change(self) -> None:
        """Takes the next sample soon, for something was changed."""
        self.is_stale = True
        self._changed_s = asyncio.get_running_loop().time()
        self._wanted.set()

    @property
    def has_just_changed(self) -> bool:
        """Returns whether the console changed something a moment ago, of which some brokers may
        not have heard yet."""
        return asyncio.get_running_loop().time() - self._changed_s < _HEARD_S

    async def first(self) -> ClusterFigures | None:
        """Returns the newest figures; waits a moment for the first ones."""
        self.touch()
        if self.figures is None and not self.problem:
            await self._next(_FIRST_WAIT_S)
        return self.figures

    async def changes(self) -> AsyncIterator[ClusterFigures | None]:
        """Yields figures when there are new ones, and None when a sample failed."""
        while not self.task.done():
            self.touch()
            if await self._next(_PATIENCE_S):
                yield None if self.problem else self.figures

    async def _next(self, timeout_s: float) -> bool:
        waiting = asyncio.create_task(self._changed.wait())
        try:
            await asyncio.wait(
                [waiting, self.task], timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED
            )
            return waiting.done()
        finally:
            waiting.cancel()

    async def _run(self) -> None:
        try:
            async with self._pool.clients(self._caller) as clients:
                sampler = Sampler(self._thread, clients.properties("admin"))
                try:
                    await self._sample_until_idle(sampler)
                finally:
                    await sampler.close()
        except (Problem, ClientError, KafkaError, OSError) as error:
            self.problem = str(error)
            self._announce()

    async def _sample_until_idle(self, sampler: Sampler) -> None:
        """Takes samples until nobody looks, or the brokers no longer accept the log-in."""
        loop = asyncio.get_running_loop()
        while loop.time() - self.used_s < _IDLE_S:
            began_s = loop.time()
            await self._sample(sampler)
            pause_s = self._pause_s(loop.time() - began_s)
            self._wanted.clear()
            # A change is seen soon, but not by a sample after each of many.
            await asyncio.sleep(min(pause_s, 1.0))
            await _wait(self._wanted, pause_s - 1.0)
            if not await self._pool.is_let_in(self._caller):
                return

    def _pause_s(self, took_s: float) -> float:
        """Returns how long to wait after a sample. One for which a broker was waited for in vain
        took long, but was no work."""
        if self.problem or self.figures is None or self.figures.notes:
            return self._interval_s
        return max(self._interval_s, min(_REST * took_s, _LONGEST_REST_S))

    async def _sample(self, sampler: Sampler) -> None:
        self.is_stale = False
        try:
            figures = await sampler.refresh()
        except (ClientError, KafkaError, OSError, TimeoutError) as error:
            self.problem = str(error) or "the brokers do not answer"
            self._announce()
            return
        self.problem = ""
        self.figures = figures
        self.points.append(_point(figures))
        self.lags.add({group.name: group.lag for group in figures.groups})
        self._announce()

    def _announce(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


async def _wait(event: asyncio.Event, timeout_s: float) -> None:
    if timeout_s <= 0:
        return
    try:
        async with asyncio.timeout(timeout_s):
            await event.wait()
    except TimeoutError:
        pass


def _point(figures: ClusterFigures) -> Point:
    brokers = figures.brokers
    return Point(
        figures.at_ms / 1000,
        total([broker.bytes_in for broker in brokers]),
        total([broker.bytes_out for broker in brokers]),
        total([broker.messages_in for broker in brokers]),
        sum(group.lag for group in figures.groups),
    )


class Watchers:
    """The watchers of one cluster."""

    def __init__(self, pool: ClientPool, interval_s: float) -> None:
        self._pool = pool
        self._interval_s = interval_s
        self._thread = SamplingThread()
        self._watchers: dict[Caller, Watcher] = {}

    def of(self, caller: Caller) -> Watcher:
        """Returns the watcher of a caller, running."""
        known = self._watchers.get(caller)
        if known is not None and not known.task.done():
            known.touch()
            return known
        for other in [one for one, watcher in self._watchers.items() if watcher.task.done()]:
            del self._watchers[other]
        if len(self._watchers) >= _MAX_WATCHERS:
            self._make_room()
        watcher = self._watchers[caller] = Watcher(
            self._pool, caller, self._interval_s, self._thread
        )
        return watcher

    def _make_room(self) -> None:
        """Ends the watcher that nobody has looked at for the longest time. Pages that are open look
        all the time, so a user who logs in again and again keeps nobody else out."""
        caller, watcher = min(self._watchers.items(), key=lambda one: one[1].used_s)
        if asyncio.get_running_loop().time() - watcher.used_s < _FORGOTTEN_S:
            raise Problem(503, "too many users look at this cluster at once; try again later")
        self.forget(caller)

    def is_unsure(self, caller: Caller) -> bool:
        """Returns whether the brokers may be away: the newest sample failed, or there is none."""
        watcher = self._watchers.get(caller)
        return watcher is None or watcher.figures is None or bool(watcher.problem)

    def move(self, before: Caller, after: Caller) -> None:
        """Goes on as the same user with a newer token, with the history that there is."""
        old = self._watchers.get(before)
        if old is None:
            return
        self.forget(before)
        new = self.of(after)
        new.points, new.lags, new.figures = old.points, old.lags, old.figures

    def forget(self, caller: Caller) -> None:
        """Ends the watcher of a user who has logged out."""
        watcher = self._watchers.pop(caller, None)
        if watcher is not None:
            watcher.task.cancel()

    async def close(self) -> None:
        tasks = [watcher.task for watcher in self._watchers.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._watchers.clear()
        await self._thread.close()
