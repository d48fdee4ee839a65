"""Produce (v3-v13): appends record batches to the partitions that this broker leads.

Batches are appended at once, in the order of the request. Only replication (acks=all) and the disk
(`flush.messages`) are awaited. A request with acks=0 gets no response; an error closes its
connection, because the client cannot notice it otherwise.

The first batch of a transaction in a partition waits for the transaction coordinator: from version
12 on the leader adds the partition to the transaction, in older versions it only verifies that the
client has added it. Other connections are served while a batch is appended that takes long to check
(keys of a compacted topic, another codec, schemas) or to write (above 2 MiB), and between the
partitions of a request that has many bytes, takes long or has very many partitions. The first
record of a partition takes long: it creates a file. Until all batches of a request are appended,
its connection serves no other request, so no batch overtakes another.
"""

import asyncio
from collections.abc import Awaitable
from typing import Final, NamedTuple

from odradek.broker.current_leaders import CurrentLeaders
from odradek.broker.handlers import Handler
from odradek.broker.permissions import CheckedByHandler
from odradek.broker.produce_permissions import Reply, take_out_denied, with_denied
from odradek.broker.services import Pipelined, RequestContext, Services
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode, MalformedMessage
from odradek.protocol.messages.produce import (
    API,
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from odradek.protocol.records import read_header
from odradek.protocol.types import Offset
from odradek.replication.partition import Partition
from odradek.replication.pending_append import PendingAppend
from odradek.statemachine.machine import ProducerIdentity
from odradek.storage.producer_state import UNVERIFIED, TransactionNotOpen, Verification
from odradek.storage.validation import CannotAppendAtOnce, ValidatedBatch
from odradek.transactions.verification import as_produce_error
from odradek.world.timeslice import Timeslice, read_stopwatch

# A request for up to this number of partitions is served in one step, of about five milliseconds.
_PARTITIONS_AT_ONCE: Final = 300
_PARTITIONS_A_STEP: Final = 50
# A request for more than these partitions is appended at once for so long; then others are served
# in between, which costs half as much again.
_MAX_UNMEASURED: Final = 4
_MAX_AT_ONCE_S: Final = 0.01
# The maximum number of bytes of a request that are appended in one step of some milliseconds.
_BYTES_AT_ONCE: Final = 2 << 20
_FIRST_VERSION_WITH_IDS: Final = TopicProduceData.first_version_with("topic_id")
_FIRST_VERSION_THAT_ADDS: Final = 12
_FIRST_VERSION_WITH_ABORTABLE: Final = 11
_FIRST_VERSION_WITH_LEADERS: Final = ProduceResponse.first_version_with("node_endpoints")


class _PendingBatch(NamedTuple):
    """A batch that is not appended yet, because it takes long to check or to write, or because it
    begins a transaction in its partition and the coordinator has not agreed yet. `validated` is the
    result of the check, if the batch was checked."""

    answer: PartitionProduceResponse
    partition: Partition
    data: PartitionProduceData
    validated: ValidatedBatch | None = None


def handle(services: Services, context: RequestContext, request: ProduceRequest) -> Reply:
    if services.authorizer is None:
        return _produce(services, context, request)
    denied = take_out_denied(context, request)
    if not denied:
        return _produce(services, context, request)
    if request.acks == 0:
        raise MalformedMessage("nobody waits for the answer: no permission to produce this")
    if not request.topic_data:
        return ProduceResponse(responses=denied)
    return with_denied(_produce(services, context, request), denied)


def _produce(services: Services, context: RequestContext, request: ProduceRequest) -> Reply:
    count = _count(request)
    if count > _PARTITIONS_AT_ONCE:
        return _produce_in_pieces(services, context, request)
    end_s = read_stopwatch() + _MAX_AT_ONCE_S if count > _MAX_UNMEASURED else None
    acks = request.acks
    by_id = context.version >= _FIRST_VERSION_WITH_IDS
    verification = None if request.transactional_id is None else UNVERIFIED
    unopened: list[_PendingBatch] | None = None
    long: list[_PendingBatch] | None = None
    is_refused = False
    room = _BYTES_AT_ONCE
    waiting: list[tuple[PartitionProduceResponse, PendingAppend]] = []
    topics = []
    for topic in request.topic_data:
        answers = []
        for data in topic.partition_data:
            answer = PartitionProduceResponse(index=data.index, base_offset=-1)
            answers.append(answer)
            try:
                partition = (
                    services.replicas.leader_by_id(topic.topic_id, data.index)
                    if by_id
                    else services.replicas.leader(topic.name, data.index)
                )
                is_late = end_s is not None and read_stopwatch() >= end_s
                must_wait = room <= 0 or is_late
                appended = _append(partition, data, acks, verification, must_wait=must_wait)
            except ApiError as error:
                _set_error(answer, error)
                is_refused = True
                continue
            except TransactionNotOpen:
                unopened = unopened or []
                unopened.append(_PendingBatch(answer, partition, data))
                continue
            except CannotAppendAtOnce:
                long = long or []
                long.append(_PendingBatch(answer, partition, data))
                continue
            room -= len(data.records or b"")
            answer.base_offset = appended.base_offset
            answer.log_append_time_ms = appended.append_time_ms
            answer.log_start_offset = appended.log_start_offset
            if not appended.is_acknowledged:
                waiting.append((answer, appended))
        topics.append(
            TopicProduceResponse(
                name=topic.name, topic_id=topic.topic_id, partition_responses=answers
            )
        )
    response = ProduceResponse(responses=topics)
    if long is not None:
        return _append_slow_batches(
            services, context, request, response, waiting, unopened=unopened or [], long=long
        )
    if unopened is not None:
        return _append_first_batches(
            services, context, request, response, waiting, unopened=unopened
        )
    if waiting and acks:
        return Pipelined(_wait_for_acknowledgements(services, context, request, response, waiting))
    if is_refused:
        return _finish(services, context, request, response)
    return response if acks else None


def _count(request: ProduceRequest) -> int:
    topics = request.topic_data
    if len(topics) == 1:
        return len(topics[0].partition_data)
    return sum(len(topic.partition_data) for topic in topics)


async def _produce_in_pieces(
    services: Services, context: RequestContext, request: ProduceRequest
) -> ProduceResponse | None:
    """Serves a request for many partitions: some of them at a time, in their order."""
    whole = ProduceResponse()
    timeslice = Timeslice.of_running_loop()
    for topic in request.topic_data:
        answers: list[PartitionProduceResponse] = []
        for first in range(0, len(topic.partition_data), _PARTITIONS_A_STEP):
            if timeslice.is_over():
                await timeslice.next_turn()
            piece = ProduceRequest(
                transactional_id=request.transactional_id,
                acks=request.acks,
                timeout_ms=request.timeout_ms,
                topic_data=[
                    TopicProduceData(
                        name=topic.name,
                        topic_id=topic.topic_id,
                        partition_data=topic.partition_data[first : first + _PARTITIONS_A_STEP],
                    )
                ],
            )
            reply = _produce(services, context, piece)
            waited = reply.response if isinstance(reply, Pipelined) else reply
            response = await waited if isinstance(waited, Awaitable) else waited
            if isinstance(response, ProduceResponse):
                answers += response.responses[0].partition_responses
                whole.node_endpoints = whole.node_endpoints or response.node_endpoints
        whole.responses.append(
            TopicProduceResponse(
                name=topic.name, topic_id=topic.topic_id, partition_responses=answers
            )
        )
    return whole if request.acks else None


def _append(
    partition: Partition,
    data: PartitionProduceData,
    acks: int,
    verification: Verification | None,
    validated: ValidatedBatch | None = None,
    *,
    must_wait: bool = False,
) -> PendingAppend:
    """Appends a batch at once. Raises `CannotAppendAtOnce` if it is valid but `must_wait`: its
    request has appended so many bytes, or has taken so long, that other connections must be served
    first."""
    _check(data, acks)
    if must_wait:
        raise CannotAppendAtOnce
    assert data.records is not None
    return partition.append(data.records, acks, verification, validated)


def _check(data: PartitionProduceData, acks: int) -> None:
    if acks not in (-1, 0, 1):
        raise ApiError(ErrorCode.INVALID_REQUIRED_ACKS)
    if not data.records:
        raise ApiError(ErrorCode.INVALID_RECORD, "A produce request needs one record batch.")


async def _validate_in_steps(services: Services, pending: _PendingBatch) -> ValidatedBatch:
    """Checks a batch and yields to other connections meanwhile. The only place where schemas are
    validated: `Partition.append` takes no batch of such a topic that did not pass here."""
    partition = pending.partition
    assert pending.data.records is not None
    validated = await partition.validate_in_steps(pending.data.records)
    settings = partition.log.rules.settings
    if not settings.validates_schemas:
        return validated
    if services.schema_validation is None:
        raise ApiError(
            ErrorCode.INVALID_CONFIG,
            "the topic wants schema validation; this broker needs confluent.schema.registry.url",
        )
    return await services.schema_validation.check(partition.topic_partition, settings, validated)


async def _append_when_ready(
    services: Services,
    context: RequestContext,
    pending: _PendingBatch,
    acks: int,
    verification: Verification | None,
) -> PendingAppend:
    """Appends a batch that was checked. A large batch is written in pieces, and other batches wait
    while it is being written to their partition."""

    def append() -> PendingAppend:
        partition = _find_again(services, context, pending.partition)
        return _append(partition, pending.data, acks, verification, pending.validated)

    try:
        return append()
    except CannotAppendAtOnce:
        pass
    assert pending.validated is not None  # Every batch that comes here was checked.
    return await pending.partition.append_when_ready(pending.validated, append)


def _set_error(answer: PartitionProduceResponse, error: ApiError) -> None:
    answer.error_code = error.code
    answer.error_message = error.message
    answer.record_errors = [
        BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=message)
        for index, message in error.record_errors
    ]
    answer.base_offset = answer.log_append_time_ms = answer.log_start_offset = -1


