"""The newest record of a key, without reading the topic: for compacted topics, as tables are read.

    async with Consumer(bootstrap_servers="localhost:9092") as consumer:
        customer = await consumer.get("customers", b"4711")
        if customer is not None and customer.value is not None:
            print(customer.value, customer.offset)

None says that the topic has no record of the key; a record without a value is a tombstone, the
key was deleted at its offset. Only Odradek answers such questions: from any other broker comes
`UnsupportedVersion`.

The partition follows from the key as Kafka's own producer, and ours, choose it (murmur2). Name
it if the topic is written otherwise (librdkafka takes crc32 unless told), or ask all of them.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from odradek.client.cluster import Cluster
from odradek.client.connection import Connection
from odradek.client.consumer.fetched import ConsumerRecord, deserializer_of
from odradek.client.errors import BadResponse, UnsupportedVersion
from odradek.client.leaders import Answers, ask_leaders
from odradek.client.producer.partitioners import hash_of_key
from odradek.client.settings import ConsumerSettings
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


class LookUp(NamedTuple):
    """What a leader answered about keys of one partition."""

    # One for each key, in their order; None where there is no record.
    records: list[ConsumerRecord | None]
    # From the files of the broker, for all keys.
    bytes_read: int
    # Of the partition: not indexed yet, so the broker reads them if need be.
    unindexed_bytes: int


def partition_of(key: bytes, partitions: Sequence[int]) -> int:
    """Where Kafka's producer puts a key."""
    return partitions[hash_of_key(key) % len(partitions)]


async def look_up(
    cluster: Cluster,
    wanted: Mapping[TopicPartition, Sequence[bytes]],
    *,
    read_committed: bool,
    timeout_ms: int,
) -> dict[TopicPartition, LookUp]:
    """Asks the leaders for keys of their partitions; raises what one of them refused."""

    async def ask(connection: Connection, partitions: list[TopicPartition]) -> Answers[LookUp]:
        if not connection.supports(LookUpRequest):
            raise UnsupportedVersion(
                f"{connection.address} does not look up keys: only Odradek does, others must be"
                " read from the beginning"
            )
        request = _request(cluster, partitions, rest, read_committed)
        response = await connection.request(request, LookUpResponse, timeout_ms=timeout_ms)
        answers: Answers[LookUp] = {}
        for topic in response.topics:
            for answer in topic.partitions:
                where = TopicPartition(topic.name, answer.partition_index)
                answers[where] = _answer(where, rest[where], answer)
        return answers

    found: dict[TopicPartition, LookUp] = {}
    rest: Mapping[TopicPartition, Sequence[bytes]] = wanted
    while rest:
        answers = await ask_leaders(cluster, rest, ask, timeout_ms)
        for where, answer in answers.items():
            if isinstance(answer, KafkaError):
                raise answer
            found[where] = _joined(found.get(where), answer)
        if not any(isinstance(answer, LookUp) and answer.records for answer in answers.values()):
            raise BadResponse("a broker answered a look-up without a word about any key")
        # A response holds so much and no more: what did not fit is asked for again.
        rest = {
            where: keys[len(found[where].records) :]
            for where, keys in wanted.items()
            if len(found[where].records) < len(keys)
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
    wanted: Mapping[TopicPartition, Sequence[bytes]],
    read_committed: bool,
) -> LookUpRequest:
    topics: dict[str, LookUpTopic] = {}
    for one in partitions:
        known = cluster.view.partition(one)
        topics.setdefault(one.topic, LookUpTopic(name=one.topic)).partitions.append(
            LookUpPartition(
                partition_index=one.partition,
                current_leader_epoch=-1 if known is None else known.leader_epoch,
                keys=[LookUpKey(key=key) for key in wanted[one]],
            )
        )
    return LookUpRequest(isolation_level=int(read_committed), topics=list(topics.values()))


def _answer(
    where: TopicPartition, keys: Sequence[bytes], answer: LookUpPartitionResult
) -> LookUp | KafkaError:
    if answer.error_code:
        return error_for(answer.error_code, answer.error_message)
    records = [
        _record(where, key, result) for key, result in zip(keys, answer.results, strict=False)
    ]
    return LookUp(records, answer.bytes_read, answer.unindexed_bytes)


def _record(where: TopicPartition, key: bytes, result: LookUpResult) -> ConsumerRecord | None:
    if result.offset < 0:
        return None
    return ConsumerRecord(
        where.topic,
        where.partition,
        Offset(result.offset),
        result.timestamp,
        result.timestamp_type,
        key,
        result.value,
        [(header.name, header.value) for header in result.headers],
        LeaderEpoch(result.leader_epoch),
    )


def newest(records: Iterable[ConsumerRecord | None]) -> ConsumerRecord | None:
    """Of records of one key in several partitions, where no order of offsets holds."""
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
) -> list[ConsumerRecord | None]:
    """The newest record of each key; what `Consumer.get` and `get_many` do."""
    if partition is not None and all_partitions:
        raise ValueError("give partition or all_partitions, not both")
    timeout_ms = settings.default_api_timeout_ms
    encoded = [key.encode() if isinstance(key, str) else bytes(key) for key in keys]
    wanted: dict[TopicPartition, list[bytes]] = {}
    if partition is not None:
        wanted[TopicPartition(topic, partition)] = encoded
    else:
        known = (await cluster.topic(topic, timeout_ms)).all_partitions
        for key in encoded:
            for index in known if all_partitions else (partition_of(key, known),):
                wanted.setdefault(TopicPartition(topic, index), []).append(key)
    answers = await look_up(
        cluster,
        wanted,
        read_committed=settings.isolation_level == "read_committed",
        timeout_ms=timeout_ms,
    )
    found: dict[bytes, list[ConsumerRecord | None]] = {}
    for where, answer in answers.items():
        for key, record in zip(wanted[where], answer.records, strict=True):
            found.setdefault(key, []).append(record)
    return _deserialized(settings, [newest(found[key]) for key in encoded])


def _deserialized(
    settings: ConsumerSettings, records: list[ConsumerRecord | None]
) -> list[ConsumerRecord | None]:
    deserialize = deserializer_of(
        settings.key_deserializer if callable(settings.key_deserializer) else None,
        settings.value_deserializer if callable(settings.value_deserializer) else None,
    )
    if deserialize is None:
        return records
    done, fault = deserialize([record for record in records if record is not None])
    if fault is not None:
        raise fault
    rest = iter(done)
    return [None if record is None else next(rest) for record in records]
