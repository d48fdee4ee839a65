"""ListGroups 0-5: the groups that this broker coordinates, by state (4) and type (5)."""

from odradek.broker.services import RequestContext, Services
from odradek.groups.machine import GroupMachine
from odradek.protocol.messages.list_groups import (
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)
from odradek.replication.refusal import Refused


def handle(
    services: Services, context: RequestContext, request: ListGroupsRequest
) -> ListGroupsResponse:
    groups = []
    try:
        for machine in services.groups.machines():
            assert isinstance(machine, GroupMachine)
            groups += machine.listings(request.states_filter, request.types_filter)
    except Refused as refusal:
        return ListGroupsResponse(error_code=refusal.code)
    return ListGroupsResponse(
        groups=[
            ListedGroup(
                group_id=listing.group_id,
                protocol_type=listing.protocol_type,
                group_state=listing.state,
                group_type=listing.type,
            )
            for listing in groups
        ]
    )
