"""Which engine runs the tasks of a worker: `odradek.engine` in its file.

Engines are named here and imported when a worker starts the first task, so that a worker without
connectors starts neither Java nor Spark. `odradek.lane` in the properties of a connector is for
Spark's engine, which finds it in the properties of the tasks.
"""

import asyncio
import shutil
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from os import environ
from typing import Final

from odradek.connect.engine.context import EngineContext
from odradek.connect.engine.engine import Engine, TaskId, TaskListener, TaskSpec
from odradek.connect.errors import ConnectError
from odradek.connect.lanes.requirements import require

ENGINES: Final = {
    "spark": "odradek.connect.lanes.spark_engine:SparkEngine",
    "process": "odradek.connect.engine.process_engine:ProcessEngine",
}
"""The class of each engine, which is made of an `EngineContext` and a `TaskListener`."""

SPARK: Final = "spark"
PROCESS: Final = "process"


def engine_name(asked: str) -> str:
    """Returns the engine that a worker uses if its file asks for this one, or for none."""
    if asked:
        return asked
    return SPARK if SPARK in ENGINES and _has_spark() else PROCESS


def _has_spark() -> bool:
    has_java = "JAVA_HOME" in environ or shutil.which("java") is not None
    return has_java and find_spec("pyspark") is not None


def missing(name: str) -> str | None:
    """Returns what to do if an engine cannot be used here, or None."""
    if name == SPARK:
        try:
            require()
        except ConnectError as error:
            return f"odradek.engine={name}: {error}"
    if name in ENGINES:
        return None
    return f"odradek.engine={name}: this version has no such engine; use odradek.engine=process"


def _class_of(name: str) -> Callable[[EngineContext, TaskListener], Engine]:
    module, _, attribute = ENGINES[name].partition(":")
    found: Callable[[EngineContext, TaskListener], Engine] = getattr(
        import_module(module), attribute
    )
    return found


class LazyEngine(Engine):
    """An engine that is made for the first task."""

    def __init__(self, name: str, context: EngineContext, listener: TaskListener) -> None:
        self.name = name
        self._context = context
        self._listener = listener
        self._made: Engine | None = None
        self._making = asyncio.Lock()

    @property
    def made(self) -> Engine | None:
        return self._made

    async def start(self, task: TaskSpec) -> None:
        async with self._making:
            if self._made is None:
                kind = await asyncio.to_thread(_class_of, self.name)
                self._made = kind(self._context, self._listener)
        await self._made.start(task)

    async def stop(self, task: TaskId) -> None:
        if self._made is not None:
            await self._made.stop(task)

    async def close(self) -> None:
        if self._made is not None:
            await self._made.close()
