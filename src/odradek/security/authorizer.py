"""Authorizers answer whether a principal may do an operation on a resource.

`Authorizer` is the interface, and `AclAuthorizer` the one that follows the ACLs of the cluster: it
knows the super users and the default, and asks `security.acl_index` what the rules say. The
setting `authorizer.class.name` chooses: the names of Kafka's own classes select `AclAuthorizer`,
and `module:Class` is a Python class of the operator. A broker without this setting has no
authorizer and allows everything.
"""

from abc import ABC, abstractmethod
from importlib import import_module
from typing import Final

from odradek.config import BrokerSettings, InvalidSetting
from odradek.invariants import InvariantViolation, is_thorough
from odradek.protocol.acls import Operation, ResourceType
from odradek.security.acl_index import NO_RULES, AclIndex, Decision, Rules, Ruling
from odradek.security.principals import Principal

SETTING: Final = "authorizer.class.name"
_KAFKAS_NAMES: Final = (
    "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "kafka.security.authorizer.AclAuthorizer",
    "kafka.security.auth.SimpleAclAuthorizer",
)
_MAX_DECIDED: Final = 50_000

_Action = tuple[Principal, str, Operation, ResourceType, str]


class Authorizer(ABC):
    """A broker makes one with its settings. It is asked while a request is served, often several
    times, so it must decide at once, from memory, and must not raise."""

    def __init__(self, settings: BrokerSettings) -> None:
        self.settings = settings

    @abstractmethod
    def allows(
        self, principal: Principal, host: str, operation: Operation, kind: ResourceType, name: str
    ) -> bool: ...

    def allows_any(
        self, principal: Principal, host: str, operation: Operation, kind: ResourceType
    ) -> bool:
        """Returns whether the operation is allowed on any resource of a type."""
        return self.allows(principal, host, operation, kind, "*")

    def follow(self, rules: Rules) -> None:  # noqa: B027 - many authorizers have no use for it
        """Called with all ACLs of the cluster at the start, and when they have changed."""

    def reason(
        self, principal: Principal, host: str, operation: Operation, kind: ResourceType, name: str
    ) -> str:
        """Returns why the operation is allowed or denied, for the log."""
        return type(self).__name__


class AclAuthorizer(Authorizer):
    """Follows the ACLs of the cluster. Invariant: every decision in `_decided` was made by the
    present ACLs."""

    def __init__(self, settings: BrokerSettings) -> None:
        super().__init__(settings)
        self._super_users = _super_users(settings.super_users)
        self._allows_unregulated = settings.allow_everyone_if_no_acl_found
        self._index = AclIndex()
        self._rules = NO_RULES
        self._decided: dict[_Action, bool] = {}

    def follow(self, rules: Rules) -> None:
        if rules is not self._rules:
            self._rules = rules
            self._index = AclIndex(rules)
            self._decided = {}

    def allows(
        self, principal: Principal, host: str, operation: Operation, kind: ResourceType, name: str
    ) -> bool:
        action = (principal, host, operation, kind, name)
        decided = self._decided.get(action)
        if decided is not None:
            if is_thorough():
                self._check(action, decided)
            return decided
        # A client that asks for ever new names must not fill the memory.
        if len(self._decided) >= _MAX_DECIDED:
            self._decided.clear()
        allowed = self._decided[action] = self._decide(*action)
        return allowed

    def _decide(
        self, principal: Principal, host: str, operation: Operation, kind: ResourceType, name: str
    ) -> bool:
        """Decides in this order: super users, the ACLs, and for a resource without ACLs
        `allow.everyone.if.no.acl.found`."""
        if principal in self._super_users:
            return True
        ruling = self._index.decide(str(principal), host, operation, kind, name).ruling
        return ruling is Ruling.ALLOWED or (
            ruling is Ruling.UNREGULATED and self._allows_unregulated
        )

    def _check(self, action: _Action, decided: bool) -> None:
        if decided is not self._decide(*action):
            raise InvariantViolation(
                "AclAuthorizer", f"a decision about {action} was not made by the present ACLs"
            )

    def allows_any(
        self, principal: Principal, host: str, operation: Operation, kind: ResourceType
    ) -> bool:
        # A name that no ACL can have tells whether the principal is a super user, or whether
        # resources without ACLs are open to all.
        return self.allows(principal, host, operation, kind, "\0") or self._index.allows_any(
            str(principal), host, operation, kind
        )

    def reason(
        self, principal: Principal, host: str, operation: Operation, kind: ResourceType, name: str
    ) -> str:
        if principal in self._super_users:
            return "it is a super user"
        return _why(self._index.decide(str(principal), host, operation, kind, name))


def load_authorizer(settings: BrokerSettings) -> Authorizer | None:
    """Returns the authorizer that the settings name, or None. Raises `InvalidSetting`."""
    name = settings.authorizer_class_name
    if not name:
        return None
    if name in _KAFKAS_NAMES:
        return AclAuthorizer(settings)
    module, colon, class_name = name.partition(":")
    if not colon:
        raise InvalidSetting(
            SETTING, name, f"write module:Class for one in Python, or {_KAFKAS_NAMES[0]}"
        )
    try:
        authorizer_class = getattr(import_module(module), class_name)
    except (ImportError, AttributeError, ValueError) as error:
        raise InvalidSetting(SETTING, name, f"it cannot be imported: {error}") from error
    if not (isinstance(authorizer_class, type) and issubclass(authorizer_class, Authorizer)):
        raise InvalidSetting(
            SETTING, name, "it is not a subclass of odradek.security.authorizer.Authorizer"
        )
    return authorizer_class(settings)


def _super_users(text: str) -> frozenset[Principal]:
    try:
        return frozenset(Principal.parse(user) for user in text.split(";") if user.strip())
    except ValueError as error:
        raise InvalidSetting("super.users", text, str(error)) from error


def _why(decision: Decision) -> str:
    if decision.ruling is Ruling.UNREGULATED:
        return "no rule is about this resource"
    if decision.resource is None or decision.entry is None:
        return "no rule allows it"
    resource, entry = decision.resource, decision.entry
    return (
        f"{entry.permission.display_name} {entry.operation.display_name} to {entry.principal}"
        f" from {entry.host}"
        f" on {resource.type.display_name}:{resource.pattern.name}:{resource.name}"
    )
