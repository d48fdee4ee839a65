"""A worker of Kafka Connect in small: an engine, the topic of offsets, and tasks that are started
again when they fail. For tests and benchmarks of engines; the real worker has tests of its own."""

import asyncio
import contextlib
import os
import time
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from odradek.client import Consumer
from odradek.connect.engine.clients import ConnectorClients
from odradek.connect.engine.context import EngineContext
from odradek.connect.engine.engine import Engine, TaskId, TaskListener, TaskSpec
from odradek.connect.engine.offset_store import OffsetStore
from odradek.connect.engine.process_engine import ProcessEngine
from odradek.connect.lanes.spark_engine import SparkEngine
from odradek.spark.turns.backoff import Backoff

STRINGS = {
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.storage.StringConverter",
}
PATIENCE_S = 240.0
RUNNING, FAILED, STOPPED = "RUNNING", "FAILED", "STOPPED"


# The processes of tasks import the tests' own connectors.
_ROOT = str(Path(__file__).parents[2])
if _ROOT not in os.environ.get("PYTHONPATH", "").split(os.pathsep):
    os.environ["PYTHONPATH"] = os.pathsep.join([_ROOT, os.environ.get("PYTHONPATH", "")])


class Event(NamedTuple):
    at_s: float
    state: str
    reason: str = ""
    trace: str = ""


class Bench(TaskListener):
    """`restarts` says whether tasks that fail are started again, with a back-off."""

    def __init__(
        self,
        bootstrap: str,
        engine: str = "spark",
        *,
        worker: Mapping[str, str] | None = None,
        hang_timeout_s: float = 60.0,
        restarts: bool = True,
        offsets_topic: str | None = None,
    ) -> None:
        self.clients: dict[str, object] = {"bootstrap.servers": bootstrap}
        topic = offsets_topic or f"offsets-{uuid.uuid4().hex[:8]}"
        self.offsets = OffsetStore(self.clients, topic)
        self._worker = {**STRINGS, **(worker or {})}
        self._kind = engine
        self._hang_timeout_s = hang_timeout_s
        self._restarts = restarts
        self._specs: dict[TaskId, TaskSpec] = {}
        self._backoffs: dict[TaskId, Backoff] = {}
        self._restarting: set[asyncio.Task[None]] = set()
        self.events: dict[TaskId, list[Event]] = {}
        self.topics: set[tuple[TaskId, str]] = set()
        self.engine: Engine

    async def __aenter__(self) -> Self:
        await self.offsets.prepare(5, 1)
        self._reading = asyncio.create_task(self.offsets.run())
        context = EngineContext(
            self._worker,
            ConnectorClients(self.clients),
            self.offsets,
            "workers",
            self._hang_timeout_s,
        )
        if self._kind == "spark":
            self.engine = SparkEngine(context, self)
        else:
            self.engine = ProcessEngine(context, self)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self._restarts = False
        for restarting in self._restarting:
            restarting.cancel()
        await self.engine.close()
        self._reading.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._reading

    async def start(self, name: str, number: int = 0, **properties: str) -> TaskId:
        """`connector_class="X"` stands for `connector.class=X`."""
        given = {key.replace("_", "."): text for key, text in properties.items()}
        spec = TaskSpec(TaskId(name, number), {"name": name, **given})
        self._specs[spec.id] = spec
        await self.engine.start(spec)
        return spec.id

    async def stop(self, task: TaskId) -> None:
        self._specs.pop(task, None)
        await self.engine.stop(task)

    def state(self, task: TaskId) -> str:
        events = self.events.get(task)
        return events[-1].state if events else ""

    async def reached(self, task: TaskId, state: str, within_s: float = PATIENCE_S) -> Event:
        """Waits until the task has this state, and returns the event that brought it."""
        await until(lambda: self.state(task) == state, within_s)
        return self.events[task][-1]

    async def values(self, topic: str, count: int, settle_s: float = 0.0) -> list[str]:
        """Reads so many committed records, and what comes within `settle_s` after them."""
        found: list[str] = []
        options = {
            **self.clients,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
        }
        async with asyncio.timeout(PATIENCE_S), Consumer(options) as consumer:
            consumer.assign([(topic, 0)])
            end_s = None
            while end_s is None or time.monotonic() < end_s:
                for records in (await consumer.poll(timeout_ms=100)).values():
                    found += [(record.value or b"").decode() for record in records]
                if end_s is None and len(found) >= count:
                    end_s = time.monotonic() + settle_s
        return found

    # What the engine tells

    def running(self, task: TaskId) -> None:
        self._note(task, Event(time.monotonic(), RUNNING))

    def failed(self, task: TaskId, reason: str, trace: str) -> None:
        self._note(task, Event(time.monotonic(), FAILED, reason, trace))
        if self._restarts and task in self._specs:
            pause_s = self._backoffs.setdefault(task, Backoff()).next_s(0)
            restarting = asyncio.create_task(self._start_again(task, pause_s))
            self._restarting.add(restarting)
            restarting.add_done_callback(self._restarting.discard)

    def stalled(self, task: TaskId, reason: str, trace: str) -> None:
        self._note(task, Event(time.monotonic(), FAILED, reason, trace))

    def stopped(self, task: TaskId) -> None:
        self._note(task, Event(time.monotonic(), STOPPED))

    def used_topic(self, task: TaskId, topic: str) -> None:
        self.topics.add((task, topic))

    def _note(self, task: TaskId, event: Event) -> None:
        self.events.setdefault(task, []).append(event)

    async def _start_again(self, task: TaskId, pause_s: float) -> None:
        await asyncio.sleep(pause_s)
        if task in self._specs and self.state(task) == FAILED:
            await self.engine.start(self._specs[task])


async def until(condition: Callable[[], bool], within_s: float = PATIENCE_S) -> None:
    """Waits for a condition, which is asked again and again."""
    async with asyncio.timeout(within_s):
        while not condition():  # noqa: ASYNC110 - what it asks for tells nobody
            await asyncio.sleep(0.01)
