"""`odradek acls --explain`: asks a broker why it allows or denies something, and prints that."""

import argparse

from odradek.cli.access.acl_actions import resources_of
from odradek.client.admin.roles import AccessExplanation, AccessRule, RoleCalls
from odradek.protocol.acls import (
    WILDCARD,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from odradek.tools.admin_session import open_admin
from odradek.tools.terminal import print_json

_FLAGS = {
    ResourceType.TOPIC: "--topic",
    ResourceType.GROUP: "--group",
    ResourceType.TRANSACTIONAL_ID: "--transactional-id",
    ResourceType.DELEGATION_TOKEN: "--delegation-token",
    ResourceType.USER: "--user-principal",
}


async def explain(arguments: argparse.Namespace) -> int:
    """Returns 0 if everything that was asked about is allowed, otherwise 1."""
    operations = [Operation.from_display_name(name) for name in arguments.operation]
    answers: list[tuple[ResourcePattern, Operation, AccessExplanation]] = []
    async with open_admin(RoleCalls, arguments) as admin:
        for resource in resources_of(arguments):
            for operation in operations:
                explained = await admin.explain_access(
                    arguments.explain.strip(),
                    operation,
                    resource,
                    host=arguments.host or WILDCARD,
                    groups=arguments.member_of or (),
                )
                answers.append((resource, operation, explained))
    if arguments.json:
        print_json([_as_json(arguments, *answer) for answer in answers])
    else:
        print("\n\n".join(_as_text(arguments, *answer) for answer in answers))
    return 0 if all(explained.is_allowed for _, _, explained in answers) else 1


def _as_text(
    arguments: argparse.Namespace,
    resource: ResourcePattern,
    operation: Operation,
    explained: AccessExplanation,
) -> str:
    verdict = "allowed" if explained.is_allowed else "denied"
    where = "the cluster" if resource.type is ResourceType.CLUSTER else _named(resource)
    lines = [
        f"{arguments.explain}, {operation.display_name} on {where}: {verdict}",
        f"because: {explained.reason}",
    ]
    if explained.rules:
        lines.append("rules about it:")
        for rule in explained.rules:
            mark = "+" if rule.counts else "-"
            lines.append(f"  {mark} {_rule_text(rule)}: {rule.remark}")
    if explained.in_the_way:
        lines.append("to allow it, remove first:")
        lines += [f"  odradek acls --remove {_acl_flags(rule)}" for rule in explained.in_the_way]
    if explained.missing:
        heading = "then add one of:" if explained.in_the_way else "to allow it, add one of:"
        lines.append(heading)
        lines += [f"  {_command(rule)}" for rule in explained.missing]
    return "\n".join(lines)


def _named(resource: ResourcePattern) -> str:
    return f"{resource.type.name.lower().replace('_', ' ')} {resource.name}"


def _rule_text(rule: AccessRule) -> str:
    resource, entry = rule.resource, rule.entry
    where = f"{resource.type.display_name}:{resource.pattern.name}:{resource.name}"
    if rule.role is not None:
        return f"role {rule.role} of {entry.principal} on {where}"
    return (
        f"{entry.permission.display_name} {entry.operation.display_name} to {entry.principal}"
        f" from {entry.host} on {where}"
    )


def _command(rule: AccessRule) -> str:
    if rule.role is None:
        return f"odradek acls --add {_acl_flags(rule)}"
    where = _resource_flags(rule.resource)
    return f"odradek roles grant {rule.role} --principal {_word(rule.entry.principal)} {where}"


def _acl_flags(rule: AccessRule) -> str:
    entry = rule.entry
    permission = "allow" if entry.permission is Permission.ALLOW else "deny"
    host = "" if entry.host == WILDCARD else f" --{permission}-host {_word(entry.host)}"
    return (
        f"--{permission}-principal {_word(entry.principal)}{host}"
        f" --operation {entry.operation.display_name} {_resource_flags(rule.resource)}"
    )


def _resource_flags(resource: ResourcePattern) -> str:
    if resource.type is ResourceType.CLUSTER:
        return "--cluster"
    is_prefix = resource.pattern is PatternType.PREFIXED
    prefixed = " --resource-pattern-type prefixed" if is_prefix else ""
    return f"{_FLAGS[resource.type]} {_word(resource.name)}{prefixed}"


def _word(text: str) -> str:
    """Quotes text so that a shell takes it as one word."""
    from shlex import quote

    return quote(text)


def _as_json(
    arguments: argparse.Namespace,
    resource: ResourcePattern,
    operation: Operation,
    explained: AccessExplanation,
) -> dict[str, object]:
    return {
        "principal": arguments.explain,
        "operation": operation.name,
        "resourceType": resource.type.name,
        "name": resource.name,
        "allowed": explained.is_allowed,
        "cause": explained.cause,
        "reason": explained.reason,
        "rules": [
            {**_rule_json(rule), "counts": rule.counts, "remark": rule.remark}
            for rule in explained.rules
        ],
        "inTheWay": [_rule_json(rule) for rule in explained.in_the_way],
        "missing": [_rule_json(rule) for rule in explained.missing],
        "commands": [_command(rule) for rule in explained.missing],
    }


def _rule_json(rule: AccessRule) -> dict[str, object]:
    return {
        "resourceType": rule.resource.type.name,
        "name": rule.resource.name,
        "patternType": rule.resource.pattern.name,
        "principal": rule.entry.principal,
        "host": rule.entry.host,
        "operation": rule.entry.operation.name,
        "permissionType": rule.entry.permission.name,
        "role": rule.role,
    }
