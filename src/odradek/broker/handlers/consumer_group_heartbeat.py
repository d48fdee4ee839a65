"""ConsumerGroupHeartbeat (v0-v1): a member of a consumer group joins, stays, reconciles and leaves.

The response does not wait for other members: there is no barrier in this protocol. Members that
join at the same time are added together (`broker.consumer_joins`). From version 1 a client makes
its member id itself and may subscribe by a regular expression (RE2, whole names; no word
boundaries). The expression matches only topics that the member may describe.

A member whose record would be larger than `max.message.bytes` of the internal topic gets
UNKNOWN_SERVER_ERROR, as in Kafka. The size is checked before members are added together, so that
one large member does not make the others fail.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

from odradek.broker.group_record_size import check_group_record, size_of_texts
from odradek.broker.handlers import Handler
from odradek.broker.permissions import CheckedByHandler
from odradek.broker.services import RequestContext, Services
from odradek.groups.consumer.commands import ConsumerHeartbeat
from odradek.groups.consumer.member import JOINING_EPOCH, TopicIdPartition
from odradek.protocol.acls import Operation, ResourceType
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.consumer_group_heartbeat import (
    API,
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

_FIRST_VERSION_WITH_OWN_IDS: Final = 1
# An upper bound for the other fields of a member's record: its address, its timeout and lengths.
_MAX_OTHER_FIELDS_BYTES: Final = 500


async def handle(
    services: Services, context: RequestContext, request: ConsumerGroupHeartbeatRequest
) -> ConsumerGroupHeartbeatResponse:
    denied = _authorization_error(context, request)
    if denied is not None:
        return ConsumerGroupHeartbeatResponse(error_code=denied)
    if "consumer" not in services.settings.broker.group_coordinator_rebalance_protocols:
        return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    try:
        _check_size(services, context, request)
        command = _command(services, context, request)
        if command.member_epoch == JOINING_EPOCH:
            reply = await services.consumer_joins.join(command)
        else:
            reply = await services.groups.ask(request.group_id, command)
    except ApiError as error:
        return ConsumerGroupHeartbeatResponse(error_code=error.code, error_message=error.message)
    assignment = None
    if reply.assignment is not None:
        assignment = Assignment(
            topic_partitions=[
                TopicPartitions(topic_id=topic_id, partitions=list(partitions))
                for topic_id, partitions in reply.assignment.items()
            ]
        )
    return ConsumerGroupHeartbeatResponse(
        member_id=reply.member_id,
        member_epoch=reply.member_epoch,
        heartbeat_interval_ms=reply.heartbeat_interval_ms,
        assignment=assignment,
    )


def _authorization_error(
    context: RequestContext, request: ConsumerGroupHeartbeatRequest
) -> ErrorCode | None:
    if not context.authorize(Operation.READ, ResourceType.GROUP, request.group_id):
        return ErrorCode.GROUP_AUTHORIZATION_FAILED
    topics = request.subscribed_topic_names or ()
    if all(context.authorize(Operation.DESCRIBE, ResourceType.TOPIC, topic) for topic in topics):
        return None
    return ErrorCode.TOPIC_AUTHORIZATION_FAILED


def _check_size(
    services: Services, context: RequestContext, request: ConsumerGroupHeartbeatRequest
) -> None:
    texts = (
        request.group_id,
        request.member_id,
        request.instance_id,
        request.rack_id,
        request.subscribed_topic_regex,
        request.server_assignor,
        context.client_id,
    )
    size = size_of_texts(request.subscribed_topic_names or ()) + size_of_texts(texts)
    check_group_record(services, size + _MAX_OTHER_FIELDS_BYTES, ErrorCode.UNKNOWN_SERVER_ERROR)


def _may_describe(services: Services, context: RequestContext) -> Callable[[str], bool] | None:
    """Returns the function that tells whether the member may describe a topic, or None if it may
    describe all topics. A pattern matches only topics that the member may describe (KIP-848)."""
    if services.authorizer is None:
        return None
    return partial(context.authorize_without_logging, Operation.DESCRIBE, ResourceType.TOPIC)


def _command(
    services: Services, context: RequestContext, request: ConsumerGroupHeartbeatRequest
) -> ConsumerHeartbeat:
    topics, owned = request.subscribed_topic_names, request.topic_partitions
    return ConsumerHeartbeat(
        request.group_id,
        request.member_id,
        request.member_epoch,
        request.instance_id,
        request.rack_id,
        context.client_id or "",
        # Kafka stores the host as Java prints an InetAddress without a host name: with a slash.
        f"/{context.connection.address}",
        request.rebalance_timeout_ms,
        None if topics is None else frozenset(topics),
        request.subscribed_topic_regex,
        request.server_assignor,
        None
        if owned is None
        else frozenset(
            TopicIdPartition(topic.topic_id, partition)
            for topic in owned
            for partition in topic.partitions
        ),
        makes_own_id=context.version >= _FIRST_VERSION_WITH_OWN_IDS,
        may_describe=_may_describe(services, context),
    )


HANDLER: Final = Handler(
    API,
    handle,
    permission=CheckedByHandler("READ on the group, DESCRIBE on each topic of the subscription"),
    has_small_responses=True,
)
