"""What a consumer can be asked without reading: offsets, partitions, and the record of a key."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping

from odradek.client import arguments
from odradek.client.arguments import GivenPartitions
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

    async def beginning_offsets(self, partitions: GivenPartitions) -> dict[TopicPartition, Offset]:
        """Returns the log start offset of each partition."""
        asked = arguments.partitions(partitions, "beginning_offsets()")
        found = await self._offsets(dict.fromkeys(asked, EARLIEST))
        return {partition: listed.offset for partition, listed in found.items()}

    async def end_offsets(self, partitions: GivenPartitions) -> dict[TopicPartition, Offset]:
        """Returns the high watermarks, or with read_committed the last stable offsets."""
        asked = arguments.partitions(partitions, "end_offsets()")
        found = await self._offsets(dict.fromkeys(asked, LATEST))
        return {partition: listed.offset for partition, listed in found.items()}

    async def offsets_for_times(
        self, timestamps_ms: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, ListedOffset | None]:
        """Returns the first offset of each partition whose record is not older than a time.

        It is None if there is no such record.
        """
        call = "offsets_for_times()"
        given = arguments.by_partition(timestamps_ms, call, "timestamp_ms")
        asked = {
            partition: arguments.timestamp(timestamp_ms, call)
            for partition, timestamp_ms in given.items()
        }
        found = await self._offsets(asked)
        return {
            partition: listed if listed.offset >= 0 else None for partition, listed in found.items()
        }

    async def partitions_for(self, topic: str) -> list[int]:
        """Returns the partitions of a topic; raises `UnknownTopic` if there is none."""
        name = arguments.a_name(topic, "partitions_for()")
        cluster = self._parts().cluster
        described = await cluster.existing_topic(name, self.settings.default_api_timeout_ms)
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
            arguments.a_name(topic, "get()"),
            [arguments.a_key(key, "get()")],
            partition=None
            if partition is None
            else arguments.integer(partition, "get()", "partition"),
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
            arguments.a_name(topic, "get_many()"),
            arguments.keys(keys, "get_many()"),
            deserialize=self._deserializers.deserialize,
        )
