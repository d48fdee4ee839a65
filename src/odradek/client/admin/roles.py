"""Admin calls about roles, and about what decides whether an operation is allowed. Both are
Odradek's own: a broker of another system answers that it does not know the API."""

from collections.abc import Iterable
from typing import NamedTuple

from odradek.client import arguments
from odradek.client.admin.channel import AdminChannel, error_or_none
from odradek.protocol.acls import (
    AccessEntry,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from odradek.protocol.errors import KafkaError, error_for
from odradek.protocol.messages.alter_roles import (
    AlterRolesRequest,
    AlterRolesResponse,
    RoleAlteration,
)
from odradek.protocol.messages.describe_roles import DescribeRolesRequest, DescribeRolesResponse
from odradek.protocol.messages.explain_access import (
    ExplainAccessRequest,
    ExplainAccessResponse,
    ExplainedRule,
)
from odradek.protocol.roles import Role, RoleBinding


class AccessRule(NamedTuple):
    """An ACL, or what a role permits if `role` names one. `counts` says whether it is about the
    principal, host and operation in question, and `remark` why."""

    resource: ResourcePattern
    entry: AccessEntry
    role: str | None
    counts: bool
    remark: str


class AccessExplanation(NamedTuple):
    """`cause` is what decides, in a word, and `reason` the same as a sentence. `missing` are rules
    and roles of which each alone would allow the operation; `in_the_way` are rules that deny it."""

    is_allowed: bool
    cause: str
    reason: str
    rules: list[AccessRule]
    missing: list[AccessRule]
    in_the_way: list[AccessRule]


class RoleCalls(AdminChannel):
    async def describe_roles(self, principal: str | None = None) -> list[RoleBinding]:
        """Returns the roles of a principal, as in `User:ada`, or all of them."""
        response = await self.request(
            DescribeRolesRequest(principal=principal), DescribeRolesResponse
        )
        if response.error_code:
            raise error_for(response.error_code, response.error_message)
        return [
            RoleBinding(
                role.principal,
                Role(role.role),
                ResourcePattern(
                    ResourceType(role.resource_type),
                    role.resource_name,
                    PatternType(role.pattern_type),
                ),
            )
            for role in response.roles
        ]

    async def grant_roles(
        self, bindings: Iterable[RoleBinding]
    ) -> dict[RoleBinding, KafkaError | None]:
        """Grants roles; one that the principal has already stays as it is."""
        return await self._alter_roles(bindings, "grant_roles()", is_granted=True)

    async def revoke_roles(
        self, bindings: Iterable[RoleBinding]
    ) -> dict[RoleBinding, KafkaError | None]:
        """Revokes roles."""
        return await self._alter_roles(bindings, "revoke_roles()", is_granted=False)

    async def _alter_roles(
        self, bindings: Iterable[RoleBinding], call: str, *, is_granted: bool
    ) -> dict[RoleBinding, KafkaError | None]:
        given = list(dict.fromkeys(arguments.several(RoleBinding, bindings, call, "roles")))
        response = await self.controller_request(
            AlterRolesRequest(
                alterations=[
                    RoleAlteration(
                        is_granted=is_granted,
                        principal=principal,
                        role=role,
                        resource_type=resource.type,
                        resource_name=resource.name,
                        pattern_type=resource.pattern,
                    )
                    for principal, role, resource in given
                ]
            ),
            AlterRolesResponse,
        )
        return {
            binding: error_or_none(result.error_code, result.error_message)
            for binding, result in zip(given, response.results, strict=True)
        }

    async def explain_access(
        self,
        principal: str,
        operation: Operation,
        resource: ResourcePattern,
        *,
        host: str = "*",
        groups: Iterable[str] = (),
    ) -> AccessExplanation:
        """Returns whether a principal may do an operation on a resource, what decides, and what
        would have to be added. `groups` are those that it is in, as in `Group:shop`."""
        response = await self.request(
            ExplainAccessRequest(
                principal=principal,
                groups=list(groups),
                host=host,
                operation=operation,
                resource_type=resource.type,
                resource_name=resource.name,
            ),
            ExplainAccessResponse,
        )
        if response.error_code:
            raise error_for(response.error_code, response.error_message)
        return AccessExplanation(
            response.is_allowed,
            response.cause,
            response.reason,
            [_rule(rule) for rule in response.rules],
            [_rule(rule) for rule in response.missing],
            [_rule(rule) for rule in response.in_the_way],
        )


def _rule(rule: ExplainedRule) -> AccessRule:
    return AccessRule(
        ResourcePattern(
            ResourceType(rule.resource_type), rule.resource_name, PatternType(rule.pattern_type)
        ),
        AccessEntry(
            rule.principal,
            rule.host,
            Operation(rule.operation),
            Permission(rule.permission_type),
        ),
        rule.role,
        rule.counts,
        rule.remark,
    )
