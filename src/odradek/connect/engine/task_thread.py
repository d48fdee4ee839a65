"""A thread for the calls of one task, which may block: a task that hangs holds up no other.

The thread is a daemon: a call that never returns does not keep the process from ending.
"""

import asyncio
import contextvars
import queue
import sys
import threading
import traceback
from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeVar

from odradek.world.clock import SystemClock

T = TypeVar("T")
_clock: Final = SystemClock()


class TaskThread:
    """The thread starts with the first call. Calls of a task are made one at a time."""

    def __init__(self, name: str) -> None:
        self._name = f"odradek-{name}"
        self._calls: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._began_s: float | None = None
        self._is_closed = False

    async def call(self, call: Callable[[], T]) -> T:
        """Returns what a call returns. Whoever waits may be cancelled; the call goes on."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()

        def settle(value: Any, error: BaseException | None) -> None:
            if done.done():
                return
            if error is None:
                done.set_result(value)
            else:
                done.set_exception(error)

        def run() -> None:
            value: Any = None
            failure: BaseException | None = None
            try:
                value = call()
            except StopIteration as error:
                failure = RuntimeError(f"the call ended with {error!r}")
            except BaseException as error:  # noqa: BLE001 - it goes to who waits
                failure = error
            try:
                loop.call_soon_threadsafe(settle, value, failure)
            except RuntimeError:
                return  # The worker has ended meanwhile.

        if self._thread is None:
            self._start()
        self._calls.put(run)
        return await done

    def close(self, last: Callable[[], object] | None = None) -> None:
        """Makes one more call, and lets the thread end after it; a call that hangs is left alone.
        Nothing waits for them."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._thread is None:
            if last is None:
                return
            self._start()
        if last is not None:
            self._calls.put(lambda: _quietly(last))
        self._calls.put(None)

    @property
    def busy_s(self) -> float:
        """How long the present call has taken so far; 0 if there is none."""
        began_s = self._began_s
        return 0.0 if began_s is None else _clock.monotonic_s() - began_s

    @property
    def is_alive(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    async def ended(self, timeout_s: float) -> bool:
        """Returns whether the thread has ended, after `timeout_s` at the latest."""
        deadline_s = _clock.monotonic_s() + timeout_s
        while self.is_alive and _clock.monotonic_s() < deadline_s:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        return not self.is_alive

    def where(self) -> str:
        """Returns the stack of the present call, as a traceback shows it."""
        thread = self._thread
        frame = None if thread is None else sys._current_frames().get(thread.ident or 0)
        return "" if frame is None else "".join(traceback.format_stack(frame))

    def _start(self) -> None:
        # With the context of who calls, so that log lines of the thread are the connector's.
        target = partial(contextvars.copy_context().run, self._run)
        self._thread = threading.Thread(target=target, name=self._name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            self._began_s = _clock.monotonic_s()
            try:
                call()
            finally:
                self._began_s = None


def _quietly(call: Callable[[], object]) -> None:
    try:
        call()
    except Exception:  # noqa: BLE001 - what it closes is not used any more
        return
