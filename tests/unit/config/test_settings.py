"""Declarations: types, defaults, parsing, and the lines a user reads when a value is wrong."""

import subprocess
import sys

import pytest

from odradek.config import (
    BROKER_DECLARED,
    BrokerSettings,
    InvalidSetting,
    Listener,
    Scope,
    TopicSettings,
    check_broker_overrides,
    check_topic_overrides,
)
from odradek.config.live import LiveSettings

DEFAULTS = BrokerSettings().topic_defaults


def broker(**properties: str) -> BrokerSettings:
    return BrokerSettings.from_properties(
        {name.replace("_", "."): text for name, text in properties.items()}
    )


def refusal(properties: dict[str, str]) -> str:
    with pytest.raises(InvalidSetting) as caught:
        BrokerSettings.from_properties(properties)
    line = str(caught.value)
    assert "\n" not in line
    return line


def test_defaults_are_kafkas() -> None:
    settings = BrokerSettings()
    assert settings.listeners == (Listener("PLAINTEXT", "", 9092),)
    assert settings.num_partitions == 1
    assert settings.auto_create_topics_enable is True
    assert settings.socket_request_max_bytes == 104857600
    assert settings.fetch_max_bytes == 57671680
    assert settings.topic_defaults.segment_bytes == 1073741824
    assert settings.topic_defaults.retention_ms == 604800000
    assert settings.topic_defaults.max_message_bytes == 1048588
    assert settings.topic_defaults.message_timestamp_after_max_ms == 3600000
    assert settings.topic_defaults.cleanup_policy == ("delete",)


def test_every_default_is_a_value_the_setting_takes() -> None:
    for setting in [*BROKER_DECLARED.values(), *TopicSettings.declared.values()]:
        text = setting.text(setting.default)
        if text is not None:
            assert setting.parse(text) == setting.default, setting.name


def test_every_setting_says_what_it_is_for() -> None:
    for setting in [*BROKER_DECLARED.values(), *TopicSettings.declared.values()]:
        assert setting.doc.endswith("."), setting.name
        assert setting.expected


def test_settings_do_not_change_in_place() -> None:
    settings = BrokerSettings()
    with pytest.raises(AttributeError):
        settings.num_partitions = 3
    with pytest.raises(AttributeError):
        del settings.topic_defaults.segment_bytes
    assert settings.num_partitions == 1


@pytest.mark.parametrize(
    ("properties", "line"),
    [
        (
            {"num.partitions": "many"},
            "Invalid value many for num.partitions: must be a whole number of at least 1",
        ),
        (
            {"num.partitions": "0"},
            "Invalid value 0 for num.partitions: must be a whole number of at least 1",
        ),
        (
            {"num.partitions": "1_000"},
            "Invalid value 1_000 for num.partitions: must be a whole number of at least 1",
        ),
        (
            {"num.partitions": "2147483648"},
            "Invalid value 2147483648 for num.partitions: must be a whole number of at least 1",
        ),
        (
            {"auto.create.topics.enable": "yes"},
            "Invalid value yes for auto.create.topics.enable: must be true or false",
        ),
        (
            {"log.cleaner.min.cleanable.ratio": "nan"},
            "Invalid value nan for log.cleaner.min.cleanable.ratio: must be a number from 0 to 1",
        ),
        (
            {"log.message.timestamp.type": "createtime"},
            (
                "Invalid value createtime for log.message.timestamp.type: "
                "must be one of CreateTime, LogAppendTime; did you mean CreateTime?"
            ),
        ),
        (
            {"log.cleanup.policy": "delete,forget"},
            (
                "Invalid value delete,forget for log.cleanup.policy: "
                "must be a list of compact, delete"
            ),
        ),
        (
            {"log.cleanup.policy": "delet"},
            (
                "Invalid value delet for log.cleanup.policy: "
                "must be a list of compact, delete; did you mean delete?"
            ),
        ),
        (
            {"log.message.timestamp.type": "CreatTime"},
            (
                "Invalid value CreatTime for log.message.timestamp.type: "
                "must be one of CreateTime, LogAppendTime; did you mean CreateTime?"
            ),
        ),
        (
            {"group.min.session.timeout.ms": "10", "group.max.session.timeout.ms": "9"},
            (
                "Invalid value 10 for group.min.session.timeout.ms: "
                "it is more than group.max.session.timeout.ms, 9"
            ),
        ),
        (
            {"node.id": "1", "broker.id": "2"},
            "Invalid value 2 for broker.id: node.id says 1; they mean the same",
        ),
        (
            {"compression.gzip.level": "0"},
            (
                "Invalid value 0 for compression.gzip.level: "
                "must be a whole number from 1 to 9, or -1"
            ),
        ),
        (
            {"log.roll.hours": "0"},
            "Invalid value 0 for log.roll.hours: must be a whole number of at least 1",
        ),
        ({"log.dirs": "/a,/a"}, "Invalid value /a,/a for log.dirs: a directory appears twice"),
        ({"log.dirs": "/a,"}, "Invalid value (empty) for log.dirs: name at least one directory"),
    ],
)
def test_a_wrong_value_gives_one_clear_line(properties: dict[str, str], line: str) -> None:
    assert refusal(properties) == line


