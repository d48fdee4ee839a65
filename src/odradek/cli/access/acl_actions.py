"""The actions of `odradek acls`, after its flags are parsed."""

import argparse
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager

from odradek.client.admin.acls import AclCalls
from odradek.protocol.acls import (
    CLUSTER_NAME,
    WILDCARD,
    AccessEntry,
    Acl,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.tools.admin_session import open_admin
from odradek.tools.failures import CommandFailed
from odradek.tools.hints import hint
from odradek.tools.terminal import print_json

_PRODUCER = {
    ResourceType.TOPIC: (Operation.WRITE, Operation.DESCRIBE, Operation.CREATE),
    ResourceType.TRANSACTIONAL_ID: (Operation.WRITE, Operation.DESCRIBE),
}
_CONSUMER = {
    ResourceType.TOPIC: (Operation.READ, Operation.DESCRIBE),
    ResourceType.GROUP: (Operation.READ,),
}
_OPERATIONS = {
    ResourceType.TOPIC: frozenset(
        (
            Operation.READ,
            Operation.WRITE,
            Operation.CREATE,
            Operation.DESCRIBE,
            Operation.DELETE,
            Operation.ALTER,
            Operation.DESCRIBE_CONFIGS,
            Operation.ALTER_CONFIGS,
        )
    ),
    ResourceType.GROUP: frozenset(
        (
            Operation.READ,
            Operation.DESCRIBE,
            Operation.DELETE,
            Operation.DESCRIBE_CONFIGS,
            Operation.ALTER_CONFIGS,
        )
    ),
    ResourceType.CLUSTER: frozenset(
        (
            Operation.CREATE,
            Operation.CLUSTER_ACTION,
            Operation.DESCRIBE_CONFIGS,
            Operation.ALTER_CONFIGS,
            Operation.IDEMPOTENT_WRITE,
            Operation.ALTER,
            Operation.DESCRIBE,
        )
    ),
    ResourceType.TRANSACTIONAL_ID: frozenset(
        (Operation.DESCRIBE, Operation.WRITE, Operation.TWO_PHASE_COMMIT)
    ),
    ResourceType.DELEGATION_TOKEN: frozenset((Operation.DESCRIBE,)),
    ResourceType.USER: frozenset((Operation.CREATE_TOKENS, Operation.DESCRIBE_TOKENS)),
}

Rules = dict[ResourcePattern, list[AccessEntry]]

_NO_AUTHORIZER = (
    "brokers without an authorizer keep no ACLs and no roles: set"
    " authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer in their"
    " settings, or with --override for `odradek up`, and start them again"
)


@asynccontextmanager
async def needs_authorizer() -> AsyncIterator[None]:
    """Ends the command with the line that gives brokers an authorizer, if they have none."""
    try:
        yield
    except KafkaError as error:
        if error.code != ErrorCode.SECURITY_DISABLED:
            raise
        raise CommandFailed(_NO_AUTHORIZER) from None


@asynccontextmanager
async def _admin(arguments: argparse.Namespace) -> AsyncIterator[AclCalls]:
    async with open_admin(AclCalls, arguments) as admin, needs_authorizer():
        yield admin


async def add(arguments: argparse.Namespace) -> int:
    rules = _rules(arguments)
    for resource, entries in rules.items():
        _check_operations(resource, entries)
    async with _admin(arguments) as admin:
        answers = await admin.create_acls(
            Acl(resource, entry) for resource, entries in rules.items() for entry in entries
        )
        for acl, error in answers.items():
            if error is not None and error.code == ErrorCode.SECURITY_DISABLED:
                raise error
            if error is not None:
                raise CommandFailed(f"{_shown_resource(acl.resource)}: {error.message}")
    _print(arguments, "Adding ACLs for resource", rules)
    return 0


async def remove(arguments: argparse.Namespace) -> int:
    rules = _rules(arguments)
    filters = [
        acl_filter
        for resource, entries in rules.items()
        for acl_filter in _filters(resource, entries)
    ]
    removed: Rules = {}
    async with _admin(arguments) as admin:
        for answer in (await admin.delete_acls(filters)).values():
            if not isinstance(answer, list):
                raise answer
            _collect(removed, answer)
    if not removed:
        hint("no rule matches, so none was removed; odradek acls --list shows all")
    _print(arguments, "Removed ACLs for resource", removed)
    return 0


async def show(arguments: argparse.Namespace) -> int:
    async with _admin(arguments) as admin:
        rules = await _find(admin, arguments)
    if not arguments.principal or arguments.json:
        _print(arguments, "Current ACLs for resource", rules)
        return 0
    for principal in arguments.principal:
        print(f"ACLs for principal `{principal}`")
        _print(arguments, "Current ACLs for resource", _about([principal], rules))
    return 0


async def _find(admin: AclCalls, arguments: argparse.Namespace) -> Rules:
    resources = resources_of(arguments)
    filters = [
        AclFilter(resource.type, resource.name, resource.pattern) for resource in resources
    ] or [AclFilter()]
    rules: Rules = {}
    for acl_filter in filters:
        _collect(rules, await admin.describe_acls(acl_filter))
    return _about(arguments.principal, rules) if arguments.principal else rules


def _about(principals: list[str], rules: Rules) -> Rules:
    about = {
        resource: [entry for entry in entries if entry.principal in principals]
        for resource, entries in rules.items()
    }
    return {resource: entries for resource, entries in about.items() if entries}


def _collect(into: Rules, acls: Iterable[Acl]) -> None:
    for resource, entry in acls:
        entries = into.setdefault(resource, [])
        if entry not in entries:
            entries.append(entry)


# From flags to rules


def resources_of(arguments: argparse.Namespace) -> list[ResourcePattern]:
    pattern = PatternType[arguments.resource_pattern_type.upper()]
    names_by_type = {
        ResourceType.TOPIC: arguments.topic,
        ResourceType.GROUP: arguments.group,
        ResourceType.TRANSACTIONAL_ID: arguments.transactional_id,
        ResourceType.DELEGATION_TOKEN: arguments.delegation_token,
        ResourceType.USER: arguments.user_principal,
    }
    with_cluster = arguments.cluster or arguments.idempotent
    return named_resources(names_by_type, pattern, with_cluster=with_cluster)


def named_resources(
    names: Mapping[ResourceType, Iterable[str]], pattern: PatternType, *, with_cluster: bool
) -> list[ResourcePattern]:
    """Returns a resource for each name, and the cluster if it is meant too."""
    resources = [
        ResourcePattern(kind, name.strip(), pattern)
        for kind, given in names.items()
        for name in given
    ]
    if with_cluster:
        resources.append(ResourcePattern(ResourceType.CLUSTER, CLUSTER_NAME))
    return resources


def _rules(arguments: argparse.Namespace) -> Rules:
    """Returns the entries for each resource that the flags name. An empty list means all
    entries."""
    rules: Rules = {}
    is_role = arguments.producer or arguments.consumer
    flag_operations = [
        Operation.from_display_name(name) for name in arguments.operation or ("All",)
    ]
    for resource in resources_of(arguments):
        if is_role:
            operations = [
                *(_PRODUCER.get(resource.type, ()) if arguments.producer else ()),
                *(_CONSUMER.get(resource.type, ()) if arguments.consumer else ()),
            ]
            if arguments.idempotent and resource.type is ResourceType.CLUSTER:
                operations.append(Operation.IDEMPOTENT_WRITE)
            operations = list(dict.fromkeys(operations))
            if not operations:
                continue
        else:
            operations = flag_operations
        rules[resource] = [
            *_entries(
                Permission.ALLOW, arguments.allow_principal, arguments.allow_host, operations
            ),
            *_entries(Permission.DENY, arguments.deny_principal, arguments.deny_host, operations),
        ]
    return rules


def _entries(
    permission: Permission,
    principals: list[str] | None,
    hosts: list[str] | None,
    operations: list[Operation],
) -> list[AccessEntry]:
    return [
        AccessEntry(principal.strip(), host.strip(), operation, permission)
        for principal in principals or ()
        for operation in operations
        for host in hosts or (WILDCARD,)
    ]


def _filters(resource: ResourcePattern, entries: list[AccessEntry]) -> list[AclFilter]:
    where = AclFilter(resource.type, resource.name, resource.pattern)
    return [where._replace(**entry._asdict()) for entry in entries] or [where]


def _check_operations(resource: ResourcePattern, entries: list[AccessEntry]) -> None:
    possible = _OPERATIONS[resource.type] | {Operation.ALL}
    for entry in entries:
        if entry.operation not in possible:
            names = ", ".join(operation.display_name for operation in sorted(possible))
            raise CommandFailed(
                f"{entry.operation.display_name} means nothing on a {resource.type.display_name};"
                f" it takes {names}"
            )


def confirmed(arguments: argparse.Namespace) -> bool:
    """Asks the user whether the rules are to be removed."""
    for resource, entries in _rules(arguments).items():
        if entries:
            print(f"Are you sure you want to remove ACLs:\n{_lines(entries)}\n")
            print(f"from resource filter `{_shown_resource(resource)}`? (y/n)")
        else:
            print(
                "Are you sure you want to delete all ACLs for resource filter"
                f" `{_shown_resource(resource)}`? (y/n)"
            )
        try:
            if input().strip().lower() not in ("y", "yes"):
                return False
        except EOFError:
            raise CommandFailed("no answer; --force removes without asking") from None
    return True


# Output


def _print(arguments: argparse.Namespace, head: str, rules: Rules) -> None:
    if arguments.json:
        print_json(
            [
                {
                    "resourceType": resource.type.name,
                    "name": resource.name,
                    "patternType": resource.pattern.name,
                    "principal": entry.principal,
                    "host": entry.host,
                    "operation": entry.operation.name,
                    "permissionType": entry.permission.name,
                }
                for resource, entries in rules.items()
                for entry in entries
            ]
        )
        return
    for resource, entries in rules.items():
        print(f"{head} `{_shown_resource(resource)}`: \n{_lines(entries)} \n")


def _lines(entries: list[AccessEntry]) -> str:
    return "\n".join(
        f" \t(principal={entry.principal}, host={entry.host},"
        f" operation={entry.operation.name}, permissionType={entry.permission.name})"
        for entry in entries
    )


def _shown_resource(resource: ResourcePattern) -> str:
    return (
        f"ResourcePattern(resourceType={resource.type.name}, name={resource.name},"
        f" patternType={resource.pattern.name})"
    )
