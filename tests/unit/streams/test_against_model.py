"""Tables, their joins and aggregates against a model in plain Python.

A history is a list of updates and deletions of two tables, with timestamps in any order. After each
of them the model computes the whole result anew from the rows that there are; what the executor has
emitted, applied to a dict, must be the same. So a row that is not retracted, or retracted twice, is
noticed at once.
"""

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from odradek.streams import LONG, StreamsBuilder, Table
from odradek.streams.testing import TopologyTestDriver

HISTORIES = 1000
STEPS = 25
Rows = dict[str, Any]
Model = Callable[[Rows, Rows], Rows]


def _table_join(left: Rows, right: Rows) -> Rows:
    return {key: [row, right[key]] for key, row in left.items() if key in right}


def _left_join(left: Rows, right: Rows) -> Rows:
    return {key: [row, right.get(key)] for key, row in left.items()}


def _outer_join(left: Rows, right: Rows) -> Rows:
    keys = {*left, *right}
    return {key: [left.get(key), right.get(key)] for key in keys}


def _foreign_join(left: Rows, right: Rows) -> Rows:
    return {key: [row, right[row["of"]]] for key, row in left.items() if row["of"] in right}


def _foreign_left_join(left: Rows, right: Rows) -> Rows:
    return {key: [row, right.get(row["of"])] for key, row in left.items()}


def _sums(left: Rows, right: Rows) -> Rows:
    groups: dict[str, list[int]] = {}
    for row in left.values():
        if row["of"] is not None:
            groups.setdefault(row["of"], []).append(row["n"])
    return {group: [len(numbers), sum(numbers)] for group, numbers in groups.items()}


def _filtered_join(left: Rows, right: Rows) -> Rows:
    kept = {key: row["n"] for key, row in left.items() if row["n"] > 4}
    return {key: [number, right[key]["n"]] for key, number in kept.items() if key in right}


def _pair(one: Any, two: Any) -> list[Any]:
    return [one, two]


def _build(name: str, left: "Table[str, Any]", right: "Table[str, Any]") -> "Table[str, Any]":
    if name in ("join", "left join", "outer join"):
        return getattr(left, name.replace(" ", "_"))(right, _pair)  # type: ignore[no-any-return]
    if name == "foreign join":
        return left.join_foreign(right, lambda row: row["of"], _pair)
    if name == "foreign left join":
        return left.join_foreign(right, lambda row: row["of"], _pair, is_left=True)
    if name == "filtered join":
        numbers = left.map_values(lambda row: row["n"]).filter(lambda _, number: number > 4)
        return numbers.join(right.map_values(lambda row: row["n"]), _pair)
    return (
        left.group_by(lambda _, row: (row["of"], row["n"]))
        .aggregate(
            lambda: [0, 0],
            lambda _, number, result: [result[0] + 1, result[1] + number],
            lambda _, number, result: [result[0] - 1, result[1] - number],
        )
        .filter(lambda _, result: result[0] > 0)
    )


_MODELS: dict[str, Model] = {
    "join": _table_join,
    "left join": _left_join,
    "outer join": _outer_join,
    "foreign join": _foreign_join,
    "foreign left join": _foreign_left_join,
    "filtered join": _filtered_join,
    "sums": _sums,
}


def _history(chance: random.Random) -> Iterator[tuple[str, str, Any, int]]:
    """Yields the table, key, row or None, and a time that may be before that of the last one."""
    for step in range(STEPS):
        row = {"of": chance.choice([None, "a", "b", "c"]), "n": chance.randrange(10)}
        deletes = chance.random() < 0.3
        yield (
            chance.choice(["left", "right"]),
            chance.choice("abc"),
            None if deletes else row,
            chance.randrange(step + 10),
        )


@pytest.mark.parametrize("name", _MODELS)
def test_random_histories(name: str) -> None:
    builder = StreamsBuilder()
    left, right = builder.table("left"), builder.table("right")
    _build(name, left, right).to("out")
    plan, model = builder.build(), _MODELS[name]
    for seed in range(HISTORIES):
        chance = random.Random(f"{name} {seed}")
        tables: dict[str, Rows] = {"left": {}, "right": {}}
        result: Rows = {}
        driver = TopologyTestDriver(plan, partitions=chance.choice([1, 3]))
        topics = {topic: driver.input_topic(topic) for topic in tables}
        output = driver.output_topic("out")
        for topic, key, row, timestamp_ms in _history(chance):
            topics[topic].send(key, row, timestamp_ms=timestamp_ms)
            if row is None:
                tables[topic].pop(key, None)
            else:
                tables[topic][key] = row
            for out_key, value in output.read_key_values():
                if value is None:
                    # As in Kafka Streams, what is not there may be deleted.
                    result.pop(out_key, None)
                else:
                    result[out_key] = value
            assert result == model(tables["left"], tables["right"]), f"seed {seed}"


def test_counts_undo_rows() -> None:
    builder = StreamsBuilder()
    table = builder.table("left", value=LONG)
    table.group_by(lambda _, number: (str(number), number)).count().to("out")
    driver = TopologyTestDriver(builder.build())
    rows = driver.input_topic("left", value=LONG)
    output = driver.output_topic("out", value=LONG)
    rows.send("a", 1)
    rows.send("b", 1)
    rows.send("a", 2)
    rows.send("b", None)
    assert output.read_key_values() == [("1", 1), ("1", 2), ("1", 1), ("2", 1), ("1", 0)]
