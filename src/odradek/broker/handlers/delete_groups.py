"""DeleteGroups 0-2: forget groups without members, and their offsets."""

from typing import Final

from odradek.broker.handlers import Handler
from odradek.broker.request_splitting import Splitting
from odradek.broker.services import RequestContext, Services
from odradek.groups.commands import DeleteGroup
from odradek.protocol.api_error import ApiError
from odradek.protocol.messages.delete_groups import (
    API,
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)


async def handle(
    services: Services, context: RequestContext, request: DeleteGroupsRequest
) -> DeleteGroupsResponse:
    results = []
    for group_id in dict.fromkeys(request.groups_names):
        result = DeletableGroupResult(group_id=group_id)
        results.append(result)
        try:
            await services.groups.ask(group_id, DeleteGroup(group_id))
        except ApiError as refusal:
            result.error_code = refusal.code
    return DeleteGroupsResponse(results=results)


HANDLER: Final = Handler(API, handle, splitting=[Splitting("groups_names", "results")])
