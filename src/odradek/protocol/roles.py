"""Roles and their bindings: who has which role on which resource.

A role is a named set of permissions (`security.roles` says which). A binding gives a role to a
principal, or to a group of principals, on a resource pattern: one name, all names (`*`), or all
names with a prefix. Roles are Odradek's own; Kafka has only ACLs. The numbers are those of the APIs
DescribeRoles and AlterRoles, and the display names are those of the tool and of the store.
"""

from enum import IntEnum
from typing import NamedTuple, Self

from odradek.protocol.acls import ResourcePattern


class Role(IntEnum):
    """A number that is not known here is `UNKNOWN`."""

    UNKNOWN = 0
    READER = 1
    WRITER = 2
    OWNER = 3
    OPERATOR = 4
    SECURITY_ADMIN = 5
    USER_ADMIN = 6

    @classmethod
    def _missing_(cls, value: object) -> Self:
        return cls(0)

    @property
    def display_name(self) -> str:
        """The name that people write: `security-admin`."""
        return self.name.lower().replace("_", "-")

    @classmethod
    def from_display_name(cls, name: str) -> Self:
        """Returns the role with this name, or `UNKNOWN`. Upper and lower case, and hyphens or
        underscores, make no difference."""
        plain_name = name.strip().upper().replace("-", "_")
        return cls[plain_name] if plain_name in cls.__members__ else cls(0)


class RoleBinding(NamedTuple):
    """`principal` is written as in `User:ada` or `Group:shop`."""

    principal: str
    role: Role
    resource: ResourcePattern
