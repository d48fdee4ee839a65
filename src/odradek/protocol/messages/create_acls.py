"""CreateAcls: adds ACLs."""

from typing import Final

from odradek.protocol.apis import Api
from odradek.protocol.schema import Request, Response, Struct, array, int8, int16, int32, string


class AclCreation(Struct):
    resource_type: int = int8()
    resource_name: str = string()
    resource_pattern_type: int = int8(default=3)
    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()


class CreateAclsRequest(Request):
    creations: list[AclCreation] = array(AclCreation)


class AclCreationResult(Struct):
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")


class CreateAclsResponse(Response):
    throttle_time_ms: int = int32()
    results: list[AclCreationResult] = array(AclCreationResult)


# Version 3 has a new resource type, users (KIP-373).
API: Final = Api(
    30, CreateAclsRequest, CreateAclsResponse, flexible_from=2, min_version=1, max_version=3
)
