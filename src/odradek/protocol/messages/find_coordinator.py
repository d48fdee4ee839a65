"""FindCoordinator: the broker that coordinates a group (key type 0), a transactional id (1) or
share state (2). From version 4 many keys are looked up at once.
"""

from typing import Final

from odradek.protocol.apis import Api
from odradek.protocol.schema import Request, Response, Struct, array, int8, int16, int32, string


class FindCoordinatorRequest(Request):
    key: str = string("0-3")
    key_type: int = int8("1+")
    coordinator_keys: list[str] = array(string, "4+")


class Coordinator(Struct):
    key: str = string()
    node_id: int = int32()
    host: str = string()
    port: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")


class FindCoordinatorResponse(Response):
    throttle_time_ms: int = int32("1+")
    error_code: int = int16("0-3")
    error_message: str | None = string("1-3", nullable="1-3")
    node_id: int = int32("0-3")
    host: str = string("0-3")
    port: int = int32("0-3")
    coordinators: list[Coordinator] = array(Coordinator, "4+")


# Version 5 has a new error (KIP-890), version 6 a new key type for share groups (KIP-932).
API: Final = Api(
    10, FindCoordinatorRequest, FindCoordinatorResponse, flexible_from=3, max_version=6
)
