"""Roles: who has which, granting and revoking them, and what a role would allow before it is given.

Roles are Odradek's own. They are asked for and changed with the rights of the user, who needs to be
a security-admin.
"""

from dataclasses import dataclass
from typing import Final

from starlette.responses import Response

from odradek.client.errors import ClientError, UnsupportedVersion
from odradek.console.asking import BadForm, Form, PageRequest, Pages
from odradek.protocol.acls import (
    CLUSTER_NAME,
    WILDCARD,
    Operation,
    PatternType,
    ResourcePattern,
    ResourceType,
)
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.roles import Role, RoleBinding
from odradek.security.roles import NAMED_TYPES, ROLES, complaint_about
from odradek.web.endpoints import Endpoint

_ROLES: Final = {
    role.display_name: f"{role.display_name}: {declared.purpose}"
    for role, declared in ROLES.items()
}
_RESOURCES: Final = {
    one.name: one.name.lower().replace("_", " ") for one in (*NAMED_TYPES, ResourceType.CLUSTER)
}
_PATTERNS: Final = {"LITERAL": "a whole name (* is all)", "PREFIXED": "a prefix"}
_MAX_SHOWN: Final = 500
_MAX_NAMED: Final = 12


@dataclass(frozen=True, slots=True)
class Preview:
    """What a role allows: sentences, and the names that it is about now, if they can be listed."""

    binding: RoleBinding
    sentences: list[str]
    names: list[str]
    count: int | None


class RolePages(Pages):
    def endpoints(self) -> list[Endpoint]:
        return [
            self.shows("/access/roles", self._list, "Roles, and the form to grant one."),
            self.changes("/access/roles", self._change, "Previews, grants or revokes a role."),
        ]

    async def _list(
        self, asked: PageRequest, problem: str = "", preview: Preview | None = None
    ) -> Response:
        bindings: list[RoleBinding] = []
        missing = ""
        try:
            bindings = await asked.admin.describe_roles()
        except UnsupportedVersion:
            missing = "Roles are Odradek's own; these brokers have ACLs only."
        except KafkaError as error:
            if error.code != ErrorCode.SECURITY_DISABLED:
                raise
            missing = "The brokers have no authorizer, so everybody may do everything."
        text = asked.query.text("q").lower()
        shown = sorted(
            binding
            for binding in bindings
            if text
            in f"{binding.principal} {binding.role.display_name} {binding.resource.name}".lower()
        )
        fields = dict(asked.form.fields or asked.query.fields)
        return asked.page(
            "access.html", "access", 400 if problem else 200, tab="roles", problem=problem,
            bindings=shown[:_MAX_SHOWN], count=len(shown), text=asked.query.text("q"),
            missing=missing, preview=preview, fields=fields, roles=_ROLES,
            resources=_RESOURCES, patterns=_PATTERNS, sentences=sentences,
        )  # fmt: skip

    async def _change(self, asked: PageRequest) -> Response:
        try:
            binding = binding_of(asked.form)
            if asked.form.text("action") == "preview":
                return await self._list(asked, preview=await _preview(asked, binding))
            if asked.form.text("action") == "revoke":
                answer = (await asked.admin.revoke_roles([binding]))[binding]
                words = f"{_words(binding, 'of')} was revoked."
            else:
                answer = (await asked.admin.grant_roles([binding]))[binding]
                words = f"{_words(binding, 'to')} was granted."
        except BadForm as error:
            return await self._list(asked, str(error))
        except UnsupportedVersion:
            return await self._list(asked, "Nothing was changed: these brokers have no roles.")
        except (KafkaError, ClientError) as error:
            return await self._list(asked, f"The brokers refused it: {error}")
        if answer is not None:
            return await self._list(asked, answer.message)
        return asked.go(asked.url("access", "roles"), "good", words)


def binding_of(form: Form) -> RoleBinding:
    """Returns the role that a form is about. Raises `BadForm` if no such role can be bound."""
    principal = form.needed("principal", "Principal")
    principal = principal if ":" in principal else f"User:{principal}"
    if not principal.partition(":")[2]:
        raise BadForm("Principal: the name is missing")
    role = Role.from_display_name(form.text("role"))
    kind = form.text("resource")
    if kind not in _RESOURCES:
        raise BadForm("On: choose one")
    if kind == "CLUSTER":
        resource = ResourcePattern(ResourceType.CLUSTER, CLUSTER_NAME)
    else:
        pattern = PatternType.PREFIXED if form.text("pattern") == "PREFIXED" else (
            PatternType.LITERAL
        )  # fmt: skip
        name = form.needed("resource_name", "Name")
        if pattern is PatternType.PREFIXED and name == WILDCARD:
            raise BadForm("Name: * as a prefix is a name that begins with *; choose a whole name")
        resource = ResourcePattern(ResourceType[kind], name, pattern)
    binding = RoleBinding(principal, role, resource)
    if complaint := complaint_about(binding):
        raise BadForm(complaint)
    return binding


async def _preview(asked: PageRequest, binding: RoleBinding) -> Preview:
    """Returns what a role would allow, with the names that exist now, as far as the user may see
    them."""
    resource = binding.resource
    names: list[str] | None = None
    try:
        if resource.type is ResourceType.TOPIC:
            names = list(await asked.admin.list_topics(include_internal=True))
        elif resource.type is ResourceType.GROUP:
            names = [group.group_id for group in await asked.admin.list_groups()]
        elif resource.type is ResourceType.TRANSACTIONAL_ID:
            names = [
                transaction.transactional_id
                for transaction in await asked.admin.list_transactions()
            ]
    except (KafkaError, ClientError):
        pass  # The sentences say enough.
    if names is None:
        return Preview(binding, sentences(binding), [], None)
    matching = sorted(name for name in names if _covers(resource, name))
    return Preview(binding, sentences(binding), matching[:_MAX_NAMED], len(matching))


def _covers(resource: ResourcePattern, name: str) -> bool:
    if resource.pattern is PatternType.PREFIXED:
        return name.startswith(resource.name)
    return resource.name in (WILDCARD, name)


def sentences(binding: RoleBinding) -> list[str]:
    """Returns what a binding allows, a sentence for each kind of resource."""
    declared, resource, who = ROLES.get(binding.role), binding.resource, binding.principal
    if declared is None:
        return [f"{who} gets nothing by this role, which this console does not know."]
    if resource.type is not ResourceType.CLUSTER:
        operations = declared.named.get(resource.type, ())
        return [f"{who} may {_listed(operations)} {_where(resource)}."]
    found = [f"{who} may {_listed(declared.on_cluster)} the cluster, for {declared.area.value}."]
    for kind, operations in declared.everywhere.items():
        found.append(f"{who} may {_listed(operations)} every {_spoken(kind)}.")
    return found


def _listed(operations: tuple[Operation, ...]) -> str:
    return ", ".join(operation.display_name for operation in operations)


def _where(resource: ResourcePattern) -> str:
    kind = _spoken(resource.type)
    if resource.pattern is PatternType.PREFIXED:
        return f"every {kind} whose name begins with {resource.name}"
    return f"every {kind}" if resource.name == WILDCARD else f"{kind} {resource.name}"


def _spoken(kind: ResourceType) -> str:
    return kind.name.lower().replace("_", " ")


def _words(binding: RoleBinding, preposition: str) -> str:
    where = "the cluster"
    if binding.resource.type is not ResourceType.CLUSTER:
        where = _where(binding.resource)
    return f"{binding.role.display_name} on {where} {preposition} {binding.principal}"
