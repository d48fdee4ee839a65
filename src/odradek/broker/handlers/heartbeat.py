"""Heartbeat (v0-v4): a member of a classic group says that it is alive, and learns of rebalances.

While the coordinator loads, the response has no error: an error would make the member join again.
"""

from typing import Final

from odradek.broker.handlers import Handler
from odradek.broker.permissions import required_on_group
from odradek.broker.services import RequestContext, Services
from odradek.groups.commands import Heartbeat
from odradek.protocol.acls import Operation
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.heartbeat import API, HeartbeatRequest, HeartbeatResponse


async def handle(
    services: Services, context: RequestContext, request: HeartbeatRequest
) -> HeartbeatResponse:
    command = Heartbeat(
        request.group_id, request.member_id, request.group_instance_id, request.generation_id
    )
    try:
        error_code = await services.groups.ask(request.group_id, command)
    except ApiError as error:
        error_code = error.code
    if error_code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        error_code = ErrorCode.NONE
    return HeartbeatResponse(error_code=error_code)


def _error_response(request: HeartbeatRequest, error: ErrorCode) -> HeartbeatResponse:
    return HeartbeatResponse(error_code=error)


HANDLER: Final = Handler(
    API,
    handle,
    permission=required_on_group(Operation.READ, _error_response),
    has_small_responses=True,
)