async def _append_slow_batches(
    services: Services,
    context: RequestContext,
    request: ProduceRequest,
    response: ProduceResponse,
    waiting: list[tuple[PartitionProduceResponse, PendingAppend]],
    *,
    unopened: list[_PendingBatch],
    long: list[_PendingBatch],
) -> ProduceResponse | None:
    """Checks and appends the batches that take `long`, one after the other. Then completes the
    request."""
    verification = None if request.transactional_id is None else UNVERIFIED
    timeslice = Timeslice.of_running_loop()
    for pending in long:
        validated = None
        if timeslice.is_over():
            await timeslice.next_turn()
        try:
            _check(pending.data, request.acks)
            validated = await _validate_in_steps(services, pending)
            appended = await _append_when_ready(
                services, context, pending._replace(validated=validated), request.acks, verification
            )
        except ApiError as error:
            _set_error(pending.answer, error)
        except TransactionNotOpen:
            unopened.append(pending._replace(validated=validated))
        else:
            _accept(pending.answer, appended, waiting)
    if unopened:
        return await _append_first_batches(
            services, context, request, response, waiting, unopened=unopened
        )
    if waiting and request.acks:
        return await _wait_for_acknowledgements(services, context, request, response, waiting)
    return _finish(services, context, request, response)


def _find_again(services: Services, context: RequestContext, partition: Partition) -> Partition:
    """Returns the partition after a wait, if this broker still leads it. A topic of the same name
    that was created in the meantime is another topic: a batch for the deleted topic is refused."""
    topic_partition, topic_id = partition.topic_partition, partition.topic_id
    try:
        return services.replicas.leader_by_id(topic_id, topic_partition.partition)
    except ApiError as error:
        knows_ids = context.version >= _FIRST_VERSION_WITH_IDS
        if error.code is not ErrorCode.UNKNOWN_TOPIC_ID or knows_ids:
            raise
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) from error


