"""ListGroups (v0-v5): the groups that this broker coordinates. Requests filter them by state
(from v4) and by type (from v5).

While some groups are still being loaded, the response is an error rather than an incomplete list.
"""

from typing import Final

from odradek.broker.handlers import Handler
from odradek.broker.permissions import CheckedByHandler
from odradek.broker.services import RequestContext, Services
from odradek.protocol.acls import Operation, ResourceType
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.list_groups import (
    API,
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)


def handle(
    services: Services, context: RequestContext, request: ListGroupsRequest
) -> ListGroupsResponse:
    if services.groups.is_loading():
        return ListGroupsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    groups = []
    try:
        machines = services.groups.machines()
    except ApiError as error:
        return ListGroupsResponse(error_code=error.code)
    for machine in machines:
        groups += machine.listings(request.states_filter, request.types_filter)
    sees_all = context.authorize_cluster_without_logging(Operation.DESCRIBE)
    return ListGroupsResponse(
        groups=[
            ListedGroup(
                group_id=listing.group_id,
                protocol_type=listing.protocol_type,
                group_state=listing.state,
                group_type=listing.type,
            )
            for listing in groups
            if sees_all
            or context.authorize_without_logging(
                Operation.DESCRIBE, ResourceType.GROUP, listing.group_id
            )
        ]
    )


HANDLER: Final = Handler(
    API,
    handle,
    permission=CheckedByHandler("DESCRIBE on the cluster to see all groups, on a group to see it"),
)
