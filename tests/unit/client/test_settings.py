import logging
from dataclasses import fields, replace
from typing import Any

import pytest

from odradek.client.errors import SettingsError
from odradek.client.settings import (
    AdminSettings,
    ClientSettings,
    ConsumerSettings,
    ProducerSettings,
)
from odradek.client.settings.shared import parse_address
from odradek.protocol.compression import Codec


def test_defaults_are_kafkas() -> None:
    producer = ProducerSettings()
    assert (producer.linger_ms, producer.batch_size, producer.buffer_memory) == (
        5,
        16384,
        33554432,
    )
    assert (producer.required_acks, producer.enable_idempotence) == (-1, True)
    consumer = ConsumerSettings()
    assert (consumer.fetch_max_wait_ms, consumer.max_poll_records) == (500, 500)
    assert consumer.auto_offset_reset == "latest"
    assert AdminSettings().connections_max_idle_ms == 300_000


def test_properties_have_kafkas_dotted_names_and_text_values() -> None:
    settings = ProducerSettings.from_properties(
        {
            "bootstrap.servers": "one:9092, two:9093",
            "acks": "1",
            "enable.idempotence": "FALSE",
            "linger.ms": " 20 ",
            "compression.type": "zstd",
            "key.serializer": "org.apache.kafka.common.serialization.StringSerializer",
        }
    )
    assert settings.bootstrap_addresses == [("one", 9092), ("two", 9093)]
    assert settings.required_acks == 1
    assert settings.linger_ms == 20
    assert settings.codec is Codec.ZSTD
    assert settings.key_serializer is str.encode


def test_keyword_arguments_win_over_properties() -> None:
    settings = ConsumerSettings.from_properties({"fetch.min.bytes": "7"}, fetch_min_bytes=9)
    assert settings.fetch_min_bytes == 9


def test_an_unknown_property_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="odradek.client"):
        ProducerSettings.from_properties({"linger.millis": "5", "lingr.ms": "5"})
    assert [record.getMessage() for record in caplog.records] == [
        "linger.millis is not a setting of this client and is ignored; did you mean linger.ms?",
        "lingr.ms is not a setting of this client and is ignored; did you mean linger.ms?",
    ]


@pytest.mark.parametrize("settings", [ProducerSettings, ConsumerSettings, AdminSettings])
@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("interceptor.classes", "com.example.Audit", "interceptor"),
        ("metric.reporters", "com.example.Reporter", "reporters are Java classes"),
        ("security.providers", "com.example.Provider", "providers are Java classes"),
        ("config.providers", "file", "this client has no config providers"),
        ("ssl.truststore.location", "/secret", "set security.protocol=SSL or SASL_SSL too"),
        ("sasl.jaas.config", "secret", "set security.protocol=SASL_SSL too"),
        ("ssl.engine.factory.class", "com.example.Engine", "Java classes are not loaded"),
        ("ssl.trust.store", "/secret", "there is no setting"),
        ("security.protocol", "TLS", "must be one of PLAINTEXT, SSL"),
    ],
)
def test_what_would_deceive_if_it_were_ignored_is_refused_in_one_line(
    settings: type[ClientSettings], name: str, value: str, said: str
) -> None:
    with pytest.raises(SettingsError, match=said) as caught:
        settings.from_properties({name: value})
    assert name in str(caught.value)
    assert "secret" not in str(caught.value), "it may be a password"
    settings.from_properties({name: ""} if name != "security.protocol" else {})


def test_tls_beside_an_explicit_plaintext_is_reported_as_idle(
    caplog: pytest.LogCaptureFixture,
) -> None:
    file = {"security.protocol": "PLAINTEXT", "ssl.truststore.location": "/a"}
    with caplog.at_level(logging.WARNING, logger="odradek.client"):
        ProducerSettings.from_properties(file)
    assert [record.getMessage() for record in caplog.records] == [
        "ssl.truststore.location has no effect with security.protocol=PLAINTEXT"
    ]


def test_settings_without_effect_are_reported_where_they_ask_for_something(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING, logger="odradek.client"):
        AdminSettings.from_properties(
            {
                "enable.metrics.push": "false",
                "client.dns.lookup": "resolve_canonical_bootstrap_servers_only",
                "metric.reporters": "org.apache.kafka.common.metrics.JmxReporter",
            }
        )
    assert [record.getMessage() for record in caplog.records] == [
        "client.dns.lookup has no effect in this client"
    ]


def test_a_longer_name_is_unknown_unless_the_setting_is_a_prefix(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING, logger="odradek.client"):
        AdminSettings.from_properties({"metrics.num.samplesx": "2", "metrics.context.team": "a"})
    assert [record.getMessage() for record in caplog.records] == [
        "metrics.num.samplesx is not a setting of this client and is ignored",
        "metrics.context.team has no effect in this client",
    ]


