"""What people are used to from aiokafka and confluent-kafka works, or is answered with the line."""

import asyncio
import importlib
import logging
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import odradek.client
from odradek.client import habits, sync
from odradek.client.admin.admin import Admin
from odradek.client.cluster_view import Topic
from odradek.client.consumer.consumer import Consumer
from odradek.client.consumer.fetched_batches import ConsumerRecord
from odradek.client.errors import NoGroup, SettingsError, TimedOut, Wakeup
from odradek.client.producer.producer import Producer
from odradek.protocol.errors import UnknownTopic
from odradek.protocol.messages.produce import ProduceRequest
from simulation.world import Simulation
from tests.unit.client.mini_cluster import MiniCluster
from tests.unit.client.simulated import in_simulation


@contextmanager
def heard() -> Iterator[list[str]]:
    """What the client logs meanwhile."""
    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("odradek.client").addHandler(handler)
    try:
        yield lines
    finally:
        logging.getLogger("odradek.client").removeHandler(handler)


@in_simulation()
async def test_start_and_stop_and_a_dict_of_settings(
    brokers: MiniCluster, simulation: Simulation
) -> None:
    brokers.create("t")
    producer = Producer({"bootstrap.servers": brokers.bootstrap, "linger.ms": "0"})
    await producer.start()
    where = await producer.send_and_wait("t", b"v", headers=None)  # type: ignore[arg-type]
    await producer.send_and_wait("t", b"v", key=b"k", headers=None)  # type: ignore[arg-type]
    await producer.stop()
    assert where.offset == 0
    consumer = Consumer(bootstrap_servers=[brokers.bootstrap], auto_offset_reset="earliest")
    await consumer.start()
    consumer.assign([("t", 0)])
    record = await anext(consumer)
    with pytest.raises(AttributeError, match="has no attribute 'timestamp': write timestamp_ms"):
        _ = record.timestamp  # type: ignore[attr-defined]
    await consumer.stop()


@in_simulation()
async def test_topics_may_stand_first(brokers: MiniCluster, simulation: Simulation) -> None:
    one = Consumer("a", "b", bootstrap_servers=brokers.bootstrap, group_id="g")
    async with one:
        assert one.subscription() == ["a", "b"]
    with pytest.raises(NoGroup, match=r'write Consumer\(\'a\', group_id="my-group"\)'):
        Consumer("a")
    two = Consumer("a", {"bootstrap.servers": brokers.bootstrap, "group.id": "g"})
    async with two:
        assert two.subscription() == ["a"]


@pytest.mark.parametrize(
    ("client", "name", "line"),
    [
        (Producer, "produce", "write send(topic, value, key=key, on_delivery=function)"),
        (Producer, "poll", "deliveries are reported without it"),
        (Consumer, "getmany", "write poll(timeout_ms=1000, max_records=500)"),
        (Consumer, "consume", "write poll(timeout_ms=1000, max_records=500)"),
        (Consumer, "commitSync", "write commit()"),
        (Consumer, "get_watermark_offsets", "beginning_offsets(partitions) and end_offsets"),
        (Admin, "list_consumer_groups", "write list_groups()"),
        (Admin, "perform_leader_election", "write elect_leaders(ElectionType.PREFERRED, part"),
    ],
)
def test_a_method_of_another_client_is_answered(client: type, name: str, line: str) -> None:
    with pytest.raises(AttributeError) as raised:
        getattr(client(), name)
    assert line in str(raised.value)
    waiting = getattr(sync, client.__name__)()
    with pytest.raises(AttributeError) as raised:
        getattr(waiting, name)
    waiting.close()
    assert line in str(raised.value)
    assert not hasattr(client(), "_nothing")


@in_simulation()
async def test_arguments_of_other_clients_are_answered(
    brokers: MiniCluster, simulation: Simulation
) -> None:
    brokers.create("t")
    consumer: Any = Consumer(bootstrap_servers=brokers.bootstrap, group_id="g")
    async with consumer:
        with pytest.raises(TypeError, match=r"poll\(\) has no argument 'timeout': write poll\(tim"):
            await consumer.poll(timeout=1.0)
        with pytest.raises(TypeError, match=r"counts milliseconds: write timeout_ms=1500 for 1.5"):
            await consumer.poll(1.5)
        with pytest.raises(TypeError, match=r"subscribe\(topics, listener=listener\), see"):
            consumer.subscribe(["t"], on_assign=print)
        with pytest.raises(TypeError, match=r"commit\(\) to wait, commit_async\(\) not to wait"):
            await consumer.commit(asynchronous=False)
    producer: Any = Producer(bootstrap_servers=brokers.bootstrap)
    async with producer:
        with pytest.raises(TypeError, match=r"flush.timeout_ms=10_000. for ten seconds"):
            await producer.flush(timeout=10)
        with pytest.raises(TypeError, match=r"write close.timeout_ms=10_000. for ten seconds"):
            await producer.close(timeout=10)
    with pytest.raises(TypeError, match=r"write close.timeout_ms=10_000. for ten seconds"):
        await consumer.close(timeout=10)
    with pytest.raises(TypeError, match="write it as the setting enable_auto_commit"):
        await consumer.close(autocommit=False)


