"""FindCoordinator (v0-v6): the broker that coordinates a group or a transactional id.

A key (a group id or a transactional id) hashes to a partition of an internal topic. The leader of
that partition is the coordinator. The first request creates the internal topic. Key types: 0 group,
1 transactional id. Not done: share groups (2).
"""

from typing import Final

from odradek.broker.handlers import Handler
from odradek.broker.network.endpoints import brokers_on_listener
from odradek.broker.permissions import DENIALS, CheckedByHandler
from odradek.broker.request_splitting import Splitting
from odradek.broker.services import RequestContext, Services
from odradek.cluster.internal_topics import GROUPS, TRANSACTIONS
from odradek.metadata.node_values import NO_LEADER
from odradek.protocol.acls import Operation, ResourceType
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.find_coordinator import (
    API,
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from odradek.replication.coordinator_partitions import partition_of

_FIRST_VERSION_WITH_MANY_KEYS: Final = FindCoordinatorRequest.first_version_with("coordinator_keys")
_TOPICS: Final = {0: GROUPS, 1: TRANSACTIONS}
_RESOURCE_TYPES: Final = {0: ResourceType.GROUP, 1: ResourceType.TRANSACTIONAL_ID}


async def handle(
    services: Services, context: RequestContext, request: FindCoordinatorRequest
) -> FindCoordinatorResponse:
    key_type = request.key_type
    has_many_keys = context.version >= _FIRST_VERSION_WITH_MANY_KEYS
    keys = request.coordinator_keys if has_many_keys else [request.key]
    denied: list[str] = []
    if key_type in _RESOURCE_TYPES:
        keys, denied = context.split_authorized(
            Operation.DESCRIBE, _RESOURCE_TYPES[key_type], keys, lambda key: key
        )
    coordinators = [await _find(services, context, key_type, key) for key in keys]
    coordinators += [_denied_result(key_type, key) for key in denied]
    if has_many_keys:
        return FindCoordinatorResponse(coordinators=coordinators)
    (coordinator,) = coordinators
    return FindCoordinatorResponse(
        error_code=coordinator.error_code,
        error_message=coordinator.error_message,
        node_id=coordinator.node_id,
        host=coordinator.host,
        port=coordinator.port,
    )


def _denied_result(key_type: int, key: str) -> Coordinator:
    error = DENIALS[_RESOURCE_TYPES[key_type]]
    return _error_result(key, error, error.message)


async def _find(
    services: Services, context: RequestContext, key_type: int, key: str
) -> Coordinator:
    topic = _TOPICS.get(key_type)
    if topic is None:
        message = f"Key type {key_type} has no coordinator."
        return _error_result(key, ErrorCode.INVALID_REQUEST, message)
    try:
        leader = await _partition_leader(services, topic, key)
    except ApiError as error:
        return _error_result(key, error.code, error.message)
    image = services.images.image
    for broker, listener in brokers_on_listener(image, context.connection.listener, (leader,)):
        return Coordinator(
            key=key, node_id=broker.id, host=listener.host, port=listener.port, error_message=None
        )
    error_code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    return _error_result(key, error_code, error_code.message)


async def _partition_leader(services: Services, topic: str, key: str) -> int:
    """Returns the leader of the partition of a key, or -1 if it has none now."""
    await services.internal_topics.ensure_exists(topic)
    await services.departed_brokers.wait_for_leader_election(services.images, (topic,))
    image = services.images.image
    partition = image.partition(topic, partition_of(key, image, topic))
    return NO_LEADER if partition is None else partition.leader


def _error_result(key: str, error: ErrorCode, message: str | None) -> Coordinator:
    return Coordinator(key=key, node_id=-1, port=-1, error_code=error, error_message=message)


HANDLER: Final = Handler(
    API,
    handle,
    permission=CheckedByHandler("DESCRIBE on each group or transactional id"),
    splitting=[Splitting("coordinator_keys", "coordinators")],
)
