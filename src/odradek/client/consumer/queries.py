"""What a consumer can be asked without reading: offsets, partitions, and the record of a key."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping

from odradek.client.consumer.deserializing import Deserializers
from odradek.client.consumer.fetched_batches import ConsumerRecord
from odradek.client.consumer.key_lookup import get_records
from odradek.client.consumer.parts import ConsumerParts
from odradek.client.leader_requests import EARLIEST, LATEST, ListedOffset, list_offsets
from odradek.client.settings import ConsumerSettings
from odradek.protocol.errors import KafkaError
from odradek.protocol.types import Offset, TopicPartition


class ConsumerQueries(ABC):
    """The part of `Consumer` that needs no position."""

    def __init__(self, settings: ConsumerSettings) -> None:
        self.settings = settings
        self._deserializers = Deserializers(settings)

    @abstractmethod
    def _parts(self) -> ConsumerParts:
        """Returns what the consumer is made of, started at the first call."""

    # Asking about offsets

    async def beginning_offsets(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, Offset]:
        """Returns the log start offset of each partition."""
        found = await self._offsets(dict.fromkeys(partitions, EARLIEST))
        return {partition: listed.offset for partition, listed in found.items()}

    async def end_offsets(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, Offset]:
        """Returns the high watermarks, or with read_committed the last stable offsets."""
        found = await self._offsets(dict.fromkeys(partitions, LATEST))
        return {partition: listed.offset for partition, listed in found.items()}

    async def offsets_for_times(
        self, timestamps_ms: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, ListedOffset | None]:
        """Returns the first offset of each partition whose record is not older than a time.

        It is None if there is no such record.
        """
        for partition, timestamp_ms in timestamps_ms.items():
            if timestamp_ms < 0:
                raise ValueError(f"{partition}: {timestamp_ms}: a time cannot be before 1970")
        found = await self._offsets(timestamps_ms)
        return {
            partition: listed if listed.offset >= 0 else None for partition, listed in found.items()
        }

    async def partitions_for(self, topic: str) -> list[int]:
        """Returns the partitions of a topic."""
        cluster = self._parts().cluster
        described = await cluster.topic(topic, self.settings.default_api_timeout_ms)
        return list(described.all_partitions)

    async def _offsets(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, ListedOffset]:
        answers = await list_offsets(
            self._parts().cluster,
            timestamps,
            read_committed=self.settings.isolation_level == "read_committed",
            timeout_ms=self.settings.default_api_timeout_ms,
        )
        found: dict[TopicPartition, ListedOffset] = {}
        for partition in timestamps:
            answer = answers[partition]
            if isinstance(answer, KafkaError):
                raise answer
            found[partition] = answer
        return found

    # Asking for keys

    async def get(
        self,
        topic: str,
        key: bytes | str,
        *,
        partition: int | None = None,
        all_partitions: bool = False,
    ) -> ConsumerRecord | None:
        """Returns the newest record of a key, without reading the topic; see `look_up`.

        Without a value it is a tombstone: the key was deleted. None if there is no record.
        """
        (found,) = await get_records(
            self._parts().cluster,
            self.settings,
            topic,
            [key],
            partition=partition,
            all_partitions=all_partitions,
            deserialize=self._deserializers.deserialize,
        )
        return found

    async def get_many(
        self, topic: str, keys: Iterable[bytes | str]
    ) -> list[ConsumerRecord | None]:
        """Returns the newest record of each key, with one request to each leader."""
        return await get_records(
            self._parts().cluster,
            self.settings,
            topic,
            list(keys),
            deserialize=self._deserializers.deserialize,
        )
