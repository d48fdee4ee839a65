"""Fills topics and reads them back, without Spark."""

import asyncio
from collections.abc import Iterable

from odradek.client.consumer.fetched_batches import ConsumerRecord
from odradek.client.producer.producer import Producer
from odradek.client.sync import Consumer
from odradek.protocol.types import TopicPartition
from odradek.testing import Cluster


def fill(
    brokers: Cluster, topic: str, values: Iterable[bytes], *, partition: int | None = None
) -> None:
    """Each value with itself as its key; times count up from a second after 1970."""

    async def send() -> None:
        async with Producer(bootstrap_servers=brokers.bootstrap) as producer:
            for index, value in enumerate(values):
                at_ms = 1000 + index
                await producer.send(topic, value, value, partition=partition, timestamp_ms=at_ms)
            await producer.flush()

    asyncio.run(send())


def values_in(brokers: Cluster, topic: str, partitions: int) -> list[bytes]:
    return [one.value for one in records_in(brokers, topic, partitions)]


def records_in(brokers: Cluster, topic: str, partitions: int) -> list[ConsumerRecord]:
    """What a read_committed consumer sees, by partition and offset."""
    places = [TopicPartition(topic, index) for index in range(partitions)]
    found: list[ConsumerRecord] = []
    with Consumer(
        bootstrap_servers=brokers.bootstrap,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
        max_poll_records=10_000,
    ) as consumer:
        consumer.assign(places)
        consumer.seek_to_beginning(places)
        ends = consumer.end_offsets(places)
        while any(consumer.position(place) < ends[place] for place in places):
            for records in consumer.poll(1000).values():
                found += records
    return sorted(found, key=lambda one: (one.partition, one.offset))