@in_simulation()
async def test_a_list_of_topics_of_another_client_is_answered(
    brokers: MiniCluster, simulation: Simulation
) -> None:
    brokers.create("t")
    async with Admin(bootstrap_servers=brokers.bootstrap) as admin:
        topics: Any = await admin.list_topics()
        assert list(topics) == ["t"]
        with pytest.raises(AttributeError, match=r"write list_topics\(\) alone: it is a dict"):
            _ = topics.topics
        with pytest.raises(AttributeError, match=r"describe_cluster\(\)\.brokers"):
            _ = topics.brokers


@in_simulation()
async def test_a_misspelt_topic_is_described_with_the_one_that_is_meant(
    brokers: MiniCluster, simulation: Simulation
) -> None:
    brokers.create("orders")
    async with Admin(bootstrap_servers=brokers.bootstrap) as admin:
        found = await admin.describe_topics(["orders", "ordres"])
        assert isinstance(found["orders"], Topic)
        said = found["ordres"]
        assert isinstance(said, UnknownTopic)
        assert said.message == "There is no topic ordres; did you mean orders?"


@pytest.mark.parametrize(
    ("method", "keyword", "line"),
    [
        ("create_topics", "new_topics", "write create_topics([NewTopic(name, partitions=3)])"),
        ("create_topics", "timeout_ms", "write Admin(default_api_timeout_ms=10_000)"),
        ("list_topics", "timeout", "list_topics() has no argument 'timeout': write Admin("),
        ("describe_groups", "request_timeout", "write Admin(default_api_timeout_ms=10_000)"),
        ("describe_configs", "config_resources", "give the resources first: describe_configs(["),
        ("create_partitions", "topic_partitions", "write create_partitions({name: 6})"),
    ],
)
def test_a_keyword_of_another_admin_client_is_answered(
    method: str, keyword: str, line: str
) -> None:
    for admin in (Admin(), sync.Admin()):
        with pytest.raises(TypeError) as raised:
            getattr(admin, method)(**{keyword: 5})
        assert line in str(raised.value)
        if isinstance(admin, sync.Admin):
            admin.close()


@pytest.mark.parametrize(
    ("make", "line"),
    [
        (lambda: Producer("localhost:9092"), "write Producer(bootstrap_servers='localhost:9092')"),  # type: ignore[arg-type]
        (lambda: Producer(bootstrap_server="h:1"), "did you mean bootstrap_servers?"),  # type: ignore[call-arg]
        (lambda: Consumer({"group.id": "g", "enable.partition.eof": True}), "compare position()"),
        (lambda: Producer({"on_delivery": print}), "give send() the function"),
        (lambda: Producer(compression_type=None), "must be one of none, gzip"),  # type: ignore[arg-type]
    ],
)
def test_a_constructor_is_answered(make: Any, line: str) -> None:
    with pytest.raises((TypeError, SettingsError)) as raised:
        make()
    assert line in str(raised.value)


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("AIOKafkaProducer", "write `from odradek.client import Producer`"),
        ("KafkaConsumer", "write `from odradek.client.sync import Consumer`"),
        ("AdminClient", "write `from odradek.client import Admin`"),
    ],
)
@pytest.mark.parametrize("module", ["odradek.client", "odradek.client.sync"])
def test_an_import_of_another_client_is_answered(module: str, name: str, line: str) -> None:
    with pytest.raises(ImportError) as raised:
        exec(f"from {module} import {name}")
    assert str(raised.value) == f"{module} has no {name}: {line}"
    assert not hasattr(importlib.import_module(module), "nothing")


@in_simulation()
async def test_flush_with_a_time_limit(brokers: MiniCluster, simulation: Simulation) -> None:
    brokers.create("t")
    async with Producer(bootstrap_servers=brokers.bootstrap, linger_ms=5_000) as producer:
        await producer.send_and_wait("t", b"v")
        brokers.fail_next(ProduceRequest, *[lambda _: 7] * 50)
        await producer.send("t", b"v")
        with pytest.raises(TimedOut, match=r"not acknowledged within 10 ms.*milliseconds"):
            await producer.flush(10)
        brokers.faults.clear()


