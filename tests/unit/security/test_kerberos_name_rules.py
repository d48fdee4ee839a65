"""Names of users from Kerberos principals. The expectations are those that Apache Kafka's own
documentation and Hadoop's rules, which Kafka took over, state."""

import pytest

from odradek.config.setting import InvalidSetting
from odradek.security.kerberos.name_rules import NameRules, NoRuleMatches


def named(principal: str, *rules: str) -> str:
    return NameRules(rules, default_realm=lambda: "EXAMPLE.COM").name(principal)


@pytest.mark.parametrize(
    ("rule", "principal", "name"),
    [
        ("DEFAULT", "ada@EXAMPLE.COM", "ada"),
        ("DEFAULT", "kafka/broker1@EXAMPLE.COM", "kafka"),
        ("RULE:[1:$1]", "ada@OTHER.COM", "ada"),
        ("RULE:[1:$1@$0](.*@OTHER.COM)s/@.*//", "ada@OTHER.COM", "ada"),
        ("RULE:[2:$1](johndoe)s/^.*$/guest/", "johndoe/host@EXAMPLE.COM", "guest"),
        ("RULE:[2:$1.$2]", "kafka/b1@EXAMPLE.COM", "kafka.b1"),
        ("RULE:[2:$1;$2](^.*;admin$)s/;admin$//", "ada/admin@EXAMPLE.COM", "ada"),
        ("RULE:[1:$1]/L", "ADA@EXAMPLE.COM", "ada"),
        ("RULE:[1:$1]/U", "ada@EXAMPLE.COM", "ADA"),
        ("RULE:[1:$1](.*)s/a/o/", "ada@EXAMPLE.COM", "oda"),
        ("RULE:[1:$1](.*)s/a/o/g", "ada@EXAMPLE.COM", "odo"),
        ("RULE:[1:$1](.*)s/a/o/g/U", "ada@EXAMPLE.COM", "ODO"),
        ("RULE:[1:$1](.*)s/(.*)-(.*)/$2-$1/L", "Ada-B@EXAMPLE.COM", "b-ada"),
        ("RULE:[1:$1](.*)s/_svc$//", "orders_svc@EXAMPLE.COM", "orders"),
    ],
)
def test_a_rule(rule: str, principal: str, name: str) -> None:
    assert named(principal, rule) == name


def test_the_first_rule_that_is_for_the_principal_counts() -> None:
    rules = ("RULE:[2:$1](hdfs)s/.*/storage/", "RULE:[2:$1]", "DEFAULT")
    assert named("hdfs/h@X", *rules) == "storage"
    assert named("yarn/h@X", *rules) == "yarn"
    assert named("ada@EXAMPLE.COM", *rules) == "ada"
    assert named("ada@EXAMPLE.COM") == "ada", "no rules: DEFAULT"
    assert named("ada") == "ada", "a name without a realm is simple already"


@pytest.mark.parametrize(
    ("rules", "principal", "reason"),
    [
        (("DEFAULT",), "ada@OTHER.COM", "no rule of .* is for ada@OTHER.COM"),
        (("RULE:[1:$1](b.*)",), "ada@EXAMPLE.COM", "no rule"),
        (("RULE:[2:$1]",), "ada@EXAMPLE.COM", "no rule"),
        (("RULE:[1:$1](ad)",), "ada@EXAMPLE.COM", "no rule"),
        (("RULE:[1:$1@$0]",), "ada@EXAMPLE.COM", "makes ada@EXAMPLE.COM"),
        (("RULE:[2:$1/$2]",), "a/b@EXAMPLE.COM", "makes a/b"),
        (("DEFAULT",), "a/b/c@EXAMPLE.COM", "not the name of a Kerberos principal"),
        (("DEFAULT",), r"a\@b@EXAMPLE.COM", "not the name of a Kerberos principal"),
    ],
)
def test_who_has_no_name_is_refused(rules: tuple[str, ...], principal: str, reason: str) -> None:
    with pytest.raises(NoRuleMatches, match=reason):
        named(principal, *rules)


def test_nobody_is_of_the_default_realm_if_there_is_none() -> None:
    with pytest.raises(NoRuleMatches):
        NameRules().name("ada@EXAMPLE.COM")


@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        ("default", "is not a rule"),
        ("RULE:[1:$1]x", "is not a rule"),
        ("RULE:[1:$2]", r"\$2 in \[1:\$2\]: there are 1 parts"),
        ("RULE:[1:$1](*)", "is not a regular expression"),
        ("RULE:[1:$1](.*)s/(a/b/", "is not a regular expression"),
        ("RULE:[1:$1](.*)s/a/$1/", "the pattern has 0 groups"),
    ],
)
def test_rules_that_cannot_be_read(rule: str, reason: str) -> None:
    with pytest.raises(InvalidSetting, match=reason) as refused:
        NameRules([rule], "listener.name.main.")
    assert refused.value.name == "listener.name.main.sasl.kerberos.principal.to.local.rules"
