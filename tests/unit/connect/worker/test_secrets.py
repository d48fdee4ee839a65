"""References in configurations: from an allow-list, late, and never shown."""

from collections.abc import Iterator

import pytest

from odradek.config.redaction import forget_all, redact
from odradek.config.secrets import DeclaredProviders
from odradek.connect.errors import InvalidConfig
from odradek.connect.worker.secrets import HIDDEN, Secrets, kept

FILES = {"/run/secrets/db": "user=ada\npassword=pa55word!\n", "/etc/passwd": "root=x\n"}
CLASSES = "org.apache.kafka.common.config.provider."
REFERENCE = "${file:/run/secrets/db:password}"


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    yield
    forget_all()


def secrets(**lines: str) -> Secrets:
    given = {
        "config.providers": "file,env",
        "config.providers.file.class": f"{CLASSES}FileConfigProvider",
        "config.providers.file.param.allowed.paths": "/run/secrets",
        "config.providers.env.class": f"{CLASSES}EnvVarConfigProvider",
        "config.providers.env.param.allowlist.pattern": "CONNECT_.*",
    } | lines

    def read(path: str) -> str:
        if path not in FILES:
            raise FileNotFoundError(2, "No such file or directory")
        return FILES[path]

    environment = {"CONNECT_URL": "jdbc:x", "HOME": "/root"}
    return Secrets(DeclaredProviders(given, read, environment))


def test_what_is_declared_is_resolved_and_hidden_in_logs() -> None:
    found = secrets().resolved({"a": REFERENCE, "b": "${env:CONNECT_URL}?x"})
    assert found == {"a": "pa55word!", "b": "jdbc:x?x"}
    assert redact("log in with pa55word!") == "log in with (hidden)"


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("${file:/etc/passwd:root}", "allowed.paths /run/secrets does not allow"),
        ("${file:/run/secrets/../../etc/passwd:root}", "does not allow"),
        ("${env:HOME}", "does not allow it"),
        ("${dir:/run/secrets:db}", "does not declare the provider dir"),
        ("${encrypted:abc}", "does not declare the provider encrypted"),
        ("${file:/run/secrets/db:nothing}", "has no nothing"),
        ("${file:/run/secrets/none:x}", "cannot be read"),
    ],
)
def test_what_is_not_allowed_is_refused(value: str, reason: str) -> None:
    with pytest.raises(InvalidConfig, match=reason):
        secrets().resolved({"database.password": value})


def test_without_declarations_nothing_is_read() -> None:
    with pytest.raises(InvalidConfig, match="does not declare the provider file"):
        Secrets(DeclaredProviders({}, FILES.__getitem__, {})).resolved({"a": REFERENCE})


def test_text_that_only_looks_like_a_reference_stays() -> None:
    text = {"format": "${topic}-${timestamp}", "odd": "${other:x:y} ${1}"}
    assert secrets().resolved(text) == text


def test_tasks_get_the_reference_back() -> None:
    raw = {"password": REFERENCE, "table": "t"}
    made = {"password": "pa55word!", "table": "t", "query": "q"}
    assert secrets().with_references(raw, made) == {**made, "password": REFERENCE}


def test_passwords_are_not_shown_and_come_back_unchanged() -> None:
    stored = {"connector.class": "X", "db.password": "in the clear", "other.password": REFERENCE}
    shown = secrets().shown(stored)
    assert shown == {**stored, "db.password": HIDDEN}
    assert kept({**shown, "new": "1"}, stored) == {**stored, "new": "1"}
    assert kept({"db.password": HIDDEN}, {}) == {"db.password": HIDDEN}


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("mongodb.connection.string", "mongodb://ada:pa55word!@a,b/?x=1",
         "mongodb://ada:[hidden]@a,b/?x=1"),
        ("connection.url", "jdbc:postgresql://h:1/db?user=ada&password=pa55word!&ssl=true",
         "jdbc:postgresql://h:1/db?user=ada&password=[hidden]&ssl=true"),
        ("http.url", "https://ada:pa55word!@h/p?access_token=pa55word!",
         "https://ada:[hidden]@h/p?access_token=[hidden]"),
        ("http.headers.additional", "x:1,Authorization:Bearer pa55word!", "[hidden]"),
        ("http.url", "https://h:8080/a:b@c?d=e", "https://h:8080/a:b@c?d=e"),
        ("transforms.t.headers", "Authorization", "Authorization"),
    ],
)  # fmt: skip
def test_passwords_in_urls_and_headers_are_not_shown(name: str, value: str, shown: str) -> None:
    given = {name: value}
    assert secrets().shown(given) == {name: shown}
    assert kept({name: shown}, given) == given
    assert kept({name: f"{shown}-changed"}, given) == {name: f"{shown}-changed"}
    secrets().resolved(given)
    if name != "http.headers.additional":
        assert "pa55word!" not in redact(f"cannot reach {value}")


def test_a_long_value_is_looked_at_quickly() -> None:
    for text in ("://" + ":" * 200_000, "://" + "?a" * 100_000, "://a:" * 50_000):
        assert secrets().shown({"x": text}) == {"x": text}
