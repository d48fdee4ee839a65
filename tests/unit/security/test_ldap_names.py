"""Names of users in distinguished names and filters: each stays one value, whatever is in it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sansldap import LDAPFilter

from odradek.security.ldap.connection import Server
from odradek.security.ldap.names import DN, USER, dn_value, first_value, parse_filter, with_names

HOSTILE = ["*)(uid=*", "*", "a)(|(uid=*", "\\2a", "\0", "ada,ou=admins", "ada\\", "#a", " a ", "é"]


@given(st.text(min_size=1).filter(lambda text: text == text.strip() and text.isprintable()))
def test_a_value_of_a_distinguished_name_comes_back(text: str) -> None:
    assert first_value(f"uid={dn_value(text)},ou=people") == text


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_adds_no_part_to_a_distinguished_name(name: str) -> None:
    escaped = dn_value(name)
    assert not set(escaped.replace("\\", "")) & set(',+;=<>"# \0')
    assert first_value(f"uid={escaped},ou=people") == name.strip()


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_is_one_value_of_a_filter(name: str) -> None:
    template = "(&(objectClass=person)(|(uid={user})(!(mail={user}))))"
    made = with_names(parse_filter(template, (USER,)), {USER: name})
    assert made.filters[1].filters[0].value == name.encode()  # type: ignore[attr-defined]
    assert made.filters[1].filters[1].filter.value == name.encode()  # type: ignore[attr-defined]


def test_groups_in_groups() -> None:
    rule = "(member:1.2.840.113556.1.4.1941:={dn})"
    made = with_names(parse_filter(rule, (DN,)), {DN: "uid=*)(x=y"})
    assert made.value == b"uid=*)(x=y"  # type: ignore[attr-defined]


def test_a_filter_without_names_stays() -> None:
    made = with_names(parse_filter("(&(cn=a*)(member={dn}))", (DN,)), {DN: "uid=x", USER: "y"})
    assert made == LDAPFilter.from_string("(&(cn=a*)(member=uid=x))")


@pytest.mark.parametrize(
    "text", ["", "(", "(uid=ada)", "(uid={user}*)", "(uid=x{user})", "uid", "(&(uid={user})"]
)
def test_filters_that_are_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the texts are those of others
        parse_filter(text, (USER,))


@pytest.mark.parametrize(
    ("dn", "value"),
    [
        ("cn=shop,ou=groups,dc=x", "shop"),
        (r"CN=a\,b\2Bc,DC=x", "a,b+c"),
        (r"cn=\c3\a9", "é"),
        ("cn=one+sn=two", "one"),
        ("", ""),
        ("shop", ""),
        ("cn=\\", ""),
    ],
)
def test_the_first_value(dn: str, value: str) -> None:
    assert first_value(dn) == value


def test_urls() -> None:
    assert Server.parse("ldap://one", starts_tls=True)[1:] == ("one", 389, False, True)
    assert Server.parse("ldaps://[::1]:6360", starts_tls=True)[1:] == ("::1", 6360, True, False)
    for url in (
        "one:389",
        "http://one",
        "ldap://",
        "ldap://one/dc=x",
        "ldap://u:p@one",
        "ldap://a:b",
    ):
        with pytest.raises(ValueError):  # noqa: PT011 - the texts are those of others
            Server.parse(url, starts_tls=False)
