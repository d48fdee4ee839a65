"""Asks the brokers what a caller of a service may do."""

from collections.abc import Iterable
from typing import Final

from odradek.protocol.acls import Operation
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from odradek.services.client_pool import CallerClients

_NOT_SAID: Final = -(2**31)


async def allowed_operations(
    clients: CallerClients, topics: Iterable[str]
) -> dict[str, frozenset[Operation] | ErrorCode]:
    """Returns what the caller may do with each of the topics, or why nothing can be said of one: it
    does not exist, or the caller may not even know that."""
    response = await clients.admin.request(
        MetadataRequest(
            topics=[MetadataRequestTopic(name=name) for name in topics],
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=True,
        ),
        MetadataResponse,
    )
    found: dict[str, frozenset[Operation] | ErrorCode] = {}
    for described in response.topics:
        bits = described.topic_authorized_operations
        if described.error_code:
            found[str(described.name)] = ErrorCode(described.error_code)
        elif bits == _NOT_SAID:
            found[str(described.name)] = frozenset()
        else:
            found[str(described.name)] = frozenset(one for one in Operation if bits >> one & 1)
    return found


async def may_write(clients: CallerClients, topics: Iterable[str]) -> bool:
    """Returns whether the caller may write to one of the topics."""
    allowed = await allowed_operations(clients, topics)
    return any(
        not isinstance(operations, ErrorCode) and Operation.WRITE in operations
        for operations in allowed.values()
    )
