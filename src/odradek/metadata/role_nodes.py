"""The nodes of role bindings: one for each principal, below `/odradek/roles`, with JSON.

A principal whose bindings were all removed keeps its node, with an empty list
(`odradek.metadata.compare_and_set` says why).
"""

import json
from collections.abc import Iterable
from typing import Final

from odradek.metadata.json_fields import MalformedNode
from odradek.metadata.paths import node_name, node_name_meant
from odradek.protocol.acls import PatternType, ResourcePattern, ResourceType
from odradek.protocol.roles import Role, RoleBinding

ROLES: Final = "/odradek/roles"


def roles_path(principal: str) -> str:
    return f"{ROLES}/{node_name(principal)}"


def principal_of(path: str) -> str:
    return node_name_meant(path[len(ROLES) + 1 :])


def encode_bindings(bindings: Iterable[RoleBinding]) -> bytes:
    roles = [
        {
            "role": binding.role.display_name,
            "resourceType": binding.resource.type.display_name,
            "name": binding.resource.name,
            "patternType": binding.resource.pattern.name,
        }
        for binding in bindings
    ]
    return json.dumps({"version": 1, "roles": roles}, separators=(",", ":")).encode()


def decode_bindings(path: str, value: bytes) -> tuple[RoleBinding, ...]:
    principal = principal_of(path)
    try:
        roles = json.loads(value)["roles"]
        # Drops duplicates.
        return tuple(dict.fromkeys(_binding(path, principal, role) for role in roles))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise MalformedNode(path, "it is not a list of roles") from None


def _binding(path: str, principal: str, fields: dict[str, str]) -> RoleBinding:
    role = Role.from_display_name(fields["role"])
    kind = ResourceType.from_display_name(fields["resourceType"])
    pattern = PatternType.from_display_name(fields["patternType"])
    if role is Role.UNKNOWN or kind <= ResourceType.ANY or pattern <= PatternType.MATCH:
        raise MalformedNode(
            path, f"{fields['role']} on a {fields['resourceType']} is not a role that is known here"
        )
    return RoleBinding(principal, role, ResourcePattern(kind, str(fields["name"]), pattern))
