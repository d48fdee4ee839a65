"""Looks up which brokers coordinate groups or transactional ids, in any version of the request.

`coordinator` uses it for the one key of a member or a producer, `admin.coordinators` for the many
keys of an administrator. Both handle errors and retries themselves.
"""

from collections.abc import Sequence
from enum import IntEnum
from typing import Final

from odradek.client.connection import Connection
from odradek.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

_FIRST_VERSION_WITH_MANY_KEYS: Final = FindCoordinatorRequest.first_version_with("coordinator_keys")


class KeyType(IntEnum):
    """Whether a coordinator of groups or of transactions is looked up."""

    GROUP = 0
    TRANSACTION = 1


async def look_up(
    connection: Connection, kind: KeyType, keys: Sequence[str]
) -> Sequence[Coordinator]:
    """Returns the coordinator of each key, or the error that the broker gave for it."""
    if not connection.supports(FindCoordinatorRequest, _FIRST_VERSION_WITH_MANY_KEYS):
        return [await _look_up_one(connection, kind, key) for key in keys]
    response = await connection.request(
        FindCoordinatorRequest(key_type=kind, coordinator_keys=list(keys)),
        FindCoordinatorResponse,
    )
    return response.coordinators


async def _look_up_one(connection: Connection, kind: KeyType, key: str) -> Coordinator:
    response = await connection.request(
        FindCoordinatorRequest(key=key, key_type=kind), FindCoordinatorResponse
    )
    return Coordinator(
        key=key,
        node_id=response.node_id,
        host=response.host,
        port=response.port,
        error_code=response.error_code,
        error_message=response.error_message,
    )
