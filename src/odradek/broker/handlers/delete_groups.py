"""DeleteGroups (v0-v2): deletes groups without members, and their offsets."""

from typing import Final

from odradek.broker.handlers import Handler
from odradek.broker.permissions import CheckedByHandler
from odradek.broker.request_splitting import Splitting
from odradek.broker.services import RequestContext, Services
from odradek.groups.commands import DeleteGroup
from odradek.protocol.acls import Operation, ResourceType
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.delete_groups import (
    API,
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)


async def handle(
    services: Services, context: RequestContext, request: DeleteGroupsRequest
) -> DeleteGroupsResponse:
    allowed, denied = context.split_authorized(
        Operation.DELETE, ResourceType.GROUP, request.groups_names, lambda group_id: group_id
    )
    results = []
    for group_id in allowed:
        result = DeletableGroupResult(group_id=group_id)
        results.append(result)
        try:
            await services.groups.ask(group_id, DeleteGroup(group_id))
        except ApiError as error:
            result.error_code = error.code
    results += [
        DeletableGroupResult(group_id=group_id, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
        for group_id in denied
    ]
    return DeleteGroupsResponse(results=results)


HANDLER: Final = Handler(
    API,
    handle,
    permission=CheckedByHandler("DELETE on each group"),
    splitting=[Splitting("groups_names", "results", identity=lambda group_id: group_id)],
)
