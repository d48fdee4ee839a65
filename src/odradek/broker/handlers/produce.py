"""Produce 3-13: appends batches to the partitions this broker leads.

Appends happen at once, in the order of the request; only the wait for replication (acks=all)
or for the disk (`flush.messages`) is awaited. acks=0 gets no reply, and an error there ends
the connection, which is the only sign the client can notice.

The first batch of a transaction in a partition waits for the coordinator: from version 12 on
it adds the partition, before it only asks whether the client did. Likewise a batch that takes
long to look into (keys of a compacted topic, another codec) or to write (above 2 MiB), the rest of
a request after so many bytes, and a request for very many partitions let other connections have
their turns. Until all is appended the connection serves nothing else, so nothing overtakes a batch.
"""

import asyncio
from collections.abc import Awaitable
from typing import Final, NamedTuple

from odradek.broker.handlers import Handler
from odradek.broker.network.endpoints import reachable
from odradek.broker.permissions import CheckedByHandler
from odradek.broker.services import Pipelined, RequestContext, Services
from odradek.metadata.node_values import NO_LEADER
from odradek.protocol.acls import Operation, ResourceType
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
from odradek.protocol.records import TRANSACTIONAL_FLAG, read_header
from odradek.protocol.schema import Response
from odradek.replication.appended import Appended
from odradek.replication.partition import Partition
from odradek.statemachine.machine import ProducerIdentity
from odradek.storage.producer_state import UNVERIFIED, TransactionNotOpen, Verification
from odradek.storage.validation import Admitted, TakesLong
from odradek.transactions.verification import as_produce_error
from odradek.world.timeslice import Timeslice

# So many partitions are served at once: five milliseconds' work. More are served in steps.
_PARTITIONS_AT_ONCE: Final = 300
_PARTITIONS_A_STEP: Final = 50
# So much is appended at once, some milliseconds' work; what else a request brings, in steps.
_BYTES_AT_ONCE: Final = 2 << 20
_FIRST_VERSION_WITH_IDS: Final = TopicProduceData.first_version_with("topic_id")
_FIRST_VERSION_THAT_ADDS: Final = 12
_FIRST_VERSION_WITH_ABORTABLE: Final = 11
_FIRST_VERSION_WITH_LEADERS: Final = ProduceResponse.first_version_with("node_endpoints")
# Where the attributes of a batch are, in the second of their two bytes the flags.
_ATTRIBUTES_POSITION: Final = 22


class _Unopened(NamedTuple):
    """A batch that takes long to look into or to write; or one, `admitted` perhaps, that begins a
    transaction in its partition, if the coordinator agrees."""

    answer: PartitionProduceResponse
    partition: Partition
    data: PartitionProduceData
    admitted: Admitted | None = None


Reply = ProduceResponse | Pipelined | Awaitable[ProduceResponse | None] | None


def handle(services: Services, context: RequestContext, request: ProduceRequest) -> Reply:
    if services.authorizer is None:
        return _produce(services, context, request)
    denied = _take_out_denied(context, request)
    if not denied:
        return _produce(services, context, request)
    if request.acks == 0:
        raise MalformedMessage("nobody waits for the answer: no permission to produce this")
    if not request.topic_data:
        return ProduceResponse(responses=denied)
    return _with_denied(_produce(services, context, request), denied)


def _take_out_denied(
    context: RequestContext, request: ProduceRequest
) -> list[TopicProduceResponse]:
    """Takes the topics out of the request that the client may not write to; returns the answers for
    them. Without permission for the transactional id these are all topics."""
    topics, transactional_id = request.topic_data, request.transactional_id
    if _is_transactional(request) and (
        transactional_id is None
        or not context.authorize(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id)
    ):
        request.topic_data = []
        error = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        return [_denied(topic, error) for topic in topics]
    request.topic_data, denied = context.split_authorized(
        Operation.WRITE,
        ResourceType.TOPIC,
        topics,
        lambda topic: context.topic_name(topic.name, topic.topic_id),
    )
    return [_denied(topic, ErrorCode.TOPIC_AUTHORIZATION_FAILED) for topic in denied]


