"""Signals by a topic, on a real broker."""

import asyncio
import json
import uuid

from odradek.client import Producer
from odradek.client.admin.admin import Admin
from odradek.connect.connectors.cdc.signals import KafkaSignals, Signal
from odradek.testing import Cluster

PATIENCE_S = 60.0


async def taken(signals: KafkaSignals, count: int) -> list[Signal]:
    found: list[Signal] = []
    async with asyncio.timeout(PATIENCE_S):
        while len(found) < count:
            found += signals.take()
            await asyncio.sleep(0.01)
    return found


async def test_signals_come_again_until_they_are_stored(odradek_cluster: Cluster) -> None:
    topic, group = f"signals-{uuid.uuid4().hex}", f"group-{uuid.uuid4().hex}"
    properties = {"bootstrap.servers": odradek_cluster.bootstrap, "group.id": group}
    async with Admin(bootstrap_servers=odradek_cluster.bootstrap) as admin:
        await admin.create_topic(topic, 1, 1)
    async with Producer(bootstrap_servers=odradek_cluster.bootstrap) as producer:
        for key, number in ((b"shop", 1), (b"other", 2), (b"shop", 3)):
            value = {"id": str(number), "type": "log", "data": {"message": "m"}}
            await producer.send(topic, json.dumps(value).encode(), key)
        await producer.send(topic, b"no JSON", b"shop")
    for is_stored in (False, True):
        signals = KafkaSignals(topic, properties, "shop")
        signals.start()
        try:
            assert [signal.id for signal in await taken(signals, 2)] == ["1", "3"]
            if is_stored:
                signals.stored()
                await committed(odradek_cluster, group)
        finally:
            await asyncio.to_thread(signals.close)


async def committed(cluster: Cluster, group: str) -> None:
    async with asyncio.timeout(PATIENCE_S), Admin(bootstrap_servers=cluster.bootstrap) as admin:
        while not await admin.list_group_offsets(group):  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.01)
