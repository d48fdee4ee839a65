"""Our own client in groups, beside Apache Kafka's broker and ours: the same must hold for both."""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import pytest
from confluent_kafka import Consumer as ConfluentConsumer
from kafka import KafkaConsumer as KafkaPythonConsumer
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

from benchmarks.broker_process import BrokerProcess
from odradek.client import Consumer, ConsumerRecord, OffsetAndMetadata, Producer, TopicPartition
from odradek.client.errors import ProducerFenced
from tests.conformance.topics import create_topic, new_topic_name

T = TypeVar("T")
STRATEGIES = ("range", "roundrobin", "sticky", "cooperative-sticky")


def run(work: Coroutine[Any, Any, T]) -> T:
    async def within() -> T:
        async with asyncio.timeout(60):
            return await work

    return asyncio.run(within())


async def fill(broker: BrokerProcess, topic: str, count: int, partitions: int) -> None:
    async with Producer(bootstrap_servers=broker.bootstrap) as producer:
        for number in range(count):
            await producer.send(topic, b"%d" % number, partition=number % partitions)


def consumer_of(broker: BrokerProcess, group: str, **options: Any) -> Consumer:
    options = {"auto_offset_reset": "earliest", **options}
    if options.get("group_protocol") != "consumer":
        options["heartbeat_interval_ms"] = 200
    return Consumer(bootstrap_servers=broker.bootstrap, group_id=group, **options)


async def read(consumer: Consumer, count: int) -> list[ConsumerRecord]:
    found: list[ConsumerRecord] = []
    while len(found) < count:
        for records in (await consumer.poll(500)).values():
            found += records
    return found


async def poll_until(consumers: list[Consumer], wanted: Callable[[], bool]) -> None:
    while not wanted():
        await asyncio.gather(*(one.poll(50) for one in consumers))


def owned(consumer: Consumer) -> list[int]:
    return sorted(one.partition for one in consumer.assignment())


@pytest.mark.parametrize("strategy", [*STRATEGIES, "new"])
def test_two_share_one_leaves_the_other_takes_over(
    any_broker: BrokerProcess, strategy: str
) -> None:
    topic, group = create_topic(any_broker, partitions=4), new_topic_name()

    async def work() -> None:
        await fill(any_broker, topic, 40, 4)
        options: dict[str, Any] = {"partition_assignment_strategy": strategy}
        if strategy == "new":
            options = {"group_protocol": "consumer"}
        async with consumer_of(any_broker, group, **options) as one:
            one.subscribe([topic])
            assert len(await read(one, 40)) == 40
            async with consumer_of(any_broker, group, **options) as other:
                other.subscribe([topic])
                await poll_until([one, other], lambda: len(owned(one)) == len(owned(other)) == 2)
                assert sorted(owned(one) + owned(other)) == [0, 1, 2, 3]
                await fill(any_broker, topic, 8, 4)
                found = await asyncio.gather(read(one, 4), read(other, 4))
                # Nothing is read again: what moved was committed on the way.
                values = sorted(int(record.value) for some in found for record in some)
                assert values == list(range(8))
            await poll_until([one], lambda: owned(one) == [0, 1, 2, 3])

    run(work())


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "cooperative-sticky"])
@pytest.mark.parametrize("is_leader", [True, False], ids=["we-lead", "they-lead"])
def test_a_group_with_librdkafka(any_broker: BrokerProcess, strategy: str, is_leader: bool) -> None:
    topic, group = create_topic(any_broker, partitions=4), new_topic_name()
    theirs = ConfluentConsumer(
        {
            "bootstrap.servers": any_broker.bootstrap,
            "group.id": group,
            "partition.assignment.strategy": strategy,
            "auto.offset.reset": "earliest",
            "heartbeat.interval.ms": 200,
        }
    )

    def their_partitions() -> list[int]:
        return sorted(one.partition for one in theirs.assignment())

    async def work() -> None:
        async def poll_theirs() -> None:
            while True:
                await asyncio.to_thread(theirs.poll, 0.1)

        async with consumer_of(any_broker, group, partition_assignment_strategy=strategy) as ours:
            if is_leader:
                ours.subscribe([topic])
                await poll_until([ours], lambda: len(owned(ours)) == 4)
            theirs.subscribe([topic])
            if not is_leader:
                while len(their_partitions()) < 4:
                    await asyncio.to_thread(theirs.poll, 0.1)
                ours.subscribe([topic])
            polling = asyncio.get_running_loop().create_task(poll_theirs())
            try:
                await poll_until([ours], lambda: len(owned(ours)) == len(their_partitions()) == 2)
                assert sorted(owned(ours) + their_partitions()) == [0, 1, 2, 3]
            finally:
                polling.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await polling
                await asyncio.to_thread(theirs.close)
            await poll_until([ours], lambda: len(owned(ours)) == 4)

    run(work())


