"""Looks up the newest record of a key without reading the topic, as in a table.

    async with Consumer(bootstrap_servers="localhost:9092") as consumer:
        customer = await consumer.get("customers", b"4711")
        if customer is not None and customer.value is not None:
            print(customer.value, customer.offset)

None means that the topic has no record of the key. A record without a value is a tombstone: the
key was deleted at its offset. Only Odradek has this API; other brokers give `UnsupportedVersion`.

The partition is computed from the key as Kafka's producer and ours do it (murmur2). If the topic is
written with another partitioner (librdkafka's default is crc32), name the partition or ask all.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from odradek.client.cluster import Cluster
from odradek.client.connection import Connection
from odradek.client.consumer.fetched_batches import ConsumerRecord, Deserialize
from odradek.client.consumer.record_headers import RecordHeaders
from odradek.client.errors import BadResponse, UnsupportedVersion
from odradek.client.leader_requests import Answers, ask_leaders
from odradek.client.producer.partitioners import hash_of_key
from odradek.client.settings import ConsumerSettings
from odradek.protocol.batch_header import NO_LEADER_EPOCH
from odradek.protocol.errors import KafkaError, error_for
from odradek.protocol.messages.look_up import (
    LookUpKey,
    LookUpPartition,
    LookUpPartitionResult,
    LookUpRequest,
    LookUpResponse,
    LookUpResult,
    LookUpTopic,
)
from odradek.protocol.types import LeaderEpoch, Offset, TopicPartition
from odradek.world.blocking_calls import MustBlock


class LookUp(NamedTuple):
    """The answer of a leader about keys of one partition."""

    # One record for each key, in their order; None where there is no record.
    records: list[ConsumerRecord | None]
    # How much the broker read from its files, for all keys.
    bytes_read: int
    # How much of the partition is not indexed yet, so that the broker has to read it.
    unindexed_bytes: int


def partition_of(key: bytes, partitions: Sequence[int]) -> int:
    """Returns the partition that Kafka's producer chooses for a key."""
    return partitions[hash_of_key(key) % len(partitions)]


async def look_up(
    cluster: Cluster,
    keys_by_partition: Mapping[TopicPartition, Sequence[bytes]],
    *,
    read_committed: bool,
    timeout_ms: int,
) -> dict[TopicPartition, LookUp]:
    """Asks the leaders for keys of their partitions; raises an error that one of them answers."""

    async def ask(connection: Connection, partitions: list[TopicPartition]) -> Answers[LookUp]:
        if not connection.supports(LookUpRequest):
            raise UnsupportedVersion(
                f"{connection.address} does not look up keys: only Odradek does, others must be"
                " read from the beginning"
            )
        request = _request(cluster, partitions, remaining, read_committed)
        response = await connection.request(request, LookUpResponse, timeout_ms=timeout_ms)
        answers: Answers[LookUp] = {}
        for topic in response.topics:
            for answer in topic.partitions:
                topic_partition = TopicPartition(topic.name, answer.partition_index)
                answers[topic_partition] = _answer(
                    topic_partition, remaining[topic_partition], answer
                )
        return answers

    found: dict[TopicPartition, LookUp] = {}
    remaining: Mapping[TopicPartition, Sequence[bytes]] = keys_by_partition
    while remaining:
        answers = await ask_leaders(cluster, remaining, ask, timeout_ms)
        for topic_partition, answer in answers.items():
            if isinstance(answer, KafkaError):
                raise answer
            found[topic_partition] = _joined(found.get(topic_partition), answer)
        if not any(isinstance(answer, LookUp) and answer.records for answer in answers.values()):
            raise BadResponse("a broker answered a look-up without a word about any key")
        # A response is limited in size: keys that did not fit are asked for again.
        remaining = {
            topic_partition: keys[len(found[topic_partition].records) :]
            for topic_partition, keys in keys_by_partition.items()
            if len(found[topic_partition].records) < len(keys)
        }
    return found


def _joined(before: LookUp | None, answer: LookUp) -> LookUp:
    if before is None:
        return answer
    return LookUp(
        before.records + answer.records,
        before.bytes_read + answer.bytes_read,
        answer.unindexed_bytes,
    )


