"""Who may do what: ACLs, users, and what decides about a request ("why may she?")."""

from typing import Any, Final

from starlette.responses import Response

from odradek.client.admin.roles import AccessExplanation
from odradek.client.admin.users import ScramDeletion, ScramUpsertion
from odradek.client.errors import ClientError, UnsupportedVersion
from odradek.console.asking import BadForm, Form, PageRequest, Pages
from odradek.protocol.acls import (
    CLUSTER_NAME,
    AccessEntry,
    Acl,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.security.scram import ScramMechanism
from odradek.web.endpoints import Endpoint

RESOURCES: Final = {
    one.name: one.display_name
    for one in ResourceType
    if one not in (ResourceType.UNKNOWN, ResourceType.ANY)
}
OPERATIONS: Final = {
    one.name: one.display_name for one in Operation if one not in (Operation.UNKNOWN, Operation.ANY)
}
_MAX_SHOWN: Final = 500


class AccessPages(Pages):
    def endpoints(self) -> list[Endpoint]:
        return [
            self.shows("/access", self._acls, "ACLs."),
            self.changes("/access/add", self._add, "Adds an ACL."),
            self.changes("/access/remove", self._remove, "Removes an ACL."),
            self.shows("/access/why", self._why, "What decides whether something is allowed."),
            self.shows("/access/users", self._users, "Users with passwords."),
            self.changes("/access/users", self._change_user, "Makes, changes or deletes a user."),
        ]

    # ACLs

    async def _acls(self, asked: PageRequest, problem: str = "") -> Response:
        acls: list[Acl] = []
        missing = ""
        try:
            acls = await asked.admin.describe_acls()
        except KafkaError as error:
            if error.code != ErrorCode.SECURITY_DISABLED:
                raise
            missing = "The brokers have no authorizer, so everybody may do everything."
        text = asked.query.text("q").lower()
        shown = sorted(
            acl for acl in acls if text in f"{acl.entry.principal} {acl.resource.name}".lower()
        )
        return asked.page(
            "access.html", "access", 400 if problem else 200, tab="acls", acls=shown[:_MAX_SHOWN],
            count=len(shown), text=asked.query.text("q"), missing=missing, problem=problem,
            resources=RESOURCES, operations=OPERATIONS, fields=dict(asked.form.fields),
        )  # fmt: skip

    async def _add(self, asked: PageRequest) -> Response:
        try:
            acl = acl_of(asked.form)
        except BadForm as error:
            return await self._acls(asked, str(error))
        answer = (await asked.admin.create_acls([acl]))[acl]
        if answer is not None:
            return await self._acls(asked, answer.message)
        return asked.go(asked.url("access"), "good", f"{acl_words(acl)} was added.")

    async def _remove(self, asked: PageRequest) -> Response:
        acl = acl_of(asked.form)
        resource, entry = acl
        exact = AclFilter(
            resource.type, resource.name, resource.pattern, entry.principal, entry.host,
            entry.operation, entry.permission,
        )  # fmt: skip
        removed = (await asked.admin.delete_acls([exact]))[exact]
        if isinstance(removed, KafkaError):
            return await self._acls(asked, removed.message)
        if not removed:
            return await self._acls(asked, "There is no such ACL any more.")
        return asked.go(asked.url("access"), "good", f"{acl_words(acl)} was removed.")

    # Why

    async def _why(self, asked: PageRequest) -> Response:
        query = asked.query
        answer: AccessExplanation | None = None
        problem = ""
        if query.has("principal"):
            try:
                resource = _resource(query)
                answer = await asked.admin.explain_access(
                    _principal(query), _operation(query), resource._replace(
                        pattern=PatternType.LITERAL
                    ),
                    host=query.text("host") or "*",
                )  # fmt: skip
            except BadForm as error:
                problem = str(error)
            except UnsupportedVersion:
                problem = "Only Odradek's brokers explain this; Apache Kafka's cannot."
        return asked.page(
            "access.html", "access", 400 if problem else 200, tab="why", answer=answer,
            problem=problem, resources=RESOURCES, operations=OPERATIONS,
            fields=dict(query.fields), rule_words=_rule_words,
        )  # fmt: skip

    # Users

    async def _users(self, asked: PageRequest, problem: str = "") -> Response:
        notes: list[str] = []
        users: dict[str, Any] = {}
        try:
            found = await asked.admin.describe_user_scram_credentials()
            users = {
                name: answer
                for name, answer in sorted(found.items())
                if not isinstance(answer, KafkaError)
            }
        except (KafkaError, ClientError) as error:
            notes.append(f"Users: {error}")
        return asked.page(
            "access.html", "access", 400 if problem else 200, tab="users", users=users,
            notes=notes, problem=problem, fields={"name": asked.form.text("name")},
        )  # fmt: skip

    async def _change_user(self, asked: PageRequest) -> Response:
        form = asked.form
        name = form.text("name")
        try:
            if not name:
                raise BadForm("The name is missing")
            if form.text("action") == "delete":
                if form.text("confirm") != name:
                    raise BadForm(f"Nothing was done: type {name} to confirm it")
                known = (await asked.admin.describe_user_scram_credentials([name]))[name]
                if isinstance(known, KafkaError):
                    raise BadForm(known.message)
                changes: list[ScramUpsertion | ScramDeletion] = [
                    ScramDeletion(name, mechanism) for mechanism in known
                ]
                words = f"User {name} has no password any more."
            else:
                password = form.raw("password")
                if len(password) < 8:
                    raise BadForm("The password needs at least 8 characters")
                changes = [ScramUpsertion.of_password(name, password, ScramMechanism.SHA_512)]
                words = f"User {name} has a new password."
            for change in changes:  # A request may name a user once.
                answer = (await asked.admin.alter_user_scram_credentials([change]))[name]
                if answer is not None:
                    raise BadForm(answer.message)
        except (BadForm, ValueError) as error:
            return await self._users(asked, str(error))
        return asked.go(asked.url("access", "users"), "good", words)


def acl_of(form: Form) -> Acl:
    """Returns the ACL that a form describes. Raises `BadForm`."""
    permission = Permission.DENY if form.text("permission") == "DENY" else Permission.ALLOW
    entry = AccessEntry(_principal(form), form.text("host") or "*", _operation(form), permission)
    return Acl(_resource(form), entry)


def _resource(form: Form) -> ResourcePattern:
    kind = form.text("resource")
    if kind not in RESOURCES:
        raise BadForm("Resource: choose one")
    name = CLUSTER_NAME if kind == "CLUSTER" else form.needed("resource_name", "Resource name")
    is_prefix = form.text("pattern") == "PREFIXED"
    pattern = PatternType.PREFIXED if is_prefix else PatternType.LITERAL
    return ResourcePattern(ResourceType[kind], name, pattern)


def _principal(form: Form) -> str:
    principal = form.needed("principal", "Principal")
    return principal if ":" in principal else f"User:{principal}"


def _operation(form: Form) -> Operation:
    name = form.text("operation")
    if name not in OPERATIONS:
        raise BadForm("Operation: choose one")
    return Operation[name]


def acl_words(acl: Acl) -> str:
    resource, entry = acl
    verb = "may" if entry.permission is Permission.ALLOW else "may not"
    where = f"{resource.type.display_name} {resource.name}"
    if resource.pattern is PatternType.PREFIXED:
        where += "*"
    return f"{entry.principal} {verb} {entry.operation.display_name} on {where}"


def _rule_words(rule: Any) -> str:
    if rule.role is not None:
        return f"role {rule.role} of {rule.entry.principal} on {rule.resource.name}"
    return acl_words(Acl(rule.resource, rule.entry))