@in_simulation()
async def test_wakeup_ends_a_poll_and_the_next_one(
    brokers: MiniCluster, simulation: Simulation
) -> None:
    brokers.create("t")
    async with Consumer(bootstrap_servers=brokers.bootstrap) as consumer:
        consumer.assign([("t", 0)])
        asyncio.get_running_loop().call_later(1, consumer.wakeup)
        with pytest.raises(Wakeup):
            await consumer.poll(60_000)
        assert await consumer.poll(10) == {}
        consumer.wakeup()
        with pytest.raises(Wakeup):
            await consumer.poll(60_000)


@in_simulation()
async def test_wakeup_ends_an_iteration_and_gives_back_what_was_not_seen(
    brokers: MiniCluster, simulation: Simulation
) -> None:
    brokers.create("t")
    async with Producer(bootstrap_servers=brokers.bootstrap) as producer:
        for number in range(10):
            await producer.send("t", b"%d" % number)
    seen = []
    async with Consumer(
        bootstrap_servers=brokers.bootstrap, auto_offset_reset="earliest"
    ) as consumer:
        consumer.assign([("t", 0)])
        async for record in consumer:
            seen.append(record.offset)
            if record.offset == 3:
                consumer.wakeup()
                await asyncio.sleep(0)
        assert seen == [0, 1, 2, 3]
        assert (await anext(consumer)).offset == 4


@pytest.mark.parametrize("kind", [Producer, Consumer, ConsumerRecord])
def test_the_answers_do_not_slow_down_every_attribute(kind: type) -> None:
    assert not hasattr(kind, "__getattr__"), "CPython does not specialize attributes with it"


@in_simulation()
async def test_assign_is_answered_where_it_gets_topics(
    brokers: MiniCluster, simulation: Simulation
) -> None:
    async with Consumer(bootstrap_servers=brokers.bootstrap) as consumer:
        given: Any
        for given in ("t", ["t"], {"t": 0}):
            with pytest.raises(
                TypeError, match=r"write \[?TopicPartition\('t', 0\)\]?, or subscribe"
            ):
                consumer.assign(given)
        with pytest.raises(NoGroup, match='give the consumer group_id="my-group"'):
            consumer.subscribe(["t"])


def test_both_kinds_of_clients_are_imported_with_what_they_take_and_return() -> None:
    shared = set(odradek.client.__all__) - {"Connection"}
    assert shared < set(sync.__all__)
    for name in shared - {"Admin", "Consumer", "Producer"}:
        assert getattr(sync, name) is getattr(odradek.client, name)


@in_simulation()
async def test_a_callback_that_nobody_would_await_is_refused(
    brokers: MiniCluster, simulation: Simulation
) -> None:
    async def delivered(metadata: object, error: object) -> None: ...

    brokers.create("t")
    async with Producer(bootstrap_servers=brokers.bootstrap) as producer:
        with pytest.raises(TypeError, match=r"and not `async def`.*asyncio.create_task"):
            await producer.send("t", b"v", on_delivery=delivered)  # type: ignore[arg-type]


def test_an_interceptor_that_is_never_called_is_warned_of() -> None:
    class Misspelt:
        def onSend(self, record: object) -> object:  # noqa: N802 - as a user may write it
            return record

        def on_commits(self, offsets: object) -> None: ...

    given: Any = Misspelt()
    with heard() as said:
        Producer(bootstrap_servers="localhost:1", interceptors=[given])
        Consumer(bootstrap_servers="localhost:1", interceptors=[given])
    never = f"the interceptor {Misspelt.__qualname__} is never called: "
    assert said == [
        f"{never}one of a producer has on_send or on_acknowledgement; is onSend to be on_send?",
        f"{never}one of a consumer has on_consume or on_commit; is on_commits to be on_commit?",
    ]


def test_packages_are_there_after_import_odradek() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import odradek; print(odradek.client.Producer.__name__)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "Producer\n"


