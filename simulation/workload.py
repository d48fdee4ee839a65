"""Producers and consumers that record what they did and saw, for `checkers`."""

import asyncio
from collections.abc import Callable

from odradek.client import Consumer, ConsumerSettings, Producer, ProducerSettings, RecordMetadata
from odradek.client.errors import ClientError
from odradek.protocol.errors import KafkaError
from odradek.protocol.types import TopicPartition
from odradek.world import World
from simulation.checkers import History, Send

Options = dict[str, object]


class ProducingClient:
    """Sends numbered values to random partitions, several at a time."""

    def __init__(
        self,
        name: str,
        history: History,
        partitions: list[TopicPartition],
        count: int,
        options: Options,
    ) -> None:
        self.name = name
        self._history = history
        self._partitions = partitions
        self._count = count
        self._options = options
        self._starts = 0

    async def run(self, world: World) -> None:
        self._starts += 1
        prefix = f"{self.name}.{self._starts}"
        settings = ProducerSettings.from_options(self._options)
        async with Producer(settings, world=world) as producer:
            for number in range(self._count):
                if world.randomness.fraction() < 0.2:
                    await asyncio.sleep(world.randomness.fraction())
                await self._send(producer, world, f"{prefix}:{number}", prefix)
            await producer.flush()

    async def _send(self, producer: Producer, world: World, text: str, instance: str) -> None:
        partition = self._partitions[world.randomness.integer_below(len(self._partitions))]
        value = text.encode() + b"." * world.randomness.integer_below(200)
        send = self._history.sending(instance, partition, value)
        try:
            await producer.send(
                partition.topic,
                value,
                partition=partition.partition,
                on_delivery=self._noting(send),
            )
        except (ClientError, KafkaError):
            # No metadata or no room in time: it was never sent.
            await asyncio.sleep(0.5)

    def _noting(self, send: Send) -> Callable[[RecordMetadata | None, BaseException | None], None]:
        def delivered(metadata: RecordMetadata | None, _: BaseException | None) -> None:
            # A duplicate whose offset the broker does not remember is acknowledged without one.
            if metadata is not None and metadata.offset >= 0:
                self._history.acknowledged(send, metadata.offset)

        return delivered


class ConsumingClient:
    """Reads all partitions from their beginning, until it is killed."""

    def __init__(
        self, name: str, history: History, partitions: list[TopicPartition], options: Options
    ) -> None:
        self.name = name
        self._history = history
        self.partitions = partitions
        self._options = options
        self.next_offsets: dict[TopicPartition, int] = {}

    async def run(self, world: World) -> None:
        for partition in self.partitions:
            self._history.moved(self.name, partition)
        settings = ConsumerSettings.from_options(self._options)
        async with Consumer(settings, world=world) as consumer:
            consumer.assign(self.partitions)
            consumer.seek_to_beginning()
            while True:
                await self._poll(consumer)

    async def _poll(self, consumer: Consumer) -> None:
        try:
            taken = await consumer.poll(1000)
        except (ClientError, KafkaError) as error:
            await self._recover(consumer, error)
            return
        for partition, records in taken.items():
            for record in records:
                self._history.polled(self.name, partition, record.offset, record.value)
                self.next_offsets[partition] = record.offset + 1

    async def _recover(self, consumer: Consumer, _: Exception) -> None:
        """The log lost its tail in a power cut: read it again from the start."""
        for partition in self.partitions:
            self._history.moved(self.name, partition)
        consumer.seek_to_beginning()
        await asyncio.sleep(0.5)


async def read_to_the_end(
    world: World, partitions: list[TopicPartition], options: Options
) -> dict[TopicPartition, list[tuple[int, bytes]]]:
    """Everything in the partitions, as a fresh consumer sees it."""
    found: dict[TopicPartition, list[tuple[int, bytes]]] = {
        topic_partition: [] for topic_partition in partitions
    }
    async with Consumer(ConsumerSettings.from_options(options), world=world) as consumer:
        consumer.assign(partitions)
        consumer.seek_to_beginning()
        ends = await consumer.end_offsets(partitions)
        unread = {topic_partition for topic_partition in partitions if ends[topic_partition] > 0}
        while unread:
            for partition, records in (await consumer.poll(5000)).items():
                found[partition] += [(record.offset, record.value) for record in records]
                if found[partition][-1][0] + 1 >= ends[partition]:
                    unread.discard(partition)
    return found
