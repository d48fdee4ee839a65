"""The engine in the worker's process: what fails and hangs harms nothing else, and is told."""

import asyncio
import threading
import uuid
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import ClassVar, cast

import pytest

from odradek.client import Consumer, Producer
from odradek.client.admin.admin import Admin
from odradek.config.kinds import string
from odradek.connect import plugins
from odradek.connect.connectors.connector import (
    FailedRecord,
    SinkConnector,
    SinkTask,
    SourceConnector,
    SourceTask,
)
from odradek.connect.connectors.positions import Positions
from odradek.connect.engine.clients import ConnectorClients
from odradek.connect.engine.context import EngineContext
from odradek.connect.engine.engine import TaskId, TaskListener, TaskSpec
from odradek.connect.engine.offset_store import OffsetStore
from odradek.connect.engine.process_engine import ProcessEngine
from odradek.connect.errors import Unavailable
from odradek.connect.plugins import Plugin
from odradek.connect.records import SinkRecord, SourceRecord
from odradek.connect.settings import PluginSettings
from odradek.testing import Cluster

PATIENCE_S = 60.0
STRINGS = {"value.converter": "org.apache.kafka.connect.storage.StringConverter"}


class Told(TaskListener):
    def __init__(self) -> None:
        self.words: list[str] = []
        self.traces: list[str] = []

    def running(self, task: TaskId) -> None:
        self.words.append(f"{task} runs")

    def failed(self, task: TaskId, reason: str, trace: str) -> None:
        self.words.append(f"{task} failed: {reason}")
        self.traces.append(trace)

    def stalled(self, task: TaskId, reason: str, trace: str) -> None:
        self.words.append(f"{task} stalled")
        self.traces.append(trace)

    def stopped(self, task: TaskId) -> None:
        self.words.append(f"{task} stopped")

    def used_topic(self, task: TaskId, topic: str) -> None:
        self.words.append(f"{task} uses {topic}")

    async def until(self, words: str) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while words not in self.words:  # noqa: ASYNC110 - told by calls
                await asyncio.sleep(0.01)

    async def until_it_begins(self, words: str) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not any(told.startswith(words) for told in self.words):  # noqa: ASYNC110
                await asyncio.sleep(0.01)


class OddSettings(PluginSettings):
    topic = string("topic", "", "The topic.")
    way = string("way", "", "What the task does.")


class OddSource(SourceConnector):
    """Its task hangs, or is unavailable for a moment."""

    settings_class: ClassVar = OddSettings
    gate: ClassVar = threading.Event()
    failures: ClassVar[list[int]] = []

    def __init__(self, settings: OddSettings) -> None:
        self._settings = settings

    def task(self) -> "OddSourceTask":
        return OddSourceTask(self._settings)


class OddSourceTask(SourceTask):
    def __init__(self, settings: OddSettings) -> None:
        self._settings = settings

    def reach(self, start: Positions, max_records: int) -> Positions:
        if self._settings.way == "hang":
            OddSource.gate.wait()
        if self._settings.way == "away" and len(OddSource.failures) < 2:
            OddSource.failures.append(1)
            raise Unavailable("the other side is away")
        if self._settings.way == "raise":
            raise RuntimeError("it is broken")
        return start.with_offset({"p": 1}, {"n": 1})

    def read(self, start: Positions, end: Positions) -> Iterator[SourceRecord]:
        yield SourceRecord(self._settings.topic, value="one")


class OddSink(SinkConnector):
    """Its task hangs at the first record until the gate opens."""

    settings_class: ClassVar = OddSettings
    gate: ClassVar = threading.Event()
    written: ClassVar[list[object]] = []

    def __init__(self, settings: OddSettings) -> None: ...

    def task(self) -> "OddSinkTask":
        return OddSinkTask()


class OddSinkTask(SinkTask):
    def write(self, records: Sequence[SinkRecord]) -> Sequence[FailedRecord]:
        OddSink.gate.wait()
        OddSink.written += [record.value for record in records]
        return ()


@pytest.fixture(autouse=True)
def _odd_connectors() -> Iterator[None]:
    for table, kind in ((plugins.SOURCES, OddSource), (plugins.SINKS, OddSink)):
        plugin = Plugin(kind.__name__, __name__, kind.__name__)
        for one in (table, plugins.CONNECTORS):
            cast("dict[str, Plugin]", one)[kind.__name__] = plugin
    OddSource.gate.clear()
    OddSink.gate.clear()
    yield
    OddSource.gate.set()
    OddSink.gate.set()
    for one in (plugins.SOURCES, plugins.SINKS, plugins.CONNECTORS):
        for kind in (OddSource, OddSink):
            cast("dict[str, Plugin]", one).pop(kind.__name__, None)


