"""Plans on Spark's engine: the same changes for each key as by the reference executor, whoever is
killed. One Spark runs all of them."""

import asyncio
import json
import random
import threading
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import psutil
import pytest

from odradek.client import Consumer, Producer
from odradek.client.admin.admin import Admin
from odradek.client.admin.topic_types import NewTopic
from odradek.streams import JSON, STRING, SessionWindows, StreamsBuilder, TimeWindows
from odradek.streams.plan.nodes import Plan
from odradek.streams.process.runner import State
from odradek.streams.running.executor import Executor, InputRecord, OutputRecord
from odradek.streams.spark.engine import SparkEngine, SparkRunner
from odradek.streams.spark.given import GivenQuery, ReadyPlan
from odradek.streams.spark.own_runner import OwnRunner
from odradek.testing import Cluster
from tests.needs import need
from tests.scenarios import sql_exactly_once
from tests.scenarios.connect_bench import until
from tests.scenarios.lane_processes import processes_of
from tests.spark.conftest import java

_PARTITIONS = 2
_RECORDS = 200
_DEADLINE_S = 120.0

Event = tuple[str, dict[str, int], int]


def _stateless(source: str, sink: str) -> Plan:
    builder = StreamsBuilder()
    stream = builder.stream(source).filter(lambda _, value: value["n"] % 3 != 0)
    stream.flat_map(lambda key, value: [(key, {"n": value["n"] * times}) for times in (1, 2)]).to(
        sink
    )
    return builder.build()


def _counts(source: str, sink: str) -> Plan:
    builder = StreamsBuilder()
    builder.stream(source).group_by_key().count().to_stream().to(sink, value=JSON)
    return builder.build()


def _windows(source: str, sink: str) -> Plan:
    builder = StreamsBuilder()
    windows = TimeWindows(size_ms=10_000, advance_ms=5_000, grace_ms=2_000)
    counted = builder.stream(source).group_by_key().windowed_by(windows).count()
    counted.suppress(until_window_closes=True).to_stream().map(
        lambda key, count: (key.key, {"from": key.window.start_ms, "count": count}),
        key=STRING,
        value=JSON,
    ).to(sink)
    return builder.build()


def _sessions(source: str, sink: str) -> Plan:
    builder = StreamsBuilder()
    windows = SessionWindows(gap_ms=1_000, grace_ms=60_000)
    counted = builder.stream(source).group_by_key().windowed_by(windows).count()
    counted.to_stream().map(
        lambda key, count: (key.key, {"window": list(key.window), "count": count}),
        key=STRING,
        value=JSON,
    ).to(sink)
    return builder.build()


def _table(source: str, sink: str) -> Plan:
    builder = StreamsBuilder()
    table = builder.table(source).filter(lambda _, value: value["n"] % 4 != 0)
    table.to_stream().to(sink)
    return builder.build()


PLANS: dict[str, Callable[[str, str], Plan]] = {
    "stateless": _stateless, "counts": _counts, "windows": _windows, "sessions": _sessions,
    "table": _table,
}  # fmt: skip


def _events(begin_ms: int) -> list[Event]:
    """Returns events of some keys, of which every fifth comes late."""
    chance = random.Random(5)
    events = []
    for number in range(_RECORDS):
        late_ms = chance.choice((0, 0, 0, 0, 3_000))
        time_ms = begin_ms + 5_000 + number * 250 - late_ms
        events.append((f"k{chance.randrange(7)}", {"n": number}, time_ms))
    return events


class _Changes:
    """Takes what the reference executor writes, by key."""

    def __init__(self) -> None:
        self.by_key: dict[bytes | None, list[bytes | None]] = defaultdict(list)

    def write(self, record: OutputRecord) -> None:
        self.by_key[record.key].append(record.value)

    def changed(self, partition: int, store: str, key: Any, value: Any) -> None:
        """Nothing is stored here."""


def _expected(plan: Plan, topic: str, events: Sequence[Event]) -> dict[Any, list[Any]]:
    changes = _Changes()
    executor = Executor(plan, {topic: _PARTITIONS}, changes)
    for offset, (key, value, time_ms) in enumerate(events):
        partition = Executor.partition_of(key.encode(), _PARTITIONS)
        data = json.dumps(value).encode()
        record = InputRecord(topic, partition, offset, time_ms, key.encode(), data)
        executor.deliver(record)
    return dict(changes.by_key)


async def _send(servers: str, topic: str, events: Sequence[Event]) -> None:
    async with Producer({"bootstrap.servers": servers}) as producer:
        for key, value, time_ms in events:
            data = json.dumps(value).encode()
            await producer.send(topic, data, key.encode(), timestamp_ms=time_ms)
        await producer.flush()


async def _read(servers: str, topic: str, count: int) -> dict[Any, list[Any]]:
    """Returns the first records of a topic that are committed, by key."""
    settings = {
        "bootstrap.servers": servers, "isolation.level": "read_committed",
        "auto.offset.reset": "earliest",
    }  # fmt: skip
    found: dict[Any, list[Any]] = defaultdict(list)
    async with Consumer(settings) as consumer, asyncio.timeout(_DEADLINE_S):
        consumer.assign(await _partitions(consumer, topic))
        while sum(map(len, found.values())) < count:
            for records in (await consumer.poll(500)).values():
                for record in records:
                    found[record.key].append(record.value)
        for records in (await consumer.poll(1_000)).values():
            for record in records:
                found[record.key].append(record.value)
    return dict(found)


async def _partitions(consumer: Consumer, topic: str) -> Any:
    from odradek.protocol.types import TopicPartition

    return [TopicPartition(topic, number) for number in await consumer.partitions_for(topic)]


