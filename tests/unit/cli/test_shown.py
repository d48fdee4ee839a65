"""What tools show of topics, brokers and progress: text made from plain values."""

import argparse
import io
import sys

import pytest

from odradek.cli.cluster.cluster_actions import api_lines
from odradek.cli.topics.topic_actions import (
    PartitionFilter,
    PartitionState,
    TopicState,
    topic_id_bytes,
    topic_id_text,
)
from odradek.client.admin.config_types import ConfigEntry, ConfigSource
from odradek.tools.failures import CommandFailed, UsageError
from odradek.tools.producing import producer_settings
from odradek.tools.terminal import Progress, print_json, table
from odradek.tools.topic_names import no_such_topic


def setting(name: str, value: str, source: ConfigSource) -> ConfigEntry:
    return ConfigEntry(name, value, source, False, False, 0, (), None)


HEALTHY = PartitionState(0, 1, [1, 2], [1, 2], [], [])
LAGGING = PartitionState(1, 2, [2, 1], [2], [1], [])
LOST = PartitionState(2, -1, [3], [], None, None)
TOPIC = TopicState(
    "t",
    bytes(range(16)),
    [HEALTHY, LAGGING, LOST],
    {
        "retention.ms": setting("retention.ms", "5", ConfigSource.DYNAMIC_TOPIC_CONFIG),
        "min.insync.replicas": setting(
            "min.insync.replicas", "2", ConfigSource.STATIC_BROKER_CONFIG
        ),
        "cleanup.policy": setting("cleanup.policy", "delete", ConfigSource.DEFAULT_CONFIG),
    },
)


class TestTopics:
    def test_lines_as_kafka_prints_them(self) -> None:
        assert TOPIC.line() == (
            "Topic: t\tTopicId: AAECAwQFBgcICQoLDA0ODw\tPartitionCount: 3\tReplicationFactor: 2"
            "\tConfigs: retention.ms=5,min.insync.replicas=2"
        )
        assert LAGGING.line("t") == (
            "\tTopic: t\tPartition: 1\tLeader: 2\tReplicas: 2,1\tIsr: 2\tElr: 1\tLastKnownElr: "
        )
        assert LOST.line("t") == (
            "\tTopic: t\tPartition: 2\tLeader: none\tReplicas: 3\tIsr: \tElr: N/A"
            "\tLastKnownElr: N/A"
        )

    @pytest.mark.parametrize(
        ("flag", "shown"),
        [
            (None, [0, 1, 2]),
            ("under_replicated_partitions", [1, 2]),
            ("unavailable_partitions", [2]),
            ("under_min_isr_partitions", [1, 2]),
            ("at_min_isr_partitions", [0]),
            ("topics_with_overrides", []),
        ],
    )
    def test_filters(self, flag: str | None, shown: list[int]) -> None:
        chosen = PartitionFilter(filters(flag), [1, 2])
        assert [one.number for one in chosen.shown_partitions(TOPIC)] == shown
        assert chosen.shows_topic(TOPIC) == (flag in {None, "topics_with_overrides"})

    def test_a_leader_that_is_not_alive_is_no_leader(self) -> None:
        chosen = PartitionFilter(filters("unavailable_partitions"), [2])
        assert [one.number for one in chosen.shown_partitions(TOPIC)] == [0, 2]

    def test_one_filter_at_a_time(self) -> None:
        with pytest.raises(UsageError, match="at most one"):
            PartitionFilter(filters("unavailable_partitions", "at_min_isr_partitions"), [])

    def test_ids(self) -> None:
        assert topic_id_bytes(topic_id_text(TOPIC.id)) == TOPIC.id
        for text in ("short", "!", ""):
            with pytest.raises(UsageError, match="not a topic's id"):
                topic_id_bytes(text)


def filters(*flags: str | None) -> argparse.Namespace:
    names = (
        "under_replicated_partitions",
        "unavailable_partitions",
        "under_min_isr_partitions",
        "at_min_isr_partitions",
        "topics_with_overrides",
    )
    return argparse.Namespace(**{name: name in flags for name in names})


def test_an_unknown_topic_names_the_nearest_or_how_to_create_it() -> None:
    near = no_such_topic("order", ["orders", "clicks"])
    assert isinstance(near, CommandFailed)
    assert str(near) == "topic 'order' does not exist; did you mean orders?"
    writing = no_such_topic("x", ["orders"], may_create=True)
    assert str(writing).endswith("odradek topics --create --topic x")
    assert str(no_such_topic("x", ["orders"])).endswith("; `odradek topics --list` shows which do")
    pattern = no_such_topic("zz.*", ["orders"])
    assert str(pattern).startswith("no topic matches 'zz.*', which is a regular expression")


def test_versions_as_kafka_prints_them() -> None:
    assert api_lines({0: (0, 13), 47: (0, 0), 64: (0, 0), 3: (20, 21), 999: (1, 2)}) == [
        "\tProduce(0): 0 to 13 [usable: 13]",
        "\tMetadata(3): 20 to 21 [usable: UNSUPPORTED]",
        "\tOffsetDelete(47): 0 [usable: 0]",
        "\tUnregisterBroker(64): 0 [usable: UNSUPPORTED]",
        "\tUNKNOWN(999): 1 to 2 [usable: UNSUPPORTED]",
    ]


@pytest.mark.parametrize(
    ("properties", "idempotent"),
    [
        ({}, True),
        ({"acks": "-1"}, True),
        ({"acks": "1"}, False),
        ({"acks": " all "}, True),
        ({"retries": "0"}, False),
        ({"retries": " 0 "}, False),
        ({"max.in.flight.requests.per.connection": "6"}, False),
    ],
)
def test_idempotence_is_disabled_by_settings_that_exclude_it(
    properties: dict[str, str], idempotent: bool
) -> None:
    assert producer_settings(properties).enable_idempotence is idempotent


def test_columns_are_as_wide_as_they_need() -> None:
    assert table(["ID", "HOST"], [["1", "somewhere"], ["100", "x"]]) == (
        "ID   HOST\n1    somewhere\n100  x"
    )


def test_json_is_one_line_of_text(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"name": "ä", "many": [1, 2]})
    assert capsys.readouterr().out == '{"name":"ä","many":[1,2]}\n'


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class TestProgress:
    def test_it_is_seen_on_a_terminal_and_wiped_at_the_end(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        terminal = Terminal()
        monkeypatch.setattr(sys, "stderr", terminal)
        progress = Progress("records", total=2000)
        progress.update(500, 10.0)
        progress.update(501, 10.01)
        progress.clear()
        assert terminal.getvalue() == "\r\x1b[K500 of 2,000 (25%) records\r\x1b[K"

    def test_elsewhere_it_is_silent(self, monkeypatch: pytest.MonkeyPatch) -> None:
        file = io.StringIO()
        monkeypatch.setattr(sys, "stderr", file)
        progress = Progress("records")
        progress.update(1, 10.0)
        progress.clear()
        assert file.getvalue() == ""
