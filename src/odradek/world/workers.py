"""Work that must not run on the event loop.

Threads are only for calls that release the interpreter lock (fsync, large reads, hashing): a thread
that runs Python code takes the lock from the event loop. Long computations belong in a process of
their own (`processes`).
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Lock, Thread
from typing import Protocol, TypeVar

T = TypeVar("T")

# A lock that a call in a worker thread holds for a moment, and for which the event loop waits. In
# the simulation such calls run on the event loop, so the lock is always free there.
WorkerLock = Lock


class Workers(Protocol):
    async def run_blocking(self, call: Callable[[], T]) -> T:
        """Runs a call that waits for the operating system and releases the interpreter lock."""
        ...

    async def compute(self, call: Callable[[], T]) -> T:
        """Runs a short computation that would stall the event loop. One runs at a time, because a
        thread keeps the memory of the largest computation that it ever ran."""
        ...

    def close(self) -> None:
        """Waits for the calls under way and ends the threads."""
        ...


class ThreadWorkers:
    """A few threads, started when first needed."""

    def __init__(self, threads: int = 4) -> None:
        self._threads = threads
        self._blocking: ThreadPoolExecutor | None = None
        self._computing: ThreadPoolExecutor | None = None

    async def run_blocking(self, call: Callable[[], T]) -> T:
        if self._blocking is None:
            self._blocking = ThreadPoolExecutor(self._threads, thread_name_prefix="odradek")
        return await asyncio.get_running_loop().run_in_executor(self._blocking, call)

    async def compute(self, call: Callable[[], T]) -> T:
        if self._computing is None:
            self._computing = ThreadPoolExecutor(1, thread_name_prefix="odradek-compute")
        return await asyncio.get_running_loop().run_in_executor(self._computing, call)

    def close(self) -> None:
        for executor in (self._blocking, self._computing):
            if executor is not None:
                executor.shutdown(wait=True)
        self._blocking = self._computing = None


class AbandonableCalls:
    """Calls that wait for somebody else's server, perhaps for half a minute, without a way to end
    them. They have threads of their own, so that nothing else waits behind them, and a program that
    ends does not wait for them either."""

    def __init__(self, name: str, threads: int = 4) -> None:
        self._name = name
        self._free = asyncio.Semaphore(threads)

    async def run(self, call: Callable[[], T]) -> T:
        """Returns the result of the call. If the caller is cancelled, the call goes on in its
        thread, which is free for another one only then."""
        await self._free.acquire()
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()

        def finish(result: T | None, error: BaseException | None) -> None:
            self._free.release()
            if answer.done():
                return
            if error is None:
                answer.set_result(result)  # type: ignore[arg-type]  # it is the call's result
            else:
                answer.set_exception(error)

        def work() -> None:
            result, failure = None, None
            try:
                result = call()
            except BaseException as error:  # noqa: BLE001 - it is raised in the caller
                failure = error
            # The event loop may have ended meanwhile.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(finish, result, failure)

        Thread(target=work, name=self._name, daemon=True).start()
        return await answer
