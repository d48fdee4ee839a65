"""Authorisers: super users, resources without rules, rules that change, classes of one's own."""

import pytest

from odradek.config import BrokerSettings, InvalidSetting
from odradek.invariants import InvariantViolation
from odradek.protocol.acls import (
    AccessEntry,
    Operation,
    Permission,
    ResourcePattern,
    ResourceType,
)
from odradek.security.authorizer import AclAuthorizer, Authorizer, load_authorizer
from odradek.security.principals import ANONYMOUS, Principal
from odradek.security.rule_book import RuleBook

ALICE, ADMIN = Principal("User", "alice"), Principal("User", "admin")
TOPIC = ResourceType.TOPIC


class NightShift(Authorizer):
    """Lets everybody read, and nobody do anything else."""

    def allows(
        self, principal: Principal, host: str, operation: Operation, kind: ResourceType, name: str
    ) -> bool:
        return operation in (Operation.READ, Operation.DESCRIBE)


def loaded(name: str, **settings: str) -> Authorizer | None:
    properties = {key.replace("_", "."): value for key, value in settings.items()}
    return load_authorizer(
        BrokerSettings.from_properties({"authorizer.class.name": name, **properties})
    )


def standard(**settings: str) -> Authorizer:
    found = loaded("org.apache.kafka.metadata.authorizer.StandardAuthorizer", **settings)
    assert isinstance(found, AclAuthorizer)
    return found


def entry(
    principal: str = "User:alice",
    operation: Operation = Operation.READ,
    permission: Permission = Permission.ALLOW,
) -> AccessEntry:
    return AccessEntry(principal, "*", operation, permission)


def test_without_a_name_there_is_none() -> None:
    assert loaded("") is None


@pytest.mark.parametrize(
    "name", ["kafka.security.authorizer.AclAuthorizer", "kafka.security.auth.SimpleAclAuthorizer"]
)
def test_kafkas_older_names_stand_for_ours(name: str) -> None:
    assert isinstance(loaded(name), AclAuthorizer)


def test_an_authorizer_of_ones_own() -> None:
    mine = loaded("tests.unit.security.test_authorizer:NightShift")
    assert mine is not None
    assert mine.allows(ALICE, "h", Operation.READ, TOPIC, "t")
    assert not mine.allows(ALICE, "h", Operation.WRITE, TOPIC, "t")
    assert not mine.allows_any(ALICE, "h", Operation.WRITE, TOPIC)
    mine.follow({})
    assert mine.reason(ALICE, "h", Operation.READ, TOPIC, "t") == "NightShift"


@pytest.mark.parametrize(
    "name",
    ["com.example.Mine", "no_such_module:Mine", "tests.unit.security.test_authorizer:ALICE", ":"],
)
def test_what_cannot_be_loaded_is_refused(name: str) -> None:
    with pytest.raises(InvalidSetting, match=r"authorizer\.class\.name"):
        loaded(name)


def test_super_users_may_do_everything() -> None:
    authorizer = standard(super_users="User:admin; User:CN=x,OU=y")
    authorizer.follow(
        {ResourcePattern(TOPIC, "*"): (entry("User:*", Operation.ALL, Permission.DENY),)}
    )
    assert authorizer.allows(ADMIN, "h", Operation.WRITE, TOPIC, "t")
    assert authorizer.allows_any(ADMIN, "h", Operation.WRITE, TOPIC)
    subject = Principal("User", "CN=x,OU=y")
    assert authorizer.allows(subject, "h", Operation.WRITE, TOPIC, "t")
    assert not authorizer.allows(ALICE, "h", Operation.WRITE, TOPIC, "t")
    with pytest.raises(InvalidSetting, match=r"super\.users"):
        standard(super_users="admin")


def test_resources_without_rules_are_closed_unless_told_otherwise() -> None:
    rules = {ResourcePattern(TOPIC, "t"): (entry(),)}
    closed, opened = standard(), standard(allow_everyone_if_no_acl_found="true")
    for authorizer in (closed, opened):
        authorizer.follow(rules)
        assert authorizer.allows(ALICE, "h", Operation.READ, TOPIC, "t")
        assert not authorizer.allows(ANONYMOUS, "h", Operation.READ, TOPIC, "t")
    assert not closed.allows(ALICE, "h", Operation.READ, TOPIC, "other")
    assert opened.allows(ALICE, "h", Operation.READ, TOPIC, "other")
    assert opened.allows_any(ANONYMOUS, "h", Operation.WRITE, TOPIC)


def test_what_is_remembered_goes_with_the_rules() -> None:
    authorizer = standard()
    resource = ResourcePattern(TOPIC, "t")
    read = (ALICE, "h", Operation.READ, TOPIC, "t")
    assert not authorizer.allows(*read)
    authorizer.follow({resource: (entry(),)})
    assert authorizer.allows(*read)
    assert authorizer.allows(*read)
    authorizer.follow({})
    assert not authorizer.allows(*read)


def test_a_decision_that_outlives_its_rules_is_noticed() -> None:
    authorizer = standard()
    assert isinstance(authorizer, AclAuthorizer)
    resource = ResourcePattern(TOPIC, "t")
    authorizer.follow({resource: (entry(),)})
    assert authorizer.allows(ALICE, "h", Operation.READ, TOPIC, "t")
    authorizer._book = RuleBook()  # The rules change, and the decisions stay.
    with pytest.raises(InvariantViolation, match="not made by the present ACLs"):
        authorizer.allows(ALICE, "h", Operation.READ, TOPIC, "t")


def test_the_log_is_told_why() -> None:
    authorizer = standard(super_users="User:admin")
    authorizer.follow({ResourcePattern(TOPIC, "t"): (entry(),)})
    assert (
        authorizer.reason(ALICE, "h", Operation.DESCRIBE, TOPIC, "t")
        == "Allow Read to User:alice from * on Topic:LITERAL:t"
    )
    assert authorizer.reason(ALICE, "h", Operation.WRITE, TOPIC, "t") == "no rule allows it"
    assert "no rule is about" in authorizer.reason(ALICE, "h", Operation.WRITE, TOPIC, "u")
    assert "super user" in authorizer.reason(ADMIN, "h", Operation.WRITE, TOPIC, "u")


@pytest.mark.parametrize("text", ["", "alice", "User:", ":alice"])
def test_a_principal_has_a_kind_and_a_name(text: str) -> None:
    with pytest.raises(ValueError, match="expected type:name"):
        Principal.parse(text)


def test_a_principal_reads_as_it_is_written() -> None:
    assert str(Principal.parse("User:CN=a:b,OU=c")) == "User:CN=a:b,OU=c"


def test_long_names_do_not_fill_the_memory() -> None:
    """A group may be named by megabytes, and everybody may ask whether it exists."""
    made = standard()
    for number in range(100):
        assert not made.allows(ALICE, "h", Operation.READ, ResourceType.GROUP, f"{number}" * 10_000)
    assert isinstance(made, AclAuthorizer)
    assert sum(len(name) for *_, name in made._decided) < 10_000
