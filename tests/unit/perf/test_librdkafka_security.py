"""Kafka's settings of TLS and SASL in librdkafka's words, which librdkafka itself must accept."""

from pathlib import Path

import pytest
from confluent_kafka import Producer

from odradek.perf.librdkafka_engine import librdkafka_settings
from odradek.tools.failures import UsageError
from tests.certificates import PASSWORD, Authority

SCRAM = (
    "org.apache.kafka.common.security.scram.ScramLoginModule required"
    ' username="ada" password="hunter2"'
)


@pytest.mark.parametrize("kind", ["pem", "p12", "jks"])
def test_stores_become_pem_in_memory(tmp_path: Path, kind: str) -> None:
    authority = Authority()
    properties = {
        "bootstrap.servers": "localhost:9092",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": f"{SCRAM};",
        "ssl.truststore.location": str(authority.truststore(tmp_path / f"ca.{kind}")),
        "ssl.keystore.location": str(authority.issue("ada").keystore(tmp_path / f"ada.{kind}")),
    }
    if kind != "pem":
        properties |= {f"ssl.{store}.password": PASSWORD for store in ("truststore", "keystore")}
    settings = librdkafka_settings(properties)
    assert (settings["sasl.username"], settings["sasl.password"]) == ("ada", "hunter2")
    assert str(settings["ssl.ca.pem"]).startswith("-----BEGIN CERTIFICATE-----")
    assert not {"sasl.jaas.config", "ssl.truststore.location"} & settings.keys()
    Producer(settings).flush(0)


def test_tokens_come_from_the_same_source() -> None:
    settings = librdkafka_settings(
        {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.jaas.config": "org.apache.kafka.common.security.oauthbearer."
            'OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="ada";',
        }
    )
    call = settings["oauth_cb"]
    assert callable(call)
    token, expires_s = call("")
    assert token.count(".") == 2
    assert expires_s > 0


@pytest.mark.parametrize(
    "extra",
    [
        {"ssl.enabled.protocols": "TLSv1.2"},
        {"ssl.cipher.suites": "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"},
        {"sasl.jaas.config": f"{SCRAM} tokenauth=true;"},
    ],
)
def test_what_librdkafka_cannot_do_is_refused(extra: dict[str, str]) -> None:
    given = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.jaas.config": f"{SCRAM};",
    }
    with pytest.raises(UsageError, match="choose --engine odradek"):
        librdkafka_settings(given | extra)


def test_plaintext_is_left_as_it_is() -> None:
    assert librdkafka_settings({"linger.ms": "5"}) == {"linger.ms": "5"}