@pytest.mark.parametrize(
    ("settings", "name", "said"),
    [
        (ProducerSettings, "value.serializer", "must be a function, or one of bytes, string"),
        (ProducerSettings, "partitioner.class", "must be default, round_robin, a function"),
        (ConsumerSettings, "key.deserializer", "must be a function, or one of bytes, string"),
        (ConsumerSettings, "partition.assignment.strategy", "known are range"),
    ],
)
def test_classes_that_are_not_kafkas_own_are_refused(
    settings: type[ClientSettings], name: str, said: str
) -> None:
    with pytest.raises(SettingsError, match=said):
        settings.from_properties({name: "com.example.Special"})


def test_the_uniform_partitioner_names_what_replaces_it() -> None:
    uniform = "org.apache.kafka.clients.producer.UniformStickyPartitioner"
    with pytest.raises(SettingsError, match=r"partitioner\.ignore\.keys=true"):
        ProducerSettings.from_properties({"partitioner.class": uniform})


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("murmur2_random", "is called default here"),
        ("murmur2", "is called default here"),
        ("random", r"partitioner\.ignore\.keys=true"),
        ("consistent_random", "only librdkafka has: write default"),
        ("fnv1a", "only librdkafka has: write default"),
    ],
)
def test_partitioners_of_librdkafka_are_answered_with_ours(name: str, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        ProducerSettings.from_config({"partitioner.class": name})


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [
        ("lingerms", "did you mean linger_ms"),
        ("bootstrap_server", "did you mean bootstrap_servers"),
        ("compresion", "did you mean compression_type"),
        ("batchsize", "did you mean batch_size"),
        ("max_batch_size", "write batch_size"),
        ("partitioner", "write partitioner_class; librdkafka's murmur2_random is called default"),
        ("default_topic_config", "write its settings beside the others"),
        ("group_id", "it is a setting of Consumer"),
        ("loop", "leave it out"),
        ("logger", r"use logging\.getLogger\('odradek\.client'\)"),
    ],
)
def test_an_unknown_keyword_is_an_error_with_a_suggestion(wrong: str, meant: str) -> None:
    with pytest.raises(SettingsError, match=f"unknown setting {wrong}: see .*{meant}"):
        ProducerSettings.from_options({wrong: 5})


def test_a_dict_has_kafkas_names_and_values_of_any_type() -> None:
    settings = ProducerSettings.from_config(
        {
            "bootstrap.servers": "one:1",
            "linger.ms": "20",
            "batch.size": 5,
            "enable_idempotence": True,
        }
    )
    assert (settings.linger_ms, settings.batch_size) == (20, 5)
    assert ProducerSettings.from_options({"linger.ms": 7}).linger_ms == 7


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"lingr.ms": 5}, "there is no setting lingr.ms; did you mean linger.ms?"),
        (
            {"metadata.broker.list": "a:1"},
            "no setting metadata.broker.list; write bootstrap.servers",
        ),
        ({"queue.buffering.max.ms": 5}, "write linger.ms"),
        ({"security.protocol": "TLS"}, "must be one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
        ({"ssl.ca.location": "/a"}, "write ssl.truststore.location"),
        ({"linger.ms": "soon"}, "linger.ms='soon': must be a whole number"),
    ],
)
def test_a_dict_of_another_client_is_answered_with_what_to_write(
    config: dict[str, object], said: str
) -> None:
    with pytest.raises(SettingsError) as raised:
        ProducerSettings.from_config(config)
    assert said in str(raised.value)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("linger.ms", "soon", "linger.ms='soon': must be a whole number"),
        ("linger.ms", "-1", "linger.ms='-1': must be a whole number of at least 0"),
        ("acks", "2", "acks='2': must be one of all, -1, 0, 1"),
        ("compression.type", "gzp", "lz4, zstd; did you mean gzip?"),
        ("enable.idempotence", "yes", "enable.idempotence='yes': must be true or false"),
        ("compression.type", "rar", "must be one of none, gzip, snappy, lz4, zstd"),
        ("compression.gzip.level", "0", "must be a whole number from 1 to 9, or -1"),
        ("bootstrap.servers", "host:port", "must be like host:port"),
        ("bootstrap.servers", "", "at least one broker"),
        ("security.protocol", "TLS", "must be one of PLAINTEXT, SSL"),
        ("acks", "1", "with idempotence it must be all"),
        ("max.in.flight.requests.per.connection", "6", "with idempotence at most 5"),
        ("retries", "0", "with idempotence there must be retries; set enable.idem"),
        ("delivery.timeout.ms", "1000", "must be at least linger.ms + request.timeout.ms"),
        ("key.serializer", "com.example.Mine", "must be a function, or one of bytes"),
        ("partitioner.class", "Random", "must be default, round_robin, a function"),
    ],
)
def test_a_wrong_value_is_named_with_what_would_be_right(name: str, value: str, said: str) -> None:
    with pytest.raises(SettingsError) as raised:
        ProducerSettings.from_properties({name: value})
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("name", "value", "meant"),
    [
        ("isolation.level", "read_commited", "read_committed"),
        ("auto.offset.reset", "first", "earliest"),
        ("auto.offset.reset", "beginning", "earliest"),
        ("auto.offset.reset", "begining", "earliest"),
        ("auto.offset.reset", "Earlist", "earliest"),
        ("auto.offset.reset", "end", "latest"),
    ],
)
def test_a_value_that_is_nearly_right_is_answered_with_the_right_one(
    name: str, value: str, meant: str
) -> None:
    with pytest.raises(SettingsError) as raised:
        ConsumerSettings.from_properties({name: value})
    assert str(raised.value).endswith(f"; did you mean {meant}?")


