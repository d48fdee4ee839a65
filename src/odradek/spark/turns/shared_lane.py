"""The shared lane: what all tasks of an owner share, from the first task to the end of the owner.

It is a directory for the sockets of all processes, the zygote that forks the processes of tasks,
and the process that has Spark, whose one query gives the tasks their turns. Nothing of it runs
before the first task. An engine decides which tasks there are, and listens to their hosts.
"""

import asyncio
import contextlib
import shutil
import tempfile
from collections.abc import Callable, Mapping
from typing import Final

from odradek.spark.turns.driver import SHARED
from odradek.spark.turns.driver_process import DriverProcess
from odradek.spark.turns.task_processes import HostListener, TaskProcesses

_TURN_MS: Final = 500
_NO_TASKS_S: Final = 0.5


class SharedLane:
    """`directory` is empty until `prepare` or `open` has made it."""

    def __init__(
        self,
        name: str,
        listener: HostListener,
        modules: tuple[str, ...],
        *,
        require: Callable[[], None],
        spark_ended: Callable[[str], None],
        spark: Mapping[str, str],
    ) -> None:
        """Starts nothing. `modules` are those of a task's process: the first one has its function
        `host(directory, key)`. `require` raises if Spark cannot run here. `spark_ended` is called
        with the reason, in one line, before Spark is started again. `spark` has settings of it."""
        self.directory = ""
        self._name = name
        self._listener = listener
        self._modules = modules
        self._require = require
        self._spark_ended = spark_ended
        self._spark = dict(spark)
        self._processes: TaskProcesses | None = None
        self._driver: DriverProcess | None = None
        self._opening = asyncio.Lock()
        self._has_takers = asyncio.Event()

    @property
    def processes(self) -> TaskProcesses:
        """The processes of the tasks. There are none before `open`."""
        assert self._processes is not None
        return self._processes

    async def prepare(self) -> None:
        """Makes the directory, unless there is one."""
        async with self._opening:
            await self._prepare()

    async def open(self) -> TaskProcesses:
        """Starts what all tasks share, unless it runs. Java needs ten seconds or so."""
        async with self._opening:
            if self._processes is None:
                await self._prepare()
                processes = TaskProcesses(self.directory, self._listener, *self._modules)
                await processes.open()
                self._processes = processes
                order = {
                    "lane": SHARED,
                    "name": self._name,
                    "directory": self.directory,
                    "turn_ms": _TURN_MS,
                    "spark": self._spark,
                }
                self._driver = DriverProcess(order, self._spark_ended)
                self._driver.start()
            return self._processes

    async def _prepare(self) -> None:
        if not self.directory:
            await asyncio.to_thread(self._require)
            self.directory = tempfile.mkdtemp(prefix=f"{self._name}-")

    async def close(self) -> None:
        """Ends Spark, and every process."""
        if self._driver is not None:
            await self._driver.close()
        if self._processes is not None:
            await self._processes.close()
            self._processes = None
        if self.directory:
            await asyncio.to_thread(shutil.rmtree, self.directory, ignore_errors=True)
            self.directory = ""

    # When Spark's query plans a batch

    async def takers(self, find: Callable[[], dict[str, str]]) -> dict[str, str]:
        """Returns the tasks that take turns, as `find` finds them: names, and keys of their hosts.
        If there are none, waits for a while, so that empty batches do not follow each other."""
        takers = find()
        if not takers:
            self._has_takers.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_NO_TASKS_S):
                    await self._has_takers.wait()
            takers = find()
        return takers

    def note_taker(self) -> None:
        """Called when a task has connected, so that it can be given turns."""
        self._has_takers.set()
