"""Connectors with a lane of their own: each has a query, and a process with Spark and Java.

All tasks of a connector are in its one query. The worker starts and stops them one by one; the
query starts when none has been started or stopped for a moment, and starts again when they change.
If it fails, all of its tasks have failed. A call of the connector that takes longer than
`hang_timeout_s` is a failure.
"""

import asyncio
import logging
from collections.abc import Mapping
from typing import Final

from odradek.config.redaction import redact
from odradek.connect.engine.context import EngineContext, is_source
from odradek.connect.engine.engine import TaskId, TaskListener, TaskSpec
from odradek.connect.engine.figures import TaskFigures
from odradek.connect.lanes.handing_over import HandedOver
from odradek.connect.lanes.own_queries import LANE
from odradek.spark.turns.driver_process import DriverProcess
from odradek.spark.turns.messages import Message

_log = logging.getLogger("odradek.connect")
_MOMENT_S: Final = 0.3
# A batch that takes longer than so many calls may take hangs, wherever it does.
_CALLS_OF_A_BATCH: Final = 10


def has_own_lane(task: TaskSpec) -> bool:
    return task.properties.get("odradek.lane") == "own"


class OwnLanes:
    def __init__(self, context: EngineContext, listener: TaskListener, directory: str) -> None:
        self._context = context
        self._listener = listener
        self._directory = directory
        self._lanes: dict[str, _Lane] = {}

    def start(self, task: TaskSpec) -> None:
        lane = self._lanes.get(task.id.connector)
        if lane is None:
            lane = self._lanes[task.id.connector] = _Lane(
                self._context, self._listener, self._directory
            )
        lane.add(task)

    async def stop(self, task: TaskId) -> bool:
        """Returns whether there was such a task."""
        lane = self._lanes.get(task.connector)
        if lane is None or task not in lane.tasks:
            return False
        await lane.remove(task)
        if not lane.tasks:
            self._lanes.pop(task.connector, None)
        return True

    def figures(self) -> Mapping[TaskId, TaskFigures]:
        return {task: lane.figures for lane in self._lanes.values() for task in lane.tasks}


class _Lane:
    """The query of one connector."""

    def __init__(self, context: EngineContext, listener: TaskListener, directory: str) -> None:
        self._context = context
        self._listener = listener
        self._directory = directory
        self._driver: DriverProcess | None = None
        self._starting: asyncio.Task[None] | None = None
        self._changing = asyncio.Lock()
        self._is_running = False
        self.tasks: dict[TaskId, TaskSpec] = {}
        self.figures = TaskFigures()
        """Of the whole connector: the query counts its rows together."""

    def add(self, task: TaskSpec) -> None:
        self.tasks[task.id] = task
        self._start_soon()

    async def remove(self, task: TaskId) -> None:
        """Returns when the task writes nothing any more; others start again without it."""
        self.tasks.pop(task)
        await self._end()
        if self.tasks:
            self._start_soon()

    def _start_soon(self) -> None:
        if self._starting is not None:
            self._starting.cancel()
        self._starting = asyncio.create_task(self._start(), name="connect-own-lane")

    async def _start(self) -> None:
        await asyncio.sleep(_MOMENT_S)
        async with self._changing:
            await self._end_driver()
            tasks = [self.tasks[task] for task in sorted(self.tasks)]
            if not tasks:
                return
            properties = tasks[0].properties
            settings = {
                name: text for name, text in properties.items() if name.startswith("spark.")
            }
            order = {
                "lane": LANE,
                "is_source": is_source(properties),
                "name": f"connect-{tasks[0].id.connector}",
                "directory": self._directory,
                "longest_batch_s": _CALLS_OF_A_BATCH * self._context.hang_timeout_s,
                "spark": {**self._context.spark, **settings},
                "given": HandedOver(tasks, self._context).to_text(),
            }
            self._driver = DriverProcess(order, self._failed, self._on_message, restarts=False)
            name = tasks[0].id.connector
            _log.info("Java and Spark start for %s; it works in ten seconds or so", name)
            self._driver.start()

    async def _end(self) -> None:
        if self._starting is not None:
            self._starting.cancel()
            self._starting = None
        async with self._changing:
            await self._end_driver()

    async def _end_driver(self) -> None:
        self._is_running = False
        if self._driver is not None:
            driver, self._driver = self._driver, None
            await driver.close()

    def _on_message(self, message: Message) -> None:
        if "batch" not in message:
            return
        self.figures.batches += 1
        self.figures.polled += message["records"]
        self.figures.written += message["records"]
        if not self._is_running:
            self._is_running = True
            for task in self.tasks:
                self._listener.running(task)

    def _failed(self, reason: str) -> None:
        self._is_running = False
        for task in self.tasks:
            self._listener.failed(task, redact(reason), "")
