"""Key indexes lie among Kafka's files: Apache Kafka does not mind them, and they survive its turn.

Kafka's own broker has no look-up by key: our client says so, and the command reads the topic.
"""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.apache_kafka import ApacheKafka
from odradek.client import Consumer
from odradek.client.errors import UnsupportedVersion
from odradek.config import BrokerSettings
from odradek.protocol.types import BrokerId, TopicPartition
from odradek.storage import LogManager
from odradek.storage.key_index.index import KeyIndex, KeyIndexLimits
from odradek.storage.key_index.search import BytesRead
from odradek.storage.text_files import read_directory_properties
from odradek.world import World
from tests.conformance.test_storage_both_ways import (
    KAFKA_SETTINGS,
    TOPIC,
    consume,
    produce,
    value_of,
    values_up_to,
)
from tests.unit.storage.key_index.test_model import do_jobs

LIMITS = KeyIndexLimits(min_bytes=1000, job_bytes=20_000, job_entries=500)


async def look_up_all(directory: Path, count: int, *, has_index: bool) -> None:
    """Finds every record by its key, in a directory that Kafka has left, and leaves an index."""
    world = World()
    settings = BrokerSettings.from_properties({"log.dirs": str(directory)})
    cluster_id = read_directory_properties(world.disk, str(directory))["cluster.id"]
    manager = LogManager(settings, world, cluster_id=cluster_id, node_id=BrokerId(1))
    await manager.load()
    log = manager.logs[TopicPartition(TOPIC, 0)]
    log.high_watermark = log.log_end_offset
    index = KeyIndex(log, world, LIMITS)
    assert bool(index.runs) == has_index
    for _ in range(2):
        for number in range(0, count, 7):
            key, read = b"key %d" % number, BytesRead()
            end_offset = log.log_end_offset
            found = await index.look_up(key, end_offset=end_offset, committed_only=True, read=read)
            assert found is not None
            assert (found.record.offset, found.record.value) == (number, value_of(number))
        do_jobs(index, world)
        assert index.unindexed_bytes() < LIMITS.min_bytes
    await manager.close()
    world.workers.close()


async def ask(bootstrap: str) -> None:
    async with Consumer(bootstrap_servers=bootstrap) as consumer:
        await consumer.get(TOPIC, "key 3")


def test_kafka_starts_among_key_indexes_and_leaves_them_true(
    kafka_home: ApacheKafka, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    with kafka_home.broker(tmp_path, KAFKA_SETTINGS) as kafka:
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
        admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(30)
        del admin
        produce(kafka.bootstrap, 0, 2000)
        with pytest.raises(UnsupportedVersion, match="only Odradek does"):
            asyncio.run(ask(kafka.bootstrap))
        get = [sys.executable, "-m", "odradek.cli", "get", "--topic", TOPIC, "--key", "key 3"]
        environment = {**os.environ, "ODRADEK_BOOTSTRAP": kafka.bootstrap}
        for flags, code, said in (([], 1, b"--scan does"), (["--scan"], 0, b"")):
            done = subprocess.run([*get, *flags], env=environment, capture_output=True, check=False)
            assert (done.returncode, said in done.stderr) == (code, True)
        assert done.stdout == value_of(3) + b"\n"
    asyncio.run(look_up_all(data, 2000, has_index=False))
    indexes = sorted(path.name for path in (data / f"{TOPIC}-0").glob("*.keys"))
    assert indexes
    with kafka_home.broker(tmp_path, KAFKA_SETTINGS) as kafka:
        assert consume(kafka.bootstrap, 2000) == values_up_to(2000)
        produce(kafka.bootstrap, 2000, 500)
    assert sorted(path.name for path in (data / f"{TOPIC}-0").glob("*.keys")) == indexes
    asyncio.run(look_up_all(data, 2500, has_index=True))
