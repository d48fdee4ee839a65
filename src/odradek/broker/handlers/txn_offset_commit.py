"""TxnOffsetCommit (v0-v5): stores offsets that become visible when the transaction commits.

The offsets are written at once. Until the transaction ends, OffsetFetch with `require_stable` gets
UNSTABLE_OFFSET_COMMIT for these partitions. From version 3 the member id and the generation of the
consumer are checked; older producers do not send them. The partition that keeps the offsets must be
part of the transaction; from version 5 this request adds it.
"""

from collections.abc import Sequence
from typing import Final

from odradek.broker.denied_results import denied_topics
from odradek.broker.handlers import Handler
from odradek.broker.handlers.offset_commit import commit
from odradek.broker.permissions import CheckedByHandler
from odradek.broker.request_splitting import PARTITIONS
from odradek.broker.services import RequestContext, Services
from odradek.cluster.internal_topics import GROUPS
from odradek.groups.commands import CommitOffsets, OffsetToCommit
from odradek.protocol.acls import Operation, ResourceType
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.txn_offset_commit import (
    API,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from odradek.protocol.types import TopicPartition
from odradek.replication.coordinator_partitions import partition_of
from odradek.statemachine.machine import ProducerIdentity

_FIRST_VERSION_THAT_KNOWS_LOADING: Final = 2
_FIRST_VERSION_THAT_ADDS: Final = 5


async def handle(
    services: Services, context: RequestContext, request: TxnOffsetCommitRequest
) -> TxnOffsetCommitResponse:
    denial = _authorization_error(context, request)
    if denial is not None:
        return TxnOffsetCommitResponse(
            topics=denied_topics(
                request.topics,
                TxnOffsetCommitResponseTopic,
                TxnOffsetCommitResponsePartition,
                denial,
            )
        )
    allowed, denied = context.split_authorized(
        Operation.READ, ResourceType.TOPIC, request.topics, lambda topic: topic.name
    )
    topics = []
    offsets: list[OffsetToCommit] = []
    answers: list[TxnOffsetCommitResponsePartition] = []
    image = services.images.image
    for topic in allowed:
        partitions = []
        for partition_request in topic.partitions:
            index = partition_request.partition_index
            answer = TxnOffsetCommitResponsePartition(partition_index=index)
            partitions.append(answer)
            if image.partition(topic.name, index) is None:
                answer.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                continue
            answers.append(answer)
            offsets.append(
                OffsetToCommit(
                    TopicPartition(topic.name, index),
                    partition_request.committed_offset,
                    partition_request.committed_leader_epoch,
                    partition_request.committed_metadata,
                )
            )
        topics.append(TxnOffsetCommitResponseTopic(name=topic.name, partitions=partitions))
    if offsets:
        errors = await _commit(services, context.version, request, tuple(offsets))
        for answer, error in zip(answers, errors, strict=True):
            answer.error_code = _error_for(error, context.version)
    topics += denied_topics(denied, TxnOffsetCommitResponseTopic, TxnOffsetCommitResponsePartition)
    return TxnOffsetCommitResponse(topics=topics)


def _authorization_error(
    context: RequestContext, request: TxnOffsetCommitRequest
) -> ErrorCode | None:
    """Returns why the client may commit nothing, if so."""
    transactional_id = request.transactional_id
    if not context.authorize(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id):
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if not context.authorize(Operation.READ, ResourceType.GROUP, request.group_id):
        return ErrorCode.GROUP_AUTHORIZATION_FAILED
    return None


async def _commit(
    services: Services,
    version: int,
    request: TxnOffsetCommitRequest,
    offsets: tuple[OffsetToCommit, ...],
) -> Sequence[ErrorCode]:
    producer = ProducerIdentity(request.producer_id, request.producer_epoch)
    adds = version >= _FIRST_VERSION_THAT_ADDS
    try:
        index = partition_of(request.group_id, services.images.image, GROUPS)
        await services.verifier.join_offsets(
            request.transactional_id, producer, TopicPartition(GROUPS, index), adds=adds
        )
    except ApiError as error:
        busy = error.code is ErrorCode.CONCURRENT_TRANSACTIONS and not adds
        code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if busy else error.code
        return [code] * len(offsets)
    command = CommitOffsets(
        request.group_id,
        request.member_id,
        request.group_instance_id,
        request.generation_id,
        offsets,
        producer=producer,
    )
    return await commit(services, command)


def _error_for(error: ErrorCode, version: int) -> ErrorCode:
    """Returns the error as the client understands it. Producers before Kafka 2.3 take
    COORDINATOR_LOAD_IN_PROGRESS for fatal."""
    loading = error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    if loading and version < _FIRST_VERSION_THAT_KNOWS_LOADING:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return error


HANDLER: Final = Handler(
    API,
    handle,
    permission=CheckedByHandler(
        "WRITE on the transactional id, READ on the group and on each topic"
    ),
    # Up to this number the offsets that a group commits together are written in one batch.
    splitting=[PARTITIONS._replace(max_elements=1_000)],
)
