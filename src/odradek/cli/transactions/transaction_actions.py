"""The actions of `odradek transactions`, after its flags are parsed."""

import argparse
from typing import NamedTuple

from odradek.client.admin.brokers import BrokerCalls
from odradek.client.admin.topics import TopicCalls
from odradek.client.admin.transactions import (
    PartitionProducer,
    TransactionCalls,
    TransactionDescription,
)
from odradek.config.spelling import did_you_mean
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.types import TopicPartition
from odradek.tools.admin_session import named_partitions, open_admin, require_brokers, topics_named
from odradek.tools.failures import CommandFailed
from odradek.tools.terminal import print_json
from odradek.world import SystemClock

_MINUTE_MS = 60_000
_DEFAULT_TIMEOUT_MINUTES = 15
# How many partitions one DescribeProducers request asks about.
_MAX_PARTITIONS_PER_REQUEST = 500


class _TransactionAdmin(TransactionCalls, TopicCalls, BrokerCalls):
    """The admin calls of this tool."""


async def perform(arguments: argparse.Namespace) -> int:
    async with open_admin(_TransactionAdmin, arguments) as admin:
        action = arguments.action
        if action == "list":
            return await _list(admin, arguments)
        if action == "describe":
            return await _describe(admin, arguments)
        if action == "describe-producers":
            return await _describe_producers(admin, arguments)
        if action == "find-hanging":
            return await _find_hanging(admin, arguments)
        if action == "abort":
            return await _abort(admin, arguments)
        return await _force_terminate(admin, arguments)


def tabbed_table(headers: list[str], rows: list[list[str]]) -> str:
    """Formats a table as Kafka does here: padded cells with a tab after each."""
    widths = [max(map(len, column)) for column in zip(headers, *rows, strict=True)]
    return "\n".join(
        "".join(f"{cell.ljust(width)}\t" for cell, width in zip(row, widths, strict=True))
        for row in [headers, *rows]
    )


def _text(value: int | None) -> str:
    return "None" if value is None else str(value)


async def _list(admin: _TransactionAdmin, arguments: argparse.Namespace) -> int:
    duration_ms = arguments.duration_filter
    listings = await admin.list_transactions(
        longer_than_ms=-1 if duration_ms is None else duration_ms,
        pattern=arguments.transactional_id_pattern,
    )
    listings.sort(key=lambda listing: listing.transactional_id)
    if arguments.json:
        print_json(
            [
                {
                    "transactionalId": listing.transactional_id,
                    "coordinator": listing.coordinator.id,
                    "producerId": listing.producer_id,
                    "state": listing.state,
                }
                for listing in listings
            ]
        )
        return 0
    rows = [
        [
            listing.transactional_id,
            str(listing.coordinator.id),
            str(listing.producer_id),
            listing.state,
        ]
        for listing in listings
    ]
    headers = ["TransactionalId", "Coordinator", "ProducerId", "TransactionState"]
    print(tabbed_table(headers, rows))
    return 0


async def _described(admin: _TransactionAdmin, transactional_id: str) -> TransactionDescription:
    answer = (await admin.describe_transactions([transactional_id]))[transactional_id]
    if not isinstance(answer, KafkaError):
        return answer
    if answer.code != ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
        raise CommandFailed(f"transactional id {transactional_id!r}: {answer.message}")
    known = [listing.transactional_id for listing in await admin.list_transactions()]
    near = did_you_mean(transactional_id, known)
    raise CommandFailed(
        f"there is no transactional id {transactional_id!r}"
        + (near or "; odradek transactions list shows all")
    )


