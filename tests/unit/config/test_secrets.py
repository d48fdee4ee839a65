"""Secrets that properties files refer to: found, limited, decrypted, and never shown in errors."""

import os

import pytest

from odradek.config import InvalidSetting
from odradek.config.encryption import (
    InvalidKey,
    NotDecrypted,
    decrypt,
    encrypt,
    read_key,
    write_key,
)
from odradek.config.redaction import redact
from odradek.config.secrets import references, resolve

KEY = bytes(range(32))
NONCE = b"n" * 12
FILES = {
    "/s/a.properties": "password=from-a-file\nother=x",
    "/s/dir/token": "from-a-directory",
    "/s/key": write_key(KEY),
    "/s/bad": "a=\\u12",
}
KAFKAS = "org.apache.kafka.common.config.provider."


def read(path: str) -> str:
    if path not in FILES:
        raise FileNotFoundError(2, "No such file or directory", path)
    return FILES[path]


def resolved(properties: dict[str, str], **environment: str) -> dict[str, str]:
    return resolve(properties, read, environment)


def refused(properties: dict[str, str], **environment: str) -> str:
    with pytest.raises(InvalidSetting) as caught:
        resolved(properties, **environment)
    return str(caught.value)


def test_each_provider_gives_its_secret() -> None:
    assert resolved(
        {
            "a": "${file:/s/a.properties:password}",
            "b": "${env:NAME}",
            "c": "${dir:/s/dir:token}",
            "d": 'x password="${env:NAME}" y="${dir:/s/dir:token}";',
            "e": "plain $5 ${} {x:y} ${no-colon}",
        },
        NAME="from-a-variable",
    ) == {
        "a": "from-a-file",
        "b": "from-a-variable",
        "c": "from-a-directory",
        "d": 'x password="from-a-variable" y="from-a-directory";',
        "e": "plain $5 ${} {x:y} ${no-colon}",
    }


def test_what_a_secret_contains_is_not_resolved_again() -> None:
    assert resolved({"a": "${env:A}"}, A="${env:B}", B="other") == {"a": "${env:B}"}


def test_an_encrypted_value_needs_its_key() -> None:
    text = "${encrypted:" + encrypt("a-sealed-password", KEY, NONCE) + "}"
    for properties, environment in (
        ({"odradek.secrets.key.file": "/s/key"}, {}),
        ({}, {"ODRADEK_SECRETS_KEY_FILE": "/s/key"}),
        ({}, {"ODRADEK_SECRETS_KEY": write_key(KEY)}),
    ):
        assert resolved({"p": text, **properties}, **environment) == {"p": "a-sealed-password"}
    assert "the key is missing" in refused({"p": text})
    other = write_key(bytes(32))
    assert "another key" in refused({"p": text}, ODRADEK_SECRETS_KEY=other)
    assert "32 bytes in base64" in refused({"p": text}, ODRADEK_SECRETS_KEY="short")
    assert "not an encrypted value" in refused(
        {"p": "${encrypted:hello}"}, ODRADEK_SECRETS_KEY=write_key(KEY)
    )


def test_a_changed_value_is_noticed_and_equal_ones_look_different() -> None:
    sealed = encrypt("secret", KEY, NONCE)
    assert decrypt(sealed, KEY) == "secret"
    assert encrypt("secret", KEY, os.urandom(12)) != sealed
    flipped = sealed[:-4] + ("A" if sealed[-4] != "A" else "B") + sealed[-3:]
    with pytest.raises(NotDecrypted, match="was changed since"):
        decrypt(flipped, KEY)
    with pytest.raises(InvalidKey):
        read_key("")


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        ("${vault:secret/a:b}", "there is no provider of secrets vault; there are dir, directory"),
        ("${env:MISSING}", "no variable MISSING"),
        ("${file:/s/none:a}", "/s/none cannot be read: No such file"),
        ("${file:/s/a.properties:missing}", "/s/a.properties has no missing"),
        ("${file:password}", "write it as ${file:PATH:KEY}"),
        ("${file:/s/bad:a}", "/s/bad is not a properties file"),
        ("${dir:/s/dir:../key}", "write it as ${dir:DIRECTORY:FILE}"),
        ("${env:a:b}", "write it as ${env:NAME}"),
    ],
)
def test_what_cannot_be_resolved_is_refused_with_the_name_of_the_setting(
    value: str, complaint: str
) -> None:
    said = refused({"ssl.key.password": value})
    assert "for ssl.key.password" in said
    assert complaint in said


def test_kafkas_lines_declare_providers_with_limits() -> None:
    lines = {
        "config.providers": "vars, files",
        "config.providers.vars.class": KAFKAS + "EnvVarConfigProvider",
        "config.providers.vars.param.allowlist.pattern": "BROKER_.*",
        "config.providers.files.class": KAFKAS + "FileConfigProvider",
        "config.providers.files.param.allowed.paths": "/s, /t",
    }
    given = {**lines, "a": "${vars:BROKER_PW}", "b": "${files:/s/a.properties:password}"}
    assert resolved(given, BROKER_PW="one") == {"a": "one", "b": "from-a-file"}
    assert "does not allow it" in refused({**lines, "a": "${vars:HOME}"}, HOME="/root")
    for path in ("/etc/passwd", "/s/../etc/passwd", "/sneaky"):
        assert "does not allow" in refused({**lines, "a": f"${{files:{path}:x}}"})


@pytest.mark.parametrize("class_name", ["com.example.VaultProvider", "", "os.system"])
def test_a_class_that_is_not_ours_is_refused(class_name: str) -> None:
    said = refused({"config.providers": "v", "config.providers.v.class": class_name})
    assert "config.providers.v.class" in said
    assert "FileConfigProvider" in said


def test_secrets_are_hidden_from_now_on() -> None:
    resolved({"a": "${file:/s/a.properties:password}", "ssl.key.password": "typed-in-plain"})
    assert redact("it said from-a-file and typed-in-plain") == "it said (hidden) and (hidden)"


def test_an_error_shows_no_secret() -> None:
    said = refused({"a.password": "pre-${env:MISSING}-hush-hush"})
    assert "hush-hush" not in said


def test_references_are_listed_without_values() -> None:
    found = references({"a": "${env:A} and ${file:/p:k}", "b": "plain", "c": "${encrypted:AAAA}"})
    assert [(one.name, one.text) for one in found] == [
        ("a", "${env:A}"),
        ("a", "${file:/p:k}"),
        ("c", "${encrypted:...}"),
    ]