def _is_transactional(request: ProduceRequest) -> bool:
    """Returns whether a batch says that it belongs to a transaction."""
    for topic in request.topic_data:
        for data in topic.partition_data:
            records = data.records
            if (
                records is not None
                and len(records) > _ATTRIBUTES_POSITION
                and records[_ATTRIBUTES_POSITION] & TRANSACTIONAL_FLAG
            ):
                return True
    return False


def _denied(topic: TopicProduceData, error: ErrorCode) -> TopicProduceResponse:
    return TopicProduceResponse(
        name=topic.name,
        topic_id=topic.topic_id,
        partition_responses=[
            PartitionProduceResponse(index=data.index, error_code=error, base_offset=-1)
            for data in topic.partition_data
        ],
    )


def _with_denied(reply: Reply, denied: list[TopicProduceResponse]) -> Reply:
    if isinstance(reply, Pipelined):
        return Pipelined(_with_denied_later(reply.response, denied))
    if isinstance(reply, ProduceResponse):
        reply.responses += denied
        return reply
    assert reply is not None  # Only a request with acks=0 has no reply.
    return _with_denied_later(reply, denied)


async def _with_denied_later(
    reply: Awaitable[Response | None], denied: list[TopicProduceResponse]
) -> ProduceResponse | None:
    response = await reply
    assert isinstance(response, ProduceResponse)  # As above.
    response.responses += denied
    return response


def _produce(services: Services, context: RequestContext, request: ProduceRequest) -> Reply:
    if _count(request) > _PARTITIONS_AT_ONCE:
        return _in_pieces(services, context, request)
    acks = request.acks
    by_id = context.version >= _FIRST_VERSION_WITH_IDS
    verification = None if request.transactional_id is None else UNVERIFIED
    unopened: list[_Unopened] | None = None
    long: list[_Unopened] | None = None
    is_refused = False
    room = _BYTES_AT_ONCE
    waiting: list[tuple[PartitionProduceResponse, Appended]] = []
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
                appended = _append(partition, data, acks, verification, must_wait=room <= 0)
            except ApiError as refusal:
                _refuse(answer, refusal)
                is_refused = True
                continue
            except TransactionNotOpen:
                unopened = unopened or []
                unopened.append(_Unopened(answer, partition, data))
                continue
            except TakesLong:
                long = long or []
                long.append(_Unopened(answer, partition, data))
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
        return _when_admitted(
            services, context, request, response, waiting, unopened=unopened or [], long=long
        )
    if unopened is not None:
        return _when_joined(services, context, request, response, waiting, unopened=unopened)
    if waiting and acks:
        return Pipelined(_when_acknowledged(services, context, request, response, waiting))
    if is_refused:
        return _finish(services, context, request, response)
    return response if acks else None


def _count(request: ProduceRequest) -> int:
    topics = request.topic_data
    if len(topics) == 1:
        return len(topics[0].partition_data)
    return sum(len(topic.partition_data) for topic in topics)


async def _in_pieces(
    services: Services, context: RequestContext, request: ProduceRequest
) -> ProduceResponse | None:
    """Some partitions after the other, each answered before the next."""
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
    admitted: Admitted | None = None,
    *,
    must_wait: bool = False,
) -> Appended:
    """Appends a batch now. `must_wait` says that its request has brought much already, so that
    other connections have their turns first: a batch that is in order raises `TakesLong` then."""
    _check(data, acks)
    if must_wait:
        raise TakesLong
    assert data.records is not None
    return partition.append(data.records, acks, verification, admitted)


def _check(data: PartitionProduceData, acks: int) -> None:
    if acks not in (-1, 0, 1):
        raise ApiError(ErrorCode.INVALID_REQUIRED_ACKS)
    if not data.records:
        raise ApiError(ErrorCode.INVALID_RECORD, "A produce request needs one record batch.")


