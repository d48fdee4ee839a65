"""DeleteGroups: deletes groups without members, and their offsets."""

from typing import Final

from odradek.protocol.apis import Api
from odradek.protocol.schema import Request, Response, Struct, array, int16, int32, string


class DeleteGroupsRequest(Request):
    groups_names: list[str] = array(string)


class DeletableGroupResult(Struct):
    group_id: str = string()
    error_code: int = int16()


class DeleteGroupsResponse(Response):
    throttle_time_ms: int = int32()
    results: list[DeletableGroupResult] = array(DeletableGroupResult)


API: Final = Api(42, DeleteGroupsRequest, DeleteGroupsResponse, flexible_from=2)
