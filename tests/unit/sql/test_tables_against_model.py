"""Queries over tables against a model in plain Python.

A history is a list of updates and deletions of two tables, with times in any order, in topics of
one or of three partitions. After each of them the model computes the whole result anew; the rows
that the query has written, applied to a dict, must be the same.
"""

import json
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from odradek.sql.engine.persistent import Prepared, prepare
from odradek.sql.language.parser import parse
from odradek.sql.planning.sources import DataSource, key_codec, make_codec, value_codec
from odradek.sql.testing import SqlTester
from odradek.streams.running.executor import Executor, InputRecord, OutputRecord

HISTORIES = 150
STEPS = 25
Row = dict[str, Any]
Rows = dict[Any, Row]
Model = Callable[[Rows, Rows], dict[Any, tuple[Any, ...]]]

_TABLES = """
CREATE TABLE a (id INT PRIMARY KEY, fk INT, g STRING, n INT)
  WITH (kafka_topic='a', value_format='JSON');
CREATE TABLE b (id INT PRIMARY KEY, v STRING) WITH (kafka_topic='b', value_format='JSON',
  key_format='JSON');
"""


def _joined(left: Rows, right: Rows) -> dict[Any, tuple[Any, ...]]:
    return {key: (row["N"], right[key]["V"]) for key, row in left.items() if key in right}


def _outer(left: Rows, right: Rows) -> dict[Any, tuple[Any, ...]]:
    return {
        key: (left.get(key, {}).get("N"), right.get(key, {}).get("V")) for key in {*left, *right}
    }


def _foreign(left: Rows, right: Rows) -> dict[Any, tuple[Any, ...]]:
    return {
        key: (row["N"], right[row["FK"]]["V"])
        for key, row in left.items()
        if row["FK"] in right and row["N"] > 2
    }


def _foreign_left(left: Rows, right: Rows) -> dict[Any, tuple[Any, ...]]:
    return {
        key: (row["N"], right[row["FK"]]["V"] if row["FK"] in right else None)
        for key, row in left.items()
    }


def _groups(left: Rows) -> dict[Any, list[Row]]:
    groups: dict[Any, list[Row]] = {}
    for row in left.values():
        if row["G"] is not None:
            groups.setdefault(row["G"], []).append(row)
    return groups


def _sums(left: Rows, right: Rows) -> dict[Any, tuple[Any, ...]]:
    return {
        group: (
            len(rows),
            sum(row["N"] for row in rows),
            sum(row["FK"] is not None for row in rows),
        )
        for group, rows in _groups(left).items()
    }


def _having(left: Rows, right: Rows) -> dict[Any, tuple[Any, ...]]:
    return {
        group: (sum(row["N"] for row in rows) / len(rows),)
        for group, rows in _groups(left).items()
        if len(rows) > 1
    }


def _of_join(left: Rows, right: Rows) -> dict[Any, tuple[Any, ...]]:
    found: dict[Any, list[int]] = {}
    for key, row in left.items():
        if key in right:
            found.setdefault(right[key]["V"], []).append(row["N"])
    return {value: (len(numbers), sum(numbers)) for value, numbers in found.items()}


_QUERIES: dict[str, tuple[str, Model]] = {
    "join": ("SELECT a.id, n, v FROM a JOIN b ON a.id = b.id", _joined),
    "outer join": ("SELECT ROWKEY, n, v FROM a FULL JOIN b ON a.id = b.id", _outer),
    "foreign join": ("SELECT a.id, n, v FROM a JOIN b ON a.fk = b.id WHERE n > 2", _foreign),
    "foreign left join": ("SELECT a.id, n, v FROM a LEFT JOIN b ON b.id = a.fk", _foreign_left),
    "sums": ("SELECT g, COUNT(*) AS c, SUM(n) AS s, COUNT(fk) AS f FROM a GROUP BY g", _sums),
    "having": ("SELECT g, AVG(n) AS m FROM a GROUP BY g HAVING COUNT(*) > 1", _having),
}  # fmt: skip


class _Output:
    def __init__(self) -> None:
        self.records: list[OutputRecord] = []

    def write(self, record: OutputRecord) -> None:
        self.records.append(record)

    def changed(self, partition: int, store: str, key: Any, value: Any) -> None:
        pass


