"""The worker's file: names of Kafka Connect, what is passed on, and what is announced."""

from pathlib import Path

import pytest

from odradek.client.errors import SettingsError
from odradek.config import parse_properties
from odradek.connect.worker.settings import DistributedSettings, StandaloneSettings

CONFIG = Path(__file__).parents[4] / "config"


def test_the_shipped_files_are_right() -> None:
    for kind, name in (
        (StandaloneSettings, "connect-standalone.properties"),
        (DistributedSettings, "connect-distributed.properties"),
    ):
        text = (CONFIG / name).read_text()
        for shown in (text, text.replace("\n# config.", "\nconfig.")):
            assert kind.from_file(parse_properties(shown)).notes == ()


def test_apaches_own_file_is_taken_as_it_is() -> None:
    settings = DistributedSettings.from_file(
        {
            "bootstrap.servers": "localhost:9092",
            "group.id": "connect-cluster",
            "key.converter": "org.apache.kafka.connect.json.JsonConverter",
            "key.converter.schemas.enable": "true",
            "offset.storage.topic": "connect-offsets",
            "offset.storage.replication.factor": "1",
            "config.storage.topic": "connect-configs",
            "status.storage.topic": "connect-status",
            "config.storage.min.insync.replicas": "1",
            "offset.flush.interval.ms": "10000",
            "plugin.path": "/usr/share/java",
            "listeners": "http://127.0.0.1:8083",
            "producer.linger.ms": "7",
            "consumer.max.poll.records": "9",
        }
    )
    (note,) = settings.notes
    assert note.startswith("plugin.path=/usr/share/java has no effect here: connectors are")
    assert settings.converter_properties()["key.converter.schemas.enable"] == "true"
    assert settings.topics["config.storage."] == {"min.insync.replicas": "1"}
    clients = settings.connector_clients()
    assert clients.producer({})["linger.ms"] == "7"
    assert clients.consumer({})["max.poll.records"] == "9"


def test_what_is_unknown_is_announced_with_what_was_meant() -> None:
    settings = StandaloneSettings.from_file({"offset.storge.topic": "x", "producer.linger": "1"})
    own, passed_on = settings.notes
    assert own == (
        "offset.storge.topic has no effect: there is no such setting; did you mean"
        " offset.storage.topic?"
    )
    assert passed_on == (
        "producer.linger has no effect: Kafka's clients have no linger; did you mean linger.ms?"
    )


def test_the_log_in_of_the_worker_is_not_that_of_callers() -> None:
    settings = DistributedSettings.from_file(
        {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "connect",
            "sasl.password": "secret-of-connect",
            "authentication.method": "BASIC",
        }
    )
    assert settings.own_client()["sasl.password"] == "secret-of-connect"
    assert "sasl.password" not in settings.client_properties()
    assert "secret-of-connect" not in repr(settings)


def test_log_ins_need_brokers_that_have_them() -> None:
    with pytest.raises(SettingsError, match=r"security\.protocol says that these have no log-in"):
        DistributedSettings.from_file({"authentication.method": "BASIC"})


def test_what_would_deceive_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"authentication\.method=BASIC"):
        DistributedSettings.from_file({"rest.extension.classes": "org.example.BasicAuth"})
    assert DistributedSettings.from_file({"rest.extension.classes": ""}).notes == ()
    (note,) = DistributedSettings.from_file({"admin.listeners": ""}).notes
    assert note.startswith("admin.listeners= has no effect here")


def test_addresses() -> None:
    own = DistributedSettings.from_file(
        {"rest.advertised.host.name": "w1", "listeners": "http://0.0.0.0:0"}
    )
    assert own.advertised_url("http://0.0.0.0:4711") == "http://w1:4711"
    assert DistributedSettings().advertised_url("http://127.0.0.1:1") == "http://127.0.0.1:1"


@pytest.mark.parametrize(
    ("policy", "name", "is_allowed"),
    [
        ("All", "linger.ms", True),
        ("All", "transactional.id", False),
        ("All", "linger", False),
        ("None", "linger.ms", False),
        ("Principal", "sasl.jaas.config", True),
        ("Principal", "linger.ms", False),
        ("Allowlist", "linger.ms", True),
        ("Allowlist", "batch.size", False),
        ("org.apache.kafka.connect.connector.policy.NoneConnectorClientConfigOverridePolicy",
         "linger.ms", False),
    ],
)  # fmt: skip
def test_what_connectors_may_override(policy: str, name: str, is_allowed: bool) -> None:
    settings = StandaloneSettings.from_file(
        {
            "connector.client.config.override.policy": policy,
            "connector.client.config.override.allowlist": "linger.ms",
        }
    )
    wrong = settings.connector_clients().wrong_overrides({f"producer.override.{name}": "1"})
    assert (not wrong) is is_allowed


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("producer", "sasl.login.callback.handler.class"),
        ("producer", "partitioner.class"),
        ("producer", "interceptor.classes"),
        ("consumer", "value.deserializer"),
        ("consumer", "partition.assignment.strategy"),
        ("admin", "sasl.login.callback.handler.class"),
    ],
)
def test_a_connector_names_no_code(kind: str, name: str) -> None:
    """Or whoever may make one could call any function of any module there is."""
    override = {f"{kind}.override.{name}": "os:abort"}
    for policy, is_refused in (("All", True), ("Allowlist", False)):
        settings = StandaloneSettings.from_file(
            {
                "connector.client.config.override.policy": policy,
                "connector.client.config.override.allowlist": name,
            }
        )
        wrong = settings.connector_clients().wrong_overrides(override)
        assert bool(wrong) is is_refused
    kafkas = {"producer.override.partitioner.class": "org.apache.kafka.clients.producer.X"}
    assert not StandaloneSettings.from_file({}).connector_clients().wrong_overrides(kafkas)
