"""What must happen while the user polls, and how long ago that was.

The work of a group is done by a task in the background, but the user's listeners must not run
beside the user's own code. So the task hands such work over here, and `poll` runs it.

Invariant: what was handed over is finished exactly once, whether it worked, raised or was
never started because the consumer was closed; whoever handed it over goes on then.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

Work = Callable[[], Awaitable[None]]


class PollGate:
    def __init__(self, on_work: Callable[[], None]) -> None:
        self._on_work = on_work
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[tuple[Work, asyncio.Future[None]]] = deque()
        self._polling = 0
        self._last_poll_s = self._loop.time()
        self._polled = asyncio.Event()

    @property
    def has_work(self) -> bool:
        return bool(self._waiting)

    def entered(self) -> None:
        self._polling += 1
        self._last_poll_s = self._loop.time()
        self._polled.set()

    def left(self) -> None:
        self._polling -= 1
        self._last_poll_s = self._loop.time()

    def touched(self) -> None:
        """The user took a record that poll() had brought before: nobody sleeps here."""
        self._last_poll_s = self._loop.time()
        self._polled.set()

    def wake(self) -> None:
        """Something happened that a waiting poll() should look at."""
        self._on_work()

    def idle_s(self) -> float:
        """How long ago the last poll was; 0 while there is one."""
        return 0.0 if self._polling else self._loop.time() - self._last_poll_s

    async def next_poll(self) -> None:
        """Returns when there is a poll, at once if one is under way."""
        if not self._polling:
            self._polled.clear()
            await self._polled.wait()

    async def run(self, work: Work) -> None:
        """Has `poll` do the work and returns when it is done; its errors are the user's to see."""
        done: asyncio.Future[None] = self._loop.create_future()
        self._waiting.append((work, done))
        self._on_work()
        await done

    async def serve(self) -> None:
        """Does what waits; raises the first error after all of it."""
        fault: Exception | None = None
        while self._waiting:
            work, done = self._waiting.popleft()
            if done.done():
                continue
            try:
                await work()
            except Exception as error:  # noqa: BLE001 - of the user's listener; raised below
                fault = fault or error
            finally:
                if not done.done():
                    done.set_result(None)
            # Let the background task say what comes next before records are handed out.
            await asyncio.sleep(0)
        if fault is not None:
            raise fault
