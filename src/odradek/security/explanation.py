"""Why an operation is allowed or denied, and what would have to be added to allow it.

`explain` repeats the decision of the rule book and lists every rule about the resource, with the
reason why it counts or does not. The API ExplainAccess answers with it; `odradek acls --explain`
prints it.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from odradek.protocol.acls import (
    CLUSTER_NAME,
    WILDCARD,
    AccessEntry,
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from odradek.protocol.roles import Role, RoleBinding
from odradek.security.acl_index import concerned, covers
from odradek.security.principals import Principal
from odradek.security.roles import ROLES, Area
from odradek.security.rule_book import Cause, RuleBook, Verdict

# A resource may have thousands of ACLs. Those that count come first.
MAX_RULES: Final = 100

_AREA_OPERATIONS: Final = (Operation.ALTER, Operation.DESCRIBE, Operation.ALTER_CONFIGS)


class Question(NamedTuple):
    """What is asked: may this principal do this operation on this resource, from this host?"""

    principal: Principal
    host: str
    operation: Operation
    kind: ResourceType
    name: str

    @property
    def resource(self) -> ResourcePattern:
        return ResourcePattern(self.kind, self.name)


class ConsideredRule(NamedTuple):
    """An ACL about the resource, or a role that permits something on it (`role` is then its name).
    `counts` says whether it is about this client, host and operation, and `remark` why."""

    resource: ResourcePattern
    entry: AccessEntry
    role: str | None
    counts: bool
    remark: str


class Explanation(NamedTuple):
    """`reason` is a sentence. `missing` are rules of which each alone would allow the operation,
    and `in_the_way` ACLs that deny it and would have to be removed first; both are empty if it is
    allowed."""

    is_allowed: bool
    cause: Cause
    reason: str
    rules: tuple[ConsideredRule, ...] = ()
    missing: tuple[Acl, ...] = ()
    missing_roles: tuple[RoleBinding, ...] = ()
    in_the_way: tuple[Acl, ...] = ()


def explain(book: RuleBook, question: Question) -> Explanation:
    verdict = book.judge(*question)
    considered = sorted(
        (*_acls(book, question), *_roles(book, question)), key=lambda rule: not rule.counts
    )
    rules = tuple(considered[:MAX_RULES])
    reason = _reason(book, question, verdict)
    if verdict.is_allowed:
        return Explanation(True, verdict.cause, reason, rules)
    in_the_way = tuple(
        Acl(rule.resource, rule.entry)
        for rule in considered
        if rule.counts and rule.entry.permission is Permission.DENY
    )
    allows_already = any(
        rule.counts and rule.entry.permission is Permission.ALLOW for rule in considered
    )
    missing, missing_roles = ((), ()) if allows_already else _missing(question)
    return Explanation(False, verdict.cause, reason, rules, missing, missing_roles, in_the_way)


def verdict_sentence(book: RuleBook, question: Question) -> str:
    """Returns the reason alone, for the log."""
    return _reason(book, question, book.judge(*question))


def _reason(book: RuleBook, question: Question, verdict: Verdict) -> str:
    principal = question.principal
    match verdict.cause:
        case Cause.SUPER_USER:
            groups = [group for group in principal.groups if group in book.super_users]
            by_group = str(principal) not in book.super_users and groups
            return f"it is in {groups[0]}, a super user" if by_group else "it is a super user"
        case Cause.OPEN_WITHOUT_RULES:
            return (
                "no rule is about this resource, and allow.everyone.if.no.acl.found=true opens"
                " such resources to everybody"
            )
        case Cause.CLOSED_WITHOUT_RULES:
            return "no rule is about this resource"
        case Cause.NO_RULE_ALLOWS:
            return "no rule allows it"
    # A rule decided.
    assert verdict.resource is not None
    assert verdict.entry is not None
    if verdict.cause is Cause.ALLOWED_BY_ROLE:
        binding = _binding(book, verdict, question)
        role, ruled = binding.role.display_name, verdict.entry.operation
        by = "" if ruled is question.operation else f", by {ruled.display_name}"
        return f"the role {role} of {binding.principal} on {shown(binding.resource)}{by}"
    return shown_acl(Acl(verdict.resource, verdict.entry))


def _binding(book: RuleBook, verdict: Verdict, question: Question) -> RoleBinding:
    """Returns a binding that permits what the verdict says."""
    assert verdict.entry is not None
    for rule, binding in _bindings(book, question):
        if rule == verdict.entry and (
            binding.resource == verdict.resource or binding.resource.type is ResourceType.CLUSTER
        ):
            return binding
    raise AssertionError("a role decided that nobody has")


def _bindings(book: RuleBook, question: Question) -> Iterator[tuple[AccessEntry, RoleBinding]]:
    """Yields what roles permit on the resource, to anybody, with the binding that does."""
    for of_principal in book.bindings.values():
        for binding in of_principal:
            declaration = ROLES.get(binding.role)
            if declaration is None:
                continue
            operations: tuple[Operation, ...] = ()
            if binding.resource.type is ResourceType.CLUSTER:
                if question.kind is not ResourceType.CLUSTER:
                    operations = declaration.everywhere.get(question.kind, ())
                elif declaration.area is Area.OPERATION:
                    operations = declaration.on_cluster
            elif _matches(binding.resource, question):
                operations = declaration.named.get(question.kind, ())
            for operation in operations:
                yield (
                    AccessEntry(binding.principal, WILDCARD, operation, Permission.ALLOW),
                    binding,
                )


def _matches(resource: ResourcePattern, question: Question) -> bool:
    if resource.type is not question.kind:
        return False
    if resource.pattern is PatternType.PREFIXED:
        return question.name.startswith(resource.name)
    return resource.name in (question.name, WILDCARD)


def _acls(book: RuleBook, question: Question) -> Iterator[ConsideredRule]:
    who = concerned(question.principal)
    for resource, entries in book.acls.items():
        if _matches(resource, question):
            for entry in entries:
                yield _considered(question, who, resource, entry, None)


def _roles(book: RuleBook, question: Question) -> Iterator[ConsideredRule]:
    who = concerned(question.principal)
    for entry, binding in _bindings(book, question):
        rule = _considered(question, who, binding.resource, entry, binding.role)
        # A role permits many operations: those that were not asked for only distract.
        if rule.counts:
            yield rule
    if question.kind is ResourceType.CLUSTER and question.operation in _AREA_OPERATIONS:
        yield from _other_areas(book, question, who)


def _other_areas(
    book: RuleBook, question: Question, who: tuple[str, ...]
) -> Iterator[ConsideredRule]:
    """Yields the roles that permit the operation on the cluster for one purpose alone."""
    for of_principal in book.bindings.values():
        for binding in of_principal:
            declaration = ROLES.get(binding.role)
            if (
                declaration is not None
                and binding.principal in who
                and binding.resource.type is ResourceType.CLUSTER
                and declaration.area is not Area.OPERATION
                and question.operation in declaration.on_cluster
            ):
                yield ConsideredRule(
                    binding.resource,
                    AccessEntry(binding.principal, WILDCARD, question.operation, Permission.ALLOW),
                    binding.role.display_name,
                    False,
                    f"it permits this for {declaration.area.value} alone",
                )


def _considered(
    question: Question,
    who: tuple[str, ...],
    resource: ResourcePattern,
    entry: AccessEntry,
    role: Role | None,
) -> ConsideredRule:
    remark = _why_not(question, who, entry)
    counts = remark is None
    if remark is None:
        remark = _why(question, resource, entry)
    return ConsideredRule(
        resource, entry, None if role is None else role.display_name, counts, remark
    )


def _why_not(question: Question, who: tuple[str, ...], entry: AccessEntry) -> str | None:
    if entry.principal not in who:
        return "it is about another principal"
    if entry.host not in (question.host, WILDCARD):
        return f"it is about the host {entry.host}"
    if not covers(entry.permission, entry.operation, question.operation):
        implied = covers(Permission.ALLOW, entry.operation, question.operation)
        if entry.permission is Permission.DENY and implied:
            return (
                f"to deny {entry.operation.display_name} does not deny"
                f" {question.operation.display_name}"
            )
        return f"it is about {entry.operation.display_name}"
    return None


def _why(question: Question, resource: ResourcePattern, entry: AccessEntry) -> str:
    whose = "its principal"
    if entry.principal != str(question.principal):
        whose = "everybody" if entry.principal not in question.principal.groups else "its group"
    if resource.type is ResourceType.CLUSTER:
        where = "the cluster"
    elif resource.pattern is PatternType.PREFIXED:
        where = f"names that begin with {resource.name}"
    else:
        where = "all names" if resource.name == WILDCARD else "this name"
    remark = f"it is about {whose} and {where}"
    if entry.operation is Operation.ALL:
        return f"{remark}; All is every operation"
    if entry.operation is not question.operation:
        asked, ruled = question.operation.display_name, entry.operation.display_name
        return f"{remark}; whoever may {ruled} may {asked}"
    return f"{remark}; a rule that denies wins" if entry.permission is Permission.DENY else remark


def _missing(question: Question) -> tuple[tuple[Acl, ...], tuple[RoleBinding, ...]]:
    """Returns an ACL and roles of which each would allow it: the roles with the fewest other
    permissions first."""
    principal, operation, kind = str(question.principal), question.operation, question.kind
    resource = question.resource
    acl = Acl(resource, AccessEntry(principal, WILDCARD, operation, Permission.ALLOW))
    roles = []
    for role, declaration in ROLES.items():
        permitted = declaration.named.get(kind, ())
        on = resource
        if kind is ResourceType.CLUSTER:
            permitted = declaration.on_cluster if declaration.area is Area.OPERATION else ()
        elif not permitted and not declaration.named:
            permitted = declaration.everywhere.get(kind, ())
            on = ResourcePattern(ResourceType.CLUSTER, CLUSTER_NAME)
        if any(covers(Permission.ALLOW, allowed, operation) for allowed in permitted):
            roles.append(RoleBinding(principal, role, on))
    return (acl,), tuple(roles)


def shown(resource: ResourcePattern) -> str:
    return f"{resource.type.display_name}:{resource.pattern.name}:{resource.name}"


def shown_acl(acl: Acl) -> str:
    entry = acl.entry
    return (
        f"{entry.permission.display_name} {entry.operation.display_name} to {entry.principal}"
        f" from {entry.host} on {shown(acl.resource)}"
    )
