"""DescribeRoles (v0): which principals have which roles, on which resources. Odradek's own API.

The roles are read from the metadata store, so a role that was just granted through another broker
is among them. What each role permits is in `security/roles.py`.
"""

from typing import Final

from odradek.broker.handlers import Handler
from odradek.broker.permissions import required_on_cluster
from odradek.broker.services import RequestContext, Services
from odradek.protocol.acls import Operation
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.describe_roles import (
    API,
    DescribeRolesRequest,
    DescribeRolesResponse,
    RoleDescription,
)
from odradek.security.roles import Area


async def handle(
    services: Services, context: RequestContext, request: DescribeRolesRequest
) -> DescribeRolesResponse:
    try:
        services.require_authorizer()
        bindings = await services.roles.all()
    except ApiError as error:
        return DescribeRolesResponse(error_code=error.code, error_message=error.message)
    return DescribeRolesResponse(
        roles=[
            RoleDescription(
                principal=binding.principal,
                role=binding.role,
                resource_type=binding.resource.type,
                resource_name=binding.resource.name,
                pattern_type=binding.resource.pattern,
            )
            for binding in bindings
            if request.principal in (None, binding.principal)
        ]
    )


def _error_response(request: DescribeRolesRequest, error: ErrorCode) -> DescribeRolesResponse:
    return DescribeRolesResponse(error_code=error, error_message=error.message)


HANDLER: Final = Handler(
    API, handle, permission=required_on_cluster(Operation.DESCRIBE, _error_response, Area.ACCESS)
)
