"""The actions of `odradek roles` that ask a broker."""

import argparse

from odradek.cli.access.acl_actions import named_resources, needs_authorizer
from odradek.client.admin.roles import RoleCalls
from odradek.protocol.acls import PatternType, ResourcePattern, ResourceType
from odradek.protocol.errors import ErrorCode
from odradek.protocol.roles import Role, RoleBinding
from odradek.tools.admin_session import open_admin
from odradek.tools.failures import CommandFailed
from odradek.tools.hints import hint
from odradek.tools.terminal import print_json, table


async def grant(arguments: argparse.Namespace) -> int:
    bindings = _bindings(arguments)
    async with open_admin(RoleCalls, arguments) as admin, needs_authorizer():
        for binding, error in (await admin.grant_roles(bindings)).items():
            if error is not None and error.code == ErrorCode.SECURITY_DISABLED:
                raise error
            if error is not None:
                raise CommandFailed(f"{_shown(binding)}: {error.message}")
    _print(arguments, bindings, "Granted")
    return 0


async def revoke(arguments: argparse.Namespace) -> int:
    bindings = _bindings(arguments)
    revoked = []
    async with open_admin(RoleCalls, arguments) as admin, needs_authorizer():
        for binding, error in (await admin.revoke_roles(bindings)).items():
            if error is None:
                revoked.append(binding)
            elif error.code == ErrorCode.RESOURCE_NOT_FOUND:
                hint(f"{_shown(binding, 'of')}: it was not granted; odradek roles list shows all")
            else:
                raise error
    _print(arguments, revoked, "Revoked")
    return 0 if revoked else 1


async def show(arguments: argparse.Namespace) -> int:
    async with open_admin(RoleCalls, arguments) as admin, needs_authorizer():
        bindings = await admin.describe_roles()
    resources = _resources(arguments)
    found = [
        binding
        for binding in bindings
        if (not arguments.principal or binding.principal in arguments.principal)
        and (arguments.role is None or binding.role.display_name == arguments.role)
        and (not resources or binding.resource in resources)
    ]
    if arguments.json:
        print_json([_as_json(binding) for binding in found])
    elif found:
        headers = ["PRINCIPAL", "ROLE", "RESOURCE", "NAME", "PATTERN"]
        print(table(headers, [_row(binding) for binding in found]))
    else:
        hint("no role is granted there; odradek roles grant --help shows how")
    return 0


def _resources(arguments: argparse.Namespace) -> list[ResourcePattern]:
    is_prefixed = arguments.prefixed or arguments.resource_pattern_type == "prefixed"
    pattern = PatternType.PREFIXED if is_prefixed else PatternType.LITERAL
    named = {
        ResourceType.TOPIC: arguments.topic,
        ResourceType.GROUP: arguments.group,
        ResourceType.TRANSACTIONAL_ID: arguments.transactional_id,
    }
    return named_resources(named, pattern, with_cluster=arguments.cluster)


def _bindings(arguments: argparse.Namespace) -> list[RoleBinding]:
    role = Role.from_display_name(arguments.role)
    return [
        RoleBinding(principal.strip(), role, resource)
        for principal in arguments.principal
        for resource in _resources(arguments)
    ]


def _shown(binding: RoleBinding, preposition: str = "to") -> str:
    resource = binding.resource
    where = "the cluster"
    if resource.type is not ResourceType.CLUSTER:
        kind = resource.type.name.lower().replace("_", " ")
        names = "names with the prefix " if resource.pattern is PatternType.PREFIXED else ""
        where = f"{kind} {names}{resource.name}"
    return f"{binding.role.display_name} {preposition} {binding.principal} on {where}"


def _print(arguments: argparse.Namespace, bindings: list[RoleBinding], verb: str) -> None:
    if arguments.json:
        print_json([_as_json(binding) for binding in bindings])
        return
    preposition = "from" if verb == "Revoked" else "to"
    for binding in bindings:
        print(f"{verb} {_shown(binding, preposition)}.")


def _row(binding: RoleBinding) -> list[str]:
    resource = binding.resource
    return [
        binding.principal,
        binding.role.display_name,
        resource.type.display_name,
        resource.name,
        resource.pattern.name,
    ]


def _as_json(binding: RoleBinding) -> dict[str, str]:
    return {
        "principal": binding.principal,
        "role": binding.role.display_name,
        "resourceType": binding.resource.type.name,
        "name": binding.resource.name,
        "patternType": binding.resource.pattern.name,
    }
