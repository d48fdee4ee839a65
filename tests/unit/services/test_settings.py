"""Which settings of a service's file are obeyed, passed on, announced and refused."""

import pytest

from odradek.client.errors import SettingsError
from odradek.rest.settings import RestSettings
from odradek.services.settings import ServiceSettings


def test_settings_of_clients_are_passed_on() -> None:
    settings = ServiceSettings.from_file(
        {
            "bootstrap.servers": "PLAINTEXT://a:9092,b:9093",
            "client.request.timeout.ms": "5000",
            "consumer.fetch.min.bytes": "7",
            "producer.linger.ms": "3",
        }
    )
    assert settings.client_properties() == {
        "client.id": "odradek-service",
        "request.timeout.ms": "5000",
        "bootstrap.servers": "a:9092,b:9093",
    }
    assert settings.client_kinds == {
        "consumer": {"fetch.min.bytes": "7"},
        "producer": {"linger.ms": "3"},
    }


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ({"bootstrap.server": "x:1"}, "did you mean bootstrap.servers?"),
        ({"client.security.protocl": "SSL"}, "did you mean security.protocol?"),
        ({"consumer.max.pol.records": "1"}, "did you mean max.poll.records?"),
        ({"client.sasl.jaas.config": "x"}, "logs in to the brokers as its callers"),
        ({"client.sasl.username": "super"}, "logs in to the brokers as its callers"),
        (
            {"client.security.protocol": "SSL", "client.ssl.keystore.location": "/k"},
            "take every caller for the owner",
        ),
        ({"client.security.protocol": "SASL_SSL"}, "must be the mechanism by which callers log in"),
        ({"listeners": "https://127.0.0.1:1"}, "ssl.keystore.location"),
        ({"listeners": "127.0.0.1:1"}, "is not a URL"),
        ({"listeners": "http://a:1,http://b:2"}, "another process"),
        ({"authentication.method": "JAAS"}, "NONE, BASIC or BEARER"),
        ({"ssl.client.authentication": "REQUIRED"}, "https listener"),
    ],
)
def test_what_would_deceive_is_refused(properties: dict[str, str], words: str) -> None:
    with pytest.raises(SettingsError, match=words.replace("?", r"\?")):
        ServiceSettings.from_file(properties)


SECURED = {
    "listeners": "https://127.0.0.1:0",
    "ssl.keystore.location": "proxy.pem",
    "ssl.client.authentication": "REQUESTED",
    "client.security.protocol": "SASL_SSL",
    "client.sasl.mechanism": "SCRAM-SHA-512",
}


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ({"odradek.tokens.sasl.username": "x"}, "odradek.tokens.*: .* needs a password"),
        ({"odradek.tokens.sasl.mechanism": "SCRAM-SHA-256"}, "odradek.tokens.*: .* a username"),
        ({"odradek.tokens.sasl.user": "x"}, "there is no setting odradek.tokens.sasl.user"),
        ({"ssl.principal.mapping.rules": "RULE:("}, "is not a rule"),
        (
            {"odradek.tokens.sasl.username": "x", "ssl.client.authentication": "NONE"},
            "is for callers with a certificate",
        ),
        ({"schema.registry.basic.auth.user.info": "a:b"}, "a log-in of the service itself"),
        ({"schema.registry.url": "https://a:b@registry:8081"}, "leave the user out"),
        ({"schema.registry.url": "ftp://registry"}, "not the URL of a schema registry"),
    ],
)
def test_a_log_in_that_cannot_work_is_refused_at_the_start(
    properties: dict[str, str], words: str
) -> None:
    with pytest.raises(SettingsError, match=words):
        RestSettings.from_file({**SECURED, **properties})


def test_what_changes_nothing_is_announced() -> None:
    settings = ServiceSettings.from_file({"debug": "true", "compression.enable": "false"})
    assert settings.notes == ("debug=true has no effect here",)


def test_only_a_written_none_opens_a_service_to_changes() -> None:
    for properties, expected in (
        ({}, False),
        ({"authentication.method": "NONE"}, True),
    ):
        settings = ServiceSettings.from_file({"listeners": "http://0.0.0.0:1", **properties})
        assert (settings.authentication_method == "NONE") is expected
