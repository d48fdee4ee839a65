"""What access rules say about one action: the pure core of the authoriser.

A rule applies to a resource if it names it, or `*`, or a prefix of it. One that denies wins over
any that allow; what no rule speaks of is denied. Rules that allow to change or to read something
allow to see it too; rules that deny say no more than they say.

Rules are looked up by name and by every length that a prefix has, not searched: a decision costs
the same among a hundred thousand patterns as among ten.
"""

from collections.abc import Iterator, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final, NamedTuple

from odradek.protocol.acls import (
    ANYBODY,
    WILDCARD,
    AccessEntry,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)

Entries = tuple[AccessEntry, ...]
Rules = Mapping[ResourcePattern, Entries]

NO_RULES: Final[Rules] = MappingProxyType({})

# What grants an operation, beside itself and ALL.
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
    # No rule is about this resource, whoever asks.
    UNREGULATED = "unregulated"


class Decision(NamedTuple):
    ruling: Ruling
    # The rule that decided, for the log.
    resource: ResourcePattern | None = None
    entry: AccessEntry | None = None


class AclIndex:
    """An immutable set of rules, ready to be asked."""

    __slots__ = ("_prefix_lengths", "_rules")

    def __init__(self, rules: Rules = NO_RULES) -> None:
        self._rules = rules
        lengths: dict[ResourceType, set[int]] = {}
        for resource in rules:
            if resource.pattern is PatternType.PREFIXED:
                lengths.setdefault(resource.type, set()).add(len(resource.name))
        self._prefix_lengths = {kind: sorted(found) for kind, found in lengths.items()}

    def decide(
        self, principal: str, host: str, operation: Operation, kind: ResourceType, name: str
    ) -> Decision:
        found = Decision(Ruling.UNREGULATED)
        for resource, entries in self._about(kind, name):
            for entry in entries:
                if not _concerns(entry, principal, host, operation):
                    continue
                if entry.permission is Permission.DENY:
                    return Decision(Ruling.DENIED, resource, entry)
                if found.ruling is not Ruling.ALLOWED:
                    found = Decision(Ruling.ALLOWED, resource, entry)
            if found.ruling is Ruling.UNREGULATED:
                found = Decision(Ruling.DENIED)
        return found

    def allows_any(
        self, principal: str, host: str, operation: Operation, kind: ResourceType
    ) -> bool:
        """Whether there may be a resource of a kind on which the operation is allowed."""
        allowed: list[ResourcePattern] = []
        denied: set[tuple[PatternType, str]] = set()
        for resource, entries in self._rules.items():
            if resource.type is not kind:
                continue
            for entry in entries:
                if _concerns(entry, principal, host, operation):
                    if entry.permission is Permission.DENY:
                        denied.add((resource.pattern, resource.name))
                    else:
                        allowed.append(resource)
        if (PatternType.LITERAL, WILDCARD) in denied:
            return False
        return any(not _is_overruled(resource, denied) for resource in allowed)

    def _about(self, kind: ResourceType, name: str) -> Iterator[tuple[ResourcePattern, Entries]]:
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


def _concerns(entry: AccessEntry, principal: str, host: str, operation: Operation) -> bool:
    if entry.principal not in (principal, ANYBODY) or entry.host not in (host, WILDCARD):
        return False
    if entry.operation in (operation, Operation.ALL):
        return True
    return entry.permission is Permission.ALLOW and entry.operation in _GRANTED_BY.get(
        operation, _NOTHING_ELSE
    )


def _is_overruled(resource: ResourcePattern, denied: set[tuple[PatternType, str]]) -> bool:
    """Whether everything that a pattern stands for is denied by another one."""
    name = resource.name
    if resource.pattern is PatternType.LITERAL:
        if name == WILDCARD:
            return False
        if (PatternType.LITERAL, name) in denied:
            return True
    return any(
        (PatternType.PREFIXED, name[:length]) in denied for length in range(1, len(name) + 1)
    )
