"""Version 3: ACLs are searched, added and removed."""

from typing import Final, TypeVar
from urllib.parse import quote

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from odradek.protocol.acls import (
    AccessEntry,
    Acl,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from odradek.protocol.errors import KafkaError
from odradek.rest.links import Json, Links
from odradek.rest.v3.resources import CLUSTER, NOT_FOUND, OK, SERVER, Resources
from odradek.web.bodies import read_body
from odradek.web.endpoints import Endpoint, Parameter
from odradek.web.problems import Problem, json_response

Code = TypeVar("Code", ResourceType, PatternType, Operation, Permission)

_ACLS: Final = f"{CLUSTER}/acls"
_FILTER: Final = (
    Parameter("resource_type", doc="ANY, TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID, ..."),
    Parameter("resource_name", doc="The name of the resource; any if it is left out."),
    Parameter("pattern_type", doc="ANY, MATCH, LITERAL or PREFIXED."),
    Parameter("principal", doc="As User:ada; any if it is left out."),
    Parameter("host", doc="The address of a client; any if it is left out."),
    Parameter("operation", doc="ANY, ALL, READ, WRITE, ..."),
    Parameter("permission", doc="ANY, ALLOW or DENY."),
)
_FILTERS_ONLY: Final = frozenset({"ANY", "MATCH"})


class NewAcl(msgspec.Struct, forbid_unknown_fields=True):
    resource_type: str
    resource_name: str
    pattern_type: str
    principal: str
    host: str
    operation: str
    permission: str


class NewAcls(msgspec.Struct, forbid_unknown_fields=True):
    data: list[NewAcl]


class Acls(Resources):
    def endpoints(self) -> list[Endpoint]:
        created = {201: "They are there.", **NOT_FOUND, **SERVER}
        answers = {**OK, **NOT_FOUND, **SERVER}
        return [
            Endpoint("GET", _ACLS, self._search, "ACLs.", _FILTER, responses=answers),
            Endpoint(
                "POST", _ACLS, self._create, "Adds an ACL.", changes=True, body=NewAcl,
                responses=created,
            ),
            Endpoint(
                "POST", f"{_ACLS}:batch", self._create_many, "Adds ACLs.", changes=True,
                body=NewAcls, responses=created,
            ),
            Endpoint(
                "DELETE", _ACLS, self._delete,
                "Removes the ACLs that match; types, operation and permission must be given.",
                _FILTER, changes=True, responses=answers,
            ),
        ]  # fmt: skip

    async def _search(self, request: Request) -> Response:
        filter_ = _filter(self.endpoints()[0].query(request), needs_all=False)
        async with self.asked(request) as asked:
            found = await asked.admin.describe_acls(filter_)
            data = [acl_json(asked.links, acl) for acl in sorted(found, key=_order)]
            answer = asked.links.collection("Acl", ("acls",), data)
            if request.url.query:
                answer["metadata"]["self"] += f"?{request.url.query}"
            return json_response(answer)

    async def _create(self, request: Request) -> Response:
        return await self._add(request, [await read_body(request, NewAcl, missing=400)])

    async def _create_many(self, request: Request) -> Response:
        return await self._add(request, (await read_body(request, NewAcls, missing=400)).data)

    async def _add(self, request: Request, wanted: list[NewAcl]) -> Response:
        acls = [_acl(one) for one in wanted]
        async with self.asked(request) as asked:
            if acls:
                for error in (await asked.admin.create_acls(acls)).values():
                    if error is not None:
                        raise error
            location = acl_json(asked.links, acls[0])["metadata"]["self"] if acls else ""
            return Response(status_code=201, headers={"location": location} if location else None)

    async def _delete(self, request: Request) -> Response:
        filter_ = _filter(self.endpoints()[3].query(request), needs_all=True)
        async with self.asked(request) as asked:
            removed = (await asked.admin.delete_acls([filter_]))[filter_]
            if isinstance(removed, KafkaError):
                raise removed
            data = [acl_json(asked.links, acl) for acl in sorted(removed, key=_order)]
            return json_response({"data": data})


def _code(kind: type[Code], name: str, text: str) -> Code:
    """Returns the member that a text names; raises 400 for another text."""
    found = kind.from_display_name(text)
    if found == 0:
        known = ", ".join(member.name for member in kind if member)
        raise Problem(400, f"{name} is one of {known}, not {text!r}")
    return found


def _filter(query: dict[str, str | None], *, needs_all: bool) -> AclFilter:
    def text(name: str) -> str:
        given = query[name]
        if given is None and needs_all:
            raise Problem(400, f"{name} must be given: ANY means all")
        return given or "ANY"

    return AclFilter(
        _code(ResourceType, "resource_type", text("resource_type")),
        query["resource_name"] or None,
        _code(PatternType, "pattern_type", text("pattern_type")),
        query["principal"] or None,
        query["host"] or None,
        _code(Operation, "operation", text("operation")),
        _code(Permission, "permission", text("permission")),
    )


def _acl(new: NewAcl) -> Acl:
    for name in ("resource_type", "pattern_type", "operation", "permission"):
        if getattr(new, name).upper() in _FILTERS_ONLY:
            raise Problem(400, f"{name} of an ACL cannot be {getattr(new, name)}")
    return Acl(
        ResourcePattern(
            _code(ResourceType, "resource_type", new.resource_type),
            new.resource_name,
            _code(PatternType, "pattern_type", new.pattern_type),
        ),
        AccessEntry(
            new.principal,
            new.host,
            _code(Operation, "operation", new.operation),
            _code(Permission, "permission", new.permission),
        ),
    )


def _order(acl: Acl) -> tuple[str | int, ...]:
    """Returns what ACLs are sorted by: resource, principal, host, operation, permission."""
    resource, entry = acl
    return (
        resource.type, resource.name, resource.pattern, entry.principal, entry.host,
        entry.operation, entry.permission,
    )  # fmt: skip


def acl_json(links: Links, acl: Acl) -> Json:
    resource, entry = acl
    content = {
        "resource_type": resource.type.name,
        "resource_name": resource.name,
        "pattern_type": resource.pattern.name,
        "principal": entry.principal,
        "host": entry.host,
        "operation": entry.operation.name,
        "permission": entry.permission.name,
    }
    answer = links.resource("Acl", ("acls",), {"acl": None}, **content)
    query = "&".join(f"{name}={quote(value, safe='*')}" for name, value in content.items())
    answer["metadata"]["self"] += f"?{query}"
    return answer
