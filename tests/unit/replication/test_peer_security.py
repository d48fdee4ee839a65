"""How a broker logs in at others: which of its settings count for the listener between brokers."""

from pathlib import Path

import pytest

from odradek.client.errors import SettingsError
from odradek.config import BrokerSettings, InvalidSetting
from odradek.config.live import LiveSettings
from odradek.replication.peer_security import PeerSecurity, peer_properties
from odradek.replication.peers import peer_security
from odradek.world import OsDisk, Randomness, World

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
JAAS = f'{PLAIN} required username="broker" password="hunter2" user_broker="hunter2";'
SECURED = {
    "listeners": "CLIENTS://:9092,INTERNAL://:9093",
    "listener.security.protocol.map": "CLIENTS:PLAINTEXT,INTERNAL:SASL_SSL",
    "inter.broker.listener.name": "INTERNAL",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "ssl.truststore.location": "/all.pem",
    "ssl.keystore.location": "/all.p12",
    "listener.name.internal.ssl.keystore.location": "/internal.p12",
    "listener.name.internal.ssl.client.auth": "required",
    "listener.name.clients.ssl.keystore.location": "/clients.p12",
    "listener.name.internal.plain.sasl.jaas.config": JAAS,
}


def properties(given: dict[str, str], environment: dict[str, str] | None = None) -> dict[str, str]:
    return peer_properties(BrokerSettings.from_properties(given), environment or {}, OsDisk())


def test_the_settings_of_the_listener_win() -> None:
    assert properties(SECURED) == {
        "security.protocol": "SASL_SSL",
        "ssl.truststore.location": "/all.pem",
        "ssl.keystore.location": "/internal.p12",
        "ssl.endpoint.identification.algorithm": "https",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": JAAS,
    }


def test_a_protocol_may_be_named_instead_of_a_listener() -> None:
    given = {
        "listeners": "PLAINTEXT://:9092,SSL://:9093",
        "security.inter.broker.protocol": "SSL",
        "listener.name.ssl.ssl.keystore.location": "/ssl.p12",
    }
    assert properties(given) == {
        "security.protocol": "SSL",
        "ssl.keystore.location": "/ssl.p12",
        "ssl.endpoint.identification.algorithm": "https",
    }


def test_the_log_in_may_be_in_the_file_that_java_reads(tmp_path: Path) -> None:
    file = tmp_path / "jaas.conf"
    environment = {"KAFKA_OPTS": f"-Djava.security.auth.login.config={file}"}
    given = {name: text for name, text in SECURED.items() if "jaas" not in name}
    scram = PLAIN.replace("plain.Plain", "scram.Scram")
    file.write_text(f'KafkaServer {{ {scram} required; {PLAIN} required username="all"; }};')
    assert 'username="all"' in properties(given, environment)["sasl.jaas.config"]
    file.write_text(
        file.read_text() + f'internal.KafkaServer {{ {PLAIN} required username="i"; }};'
    )
    assert 'username="i"' in properties(given, environment)["sasl.jaas.config"]
    file.unlink()
    with pytest.raises(SettingsError, match="which KAFKA_OPTS names"):
        properties(given, environment)


def test_a_plaintext_listener_needs_none_of_it() -> None:
    settings = LiveSettings(BrokerSettings.from_properties({}))
    assert peer_security(settings, World()) is None


def test_a_broker_that_cannot_log_in_does_not_start() -> None:
    given = SECURED | {"listener.name.internal.plain.sasl.jaas.config": f"{PLAIN} required;"}
    settings = LiveSettings(BrokerSettings.from_properties(given))
    with pytest.raises(InvalidSetting, match="needs a username"):
        peer_security(settings, World())


def test_changed_settings_are_used_for_new_connections() -> None:
    settings = LiveSettings(BrokerSettings.from_properties(SECURED))
    security = PeerSecurity(settings, OsDisk(), Randomness(1))
    before = security.current()
    settings.update({}, {"num.recovery.threads.per.data.dir": "2"})
    assert security.current() is before, "nothing of it has changed"
    settings.update({}, {"listener.name.internal.ssl.keystore.location": "/new.p12"})
    assert security.current() is not before
