"""Work that must not run on the event loop.

Threads are only for calls that release the interpreter lock (fsync, large reads, hashing): a thread
that runs Python code takes the lock from the event loop. Long computations belong in a process of
their own (`processes`).
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
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
