"""Heartbeat: a member of a classic group says that it is alive, and learns of rebalances."""

from typing import Final

from odradek.protocol.apis import Api
from odradek.protocol.schema import Request, Response, int16, int32, string


class HeartbeatRequest(Request):
    group_id: str = string()
    generation_id: int = int32()
    member_id: str = string()
    group_instance_id: str | None = string("3+", nullable="3+", default=None)


class HeartbeatResponse(Response):
    throttle_time_ms: int = int32("1+")
    error_code: int = int16()


API: Final = Api(12, HeartbeatRequest, HeartbeatResponse, flexible_from=4)
