"""A topic that is encrypted on three brokers: replication, kill -9, a broker without its key."""

import asyncio
from pathlib import Path

from odradek.client import Admin, Consumer, Producer
from odradek.client.cluster_view import Topic
from odradek.security.keys.key_file import KeyFile
from odradek.testing import Cluster
from odradek.world import World

MARKER = b"a-marker-that-no-disk-may-have"
TOPIC = "secrets"
PARTITIONS = 3
PATIENCE_S = 60


async def test_records_survive_kills_and_are_in_no_file(tmp_path: Path) -> None:
    key_file = tmp_path / "keys" / "topics.json"
    KeyFile(str(key_file), World()).create("topics")
    data = tmp_path / "data"
    settings = {
        "odradek.key.provider": "file",
        "odradek.key.file": str(key_file),
        "odradek.key.refresh.ms": "500",
        "min.insync.replicas": "2",
    }
    with Cluster(brokers=3, settings=settings, data=str(data)) as cluster:
        config = {"odradek.encryption.key": "topics", "segment.bytes": "20000"}
        await cluster.create_topic_async(TOPIC, PARTITIONS, config, replication_factor=3)
        sent = await send(cluster, 0, 600)
        cluster.kill(2)
        search(data)
        sent += await send(cluster, 600, 600)
        cluster.restart(2)
        await in_sync(cluster, 3)
        cluster.kill(3)
        key_file.rename(tmp_path / "away")
        cluster.restart(3)
        # Its replicas are offline, for want of the key, and the others take records.
        sent += await send(cluster, 1200, 300)
        await in_sync(cluster, 2)
        (tmp_path / "away").rename(key_file)
        await in_sync(cluster, 3)
        sent += await send(cluster, 1500, 300)
        assert sorted(await read(cluster, len(sent))) == sorted(sent)
        search(data)
    search(data)


async def send(cluster: Cluster, first: int, count: int) -> list[bytes]:
    values = [MARKER + b"%06d" % number for number in range(first, first + count)]
    async with Producer(bootstrap_servers=cluster.bootstrap, acks="all", linger_ms=1) as producer:
        async with asyncio.timeout(PATIENCE_S):
            for number, value in enumerate(values):
                headers = [("marker", MARKER)]
                await producer.send(TOPIC, value, key=MARKER + b"%d" % number, headers=headers)
    return values


async def read(cluster: Cluster, count: int) -> list[bytes]:
    found: list[bytes] = []
    async with (
        asyncio.timeout(PATIENCE_S),
        Consumer(bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest") as consumer,
    ):
        consumer.assign([(TOPIC, number) for number in range(PARTITIONS)])
        while len(found) < count:
            record = await anext(aiter(consumer))
            found.append(record.value)
    return found


async def in_sync(cluster: Cluster, replicas: int) -> None:
    """Waits until every partition has so many replicas in sync."""
    async with asyncio.timeout(PATIENCE_S), Admin(bootstrap_servers=cluster.bootstrap) as admin:
        while True:
            topic = (await admin.describe_topics([TOPIC]))[TOPIC]
            assert isinstance(topic, Topic), topic
            if all(len(each.in_sync) == replicas for each in topic.partitions.values()):
                return
            await asyncio.sleep(0.2)


def search(data: Path) -> None:
    searched = 0
    for path in data.rglob("*"):
        if path.is_file() and not path.is_socket():
            content = path.read_bytes()
            assert MARKER not in content, f"plain text in {path}"
            searched += len(content)
    assert searched > 100_000