async def _describe(admin: _TransactionAdmin, arguments: argparse.Namespace) -> int:
    description = await _described(admin, arguments.transactional_id)
    duration_ms = None
    if description.started_ms is not None:
        duration_ms = SystemClock().now_ms() - description.started_ms
    if arguments.json:
        print_json(
            {
                "transactionalId": description.transactional_id,
                "coordinator": description.coordinator.id,
                "producerId": description.producer_id,
                "producerEpoch": description.producer_epoch,
                "state": description.state,
                "timeoutMs": description.timeout_ms,
                "startTimeMs": description.started_ms,
                "durationMs": duration_ms,
                "partitions": [
                    {"topic": partition.topic, "partition": partition.partition}
                    for partition in sorted(description.partitions)
                ],
            }
        )
        return 0
    row = {
        "CoordinatorId": str(description.coordinator.id),
        "TransactionalId": description.transactional_id,
        "ProducerId": str(description.producer_id),
        "ProducerEpoch": str(description.producer_epoch),
        "TransactionState": description.state,
        "TransactionTimeoutMs": str(description.timeout_ms),
        "CurrentTransactionStartTimeMs": _text(description.started_ms),
        "TransactionDurationMs": _text(duration_ms),
        "TopicPartitions": ",".join(map(str, sorted(description.partitions))),
    }
    print(tabbed_table(list(row), [list(row.values())]))
    return 0


async def _producers(
    admin: _TransactionAdmin, arguments: argparse.Namespace, partitions: list[TopicPartition]
) -> dict[TopicPartition, list[PartitionProducer]]:
    broker_id = arguments.broker_id
    if broker_id is not None:
        await require_brokers(admin, [broker_id])
    producers: dict[TopicPartition, list[PartitionProducer]] = {}
    for start in range(0, len(partitions), _MAX_PARTITIONS_PER_REQUEST):
        page = partitions[start : start + _MAX_PARTITIONS_PER_REQUEST]
        answers = await admin.describe_producers(page, broker_id=broker_id)
        for partition, answer in answers.items():
            if isinstance(answer, KafkaError):
                raise CommandFailed(f"{partition}: {answer.message}")
            producers[partition] = answer
    return producers


async def _one_partition(admin: _TransactionAdmin, arguments: argparse.Namespace) -> TopicPartition:
    (partition,) = await named_partitions(admin, [f"{arguments.topic}:{arguments.partition}"])
    return partition


async def _describe_producers(admin: _TransactionAdmin, arguments: argparse.Namespace) -> int:
    partition = await _one_partition(admin, arguments)
    producers = (await _producers(admin, arguments, [partition]))[partition]
    if arguments.json:
        print_json([_producer_json(producer) for producer in producers])
        return 0
    headers = ["ProducerId", "ProducerEpoch", "LatestCoordinatorEpoch", "LastSequence",
               "LastTimestamp", "CurrentTransactionStartOffset"]  # fmt: skip
    rows = [
        [
            str(producer.producer_id),
            str(producer.producer_epoch),
            str(producer.coordinator_epoch),
            str(producer.last_sequence),
            str(producer.last_timestamp_ms),
            _text(producer.transaction_start_offset),
        ]
        for producer in producers
    ]
    print(tabbed_table(headers, rows))
    return 0


def _producer_json(producer: PartitionProducer) -> dict[str, object]:
    return {
        "producerId": producer.producer_id,
        "producerEpoch": producer.producer_epoch,
        "coordinatorEpoch": producer.coordinator_epoch,
        "lastSequence": producer.last_sequence,
        "lastTimestamp": producer.last_timestamp_ms,
        "transactionStartOffset": producer.transaction_start_offset,
    }


# Hanging transactions


class _Open(NamedTuple):
    partition: TopicPartition
    producer: PartitionProducer


