"""CreateAcls (v1-v3): adds ACLs. An ACL that exists already is left as it is.

Each ACL has its own result. The resource that an ACL names need not exist.
"""

from collections import defaultdict
from typing import Final

from odradek.broker.handlers import Handler
from odradek.broker.permissions import required_on_cluster
from odradek.broker.request_splitting import Splitting
from odradek.broker.services import RequestContext, Services
from odradek.protocol.acls import (
    CLUSTER_NAME,
    AccessEntry,
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.create_acls import (
    API,
    AclCreation,
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)
from odradek.security.principals import Principal
from odradek.security.roles import Area


async def handle(
    services: Services, context: RequestContext, request: CreateAclsRequest
) -> CreateAclsResponse:
    results = [AclCreationResult(error_message=None) for _ in request.creations]
    # The ACLs of one resource are written together.
    by_resource: dict[ResourcePattern, list[tuple[AccessEntry, AclCreationResult]]] = defaultdict(
        list
    )
    for creation, result in zip(request.creations, results, strict=True):
        try:
            services.require_authorizer()
            acl = _acl(creation)
        except ApiError as error:
            result.error_code, result.error_message = error.code, error.message
        else:
            by_resource[acl.resource].append((acl.entry, result))
    for resource, entries in by_resource.items():
        try:
            await services.acls.add(resource, [entry for entry, _ in entries])
        except ApiError as error:
            for _, result in entries:
                result.error_code, result.error_message = error.code, error.message
    return CreateAclsResponse(results=results)


def _acl(creation: AclCreation) -> Acl:
    resource = ResourcePattern(
        ResourceType(creation.resource_type),
        creation.resource_name,
        PatternType(creation.resource_pattern_type),
    )
    entry = AccessEntry(
        creation.principal,
        creation.host,
        Operation(creation.operation),
        Permission(creation.permission_type),
    )
    complaint = _complaint(resource, entry)
    if complaint is not None:
        raise ApiError(ErrorCode.INVALID_REQUEST, complaint)
    return Acl(resource, entry)


def _complaint(resource: ResourcePattern, entry: AccessEntry) -> str | None:
    complaint = None
    if resource.type <= ResourceType.ANY:
        complaint = f"Invalid resource type {resource.type.name}."
    elif resource.pattern not in (PatternType.LITERAL, PatternType.PREFIXED):
        complaint = f"Invalid pattern type {resource.pattern.name}: rules are LITERAL or PREFIXED."
    elif entry.operation <= Operation.ANY:
        complaint = f"Invalid operation {entry.operation.name}."
    elif entry.permission <= Permission.ANY:
        complaint = f"Invalid permission {entry.permission.name}: rules are ALLOW or DENY."
    elif resource.type is ResourceType.CLUSTER and resource.name != CLUSTER_NAME:
        complaint = f"The only name of the cluster is {CLUSTER_NAME}."
    elif not resource.name:
        complaint = "The name of the resource is missing."
    else:
        try:
            Principal.parse(entry.principal)
        except ValueError as error:
            complaint = f"{error}."
    return complaint


def _error_response(request: CreateAclsRequest, error: ErrorCode) -> CreateAclsResponse:
    return CreateAclsResponse(
        results=[
            AclCreationResult(error_code=error, error_message=error.message)
            for _ in request.creations
        ]
    )


HANDLER: Final = Handler(
    API,
    handle,
    permission=required_on_cluster(Operation.ALTER, _error_response, Area.ACCESS),
    splitting=[Splitting("creations", "results")],
)
