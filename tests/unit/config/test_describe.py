import pytest

from odradek.config import (
    BROKER_DECLARED,
    BrokerSettings,
    ConfigOperation,
    Description,
    InvalidSetting,
    Kind,
    Source,
    TopicSettings,
    alter,
    describe_broker,
    describe_cluster_default,
    describe_topic,
)


def one(described: list[Description]) -> Description:
    assert len(described) == 1
    return described[0]


def trail(description: Description) -> list[tuple[str, str | None, Source]]:
    return [(synonym.name, synonym.value, synonym.source) for synonym in description.synonyms]


def test_a_topic_setting_tells_its_whole_story() -> None:
    settings = BrokerSettings.from_properties({"log.retention.hours": "5"}).with_dynamic(
        {"log.retention.ms": "4"}, {"log.retention.ms": "3"}
    )
    description = one(describe_topic(settings, {"retention.ms": "2"}, ["retention.ms"]))
    assert description.value == "2"
    assert description.source is Source.TOPIC
    assert description.kind == Kind.LONG
    assert not description.read_only
    assert not description.is_sensitive
    assert trail(description) == [
        ("retention.ms", "2", Source.TOPIC),
        ("log.retention.ms", "3", Source.DYNAMIC_BROKER),
        ("log.retention.ms", "4", Source.DYNAMIC_DEFAULT_BROKER),
        ("log.retention.hours", "5", Source.STATIC_BROKER),
        ("log.retention.hours", "168", Source.DEFAULT),
    ]


def test_a_topic_without_overrides_shows_the_brokers_value_in_its_own_unit() -> None:
    settings = BrokerSettings.from_properties({"log.retention.hours": "5"})
    description = one(describe_topic(settings, {}, ["retention.ms"]))
    assert (description.value, description.source) == ("18000000", Source.STATIC_BROKER)


def test_all_topic_settings_are_described() -> None:
    described = describe_topic(BrokerSettings(), {})
    assert [description.name for description in described] == list(TopicSettings.declared)
    assert {description.source for description in described} == {Source.DEFAULT}


def test_a_broker_setting() -> None:
    settings = BrokerSettings.from_properties({"num.partitions": "3"})
    description = one(describe_broker(settings, ["num.partitions"]))
    assert (description.value, description.source) == ("3", Source.STATIC_BROKER)
    assert description.read_only
    assert trail(description) == [
        ("num.partitions", "3", Source.STATIC_BROKER),
        ("num.partitions", "1", Source.DEFAULT),
    ]
    assert not one(describe_broker(settings, ["max.connections"])).read_only


def test_both_names_of_the_broker_id() -> None:
    settings = BrokerSettings.from_properties({"broker.id": "3"})
    described = describe_broker(settings, ["broker.id", "node.id"])
    assert {description.name: description.value for description in described} == {
        "broker.id": "3",
        "node.id": "3",
    }


def test_an_unset_broker_setting_has_no_value() -> None:
    assert one(describe_broker(BrokerSettings(), ["log.retention.ms"])).value is None


def test_an_unknown_setting_may_be_a_secret_and_is_hidden() -> None:
    settings = BrokerSettings.from_properties({"plugin.secret": "hush"})
    description = one(describe_broker(settings, ["plugin.secret"]))
    assert description.is_sensitive
    assert description.value is None
    assert trail(description) == [("plugin.secret", None, Source.STATIC_BROKER)]
    assert "hush" not in repr(describe_broker(settings))


def test_every_broker_setting_is_described_as_text() -> None:
    described = describe_broker(BrokerSettings())
    older = {"broker.id", "delegation.token.master.key"}
    assert {description.name for description in described} == {*BROKER_DECLARED, *older}
    values = {description.name: description.value for description in described}
    assert values["listeners"] == "PLAINTEXT://:9092"
    assert values["log.cleaner.io.max.bytes.per.second"] == "1.7976931348623157E308"
    assert values["listener.security.protocol.map"] == (
        "PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL"
    )
    assert values["auto.create.topics.enable"] == "true"


def test_the_clusters_defaults_are_only_what_was_set() -> None:
    settings = BrokerSettings().with_dynamic({"max.connections": "5"}, {"max.connections": "6"})
    description = one(describe_cluster_default(settings))
    assert (description.name, description.value) == ("max.connections", "5")
    assert description.source is Source.DYNAMIC_DEFAULT_BROKER
    assert describe_cluster_default(BrokerSettings()) == []


def test_incremental_operations() -> None:
    altered = alter(
        {"retention.ms": "1", "segment.ms": "2"},
        [
            ("retention.ms", ConfigOperation.DELETE, None),
            ("segment.ms", ConfigOperation.SET, "3"),
            ("cleanup.policy", ConfigOperation.APPEND, "compact"),
        ],
        TopicSettings.declared,
    )
    assert altered == {"segment.ms": "3", "cleanup.policy": "delete,compact"}
    again = alter(
        altered,
        [
            ("cleanup.policy", ConfigOperation.APPEND, "compact"),
            ("cleanup.policy", ConfigOperation.SUBTRACT, "delete"),
            ("unset", ConfigOperation.DELETE, None),
        ],
        TopicSettings.declared,
    )
    assert again == {"segment.ms": "3", "cleanup.policy": "compact"}


@pytest.mark.parametrize(
    ("operation", "text"), [(ConfigOperation.APPEND, "1"), (ConfigOperation.SET, None)]
)
def test_operations_that_make_no_sense(operation: ConfigOperation, text: str | None) -> None:
    with pytest.raises(InvalidSetting):
        alter({}, [("segment.ms", operation, text)], TopicSettings.declared)
