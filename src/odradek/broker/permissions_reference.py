"""The reference page of permissions: `python -m odradek.broker.permissions_reference FILE`.

It shows which operations on which resources each API asks for, which roles have them, and what each
role permits. The first comes from the declarations of the handlers, whose words `needs` reads: a
test compares them with what the handlers ask for in fact.
"""

import re
import sys
from collections.abc import Iterator
from typing import Final, NamedTuple

from odradek.broker import handlers
from odradek.broker.permissions import OpenToAll, Permission, Required
from odradek.protocol.acls import Operation, ResourceType
from odradek.protocol.acls import Permission as AclPermission
from odradek.protocol.apis import AnyApi
from odradek.security.acl_index import covers
from odradek.security.roles import ROLES, Area, permissions_of
from odradek.world import OsDisk

_HEAD: Final = """\
# Permissions

Which permissions each API asks for if there is an authorizer (`authorizer.class.name`), and which
[roles](../security.md#roles) have them. A request about several resources is answered for each:
what is allowed is done, the rest is refused. [apis.md](apis.md) has the versions of the APIs.

"A role that has it" is one that is bound on the resource, or on the cluster. Roles of the cluster
are limited to an area: security-admin may Alter the cluster for ACLs and roles alone. Settings of
a broker that say who may log in (`sasl.*`, `ssl.truststore.*`) need AlterConfigs on the cluster for
users too: operator and user-admin together, a super user, or an ACL.

## APIs

| API | permission | of these, | roles that have it |
|---|---|---|---|
"""

_ROLES_HEAD: Final = """
## Roles

What each role permits, by what it is bound on. `odradek roles describe` shows the same.

| role | bound on | may | on |
|---|---|---|---|
"""

_WORD: Final = re.compile(
    r"[A-Z_]{4,}|on it\b|transactional ids?|topics?|groups?|cluster|users?|tokens?"
)
_RESOURCES: Final = {
    "topic": ResourceType.TOPIC,
    "on it": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "cluster": ResourceType.CLUSTER,
    "transactional id": ResourceType.TRANSACTIONAL_ID,
    "user": ResourceType.USER,
    "token": ResourceType.DELEGATION_TOKEN,
}


class Need(NamedTuple):
    operation: Operation
    kind: ResourceType
    area: Area = Area.OPERATION


def needs(permission: Permission) -> list[Need]:
    """Returns the operations that a permission names, each with a type of resource."""
    if isinstance(permission, Required):
        return [Need(permission.operation, permission.resource_type, permission.area)]
    if isinstance(permission, OpenToAll):
        return []
    found = _needs_in(permission.description)
    return list(dict.fromkeys(_in_area(need, permission.area) for need in found))


def _in_area(need: Need, area: Area) -> Need:
    return need._replace(area=area) if need.kind is ResourceType.CLUSTER else need


def _needs_in(description: str) -> Iterator[Need]:
    """Reads a sentence such as `WRITE on the group, ALTER or CREATE on each topic`: every resource
    belongs to the operations that were named last."""
    operations: list[Operation] = []
    is_complete = False
    for word in _WORD.findall(description):
        if word in Operation.__members__:
            operations = [] if is_complete else operations
            operations.append(Operation[word])
            is_complete = False
            continue
        kind = _RESOURCES.get(word) or _RESOURCES[word.removesuffix("s")]
        for operation in operations:
            yield Need(operation, kind)
        is_complete = True


def roles_for(need: Need) -> list[str]:
    """Returns the names of the roles that permit it."""
    found = []
    for role, declaration in ROLES.items():
        permitted = [
            *declaration.named.get(need.kind, ()),
            *declaration.everywhere.get(need.kind, ()),
        ]
        if need.kind is ResourceType.CLUSTER and declaration.area is need.area:
            permitted += declaration.on_cluster
        if any(covers(AclPermission.ALLOW, allowed, need.operation) for allowed in permitted):
            found.append(role.display_name)
    return found


def reference() -> str:
    apis = "".join(_rows(api) for api in handlers.served_apis().values())
    roles = "".join(
        f"| {role.display_name} | {bound} | {operations} | {where} |\n"
        for role in ROLES
        for bound, operations, where in permissions_of(role)
    )
    return _HEAD + apis + _ROLES_HEAD + roles


def _rows(api: AnyApi) -> str:
    handler = handlers.find_handler(api.key)
    assert handler is not None  # It is served.
    described = handler.permission.description
    rows = []
    for need in needs(handler.permission):
        where = need.kind.name.lower().replace("_", " ")
        area = "" if need.area is Area.OPERATION else f", for {need.area.value}"
        single = f"{need.operation.display_name} on {where}{area}"
        rows.append((single, ", ".join(roles_for(need)) or "none"))
    first, *others = rows or [("", "")]
    lines = [f"| {api.name} | {described} | {first[0]} | {first[1]} |\n"]
    lines += [f"| | | {single} | {roles} |\n" for single, roles in others]
    return "".join(lines)


if __name__ == "__main__":
    OsDisk().replace(sys.argv[1], reference().encode())