@pytest.mark.parametrize("is_leader", [True, False], ids=["we-lead", "they-lead"])
def test_a_sticky_group_with_kafka_python(any_broker: BrokerProcess, is_leader: bool) -> None:
    topic, group = create_topic(any_broker, partitions=4), new_topic_name()
    theirs = KafkaPythonConsumer(
        bootstrap_servers=any_broker.bootstrap,
        group_id=group,
        partition_assignment_strategy=[StickyPartitionAssignor],
        heartbeat_interval_ms=200,
        session_timeout_ms=10_000,
        # It may lead before it knows the topic, and then looks again only when this is over.
        metadata_max_age_ms=500,
    )

    def their_partitions() -> list[int]:
        return sorted(one.partition for one in theirs.assignment())

    async def work() -> None:
        async with consumer_of(any_broker, group, partition_assignment_strategy="sticky") as ours:

            async def all_poll(wanted: Callable[[], bool]) -> None:
                while not wanted():
                    await asyncio.gather(ours.poll(50), asyncio.to_thread(theirs.poll, 50))

            if is_leader:
                ours.subscribe([topic])
                await poll_until([ours], lambda: len(owned(ours)) == 4)
                theirs.subscribe([topic])
            else:
                # A leader that does not know the topic yet would assign nothing.
                while len(await asyncio.to_thread(theirs.partitions_for_topic, topic) or ()) < 4:
                    pass
                theirs.subscribe([topic])
                while len(their_partitions()) < 4:
                    await asyncio.to_thread(theirs.poll, 50)
                ours.subscribe([topic])
            await all_poll(lambda: len(owned(ours)) == len(their_partitions()) == 2)
            assert sorted(owned(ours) + their_partitions()) == [0, 1, 2, 3]
            await asyncio.to_thread(theirs.close)
            await poll_until([ours], lambda: len(owned(ours)) == 4)

    run(work())


def test_a_group_of_the_new_protocol_with_librdkafka(any_broker: BrokerProcess) -> None:
    topic, group = create_topic(any_broker, partitions=4), new_topic_name()
    theirs = ConfluentConsumer(
        {
            "bootstrap.servers": any_broker.bootstrap,
            "group.id": group,
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
        }
    )

    async def work() -> None:
        async with consumer_of(any_broker, group, group_protocol="consumer") as ours:
            ours.subscribe([topic])
            await poll_until([ours], lambda: len(owned(ours)) == 4)
            theirs.subscribe([topic])

            async def poll_theirs() -> None:
                while len(theirs.assignment()) != 2:
                    await asyncio.to_thread(theirs.poll, 0.1)

            polling = asyncio.get_running_loop().create_task(poll_theirs())
            await poll_until([ours], lambda: polling.done() and len(owned(ours)) == 2)
            mine = {one.partition for one in theirs.assignment()}
            assert mine | set(owned(ours)) == {0, 1, 2, 3}
            await asyncio.to_thread(theirs.close)
            await poll_until([ours], lambda: len(owned(ours)) == 4)

    run(work())


def test_a_pattern_that_the_broker_compares(any_broker: BrokerProcess) -> None:
    topic, group = create_topic(any_broker, partitions=2), new_topic_name()

    async def work() -> None:
        async with consumer_of(any_broker, group, group_protocol="consumer") as consumer:
            consumer.subscribe(pattern=f"{topic[:-2]}.*")
            await poll_until([consumer], lambda: owned(consumer) == [0, 1])

    run(work())


def test_commits_are_read_by_others(any_broker: BrokerProcess) -> None:
    topic, group = create_topic(any_broker, partitions=2), new_topic_name()
    partitions = [TopicPartition(topic, index) for index in range(2)]

    async def work() -> None:
        await fill(any_broker, topic, 10, 2)
        async with consumer_of(any_broker, group, enable_auto_commit=False) as consumer:
            consumer.subscribe([topic])
            await read(consumer, 10)
            await consumer.commit({partitions[0]: OffsetAndMetadata(3, "so far", 0)})
            assert await consumer.committed(partitions) == {
                partitions[0]: OffsetAndMetadata(3, "so far", 0),
                partitions[1]: None,
            }
        async with consumer_of(any_broker, group) as consumer:
            consumer.assign(partitions)
            assert await consumer.position(partitions[0]) == 3
            assert await consumer.position(partitions[1]) == 0

    run(work())


