"""Who may do what: the interface of authorisers, and the one that follows access rules.

A broker without `authorizer.class.name` has none and asks nobody. Kafka's own class names stand
for `AclAuthorizer`; `module:Class` is one of your own.
"""

from abc import ABC, abstractmethod
from importlib import import_module
from typing import Final

from odradek.config import BrokerSettings, InvalidSetting
from odradek.protocol.acls import Operation, ResourceType
from odradek.security.acls import NO_RULES, AclIndex, Decision, Rules, Ruling
from odradek.security.principals import Principal

SETTING: Final = "authorizer.class.name"
_KAFKAS_NAMES: Final = (
    "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "kafka.security.authorizer.AclAuthorizer",
    "kafka.security.auth.SimpleAclAuthorizer",
)
_MAX_REMEMBERED: Final = 50_000


class Authorizer(ABC):
    """Made once a broker, with its settings. It is asked on the way of every request, so it
    answers at once and from memory; it must not raise."""

    def __init__(self, settings: BrokerSettings) -> None:
        self.settings = settings

    @abstractmethod
    def allows(
        self, principal: Principal, host: str, operation: Operation, kind: ResourceType, name: str
    ) -> bool: ...

    def allows_any(
        self, principal: Principal, host: str, operation: Operation, kind: ResourceType
    ) -> bool:
        """Whether the operation is allowed on some resource of a kind, whichever it is."""
        return self.allows(principal, host, operation, kind, "*")

    def follow(self, rules: Rules) -> None:  # noqa: B027 - many authorisers have no use for it
        """The cluster's access rules are these from now on."""

    def reason(
        self, principal: Principal, host: str, operation: Operation, kind: ResourceType, name: str
    ) -> str:
        """Why it allows or denies that, for the log."""
        return type(self).__name__


class AclAuthorizer(Authorizer):
    """Follows the cluster's access rules. Invariant: what is remembered was decided by the
    present rules."""

    def __init__(self, settings: BrokerSettings) -> None:
        super().__init__(settings)
        self._super_users = _super_users(settings.super_users)
        self._allows_unregulated = settings.allow_everyone_if_no_acl_found
        self._index = AclIndex()
        self._rules = NO_RULES
        self._remembered: dict[tuple[Principal, str, Operation, ResourceType, str], bool] = {}

    def follow(self, rules: Rules) -> None:
        if rules is not self._rules:
            self._rules = rules
            self._index = AclIndex(rules)
            self._remembered = {}

    def allows(
        self, principal: Principal, host: str, operation: Operation, kind: ResourceType, name: str
    ) -> bool:
        action = (principal, host, operation, kind, name)
        remembered = self._remembered.get(action)
        if remembered is not None:
            return remembered
        # Whoever asks for ever new names is not to fill our memory.
        if len(self._remembered) >= _MAX_REMEMBERED:
            self._remembered.clear()
        allowed = self._remembered[action] = principal in self._super_users or self._is_allowed(
            self._index.decide(str(principal), host, operation, kind, name).ruling
        )
        return allowed

    def allows_any(
        self, principal: Principal, host: str, operation: Operation, kind: ResourceType
    ) -> bool:
        # A name that no rule knows: super users, and everybody where only rules restrict.
        return self.allows(principal, host, operation, kind, "\0") or self._index.allows_any(
            str(principal), host, operation, kind
        )

    def reason(
        self, principal: Principal, host: str, operation: Operation, kind: ResourceType, name: str
    ) -> str:
        if principal in self._super_users:
            return "it is a super user"
        return _why(self._index.decide(str(principal), host, operation, kind, name))

    def _is_allowed(self, ruling: Ruling) -> bool:
        return ruling is Ruling.ALLOWED or (
            ruling is Ruling.UNREGULATED and self._allows_unregulated
        )


def load_authorizer(settings: BrokerSettings) -> Authorizer | None:
    """The one that the settings name, if they do. Raises `InvalidSetting`."""
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
        found = getattr(import_module(module), class_name)
    except (ImportError, AttributeError, ValueError) as error:
        raise InvalidSetting(SETTING, name, f"it cannot be imported: {error}") from error
    if not (isinstance(found, type) and issubclass(found, Authorizer)):
        raise InvalidSetting(
            SETTING, name, "it is not a subclass of odradek.security.authorizer.Authorizer"
        )
    return found(settings)


def _super_users(text: str) -> frozenset[Principal]:
    try:
        return frozenset(Principal.parse(one) for one in text.split(";") if one.strip())
    except ValueError as error:
        raise InvalidSetting("super.users", text, str(error)) from error


def _why(decision: Decision) -> str:
    if decision.ruling is Ruling.UNREGULATED:
        return "no rule is about this resource"
    if decision.resource is None or decision.entry is None:
        return "no rule allows it"
    resource, entry = decision.resource, decision.entry
    return (
        f"{entry.permission.title} {entry.operation.title} to {entry.principal} from {entry.host}"
        f" on {resource.type.title}:{resource.pattern.name}:{resource.name}"
    )
