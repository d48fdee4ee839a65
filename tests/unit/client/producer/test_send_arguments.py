"""Mistakes in the arguments of a producer's calls: one line says what to write, nothing is lost."""

import asyncio
import collections
import datetime
import types
from typing import Any

import pytest

from odradek.client.producer.accumulator import Accumulator
from odradek.client.producer.record_bytes import as_headers
from odradek.client.settings import ProducerSettings
from odradek.protocol.messages.metadata import MetadataRequest
from odradek.protocol.messages.produce import ProduceRequest
from odradek.protocol.records import BatchBuilder, decode_records
from odradek.protocol.types import TopicPartition
from simulation.run import run
from simulation.world import Simulation
from tests.unit.client.mini_cluster import MiniCluster
from tests.unit.client.producer.producing import producer, values
from tests.unit.client.simulated import in_simulation

WRONG: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"timestamp_ms": 1.5}, TypeError, "not 1.5: write timestamp_ms=int(time.time() * 1000)"),
    ({"timestamp_ms": "now"}, TypeError, "send() needs timestamp_ms as an integer, not 'now'"),
    ({"timestamp_ms": datetime.date(2026, 1, 1)}, TypeError, "not datetime.date(2026, 1, 1)"),
    ({"timestamp_ms": 1 << 70}, ValueError, "must be at most 46116860184"),
    ({"timestamp_ms": (1 << 62) + 1}, ValueError, "must be at most 46116860184"),
    ({"timestamp_ms": -5}, ValueError, "before 1970"),
    ({"headers": [("a", 1)]}, TypeError, "the value of header 'a' must be bytes, not int"),
    ({"headers": [("a", "x")]}, TypeError, "must be bytes, not str: write it with .encode()"),
    ({"headers": {"a": bytearray(b"x")}}, TypeError, "not bytearray: write bytes(...)"),
    ({"headers": [(b"a", b"x")]}, TypeError, "the name of a header must be str, not bytes"),
    ({"headers": ["abc"]}, TypeError, 'a header must be a pair like ("name", b"value")'),
    ({"headers": "abc"}, TypeError, 'headers must be pairs like [("name", b"value")], or a dict'),
    ({"headers": 5}, TypeError, "or a dict, not int"),
    (
        {"partition": "0"},
        TypeError,
        "send() needs partition as an integer, not '0': write partition=0",
    ),
    ({"partition": [0]}, TypeError, "send() needs partition as an integer, not [0]"),
    ({"partition": -1}, ValueError, "there is no partition -1; leave it out"),
    ({"on_delivery": 5}, TypeError, "on_delivery must be a function of (metadata, error), not int"),
    ({"callback": print}, TypeError, "send() has no argument 'callback': write on_delivery="),
    ({"timestamp": 5}, TypeError, "write timestamp_ms=int(time.time() * 1000)"),
    ({"heders": []}, TypeError, "send() has no argument 'heders'; did you mean headers?"),
    ({"value": bytearray(b"x")}, TypeError, "must be bytes, not bytearray: write bytes(value)"),
    ({"key": memoryview(b"x")}, TypeError, "must be bytes, not memoryview: write bytes(key)"),
    ({"topic": 5}, TypeError, "send() needs the name of a topic as text, not 5"),
    ({"topic": b"t"}, TypeError, "as text, not b't': write 't'"),
    ({"topic": None}, TypeError, "the name of a topic as text, not None"),
    ({"topic": ["t"]}, TypeError, "the name of a topic as text, not ['t']"),
    ({"topic": ""}, ValueError, "it is empty"),
]


class Unchanged:
    """An interceptor, so that `send` takes its slower path."""

    def on_send(self, record: Any) -> Any:
        return record


@pytest.mark.parametrize("interceptors", [(), [Unchanged()]])
@pytest.mark.parametrize("mistake", WRONG, ids=lambda mistake: mistake[2])
@in_simulation()
async def test_a_wrong_argument_is_said_at_once_and_the_producer_goes_on(
    cluster: MiniCluster,
    simulation: Simulation,
    mistake: tuple[dict[str, Any], type[Exception], str],
    interceptors: Any,
) -> None:
    wrong, kind, line = mistake
    (log,) = cluster.create("t")
    options = {"linger_ms": 50, "interceptors": interceptors, "max_block_ms": 5_000}
    async with producer(cluster, simulation, **options) as one:
        await one.send_and_wait("t", b"first")
        for good in (b"before", b"after"):
            # The second time the wrong record is the first of its batch.
            sent = await one.send("t", good) if good == b"before" else None
            begun_s = asyncio.get_running_loop().time()
            with pytest.raises(kind) as raised:
                await one.send(**{"topic": "t", "value": b"bad", **wrong})
            assert line in str(raised.value)
            assert "\n" not in str(raised.value)
            assert asyncio.get_running_loop().time() - begun_s < 1
            await (sent or await one.send("t", good))
        await asyncio.sleep(1)
    assert [record.value for record in log.records()] == [b"first", b"before", b"after"]
    assert all(decode_records(batch) for batch in log.batches), "no empty batch was sent"
    assert cluster.count(ProduceRequest) == 3
    asked = [one for _, one, _ in cluster.requests if isinstance(one, MetadataRequest)]
    assert {topic.name for one in asked for topic in one.topics or ()} == {"t"}


