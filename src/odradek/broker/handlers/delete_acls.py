"""DeleteAcls (v1-v3): removes the ACLs that match filters, and lists them."""

from typing import Final

from odradek.broker.handlers import Handler
from odradek.broker.handlers.describe_acls import read_filter
from odradek.broker.permissions import required_on_cluster
from odradek.broker.request_splitting import Splitting
from odradek.broker.services import RequestContext, Services
from odradek.protocol.acls import Operation
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.delete_acls import (
    API,
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from odradek.security.roles import Area


async def handle(
    services: Services, context: RequestContext, request: DeleteAclsRequest
) -> DeleteAclsResponse:
    return DeleteAclsResponse(
        filter_results=[
            await _delete(services, request_filter) for request_filter in request.filters
        ]
    )


async def _delete(services: Services, request_filter: DeleteAclsFilter) -> DeleteAclsFilterResult:
    result = DeleteAclsFilterResult(error_message=None)
    try:
        services.require_authorizer()
        acl_filter = read_filter(request_filter)
        for resource in await services.acls.find(acl_filter):
            for entry in await services.acls.remove(resource, acl_filter):
                result.matching_acls.append(
                    DeleteAclsMatchingAcl(
                        error_message=None,
                        resource_type=resource.type,
                        resource_name=resource.name,
                        pattern_type=resource.pattern,
                        principal=entry.principal,
                        host=entry.host,
                        operation=entry.operation,
                        permission_type=entry.permission,
                    )
                )
    except ApiError as error:
        result.error_code, result.error_message = error.code, error.message
    return result


def _error_response(request: DeleteAclsRequest, error: ErrorCode) -> DeleteAclsResponse:
    return DeleteAclsResponse(
        filter_results=[
            DeleteAclsFilterResult(error_code=error, error_message=error.message)
            for _ in request.filters
        ]
    )


HANDLER: Final = Handler(
    API,
    handle,
    permission=required_on_cluster(Operation.ALTER, _error_response, Area.ACCESS),
    splitting=[Splitting("filters", "filter_results")],
)
