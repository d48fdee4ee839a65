"""Kafka's `ssl.*` properties: what is read, what is refused, and what is never shown."""

import pytest

from odradek.config.setting import InvalidSetting
from odradek.security.tls.settings import ClientAuth, TlsSettings


def test_defaults() -> None:
    settings = TlsSettings.from_properties({"bootstrap.servers": "ignored"})
    assert settings == TlsSettings()
    assert settings.protocols == ("TLSv1.2", "TLSv1.3")
    assert settings.checks_hostname
    assert settings.client_auth is ClientAuth.NONE


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"ssl.keystore.type": "BKS"}, "must be PEM, PKCS12 or JKS"),
        ({"ssl.keystore.key": "secret"}, r"ssl\.keystore\.certificate\.chain: must be set"),
        ({"ssl.keystore.certificate.chain": "x"}, r"ssl\.keystore\.key: must be set"),
        ({"ssl.keystore.password": "secret"}, r"ssl\.keystore\.location: must be set"),
        (
            {"ssl.truststore.location": "a", "ssl.truststore.certificates": "b"},
            "choose one of both",
        ),
        (
            {"ssl.truststore.certificates": "b", "ssl.truststore.type": "PKCS12"},
            r"ssl\.truststore\.type: must be PEM",
        ),
        (
            {
                "ssl.keystore.location": "a",
                "ssl.keystore.type": "PEM",
                "ssl.keystore.password": "secret",
            },
            r"has no password of its own; .* is ssl\.key\.password",
        ),
        ({"ssl.enabled.protocols": "TLSv1.1,TLSv1.2"}, "TLSv1.1 is not secure"),
        ({"ssl.enabled.protocols": "QUIC"}, "must be a list of"),
        ({"ssl.protocol": "SSL"}, "must be TLS, TLSv1.2 or TLSv1.3"),
        ({"ssl.client.auth": "maybe"}, "must be none, requested or required"),
        ({"ssl.endpoint.identification.algorithm": "ldaps"}, "must be https, or empty"),
    ],
)
def test_bad_properties_are_refused(properties: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidSetting, match=message) as refused:
        TlsSettings.from_properties(properties)
    assert "secret" not in str(refused.value)


def test_messages_name_the_property_of_the_listener() -> None:
    with pytest.raises(InvalidSetting, match=r"listener\.name\.a\.ssl\.client\.auth"):
        TlsSettings.from_properties({"ssl.client.auth": "maybe"}, "listener.name.a.")


def test_secrets_are_not_in_the_repr() -> None:
    settings = TlsSettings.from_properties(
        {
            "ssl.keystore.key": "planted-key",
            "ssl.keystore.certificate.chain": "chain",
            "ssl.key.password": "planted-password",
            "ssl.truststore.location": "/trust.p12",
            "ssl.truststore.password": "planted-password",
        }
    )
    assert "planted" not in repr(settings)
    assert settings.files == ("/trust.p12",)
