"""What each role permits, declared once: the authorizer, the tool and the documentation use it.

A role is bound to a principal on a resource (`protocol.roles.RoleBinding`). There are two kinds of
resources to bind it on:

- A topic, a group or a transactional id, by its name, by a prefix, or `*` for all. The binding is
  then as good as ACLs that allow these operations on the same pattern: a resource that it names has
  rules from then on, so `allow.everyone.if.no.acl.found` does not open it.
- The cluster. The binding adds permissions on the cluster and on all topics, groups, transactional
  ids and users. It takes nothing away from others: no resource has rules because of it.

Every permission of a role allows; only ACLs deny, and an ACL that denies takes precedence.

Kafka asks for one permission, Alter on the cluster, for things that different people should do: to
move replicas, to change ACLs, to change passwords. So roles of the cluster permit an operation in
an `Area`. An ACL on the cluster is about all areas, as in Kafka.
"""

from collections.abc import Iterable, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final, NamedTuple

from odradek.protocol.acls import (
    CLUSTER_NAME,
    WILDCARD,
    AccessEntry,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from odradek.protocol.roles import Role, RoleBinding

Bindings = Mapping[str, tuple[RoleBinding, ...]]
"""The bindings of each principal."""

NO_BINDINGS: Final[Bindings] = MappingProxyType({})

_TOPIC, _GROUP = ResourceType.TOPIC, ResourceType.GROUP
_TRANSACTIONAL_ID, _CLUSTER = ResourceType.TRANSACTIONAL_ID, ResourceType.CLUSTER
_USER, _TOKEN = ResourceType.USER, ResourceType.DELEGATION_TOKEN

NAMED_TYPES: Final = (_TOPIC, _GROUP, _TRANSACTIONAL_ID)
"""The types of resources on which a role is bound by name or prefix."""

CLUSTER: Final = ResourcePattern(ResourceType.CLUSTER, CLUSTER_NAME)


class Area(Enum):
    """What an operation on the cluster is about. The value is how the documentation names it."""

    OPERATION = "running the cluster"
    ACCESS = "ACLs and roles"
    USERS = "users and their tokens"


class RoleDeclaration(NamedTuple):
    """`named` are the operations that the role permits on a resource on which it is bound by name,
    by type. `on_cluster` are those of a binding on the cluster, in `area`; and `everywhere` are
    those which that binding permits on all resources of a type."""

    purpose: str
    named: Mapping[ResourceType, tuple[Operation, ...]] = MappingProxyType({})
    on_cluster: tuple[Operation, ...] = ()
    area: Area = Area.OPERATION
    everywhere: Mapping[ResourceType, tuple[Operation, ...]] = MappingProxyType({})


_MANAGED: Final = {
    _TOPIC: (
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.ALTER_CONFIGS,
        Operation.DESCRIBE_CONFIGS,
    ),
    _GROUP: (
        Operation.DELETE,
        Operation.DESCRIBE,
        Operation.ALTER_CONFIGS,
        Operation.DESCRIBE_CONFIGS,
    ),
    _TRANSACTIONAL_ID: (Operation.DESCRIBE,),
}
_SEEN: Final = dict.fromkeys(NAMED_TYPES, (Operation.DESCRIBE,))

ROLES: Final[Mapping[Role, RoleDeclaration]] = {
    Role.READER: RoleDeclaration(
        "reads records, as a member of groups too",
        {
            _TOPIC: (Operation.READ, Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS),
            _GROUP: (Operation.READ, Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS),
        },
    ),
    Role.WRITER: RoleDeclaration(
        "writes records, in transactions too",
        {
            _TOPIC: (Operation.WRITE, Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS),
            _TRANSACTIONAL_ID: (Operation.WRITE, Operation.DESCRIBE),
        },
    ),
    Role.OWNER: RoleDeclaration(
        "does everything with the resource: reads, writes, creates, changes, deletes",
        dict.fromkeys(NAMED_TYPES, (Operation.ALL,)),
    ),
    Role.OPERATOR: RoleDeclaration(
        "runs the cluster, or the topics of a team, without reading or writing records",
        _MANAGED,
        (
            Operation.CREATE,
            Operation.DELETE,
            Operation.ALTER,
            Operation.DESCRIBE,
            Operation.ALTER_CONFIGS,
            Operation.DESCRIBE_CONFIGS,
        ),
        Area.OPERATION,
        _MANAGED,
    ),
    Role.SECURITY_ADMIN: RoleDeclaration(
        "says who may do what: sees and changes ACLs and roles",
        on_cluster=(Operation.ALTER, Operation.DESCRIBE),
        area=Area.ACCESS,
        everywhere=_SEEN,
    ),
    Role.USER_ADMIN: RoleDeclaration(
        "sees and changes the users, their passwords and delegation tokens",
        # The last is for settings of brokers that say who may log in; operator is needed too.
        on_cluster=(Operation.ALTER, Operation.DESCRIBE, Operation.ALTER_CONFIGS),
        area=Area.USERS,
        everywhere={
            _USER: (Operation.CREATE_TOKENS, Operation.DESCRIBE_TOKENS),
            _TOKEN: (Operation.DESCRIBE,),
        },
    ),
}


def complaint_about(binding: RoleBinding) -> str | None:
    """Returns why a binding cannot be made, as a sentence for whoever asked for it, or None."""
    role, resource = binding.role, binding.resource
    declaration = ROLES.get(role)
    complaint = None
    if declaration is None:
        complaint = f"There is no such role; take one of {', '.join(names())}."
    elif resource.type is _CLUSTER:
        if not declaration.on_cluster:
            complaint = (
                f"{role.display_name} is bound to a topic, a group or a transactional id, not to"
                " the cluster."
            )
        elif resource != CLUSTER:
            complaint = f"The only name of the cluster is {CLUSTER_NAME}, and it is no prefix."
    elif not declaration.named:
        complaint = f"{role.display_name} is bound to the cluster, not to a single resource."
    elif resource.type not in declaration.named:
        kinds = " or a ".join(_spoken(kind) for kind in declaration.named)
        complaint = f"{role.display_name} is bound to a {kinds}."
    elif resource.pattern not in (PatternType.LITERAL, PatternType.PREFIXED):
        complaint = f"The pattern type is LITERAL or PREFIXED, not {resource.pattern.name}."
    elif not resource.name:
        complaint = "The name of the resource is missing."
    return complaint


def names() -> list[str]:
    return [role.display_name for role in ROLES]


def _spoken(kind: ResourceType) -> str:
    return kind.name.lower().replace("_", " ")


def entries_of(binding: RoleBinding) -> tuple[AccessEntry, ...]:
    """Returns the ACL entries that a binding on a named resource is as good as."""
    operations = ROLES[binding.role].named.get(binding.resource.type, ())
    return _allow(binding.principal, operations)


def _allow(principal: str, operations: Iterable[Operation]) -> tuple[AccessEntry, ...]:
    return tuple(
        AccessEntry(principal, WILDCARD, operation, Permission.ALLOW) for operation in operations
    )


class ExpandedRoles(NamedTuple):
    """All bindings as ACLs: `named` are about single resources and prefixes, `everywhere` are what
    bindings on the cluster permit on all resources of a type, and `on_cluster` what they permit on
    the cluster, by area."""

    named: Mapping[ResourcePattern, tuple[AccessEntry, ...]]
    everywhere: Mapping[ResourcePattern, tuple[AccessEntry, ...]]
    on_cluster: Mapping[Area, Mapping[ResourcePattern, tuple[AccessEntry, ...]]]


def expand(bindings: Bindings) -> ExpandedRoles:
    named: dict[ResourcePattern, tuple[AccessEntry, ...]] = {}
    everywhere: dict[ResourcePattern, tuple[AccessEntry, ...]] = {}
    on_cluster: dict[Area, dict[ResourcePattern, tuple[AccessEntry, ...]]] = {
        area: {} for area in Area
    }
    for of_principal in bindings.values():
        for binding in of_principal:
            if complaint_about(binding) is not None:
                continue  # A later version wrote it; it permits nothing that is known here.
            resource = binding.resource
            if resource.type is not _CLUSTER:
                _append(named, resource, entries_of(binding))
                continue
            declaration = ROLES[binding.role]
            entries = _allow(binding.principal, declaration.on_cluster)
            _append(on_cluster[declaration.area], resource, entries)
            for kind, operations in declaration.everywhere.items():
                entries = _allow(binding.principal, operations)
                _append(everywhere, ResourcePattern(kind, WILDCARD), entries)
    return ExpandedRoles(named, everywhere, on_cluster)


def _append(
    table: dict[ResourcePattern, tuple[AccessEntry, ...]],
    resource: ResourcePattern,
    entries: tuple[AccessEntry, ...],
) -> None:
    table[resource] = (*table.get(resource, ()), *entries)


def with_roles(
    rules: Mapping[ResourcePattern, tuple[AccessEntry, ...]],
    named: Mapping[ResourcePattern, tuple[AccessEntry, ...]],
) -> Mapping[ResourcePattern, tuple[AccessEntry, ...]]:
    """Returns the ACLs together with those that roles are as good as. ACLs come first, so that a
    decision is attributed to them where both permit the same."""
    if not named:
        return rules
    merged = dict(rules)
    for resource, entries in named.items():
        _append(merged, resource, entries)
    return merged


def permissions_of(role: Role) -> list[tuple[str, str, str]]:
    """Returns what a role permits, for people: what it is bound on, the operations, and on what."""
    declaration = ROLES[role]
    rows = [
        (f"a {_spoken(kind)}", _listed(operations), "the same")
        for kind, operations in declaration.named.items()
    ]
    if declaration.on_cluster:
        about = f"the cluster, for {declaration.area.value}"
        rows.append(("the cluster", _listed(declaration.on_cluster), about))
    for kind, operations in declaration.everywhere.items():
        rows.append(("the cluster", _listed(operations), f"every {_spoken(kind)}"))
    return rows


def _listed(operations: Iterable[Operation]) -> str:
    return ", ".join(operation.display_name for operation in operations)