def test_values_are_trimmed_and_booleans_take_any_case() -> None:
    settings = broker(num_partitions=" 3 ", delete_topic_enable="FALSE")
    assert settings.num_partitions == 3
    assert settings.delete_topic_enable is False


def test_broker_id_is_node_id() -> None:
    assert broker(broker_id="7").node_id == 7
    assert broker(broker_id="7", node_id="7").node_id == 7


def test_unknown_names_are_warned_about_and_kafkas_idle_ones_listed() -> None:
    settings = broker(
        num_partitons="3",
        wholly_unheard_of="x",
        num_network_threads="4",
        process_roles="broker,controller",
        controller_quorum_voters="1@localhost:9093",
    )
    assert settings.warnings == (
        "Unknown setting num.partitons is ignored; did you mean num.partitions?",
        "Unknown setting wholly.unheard.of is ignored",
    )
    assert [name for name, _ in settings.without_effect] == [
        "controller.quorum.voters",
        "num.network.threads",
        "process.roles",
    ]


def test_log_dirs_win_over_log_dir() -> None:
    assert broker(log_dir="/one").data_directories == ("/one",)
    assert broker(log_dir="/one", log_dirs="/two, /three").data_directories == ("/two", "/three")


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({"log.retention.hours": "2"}, 7_200_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "3"}, 180_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "3", "log.retention.ms": "5"}, 5),
        ({"log.retention.hours": "-1"}, -1),
        ({"log.retention.hours": "2147483647"}, 2147483647 * 3_600_000),
    ],
)
def test_the_finest_unit_wins(properties: dict[str, str], expected: int) -> None:
    assert BrokerSettings.from_properties(properties).topic_defaults.retention_ms == expected


def test_a_topic_override_wins_and_equal_overrides_share_an_object() -> None:
    settings = broker(log_segment_bytes="1000")
    overridden = settings.topic({"segment.bytes": "500"})
    assert settings.topic().segment_bytes == 1000
    assert overridden.segment_bytes == 500
    assert overridden.overrides == {"segment.bytes": "500"}
    assert settings.topic({"segment.bytes": "500"}) is overridden


def test_a_stored_override_that_cannot_be_used_is_reported_not_fatal() -> None:
    topic = BrokerSettings().topic(
        {
            "segment.bytes": "tiny",
            "retention.ms": "9",
            "preallocate": "true",
            "local.retention.ms": "-2",
        }
    )
    assert topic.segment_bytes == DEFAULTS.segment_bytes
    assert topic.retention_ms == 9
    assert topic.problems == (
        "Invalid value tiny for segment.bytes: must be a whole number of at least 14",
        "preallocate=true has no effect here: segments grow as they are written",
    )


def test_what_a_topic_sets_in_vain_is_said_once_with_its_name(
    caplog: pytest.LogCaptureFixture,
) -> None:
    live = LiveSettings(BrokerSettings())
    idle = {"preallocate": "true"}

    def said() -> list[str]:
        lines = [record.getMessage() for record in caplog.records]
        caplog.clear()
        return lines

    why = "preallocate=true has no effect here: segments grow as they are written"
    assert live.put_in_force("orders", idle).problems == (why,)
    live.put_in_force("orders", idle)
    live.put_in_force("clicks", idle)
    live.put_in_force("plain", {})
    assert said() == [f"topic orders: {why}", f"topic clicks: {why}"]
    live.update({"log.retention.ms": "7"}, {})
    live.put_in_force("orders", idle)
    assert said() == []
    live.put_in_force("orders", {})
    live.put_in_force("orders", idle)
    assert said() == [f"topic orders: {why}"]