@asynccontextmanager
async def engine(
    cluster: Cluster, hang_timeout_s: float = 60.0
) -> AsyncIterator[tuple[ProcessEngine, Told]]:
    clients = {"bootstrap.servers": cluster.bootstrap}
    store = OffsetStore(clients, f"offsets-{uuid.uuid4().hex}")
    await store.prepare(1, 1)
    reading = asyncio.create_task(store.run())
    told = Told()
    context = EngineContext(STRINGS, ConnectorClients(clients), store, "g", hang_timeout_s)
    made = ProcessEngine(context, told)
    try:
        yield made, told
    finally:
        OddSource.gate.set()
        OddSink.gate.set()
        await made.close()
        reading.cancel()
        await asyncio.wait({reading})


def spec(connector: str, kind: str, **properties: str) -> TaskSpec:
    given = {"name": connector, "connector.class": kind, **properties}
    return TaskSpec(TaskId(connector, 0), given)


async def made_topic(cluster: Cluster) -> str:
    topic = f"t{uuid.uuid4().hex[:8]}"
    async with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        await admin.create_topic(topic, 1, 1)
    return topic


async def values(cluster: Cluster, topic: str) -> list[bytes | None]:
    options = {
        "bootstrap.servers": cluster.bootstrap,
        "isolation.level": "read_committed",
        "auto.offset.reset": "earliest",
    }
    async with asyncio.timeout(PATIENCE_S), Consumer(options) as consumer:
        consumer.assign([(topic, 0)])
        while True:
            for records in (await consumer.poll(timeout_ms=1000)).values():
                return [record.value for record in records]


async def test_a_source_that_hangs_is_told_and_holds_up_no_other(
    odradek_cluster: Cluster,
) -> None:
    topic = await made_topic(odradek_cluster)
    async with engine(odradek_cluster, hang_timeout_s=0.3) as (made, told):
        await made.start(spec("hangs", "OddSource", way="hang", topic=topic))
        await told.until("hangs-0 runs")
        await made.start(spec("works", "OddSource", topic=topic))
        assert await values(odradek_cluster, topic) == [b"one"]
        await told.until(
            "hangs-0 failed: a call has not returned for 0.3 s; see where in the trace"
        )
        assert "OddSource.gate.wait()" in told.traces[0]
        await asyncio.wait_for(made.stop(TaskId("hangs", 0)), 5)
        assert f"works-0 uses {topic}" in told.words


async def test_a_slow_call_is_shown_and_left_alone(odradek_cluster: Cluster) -> None:
    topic = await made_topic(odradek_cluster)
    OddSink.written.clear()
    async with Producer(bootstrap_servers=odradek_cluster.bootstrap) as producer:
        await producer.send_and_wait(topic, b"one")
    async with engine(odradek_cluster) as (made, told):
        await made.start(spec("slow", "OddSink", topics=topic))
        await told.until("slow-0 stalled")
        assert "OddSink.gate.wait()" in told.traces[0]
        OddSink.gate.set()
        async with asyncio.timeout(PATIENCE_S):
            while told.words.count("slow-0 runs") < 2:  # noqa: ASYNC110 - told by calls
                await asyncio.sleep(0.01)
        assert OddSink.written == ["one"]


async def test_what_a_task_raises_is_its_status(
    odradek_cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    """The listener logs it, so that it stands in the log once, whatever engine tells it."""
    async with engine(odradek_cluster) as (made, told):
        await made.start(spec("odd", "OddSource", way="raise"))
        await told.until("odd-0 failed: it is broken")
        assert "RuntimeError" in told.traces[0]
        await made.start(spec("none", "NoSuch"))
        await told.until_it_begins("none-0 failed: Failed to find any class")
        assert "broken" not in caplog.text


async def test_a_moment_without_the_other_side_passes_unnoticed(
    odradek_cluster: Cluster,
) -> None:
    topic = await made_topic(odradek_cluster)
    OddSource.failures.clear()
    async with engine(odradek_cluster) as (made, told):
        await made.start(spec("away", "OddSource", way="away", topic=topic))
        assert await values(odradek_cluster, topic) == [b"one"]
        assert not told.traces
        assert len(OddSource.failures) == 2


async def test_a_sink_starts_again_only_when_its_call_has_returned(
    odradek_cluster: Cluster,
) -> None:
    topic = await made_topic(odradek_cluster)
    OddSink.written.clear()
    async with Producer(bootstrap_servers=odradek_cluster.bootstrap) as producer:
        await producer.send_and_wait(topic, b"one")
    async with engine(odradek_cluster, hang_timeout_s=0.3) as (made, told):
        task = spec("sink", "OddSink", topics=topic)
        await made.start(task)
        await told.until("sink-0 failed: a call has not returned for 0.3 s; see where in the trace")
        await made.start(task)
        await told.until("sink-0 failed: a call of its former run has not returned yet")
        assert OddSink.written == []
        OddSink.gate.set()
        async with asyncio.timeout(PATIENCE_S):
            while not OddSink.written:  # noqa: ASYNC110 - another thread writes
                await asyncio.sleep(0.01)
        assert OddSink.written[0] == "one"
