"""`odradek get-offsets` says which of the partitions that were named do not exist."""

import pytest

from odradek.cli.topics.get_offsets import chosen_filter
from odradek.cli.topics.partition_actions import selected_partitions
from odradek.client.cluster_view import Partition, Topic
from odradek.protocol.types import NO_TOPIC_ID, BrokerId, LeaderEpoch, TopicPartition
from odradek.tools import hints
from odradek.tools.failures import CommandFailed
from tests.unit.cli.test_flags import parse

PARTITIONS = {
    index: Partition(index, BrokerId(1), LeaderEpoch(0), (), (), ()) for index in range(2)
}
KNOWN = {"orders": Topic("orders", NO_TOPIC_ID, False, PARTITIONS)}
SAID = "topic 'orders' has no partition 9; it has 0 to 1"


def selected(*flags: str) -> list[TopicPartition]:
    arguments = parse("get-offsets", *flags)
    return selected_partitions(arguments, KNOWN, chosen_filter(arguments))


@pytest.mark.parametrize(
    "flags",
    [("--topic-partitions", "orders:0,orders:9"), ("--topic", "orders", "--partitions", "0,9")],
)
def test_a_partition_that_is_not_there_is_hinted_at(
    flags: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hints, "_hinted", set())
    assert selected(*flags) == [TopicPartition("orders", 0)]
    assert capsys.readouterr().err == f"hint: {SAID}\n"


def test_a_partition_that_is_not_there_alone_is_an_error() -> None:
    with pytest.raises(CommandFailed) as raised:
        selected("--topic-partitions", "orders:9")
    assert str(raised.value) == SAID


def test_patterns_and_ranges_select_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert len(selected("--topic-partitions", "ord.*:0-9")) == 2
    assert len(selected("--topic-partitions", "orders:1-")) == 1
    assert capsys.readouterr().err == ""
