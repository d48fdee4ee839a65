"""AlterRoles: grants and revokes roles. This API is Odradek's own; Kafka has no roles."""

from typing import Final

from odradek.protocol.apis import Api
from odradek.protocol.schema import (
    Request,
    Response,
    Struct,
    array,
    boolean,
    int8,
    int16,
    int32,
    string,
)


class RoleAlteration(Struct):
    # False: the role is revoked.
    is_granted: bool = boolean()
    principal: str = string()
    role: int = int8()
    resource_type: int = int8()
    resource_name: str = string()
    pattern_type: int = int8(default=3)


class AlterRolesRequest(Request):
    alterations: list[RoleAlteration] = array(RoleAlteration)


class RoleAlterationResult(Struct):
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)


class AlterRolesResponse(Response):
    throttle_time_ms: int = int32()
    # In the order of the alterations.
    results: list[RoleAlterationResult] = array(RoleAlterationResult)


API: Final = Api(25_021, AlterRolesRequest, AlterRolesResponse, flexible_from=0)
