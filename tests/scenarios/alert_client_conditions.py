"""Requests, connections and consumer groups that cause alerts. Each is a context manager: its
beginning brings the cluster into the condition, its end takes it out again."""

import asyncio
import contextlib
import os
import resource
import signal
import struct
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from confluent_kafka import TopicPartition

from tests.scenarios.alert_cluster import AlertCluster, until
from tests.scenarios.alert_load import (
    PATIENCE_S,
    append,
    group_of,
    producer_of,
    repeating,
    under_load,
)

# Requests


@asynccontextmanager
async def slow_follower(cluster: AlertCluster) -> AsyncIterator[None]:
    await cluster.create("orders", [1, 3], min_insync_replicas="2")
    append(cluster, "orders", 10)
    producer = producer_of(cluster, request_timeout_ms=1000, message_timeout_ms=1500)

    def write() -> None:
        producer.produce("orders", b"a book")
        producer.flush(2)

    cluster.signal(3, signal.SIGSTOP)
    try:
        async with under_load(write):
            yield
    finally:
        cluster.signal(3, signal.SIGCONT)
    for _ in range(600):
        append(cluster, "orders", 1)


@asynccontextmanager
async def flood(cluster: AlertCluster) -> AsyncIterator[None]:
    """Sends requests without waiting for responses: ApiVersions, the smallest there is."""
    # Key 18, version 0, a correlation id, no client id.
    frames = struct.pack(">ihhih", 10, 18, 0, 1, -1) * 2000

    # A busy broker has used up a processor: where others want it too, it must come first, which
    # root can arrange. `nice` is not enough: Linux divides time between terminals before processes.
    with contextlib.suppress(PermissionError):
        policy = os.SCHED_RR | os.SCHED_RESET_ON_FORK
        os.sched_setscheduler(cluster.pid(2), policy, os.sched_param(1))

    async def send() -> None:
        reader, writer = await asyncio.open_connection(*cluster.address(2))

        async def discard() -> None:
            while await reader.read(1 << 16):
                pass

        discarding = asyncio.create_task(discard())
        try:
            while True:
                writer.write(frames)
                await writer.drain()
        finally:
            writer.transport.abort()
            discarding.cancel()

    async with contextlib.AsyncExitStack() as stack:
        for _ in range(6):
            await stack.enter_async_context(repeating(send))
        yield


@asynccontextmanager
async def stalls(cluster: AlertCluster) -> AsyncIterator[None]:
    """Stops broker 2 for moments, as a machine does whose processors are taken by others."""

    async def once() -> None:
        cluster.signal(2, signal.SIGSTOP)
        await asyncio.sleep(0.25)
        cluster.signal(2, signal.SIGCONT)
        await asyncio.sleep(0.1)

    try:
        async with repeating(once):
            yield
    finally:
        cluster.signal(2, signal.SIGCONT)


@asynccontextmanager
async def few_files_allowed(cluster: AlertCluster) -> AsyncIterator[None]:
    before = resource.prlimit(cluster.pid(2), resource.RLIMIT_NOFILE)
    is_open = len(os.listdir(f"/proc/{cluster.pid(2)}/fd"))
    resource.prlimit(cluster.pid(2), resource.RLIMIT_NOFILE, (is_open + 2, before[1]))
    yield
    resource.prlimit(cluster.pid(2), resource.RLIMIT_NOFILE, before)


@asynccontextmanager
async def large_records(cluster: AlertCluster) -> AsyncIterator[None]:
    await cluster.create("orders", [1], min_insync_replicas="1", max_message_bytes="1000")
    producer = producer_of(cluster)

    def write() -> None:
        producer.produce("orders", os.urandom(5000))
        producer.flush(2)
        time.sleep(0.05)

    async with under_load(write):
        yield
    await _written_well(cluster)


async def _written_well(cluster: AlertCluster) -> None:
    """Errors are a share of requests: there must be some that succeed."""
    for _ in range(20):
        append(cluster, "orders", 1)
        await asyncio.sleep(0.3)


@asynccontextmanager
async def reads_beyond_the_end(cluster: AlertCluster) -> AsyncIterator[None]:
    await cluster.create("orders", [1], min_insync_replicas="1")
    append(cluster, "orders", 10)
    consumer = group_of(cluster, "lost", reset="latest")

    def read() -> None:
        consumer.assign([TopicPartition("orders", 0, 1_000_000)])
        consumer.poll(0.2)

    async with under_load(read):
        yield
    consumer.assign([TopicPartition("orders", 0, 0)])
    for _ in range(30):
        consumer.poll(0.3)
    consumer.close()


@asynccontextmanager
async def too_many_connections(cluster: AlertCluster) -> AsyncIterator[None]:
    opened: list[asyncio.StreamWriter] = []

    async def connect() -> None:
        for _ in range(40):
            with contextlib.suppress(OSError):
                opened.append((await asyncio.open_connection(*cluster.address(2)))[1])
        await asyncio.sleep(0.5)
        while opened:
            opened.pop().close()

    async with repeating(connect):
        yield


@asynccontextmanager
async def forgotten_connections(cluster: AlertCluster) -> AsyncIterator[None]:
    opened = []

    async def connect() -> None:
        for _ in range(60):
            opened.append(await asyncio.open_connection(*cluster.address(2)))
        await asyncio.sleep(2)

    async with repeating(connect):
        yield


# Consumers


@asynccontextmanager
async def a_group_that_falls_behind(cluster: AlertCluster) -> AsyncIterator[None]:
    await cluster.create("orders")
    consumer = group_of(cluster, "behind")
    consumer.commit(offsets=[TopicPartition("orders", 0, 0)], asynchronous=False)
    append(cluster, "orders", 1500)
    producer = producer_of(cluster)

    def write() -> None:
        for _ in range(20):
            producer.produce("orders", b"a book")
        producer.flush(PATIENCE_S)
        time.sleep(0.2)

    async with under_load(write):
        yield
    consumer.commit(offsets=[TopicPartition("orders", 0, 10**9)], asynchronous=False)
    consumer.close()


@asynccontextmanager
async def an_old_record_unread(cluster: AlertCluster) -> AsyncIterator[None]:
    await cluster.create("orders")
    producer = producer_of(cluster)
    producer.produce("orders", b"a book", timestamp=int(time.time() * 1000) - 700_000)
    assert producer.flush(PATIENCE_S) == 0
    consumer = group_of(cluster, "late")
    consumer.commit(offsets=[TopicPartition("orders", 0, 0)], asynchronous=False)
    yield
    consumer.commit(offsets=[TopicPartition("orders", 0, 1)], asynchronous=False)
    consumer.close()


@asynccontextmanager
async def a_group_left_by_all(cluster: AlertCluster) -> AsyncIterator[None]:
    await cluster.create("orders")
    append(cluster, "orders", 10)
    consumer = group_of(cluster, "left")
    consumer.subscribe(["orders"])

    async def is_counted() -> bool:
        await asyncio.to_thread(consumer.poll, 0.2)
        found = await cluster.prometheus.query(
            'sum(kafka_consumergroup_members{consumergroup="left"})'
        )
        return bool(found) and found[0]["value"][1] == "1"

    await until(is_counted, "the member does not join")
    consumer.commit(offsets=[TopicPartition("orders", 0, 1)], asynchronous=False)
    consumer.close()
    yield
    again = group_of(cluster, "left")
    again.commit(offsets=[TopicPartition("orders", 0, 10)], asynchronous=False)
    again.close()
