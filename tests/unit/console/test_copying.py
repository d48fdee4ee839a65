"""Cloning the records of a topic, with a real broker."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from odradek.client import Consumer, NewTopic, Producer
from odradek.client.admin.admin import Admin
from odradek.console.records.copying import copy_records
from odradek.protocol.errors import KafkaError
from odradek.protocol.types import TopicPartition
from odradek.services.client_pool import CallerClients, ClientPool
from odradek.services.identity import NOBODY
from odradek.testing.cluster import Cluster


@asynccontextmanager
async def clients_of(cluster: Cluster) -> AsyncIterator[CallerClients]:
    pool = ClientPool({"bootstrap.servers": cluster.bootstrap})
    try:
        async with pool.clients(NOBODY) as clients:
            yield clients
    finally:
        await pool.close()


async def values(cluster: Cluster, topic: str) -> list[tuple[int, bytes | None, int]]:
    found = []
    async with Consumer(
        bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest"
    ) as consumer:
        partitions = [TopicPartition(topic, index) for index in (0, 1)]
        consumer.assign(partitions)
        ends = await consumer.end_offsets(partitions)
        async with asyncio.timeout(20):
            while [await consumer.position(one) for one in partitions] != list(ends.values()):
                for records in (await consumer.poll(500)).values():
                    found += [(one.partition, one.value, one.timestamp_ms) for one in records]
    return sorted(found)


async def test_what_was_aborted_or_is_open_is_not_copied(odradek_cluster: Cluster) -> None:
    servers = odradek_cluster.bootstrap
    async with Admin(bootstrap_servers=servers) as admin:
        (await admin.create_topics([NewTopic("paid", 2), NewTopic("paid-2", 2)])).raise_for_errors()
    async with Producer(bootstrap_servers=servers, transactional_id="copying") as producer:
        await producer.init_transactions()
        for name, is_committed in (("aborted", False), ("committed", True)):
            await producer.begin_transaction()
            await producer.send("paid", name.encode(), b"k", partition=0, timestamp_ms=1_000)
            await producer.flush()
            await (producer.commit_transaction if is_committed else producer.abort_transaction)()
        await producer.begin_transaction()
        await producer.send("paid", b"open", partition=1)
        await producer.flush()
        async with clients_of(odradek_cluster) as clients, asyncio.timeout(30):
            assert await copy_records(clients, "paid", "paid-2", (0, 1)) == 1
        await producer.abort_transaction()
    assert await values(odradek_cluster, "paid-2") == [(0, b"committed", 1_000)]


async def test_a_record_that_is_refused_is_not_passed_over(odradek_cluster: Cluster) -> None:
    servers = odradek_cluster.bootstrap
    small = {"max.message.bytes": "500"}
    async with Admin(bootstrap_servers=servers) as admin:
        topics = [NewTopic("wide", 2), NewTopic("narrow", 2, configs=small)]
        (await admin.create_topics(topics)).raise_for_errors()
    async with Producer(bootstrap_servers=servers) as producer:
        await producer.send_and_wait("wide", b"x" * 1000, partition=0)
    async with clients_of(odradek_cluster) as clients, asyncio.timeout(30):
        with pytest.raises(KafkaError):
            await copy_records(clients, "wide", "narrow", (0, 1))
