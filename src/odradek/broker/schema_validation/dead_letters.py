"""Writes diverted records to the dead-letter topic of their topic.

A dead letter has the key, the value and the headers of its record, and headers that say from where
it comes and why. It has the same partition number as its record, so dead letters of one partition
stay in order if both topics have as many partitions.

The dead letters are written before the rest of their batch. If the broker dies in between, the
producer sends the batch again: then the dead letters stand there twice, and the other records
once.

A topic that validates schemas takes no dead letters: they are wrong records there too. A record
that is diverted from one such topic to the next, and back to the first, would never arrive.
"""

import asyncio
from collections.abc import Iterable
from typing import Final

from odradek.broker.cluster_producer import ClusterProducer
from odradek.cluster.topics import Topics
from odradek.config.live import LiveSettings
from odradek.metadata import MetadataCache
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.records import BatchBuilder, Record
from odradek.protocol.types import TopicPartition
from odradek.replication.peers import Peers
from odradek.world.timeslice import Timeslice

_RETRY_S: Final = 0.1
_TIMEOUT_S: Final = 10.0
# Larger groups of records are written as several batches.
_BATCH_BYTES: Final = 500_000
_HEADER: Final = "__odradek.errors."


class DeadLetters:
    def __init__(
        self, settings: LiveSettings, topics: Topics, cache: MetadataCache, peers: Peers
    ) -> None:
        self._settings = settings
        self._topics = topics
        self._cache = cache
        self._peers = peers

    async def write(
        self,
        dead_letter_topic: str,
        source: TopicPartition,
        wrong: Iterable[tuple[Record, str]],
    ) -> None:
        """Writes records, each with the reason why it is wrong. Raises `ApiError` if that failed:
        one that producers retry, unless another try would fail too."""
        self._require_no_validation(dead_letter_topic)
        producer = ClusterProducer(
            dead_letter_topic, self._topics, self._cache, self._peers, "dead letters"
        )
        builder, size, count = BatchBuilder(), 0, 0
        timeslice = Timeslice.of_running_loop()
        for record, reason in wrong:
            if timeslice.is_over():
                await timeslice.next_turn()
            headers = [
                *record.headers,
                (f"{_HEADER}topic", source.topic.encode()),
                (f"{_HEADER}partition", b"%d" % source.partition),
                (f"{_HEADER}reason", reason.encode()),
            ]
            size += len(record.key or b"") + len(record.value or b"")
            builder.append(record.key, record.value, headers, timestamp_ms=record.timestamp_ms)
            count += 1
            if size >= _BATCH_BYTES:
                await self._send(producer, builder.build(), source.partition)
                builder, size, count = BatchBuilder(), 0, 0
        if count:
            await self._send(producer, builder.build(), source.partition)

    def _require_no_validation(self, name: str) -> None:
        topic = self._cache.image.topics.get(name)
        overrides = {} if topic is None else topic.overrides
        if self._settings.broker.topic(overrides).validates_schemas:
            raise ApiError(
                ErrorCode.INVALID_RECORD,
                f"records cannot be diverted to {name}: it validates schemas itself; set"
                " odradek.schema.validation.dead.letter.topic to a topic that does not",
            )

    @staticmethod
    async def _send(producer: ClusterProducer, batch: bytes, index: int) -> None:
        loop = asyncio.get_running_loop()
        end_s = loop.time() + _TIMEOUT_S
        while (failure := await producer.send(batch, index)) is not None:
            told = f"records cannot be diverted to {producer.topic}: {failure.reason}"
            if failure.is_final:
                raise ApiError(ErrorCode.INVALID_RECORD, told)
            if loop.time() >= end_s:
                raise ApiError(ErrorCode.NOT_ENOUGH_REPLICAS, told)
            await asyncio.sleep(_RETRY_S)
