"""The nodes of ACLs: one for each resource pattern, as Kafka stores them.

Literal patterns (and `*`) are at `/kafka-acl/Topic/NAME`, prefixed ones at
`/kafka-acl-extended/prefixed/Topic/NAME`. A pattern whose entries were all removed keeps its node,
with an empty list. Slashes in names are escaped, unlike in Kafka, which fails on them.
"""

import json
from collections.abc import Iterable
from typing import Final
from urllib.parse import quote, unquote

from odradek.metadata.json_fields import MalformedNode
from odradek.protocol.acls import (
    AccessEntry,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)

LITERAL_ACLS: Final = "/kafka-acl"
PREFIXED_ACLS: Final = "/kafka-acl-extended/prefixed"
ROOTS: Final = (LITERAL_ACLS + "/", PREFIXED_ACLS + "/")

# All printable ASCII characters except the slash and the percent sign.
_PLAIN: Final = " !\"#$&'()*+,-.:;<=>?@[\\]^_`{|}~"


def acl_path(resource: ResourcePattern) -> str:
    root = PREFIXED_ACLS if resource.pattern is PatternType.PREFIXED else LITERAL_ACLS
    name = quote(resource.name, safe=_PLAIN)
    if name in (".", ".."):
        name = name.replace(".", "%2E")
    return f"{root}/{resource.type.display_name}/{name}"


def nodes_above(resource: ResourcePattern) -> list[str]:
    """Returns the paths of the parents of a pattern's node, the topmost first."""
    steps = acl_path(resource).split("/")[1:-1]
    return ["/" + "/".join(steps[: depth + 1]) for depth in range(len(steps))]


def resource_of(path: str) -> ResourcePattern | None:
    """Returns the pattern of the node at a path; None if it is only a parent of such nodes."""
    for root, pattern in zip(ROOTS, (PatternType.LITERAL, PatternType.PREFIXED), strict=True):
        if path.startswith(root):
            kind, _, name = path[len(root) :].partition("/")
            resource_type = ResourceType.from_display_name(kind)
            if name and resource_type > ResourceType.ANY:
                return ResourcePattern(resource_type, unquote(name), pattern)
    return None


def encode_entries(entries: Iterable[AccessEntry]) -> bytes:
    acls = [
        {
            "principal": entry.principal,
            "permissionType": entry.permission.display_name,
            "operation": entry.operation.display_name,
            "host": entry.host,
        }
        for entry in entries
    ]
    return json.dumps({"version": 1, "acls": acls}, separators=(",", ":")).encode()


def decode_entries(path: str, value: bytes) -> tuple[AccessEntry, ...]:
    try:
        acls = json.loads(value)["acls"]
        # Drops duplicates.
        return tuple(dict.fromkeys(_entry(path, acl) for acl in acls))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise MalformedNode(path, "it is not a list of ACLs") from None


def _entry(path: str, acl: dict[str, str]) -> AccessEntry:
    operation = Operation.from_display_name(acl["operation"])
    permission = Permission.from_display_name(acl["permissionType"])
    if operation <= Operation.ANY or permission <= Permission.ANY:
        raise MalformedNode(path, f"{acl['permissionType']} {acl['operation']} is not an ACL")
    return AccessEntry(str(acl["principal"]), str(acl["host"]), operation, permission)
