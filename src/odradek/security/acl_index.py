"""What the ACLs of the cluster decide about one operation on one resource, without any I/O.

An ACL applies to a resource if its pattern is the name of the resource, or `*`, or a prefix of the
name. An ACL that denies takes precedence over all that allow. An operation that no ACL allows is
denied. An ACL that allows to read, write, alter or delete a resource allows to describe it too; an
ACL that denies an operation denies this operation alone. An ACL about a group is about all of its
members, and one about `User:*` about everybody.

ACLs are looked up in a dictionary, by the name and by every length that a prefix has, so a decision
takes as long among a hundred thousand patterns as among ten.
"""

from collections.abc import Collection, Iterator, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final, NamedTuple

from odradek.protocol.acls import (
    WILDCARD,
    WILDCARD_PRINCIPAL,
    AccessEntry,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from odradek.security.principals import Principal

Entries = tuple[AccessEntry, ...]
Rules = Mapping[ResourcePattern, Entries]

NO_RULES: Final[Rules] = MappingProxyType({})

# Which other operations grant an operation. ALL grants every operation.
_GRANTED_BY: Final[Mapping[Operation, frozenset[Operation]]] = {
    Operation.DESCRIBE: frozenset(
        (Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER)
    ),
    Operation.DESCRIBE_CONFIGS: frozenset((Operation.ALTER_CONFIGS,)),
}
_NOTHING_ELSE: Final[frozenset[Operation]] = frozenset()


class Ruling(Enum):
    ALLOWED = "allowed"
    DENIED = "denied"
    # No ACL is about this resource, for any principal.
    UNREGULATED = "unregulated"


class Decision(NamedTuple):
    ruling: Ruling
    # The ACL that decided, for the log. None if no ACL allows the operation.
    resource: ResourcePattern | None = None
    entry: AccessEntry | None = None


class AclIndex:
    """An immutable set of ACLs, indexed by pattern. The authorizer makes a new one when the ACLs of
    the cluster change."""

    __slots__ = ("_prefix_lengths", "_rules")

    def __init__(self, rules: Rules = NO_RULES) -> None:
        self._rules = rules
        lengths: dict[ResourceType, set[int]] = {}
        for resource in rules:
            if resource.pattern is PatternType.PREFIXED:
                lengths.setdefault(resource.type, set()).add(len(resource.name))
        self._prefix_lengths = {kind: sorted(found) for kind, found in lengths.items()}

    def decide(
        self, who: Collection[str], host: str, operation: Operation, kind: ResourceType, name: str
    ) -> Decision:
        """`who` are the principals whose rules count: that of the client, its groups, and
        `WILDCARD_PRINCIPAL`; see `concerned`."""
        decision = Decision(Ruling.UNREGULATED)
        for resource, entries in self.about(kind, name):
            for entry in entries:
                if not concerns(entry, who, host, operation):
                    continue
                if entry.permission is Permission.DENY:
                    return Decision(Ruling.DENIED, resource, entry)
                if decision.ruling is not Ruling.ALLOWED:
                    decision = Decision(Ruling.ALLOWED, resource, entry)
            if decision.ruling is Ruling.UNREGULATED:
                decision = Decision(Ruling.DENIED)
        return decision

    def allows_any(
        self, who: Collection[str], host: str, operation: Operation, kind: ResourceType
    ) -> bool:
        """Returns whether the operation may be allowed on any resource of a type."""
        allowed: list[ResourcePattern] = []
        denied: set[tuple[PatternType, str]] = set()
        for resource, entries in self._rules.items():
            if resource.type is not kind:
                continue
            for entry in entries:
                if concerns(entry, who, host, operation):
                    if entry.permission is Permission.DENY:
                        denied.add((resource.pattern, resource.name))
                    else:
                        allowed.append(resource)
        if (PatternType.LITERAL, WILDCARD) in denied:
            return False
        return any(not _is_overruled(resource, denied) for resource in allowed)

    def about(self, kind: ResourceType, name: str) -> Iterator[tuple[ResourcePattern, Entries]]:
        """Yields the patterns that match a resource, with their ACLs."""
        rules = self._rules
        names = [(name, PatternType.LITERAL), (WILDCARD, PatternType.LITERAL)]
        for length in self._prefix_lengths.get(kind, ()):
            if length > len(name):
                break
            names.append((name[:length], PatternType.PREFIXED))
        for pattern_name, pattern in names:
            resource = ResourcePattern(kind, pattern_name, pattern)
            entries = rules.get(resource)
            if entries:
                yield resource, entries


def concerned(principal: Principal) -> tuple[str, ...]:
    """Returns the principals whose rules are about a client: its own, its groups, and all."""
    return (str(principal), *principal.groups, WILDCARD_PRINCIPAL)


def concerns(entry: AccessEntry, who: Collection[str], host: str, operation: Operation) -> bool:
    """Returns whether an ACL says anything about an operation of a client."""
    return (
        entry.principal in who
        and entry.host in (host, WILDCARD)
        and covers(entry.permission, entry.operation, operation)
    )


def covers(permission: Permission, ruled: Operation, asked: Operation) -> bool:
    """Returns whether an ACL about the operation `ruled` is about the operation `asked` too."""
    if ruled in (asked, Operation.ALL):
        return True
    return permission is Permission.ALLOW and ruled in _GRANTED_BY.get(asked, _NOTHING_ELSE)


def _is_overruled(resource: ResourcePattern, denied: set[tuple[PatternType, str]]) -> bool:
    """Returns whether another pattern denies all resources that a pattern matches."""
    name = resource.name
    if resource.pattern is PatternType.LITERAL:
        if name == WILDCARD:
            return False
        if (PatternType.LITERAL, name) in denied:
            return True
    return any(
        (PatternType.PREFIXED, name[:length]) in denied for length in range(1, len(name) + 1)
    )