def test_wrong_types_from_programs_are_refused() -> None:
    with pytest.raises(SettingsError, match="whole number"):
        ProducerSettings(linger_ms="5")  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match="true or false"):
        ConsumerSettings(check_crcs=1)  # type: ignore[arg-type]


def test_settings_of_the_users_classes_stay_when_another_setting_is_replaced() -> None:
    config = {"value.serializer": Configured, "schema.registry.url": "http://r"}
    settings = replace(ProducerSettings.from_config(config), linger_ms=1)
    assert settings.for_classes()["schema.registry.url"] == "http://r"
    assert settings.for_classes()["linger.ms"] == 1
    properties = {"client.id": "me", "value.serializer": "string", "serde.mark": "/"}
    assert replace(ProducerSettings.from_properties(properties)).for_classes()["serde.mark"] == "/"
    with pytest.raises(SettingsError, match="unknown setting given"):
        ProducerSettings.from_options({"given": {}})


class Configured:
    def configure(self, settings: object, is_key: bool) -> None: ...

    def serialize(self, value: object, context: object) -> bytes:
        return b""


def test_underscores_are_read_as_dots_where_names_are_judged() -> None:
    config: dict[str, object] = {"value_serializer": Configured, "schema.registry.url": "http://r"}
    assert ProducerSettings.from_config(config).for_classes()["schema.registry.url"] == "http://r"
    for name in ("ssl_cafile", "sasl_plain_username", "ssl.ca.location"):
        with pytest.raises(SettingsError, match=f"there is no setting {name}; write s"):
            ProducerSettings.from_config({"value.serializer": Configured, name: "x"})
        settings = {"security_protocol": "PLAINTEXT", name: "x"}
        assert ProducerSettings.from_config(settings).security_protocol == "PLAINTEXT"
    with pytest.raises(SettingsError, match="reporters are Java classes"):
        ProducerSettings.from_config({"metric_reporters": "x"})


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"session_timeout_ms": 9_000}, "the broker decides: group.consumer.session.timeout.ms"),
        ({"heartbeat_interval_ms": 9}, "heartbeat.interval.ms has no effect with group.protocol="),
        ({"partition_assignment_strategy": "sticky"}, "set group.remote.assignor"),
        ({"group_protocol": "classic", "group_remote_assignor": "range"}, "needs group.protocol="),
    ],
)
def test_what_the_protocol_of_a_group_does_not_obey_is_refused(
    options: dict[str, object], said: str
) -> None:
    with pytest.raises(SettingsError, match=said):
        ConsumerSettings.from_options({"group_protocol": "consumer", **options})
    settings = ConsumerSettings(group_protocol="consumer", group_remote_assignor="range")
    assert settings.group_remote_assignor == "range"


def test_addresses() -> None:
    assert parse_address("localhost") == ("localhost", 9092)
    assert parse_address("[::1]:9093") == ("::1", 9093)
    assert parse_address("::1") == ("::1", 9092)
    assert parse_address("PLAINTEXT://h:1") == ("h", 1)


def test_offset_reset_by_duration() -> None:
    assert ConsumerSettings(auto_offset_reset="by_duration:PT5M").auto_offset_reset
    for wrong in ("5m", "-PT5M", "PT"):
        with pytest.raises(SettingsError, match="by_duration"):
            ConsumerSettings(auto_offset_reset=f"by_duration:{wrong}")


def test_every_setting_is_documented() -> None:
    for settings in (ProducerSettings, ConsumerSettings, AdminSettings):
        for name, _, doc in settings.describe():
            assert doc.endswith((".", ";")), name


@pytest.mark.parametrize("settings", [ProducerSettings, ConsumerSettings, AdminSettings])
def test_a_field_has_the_name_of_its_setting(settings: type[ClientSettings]) -> None:
    dotted = [item.name.replace("_", ".") for item in fields(settings) if item.metadata]
    assert [name for name, _, _ in settings.describe()] == dotted


@pytest.mark.parametrize("option", [{"acks": 1}, {"retries": 0}])
def test_a_transactional_producer_is_not_told_to_switch_idempotence_off(
    option: dict[str, Any],
) -> None:
    properties = {"bootstrap.servers": "localhost:9092", "transactional.id": "t", **option}
    with pytest.raises(SettingsError, match=r"with transactions .*; leave it out"):
        ProducerSettings.from_properties({name: str(to) for name, to in properties.items()})