@pytest.mark.parametrize(
    ("call", "line"),
    [
        (
            lambda admin: admin.create_topcs,
            "no attribute 'create_topcs'; did you mean create_topic",
        ),
        (lambda admin: admin.list_topic(), "did you mean list_topics?"),
        (lambda admin: admin.descibe_groups, "did you mean describe_groups?"),
        (lambda admin: admin.create_topic("a", partition=3), "did you mean partitions?"),
        (lambda admin: admin.create_topic("a", replication=3), "did you mean replication_factor?"),
        (lambda admin: admin.list_topics(internal=True), "did you mean include_internal?"),
        (lambda admin: admin.describe_groups(group_id="g"), "did you mean group_ids?"),
        (lambda admin: admin.delete_topics(topic=["a"]), "no argument 'topic'"),
    ],
)
def test_a_name_that_is_nearly_right_is_answered_by_an_admin_client(call: Any, line: str) -> None:
    for admin in (Admin(), sync.Admin()):
        with pytest.raises((AttributeError, TypeError)) as raised:
            call(admin)
        assert line in str(raised.value)
        assert not hasattr(admin, "_nothing")
        if isinstance(admin, sync.Admin):
            admin.close()


class Reporting:
    def delivered(self, err: Any, msg: Any) -> None:
        """As confluent-kafka calls it."""

    def told(self, metadata: Any, error: Any) -> None:
        """As we call it."""


def delivered(err: Any, msg: Any) -> None:
    """As confluent-kafka calls it."""


@in_simulation()
async def test_a_callback_of_another_client_is_answered(
    brokers: MiniCluster, simulation: Simulation
) -> None:
    brokers.create("t")
    line = r"of \(metadata, error\), in this order, not of \(err, msg\): write `def delivered\(meta"
    given: Any
    async with Producer(bootstrap_servers=brokers.bootstrap) as producer:
        for given in (delivered, Reporting().delivered, lambda err, msg: None):
            with pytest.raises(TypeError, match=line):
                await producer.send("t", b"v", on_delivery=given)
        with pytest.raises(TypeError, match=r"not of \(metadata\): write"):
            await producer.send("t", b"v", on_delivery=lambda metadata: None)  # type: ignore[misc,arg-type]
        heard: list[Any] = []
        for given in (
            Reporting().told,
            lambda metadata, error: heard.append(metadata),
            lambda *told: heard.append(told),
            lambda metadata, error, more=1: heard.append(metadata),
            print,
        ):
            await (await producer.send("t", b"v", on_delivery=given))
        assert len(heard) == 3


def test_a_callback_of_another_client_is_answered_without_asyncio() -> None:
    with (
        sync.Producer(bootstrap_servers="127.0.0.1:1") as producer,
        pytest.raises(TypeError, match=r"in this order, not of \(err, msg\)"),
    ):
        producer.send("t", b"v", on_delivery=delivered)


@in_simulation()
async def test_a_poll_of_seconds_is_answered(brokers: MiniCluster, simulation: Simulation) -> None:
    brokers.create("t")
    habits._warned_times.clear()
    with heard() as lines:
        async with Consumer(bootstrap_servers=brokers.bootstrap) as consumer:
            consumer.assign([("t", 0)])
            for _ in range(3):
                await consumer.poll(1)
                await consumer.poll(timeout_ms=2)
                await consumer.poll(0)
                await consumer.poll(100)
    (line,) = lines
    assert line == (
        "poll(1) waits 1 ms, because it counts milliseconds: write poll(timeout_ms=1000) for"
        " seconds, or poll(timeout_ms=1) if it is meant so"
    )


@pytest.mark.parametrize(
    ("call", "line"),
    [
        (lambda admin: admin.create_topics("a", "b"), "several go into a list: create_topics(['a'"),
        (lambda admin: admin.list_groups("Empty"), "write list_groups(..., states='Empty') if tha"),
        (lambda admin: admin.list_topics(True), "write list_topics(..., include_internal=True) if"),
        (lambda admin: admin.delete_topic("a", 1), "1 too many arguments: it takes name"),
    ],
)
def test_too_many_arguments_are_answered(call: Any, line: str) -> None:
    for admin in (Admin(), sync.Admin()):
        with pytest.raises(TypeError) as raised:
            call(admin)
        assert line in str(raised.value)
        if isinstance(admin, sync.Admin):
            admin.close()


def test_topics_one_after_the_other_are_answered_by_subscribe() -> None:
    consumer: Any = Consumer(group_id="g")
    with pytest.raises(TypeError, match=r"several go into a list: subscribe\(\['a', 'b'\]\)"):
        consumer.subscribe("a", "b")


async def test_a_negative_time_is_refused() -> None:
    for call in (Producer().flush, Producer().close):
        with pytest.raises(ValueError, match="timeout_ms=-1: a time to wait cannot be negative"):
            await call(-1)


@pytest.mark.parametrize("module", ["odradek.client", "odradek.client.sync"])
def test_a_misspelt_import_is_answered(module: str) -> None:
    with pytest.raises(ImportError, match=f"{module} has no Producr; did you mean Producer?"):
        exec(f"from {module} import Producr")