def test_a_static_member_restarts_without_a_rebalance(any_broker: BrokerProcess) -> None:
    topic, group = create_topic(any_broker, partitions=2), new_topic_name()

    async def work() -> None:
        steady = consumer_of(any_broker, group, group_instance_id="steady")
        moving = consumer_of(any_broker, group, group_instance_id="moving")
        async with steady:
            steady.subscribe([topic])
            moving.subscribe([topic])
            await poll_until(
                [steady, moving], lambda: len(owned(steady)) == len(owned(moving)) == 1
            )
            before = owned(moving), moving.group_metadata().generation_id
            await moving.close()
            async with consumer_of(any_broker, group, group_instance_id="moving") as back:
                back.subscribe([topic])
                await poll_until([steady, back], lambda: bool(owned(back)))
                assert (owned(back), back.group_metadata().generation_id) == before

    run(work())


def test_a_pattern(any_broker: BrokerProcess) -> None:
    topic, group = create_topic(any_broker, partitions=2), new_topic_name()

    async def work() -> None:
        async with consumer_of(any_broker, group) as consumer:
            consumer.subscribe(pattern=f"{topic}.*")
            await poll_until([consumer], lambda: owned(consumer) == [0, 1])

    run(work())


async def transform(
    broker: BrokerProcess, source: str, target: str, group: str, *, fails_at: int | None = None
) -> None:
    """Reads numbers and writes their doubles, each batch with its offsets in one transaction."""
    async with (
        Producer(bootstrap_servers=broker.bootstrap, transactional_id=group) as producer,
        consumer_of(
            broker,
            group,
            enable_auto_commit=False,
            isolation_level="read_committed",
            max_poll_records=20,
        ) as consumer,
    ):
        await producer.init_transactions()
        consumer.subscribe([source])
        done = 0
        idle = 0
        while idle < 4:
            polled = await consumer.poll(250)
            idle = 0 if polled or not consumer.assignment() else idle + 1
            if not polled:
                continue
            async with producer.transaction():
                for partition, records in polled.items():
                    for record in records:
                        done += 1
                        await producer.send(target, b"%d" % (2 * int(record.value)))
                        if done == fails_at:
                            raise RuntimeError("killed")
                    await producer.send_offsets_to_transaction(
                        {partition: records[-1].offset + 1}, consumer.group_metadata()
                    )


def test_consume_transform_produce_exactly_once(any_broker: BrokerProcess) -> None:
    source, target = create_topic(any_broker, partitions=2), create_topic(any_broker, partitions=2)
    group = new_topic_name()

    async def work() -> None:
        await fill(any_broker, source, 200, 2)
        for fails_at in (7, 55):
            with pytest.raises(RuntimeError, match="killed"):
                await transform(any_broker, source, target, group, fails_at=fails_at)
        await transform(any_broker, source, target, group)
        found: list[int] = []
        async with Consumer(
            bootstrap_servers=any_broker.bootstrap,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
        ) as reader:
            reader.assign([TopicPartition(target, index) for index in range(2)])
            while len(found) < 200:
                for records in (await reader.poll(1000)).values():
                    found += [int(record.value) for record in records]
            assert not await reader.poll(300)
        assert sorted(found) == [2 * number for number in range(200)]

    run(work())


def test_a_producer_is_fenced_by_its_successor(any_broker: BrokerProcess) -> None:
    topic, name = create_topic(any_broker), new_topic_name()

    async def work() -> None:
        options: dict[str, Any] = {"transactional_id": name}
        async with (
            Producer(bootstrap_servers=any_broker.bootstrap, **options) as old,
            Producer(bootstrap_servers=any_broker.bootstrap, **options) as new,
        ):
            await old.init_transactions()
            await old.begin_transaction()
            await old.send_and_wait(topic, b"old")
            await new.init_transactions()
            async with new.transaction():
                await new.send(topic, b"new")
            with pytest.raises(ProducerFenced):
                await old.commit_transaction()

    run(work())
