"""Which broker keeps a group or a transactional id: one question, whatever its version.

Place: below `coordinator` (one key of a member or a producer) and `admin_coordinators` (many keys
of an administrator), which decide about errors and about asking again.
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
    """What a coordinator is looked up for."""

    GROUP = 0
    TRANSACTION = 1


async def look_up(
    connection: Connection, kind: KeyType, keys: Sequence[str]
) -> Sequence[Coordinator]:
    """The coordinators by key, each found or with the error that says why not."""
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
