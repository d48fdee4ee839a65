"""What a client may produce: permission to write to topics and to use a transactional id.

The handler of Produce asks before it appends, if there is an authorizer. Nothing is appended to a
topic to which the client may not write.
"""

from collections.abc import Awaitable
from typing import Final

from odradek.broker.services import Pipelined, RequestContext
from odradek.protocol.acls import Operation, ResourceType
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from odradek.protocol.records import TRANSACTIONAL_FLAG
from odradek.protocol.schema import Response

# Where a batch has its attributes: the second of their two bytes has the flags.
_ATTRIBUTES_POSITION: Final = 22

Reply = ProduceResponse | Pipelined | Awaitable[ProduceResponse | None] | None


def take_out_denied(context: RequestContext, request: ProduceRequest) -> list[TopicProduceResponse]:
    """Removes the topics that the client may not write to from the request. Returns the answers for
    them. Without permission for the transactional id these are all topics."""
    topics, transactional_id = request.topic_data, request.transactional_id
    if _is_transactional(request) and (
        transactional_id is None
        or not context.authorize(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id)
    ):
        request.topic_data = []
        error = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        return [_denied_result(topic, error) for topic in topics]
    request.topic_data, denied = context.split_authorized(
        Operation.WRITE,
        ResourceType.TOPIC,
        topics,
        lambda topic: context.topic_name(topic.name, topic.topic_id),
    )
    return [_denied_result(topic, ErrorCode.TOPIC_AUTHORIZATION_FAILED) for topic in denied]


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


def _denied_result(topic: TopicProduceData, error: ErrorCode) -> TopicProduceResponse:
    return TopicProduceResponse(
        name=topic.name,
        topic_id=topic.topic_id,
        partition_responses=[
            PartitionProduceResponse(index=data.index, error_code=error, base_offset=-1)
            for data in topic.partition_data
        ],
    )


def with_denied(reply: Reply, denied: list[TopicProduceResponse]) -> Reply:
    """Adds the answers for denied topics to the reply, now or when the reply is complete."""
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