def _request(
    cluster: Cluster,
    partitions: Iterable[TopicPartition],
    keys_by_partition: Mapping[TopicPartition, Sequence[bytes]],
    read_committed: bool,
) -> LookUpRequest:
    topics: dict[str, LookUpTopic] = {}
    for partition in partitions:
        known = cluster.view.partition(partition)
        topics.setdefault(partition.topic, LookUpTopic(name=partition.topic)).partitions.append(
            LookUpPartition(
                partition_index=partition.partition,
                current_leader_epoch=NO_LEADER_EPOCH if known is None else known.leader_epoch,
                keys=[LookUpKey(key=key) for key in keys_by_partition[partition]],
            )
        )
    return LookUpRequest(isolation_level=int(read_committed), topics=list(topics.values()))


def _answer(
    topic_partition: TopicPartition, keys: Sequence[bytes], answer: LookUpPartitionResult
) -> LookUp | KafkaError:
    if answer.error_code:
        return error_for(answer.error_code, answer.error_message)
    records = [
        _record(topic_partition, key, result)
        for key, result in zip(keys, answer.results, strict=False)
    ]
    return LookUp(records, answer.bytes_read, answer.unindexed_bytes)


def _record(
    topic_partition: TopicPartition, key: bytes, result: LookUpResult
) -> ConsumerRecord | None:
    if result.offset < 0:
        return None
    return ConsumerRecord(
        topic_partition.topic,
        topic_partition.partition,
        Offset(result.offset),
        result.timestamp,
        result.timestamp_type,
        key,
        result.value,
        RecordHeaders((header.name, header.value) for header in result.headers),
        LeaderEpoch(result.leader_epoch),
    )


def newest(records: Iterable[ConsumerRecord | None]) -> ConsumerRecord | None:
    """Returns the record with the highest timestamp: offsets of partitions do not compare."""
    present = [record for record in records if record is not None]
    return max(present, key=lambda record: record.timestamp_ms, default=None)


async def get_records(
    cluster: Cluster,
    settings: ConsumerSettings,
    topic: str,
    keys: Sequence[bytes | str],
    *,
    partition: int | None = None,
    all_partitions: bool = False,
    deserialize: Deserialize | None = None,
) -> list[ConsumerRecord | None]:
    """Returns the newest record of each key, for `Consumer.get` and `get_many`."""
    if partition is not None and all_partitions:
        raise ValueError("give partition or all_partitions, not both")
    timeout_ms = settings.default_api_timeout_ms
    encoded = [key.encode() if isinstance(key, str) else bytes(key) for key in keys]
    keys_by_partition: dict[TopicPartition, list[bytes]] = {}
    if partition is not None:
        keys_by_partition[TopicPartition(topic, partition)] = encoded
    else:
        known = (await cluster.existing_topic(topic, timeout_ms)).all_partitions
        for key in encoded:
            for index in known if all_partitions else (partition_of(key, known),):
                keys_by_partition.setdefault(TopicPartition(topic, index), []).append(key)
    answers = await look_up(
        cluster,
        keys_by_partition,
        read_committed=settings.isolation_level == "read_committed",
        timeout_ms=timeout_ms,
    )
    found: dict[bytes, list[ConsumerRecord | None]] = {}
    for topic_partition, answer in answers.items():
        for key, record in zip(keys_by_partition[topic_partition], answer.records, strict=True):
            found.setdefault(key, []).append(record)
    return await _deserialized(deserialize, [newest(found[key]) for key in encoded])


async def _deserialized(
    deserialize: Deserialize | None, records: list[ConsumerRecord | None]
) -> list[ConsumerRecord | None]:
    if deserialize is None:
        return records
    found = [record for record in records if record is not None]
    done: list[ConsumerRecord] = []
    while len(done) < len(found):
        some, fault = deserialize(found[len(done) :])
        done += some
        if isinstance(fault, MustBlock):
            await asyncio.to_thread(fault.call)
        elif fault is not None:
            raise fault
    remaining = iter(done)
    return [None if record is None else next(remaining) for record in records]
