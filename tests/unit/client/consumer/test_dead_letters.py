"""Retries through delay topics, and dead letters, against a real broker in the simulation."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from odradek.client.admin.admin import Admin
from odradek.client.consumer.dead_letters import Delay, Handler, Reject, Retrying, Story
from odradek.client.consumer.fetched_batches import ConsumerRecord
from odradek.protocol.types import TopicPartition
from tests.unit.client.group.test_groups import read
from tests.unit.client.group_cluster import BOOTSTRAP, GroupCluster, on_groups, with_groups


@asynccontextmanager
async def working(
    cluster: GroupCluster, handler: Handler, **options: Any
) -> AsyncIterator[Retrying]:
    """A worker at work, and no more at the end."""
    consumer = cluster.consumer("workers", enable_auto_commit=False)
    producer = cluster.producer(**options)
    if options:
        await producer.init_transactions()
    worker = Retrying(
        consumer, producer, handler, ["t"], delays=["5s", "1m"], world=cluster.world()
    )
    async with Admin(bootstrap_servers=BOOTSTRAP, world=cluster.world()) as admin:
        await worker.create_topics(admin, replication_factor=1)
    task = asyncio.get_running_loop().create_task(worker.run())
    try:
        yield worker
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await consumer.close()
        await producer.close()


@pytest.mark.parametrize("options", [{}, {"transactional_id": "workers"}], ids=["plain", "exact"])
@on_groups()
async def test_a_failing_record_comes_back_later_and_ends_as_a_dead_letter(
    cluster: GroupCluster, options: dict[str, str]
) -> None:
    await cluster.client.create_topic("t")
    tries: list[tuple[bytes, str, int]] = []
    clock = cluster.world().clock
    done = asyncio.Event()

    async def handle(record: ConsumerRecord) -> None:
        tries.append((record.value, record.topic, clock.now_ms() - started_ms))
        if record.value == b"bad" or (record.value == b"late" and record.topic == "t"):
            raise ValueError("no good")
        if record.value == b"end":
            done.set()

    started_ms = clock.now_ms()
    async with cluster.producer() as producer:
        where = await producer.send_and_wait(
            "t", b"bad", b"k", headers=[("mine", b"1")], timestamp_ms=77
        )
        for value in (b"good", b"late"):
            await producer.send("t", value)
    async with working(cluster, handle, **options):
        reader = cluster.consumer("readers", isolation_level="read_committed")
        reader.subscribe(["t.dead"])
        (dead,) = await read(reader, 1, 120_000)
        async with cluster.producer() as producer:
            await producer.send("t", b"end")
        await done.wait()
    assert [(value, topic) for value, topic, _ in tries] == [
        (b"bad", "t"),
        (b"good", "t"),
        (b"late", "t"),
        (b"bad", "t.retry.5s"),
        (b"late", "t.retry.5s"),
        (b"bad", "t.retry.1m"),
        (b"end", "t"),
    ]
    first_ms, second_ms, third_ms = (when for value, _, when in tries if value == b"bad")
    assert 5_000 <= second_ms - first_ms < 6_000
    assert 60_000 <= third_ms - second_ms < 61_000
    assert (dead.key, dead.value, dead.headers[0]) == (b"k", b"bad", ("mine", b"1"))
    story = Story.from_record(dead)
    assert (story.topic, story.partition, story.offset) == ("t", 0, where.offset)
    assert (story.attempts, story.timestamp_ms) == (3, 77)
    assert dict(dead.headers)["odradek.retry.error"] == b"ValueError: no good"
    assert 0 <= story.first_failure_ms - started_ms - first_ms < 1_000
    # All was committed: nobody tries again.
    partition = TopicPartition("t", 0)
    committed = await cluster.consumer("workers").committed([partition])
    found = committed[partition]
    assert found is not None
    assert found.offset >= 3


@on_groups()
async def test_a_record_that_is_rejected_is_dead_at_once(cluster: GroupCluster) -> None:
    await cluster.client.create_topic("t")
    await cluster.fill("t", 1)

    def handle(record: ConsumerRecord) -> None:
        raise Reject("not ours")

    async with working(cluster, handle):
        reader = cluster.consumer("readers")
        reader.subscribe(["t.dead"])
        (dead,) = await read(reader, 1)
    assert Story.from_record(dead).attempts == 1
    assert dict(dead.headers)["odradek.retry.error"] == b"Reject: not ours"


@on_groups()
async def test_a_worker_that_dies_between_forwarding_and_committing_does_it_again(
    cluster: GroupCluster,
) -> None:
    await cluster.client.create_topic("t")
    await cluster.fill("t", 1)
    handled: list[int] = []

    def handle(record: ConsumerRecord) -> None:
        handled.append(record.offset)
        raise Reject("always")

    async with working(cluster, handle) as worker:
        commit = worker._consumer.commit

        async def die(*_: object) -> None:
            raise asyncio.CancelledError

        worker._consumer.commit = die  # type: ignore[assignment]
        reader = cluster.consumer("readers")
        reader.subscribe(["t.dead"])
        await read(reader, 1)
        worker._consumer.commit = commit  # type: ignore[method-assign]
    async with working(cluster, handle):
        await read(reader, 1)
    # Twice, and never lost: the documented price of a plain producer.
    assert handled == [0, 0]


def test_delays_and_consumers_that_will_not_do() -> None:
    assert Delay.parse("90s") == Delay("90s", 90_000)
    with pytest.raises(ValueError, match="write it like 500ms, 5s"):
        Delay.parse("soon")

    async def test(cluster: GroupCluster) -> None:
        with pytest.raises(ValueError, match="enable_auto_commit=False"):
            Retrying(cluster.consumer(), cluster.producer(), print, ["t"])
        consumer = cluster.consumer(enable_auto_commit=False, value_deserializer="string")
        with pytest.raises(ValueError, match="deserialize in the handler"):
            Retrying(consumer, cluster.producer(), print, ["t"])

    with_groups(test)
