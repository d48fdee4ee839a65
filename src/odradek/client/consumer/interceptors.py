"""What a program may put between a consumer and its own code."""

from typing import Protocol

from odradek.client.consumer.fetched_batches import ConsumerRecord
from odradek.client.group.offsets import Offsets
from odradek.protocol.types import TopicPartition


class ConsumerInterceptor(Protocol):
    """Sees all records before the program does, and every commit that succeeded."""

    def on_consume(
        self, records: dict[TopicPartition, list[ConsumerRecord]]
    ) -> dict[TopicPartition, list[ConsumerRecord]]:
        """Returns the records that poll() returns instead, or the same."""
        ...

    def on_commit(self, offsets: Offsets) -> None: ...
