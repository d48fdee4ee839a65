"""All that decides about access on one broker: super users, ACLs, roles, and the default.

A `RuleBook` is immutable and has no I/O. The authorizer makes a new one when ACLs or roles change,
and asks it for a verdict; `security.explanation` asks it for the reasons. It decides in this order:

1. A super user may do everything. A group may be a super user: then all of its members are.
2. An ACL that denies the operation to the client, to one of its groups or to everybody denies it.
3. An ACL, or a role that is bound on a matching name or prefix, allows it.
4. A role that is bound on the cluster allows it.
5. If no ACL and no role of step 3 is about the resource at all, for anybody,
   `allow.everyone.if.no.acl.found` decides.
6. Everything else is denied.
"""

from enum import Enum
from typing import NamedTuple

from odradek.protocol.acls import (
    CLUSTER_NAME,
    AccessEntry,
    Operation,
    ResourcePattern,
    ResourceType,
)
from odradek.security.acl_index import NO_RULES, AclIndex, Rules, Ruling, concerned
from odradek.security.principals import Principal
from odradek.security.roles import (
    NO_BINDINGS,
    Area,
    Bindings,
    ExpandedRoles,
    expand,
    with_roles,
)


class Cause(Enum):
    """What decided. The values are those of the API ExplainAccess, and of the tool's JSON."""

    SUPER_USER = "super-user"
    DENIED_BY_ACL = "denied-by-acl"
    ALLOWED_BY_ACL = "allowed-by-acl"
    ALLOWED_BY_ROLE = "allowed-by-role"
    OPEN_WITHOUT_RULES = "open-without-rules"
    CLOSED_WITHOUT_RULES = "closed-without-rules"
    NO_RULE_ALLOWS = "no-rule-allows"
    OTHER_AUTHORIZER = "other-authorizer"
    NO_AUTHORIZER = "no-authorizer"


_ALLOWING = frozenset(
    (
        Cause.SUPER_USER,
        Cause.ALLOWED_BY_ACL,
        Cause.ALLOWED_BY_ROLE,
        Cause.OPEN_WITHOUT_RULES,
        Cause.NO_AUTHORIZER,
    )
)


class Verdict(NamedTuple):
    """`resource` and `entry` are the ACL that decided, or the one that the deciding role is as good
    as; None if no rule did."""

    cause: Cause
    resource: ResourcePattern | None = None
    entry: AccessEntry | None = None

    @property
    def is_allowed(self) -> bool:
        return self.cause in _ALLOWING


class RuleBook:
    __slots__ = (
        "_index",
        "_is_open",
        "_with_everywhere",
        "acls",
        "bindings",
        "roles",
        "super_users",
    )

    def __init__(
        self,
        acls: Rules = NO_RULES,
        bindings: Bindings = NO_BINDINGS,
        *,
        super_users: frozenset[str] = frozenset(),
        is_open_without_rules: bool = False,
    ) -> None:
        """`super_users` are principals as text, as in `User:admin`."""
        self.acls = acls
        self.bindings = bindings
        self.super_users = super_users
        self.roles: ExpandedRoles = expand(bindings)
        self._is_open = is_open_without_rules
        rules = with_roles(acls, self.roles.named)
        self._index = AclIndex(rules)
        everywhere = self.roles.everywhere
        self._with_everywhere = (
            AclIndex(with_roles(rules, everywhere)) if everywhere else self._index
        )

    def judge(
        self,
        principal: Principal,
        host: str,
        operation: Operation,
        kind: ResourceType,
        name: str,
        *,
        area: Area = Area.OPERATION,
    ) -> Verdict:
        """Decides about one operation on one resource. `area` matters for the cluster alone."""
        if self.is_super_user(principal):
            return Verdict(Cause.SUPER_USER)
        who = concerned(principal)
        ruling, resource, entry = self._index.decide(who, host, operation, kind, name)
        if ruling is Ruling.ALLOWED:
            assert resource is not None  # It is allowed by an entry.
            is_acl = entry in self.acls.get(resource, ())
            cause = Cause.ALLOWED_BY_ACL if is_acl else Cause.ALLOWED_BY_ROLE
            return Verdict(cause, resource, entry)
        if entry is not None:
            return Verdict(Cause.DENIED_BY_ACL, resource, entry)
        wide = self._cluster_roles(kind, area).decide(who, host, operation, kind, name)
        if wide.ruling is Ruling.ALLOWED:
            return Verdict(Cause.ALLOWED_BY_ROLE, wide.resource, wide.entry)
        if ruling is Ruling.DENIED:
            return Verdict(Cause.NO_RULE_ALLOWS)
        return Verdict(Cause.OPEN_WITHOUT_RULES if self._is_open else Cause.CLOSED_WITHOUT_RULES)

    def allows_any(
        self, principal: Principal, host: str, operation: Operation, kind: ResourceType
    ) -> bool:
        """Returns whether the operation may be allowed on any resource of a type."""
        if kind is ResourceType.CLUSTER:
            return self.judge(principal, host, operation, kind, CLUSTER_NAME).is_allowed
        # A name that no rule can have tells whether the principal is a super user, or whether
        # resources without rules are open to all.
        return self.judge(
            principal, host, operation, kind, "\0"
        ).is_allowed or self._with_everywhere.allows_any(
            concerned(principal), host, operation, kind
        )

    def is_super_user(self, principal: Principal) -> bool:
        return bool(self.super_users) and (
            str(principal) in self.super_users
            or any(group in self.super_users for group in principal.groups)
        )

    def _cluster_roles(self, kind: ResourceType, area: Area) -> AclIndex:
        is_cluster = kind is ResourceType.CLUSTER
        return AclIndex(self.roles.on_cluster[area] if is_cluster else self.roles.everywhere)
