"""Distinguished names as Java writes them, and the rules that make principals of them."""

import pytest

from odradek.config.setting import InvalidSetting
from odradek.security.tls.distinguished_names import distinguished_name
from odradek.security.tls.principal_mapping import NoRuleMatches, PrincipalMapping


def certificate(*attributes: tuple[str, str]) -> dict[str, object]:
    return {"subject": tuple((attribute,) for attribute in attributes)}


@pytest.mark.parametrize(
    ("attributes", "name"),
    [
        (
            [
                ("countryName", "AT"),
                ("organizationName", "Example"),
                ("organizationalUnitName", "Ops"),
                ("commonName", "Alice"),
            ],
            "CN=Alice,OU=Ops,O=Example,C=AT",
        ),
        ([("commonName", 'a,b+c"d\\e<f>g;h')], 'CN=a\\,b\\+c\\"d\\\\e\\<f\\>g\\;h'),
        ([("commonName", "#first")], "CN=\\#first"),
        ([("commonName", " both ")], "CN=\\ both\\ "),
        ([("commonName", "a\0b")], "CN=a\\00b"),
        ([("userId", "ada"), ("domainComponent", "org")], "DC=org,UID=ada"),
        ([("emailAddress", "a@b")], "1.2.840.113549.1.9.1=#160361" + "4062"),
        ([("1.2.3.4", "x" * 200)], "1.2.3.4=#0c81c8" + "78" * 200),
        ([], ""),
    ],
)
def test_distinguished_names(attributes: list[tuple[str, str]], name: str) -> None:
    assert distinguished_name(certificate(*attributes)) == name


def test_several_attributes_in_one_place_are_joined() -> None:
    pair = (("commonName", "Alice"), ("userId", "ada"))
    assert distinguished_name({"subject": (pair,)}) == "CN=Alice+UID=ada"


RULES = (
    "RULE:^CN=robot-([0-9]+),OU=machines,.*$/Robot$1/U,"
    "RULE:^CN=(.*?),OU=exam,.*$/$1/L,RULE:CN=plain/none/,"
    "RULE:^CN=(?<name>.*?),OU=a\\/b$/$1\\/x/,DEFAULT"
)


@pytest.mark.parametrize(
    ("name", "principal"),
    [
        ("CN=robot-7,OU=machines,O=Exam", "ROBOT7"),
        ("CN=Alice,OU=exam,O=Exam,C=AT", "alice"),
        ("CN=plain", "none"),
        ("CN=plainer", "CN=plainer"),
        ("CN=Bob,OU=a/b", "Bob/x"),
        ("CN=Else,OU=other", "CN=Else,OU=other"),
    ],
)
def test_the_first_rule_that_matches_counts(name: str, principal: str) -> None:
    assert PrincipalMapping(RULES).name(name) == principal


def test_without_rules_the_name_is_kept() -> None:
    assert PrincipalMapping("").name("CN=Alice") == "CN=Alice"


def test_no_rule_matches() -> None:
    with pytest.raises(NoRuleMatches):
        PrincipalMapping("RULE:^CN=x$/x/").name("CN=y")


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ("RULE:^CN=(.*)$/$1", "is not a rule"),
        ("RULE:^CN=($/$1/", "not a regular expression"),
        ("RULE:^CN=(.*)$/$2/", r"\$2 in \$2: the pattern has 1 group$"),
        ("DEFAULT,nonsense", "nonsense is not a rule"),
    ],
)
def test_bad_rules_are_refused(rules: str, message: str) -> None:
    with pytest.raises(InvalidSetting, match=message):
        PrincipalMapping(rules)


@pytest.mark.parametrize(
    ("rules", "name"),
    [
        (r"RULE:^CN=robot-(\d+)$/robot$1/", "CN=robot-\u0663"),
        (r"RULE:^CN=(\w+)$/$1/", "CN=adm\u0131n"),
        ("RULE:(?i)^CN=kafka$/broker/", "CN=\u212aafka"),
    ],
)
def test_classes_are_about_ascii_as_in_java(rules: str, name: str) -> None:
    with pytest.raises(NoRuleMatches):
        PrincipalMapping(rules).name(name)


def test_a_rule_may_ask_for_the_cases_of_all_letters() -> None:
    assert PrincipalMapping("RULE:(?iu)^CN=\u00e4da$/ada/").name("CN=\u00c4da") == "ada"
