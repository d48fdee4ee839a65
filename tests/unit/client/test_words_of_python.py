"""An error of Python's own, where a program uses a client wrongly, is followed by what to write."""

import asyncio
from typing import Any

import pytest

from odradek.client import sync
from odradek.client.admin.admin import Admin
from odradek.client.consumer.consumer import Consumer
from odradek.client.consumer.fetched_batches import ConsumerRecord
from odradek.client.producer.producer import Producer
from odradek.client.sync.producer import Delivery
from odradek.protocol.batch_header import NO_LEADER_EPOCH
from odradek.protocol.types import Offset
from odradek.testing import Cluster
from simulation.world import Simulation
from tests.unit.client.mini_cluster import MiniCluster
from tests.unit.client.simulated import in_simulation


async def test_with_and_for_of_the_other_kind_are_answered() -> None:
    asynchronous: Any
    for asynchronous in (Producer, Consumer, Admin):
        with pytest.raises(TypeError, match="write `async with"), asynchronous():
            pass
    with pytest.raises(TypeError, match="write `async for record in consumer`, or without asyncio"):
        list(Consumer())  # type: ignore[call-overload]
    with sync.Consumer() as waiting:
        other: Any = waiting
        with pytest.raises(TypeError, match=r"write `with Consumer\(...\)`, or with asyncio"):
            async with other:
                pass
        with pytest.raises(TypeError, match="write `for record in consumer`"):
            async for _ in other:
                pass


@in_simulation()
async def test_what_poll_returns_is_not_taken_for_a_record(
    brokers: MiniCluster, simulation: Simulation
) -> None:
    brokers.create("t")
    async with Producer(bootstrap_servers=brokers.bootstrap) as producer:
        await producer.send_and_wait("t", b"v")
    lists = "lists of records by partition: write `for records in polled.values"
    options: Any = {"bootstrap_servers": brokers.bootstrap, "auto_offset_reset": "earliest"}
    async with Consumer(**options) as consumer:
        consumer.assign([("t", 0)])
        message: Any = await consumer.poll(60_000)
        for name in ("value", "error", "offset"):
            with pytest.raises(AttributeError, match=lists):
                getattr(message, name)
        one: Any
        for one in message:
            with pytest.raises(AttributeError, match=lists):
                _ = one.value
        nothing: Any = await consumer.poll(0)
        assert nothing == {}
        with pytest.raises(AttributeError, match=lists):
            nothing.error()


@in_simulation()
async def test_a_field_that_is_called_is_answered_by_the_block_of_the_consumer(
    brokers: MiniCluster, simulation: Simulation
) -> None:
    record: Any = ConsumerRecord("t", 0, Offset(0), 0, 0, None, b"v", [], NO_LEADER_EPOCH)
    with pytest.raises(TypeError, match="'bytes' object is not callable") as raised:
        async with Consumer(bootstrap_servers=brokers.bootstrap):
            record.value()
    assert raised.value.__notes__ == ["Fields of a record are attributes: write record.value"]
    with pytest.raises(TypeError) as raised, sync.Consumer(bootstrap_servers="127.0.0.1:1"):
        print(record.topic())
    assert raised.value.__notes__ == ["Fields of a record are attributes: write record.topic"]
    function: Any = None
    with pytest.raises(TypeError) as raised, sync.Consumer(bootstrap_servers="127.0.0.1:1"):
        function()
    assert not hasattr(raised.value, "__notes__")


async def test_a_future_of_threads_says_that_it_is_not_awaited() -> None:
    delivery: Any = Delivery()
    with pytest.raises(TypeError, match=r"write send\(...\).result\(\) to wait, or with asyncio"):
        await delivery


@in_simulation()
async def test_words_of_python_are_followed_by_what_to_write(
    brokers: MiniCluster, simulation: Simulation
) -> None:
    async def awaits_subscribe() -> None:
        async with Consumer(bootstrap_servers=brokers.bootstrap, group_id="g") as consumer:
            other: Any = consumer
            await other.subscribe(["t"])

    async def forgets_async() -> None:
        async with Producer(bootstrap_servers=brokers.bootstrap) as producer:
            other: Any = producer
            with other.transaction():
                pass

    with pytest.raises(TypeError) as raised:
        await awaits_subscribe()
    assert raised.value.__notes__ == ["subscribe() is not awaited: leave `await` out"]
    with pytest.raises(TypeError) as raised:
        await forgets_async()
    assert raised.value.__notes__ == ["With asyncio, write `async with producer.transaction():`"]


@in_simulation()
async def test_a_result_that_is_not_awaited_is_answered(
    brokers: MiniCluster, simulation: Simulation
) -> None:
    async def awaits_once() -> None:
        async with Producer(bootstrap_servers=brokers.bootstrap) as producer:
            delivery: Any = await producer.send("t", b"v")
            print(delivery.offset)

    async def awaits_nothing() -> None:
        async with Producer(bootstrap_servers=brokers.bootstrap) as producer:
            sending: Any = producer.send_and_wait("t", b"v")
            try:
                print(sending.offset)
            finally:
                sending.close()

    brokers.create("t")
    with pytest.raises(AttributeError) as raised:
        await awaits_once()
    assert "write `await producer.send_and_wait(...)`" in raised.value.__notes__[0]
    with pytest.raises(AttributeError) as raised:
        await awaits_nothing()
    assert raised.value.__notes__ == ["write `await` before send_and_wait()"]


@in_simulation()
async def test_a_field_that_is_called_is_answered_by_a_close_in_finally(
    brokers: MiniCluster, simulation: Simulation
) -> None:
    record: Any = ConsumerRecord("t", 0, Offset(0), 0, 0, None, b"v", [], NO_LEADER_EPOCH)
    note = ["Fields of a record are attributes: write record.value"]

    async def reads() -> None:
        consumer = Consumer(bootstrap_servers=brokers.bootstrap)
        await consumer.start()
        try:
            record.value()
        finally:
            await consumer.stop()

    with pytest.raises(TypeError) as raised:
        await reads()
    assert raised.value.__notes__ == note

    def waits() -> None:
        waiting = sync.Consumer(bootstrap_servers="127.0.0.1:1")
        try:
            record.value()
        finally:
            waiting.close()

    with pytest.raises(TypeError) as raised:
        waits()
    assert raised.value.__notes__ == note


async def test_a_field_that_is_called_in_a_callback_is_answered(odradek_cluster: Cluster) -> None:
    topic = odradek_cluster.create_topic()
    faults: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(
        lambda _, context: faults.append(context["exception"])
    )

    def told(metadata: Any, error: Any) -> None:
        print(metadata.offset())

    async with Producer(bootstrap_servers=odradek_cluster.bootstrap) as producer:
        await (await producer.send(topic, b"v", on_delivery=told))
    assert faults[0].__notes__ == ["Fields of a record are attributes: write record.offset"]