async def _append_patiently(
    services: Services,
    context: RequestContext,
    one: _Unopened,
    acks: int,
    verification: Verification | None,
) -> Appended:
    """Appends a batch that was looked at, at once if possible: a large one has to be written in
    pieces, and all others wait as long as another is being written to their partition."""

    def append() -> Appended:
        partition = _found_again(services, context, one.partition)
        return _append(partition, one.data, acks, verification, one.admitted)

    try:
        return append()
    except TakesLong:
        pass
    assert one.admitted is not None  # only what was looked at comes here
    return await one.partition.append_patiently(one.admitted, append)


def _refuse(answer: PartitionProduceResponse, refusal: ApiError) -> None:
    answer.error_code = refusal.code
    answer.error_message = refusal.message
    answer.record_errors = [
        BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=message)
        for index, message in refusal.record_errors
    ]
    answer.base_offset = answer.log_append_time_ms = answer.log_start_offset = -1


async def _when_admitted(
    services: Services,
    context: RequestContext,
    request: ProduceRequest,
    response: ProduceResponse,
    waiting: list[tuple[PartitionProduceResponse, Appended]],
    *,
    unopened: list[_Unopened],
    long: list[_Unopened],
) -> ProduceResponse | None:
    """Looks into one batch after the other, appends it, and goes on as if it had been quick."""
    verification = None if request.transactional_id is None else UNVERIFIED
    timeslice = Timeslice.of_running_loop()
    for one in long:
        admitted = None
        if timeslice.is_over():
            await timeslice.next_turn()
        try:
            _check(one.data, request.acks)
            assert one.data.records is not None
            admitted = await one.partition.admit(one.data.records)
            appended = await _append_patiently(
                services, context, one._replace(admitted=admitted), request.acks, verification
            )
        except ApiError as refusal:
            _refuse(one.answer, refusal)
        except TransactionNotOpen:
            unopened.append(one._replace(admitted=admitted))
        else:
            _accept(one.answer, appended, waiting)
    if unopened:
        return await _when_joined(services, context, request, response, waiting, unopened=unopened)
    if waiting and request.acks:
        return await _when_acknowledged(services, context, request, response, waiting)
    return _finish(services, context, request, response)


def _found_again(services: Services, context: RequestContext, partition: Partition) -> Partition:
    """The partition after a wait, if this broker still leads it. A topic of the same name that was
    made meanwhile is another topic: what was meant for the deleted one is refused."""
    where, topic_id = partition.topic_partition, partition.topic_id
    try:
        return services.replicas.leader_by_id(topic_id, where.partition)
    except ApiError as refusal:
        knows_ids = context.version >= _FIRST_VERSION_WITH_IDS
        if refusal.code is not ErrorCode.UNKNOWN_TOPIC_ID or knows_ids:
            raise
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) from refusal


def _accept(
    answer: PartitionProduceResponse,
    appended: Appended,
    waiting: list[tuple[PartitionProduceResponse, Appended]],
) -> None:
    answer.base_offset = appended.base_offset
    answer.log_append_time_ms = appended.append_time_ms
    answer.log_start_offset = appended.log_start_offset
    if not appended.is_acknowledged:
        waiting.append((answer, appended))


async def _when_joined(
    services: Services,
    context: RequestContext,
    request: ProduceRequest,
    response: ProduceResponse,
    waiting: list[tuple[PartitionProduceResponse, Appended]],
    *,
    unopened: list[_Unopened],
) -> ProduceResponse | None:
    """Appends what began transactions, each producer's batches together (there is only one)."""
    by_producer: dict[ProducerIdentity, list[_Unopened]] = {}
    for one in unopened:
        assert one.data.records is not None
        header = read_header(one.data.records)
        producer = ProducerIdentity(header.producer_id, header.producer_epoch)
        by_producer.setdefault(producer, []).append(one)
    for producer, batches in by_producer.items():
        for answer, appended in await _join(services, context, request, producer, batches):
            _accept(answer, appended, waiting)
    if waiting and request.acks:
        return await _when_acknowledged(services, context, request, response, waiting)
    return _finish(services, context, request, response)


