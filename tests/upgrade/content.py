"""What is written into a data directory, and what must be found in it later.

It has one of everything that has a format of its own on disk: compressed and plain batches, several
segments and their indexes, idempotent and transactional producers with an aborted transaction, a
compacted topic, committed offsets, settings of a topic and of a broker. Nothing in it expires:
these directories are read years later.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

_TIMEOUT_S = 60.0
_READY = "odradek is ready at "
# Offsets of groups without members would else be forgotten after a week.
SETTINGS = (
    "offsets.retention.minutes=2147483647",
    "offsets.topic.num.partitions=1",
    "transaction.state.log.num.partitions=1",
    "log.cleaner.enable=false",
)
ORDERS, STATE, PAYMENTS = "orders", "state", "payments"
COUNT = 300
RETENTION_MS = "86400000000000"


# The same as flags.
OVERRIDES = tuple(word for setting in SETTINGS for word in ("--override", setting))


def start(source: Path | None, *words: str) -> "tuple[subprocess.Popen[str], str]":
    """Runs a command of the code in `source`, or of this code, which starts brokers. Returns its
    process and the address of the brokers, when they are ready."""
    environment = dict(os.environ)
    if source is not None:
        environment["PYTHONPATH"] = str(source / "src")
    process = subprocess.Popen(
        [sys.executable, "-m", "odradek.cli", *words],
        stdout=subprocess.PIPE,
        env=environment,
        text=True,
    )
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith(_READY):
            return process, line.removeprefix(_READY).split(" ")[0]
    process.communicate()
    raise AssertionError(f"odradek {words[0]} did not start")


@contextmanager
def broker(source: Path | None, data: Path, *, killed: bool = False) -> Iterator[str]:
    """Runs a broker on a data directory, with the code in `source`, or with this code. Yields its
    address. At the end it is stopped cleanly, or killed."""
    process, bootstrap = start(source, "up", "--port", "0", "--data", str(data), *OVERRIDES)
    try:
        yield bootstrap
    finally:
        process.send_signal(signal.SIGKILL if killed else signal.SIGTERM)
        process.communicate(timeout=_TIMEOUT_S)
    assert process.returncode == (-signal.SIGKILL if killed else 0)


def write(bootstrap: str, *, replicas: int = 1) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topics = [
        NewTopic(ORDERS, 2, replicas, config={"retention.ms": "-1", "segment.bytes": "16384"}),
        NewTopic(STATE, 1, replicas, config={"cleanup.policy": "compact"}),
        NewTopic(PAYMENTS, 1, replicas, config={"retention.ms": "-1"}),
    ]
    for created in admin.create_topics(topics).values():
        created.result(_TIMEOUT_S)
    change = ConfigEntry(
        "log.retention.ms", RETENTION_MS, incremental_operation=AlterConfigOpType.SET
    )
    broker_1 = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[change])
    for altered in admin.incremental_alter_configs([broker_1]).values():
        altered.result(_TIMEOUT_S)
    _write_records(bootstrap)
    _write_transactions(bootstrap)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "readers"})
    consumer.commit(offsets=[TopicPartition(ORDERS, 1, 42)], asynchronous=False)
    consumer.close()


def _write_records(bootstrap: str) -> None:
    for compression in ("none", "gzip", "snappy", "lz4", "zstd"):
        producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "compression.type": compression,
                "batch.num.messages": 10,
            }
        )
        for number in range(COUNT // 5):
            name = f"{compression}-{number}"
            headers = [("name", name.encode())]
            producer.produce(ORDERS, name.encode() * 200, partition=number % 2, headers=headers)
        for number in range(10):
            producer.produce(STATE, compression.encode(), key=f"key-{number}".encode())
        assert producer.flush(_TIMEOUT_S) == 0


def _write_transactions(bootstrap: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "till"})
    producer.init_transactions(_TIMEOUT_S)
    for ending, names in (("commit", "abc"), ("abort", "xy"), ("commit", "d")):
        producer.begin_transaction()
        for name in names:
            producer.produce(PAYMENTS, name.encode(), partition=0)
        if ending == "commit":
            producer.commit_transaction(_TIMEOUT_S)
        else:
            producer.flush(_TIMEOUT_S)
            producer.abort_transaction(_TIMEOUT_S)


def write_more(bootstrap: str) -> None:
    """What another version adds: a record, a transaction of the same producer, an offset."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "till"})
    producer.init_transactions(_TIMEOUT_S)
    producer.begin_transaction()
    producer.produce(PAYMENTS, b"e", partition=0)
    producer.produce(ORDERS, b"more", partition=0)
    producer.commit_transaction(_TIMEOUT_S)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "readers"})
    consumer.commit(offsets=[TopicPartition(ORDERS, 1, 43)], asynchronous=False)
    consumer.close()


def check(bootstrap: str, *, more: bool = False) -> None:
    """Raises if something is not as it was written; `more` if `write_more` was called since."""
    expected = {
        f"{compression}-{number}" * 200
        for compression in ("none", "gzip", "snappy", "lz4", "zstd")
        for number in range(COUNT // 5)
    }
    orders = _read(bootstrap, ORDERS, 2)
    assert {value for _, value in orders} == expected | ({"more"} if more else set())
    assert len(orders) == COUNT + more
    state = dict(_read(bootstrap, STATE, 1))
    assert state == {f"key-{number}": "zstd" for number in range(10)}
    payments = "".join(value for _, value in _read(bootstrap, PAYMENTS, 1))
    assert payments == "abcd" + "e" * more
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "readers"})
    (committed,) = consumer.committed([TopicPartition(ORDERS, 1)], timeout=_TIMEOUT_S)
    consumer.close()
    assert committed.offset == 42 + more
    _check_settings(bootstrap)


def _check_settings(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    wanted = {
        (ResourceType.TOPIC, ORDERS, "segment.bytes"): "16384",
        (ResourceType.TOPIC, STATE, "cleanup.policy"): "compact",
        (ResourceType.BROKER, "1", "log.retention.ms"): RETENTION_MS,
    }
    for (kind, name, setting), value in wanted.items():
        resource = ConfigResource(kind, name)
        entries = admin.describe_configs([resource])[resource].result(_TIMEOUT_S)
        assert entries[setting].value == value, (name, setting)


def _read(bootstrap: str, topic: str, partitions: int) -> list[tuple[str, str]]:
    """Returns keys and values of all committed records of a topic, up to the end of each
    partition."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "checker",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
        }
    )
    consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
    found: list[tuple[str, str]] = []
    ended: set[int] = set()
    while len(ended) < partitions:
        message = consumer.poll(_TIMEOUT_S)
        assert message is not None, f"{topic} did not come to its end"
        if message.error() is None:
            found.append(((message.key() or b"").decode(), message.value().decode()))
        else:
            assert message.error().name() == "_PARTITION_EOF", message.error()
            ended.add(message.partition())
    consumer.close()
    return found