def _accept(
    answer: PartitionProduceResponse,
    appended: PendingAppend,
    waiting: list[tuple[PartitionProduceResponse, PendingAppend]],
) -> None:
    answer.base_offset = appended.base_offset
    answer.log_append_time_ms = appended.append_time_ms
    answer.log_start_offset = appended.log_start_offset
    if not appended.is_acknowledged:
        waiting.append((answer, appended))


async def _append_first_batches(
    services: Services,
    context: RequestContext,
    request: ProduceRequest,
    response: ProduceResponse,
    waiting: list[tuple[PartitionProduceResponse, PendingAppend]],
    *,
    unopened: list[_PendingBatch],
) -> ProduceResponse | None:
    """Appends the batches that begin transactions in their partitions (`unopened`), those of each
    producer together. Then completes the request. A request of a Kafka client has one producer."""
    by_producer: dict[ProducerIdentity, list[_PendingBatch]] = {}
    for pending in unopened:
        assert pending.data.records is not None
        header = read_header(pending.data.records)
        producer = ProducerIdentity(header.producer_id, header.producer_epoch)
        by_producer.setdefault(producer, []).append(pending)
    for producer, batches in by_producer.items():
        for answer, appended in await _join(services, context, request, producer, batches):
            _accept(answer, appended, waiting)
    if waiting and request.acks:
        return await _wait_for_acknowledgements(services, context, request, response, waiting)
    return _finish(services, context, request, response)


