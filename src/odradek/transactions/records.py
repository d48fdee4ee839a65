"""The records of transactions in `__transaction_state`, in Kafka's format.

A value that another version of Kafka wrote is read as far as its fields are known.
"""

from typing import Final

from odradek.protocol.errors import MalformedMessage
from odradek.protocol.messages.consumer_protocol import decode_versioned, encode_versioned
from odradek.protocol.schema import (
    Message,
    Struct,
    array,
    int8,
    int16,
    int32,
    int64,
    producer_epoch_field,
    producer_id_field,
    string,
)
from odradek.protocol.types import ProducerEpoch, ProducerId, TopicPartition
from odradek.statemachine.machine import LogRecord
from odradek.transactions.transaction import FIRST_EPOCH, NO_EPOCH, NO_PRODUCER, Status, Transaction

_KEY_VERSION: Final = 0
_VALUE_VERSION: Final = 1


class TransactionLogKey(Message, versions="0"):
    transactional_id: str = string()


class PartitionsSchema(Struct):
    topic: str = string()
    partition_ids: list[int] = array(int32)


class TransactionLogValue(Message, versions="0-1", flexible="1+"):
    producer_id: ProducerId = producer_id_field()
    previous_producer_id: ProducerId = producer_id_field("1+", default=-1, tag=0)
    next_producer_id: ProducerId = producer_id_field("1+", default=-1, tag=1)
    producer_epoch: ProducerEpoch = producer_epoch_field()
    next_producer_epoch: ProducerEpoch = producer_epoch_field("1+", default=-1, tag=3)
    transaction_timeout_ms: int = int32()
    transaction_status: int = int8()
    transaction_partitions: list[PartitionsSchema] | None = array(PartitionsSchema, nullable="0+")
    transaction_last_update_timestamp_ms: int = int64()
    transaction_start_timestamp_ms: int = int64()
    client_transaction_version: int = int16("1+", tag=2)
    # A field of Odradek. Kafka keeps this epoch in memory only, and skips unknown tagged fields.
    # With it a producer can ask again for its epoch after the coordinator has moved (KIP-360).
    last_producer_epoch: ProducerEpoch = producer_epoch_field("1+", default=-1, tag=10_000)


def key_of(transactional_id: str) -> bytes:
    return encode_versioned(TransactionLogKey(transactional_id=transactional_id), _KEY_VERSION)


def record_of(transaction: Transaction) -> LogRecord:
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(transaction.partitions):
        topics.setdefault(topic, []).append(partition)
    value = TransactionLogValue(
        producer_id=transaction.producer_id,
        previous_producer_id=transaction.previous_producer_id,
        next_producer_id=transaction.next_producer_id,
        next_producer_epoch=NO_EPOCH
        if transaction.next_producer_id == NO_PRODUCER
        else FIRST_EPOCH,
        producer_epoch=transaction.producer_epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=transaction.status,
        transaction_partitions=None
        if transaction.status is Status.EMPTY
        else [
            PartitionsSchema(topic=topic, partition_ids=partitions)
            for topic, partitions in topics.items()
        ],
        transaction_last_update_timestamp_ms=transaction.updated_ms,
        transaction_start_timestamp_ms=transaction.started_ms,
        client_transaction_version=transaction.client_transaction_version,
        last_producer_epoch=transaction.last_producer_epoch,
    )
    return LogRecord(key_of(transaction.transactional_id), encode_versioned(value, _VALUE_VERSION))


def read_key(key: bytes) -> str | None:
    """Returns the transactional id, or None for an unknown kind of record."""
    if key[:2] != _KEY_VERSION.to_bytes(2, "big"):
        return None
    try:
        return decode_versioned(TransactionLogKey, key).transactional_id
    except MalformedMessage:
        return None


def read_value(transactional_id: str, content: bytes) -> Transaction | None:
    """Returns the transaction, or None if the value cannot be read."""
    try:
        value = decode_versioned(TransactionLogValue, content)
        status = Status(value.transaction_status)
    except (MalformedMessage, ValueError):
        return None
    return Transaction(
        transactional_id,
        value.producer_id,
        value.producer_epoch,
        value.transaction_timeout_ms,
        status,
        frozenset(
            TopicPartition(topic.topic, partition)
            for topic in value.transaction_partitions or ()
            for partition in topic.partition_ids
        ),
        value.transaction_start_timestamp_ms,
        value.transaction_last_update_timestamp_ms,
        value.previous_producer_id,
        value.next_producer_id,
        value.last_producer_epoch,
        value.client_transaction_version,
    )