async def _join(
    services: Services,
    context: RequestContext,
    request: ProduceRequest,
    producer: ProducerIdentity,
    batches: list[_Unopened],
) -> list[tuple[PartitionProduceResponse, Appended]]:
    """Asks the coordinator, then appends what may be appended."""
    adds = context.version >= _FIRST_VERSION_THAT_ADDS
    asks = adds or services.settings.broker.transaction_partition_verification_enable

    def last_markers() -> list[int]:
        return [
            one.partition.log.producers.last_marker_offset(producer.producer_id) for one in batches
        ]

    missing = frozenset[object]()
    if asks:
        partitions = {one.partition.topic_partition for one in batches}
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
        except ApiError as refusal:
            for one in batches:
                _refuse(one.answer, as_produce_error(refusal))
            return []
    appended = []
    for one, last_marker in zip(batches, last_markers(), strict=True):
        try:
            if one.partition.topic_partition in missing:
                raise _not_added(context.version)
            verification = Verification(last_marker)
            try:
                partition = _found_again(services, context, one.partition)
                found = _append(partition, one.data, request.acks, verification, one.admitted)
            except TakesLong:
                assert one.data.records is not None
                admitted = one.admitted or await one.partition.admit(one.data.records)
                found = await _append_patiently(
                    services, context, one._replace(admitted=admitted), request.acks, verification
                )
        except ApiError as refusal:
            _refuse(one.answer, refusal)
        else:
            appended.append((one.answer, found))
    return appended


def _not_added(version: int) -> ApiError:
    knows = version >= _FIRST_VERSION_WITH_ABORTABLE
    return ApiError(
        ErrorCode.TRANSACTION_ABORTABLE if knows else ErrorCode.INVALID_TXN_STATE,
        "The partition was not added to the transaction.",
    )


async def _when_acknowledged(
    services: Services,
    context: RequestContext,
    request: ProduceRequest,
    response: ProduceResponse,
    waiting: list[tuple[PartitionProduceResponse, Appended]],
) -> ProduceResponse | None:
    deadline = asyncio.get_running_loop().time() + max(request.timeout_ms, 0) / 1000
    for answer, appended in waiting:
        try:
            async with asyncio.timeout_at(deadline):
                await appended.acknowledged()
        except TimeoutError:
            _refuse(answer, ApiError(ErrorCode.REQUEST_TIMED_OUT))
        except ApiError as refusal:
            _refuse(answer, refusal)
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
    """Tells a client that came to the wrong broker where to go (KIP-951)."""
    image = services.images.image
    leaders: dict[int, None] = {}
    for topic, answer in refused:
        known = image.topics.get(topic.name) or image.topics_by_id.get(topic.topic_id)
        if answer.error_code != ErrorCode.NOT_LEADER_OR_FOLLOWER or known is None:
            continue
        state = known.partitions[answer.index]
        leader = image.live_leader(state)
        if leader == NO_LEADER:
            continue  # Nobody, or this broker, which lost its lease: the client has to look.
        answer.current_leader = LeaderIdAndEpoch(leader_id=leader, leader_epoch=state.leader_epoch)
        leaders[leader] = None
    response.node_endpoints = [
        NodeEndpoint(node_id=broker.id, host=listener.host, port=listener.port, rack=broker.rack)
        for broker, listener in reachable(image, context.connection.listener, leaders)
    ]


HANDLER: Final = Handler(
    API,
    handle,
    permission=CheckedByHandler(
        "WRITE on each topic; for a transaction also on the transactional id"
    ),
    has_small_responses=True,
)