class _History:
    """One run of a query, and what its topic says of the result."""

    def __init__(self, prepared: Prepared, sources: dict[str, DataSource], count: int) -> None:
        self._output = _Output()
        counts = {"a": count, "b": count, prepared.sink.topic: count}
        self._executor = Executor(prepared.plan, counts, self._output)
        self._codecs = {
            name: (key_codec(one, make_codec), value_codec(one, make_codec))
            for name, one in (*sources.items(), ("sink", prepared.sink))
        }
        self._count = count
        self._number = 0
        self.result: dict[Any, tuple[Any, ...]] = {}

    def change(self, table: str, key: int, row: Row | None, timestamp_ms: int) -> None:
        keys, _ = self._codecs[table]
        data = keys.encode((key,))
        value = None if row is None else json.dumps(row).encode()
        partition = Executor.partition_of(data, self._count)
        self._number += 1
        self._executor.deliver(
            InputRecord(table, partition, self._number, timestamp_ms, data, value)
        )
        keys, values = self._codecs["sink"]
        for record in self._output.records:
            found, columns = keys.decode(record.key)[0], values.decode(record.value)
            if columns is None:
                self.result.pop(found, None)
            else:
                self.result[found] = columns
        self._output.records.clear()


def _changes(chance: random.Random) -> Iterator[tuple[str, int, Row | None, int]]:
    """Yields the table, key, row or None, and a time that may be before that of the last one."""
    for step in range(STEPS):
        table, key = chance.choice("ab"), chance.randrange(3)
        row: Row | None = None
        if chance.random() > 0.3:
            row = {"V": chance.choice("xyz")}
            if table == "a":
                row = {
                    "FK": chance.choice([None, 0, 1, 2, 9]), "G": chance.choice([None, "p", "q"]),
                    "N": chance.randrange(6),
                }  # fmt: skip
        yield table, key, row, chance.randrange(step + 10)


def _prepared(tester: SqlTester, text: str) -> Prepared:
    statement: Any = parse(f"CREATE TABLE o AS {text};")
    return prepare(statement, tester.catalogue, tester._defaults, reset="earliest")


def _is_empty_group(name: str, columns: tuple[Any, ...]) -> bool:
    """A group without rows stays, with a count of 0, as in ksqlDB."""
    return name == "sums" and columns[0] == 0


@pytest.mark.parametrize("name", _QUERIES)
def test_random_histories(name: str) -> None:
    text, model = _QUERIES[name]
    tester = SqlTester()
    tester.run(_TABLES)
    prepared = _prepared(tester, text)
    sources = {one.topic: one for one in tester.catalogue.sources.values()}
    for seed in range(HISTORIES):
        chance = random.Random(f"{name} {seed}")
        tables: dict[str, Rows] = {"a": {}, "b": {}}
        history = _History(prepared, sources, chance.choice([1, 3]))
        newest_ms = went_back = 0
        for table, key, row, timestamp_ms in _changes(chance):
            went_back += timestamp_ms < newest_ms
            newest_ms = max(newest_ms, timestamp_ms)
            history.change(table, key, row, timestamp_ms)
            if row is None:
                tables[table].pop(key, None)
            else:
                tables[table][key] = row
            found = {
                group: columns
                for group, columns in history.result.items()
                if not _is_empty_group(name, columns)
            }
            assert found == model(tables["a"], tables["b"]), f"seed {seed}"
        assert went_back, "no time went back"


def test_a_table_of_a_join_is_aggregated() -> None:
    """Two queries, one after the other: changes of the first retract rows of the second."""
    tester = SqlTester()
    tester.run(_TABLES)
    tester.run(
        "CREATE TABLE j AS SELECT a.id AS id, n, v FROM a JOIN b ON a.id = b.id;"
        "CREATE TABLE o AS SELECT v, COUNT(*) AS c, SUM(n) AS s FROM j GROUP BY v;"
    )
    for seed in range(30):
        chance = random.Random(seed)
        tables: dict[str, Rows] = {"a": {}, "b": {}}
        for table in ("a", "b"):
            for key in range(3):
                tester.append(table, key_codec(tester.catalogue.sources[table.upper()], make_codec)
                              .encode((key,)), None, 0)  # fmt: skip
        for table, key, row, timestamp_ms in _changes(chance):
            keys = key_codec(tester.catalogue.sources[table.upper()], make_codec)
            value = None if row is None else json.dumps(row).encode()
            tester.append(table, keys.encode((key,)), value, timestamp_ms)
            if row is None:
                tables[table].pop(key, None)
            else:
                tables[table][key] = row
        tester.deliver()
        result: dict[Any, tuple[Any, ...]] = {}
        for found, is_deleted in tester.rows("O"):
            result[found["V"]] = (0, 0) if is_deleted else (found["C"], found["S"])
        kept = {group: columns for group, columns in result.items() if columns[0]}
        assert kept == _of_join(tables["a"], tables["b"]), f"seed {seed}"
