"""DescribeGroups (v0-v6): the state, the protocol and the members of classic groups.

A group that does not exist has the state Dead. From version 6 it also has the error
GROUP_ID_NOT_FOUND, with a message.
"""

from typing import Final

from odradek.broker.group_descriptions import add_authorized_operations, denied_group
from odradek.broker.handlers import Handler
from odradek.broker.permissions import CheckedByHandler
from odradek.broker.request_splitting import Splitting
from odradek.broker.services import RequestContext, Services
from odradek.groups.commands import DescribeGroup
from odradek.protocol.acls import Operation, ResourceType
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.describe_groups import (
    API,
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

_FIRST_VERSION_WITH_MESSAGE: Final = DescribedGroup.first_version_with("error_message")


async def handle(
    services: Services, context: RequestContext, request: DescribeGroupsRequest
) -> DescribeGroupsResponse:
    allowed, denied = context.split_authorized(
        Operation.DESCRIBE, ResourceType.GROUP, request.groups, lambda group_id: group_id
    )
    groups = [await _describe(services, context, group_id) for group_id in allowed]
    if request.include_authorized_operations:
        for group in groups:
            add_authorized_operations(context, group)
    groups += [denied_group(DescribedGroup, group_id) for group_id in denied]
    return DescribeGroupsResponse(groups=groups)


async def _describe(services: Services, context: RequestContext, group_id: str) -> DescribedGroup:
    try:
        group = await services.groups.ask(group_id, DescribeGroup(group_id))
    except ApiError as error:
        if error.code is not ErrorCode.GROUP_ID_NOT_FOUND:
            return DescribedGroup(group_id=group_id, error_code=error.code)
        missing = DescribedGroup(group_id=group_id, group_state="Dead")
        if context.version >= _FIRST_VERSION_WITH_MESSAGE:
            missing.error_code, missing.error_message = error.code, error.message
        return missing
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state,
        protocol_type=group.protocol_type,
        protocol_data=group.protocol_name,
        members=[
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata,
                member_assignment=member.assignment,
            )
            for member in group.members
        ],
    )


HANDLER: Final = Handler(
    API,
    handle,
    permission=CheckedByHandler("DESCRIBE on each group"),
    splitting=[Splitting("groups", "groups")],
)
