"""Classes that a user of the client might write; tests name them in properties."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from odradek.client.consumer.fetched_batches import ConsumerRecord
from odradek.client.group.assignors import Assigned, Member, Partitions
from odradek.client.producer.interceptors import ProducerRecord
from odradek.client.producer.partitioners import UnplacedRecord
from odradek.client.serialization import SerializationContext
from odradek.protocol.types import TopicPartition


class Tagged:
    """Writes and reads values with the topic's name before them, and tells it in a header."""

    story: ClassVar[list[str]] = []

    def configure(self, settings: Mapping[str, Any], is_key: bool) -> None:
        self.mark = settings.get("tagged.mark", "?")
        self.story.append(f"configured is_key={is_key}")

    def serialize(self, value: str, context: SerializationContext) -> bytes:
        context.headers.append(("field", context.field.encode()))
        return f"{context.topic}{self.mark}{value}".encode()

    def deserialize(self, data: bytes, context: SerializationContext) -> str:
        assert ("field", context.field.encode()) in context.headers
        return data.decode().removeprefix(f"{context.topic}{self.mark}")

    def close(self) -> None:
        self.story.append("closed")


class AlertsFirst:
    """Critical alerts have partition 0 to themselves."""

    def partition(self, record: UnplacedRecord) -> int:
        if record.value["level"] == "critical":
            return 0
        return 1 + record.choose_default() % (len(record.all_partitions) - 1)


class Audit:
    """Counts what it sees; a producer and a consumer can both have one."""

    seen: ClassVar[list[Any]] = []

    def configure(self, settings: Mapping[str, Any]) -> None:
        self.seen.append(settings["client.id"])

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        self.seen.append(("send", record.topic, record.key, record.value))
        return record

    def on_acknowledgement(
        self, metadata: object, error: BaseException | None, record: ProducerRecord
    ) -> None:
        self.seen.append(("outcome", error is None, record.value))

    def on_consume(
        self, records: dict[TopicPartition, list[ConsumerRecord]]
    ) -> dict[TopicPartition, list[ConsumerRecord]]:
        self.seen.append(("consume", sum(map(len, records.values()))))
        return records

    def close(self) -> None:
        self.seen.append("closed")


class FairAssignor:
    name = "fair"
    is_cooperative = False

    def assign(self, partitions: Partitions, members: Sequence[Member]) -> Assigned:
        return {}


class NeedsArguments:
    def __init__(self, needed: int) -> None: ...

    def serialize(self, value: object) -> bytes:
        return b""