@asynccontextmanager
async def _running(
    runners: Sequence[SparkRunner | OwnRunner], engine: SparkEngine | None
) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(runner.run()) for runner in runners]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if engine is not None:
            await engine.close()


async def test_changes_of_each_key_are_those_of_the_reference_executor(brokers: Cluster) -> None:
    """A query is killed, paused and resumed, and Java is killed, in the midst of it. Another one,
    whose topics are missing, says so all the time."""
    need(java)
    servers, mark = brokers.bootstrap, uuid4().hex[:8]
    source = f"events-{mark}"
    events = _events(begin_ms=1_600_000_000_000)
    plans = {name: make(source, f"{name}-{mark}") for name, make in PLANS.items()}
    client = {"bootstrap.servers": servers}
    for plan in plans.values():
        GivenQuery.of(GivenQuery(ReadyPlan(plan), "", {}, {}, -1).to_text())
    async with Admin(client) as admin:
        topics = [source, *(f"{name}-{mark}" for name in PLANS)]
        await admin.create_topics([NewTopic(topic, _PARTITIONS, 1) for topic in topics])
    engine = SparkEngine()
    runners = {
        name: SparkRunner(
            engine, plan,
            GivenQuery(ReadyPlan(plan), f"app-{name}-{mark}", client, {}, -1),
        )
        for name, plan in plans.items()
    }  # fmt: skip
    nowhere = _counts(f"missing-{mark}", f"nowhere-{mark}")
    query = GivenQuery(ReadyPlan(nowhere), f"app-nowhere-{mark}", client, {}, -1)
    failing = SparkRunner(engine, nowhere, query)
    half = _RECORDS // 2
    async with _running([*runners.values(), failing], engine):
        await _send(servers, source, events[:half])
        await until(lambda: all(one.figures.records == half for one in runners.values()))
        runners["table"].pause()
        await until(lambda: runners["table"].state is State.PAUSED)
        await _seems_to_hang(runners["sessions"])
        before = runners["counts"].process_id
        assert before is not None
        psutil.Process(before).kill()
        await _send(servers, source, events[half:])
        await until(lambda: runners["counts"].process_id not in (None, before))
        for java_process in processes_of(psutil.Process().pid, "java"):
            if "odradek-streams" in " ".join(java_process.cmdline()):
                java_process.kill()
        runners["table"].resume()
        for name, plan in plans.items():
            expected = _expected(plan, source, events)
            count = sum(map(len, expected.values()))
            assert await _read(servers, f"{name}-{mark}", count) == expected, name
        await until(lambda: all(one.state is State.RUNNING for one in runners.values()))
        assert failing.state is State.ERROR
        assert failing.error is not None
        assert f"missing-{mark}" in failing.error
    assert all(one.state is State.STOPPED for one in runners.values())


async def _seems_to_hang(runner: SparkRunner) -> None:
    """Stops the process of a query for a while: it is in error as long as it says nothing."""
    assert runner.process_id is not None
    process = psutil.Process(runner.process_id)
    process.suspend()
    await until(lambda: runner.state is State.ERROR)
    assert runner.error is not None
    assert "sent nothing" in runner.error
    process.resume()
    await until(lambda: runner.state is State.RUNNING)
    assert runner.process_id == process.pid, "it was not started again"


async def test_records_that_go_through_spark_are_handled_once(brokers: Cluster) -> None:
    """A query in its own lane; Spark's Python workers are killed in the midst of it."""
    need(java)
    servers, mark = brokers.bootstrap, uuid4().hex[:8]
    source, sink = f"events-{mark}", f"own-{mark}"
    events = _events(begin_ms=1_600_000_000_000)
    plan = _stateless(source, sink)
    client = {"bootstrap.servers": servers}
    async with Admin(client) as admin:
        await admin.create_topics([NewTopic(topic, _PARTITIONS, 1) for topic in (source, sink)])
    query = GivenQuery(ReadyPlan(plan), f"app-{mark}", client, {}, -1)
    # A task that fails is tried again, so that Spark has to start only once.
    runner = OwnRunner(plan, query, {"spark.master": "local[2,4]"})
    half = _RECORDS // 2
    async with _running([runner], None):
        await _send(servers, source, events[:half])
        await until(lambda: runner.figures.records > 0)
        await _send(servers, source, events[half:])
        workers = processes_of(psutil.Process().pid, "python", "odradek.spark.worker_daemon")
        assert workers
        for worker in workers:
            worker.kill()
        expected = _expected(plan, source, events)
        assert await _read(servers, sink, sum(map(len, expected.values()))) == expected
        assert runner.error is None
        runner.pause()
        await until(lambda: runner.state is State.PAUSED)
    assert runner.state.value == "STOPPED"


def test_a_lane_of_its_own_is_refused_for_what_keeps_state() -> None:
    query = GivenQuery(ReadyPlan(_counts("in", "out")), "app", {}, {}, -1)
    with pytest.raises(ValueError, match=r"keeps no state, .* an aggregate \(count-"):
        OwnRunner(query.make_plan(), query, {})


async def test_a_plan_that_no_other_process_can_have_is_in_error() -> None:
    need(java)
    lock = threading.Lock()
    builder = StreamsBuilder()
    builder.stream("in").filter(lambda *_: lock.locked()).to("out")
    plan, engine = builder.build(), SparkEngine()
    runner = SparkRunner(engine, plan, GivenQuery(ReadyPlan(plan), "app", {}, {}, -1))
    await runner.run()
    assert runner.state is State.ERROR
    assert runner.error is not None
    assert "lock" in runner.error


def test_sql_is_exactly_once_whoever_is_killed(tmp_path: Path) -> None:
    """The long form is `python -m tests.scenarios.sql_exactly_once --engine spark --kills 20`."""
    need(java)
    assert sql_exactly_once.run(1, tmp_path, "spark", kinds=["host"]) > 0
