"""The records of a workload, compared with those of Debezium's connector for MariaDB.

`tests/data/debezium/mariadb*.json` say what Debezium 3.5.0.Final on Apache Connect 4.3.1 wrote to
its topics for `mariadb-setup.sql` (a snapshot) and `mariadb-changes.sql` (changes) on MariaDB
10.11: keys, operations, rows before and after, tombstones, headers and schemas. `KNOWN` are the
defects of it that are not copied.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from odradek.connect.converters.json_converter import JsonConverter
from odradek.connect.records import SourceRecord
from tests.unit.connect.connectors.mysql.mysql_bench import DATA, Bench

pytestmark = pytest.mark.xdist_group("mariadb")

OTHER_MODES = {
    "decimal_handling_mode": "string",
    "bigint_unsigned_handling_mode": "precise",
    "time_precision_mode": "connect",
    "binary_handling_mode": "base64",
    "skipped_operations": "none",
}
# Defaults of texts keep the backslashes and doubled quotes of SQL; a label with a comma has a
# backslash in the stream, though not in the snapshot; a UUID in the stream has its bytes moved.
KNOWN = {("defaults", "quoted"), ("defaults", "slash"), ("texts", "color"), ("texts", "ident")}


@pytest.mark.parametrize(
    ("facts", "properties"), [("mariadb", {}), ("mariadb-other-modes", OTHER_MODES)]
)
def test_records_are_those_of_debezium(
    bench: Callable[..., Bench], facts: str, properties: Mapping[str, str]
) -> None:
    here = bench(**properties, include_schema_changes="false")
    here.run_file("mariadb-setup.sql")
    records = here.until("started")
    here.run_file("mariadb-changes.sql")
    records += here.until("started")
    found = _facts(records)
    wanted = json.loads((DATA / f"{facts}.json").read_text())
    assert found.keys() == wanted.keys()
    for table, of_table in wanted.items():
        _compare(table, found[table], of_table)


def _compare(table: str, found: Any, wanted: Any) -> None:
    """Order counts for each key only: Debezium reads the tables of a snapshot in no order."""
    for key, events in _by_key(wanted["events"]).items():
        here = _by_key(found["events"]).get(key, [])
        assert [_kind(event) for event in here] == [_kind(event) for event in events], (table, key)
        for theirs, ours in zip(events, here, strict=True):
            for side in ("before", "after"):
                for column, value in (theirs.get(side) or {}).items():
                    if (table, column) not in KNOWN or theirs["op"] == "r":
                        assert ours[side][column] == value, (table, key, theirs["op"], column)
    assert _by_key(found["events"]).keys() == _by_key(wanted["events"]).keys()
    assert found["key schemas"] == wanted["key schemas"]
    assert len(found["row schemas"]) == len(wanted["row schemas"]), (table, found["row schemas"])
    for theirs, ours in zip(wanted["row schemas"], found["row schemas"], strict=True):
        assert list(ours) == list(theirs)
        for column, schema in theirs.items():
            if (table, column) not in KNOWN or table == "texts":
                assert ours[column] == schema, (table, column)


def _kind(event: Mapping[str, Any]) -> tuple[str, list[str]]:
    return event["op"], event.get("headers", [])


def _by_key(events: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for event in events:
        found.setdefault(json.dumps(event["key"], sort_keys=True), []).append(event)
    return found


def _facts(records: list[SourceRecord]) -> dict[str, Any]:
    """The records in the form of the files, through Kafka Connect's JSON."""
    converter = JsonConverter()
    found: dict[str, Any] = {}
    for record in records:
        table = record.topic.rpartition(".")[2]
        of_table = found.setdefault(table, {"events": [], "key schemas": [], "row schemas": []})
        key, key_schema = _parts(converter, record.key_schema, record.key)
        value, value_schema = _parts(converter, record.value_schema, record.value)
        event = {"key": key, "op": "tombstone"}
        if value is not None:
            event = {"key": key, **{name: value[name] for name in ("op", "before", "after")}}
            _note(of_table["key schemas"], key_schema and _fields(key_schema))
            _note(of_table["row schemas"], _fields(_fields(value_schema)["after"]))
        headers = sorted(header.name for header in record.headers if ".context." not in header.name)
        of_table["events"].append({**event, "headers": headers} if headers else event)
    return found


def _parts(converter: JsonConverter, schema: Any, value: Any) -> tuple[Any, Any]:
    data = converter.from_connect("topic", schema, value)
    if data is None:
        return None, None
    found = json.loads(data)
    return found["payload"], found["schema"]


def _fields(schema: Any) -> dict[str, Any]:
    return {
        field["field"]: {name: part for name, part in field.items() if name != "field"}
        for field in schema["fields"]
    }


def _note(known: list[Any], schema: Any) -> None:
    if not known or known[-1] != schema:
        known.append(schema)
