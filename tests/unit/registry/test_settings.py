"""The properties file: Confluent's names, and what is refused or announced."""

from pathlib import Path

import pytest

from odradek.client.errors import SettingsError
from odradek.config.properties import parse_properties
from odradek.registry.settings import SchemaRegistrySettings

ROOT = Path(__file__).parents[3]
SHIPPED = ROOT / "config" / "schema-registry.properties"


def test_the_file_of_the_container_is_understood() -> None:
    text = (ROOT / "deploy" / "container" / "schema-registry.properties").read_text()
    settings = SchemaRegistrySettings.from_file(parse_properties(text))
    assert (settings.advertised_host(), settings.notes) == ("schema-registry", ())


def test_the_shipped_file_is_understood() -> None:
    settings = SchemaRegistrySettings.from_file(parse_properties(SHIPPED.read_text()))
    assert settings.url == "http://127.0.0.1:8081"
    assert settings.own_client()["bootstrap.servers"] == "127.0.0.1:9092"
    assert not settings.notes


def test_confluents_own_example_is_understood() -> None:
    settings = SchemaRegistrySettings.from_file(
        {
            "listeners": "http://0.0.0.0:8081",
            "host.name": "registry-1",
            "kafkastore.bootstrap.servers": "SASL_PLAINTEXT://b1:9092,SASL_PLAINTEXT://b2:9092",
            "kafkastore.topic": "_schemas",
            "kafkastore.security.protocol": "SASL_PLAINTEXT",
            "kafkastore.sasl.mechanism": "SCRAM-SHA-256",
            "kafkastore.sasl.jaas.config": "org.apache.kafka.common.security.scram."
            'ScramLoginModule required username="sr" password="pw";',
            "kafkastore.timeout.ms": "500",
            "schema.compatibility.level": "full_transitive",
            "mode.mutability": "false",
            "leader.eligibility": "false",
            "authentication.method": "BASIC",
            "debug": "true",
        }
    )
    assert settings.own_client()["bootstrap.servers"] == "b1:9092,b2:9092"
    assert "sasl.jaas.config" in settings.own_client()
    assert "sasl.jaas.config" not in settings.client_properties()
    assert settings.schema_compatibility_level == "FULL_TRANSITIVE"
    assert (settings.may_lead, settings.uses_sasl) == (False, True)
    assert settings.advertised_host() == "registry-1"
    assert settings.notes == ("debug=true has no effect here",)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("kafkastore.bootstrap.server", "b:9092", "did you mean"),
        ("kafkastore.topik", "x", "did you mean kafkastore.topic?"),
        ("kafkastore.topc", "x", "no setting kafkastore.topc; did you mean kafkastore.topic?"),
        ("kafkastore.connection.url", "zk:2181", "ZooKeeper"),
        ("schema.compatibility.level", "SIDEWAYS", "BACKWARD"),
        ("authentication.roles", "admin", "ACLs"),
        ("authentication.method", "BASIC", "kafkastore.security.protocol"),
        ("listeners", "https://127.0.0.1:8081", "ssl.keystore.location"),
        ("inter.instance.protocol", "gopher", "http or https"),
    ],
)
def test_mistakes_are_refused_with_what_to_do(name: str, value: str, words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        SchemaRegistrySettings.from_file({name: value})


def test_nothing_of_the_own_log_in_is_passed_on_to_clients_of_callers() -> None:
    """Also not where tokens come from, which a password or a token of a caller does not replace."""
    own = {
        "sasl.oauthbearer.token.endpoint.url": "http://127.0.0.1:1/token",
        "sasl.oauthbearer.client.credentials.client.id": "registry",
        "sasl.oauthbearer.client.credentials.client.secret": "secret-of-registry",
    }
    settings = SchemaRegistrySettings.from_file(
        {
            "kafkastore.security.protocol": "SASL_SSL",
            "kafkastore.sasl.mechanism": "OAUTHBEARER",
            "authentication.method": "BEARER",
            **{f"kafkastore.{name}": text for name, text in own.items()},
        }
    )
    assert own.items() <= settings.own_client().items()
    assert not own.keys() & settings.client_properties().keys()
    assert settings.client_properties()["sasl.mechanism"] == "OAUTHBEARER"
