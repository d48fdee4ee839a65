"""Secrets are hidden in logs, errors and crash output, whoever writes them."""

import io
import json
import logging
from collections.abc import Iterator

import pytest

from odradek.config import InvalidSetting
from odradek.config.broker_settings import BrokerSettings
from odradek.config.kinds import password
from odradek.config.redaction import forget_all, is_sensitive_name, protect, redact
from odradek.telemetry.logs import formatter_for
from odradek.world import SystemClock

JAAS = (
    'org.apache.kafka.common.security.plain.PlainLoginModule required username="ada"'
    ' password="jaas-secret" user_max="second-secret" serviceName="kafka";'
)


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    forget_all()
    yield
    forget_all()


def test_passwords_inside_a_line_of_jaas_are_hidden_too() -> None:
    protect(JAAS)
    assert redact("failed with jaas-secret and second-secret of ada at kafka") == (
        "failed with (hidden) and (hidden) of ada at kafka"
    )


def test_the_value_of_a_switch_is_no_secret() -> None:
    protect('x.ScramLoginModule required tokenauth="true" password="opensesame";')
    assert redact("it is true: opensesame") == "it is true: (hidden)"


def test_a_value_that_was_parsed_as_a_password_is_hidden() -> None:
    setting = password("ssl.key.password", "x")
    setting.parse("parsed-secret")
    setting.check("given-secret")
    assert redact("parsed-secret given-secret") == "(hidden) (hidden)"


def test_the_longer_secret_wins_and_short_ones_stay() -> None:
    for secret in ("abcd", "abcdefgh", "ab"):
        protect(secret)
    assert redact("abcdefgh abcd ab") == "(hidden) (hidden) ab"


def test_quotes_and_line_ends_are_found_in_their_escaped_forms() -> None:
    secret = "with\"quote'and\nline"
    protect(secret)
    for shown in (secret, repr(secret), json.dumps(secret)):
        assert "quote" not in redact(shown), shown


@pytest.mark.parametrize("line_format", ["text", "json"])
def test_logs_are_redacted_with_their_tracebacks(line_format: str) -> None:
    protect("log-secret-1")
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatter_for(line_format, SystemClock()))
    logger = logging.getLogger("test.redaction")
    logger.propagate = False
    logger.addHandler(handler)
    try:
        raise ValueError("bad password log-secret-1")
    except ValueError:
        logger.exception("cannot use %s", "log-secret-1")
    finally:
        logger.removeHandler(handler)
    written = stream.getvalue()
    assert "(hidden)" in written
    assert "ValueError" in written
    assert "log-secret-1" not in written


@pytest.mark.parametrize(
    ("name", "is_secret"),
    [
        ("ssl.keystore.password", True),
        ("sasl.jaas.config", True),
        ("listener.name.x.plain.sasl.jaas.config", True),
        ("sasl.oauthbearer.client.credentials.client.secret", True),
        ("ssl.keystore.key", True),
        ("ssl.keystore.location", False),
        ("password.file", False),
        ("sasl.oauthbearer.token.endpoint.url", False),
        ("log.dirs", False),
        ("delegation.token.expiry.time.ms", False),
    ],
)
def test_settings_are_secret_by_their_names(name: str, is_secret: bool) -> None:
    assert is_sensitive_name(name) is is_secret


def test_stored_settings_cannot_choose_a_class_or_a_file() -> None:
    """What another broker or a person wrote into the metadata store is no file of this broker."""
    stored = {"authorizer.class.name": "evil:Class", "log.dirs": "/elsewhere"}
    settings = BrokerSettings.from_properties({}).with_dynamic(stored, stored)
    assert settings.authorizer_class_name == ""
    assert settings.data_directories != ("/elsewhere",)
    assert any("only be set in the broker's own file" in line for line in settings.warnings)
    with pytest.raises(InvalidSetting):
        BrokerSettings.from_properties({"odradek.audit.sink": "printer"})
