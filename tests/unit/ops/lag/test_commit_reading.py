"""Commits that are read from the topic of offsets: how they are decoded, and how they fill windows.

`tests.scenarios.lag_comparison` shows the same with Burrow beside it.
"""

import asyncio

from odradek.client import Consumer, Producer
from odradek.client.consumer.fetched_batches import CREATE_TIME, ConsumerRecord
from odradek.groups.records import (
    CommittedOffset,
    group_tombstone,
    offset_record,
    offset_tombstone,
)
from odradek.ops.lag.commit_reading import CommitReader, take_commits
from odradek.ops.lag.evaluation import Status
from odradek.ops.lag.history import LagHistory, Position, Sample
from odradek.protocol.types import LeaderEpoch, Offset, TopicPartition
from odradek.statemachine.machine import LogRecord
from tests.unit.broker.management.running import running

ORDERS = TopicPartition("orders", 0)
_DEADLINE_S = 30.0


def sample(at_s: float, offset: int, *, owner: str = "") -> Sample:
    return Sample(round(at_s * 1000), {"g": {ORDERS: Position(offset, owner)}}, {ORDERS: 100})


def status(history: LagHistory, at_s: float) -> Status:
    (partition,) = history.evaluate("g", round(at_s * 1000)).partitions
    return partition.status


def reading() -> LagHistory:
    history = LagHistory()
    history.add(sample(0, 5))
    history.begin_reading()
    return history


def test_a_program_that_commits_the_same_offset_again_is_stalled_without_being_a_member() -> None:
    history = reading()
    for second in range(1, 6):
        history.commit("g", ORDERS, 5, second * 1000)
        history.add(sample(second, 5))
    assert len(history.windows("g")[ORDERS].commits) == 5
    assert status(history, 6) is Status.STALL
    assert status(history, 20) is Status.STOP


def test_a_member_that_commits_no_more_has_stopped() -> None:
    history = reading()
    for second in range(1, 6):
        history.commit("g", ORDERS, second, second * 1000)
    for second in range(6, 30):
        history.add(sample(second, 5, owner="host"))
    assert status(history, 30) is Status.STOP


def test_a_sample_that_is_older_than_a_commit_is_no_rewind() -> None:
    history = reading()
    history.commit("g", ORDERS, 6, 1000)
    history.commit("g", ORDERS, 9, 2000)
    history.add(sample(2.1, 6))
    assert [one.offset for one in history.windows("g")[ORDERS].commits] == [6, 9]


def test_when_reading_ends_samples_go_on() -> None:
    history = reading()
    history.commit("g", ORDERS, 6, 1000)
    history.stop_reading()
    history.add(sample(11, 9, owner="host"))
    assert [one.offset for one in history.windows("g")[ORDERS].commits] == [6, 9]
    assert status(history, 60) is not Status.STOP


def test_a_group_that_the_brokers_do_not_know_is_dropped_by_the_next_sample() -> None:
    history = reading()
    history.commit("gone", ORDERS, 6, 1000)
    assert history.groups == ["g", "gone"]
    history.add(sample(2, 6))
    assert history.groups == ["g"]


def _read(key: bytes | None, value: bytes | None) -> ConsumerRecord:
    return ConsumerRecord(
        "__consumer_offsets", 0, Offset(0), 0, CREATE_TIME, key, value, [], LeaderEpoch(0)
    )


def _written(record: LogRecord) -> ConsumerRecord:
    return _read(record.key, record.value)


def test_records_of_other_kinds_are_skipped() -> None:
    history = LagHistory()
    committed = CommittedOffset(7, -1, "", 1234)
    strange = [
        _read(key, b"\x00\x09")
        for key in (None, b"", b"\x00", b"\x00\x01\xff", b"\x00\x63what is this")
    ]
    records = [
        *strange,
        _written(group_tombstone("g")),
        _written(offset_tombstone("g", ORDERS)),
        _written(offset_record("g", ORDERS, committed)),
    ]
    take_commits(records, history)
    assert [(one.offset, one.timestamp_ms) for one in history.windows("g")[ORDERS].commits] == [
        (7, 1234)
    ]


async def test_commits_of_a_live_group_are_read() -> None:
    history = LagHistory()
    said: list[str] = []
    async with running() as broker:
        bootstrap = broker.broker.bootstrap
        reader = CommitReader({"bootstrap.servers": bootstrap}, history, said.append)
        async with (
            Producer(bootstrap_servers=bootstrap) as producer,
            Consumer("orders", bootstrap_servers=bootstrap, group_id="g") as consumer,
        ):
            await producer.send_and_wait("orders", b"a book")
            await consumer.poll(timeout_ms=1000)
            task = asyncio.create_task(reader.run())
            try:
                async with asyncio.timeout(_DEADLINE_S):
                    while _count(history) < 3:
                        await consumer.commit({ORDERS: 0})
                        await asyncio.sleep(0.01)
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
    assert {one.offset for one in history.windows("g")[ORDERS].commits} == {0}
    assert said == []


def _count(history: LagHistory) -> int:
    window = history.windows("g").get(ORDERS)
    return 0 if window is None else len(window.commits)


async def test_a_topic_that_cannot_be_read_is_told_of() -> None:
    said: asyncio.Queue[str] = asyncio.Queue()
    properties = {"bootstrap.servers": "127.0.0.1:1", "default.api.timeout.ms": "100"}
    reader = CommitReader(properties, LagHistory(), said.put_nowait)
    task = asyncio.create_task(reader.run())
    try:
        told = await asyncio.wait_for(said.get(), _DEADLINE_S)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert told.startswith("__consumer_offsets cannot be read, commits are sampled instead: ")
