"""The programs under examples/ do what they say, against a real broker."""

import asyncio
import json
import logging
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Coroutine
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import IO, Any

import pytest

from examples import (
    at_least_once,
    at_most_once,
    crypto_shredding,
    custom_assignor,
    exactly_once,
    log_handler,
    offsets_in_database,
    retries_and_dead_letters,
    schemas,
    tracing,
)
from odradek.client import Admin, Consumer, ConsumerRecord, Producer, TopicPartition
from odradek.client.consumer.dead_letters import Reject, dead_topic
from odradek.client.settings import ConsumerSettings
from odradek.testing.cluster import Cluster
from odradek.testing.registry import Registry

EXAMPLES = Path(__file__).parents[2] / "examples"
VALUES = [b"one", b"two", b"three", b"four", b"five"]
DEADLINE_S = 60


class Crash(Exception):
    pass


class Handler:
    """Remembers what it handled, and crashes once when it gets a certain value."""

    def __init__(self, crash_at: bytes | None = None) -> None:
        self.handled: list[bytes] = []
        self._crash_at = crash_at

    async def __call__(self, record: ConsumerRecord) -> None:
        if record.value == self._crash_at:
            raise Crash
        self.handled.append(record.value)


async def fill(bootstrap: str, topic: str, values: list[bytes]) -> None:
    async with Producer(bootstrap_servers=bootstrap) as producer:
        for value in values:
            await producer.send(topic, value)


async def run_until(program: Coroutine[Any, Any, Any], is_done: Callable[[], bool]) -> None:
    """Runs an endless program until a condition holds; raises what the program raises."""
    task = asyncio.ensure_future(program)
    try:
        async with asyncio.timeout(DEADLINE_S):
            while not is_done():
                if task.done():
                    task.result()
                    raise AssertionError("the program ended too early")
                await asyncio.sleep(0.02)
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError, Crash):
            await task


async def run_until_crash(program: Coroutine[Any, Any, Any]) -> None:
    with pytest.raises(Crash):
        async with asyncio.timeout(DEADLINE_S):
            await program


async def test_at_most_once_loses_the_record_at_hand(
    odradek_cluster: Cluster, odradek_topic: str
) -> None:
    servers, topic = odradek_cluster.bootstrap, odradek_topic
    await fill(servers, topic, VALUES)
    before, after = Handler(crash_at=b"three"), Handler()
    await run_until_crash(at_most_once.consume(servers, topic, before))
    await run_until(at_most_once.consume(servers, topic, after), lambda: len(after.handled) == 2)
    assert before.handled + after.handled == [b"one", b"two", b"four", b"five"]


async def test_at_least_once_repeats_and_loses_nothing(
    odradek_cluster: Cluster, odradek_topic: str
) -> None:
    servers, topic = odradek_cluster.bootstrap, odradek_topic
    await fill(servers, topic, VALUES)
    before, after = Handler(crash_at=b"three"), Handler()
    await run_until_crash(at_least_once.consume(servers, topic, before))
    await run_until(at_least_once.consume(servers, topic, after), lambda: b"five" in after.handled)
    assert before.handled == [b"one", b"two"]
    assert after.handled == VALUES


async def test_exactly_once_does_neither(odradek_cluster: Cluster, odradek_topic: str) -> None:
    servers, topic = odradek_cluster.bootstrap, odradek_topic
    target = odradek_cluster.create_topic(prefix="target")
    await fill(servers, topic, VALUES)
    seen: list[bytes] = []

    async def crash(record: ConsumerRecord) -> bytes:
        if record.value == b"four":
            raise Crash
        return await exactly_once.shout(record)

    async def read() -> None:
        async with Consumer(
            bootstrap_servers=servers,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
        ) as consumer:
            consumer.assign([(target, 0)])
            async for record in consumer:
                seen.append(record.value)

    await run_until_crash(exactly_once.transform(servers, topic, target, crash))
    async with asyncio.TaskGroup() as group:
        again = exactly_once.transform(servers, topic, target, exactly_once.shout)
        group.create_task(run_until(again, lambda: len(seen) >= len(VALUES)))
        group.create_task(run_until(read(), lambda: len(seen) >= len(VALUES)))
    assert seen == [value.upper() for value in VALUES]


