"""Joins of tables, and windows, answer what Kafka Streams answers, record by record.

`tests/conformance/streams/table_joins.jsonl` has random histories of two tables, with times in any
order, and what the TopologyTestDriver of Kafka Streams 3.9.0 wrote after each record
(`TableJoins.java` beside it says how that was asked). Foreign keys are never null there: Kafka
Streams does not retract a row whose foreign key becomes null, and we do.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from odradek.streams import STRING, StreamsBuilder
from odradek.streams.plan.nodes import Plan
from odradek.streams.plan.windows import SessionWindows, TimeWindows
from odradek.streams.testing import TopologyTestDriver

_FILE = Path(__file__).parents[2] / "conformance/streams/table_joins.jsonl"
_CASES = [json.loads(line) for line in _FILE.read_text().splitlines()]


def _pair(one: str | None, other: str | None) -> str:
    return f"{'null' if one is None else one}+{'null' if other is None else other}"


def _plan(join: str) -> Plan:
    builder = StreamsBuilder()
    left = builder.table("l", key=STRING, value=STRING)
    right = builder.table("r", key=STRING, value=STRING)
    result: Any
    match join:
        case "join":
            result = left.join(right, _pair)
        case "left":
            result = left.left_join(right, _pair)
        case "outer":
            result = left.outer_join(right, _pair)
        case "fk" | "fkleft":
            is_left = join == "fkleft"
            result = left.join_foreign(right, lambda row: row[:2], _pair, is_left=is_left)
        case "filterjoin":
            kept = left.filter(lambda _, row: not row.endswith("x"))
            result = kept.left_join(right, _pair).filter(lambda _, row: not row.endswith("S"))
        case "count":
            result = left.group_by(lambda _, row: (row[:1], row)).count().map_values(str)
        case _:
            joined = left.join(right, _pair).group_by(lambda _, row: (row[-1:], row))
            result = joined.count().filter(lambda _, count: count != 1).map_values(str)
    result.to("o", key=STRING, value=STRING)
    return builder.build()


@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("number", range(len(_CASES)))
def test_table_joins(number: int, partitions: int) -> None:
    case = _CASES[number]
    driver = TopologyTestDriver(_plan(case["join"]), partitions=partitions)
    topics = {
        topic: driver.input_topic(topic, key=STRING, value=STRING)
        for topic in ("l", "r")
        if topic == "l" or case["join"] != "count"
    }
    output = driver.output_topic("o", key=STRING, value=STRING)
    for (topic, key, row, timestamp_ms), expected in zip(
        case["history"], case["results"], strict=True
    ):
        if topic in topics:
            topics[topic].send(key, row, timestamp_ms=timestamp_ms)
        found = [[one.key, one.value, one.timestamp_ms] for one in output.read()]
        if partitions > 1:
            # Records of several partitions come in any order.
            found, expected = sorted(found, key=str), sorted(expected, key=str)  # noqa: PLW2901
        assert found == expected


def _text(count: int | None) -> str | None:
    return None if count is None else str(count)


def _windowed(windows: SessionWindows | TimeWindows, *, is_final: bool) -> Plan:
    builder = StreamsBuilder()
    counts = builder.stream("l", key=STRING, value=STRING).group_by_key().windowed_by(windows)
    table = counts.count()
    if is_final:
        table = table.suppress(until_window_closes=True)
    named = table.to_stream().map(
        lambda key, count: (
            f"{key.key}/{key.window.start_ms}/{key.window.end_ms}",
            # A session that is deleted has no count.
            _text(count),
        )
    )
    named.to("o", key=STRING, value=STRING)
    return builder.build()


_Results = list[tuple[str, str | None, int]]


@pytest.mark.parametrize(
    ("windows", "is_final", "history", "results"),
    [
        (
            SessionWindows(gap_ms=4, grace_ms=5), False,
            [("a", 8), ("a", 8), ("a", 11), ("a", 9)],
            [
                [("a/8/8", "1", 8)], [("a/8/8", "2", 8)],
                [("a/8/8", None, 8), ("a/8/11", "3", 11)],
                # A session is deleted also if it stays as long as it is.
                [("a/8/11", None, 11), ("a/8/11", "4", 11)],
            ],
        ),
        (
            TimeWindows(size_ms=10, advance_ms=10, grace_ms=5), True,
            [("b", 0), ("a", 8), ("a", 8), ("a", 11), ("a", 9), ("a", 9), ("a", 16)],
            [[], [], [], [], [], [], [("a/0/10", "4", 9), ("b/0/10", "1", 0)]],
        ),
    ],
)  # fmt: skip
def test_windows(
    windows: SessionWindows | TimeWindows,
    is_final: bool,
    history: list[tuple[str, int]],
    results: list[_Results],
) -> None:
    """What the TopologyTestDriver of Kafka Streams 3.9.0 wrote."""
    driver = TopologyTestDriver(_windowed(windows, is_final=is_final))
    records = driver.input_topic("l", key=STRING, value=STRING)
    output = driver.output_topic("o", key=STRING, value=STRING)
    for (key, timestamp_ms), expected in zip(history, results, strict=True):
        records.send(key, "x", timestamp_ms=timestamp_ms)
        assert [(one.key, one.value, one.timestamp_ms) for one in output.read()] == expected
