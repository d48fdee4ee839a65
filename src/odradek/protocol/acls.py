"""Access rules (ACLs): resources, operations, principals, and the filters that find rules.

An ACL is an entry (which principal, from which host, may or may not do what) on a resource pattern:
one resource, all resources of a type, or all whose names begin with a prefix. The numbers are those
of the protocol; the titles are those that Kafka stores and that its tools show.
"""

from enum import IntEnum
from typing import Final, NamedTuple, Self

WILDCARD: Final = "*"
"""As the name of a literal pattern every resource, as a host every host."""

ANYBODY: Final = "User:*"
CLUSTER_NAME: Final = "kafka-cluster"
"""The one resource of its kind."""


class _Code(IntEnum):
    """A number of the protocol; a number that is not known here is `UNKNOWN`."""

    # The hash of an enum is written in Python, and rules are looked up by these for every request.
    __hash__ = int.__hash__

    @classmethod
    def _missing_(cls, value: object) -> Self:
        return cls(0)

    @property
    def title(self) -> str:
        return "".join(word.capitalize() for word in self.name.split("_"))

    @classmethod
    def from_title(cls, title: str) -> Self:
        """Returns the member with this title, in any case and with or without underscores.

        It is `UNKNOWN` if there is none.
        """
        plain_title = title.replace("_", "").lower()
        return next((member for member in cls if member.title.lower() == plain_title), cls(0))


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
    """`ANY` and `MATCH` are for filters only: any type, or all patterns that match a name."""

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
    """Finds ACLs; None and `ANY` match everything."""

    resource_type: ResourceType = ResourceType.ANY
    name: str | None = None
    pattern: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: Operation = Operation.ANY
    permission: Permission = Permission.ANY

    @property
    def is_understood(self) -> bool:
        return all((self.resource_type, self.pattern, self.operation, self.permission))

    def finds(self, resource: ResourcePattern) -> bool:
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

    def selects(self, entry: AccessEntry) -> bool:
        return (
            self.principal in (None, entry.principal)
            and self.host in (None, entry.host)
            and self.operation in (Operation.ANY, entry.operation)
            and self.permission in (Permission.ANY, entry.permission)
        )
