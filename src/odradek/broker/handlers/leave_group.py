"""LeaveGroup (v0-v5): a member leaves; from version 3 an administrator removes several members."""

from typing import Final

from odradek.broker.handlers import Handler
from odradek.broker.permissions import required_on_group
from odradek.broker.request_splitting import Splitting
from odradek.broker.services import RequestContext, Services
from odradek.groups.commands import LeaveGroup, LeavingMember
from odradek.protocol.acls import Operation
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.leave_group import (
    API,
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)

_FIRST_VERSION_WITH_MEMBERS: Final = LeaveGroupRequest.first_version_with("members")


async def handle(
    services: Services, context: RequestContext, request: LeaveGroupRequest
) -> LeaveGroupResponse:
    members = request.members
    if context.version < _FIRST_VERSION_WITH_MEMBERS:
        members = [MemberIdentity(member_id=request.member_id)]
    leaving = tuple(
        LeavingMember(member.member_id, member.group_instance_id, member.reason)
        for member in members
    )
    command = LeaveGroup(request.group_id, leaving)
    try:
        errors = await services.groups.ask(request.group_id, command)
    except ApiError as error:
        return LeaveGroupResponse(error_code=error.code)
    if context.version < _FIRST_VERSION_WITH_MEMBERS:
        return LeaveGroupResponse(error_code=errors[0])
    return LeaveGroupResponse(
        members=[
            MemberResponse(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                error_code=error_code,
            )
            for member, error_code in zip(members, errors, strict=True)
        ]
    )


def _error_response(request: LeaveGroupRequest, error: ErrorCode) -> LeaveGroupResponse:
    return LeaveGroupResponse(error_code=error)


HANDLER: Final = Handler(
    API,
    handle,
    permission=required_on_group(Operation.READ, _error_response),
    # A request with more members is split into several commands. The first one starts a rebalance,
    # which waits until the members of the other commands have left too, or until it times out.
    splitting=[Splitting("members", "members", max_elements=500)],
)
