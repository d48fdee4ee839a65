"""A producer that writes when the scenario asks, and records what was acknowledged."""

import asyncio

from odradek.client import Producer, ProducerSettings, RecordMetadata
from odradek.client.errors import ClientError
from odradek.protocol.errors import KafkaError
from odradek.protocol.types import TopicPartition
from odradek.world import World
from simulation.checkers import History
from simulation.workload import Options


class OnDemandProducer:
    """One long-lived producer on a host of its own. `counts_acks` is False where an
    acknowledged record may still be lost, as with acks=1."""

    def __init__(
        self,
        name: str,
        history: History,
        partitions: list[TopicPartition],
        options: Options,
        *,
        counts_acks: bool = True,
        longest_padding: int = 60,
    ) -> None:
        self.name = name
        self.history = history
        self._partitions = partitions
        self._options = options
        self._counts_acks = counts_acks
        self._longest_padding = longest_padding
        self._wanted: asyncio.Queue[tuple[int, TopicPartition | None]] = asyncio.Queue()
        self._written = 0
        self.unanswered = 0

    def write(self, count: int, to: TopicPartition | None = None) -> None:
        """Asks for this many records, to one partition or to random ones. Returns at once."""
        self.unanswered += count
        self._wanted.put_nowait((count, to))

    async def run(self, world: World) -> None:
        settings = ProducerSettings.from_options(self._options)
        async with Producer(settings, world=world) as producer:
            while True:
                count, to = await self._wanted.get()
                for _ in range(count):
                    await self._send(producer, world, to)

    async def _send(self, producer: Producer, world: World, to: TopicPartition | None) -> None:
        self._written += 1
        partition = to or self._partitions[world.randomness.integer_below(len(self._partitions))]
        value = f"{self.name}:{self._written}".encode() + b"." * world.randomness.integer_below(
            self._longest_padding
        )
        send = self.history.sending(self.name, partition, value)

        def delivered(metadata: RecordMetadata | None, _: BaseException | None) -> None:
            self.unanswered -= 1
            if metadata is not None and metadata.offset >= 0 and self._counts_acks:
                self.history.acknowledged(send, metadata.offset)

        try:
            await producer.send(
                partition.topic, value, partition=partition.partition, on_delivery=delivered
            )
        except (ClientError, KafkaError):
            self.unanswered -= 1  # No metadata or no room in time: it was never sent.
