"""Authorizers answer whether a principal may do an operation on a resource.

`Authorizer` is the interface, and `AclAuthorizer` the one that follows the ACLs and the roles of
the cluster: it remembers decisions, and asks `security.rule_book` for new ones. The setting
`authorizer.class.name` chooses: the names of Kafka's own classes select `AclAuthorizer`, and
`module:Class` is a Python class of the operator. The name comes from the broker's own file alone: a
client that may change settings must not choose which code runs. A broker without this setting has
no authorizer and allows everything.
"""

from abc import ABC, abstractmethod
from importlib import import_module
from typing import TYPE_CHECKING, Final

from odradek.config import BrokerSettings, InvalidSetting
from odradek.invariants import InvariantViolation, is_thorough
from odradek.protocol.acls import CLUSTER_NAME, Operation, ResourceType
from odradek.security.acl_index import NO_RULES, Rules
from odradek.security.principals import Principal
from odradek.security.roles import NO_BINDINGS, Area, Bindings
from odradek.security.rule_book import Cause, RuleBook

if TYPE_CHECKING:
    from odradek.security.explanation import Explanation

SETTING: Final = "authorizer.class.name"
_KAFKAS_NAMES: Final = (
    "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "kafka.security.authorizer.AclAuthorizer",
    "kafka.security.auth.SimpleAclAuthorizer",
)
_MAX_DECIDED: Final = 50_000
# Decisions about longer names are not remembered: groups and transactional ids may be as long as a
# request, and a client without any permission may ask about them. Names of topics are shorter.
_MAX_NAME_LENGTH: Final = 300

_Action = tuple[Principal, str, Operation, ResourceType, str]


class Authorizer(ABC):
    """A broker makes one with its settings. It is asked while a request is served, often several
    times, so it must decide at once, from memory, and must not raise. `allows` is all that a class
    of your own needs.

    `principal` is the client, with the groups that its log-in gave it; `host` is its address."""

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

    def allows_on_cluster(
        self, principal: Principal, host: str, operation: Operation, area: Area
    ) -> bool:
        """Returns whether an operation on the cluster is allowed, if it is about something in
        particular: about ACLs and roles, or about users. Kafka makes no such difference, and an
        authorizer need not."""
        return self.allows(principal, host, operation, ResourceType.CLUSTER, CLUSTER_NAME)

    def follow(self, rules: Rules) -> None:  # noqa: B027 - many authorizers have no use for it
        """Called with all ACLs of the cluster at the start, and when they have changed."""

    def follow_roles(self, bindings: Bindings) -> None:  # noqa: B027 - as above
        """Called with all role bindings of the cluster at the start, and when they have changed."""

    def reason(
        self, principal: Principal, host: str, operation: Operation, kind: ResourceType, name: str
    ) -> str:
        """Returns why the operation is allowed or denied, for the log."""
        return type(self).__name__

    def explain(
        self, principal: Principal, host: str, operation: Operation, kind: ResourceType, name: str
    ) -> "Explanation":
        """Returns what decides about the operation and what would have to be added, for
        `odradek acls --explain`. By default that is the reason alone."""
        from odradek.security.explanation import Explanation  # noqa: PLC0415 - seldom asked

        asked = (principal, host, operation, kind, name)
        return Explanation(self.allows(*asked), Cause.OTHER_AUTHORIZER, self.reason(*asked))


class AclAuthorizer(Authorizer):
    """Follows the ACLs and the roles of the cluster. Invariant: every decision in `_decided` was
    made by the present ones."""

    def __init__(self, settings: BrokerSettings) -> None:
        super().__init__(settings)
        self._super_users = _super_users(settings.super_users)
        self._rules = NO_RULES
        self._bindings = NO_BINDINGS
        self._decided: dict[_Action, bool] = {}
        self._book = self._write_book()

    def follow(self, rules: Rules) -> None:
        if rules is not self._rules:
            self._rules = rules
            self._book = self._write_book()

    def follow_roles(self, bindings: Bindings) -> None:
        if bindings is not self._bindings:
            self._bindings = bindings
            self._book = self._write_book()

    def _write_book(self) -> RuleBook:
        self._decided = {}
        return RuleBook(
            self._rules,
            self._bindings,
            super_users=self._super_users,
            is_open_without_rules=self.settings.allow_everyone_if_no_acl_found,
        )

    def allows(
        self, principal: Principal, host: str, operation: Operation, kind: ResourceType, name: str
    ) -> bool:
        action = (principal, host, operation, kind, name)
        decided = self._decided.get(action)
        if decided is not None:
            if is_thorough():
                self._check(action, decided)
            return decided
        if len(name) > _MAX_NAME_LENGTH:
            return self._book.judge(*action).is_allowed
        # A client that asks for ever new names must not fill the memory.
        if len(self._decided) >= _MAX_DECIDED:
            self._decided.clear()
        allowed = self._decided[action] = self._book.judge(*action).is_allowed
        return allowed

    def _check(self, action: _Action, decided: bool) -> None:
        if decided is not self._book.judge(*action).is_allowed:
            raise InvariantViolation(
                "AclAuthorizer", f"a decision about {action} was not made by the present ACLs"
            )

    def allows_any(
        self, principal: Principal, host: str, operation: Operation, kind: ResourceType
    ) -> bool:
        return self._book.allows_any(principal, host, operation, kind)

    def allows_on_cluster(
        self, principal: Principal, host: str, operation: Operation, area: Area
    ) -> bool:
        return self._book.judge(
            principal, host, operation, ResourceType.CLUSTER, CLUSTER_NAME, area=area
        ).is_allowed

    def reason(
        self, principal: Principal, host: str, operation: Operation, kind: ResourceType, name: str
    ) -> str:
        from odradek.security.explanation import (  # noqa: PLC0415 - not for allowed operations
            Question,
            verdict_sentence,
        )

        return verdict_sentence(self._book, Question(principal, host, operation, kind, name))

    def explain(
        self, principal: Principal, host: str, operation: Operation, kind: ResourceType, name: str
    ) -> "Explanation":
        from odradek.security.explanation import Question, explain  # noqa: PLC0415 - seldom asked

        return explain(self._book, Question(principal, host, operation, kind, name))


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


def _super_users(text: str) -> frozenset[str]:
    try:
        return frozenset(str(Principal.parse(user)) for user in text.split(";") if user.strip())
    except ValueError as error:
        raise InvalidSetting("super.users", text, str(error)) from error
