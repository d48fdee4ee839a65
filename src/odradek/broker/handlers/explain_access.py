"""ExplainAccess (v0): whether a principal may do an operation on a resource, which rule or role
decides, and what would have to be added to allow it. Odradek's own API.

The broker that is asked answers from the rules that it follows itself, with its own settings: so
the answer is what a request to this broker would meet. Which groups a principal is in is known only
while it is connected, so the request names them.
"""

from typing import Final

from odradek.broker.handlers import Handler
from odradek.broker.permissions import required_on_cluster
from odradek.broker.services import RequestContext, Services
from odradek.protocol.acls import (
    CLUSTER_NAME,
    WILDCARD,
    AccessEntry,
    Acl,
    Operation,
    Permission,
    ResourceType,
)
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.explain_access import (
    API,
    ExplainAccessRequest,
    ExplainAccessResponse,
    ExplainedRule,
)
from odradek.protocol.roles import RoleBinding
from odradek.security.explanation import ConsideredRule, Explanation, Question
from odradek.security.principals import Principal
from odradek.security.roles import Area
from odradek.security.rule_book import Cause

_NO_AUTHORIZER: Final = Explanation(
    True,
    Cause.NO_AUTHORIZER,
    "the broker has no authorizer (authorizer.class.name), so everybody may do everything",
)


def handle(
    services: Services, context: RequestContext, request: ExplainAccessRequest
) -> ExplainAccessResponse:
    try:
        question = _question(request)
    except ApiError as error:
        return ExplainAccessResponse(error_code=error.code, error_message=error.message)
    authorizer = services.authorizer
    explained = _NO_AUTHORIZER if authorizer is None else authorizer.explain(*question)
    return ExplainAccessResponse(
        is_allowed=explained.is_allowed,
        cause=explained.cause.value,
        reason=explained.reason,
        rules=[_considered(rule) for rule in explained.rules],
        missing=[
            *map(_acl, explained.missing),
            *(_role(binding, question.operation) for binding in explained.missing_roles),
        ],
        in_the_way=[_acl(acl) for acl in explained.in_the_way],
    )


def _question(request: ExplainAccessRequest) -> Question:
    operation, kind = Operation(request.operation), ResourceType(request.resource_type)
    name = request.resource_name
    if operation <= Operation.ALL:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Ask about one operation, such as Read.")
    if kind <= ResourceType.ANY:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Ask about one resource, such as a topic.")
    if kind is ResourceType.CLUSTER:
        name = name or CLUSTER_NAME
    if not name:
        raise ApiError(ErrorCode.INVALID_REQUEST, "The name of the resource is missing.")
    try:
        principal = Principal.parse(request.principal)
        groups = [str(Principal.parse(group)) for group in request.groups]
    except ValueError as error:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"{error}.") from None
    return Question(
        principal._replace(groups=tuple(sorted(set(groups)))), request.host, operation, kind, name
    )


def _considered(rule: ConsideredRule) -> ExplainedRule:
    explained = _acl(Acl(rule.resource, rule.entry))
    explained.role, explained.counts, explained.remark = rule.role, rule.counts, rule.remark
    return explained


def _role(binding: RoleBinding, operation: Operation) -> ExplainedRule:
    entry = AccessEntry(binding.principal, WILDCARD, operation, Permission.ALLOW)
    explained = _acl(Acl(binding.resource, entry))
    explained.role = binding.role.display_name
    return explained


def _acl(acl: Acl) -> ExplainedRule:
    resource, entry = acl
    return ExplainedRule(
        resource_type=resource.type,
        resource_name=resource.name,
        pattern_type=resource.pattern,
        principal=entry.principal,
        host=entry.host,
        operation=entry.operation,
        permission_type=entry.permission,
    )


def _error_response(request: ExplainAccessRequest, error: ErrorCode) -> ExplainAccessResponse:
    return ExplainAccessResponse(error_code=error, error_message=error.message)


HANDLER: Final = Handler(
    API, handle, permission=required_on_cluster(Operation.DESCRIBE, _error_response, Area.ACCESS)
)
