"""DescribeRoles: which principals have which roles. This API is Odradek's own: Kafka has no
roles."""

from typing import Final

from odradek.protocol.apis import Api
from odradek.protocol.schema import Request, Response, Struct, array, int8, int16, int32, string


class DescribeRolesRequest(Request):
    # The principal whose roles are asked for, as in User:ada. Null: all.
    principal: str | None = string(nullable="0+", default=None)


class RoleDescription(Struct):
    principal: str = string()
    role: int = int8()
    resource_type: int = int8()
    resource_name: str = string()
    pattern_type: int = int8(default=3)


class DescribeRolesResponse(Response):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    roles: list[RoleDescription] = array(RoleDescription)


API: Final = Api(25_020, DescribeRolesRequest, DescribeRolesResponse, flexible_from=0)