async def _join(
    services: Services,
    context: RequestContext,
    request: ProduceRequest,
    producer: ProducerIdentity,
    batches: list[_PendingBatch],
) -> list[tuple[PartitionProduceResponse, PendingAppend]]:
    """Asks the coordinator, then appends the batches whose partitions are in the transaction."""
    adds = context.version >= _FIRST_VERSION_THAT_ADDS
    asks = adds or services.settings.broker.transaction_partition_verification_enable

    def last_markers() -> list[Offset]:
        return [
            pending.partition.log.producers.last_marker_offset(producer.producer_id)
            for pending in batches
        ]

    missing = frozenset[object]()
    if asks:
        partitions = {pending.partition.topic_partition for pending in batches}
        try:
            missing = frozenset(
                await services.verifier.join(
                    request.transactional_id or "",
                    producer,
                    partitions,
                    adds=adds,
                    last_markers=last_markers,
                )
            )
        except ApiError as error:
            for pending in batches:
                _set_error(pending.answer, as_produce_error(error))
            return []
    appended = []
    for pending, last_marker in zip(batches, last_markers(), strict=True):
        try:
            if pending.partition.topic_partition in missing:
                raise _not_added(context.version)
            verification = Verification(last_marker)
            try:
                partition = _find_again(services, context, pending.partition)
                found = _append(
                    partition, pending.data, request.acks, verification, pending.validated
                )
            except CannotAppendAtOnce:
                validated = pending.validated or await _validate_in_steps(services, pending)
                found = await _append_when_ready(
                    services,
                    context,
                    pending._replace(validated=validated),
                    request.acks,
                    verification,
                )
        except ApiError as error:
            _set_error(pending.answer, error)
        else:
            appended.append((pending.answer, found))
    return appended


def _not_added(version: int) -> ApiError:
    knows_abortable = version >= _FIRST_VERSION_WITH_ABORTABLE
    return ApiError(
        ErrorCode.TRANSACTION_ABORTABLE if knows_abortable else ErrorCode.INVALID_TXN_STATE,
        "The partition was not added to the transaction.",
    )


async def _wait_for_acknowledgements(
    services: Services,
    context: RequestContext,
    request: ProduceRequest,
    response: ProduceResponse,
    waiting: list[tuple[PartitionProduceResponse, PendingAppend]],
) -> ProduceResponse | None:
    deadline = asyncio.get_running_loop().time() + max(request.timeout_ms, 0) / 1000
    for answer, appended in waiting:
        try:
            async with asyncio.timeout_at(deadline):
                await appended.acknowledged()
        except TimeoutError:
            _set_error(answer, ApiError(ErrorCode.REQUEST_TIMED_OUT))
        except ApiError as error:
            _set_error(answer, error)
    return _finish(services, context, request, response)


def _finish(
    services: Services, context: RequestContext, request: ProduceRequest, response: ProduceResponse
) -> ProduceResponse | None:
    refused = [
        (topic, answer)
        for topic in response.responses
        for answer in topic.partition_responses
        if answer.error_code
    ]
    if request.acks == 0:
        if refused:
            raise MalformedMessage(f"nobody waits for the answer: {refused[0][1].error_message}")
        return None
    if refused and context.version >= _FIRST_VERSION_WITH_LEADERS:
        _add_leaders(services, context, response, refused)
    return response


def _add_leaders(
    services: Services,
    context: RequestContext,
    response: ProduceResponse,
    refused: list[tuple[TopicProduceResponse, PartitionProduceResponse]],
) -> None:
    """Adds the leaders of partitions that this broker does not lead."""
    leaders = CurrentLeaders(services.images.image)
    for topic, answer in refused:
        topic_image = leaders.topic(topic.name, topic.topic_id)
        if answer.error_code != ErrorCode.NOT_LEADER_OR_FOLLOWER or topic_image is None:
            continue
        found = leaders.of(topic_image, answer.index)
        if found is not None:
            answer.current_leader = LeaderIdAndEpoch(leader_id=found[0], leader_epoch=found[1])
    response.node_endpoints = [
        NodeEndpoint(node_id=broker.id, host=listener.host, port=listener.port, rack=broker.rack)
        for broker, listener in leaders.addresses(context.connection.listener)
    ]


HANDLER: Final = Handler(
    API,
    handle,
    permission=CheckedByHandler(
        "WRITE on each topic; for a transaction also on the transactional id"
    ),
    has_small_responses=True,
)
