"""JoinGroup (v0-v9): a consumer becomes a member of a classic group, or enters its next generation.

The response is sent when all members have joined. From version 4 the first request of a new member
gets MEMBER_ID_REQUIRED and the member id that it has to use (KIP-394). From version 5 a member may
be static (KIP-345). From version 9 a static leader that has restarted is told to skip the
assignment (KIP-814). A member is refused if its protocols do not fit into the record of the group
(`broker.group_record_size`).
"""

from typing import Final

from odradek.broker.group_record_size import check_group_record, size_of_texts
from odradek.broker.handlers import Handler
from odradek.broker.permissions import required_on_group
from odradek.broker.services import RequestContext, Services
from odradek.groups.commands import JoinGroup, Protocol
from odradek.protocol.acls import Operation
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.join_group import (
    API,
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
)

_FIRST_VERSION_WITH_REBALANCE_TIMEOUT: Final = JoinGroupRequest.first_version_with(
    "rebalance_timeout_ms"
)
_FIRST_VERSION_THAT_REQUIRES_MEMBER_ID: Final = 4
_FIRST_VERSION_WITH_NULL_PROTOCOL: Final = JoinGroupResponse.first_version_with_null(
    "protocol_name"
)
_FIRST_VERSION_THAT_CAN_SKIP_ASSIGNMENT: Final = JoinGroupResponse.first_version_with(
    "skip_assignment"
)
# The memory that a protocol takes besides its name and its metadata.
_PROTOCOL_BYTES: Final = 100


async def handle(
    services: Services, context: RequestContext, request: JoinGroupRequest
) -> JoinGroupResponse:
    no_protocol = None if context.version >= _FIRST_VERSION_WITH_NULL_PROTOCOL else ""
    try:
        _check_size(services, request)
        reply = await services.groups.ask(request.group_id, _command(context, request))
    except ApiError as error:
        return JoinGroupResponse(
            error_code=error.code, member_id=request.member_id, protocol_name=no_protocol
        )
    return JoinGroupResponse(
        error_code=reply.error,
        generation_id=reply.generation_id,
        protocol_type=reply.protocol_type,
        protocol_name=no_protocol if reply.protocol_name is None else reply.protocol_name,
        leader=reply.leader,
        skip_assignment=reply.skip_assignment,
        member_id=reply.member_id,
        members=[
            JoinGroupResponseMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                metadata=member.metadata,
            )
            for member in reply.members
        ],
    )


def _check_size(services: Services, request: JoinGroupRequest) -> None:
    """Raises `ApiError` if the protocols of the member take too much memory. The record of the
    group has the metadata of the chosen protocol alone, but all protocols of a member are held in
    memory until its session ends."""
    protocols = request.protocols
    size = (
        sum(len(protocol.metadata) for protocol in protocols)
        + size_of_texts(protocol.name for protocol in protocols)
        + size_of_texts((request.member_id, request.group_instance_id, request.protocol_type))
        + len(protocols) * _PROTOCOL_BYTES
    )
    check_group_record(services, size, ErrorCode.MESSAGE_TOO_LARGE)


def _command(context: RequestContext, request: JoinGroupRequest) -> JoinGroup:
    version = context.version
    return JoinGroup(
        request.group_id,
        request.member_id,
        request.group_instance_id,
        context.client_id or "",
        f"/{context.connection.address}",
        request.session_timeout_ms,
        request.rebalance_timeout_ms
        if version >= _FIRST_VERSION_WITH_REBALANCE_TIMEOUT
        else request.session_timeout_ms,
        request.protocol_type,
        tuple(Protocol(protocol.name, protocol.metadata) for protocol in request.protocols),
        requires_member_id=version >= _FIRST_VERSION_THAT_REQUIRES_MEMBER_ID,
        can_skip_assignment=version >= _FIRST_VERSION_THAT_CAN_SKIP_ASSIGNMENT,
        reason=request.reason,
    )


def _error_response(request: JoinGroupRequest, error: ErrorCode) -> JoinGroupResponse:
    return JoinGroupResponse(error_code=error)


HANDLER: Final = Handler(API, handle, permission=required_on_group(Operation.READ, _error_response))
