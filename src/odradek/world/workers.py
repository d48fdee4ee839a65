"""Work that must not run on the event loop.

Threads are only for calls that release the interpreter lock (fsync, large reads, hashing):
a thread that runs Python takes the lock from the loop. Long computations belong in a
process of their own.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

T = TypeVar("T")


class Workers(Protocol):
    async def run_blocking(self, call: Callable[[], T]) -> T:
        """Runs a call that waits for the operating system and releases the interpreter lock."""
        ...

    def close(self) -> None:
        """Waits for the calls under way and lets the threads go."""
        ...


class ThreadWorkers:
    """A few threads, started when first needed."""

    def __init__(self, threads: int = 4) -> None:
        self._threads = threads
        self._executor: ThreadPoolExecutor | None = None

    async def run_blocking(self, call: Callable[[], T]) -> T:
        if self._executor is None:
            self._executor = ThreadPoolExecutor(self._threads, thread_name_prefix="odradek")
        return await asyncio.get_running_loop().run_in_executor(self._executor, call)

    def close(self) -> None:
        if self._executor is not None:
            self._executor.shutdown(wait=True)
            self._executor = None
