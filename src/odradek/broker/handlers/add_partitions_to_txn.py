"""AddPartitionsToTxn (v0-v5): adds to a transaction the partitions that it will write to.

Up to version 3 a producer sends the request for its own transaction. If one of the partitions does
not exist, none is added. From version 4 the leaders of partitions send it, for many transactions at
once; with `verify_only` they only ask whether the partitions were added.
"""

import asyncio
from collections.abc import Sequence, Set
from typing import Final

from odradek.broker.handlers import Handler
from odradek.broker.permissions import CheckedByHandler
from odradek.broker.request_splitting import Splitting
from odradek.broker.services import RequestContext, Services
from odradek.cluster.internal_topics import TRANSACTIONS
from odradek.metadata import ClusterImage
from odradek.metadata.paths import topic_path
from odradek.protocol.acls import Operation, ResourceType
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.add_partitions_to_txn import (
    API,
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from odradek.protocol.types import TopicPartition
from odradek.transactions.commands import Added, AddPartitions
from odradek.transactions.transaction import VERSION_2
from odradek.world.timeslice import Timeslice

_FIRST_VERSION_OF_BROKERS: Final = AddPartitionsToTxnRequest.first_version_with("transactions")
_FIRST_VERSION_WITH_FENCED: Final = 2
_FIRST_VERSION_WITH_ABORTABLE: Final = 5
_PARTITIONS_PER_STEP: Final = 200
_NOT_ATTEMPTED: Final = ErrorCode.OPERATION_NOT_ATTEMPTED


async def handle(
    services: Services, context: RequestContext, request: AddPartitionsToTxnRequest
) -> AddPartitionsToTxnResponse:
    version = context.version
    if version < _FIRST_VERSION_OF_BROKERS:
        denied = await _denied_to_producer(context, request)
        if denied is not None:
            return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=denied)
        transaction = AddPartitionsToTxnTransaction(
            transactional_id=request.v3_and_below_transactional_id,
            producer_id=request.v3_and_below_producer_id,
            producer_epoch=request.v3_and_below_producer_epoch,
            topics=request.v3_and_below_topics,
        )
        services.late_requests.check(
            context.address,
            transaction.transactional_id,
            transaction.producer_id,
            transaction.producer_epoch,
        )
        results = await _add(services, context, transaction)
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results)
    if not context.authorize_cluster(Operation.CLUSTER_ACTION):
        return AddPartitionsToTxnResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    # Concurrently, so that the records of all transactions are replicated together.
    answers = await asyncio.gather(
        *(_add(services, context, transaction) for transaction in request.transactions)
    )
    return AddPartitionsToTxnResponse(
        results_by_transaction=[
            AddPartitionsToTxnResult(
                transactional_id=transaction.transactional_id, topic_results=results
            )
            for transaction, results in zip(request.transactions, answers, strict=True)
        ]
    )


async def _denied_to_producer(
    context: RequestContext, request: AddPartitionsToTxnRequest
) -> list[AddPartitionsToTxnTopicResult] | None:
    """Returns the answer if the transactional id or one of the topics is denied: then no partition
    is added. Brokers that ask for many transactions have asked for these permissions before."""
    topics, transactional_id = request.v3_and_below_topics, request.v3_and_below_transactional_id
    if not context.authorize(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id):
        return await _answer(
            topics, frozenset(), _NOT_ATTEMPTED, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        )
    _, denied = context.split_authorized(
        Operation.WRITE, ResourceType.TOPIC, topics, lambda topic: topic.name
    )
    if not denied:
        return None
    partitions = frozenset(
        TopicPartition(topic.name, index) for topic in denied for index in topic.partitions
    )
    return await _answer(topics, partitions, ErrorCode.TOPIC_AUTHORIZATION_FAILED, _NOT_ATTEMPTED)