async def test_offsets_in_the_users_database(
    odradek_cluster: Cluster,
    odradek_topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    servers, topic, path = odradek_cluster.bootstrap, odradek_topic, str(tmp_path / "t.sqlite")
    await fill(servers, topic, [b"tea", b"coffee", b"tea", b"tea", b"coffee"])
    store = offsets_in_database.store

    def store_and_crash(
        database: sqlite3.Connection, partition: TopicPartition, record: ConsumerRecord
    ) -> None:
        store(database, partition, record)
        if record.offset == 2:
            raise Crash

    def totals() -> dict[str, int]:
        with suppress(sqlite3.OperationalError):
            return dict(sqlite3.connect(path).execute("SELECT word, times FROM totals"))
        return {}

    monkeypatch.setattr(offsets_in_database, "store", store_and_crash)
    await run_until_crash(offsets_in_database.count_words(servers, topic, path))
    assert totals() == {"tea": 2, "coffee": 1}
    monkeypatch.undo()
    counting = offsets_in_database.count_words(servers, topic, path)
    await run_until(counting, lambda: sum(totals().values()) >= 5)
    assert totals() == {"tea": 3, "coffee": 2}


def line_of(output: IO[str]) -> str:
    return output.readline().strip()


@pytest.mark.parametrize("program", ["stop_by_signal.py", "stop_by_signal_sync.py"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_a_consumer_in_order(
    odradek_cluster: Cluster, odradek_topic: str, program: str, number: signal.Signals
) -> None:
    servers, topic = odradek_cluster.bootstrap, odradek_topic
    asyncio.run(fill(servers, topic, VALUES))
    running = subprocess.Popen(
        [sys.executable, "-W", "error", EXAMPLES / program, servers, topic],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert running.stdout is not None
    assert [line_of(running.stdout) for _ in VALUES] == [f"handled {n}" for n in range(5)]
    running.send_signal(number)
    output, errors = running.communicate(timeout=DEADLINE_S)
    assert (output, errors, running.returncode) == ("stopped\n", "", 0)

    async def group() -> tuple[int, int]:
        async with Admin(bootstrap_servers=servers) as admin:
            described = (await admin.describe_groups([f"{topic}-stop"]))[f"{topic}-stop"]
            (offset,) = (await admin.list_group_offsets(f"{topic}-stop")).values()
            assert not isinstance(described, Exception)
            assert not isinstance(offset, Exception)
            return len(described.members), offset.offset

    assert asyncio.run(group()) == (0, 5)


async def test_retries_and_dead_letters(odradek_cluster: Cluster, odradek_topic: str) -> None:
    servers, topic = odradek_cluster.bootstrap, odradek_topic
    await fill(servers, topic, [b"good", b"nonsense", b"slow", b"better"])
    handled: list[bytes] = []
    tries: list[bytes] = []

    async def handle(record: ConsumerRecord) -> None:
        if record.value == b"nonsense":
            raise Reject("never")
        if record.value == b"slow":
            tries.append(record.value)
            if len(tries) == 1:
                raise ValueError("not yet")
        handled.append(record.value)

    work = retries_and_dead_letters.work(servers, topic, handle, delays=("1s",))
    await run_until(work, lambda: len(handled) == 3)
    assert handled == [b"good", b"better", b"slow"]
    async with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([(dead_topic(topic), 0)])
        assert (await anext(consumer)).value == b"nonsense"


async def test_a_trace_goes_with_the_record(odradek_cluster: Cluster, odradek_topic: str) -> None:
    arrived = await tracing.main(odradek_cluster.bootstrap, odradek_topic)
    assert arrived is not None
    assert arrived == tracing.current_trace.get()


class ToyCipher:
    """Stands for a library's cipher. It protects nothing."""

    keys = 0

    def __init__(self, key: bytes) -> None:
        self._key = key

    @classmethod
    def generate_key(cls) -> bytes:
        cls.keys += 1
        return b"key %d" % cls.keys

    def encrypt(self, data: bytes) -> bytes:
        return self._key + b":" + bytes(byte ^ 0xFF for byte in data)

    def decrypt(self, token: bytes) -> bytes:
        key, _, data = token.partition(b":")
        assert key == self._key
        return bytes(byte ^ 0xFF for byte in data)


async def test_a_person_whose_key_is_deleted_is_forgotten(
    odradek_cluster: Cluster, odradek_topic: str
) -> None:
    servers = odradek_cluster.bootstrap
    read = await crypto_shredding.main(servers, ToyCipher, odradek_topic)
    assert read == [None, b"Grace was here"]
    # A person who comes back has a new key: what was forgotten stays so.
    async with (
        Consumer(bootstrap_servers=servers) as consumer,
        Producer(bootstrap_servers=servers) as producer,
    ):
        keys = crypto_shredding.PersonKeys(consumer, producer, ToyCipher)
        token = await keys.encrypt("42", b"Ada again")
        assert await keys.decrypt("42", token) == b"Ada again"
        assert token.startswith(b"key 3:")


async def read_lines(servers: str, topic: str, count: int) -> list[ConsumerRecord]:
    async with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([(topic, 0)])
        async with asyncio.timeout(DEADLINE_S):
            return [await anext(consumer) for _ in range(count)]


def test_log_lines_go_to_a_topic(odradek_cluster: Cluster, odradek_topic: str) -> None:
    servers = odradek_cluster.bootstrap
    log = logging.getLogger("shop.orders")
    with log_handler.log_to_topic(servers, odradek_topic, "shop") as lost:
        log.warning("order %d has no address", 7)
        try:
            raise KeyError("address")
        except KeyError:
            log.exception("order 7 cannot be sent")
        logging.getLogger("odradek.client").warning("never in the topic")
        log.warning("the last line")
    assert lost.count == 0
    records = asyncio.run(read_lines(servers, odradek_topic, 3))
    lines = [json.loads(record.value) for record in records]
    assert [line["message"] for line in lines] == [
        "order 7 has no address",
        "order 7 cannot be sent",
        "the last line",
    ]
    assert lines[0]["level"] == "WARNING"
    assert lines[0]["logger"] == "shop.orders"
    assert "KeyError: 'address'" in lines[1]["traceback"]
    assert {record.key for record in records} == {b"shop"}


def test_logging_goes_on_without_a_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_handler, "PATIENCE_MS", 100)
    monkeypatch.setattr(log_handler, "QUEUED_LINES", 2)
    log = logging.getLogger("shop.orders")
    with log_handler.log_to_topic("127.0.0.1:1", "logs", "shop") as lost:
        for number in range(50):
            log.warning("line %d", number)
    assert lost.count == 50


async def test_a_custom_assignor_shares_topics_of_one_partition(odradek_cluster: Cluster) -> None:
    topics = [odradek_cluster.create_topic(prefix=f"fair-{number}") for number in range(4)]
    named = ConsumerSettings.from_properties(
        {
            "bootstrap.servers": odradek_cluster.bootstrap,
            "group.id": "fair-readers",
            "partition.assignment.strategy": "examples.custom_assignor:FairAssignor",
        }
    )
    async with Consumer(*topics, named) as one, Consumer(*topics, named) as two:
        async with asyncio.timeout(DEADLINE_S):
            while [len(one.assignment()), len(two.assignment())] != [2, 2]:
                await asyncio.gather(one.poll(timeout_ms=100), two.poll(timeout_ms=100))
    assert custom_assignor.FairAssignor.name == "fair"


async def test_objects_of_a_class_have_a_schema(
    odradek_cluster: Cluster, odradek_registry: Registry, odradek_topic: str
) -> None:
    (order,) = await schemas.main(odradek_cluster.bootstrap, odradek_registry.url, odradek_topic)
    assert (order.customer, order.items[0].price) == ("ada", Decimal("2.50"))


@pytest.mark.parametrize("name", sorted(path.name for path in EXAMPLES.glob("*.py")))
def test_a_call_without_words_shows_the_right_one(name: str) -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert f"python examples/{name} localhost:9092" in done.stderr
    assert "Traceback" not in done.stderr
