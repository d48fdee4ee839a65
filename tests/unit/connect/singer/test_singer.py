"""Taps as sources: a tap of the tests runs in a process of its own."""

import json
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import pytest

from odradek.connect import plugins
from odradek.connect.connectors.positions import Positions
from odradek.connect.data import schemas
from odradek.connect.errors import DataError, InvalidConfig
from odradek.connect.records import SourceRecord
from odradek.connect.singer import allowed
from odradek.connect.singer.messages import parse
from odradek.connect.singer.schemas import StreamShape
from odradek.connect.singer.source import SingerTask

TAP = Path(__file__).with_name("tap_numbers.py")
PATIENCE_S = 30.0


@pytest.fixture
def tap(tmp_path: Path) -> Iterator[str]:
    """The name of the tap, which a worker's file allows."""
    program = tmp_path / "tap-numbers"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{TAP}" "$@"\n')
    program.chmod(0o755)
    notes = allowed.install([f"tap-numbers={program}"])
    assert notes == [f"Singer tap tap-numbers: {program}"]
    yield "tap-numbers"
    for table in (plugins.SOURCES, plugins.CONNECTORS):
        cast("dict[str, Any]", table).pop("odradek.connect.singer.tap-numbers")


def task(tap: str, config: dict[str, Any], **options: str) -> SingerTask:
    plugin = plugins.find_connector(tap)
    given = {"tap.config": json.dumps(config), "tap.interval.ms": "1"}
    given |= {name.replace("_", "."): text for name, text in options.items()}
    made: SingerTask = plugin.load()(plugin.settings_class.read(given)).task()
    return made


def drain(made: SingerTask, start: Positions, count: int) -> tuple[Positions, list[SourceRecord]]:
    found: list[SourceRecord] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(found) < count:
        assert time.monotonic() < deadline, f"only {len(found)} records came"
        end = made.reach(start, min(7, count - len(found)))
        records = list(made.read(start, end)) if end != start else []
        assert list(made.read(start, end) if end != start else ()) == records
        found += records
        if end != start:
            made.stored(end)
        start = end
    return start, found


def test_records_have_the_schema_of_the_tap(tap: str) -> None:
    options = {"tap.streams": "numbers", "topic.prefix": "zoo."}
    with closing(task(tap, {"up_to": 3}, **options)) as made:
        _, found = drain(made, Positions(), 3)
    first = found[0]
    assert (first.topic, first.key, first.timestamp_ms) == (
        "zoo.numbers", {"id": 1}, 1_704_153_600_000,
    )  # fmt: skip
    assert first.value == {
        "id": 1,
        "name": "n1",
        "anything": '{"secret": null}',
        "of": {"half": 0.5},
    }
    schema = first.value_schema
    assert schema is not None
    assert [part.schema.type for part in schema.fields] == ["int64", "string", "string", "struct"]


def test_a_run_goes_on_where_the_state_is(tap: str) -> None:
    config = {"up_to": 25}
    options = {"tap.streams": "numbers"}
    with closing(task(tap, config, **options)) as made:
        end, found = drain(made, Positions(), 21)
    assert [record.value["id"] for record in found] == list(range(1, 22))
    (offset,) = [offset for _, offset in end]
    assert offset == {"state": {"last": 20}, "records": 1}
    with closing(task(tap, config, **options)) as made:
        _, more = drain(made, end, 5)
    # What came behind the last STATE comes again: nothing is missed.
    assert [record.value["id"] for record in more][:5] == list(range(21, 26))


def test_a_tap_runs_again_after_a_pause(tap: str) -> None:
    with closing(task(tap, {"up_to": 2}, **{"tap.streams": "numbers"})) as made:
        end, _ = drain(made, Positions(), 2)
        deadline = time.monotonic() + PATIENCE_S
        last = [({"tap": "tap-numbers"}, {"state": {"last": 2}, "records": 0})]
        while end != Positions(last):
            assert time.monotonic() < deadline
            start, end = end, made.reach(end, 10)
            if end != start:
                made.stored(end)
        made._config["up_to"] = 4
        _, more = drain(made, end, 2)
    assert [record.value["id"] for record in more] == [3, 4]


def test_the_workers_secrets_are_not_passed_on(tap: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_THE_WORKER", "xyz")
    with closing(task(tap, {"up_to": 1}, **{"tap.schemas": "false"})) as made:
        _, found = drain(made, Positions(), 2)
    assert [record.topic for record in found] == ["numbers", "squares"]
    assert found[0].value["anything"] == {"secret": None}
    assert found[0].value_schema is None


def test_a_tap_that_fails_says_why(tap: str) -> None:
    made = task(tap, {"fails": True}, **{"tap.streams": "numbers"})
    with closing(made), pytest.raises(DataError, match="status 3: there is no such account"):
        drain(made, Positions(), 1)


def test_a_stream_that_is_not_there(tap: str) -> None:
    made = task(tap, {}, **{"tap.streams": "letters"})
    with closing(made), pytest.raises(DataError, match="no stream letters: numbers, squares"):
        drain(made, Positions(), 1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tap-x", "is not like tap-github"),
        ("tap-x=bin/tap", "is not like tap-github"),
        ("tap-x=/nowhere/tap", "not a program that can be run"),
        ("tap-x=/tmp", "not a program that can be run"),
    ],
)
def test_what_the_workers_file_says_is_checked(text: str, message: str) -> None:
    with pytest.raises(InvalidConfig, match=message):
        allowed.install([text])


def test_configurations_do_not_name_programs() -> None:
    with pytest.raises(InvalidConfig, match="Failed to find any class"):
        plugins.find_connector("/bin/sh")


@pytest.mark.parametrize(
    "line", [b"hello", b"{}", b'{"type":"RECORD"}', b"[1]", b'{"type":"STATE"}']
)
def test_lines_that_are_no_messages(line: bytes) -> None:
    with pytest.raises(DataError, match="not a message of Singer"):
        parse(line)


def test_loose_schemas_of_taps() -> None:
    shape = StreamShape(
        "s",
        {
            "properties": {
                "a": {"type": ["integer", "string"]}, "b": {"type": ["integer", "number"]},
                "c": {"anyOf": [{"type": "string"}]}, "d": {"type": "array"},
                "e": {"type": "array", "items": {"type": ["null", "boolean"]}},
                "f": {"type": "string", "format": "date-time"}, "g": {"type": "object"},
            }
        },
        (),
    )  # fmt: skip
    value = shape.value(
        {"a": 5, "b": 1, "c": [1], "d": [1, "x"], "e": [True, None], "f": "now", "g": {"x": 1}}
    )
    assert value == {
        "a": "5", "b": 1.0, "c": "[1]", "d": '[1, "x"]', "e": [True, None], "f": "now",
        "g": '{"x": 1}',
    }  # fmt: skip
    assert shape.value({})["a"] is None
    assert shape.value_schema.fields[0].schema == schemas.OPTIONAL_STRING
    with pytest.raises(DataError, match="instead of a number"):
        shape.value({"b": "x"})
