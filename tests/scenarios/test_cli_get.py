"""Look-ups by key as users make them: the command and the clients, against a real broker."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.broker_process import start_odradek, wait_until_ready
from odradek.client import Consumer, Producer, TopicPartition
from odradek.client.consumer.key_lookup import partition_of
from odradek.client.sync import Consumer as SyncConsumer
from odradek.testing import Cluster
from tests.scenarios.test_cli import Shell


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def topic(cluster: Cluster) -> str:
    topic = cluster.create_topic(partitions=4, config={"cleanup.policy": "compact"})
    shell = Shell(cluster.bootstrap)
    lines = "".join(f"customer {number % 40}:{number}\n" for number in range(1000))
    keyed = ["--reader-property", "parse.key=true", "--reader-property", "key.separator=:"]
    shell.ok("console-producer", "--topic", topic, *keyed, stdin=lines)
    return topic


@pytest.fixture
def shell(cluster: Cluster) -> Shell:
    return Shell(cluster.bootstrap)


def test_the_newest_value_is_printed(shell: Shell, topic: str) -> None:
    assert shell.ok("get", "--topic", topic, "--key", "customer 7") == "967\n"
    for where in ("--all-partitions", "--scan"):
        assert shell.ok("get", "--topic", topic, "--key", "customer 7", where) == "967\n"


def test_it_prints_what_is_asked_for(shell: Shell, topic: str) -> None:
    partition = partition_of(b"customer 7", range(4))
    shown = [
        "--formatter-property",
        "print.partition=true",
        "--formatter-property",
        "print.key=true",
    ]
    printed = shell.ok("get", "--topic", topic, "--key", "customer 7", *shown)
    assert printed == f"Partition:{partition}\tcustomer 7\t967\n"
    assert '"value":"967"' in shell.ok("get", "--topic", topic, "--key", "customer 7", "--json")


def test_statistics_say_what_was_read(shell: Shell, topic: str) -> None:
    done = shell("get", "--topic", topic, "--key", "customer 7", "--stats", "--repeat", "20")
    assert done.stdout == "967\n"
    read, _, rest = done.stderr.partition(" bytes read ")
    assert 0 < int(read) < 50_000
    assert "20 look-ups: p50 " in rest
    assert "p99 " in rest


def test_nothing_is_one_line_and_status_1(shell: Shell, topic: str) -> None:
    line = shell.refused("get", "--topic", topic, "--key", "nobody", "--scan")
    assert line.startswith(f"odradek get: no record has the key 'nobody' in topic {topic}")
    assert "--all-partitions" in line
    for flags in ((), ("--all-partitions",), ("--scan", "--all-partitions")):
        line = shell.refused("get", "--topic", topic, "--key", "nobody", *flags)
        assert line.rstrip() == f"odradek get: no record has the key 'nobody' in topic {topic}"
    assert "does not exist" in shell.refused("get", "--topic", "no-topic", "--key", "a")
    elsewhere = (partition_of(b"customer 7", range(4)) + 1) % 4
    shell.refused("get", "--topic", topic, "--key", "customer 7", "--partition", str(elsewhere))
    shell.refused("get", "--topic", topic, "--key", "customer 7", "--partition", "4")


async def test_a_key_in_two_partitions_is_the_latest_and_a_hint(
    cluster: Cluster, shell: Shell
) -> None:
    topic = cluster.create_topic(partitions=4)
    usual = partition_of(b"k", range(4))
    async with Producer(bootstrap_servers=cluster.bootstrap) as producer:
        for value, partition in ((b"old", usual), (b"new", (usual + 1) % 4)):
            moment = 1000 if value == b"old" else 2000
            await (
                await producer.send(topic, value, b"k", partition=partition, timestamp_ms=moment)
            )
    done = shell("get", "--topic", topic, "--key", "k")
    assert (done.returncode, done.stdout) == (0, "new\n")
    assert "have this key: its producers place keys differently" in done.stderr


async def test_a_deleted_key_says_where_it_was_deleted(
    cluster: Cluster, shell: Shell, topic: str
) -> None:
    async with Producer(bootstrap_servers=cluster.bootstrap) as producer:
        sent = await (await producer.send(topic, None, b"customer 39"))
    line = shell.refused("get", "--topic", topic, "--key", "customer 39")
    expected = f"key 'customer 39' was deleted at offset {sent.offset} of {topic}-{sent.partition}"
    assert line.rstrip() == f"odradek get: {expected}"
    async with Consumer(bootstrap_servers=cluster.bootstrap) as consumer:
        record = await consumer.get(topic, "customer 39")
        assert record is not None
        assert (record.offset, record.value) == (sent.offset, None)


async def test_an_aborted_value_is_not_the_newest(cluster: Cluster, topic: str) -> None:
    bootstrap = cluster.bootstrap
    async with Producer(bootstrap_servers=bootstrap, transactional_id="look-up") as producer:
        await producer.init_transactions()
        async with producer.transaction():
            await producer.send(topic, b"good", b"account")
        await producer.begin_transaction()
        await producer.send(topic, b"bad", b"account")
        await producer.flush()
        await producer.abort_transaction()
    async with Consumer(bootstrap_servers=bootstrap, isolation_level="read_committed") as consumer:
        record = await consumer.get(topic, b"account")
        assert record is not None
        assert record.value == b"good"
    async with Consumer(bootstrap_servers=bootstrap) as consumer:
        record = await consumer.get(topic, b"account")
        assert record is not None
        assert record.value == b"bad"


async def test_the_asyncio_client_asks_for_one_or_many(cluster: Cluster, topic: str) -> None:
    async with Consumer(bootstrap_servers=cluster.bootstrap, value_deserializer=int) as consumer:
        keys = [f"customer {number}" for number in range(20)]
        records = await consumer.get_many(topic, [*keys, "nobody", keys[0]])
        assert [one and one.value for one in records] == [*range(960, 980), None, 960]
        record = await consumer.get(topic, "customer 3", all_partitions=True)
        assert record is not None
        assert (record.key, record.value) == (b"customer 3", 963)
        where = TopicPartition(record.topic, record.partition)
        assert record.offset < (await consumer.end_offsets([where]))[where]
        with pytest.raises(ValueError, match="not both"):
            await consumer.get(topic, "a", partition=0, all_partitions=True)


def test_the_synchronous_client_asks_too(cluster: Cluster, topic: str) -> None:
    with SyncConsumer(bootstrap_servers=cluster.bootstrap) as consumer:
        found = consumer.get(topic, "customer 5")
        assert found is not None
        assert found.value == b"965"
        assert consumer.get(topic, "nobody") is None


def test_kill_9_leaves_index_and_answers(tmp_path: Path) -> None:
    def ask(key: str, *flags: str) -> "tuple[str, int]":
        done = shell("get", "--topic", "table", "--key", key, "--stats", *flags)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip(), int(done.stderr.partition(" bytes read")[0])

    keyed = ["--reader-property", "parse.key=true", "--reader-property", "key.separator=:"]
    broker = start_odradek(tmp_path)
    try:
        wait_until_ready(broker)
        shell = Shell(broker.bootstrap)
        shell.ok("topics", "--create", "--topic", "table", "--config", "cleanup.policy=compact")
        lines = "".join(f"{number}:{number:0500d}\n" for number in range(12_000))
        shell.ok("console-producer", "--topic", "table", *keyed, stdin=lines)
        assert ask("17")[0] == f"{17:0500d}"
        for _ in range(100):
            if ask("17")[1] < 1 << 20:
                break
        else:
            pytest.fail("no index was made")
        assert list((broker.data_directory / "table-0").glob("*.keys"))
        broker.kill()
        broker = start_odradek(tmp_path, port=broker.port)
        wait_until_ready(broker)
        value, read = ask("17")
        assert value == f"{17:0500d}"
        assert read < 1_200_000
        shell.ok("console-producer", "--topic", "table", *keyed, stdin="17:new\n")
        shown, _ = ask("17", "--formatter-property", "print.epoch=true")
        epoch, _, value = shown.partition("\t")
        assert value == "new"
        # Runs tell by the leader epoch whether the log is still theirs: each life has its own.
        assert int(epoch.removeprefix("Epoch:")) > 0
    finally:
        broker.kill()


def test_the_benchmark_runs() -> None:
    """So that it does not rot: a small topic, some look-ups."""
    command = [sys.executable, "-m", "benchmarks.look_up", "--records", "50000", "--keys", "5000"]
    command += ["--look-ups", "200", "--records-per-second", "5000"]
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "; 200 of 200 found" in done.stdout
    assert "0 of 50 found" in done.stdout