async def _add(
    services: Services, context: RequestContext, transaction: AddPartitionsToTxnTransaction
) -> list[AddPartitionsToTxnTopicResult]:
    version = context.version
    # A transaction may have tens of thousands of partitions.
    timeslice = Timeslice.of_running_loop()
    requested: set[TopicPartition] = set()
    for topic in transaction.topics:
        if len(requested) > _PARTITIONS_PER_STEP and timeslice.is_over():
            await timeslice.next_turn()
        async for indexes in timeslice.batches(topic.partitions, _PARTITIONS_PER_STEP):
            requested.update(TopicPartition(topic.name, index) for index in indexes)
    partitions = frozenset(requested)
    unknown = await _unknown(services, partitions, version)
    if unknown:
        return await _answer(
            transaction.topics, unknown, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, _NOT_ATTEMPTED
        )
    error, missing = await _ask(services, context, transaction, partitions)
    if error is ErrorCode.PRODUCER_FENCED and version < _FIRST_VERSION_WITH_FENCED:
        error = ErrorCode.INVALID_PRODUCER_EPOCH
    knows_abortable = version >= _FIRST_VERSION_WITH_ABORTABLE
    missing_error = (
        ErrorCode.TRANSACTION_ABORTABLE if knows_abortable else ErrorCode.INVALID_TXN_STATE
    )
    return await _answer(transaction.topics, missing, missing_error, error)


async def _unknown(
    services: Services, partitions: Set[TopicPartition], version: int
) -> Set[TopicPartition]:
    """Returns the partitions that do not exist. A broker that asks may have learned of a new topic
    before this broker, so this broker asks the metadata store about unknown topics."""
    unknown = await _not_in(services.images.image, partitions)
    if unknown and version >= _FIRST_VERSION_OF_BROKERS:
        topics = dict.fromkeys(partition.topic for partition in unknown)
        image = await services.images.catch_up(*map(topic_path, topics))
        unknown = await _not_in(image, unknown)
    return unknown


async def _not_in(image: ClusterImage, partitions: Set[TopicPartition]) -> set[TopicPartition]:
    unknown: set[TopicPartition] = set()
    timeslice = Timeslice.of_running_loop()
    async for some in timeslice.batches([*partitions], _PARTITIONS_PER_STEP):
        unknown.update(partition for partition in some if image.partition(*partition) is None)
    return unknown


async def _ask(
    services: Services,
    context: RequestContext,
    transaction: AddPartitionsToTxnTransaction,
    partitions: frozenset[TopicPartition],
) -> Added:
    if not transaction.transactional_id or any(
        partition.topic == TRANSACTIONS for partition in partitions
    ):
        return Added(ErrorCode.INVALID_REQUEST)
    command = AddPartitions(
        transaction.transactional_id,
        transaction.producer_id,
        transaction.producer_epoch,
        partitions,
        client_transaction_version=VERSION_2 if context.version >= _FIRST_VERSION_OF_BROKERS else 0,
        verify_only=transaction.verify_only,
        client_address=context.address,
    )
    try:
        return await services.transactions.ask(transaction.transactional_id, command)
    except ApiError as error:
        return Added(error.code)


async def _answer(
    topics: Sequence[AddPartitionsToTxnTopic],
    special: Set[TopicPartition],
    special_error: ErrorCode,
    error: ErrorCode,
) -> list[AddPartitionsToTxnTopicResult]:
    answers: list[AddPartitionsToTxnTopicResult] = []
    timeslice = Timeslice.of_running_loop()
    for topic in topics:
        if len(answers) > _PARTITIONS_PER_STEP and timeslice.is_over():
            await timeslice.next_turn()
        answer = AddPartitionsToTxnTopicResult(name=topic.name)
        async for indexes in timeslice.batches(topic.partitions, _PARTITIONS_PER_STEP):
            answer.results_by_partition += [
                AddPartitionsToTxnPartitionResult(
                    partition_index=index,
                    partition_error_code=special_error if (topic.name, index) in special else error,
                )
                for index in indexes
            ]
        answers.append(answer)
    return answers


HANDLER: Final = Handler(
    API,
    handle,
    permission=CheckedByHandler(
        "WRITE on the transactional id and on all topics; for brokers CLUSTER_ACTION on the cluster"
    ),
    splitting=[Splitting("transactions", "results_by_transaction")],
)
