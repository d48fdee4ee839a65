"""ACLs: resources, operations, principals, and the filters that select ACLs.

An ACL is an entry (which principal, from which host, may or may not do what) on a resource pattern:
one resource, all resources of a type, or all whose names begin with a prefix. The numbers are those
of the protocol. The display names are those that Kafka stores and that its tools show.
"""

from enum import IntEnum
from typing import Final, NamedTuple, Self

WILDCARD: Final = "*"
"""Matches every resource as the name of a literal pattern, and every host as a host."""

WILDCARD_PRINCIPAL: Final = "User:*"
CLUSTER_NAME: Final = "kafka-cluster"
"""The name of the only resource of type `CLUSTER`."""


class _Code(IntEnum):
    """A number of the protocol; a number that is not known here is `UNKNOWN`."""

    # ACLs are looked up by these members for every request, and `Enum.__hash__` is slow because it
    # is Python code.
    __hash__ = int.__hash__

    @classmethod
    def _missing_(cls, value: object) -> Self:
        return cls(0)

    @property
    def display_name(self) -> str:
        return "".join(word.capitalize() for word in self.name.split("_"))

    @classmethod
    def from_display_name(cls, name: str) -> Self:
        """Returns the member with this display name, or `UNKNOWN`.

        Upper and lower case and underscores make no difference.
        """
        plain_name = name.replace("_", "").lower()
        return next((member for member in cls if member.display_name.lower() == plain_name), cls(0))


class ResourceType(_Code):
    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(_Code):
    """Only filters have `ANY`, which accepts every pattern type, and `MATCH`, which accepts every
    pattern that applies to the name of the filter."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Operation(_Code):
    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class Permission(_Code):
    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


class ResourcePattern(NamedTuple):
    """`pattern` is the type of the pattern: whether `name` is a whole name or a prefix."""

    type: ResourceType
    name: str
    pattern: PatternType = PatternType.LITERAL


class AccessEntry(NamedTuple):
    """`principal` is written as in `User:alice`."""

    principal: str
    host: str
    operation: Operation
    permission: Permission


class Acl(NamedTuple):
    resource: ResourcePattern
    entry: AccessEntry


class AclFilter(NamedTuple):
    """Selects ACLs; None and `ANY` match everything."""

    resource_type: ResourceType = ResourceType.ANY
    name: str | None = None
    pattern: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: Operation = Operation.ANY
    permission: Permission = Permission.ANY

    @property
    def has_unknown(self) -> bool:
        """Returns whether a field has a number that this version does not know."""
        return not all((self.resource_type, self.pattern, self.operation, self.permission))

    def matches_resource(self, resource: ResourcePattern) -> bool:
        if self.resource_type not in (ResourceType.ANY, resource.type):
            return False
        if self.pattern not in (PatternType.ANY, PatternType.MATCH, resource.pattern):
            return False
        if self.name is None or self.name == resource.name:
            return True
        if self.pattern is not PatternType.MATCH:
            return False
        if resource.pattern is PatternType.PREFIXED:
            return self.name.startswith(resource.name)
        return resource.name == WILDCARD

    def matches_entry(self, entry: AccessEntry) -> bool:
        return (
            self.principal in (None, entry.principal)
            and self.host in (None, entry.host)
            and self.operation in (Operation.ANY, entry.operation)
            and self.permission in (Permission.ANY, entry.permission)
        )