@in_simulation()
async def test_a_topic_of_a_wrong_type_does_not_stay_in_the_metadata(
    cluster: MiniCluster, simulation: Simulation
) -> None:
    cluster.create("t")
    async with producer(cluster, simulation, max_block_ms=5_000) as one:
        for wrong in (5, None, b"t", ["t"]):
            with pytest.raises(
                TypeError, match=r"partitions_for\(\) needs the name of a topic as text"
            ):
                await one.partitions_for(wrong)  # type: ignore[arg-type]
        assert await one.partitions_for("t") == [0]


@pytest.mark.parametrize(
    "mistake",
    [
        ("string", 5, TypeError, 'value_serializer="string" takes a str, not int'),
        ("string", b"x", TypeError, 'value_serializer="string" takes a str, not bytes'),
        ("integer", "5", TypeError, 'value_serializer="integer" takes an int of 32 bits, not str'),
        ("integer", 1 << 40, ValueError, "takes an int of 32 bits: 1099511627776 does not fit"),
        ("double", "5", TypeError, 'value_serializer="double" takes a float, not str'),
        ("json", {1, 2}, TypeError, 'value_serializer="json" cannot write this value: Object of'),
        (
            lambda value: value,
            "x",
            TypeError,
            "value_serializer returned str: it must return bytes",
        ),
    ],
)
@pytest.mark.parametrize("interceptors", [(), [Unchanged()]])
@in_simulation()
async def test_a_serializer_says_what_it_takes(
    cluster: MiniCluster,
    simulation: Simulation,
    mistake: tuple[Any, object, type[Exception], str],
    interceptors: Any,
) -> None:
    name, given, kind, line = mistake
    cluster.create("t")
    options = {"value_serializer": name, "interceptors": interceptors}
    async with producer(cluster, simulation, **options) as one:
        with pytest.raises(kind) as raised:
            await one.send("t", given)
    assert line in str(raised.value)


@in_simulation()
async def test_an_error_of_the_users_own_serializer_stays_what_it_is(
    cluster: MiniCluster, simulation: Simulation
) -> None:
    def refuse(value: object) -> bytes:
        raise TypeError("mine")

    cluster.create("t")
    async with producer(cluster, simulation, key_serializer=refuse) as one:
        with pytest.raises(TypeError, match=r"^mine$"):
            await one.send("t", b"v", key=5)


@pytest.mark.parametrize(
    "headers",
    [
        {"ab": b"x"},
        collections.OrderedDict(ab=b"x"),
        types.MappingProxyType({"ab": b"x"}),
        [("ab", b"x")],
        (["ab", b"x"],),
    ],
)
@in_simulation()
async def test_headers_of_every_kind(
    cluster: MiniCluster, simulation: Simulation, headers: Any
) -> None:
    (log,) = cluster.create("t")
    async with producer(cluster, simulation) as one:
        await one.send_and_wait("t", b"v", headers=headers)
        await one.send_and_wait("t", b"v", headers=(pair for pair in [("ab", b"x")]))  # type: ignore[arg-type]
    assert [list(record.headers) for record in log.records()] == [[("ab", b"x")]] * 2
    assert list(as_headers(None)) == []


@in_simulation()
async def test_time_limits_are_milliseconds(cluster: MiniCluster, simulation: Simulation) -> None:
    cluster.create("t")
    async with producer(cluster, simulation) as one:
        await one.send_and_wait("t", b"v")
        with pytest.raises(
            TypeError, match=r"flush\(\) counts milliseconds: write timeout_ms=1500 for"
        ):
            await one.flush(1.5)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match=r"flush\(\) needs timeout_ms as an integer, not '10'"):
            await one.flush("10")  # type: ignore[arg-type]
        with pytest.raises(TypeError, match=r"close\(\) counts milliseconds"):
            await one.close(0.5)  # type: ignore[arg-type]
        await one.send_and_wait("t", b"w")
    assert values(cluster) == [b"v", b"w"]


def test_a_record_that_cannot_be_encoded_leaves_the_batch_as_it_was() -> None:
    builder = BatchBuilder()
    builder.append(None, b"good", (), 1_000)
    before = builder.size_bytes
    wrong: Any
    for wrong in ({"timestamp_ms": 2_000.5}, {"headers": [("a", 5)], "timestamp_ms": 3_000}):
        with pytest.raises(TypeError):
            builder.append(None, b"bad", **wrong)
    assert (builder.size_bytes, builder.record_count) == (before, 1)
    builder.append(None, b"later", (), 1_500)
    records = decode_records(builder.build())
    assert [(record.value, record.timestamp_ms) for record in records] == [
        (b"good", 1_000),
        (b"later", 1_500),
    ]


def test_a_record_that_cannot_be_encoded_opens_no_batch() -> None:
    async def test() -> None:
        opened: list[object] = []
        accumulator = Accumulator(
            ProducerSettings(),
            on_ready=lambda _: None,
            on_opened=opened.append,
            on_full=lambda: None,
        )
        queue = accumulator.queue(TopicPartition("t", 0))
        with pytest.raises(TypeError):
            accumulator.append(queue, None, b"v", [("a", 5)], 0, 50, None)  # type: ignore[list-item]
        assert not queue.batches
        assert queue.open_batch is None
        assert not accumulator.incomplete
        assert not opened

    run(lambda _: test(), 1)