def test_cleanup_policy_as_questions() -> None:
    both = BrokerSettings().topic({"cleanup.policy": "compact, delete"})
    neither = BrokerSettings().topic({"cleanup.policy": ""})
    assert (both.is_compacted, both.removes_old_segments) == (True, True)
    assert (neither.is_compacted, neither.removes_old_segments) == (False, False)


@pytest.mark.parametrize(
    ("overrides", "line"),
    [
        (
            {"segment.byte": "1"},
            ("there is no topic setting segment.byte; did you mean segment.bytes?"),
        ),
        (
            {"retention.ms": None},
            "Invalid value null for retention.ms: must be a whole number of at least -1",
        ),
        (
            {"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "4"},
            "Invalid value 5 for min.compaction.lag.ms: it is more than max.compaction.lag.ms, 4",
        ),
        (
            {"remote.storage.enable": "true"},
            (
                "Invalid value true for remote.storage.enable: "
                "tiered storage is not available on this broker"
            ),
        ),
        (
            {"leader.replication.throttled.replicas": "one"},
            (
                "Invalid value one for leader.replication.throttled.replicas: "
                "must be * or a list of partition:broker pairs, as in 0:1,1:2"
            ),
        ),
    ],
)
def test_topic_overrides_are_refused(overrides: dict[str, str | None], line: str) -> None:
    with pytest.raises(InvalidSetting) as caught:
        check_topic_overrides(overrides, DEFAULTS)
    assert str(caught.value) == line


def test_topic_overrides_are_taken() -> None:
    check_topic_overrides({}, DEFAULTS)
    check_topic_overrides(
        {
            "cleanup.policy": "compact",
            "leader.replication.throttled.replicas": "0:1,1:2",
            "follower.replication.throttled.replicas": "*",
            "compression.zstd.level": "-5",
        },
        DEFAULTS,
    )


def test_dynamic_layers_win_in_order() -> None:
    settings = broker(max_connections="10", log_retention_ms="10")
    assert settings.with_dynamic({"max.connections": "20"}, {}).max_connections == 20
    both = settings.with_dynamic({"max.connections": "20"}, {"max.connections": "30"})
    assert both.max_connections == 30
    assert both.with_dynamic({}, {}).max_connections == 10
    assert settings.with_dynamic({"log.retention.ms": "5"}, {}).topic_defaults.retention_ms == 5


def test_a_stored_dynamic_value_that_cannot_be_used_is_a_warning() -> None:
    settings = broker(max_connections="10").with_dynamic({"max.connections": "lots"}, {})
    assert settings.max_connections == 10
    assert settings.warnings == (
        (
            "Invalid value lots for max.connections: must be a whole number of at least 0; "
            "the stored value is ignored"
        ),
    )


@pytest.mark.parametrize(
    ("overrides", "per_broker", "reason"),
    [
        ({"num.partitions": "3"}, True, "it cannot change while the broker runs"),
        ({"broker.id": "3"}, True, "it cannot change while the broker runs"),
        ({"listeners": "PLAINTEXT://:1"}, True, "it cannot change while the broker runs"),
        ({"max.connections": "x"}, False, "must be a whole number"),
        ({"max.connections": None}, False, "must be a whole number"),
        ({"advertised.listeners": "OTHER://h:1"}, True, "it cannot change while the broker runs"),
        ({"log.retention.ms": "0"}, True, "at least 1, or -1"),
        ({"log.roll.hours": "2"}, True, "it cannot change while the broker runs"),
    ],
)
def test_broker_overrides_are_refused(
    overrides: dict[str, str | None], per_broker: bool, reason: str
) -> None:
    with pytest.raises(InvalidSetting, match=reason):
        check_broker_overrides(overrides, BrokerSettings(), per_broker=per_broker)


def test_broker_overrides_are_taken() -> None:
    current = BrokerSettings()
    check_broker_overrides({"log.retention.ms": "5", "plugin.x": "y"}, current, per_broker=False)
    check_broker_overrides({"max.connections": "7"}, current, per_broker=True)


def test_only_the_finest_unit_changes_while_running() -> None:
    assert BROKER_DECLARED["log.retention.ms"].scope is Scope.CLUSTER_WIDE
    assert BROKER_DECLARED["log.retention.hours"].scope is Scope.READ_ONLY


def test_import_pulls_in_nothing_heavy() -> None:
    program = (
        "import sys; import odradek.config; "
        "print(sorted({'difflib', 'dataclasses', 'asyncio', 'inspect'} & set(sys.modules)))"
    )
    shown = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    assert shown.stdout.strip() == "[]"
