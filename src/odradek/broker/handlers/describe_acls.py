"""DescribeAcls (v1-v3): the ACLs that match a filter.

The ACLs are read from the metadata store, so an ACL that was just created through another broker is
among them.
"""

from typing import Final

from odradek.broker.handlers import Handler
from odradek.broker.permissions import required_on_cluster
from odradek.broker.services import RequestContext, Services
from odradek.protocol.acls import AclFilter, Operation, PatternType, Permission, ResourceType
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.delete_acls import DeleteAclsFilter
from odradek.protocol.messages.describe_acls import (
    API,
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from odradek.security.roles import Area


async def handle(
    services: Services, context: RequestContext, request: DescribeAclsRequest
) -> DescribeAclsResponse:
    try:
        services.require_authorizer()
        entries_by_resource = await services.acls.find(read_filter(request))
    except ApiError as error:
        return DescribeAclsResponse(error_code=error.code, error_message=error.message)
    return DescribeAclsResponse(
        error_message=None,
        resources=[
            DescribeAclsResource(
                resource_type=resource.type,
                resource_name=resource.name,
                pattern_type=resource.pattern,
                acls=[
                    AclDescription(
                        principal=entry.principal,
                        host=entry.host,
                        operation=entry.operation,
                        permission_type=entry.permission,
                    )
                    for entry in entries
                ],
            )
            for resource, entries in entries_by_resource.items()
        ],
    )


def read_filter(request: DescribeAclsRequest | DeleteAclsFilter) -> AclFilter:
    """Returns the filter of a DescribeAcls or DeleteAcls request. Raises `ApiError` if it has a
    number that this broker does not know."""
    acl_filter = AclFilter(
        ResourceType(request.resource_type_filter),
        request.resource_name_filter,
        PatternType(request.pattern_type_filter),
        request.principal_filter,
        request.host_filter,
        Operation(request.operation),
        Permission(request.permission_type),
    )
    if acl_filter.has_unknown:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            "The filter has an unknown resource type, pattern type, operation or permission type.",
        )
    return acl_filter


def _error_response(request: DescribeAclsRequest, error: ErrorCode) -> DescribeAclsResponse:
    return DescribeAclsResponse(error_code=error, error_message=error.message)


HANDLER: Final = Handler(
    API, handle, permission=required_on_cluster(Operation.DESCRIBE, _error_response, Area.ACCESS)
)
