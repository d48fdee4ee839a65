"""AlterRoles (v0): grants and revokes roles. Odradek's own API.

Each alteration has its own result. A role that the principal has already is left as it is; to
revoke a role that it does not have is answered RESOURCE_NOT_FOUND. The principal and the resource
need not exist. Alterations of one principal are written together.
"""

from collections import defaultdict
from typing import Final

from odradek.broker.handlers import Handler
from odradek.broker.permissions import required_on_cluster
from odradek.broker.request_splitting import Splitting
from odradek.broker.services import RequestContext, Services
from odradek.protocol.acls import Operation, PatternType, ResourcePattern, ResourceType
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.alter_roles import (
    API,
    AlterRolesRequest,
    AlterRolesResponse,
    RoleAlteration,
    RoleAlterationResult,
)
from odradek.protocol.roles import Role, RoleBinding
from odradek.security.principals import Principal
from odradek.security.roles import Area, complaint_about

_Asked = tuple[RoleAlteration, RoleBinding, RoleAlterationResult]


async def handle(
    services: Services, context: RequestContext, request: AlterRolesRequest
) -> AlterRolesResponse:
    results = [RoleAlterationResult() for _ in request.alterations]
    by_principal: dict[str, list[_Asked]] = defaultdict(list)
    for alteration, result in zip(request.alterations, results, strict=True):
        try:
            services.require_authorizer()
            binding = _binding(alteration)
        except ApiError as error:
            result.error_code, result.error_message = error.code, error.message
        else:
            by_principal[binding.principal].append((alteration, binding, result))
    for principal, asked in by_principal.items():
        try:
            await _alter(services, principal, asked)
        except ApiError as error:
            for _, _, result in asked:
                result.error_code, result.error_message = error.code, error.message
    return AlterRolesResponse(results=results)


async def _alter(services: Services, principal: str, asked: list[_Asked]) -> None:
    granted = [binding for alteration, binding, _ in asked if alteration.is_granted]
    revoked = [binding for alteration, binding, _ in asked if not alteration.is_granted]
    if set(granted) & set(revoked):
        raise ApiError(
            ErrorCode.INVALID_REQUEST, "A role is granted and revoked in the same request."
        )
    had = await services.roles.change(principal, granted, revoked)
    for alteration, binding, result in asked:
        if not alteration.is_granted and binding not in had:
            result.error_code = ErrorCode.RESOURCE_NOT_FOUND
            result.error_message = (
                f"{principal} does not have the role {binding.role.display_name} there."
            )


def _binding(alteration: RoleAlteration) -> RoleBinding:
    resource = ResourcePattern(
        ResourceType(alteration.resource_type),
        alteration.resource_name,
        PatternType(alteration.pattern_type),
    )
    binding = RoleBinding(alteration.principal, Role(alteration.role), resource)
    try:
        principal = Principal.parse(binding.principal)
    except ValueError as error:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"{error}.") from None
    # To revoke is always possible: a role may have been bound by another version.
    complaint = complaint_about(binding) if alteration.is_granted else None
    if complaint is not None:
        raise ApiError(ErrorCode.INVALID_REQUEST, complaint)
    return binding._replace(principal=str(principal))


def _error_response(request: AlterRolesRequest, error: ErrorCode) -> AlterRolesResponse:
    return AlterRolesResponse(
        results=[
            RoleAlterationResult(error_code=error, error_message=error.message)
            for _ in request.alterations
        ]
    )


HANDLER: Final = Handler(
    API,
    handle,
    permission=required_on_cluster(Operation.ALTER, _error_response, Area.ACCESS),
    splitting=[Splitting("alterations", "results")],
)
