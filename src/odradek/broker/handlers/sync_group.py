"""SyncGroup (v0-v5): the leader sends the assignments, and each member waits for its own.

From version 5 a member has to say which protocol it uses, and is refused if the group uses another
one. An assignment with which the record of the group would be larger than `max.message.bytes` of
the internal topic gets UNKNOWN_SERVER_ERROR, as in Kafka.
"""

from typing import Final

from odradek.broker.group_record_size import max_group_record_bytes
from odradek.broker.handlers import Handler
from odradek.broker.permissions import required_on_group
from odradek.broker.services import RequestContext, Services
from odradek.groups.commands import SyncGroup
from odradek.protocol.acls import Operation
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.sync_group import API, SyncGroupRequest, SyncGroupResponse

_FIRST_VERSION_WITH_PROTOCOL: Final = SyncGroupRequest.first_version_with("protocol_type")


async def handle(
    services: Services, context: RequestContext, request: SyncGroupRequest
) -> SyncGroupResponse:
    if context.version >= _FIRST_VERSION_WITH_PROTOCOL and None in (
        request.protocol_type,
        request.protocol_name,
    ):
        return SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    command = SyncGroup(
        request.group_id,
        request.member_id,
        request.group_instance_id,
        request.generation_id,
        request.protocol_type,
        request.protocol_name,
        {member.member_id: member.assignment for member in request.assignments},
        # Only the leader sends assignments.
        max_group_record_bytes(services) if request.assignments else None,
    )
    try:
        reply = await services.groups.ask(request.group_id, command)
    except ApiError as error:
        return SyncGroupResponse(error_code=error.code)
    return SyncGroupResponse(
        error_code=reply.error,
        protocol_type=reply.protocol_type,
        protocol_name=reply.protocol_name,
        assignment=reply.assignment,
    )


def _error_response(request: SyncGroupRequest, error: ErrorCode) -> SyncGroupResponse:
    return SyncGroupResponse(error_code=error)


HANDLER: Final = Handler(API, handle, permission=required_on_group(Operation.READ, _error_response))