async def _find_hanging(admin: _TransactionAdmin, arguments: argparse.Namespace) -> int:
    now_ms = SystemClock().now_ms()
    minutes = arguments.max_transaction_timeout or _DEFAULT_TIMEOUT_MINUTES
    producers = await _producers(admin, arguments, await _partitions_to_search(admin, arguments))
    candidates = [
        _Open(partition, producer)
        for partition, many in sorted(producers.items())
        for producer in many
        if producer.transaction_start_offset is not None
        and now_ms - producer.last_timestamp_ms > minutes * _MINUTE_MS
    ]
    hanging = await _without_coordinator(admin, candidates)
    if arguments.json:
        print_json(
            [
                {"topic": transaction.partition.topic, "partition": transaction.partition.partition}
                | _producer_json(transaction.producer)
                for transaction in hanging
            ]
        )
        return 0
    headers = ["Topic", "Partition", "ProducerId", "ProducerEpoch", "CoordinatorEpoch",
               "StartOffset", "LastTimestamp", "Duration(min)"]  # fmt: skip
    rows = [
        [
            partition.topic,
            str(partition.partition),
            str(producer.producer_id),
            str(producer.producer_epoch),
            str(producer.coordinator_epoch),
            str(producer.transaction_start_offset),
            str(producer.last_timestamp_ms),
            str((now_ms - producer.last_timestamp_ms) // _MINUTE_MS),
        ]
        for partition, producer in hanging
    ]
    print(tabbed_table(headers, rows))
    return 0


async def _partitions_to_search(
    admin: _TransactionAdmin, arguments: argparse.Namespace
) -> list[TopicPartition]:
    """Returns the partitions to search: those of a topic, those on a broker, or a single one."""
    if arguments.partition is not None:
        return [await _one_partition(admin, arguments)]
    if arguments.topic is not None:
        topics = await topics_named(admin, [arguments.topic])
    else:
        topics = await admin.list_topics(include_internal=True)
    return [
        TopicPartition(name, index)
        for name, topic in topics.items()
        for index, partition in topic.partitions.items()
        if arguments.broker_id is None or arguments.broker_id in partition.replicas
    ]


async def _without_coordinator(admin: _TransactionAdmin, candidates: list[_Open]) -> list[_Open]:
    """Returns the open transactions that their coordinator does not know: it will never write a
    marker for them."""
    if not candidates:
        return []
    producer_ids = {candidate.producer.producer_id for candidate in candidates}
    listings = await admin.list_transactions(producer_ids=sorted(producer_ids))
    names = {listing.producer_id: listing.transactional_id for listing in listings}
    descriptions = await admin.describe_transactions(names.values())
    hanging = []
    for candidate in candidates:
        name = names.get(candidate.producer.producer_id)
        description = None if name is None else descriptions[name]
        if isinstance(description, KafkaError):
            if description.code != ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                raise CommandFailed(f"transactional id {name!r}: {description.message}")
            description = None
        if description is None or candidate.partition not in description.partitions:
            hanging.append(candidate)
    return hanging


async def _abort(admin: _TransactionAdmin, arguments: argparse.Namespace) -> int:
    partition = await _one_partition(admin, arguments)
    identity = (arguments.producer_id, arguments.producer_epoch, arguments.coordinator_epoch)
    if arguments.start_offset is not None:
        for producer in (await _producers(admin, arguments, [partition]))[partition]:
            if producer.transaction_start_offset == arguments.start_offset:
                break
        else:
            raise CommandFailed(
                f"no open transaction begins at offset {arguments.start_offset} of {partition};"
                f" odradek transactions describe-producers --topic {partition.topic}"
                f" --partition {partition.partition} shows where they begin"
            )
        identity = (producer.producer_id, producer.producer_epoch, producer.coordinator_epoch)
    producer_id, producer_epoch, coordinator_epoch = identity
    try:
        await admin.abort_transaction(
            partition,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            coordinator_epoch=coordinator_epoch,
        )
    except KafkaError as error:
        raise CommandFailed(f"the transaction in {partition} was not aborted: {error}") from None
    if arguments.json:
        print_json(
            {
                "topic": partition.topic,
                "partition": partition.partition,
                "producerId": producer_id,
                "producerEpoch": producer_epoch,
            }
        )
    return 0


async def _force_terminate(admin: _TransactionAdmin, arguments: argparse.Namespace) -> int:
    transactional_id = arguments.transactional_id
    # Fencing a transactional id that does not exist would create it.
    await _described(admin, transactional_id)
    answer = (await admin.fence_producers([transactional_id]))[transactional_id]
    if isinstance(answer, KafkaError):
        raise CommandFailed(f"{transactional_id!r} was not terminated: {answer.message}")
    if arguments.json:
        print_json(
            {
                "transactionalId": transactional_id,
                "producerId": answer.producer_id,
                "producerEpoch": answer.producer_epoch,
            }
        )
    return 0
