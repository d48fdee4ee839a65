"""The spool directory: formats, files that were read in part, and what becomes of files."""

import bz2
import gzip
import json
import os
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from odradek.connect import plugins
from odradek.connect.connectors.connector import SourceTask
from odradek.connect.connectors.positions import Positions
from odradek.connect.data import schemas
from odradek.connect.errors import DataError
from odradek.connect.records import SourceRecord

GENERATED = {"schema.generation.enabled": "true", "csv.first.row.as.header": "true"}


class Spool:
    def __init__(self, root: Path) -> None:
        self.input, self.finished, self.error = (root / name for name in ("in", "done", "bad"))
        for directory in (self.input, self.finished, self.error):
            directory.mkdir()
        self.positions = Positions()
        self.task: SourceTask | None = None

    def properties(self, **more: str) -> dict[str, str]:
        return {
            "topic": "t",
            "input.path": str(self.input),
            "finished.path": str(self.finished),
            "error.path": str(self.error),
            "input.file.pattern": ".*",
            "empty.poll.wait.ms": "0",
            **more,
        }

    def connector(self, kind: str, **more: str) -> Any:
        plugin = plugins.find_connector(f"SpoolDir{kind}Source")
        return plugin.load()(plugin.settings_class.read(self.properties(**more)))

    def open(self, kind: str, **more: str) -> None:
        self.close()
        self.task = self.connector(kind, **more).task()

    def close(self) -> None:
        if self.task is not None:
            self.task.close()

    def read(self, max_records: int = 1000, *, is_stored: bool = True) -> list[SourceRecord]:
        assert self.task is not None
        end = self.task.reach(self.positions, max_records)
        records = [*self.task.read(self.positions, end)]
        if is_stored:
            self.positions = end
            self.task.stored(end)
        return records

    def values(self, max_records: int = 1000) -> list[Any]:
        return [record.value for record in self.read(max_records)]

    @staticmethod
    def names(directory: Path) -> list[str]:
        return sorted(path.relative_to(directory).as_posix() for path in directory.rglob("*.*"))


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[Spool]:
    with closing(Spool(tmp_path)) as made:
        yield made


def test_csv_with_generated_schemas(spool: Spool) -> None:
    text = 'id,name,note\n1,Ann,\n2,"Bob, ""B""\nsecond line",x\n\n3,C\\,D,y\n'
    (spool.input / "a.csv").write_text(text)
    spool.open("Csv", **GENERATED, **{"schema.generation.key.fields": "id"})
    first, second, third = spool.read()
    assert first.value == {"id": "1", "name": "Ann", "note": ""}
    assert first.key == {"id": "1"}
    assert first.value_schema == schemas.struct(
        *(schemas.Field(name, schemas.OPTIONAL_STRING) for name in ("id", "name", "note")),
        name="com.github.jcustenborder.kafka.connect.model.Value",
    )
    assert second.value["name"] == 'Bob, "B"\nsecond line'
    assert third.value["name"] == "C,D"
    assert second.source_partition == {"fileName": "a.csv"}
    assert [record.source_offset["offset"] for record in (first, second, third)] == [1, 3, 5]
    assert spool.names(spool.input) == []
    assert spool.names(spool.finished) == ["a.csv"]


VALUE_SCHEMA = json.dumps(
    {
        "name": "Order",
        "type": "STRUCT",
        "isOptional": False,
        "fieldSchemas": {
            "id": {"type": "INT64", "isOptional": False},
            "ok": {"type": "BOOLEAN", "isOptional": True},
            "price": {
                "name": schemas.DECIMAL,
                "type": "BYTES",
                "version": 1,
                "parameters": {"scale": "2"},
                "isOptional": True,
            },
            "day": {"name": schemas.DATE, "type": "INT32", "version": 1, "isOptional": True},
            "at": {"name": schemas.TIMESTAMP, "type": "INT64", "version": 1, "isOptional": True},
        },
    }
)


def test_csv_with_a_schema(spool: Spool) -> None:
    (spool.input / "a.csv").write_text(
        "# comment\nAT;ID;Ok;Price;Day;more\n2026-07-01 12:00:00;7;true;1.5;2026-01-31;x\n;8;;;;\n"
    )
    spool.open(
        "Csv",
        **{
            "value.schema": VALUE_SCHEMA,
            "csv.first.row.as.header": "true",
            "csv.skip.lines": "1",
            "csv.separator.char": "59",
            "parser.timestamp.timezone": "Europe/Helsinki",
            "timestamp.mode": "FILE_TIME",
        },
    )
    first, second = spool.read()
    assert first.value == {
        "id": 7,
        "ok": True,
        "price": Decimal("1.50"),
        "day": date(2026, 1, 31),
        "at": datetime(2026, 7, 1, 9, tzinfo=UTC),
    }
    assert second.value == {"id": 8, "ok": None, "price": None, "day": None, "at": None}
    assert first.value_schema is not None
    assert first.value_schema.name == "Order"
    modified_ms = (spool.finished / "a.csv").stat().st_mtime_ns // 1_000_000
    assert first.timestamp_ms == modified_ms


def test_a_field_may_be_the_timestamp(spool: Spool) -> None:
    (spool.input / "a.csv").write_text("1,,,,1970-01-01T00:00:01\n2,,,,\n")
    settings = {"timestamp.mode": "FIELD", "timestamp.field": "at"}
    spool.open("Csv", **{"value.schema": VALUE_SCHEMA, **settings})
    assert [record.timestamp_ms for record in spool.read()] == [1000]
    with pytest.raises(DataError, match="field at at 2 is not a Timestamp"):
        spool.read()


def test_lines_and_their_headers(spool: Spool) -> None:
    path = spool.input / "sub" / "a.txt"
    path.parent.mkdir()
    path.write_bytes("eins\r\n\nfünf".encode("latin-1"))
    spool.open(
        "LineDelimited", **{"character.set": "latin-1", "input.path.walk.recursively": "true"}
    )
    records = spool.read()
    assert [record.value for record in records] == ["eins", "", "fünf"]
    assert records[0].value_schema == schemas.STRING
    headers = {header.name: header.value for header in records[2].headers}
    assert headers["file.name"] == "a.txt"
    assert headers["file.name.without.extension"] == "a"
    assert headers["file.parent.dir.name"] == "sub"
    assert headers["file.relative.path"] == "sub"
    assert headers["file.length"] == 11
    assert headers["file.offset"] == 3
    assert headers["file.path"] == str(path)
    assert spool.names(spool.finished) == ["sub/a.txt"]


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1}\n{"a": 2, "b": [1, {}]}\n',
        '[{"a": 1},\n {"a": 2, "b": [1, {}]}]',
        '{"a":1}{"a":2,"b":[1,{}]}',
    ],
)
def test_json_in_lines_and_in_arrays(spool: Spool, text: str) -> None:
    (spool.input / "a.json").write_text(text)
    spool.open("SchemaLessJson")
    assert spool.values() == ['{"a":1}', '{"a":2,"b":[1,{}]}']
    (spool.input / "b.json").write_text(text)
    spool.open("Json", **{"schema.generation.enabled": "true"})
    first, second = spool.read()
    assert first.value == {"a": 1, "b": None}
    assert second.value == {"a": 2, "b": "[1,{}]"}
    assert first.value_schema is not None
    assert first.value_schema.fields[0].schema == schemas.INT64.optional()


def test_json_of_any_size(spool: Spool) -> None:
    documents = [{"number": number, "text": "x" * (number * 1000)} for number in range(200)]
    (spool.input / "a.json").write_text(json.dumps(documents, indent=2))
    spool.open("SchemaLessJson")
    assert [json.loads(value) for value in spool.values()] == documents
    (spool.input / "b.json").write_text('{"a": 1} {"b": ')
    assert spool.values() == ['{"a":1}']
    with pytest.raises(DataError, match="it is not JSON"):
        spool.read()


def test_whole_and_packed_files(spool: Spool) -> None:
    (spool.input / "a.bin").write_bytes(b"\x00\xff")
    (spool.input / "b.gz").write_bytes(gzip.compress(b"one\ntwo\n"))
    (spool.input / "c.bz2").write_bytes(bz2.compress(b"three\n"))
    (spool.input / "d.txt").write_bytes(b"")
    spool.open("BinaryFile")
    assert spool.values() == [b"\x00\xff", b"one\ntwo\n", b"three\n"]
    assert spool.names(spool.finished) == ["a.bin", "b.gz", "c.bz2", "d.txt"]
    (spool.input / "e.gz").write_bytes(gzip.compress(b"one\ntwo\n"))
    spool.open("LineDelimited")
    assert spool.values() == ["one", "two"]


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_file_is_read_on_where_it_was(spool: Spool, pack: Callable[[bytes], bytes]) -> None:
    lines = "".join(f"{number}\n" for number in range(10)).encode()
    (spool.input / ("a.gz" if pack is gzip.compress else "a.txt")).write_bytes(pack(lines))
    found: list[str] = []
    while len(found) < 10:
        spool.open("LineDelimited", **{"batch.size": "3"})
        assert [record.value for record in spool.read(is_stored=False)]  # The worker is killed.
        spool.open("LineDelimited", **{"batch.size": "3"})
        found += spool.values()
        found += spool.values(1)
    assert found == [str(number) for number in range(10)]
    spool.read()
    assert spool.names(spool.input) == []


def test_a_range_can_be_read_again_by_another_task(spool: Spool) -> None:
    (spool.input / "a.txt").write_text("".join(f"{number}\n" for number in range(10)))
    spool.open("LineDelimited")
    assert spool.task is not None
    middle = spool.task.reach(spool.positions, 4)
    records = [*spool.task.read(spool.positions, middle)]
    end = spool.task.reach(middle, 100)
    more = [*spool.task.read(middle, end)]
    spool.open("LineDelimited")
    assert [*spool.task.read(spool.positions, middle)] == records
    assert [*spool.task.read(middle, end)] == more


def test_a_file_moves_when_its_end_is_stored(spool: Spool) -> None:
    (spool.input / "a.txt").write_text("one\n")
    spool.open("LineDelimited")
    assert spool.task is not None
    end = spool.task.reach(spool.positions, 10)
    assert len([*spool.task.read(spool.positions, end)]) == 1
    assert spool.names(spool.input) == ["a.txt"]
    spool.positions = end  # Its end is stored, and the worker is killed before it moves.
    spool.open("LineDelimited")
    assert spool.read() == []
    assert spool.names(spool.finished) == ["a.txt"]


def test_a_new_file_of_the_same_name_is_read(spool: Spool) -> None:
    spool.open("LineDelimited", **{"cleanup.policy": "NONE"})
    path = spool.input / "a.txt"
    path.write_text("one\n")
    assert spool.values() == ["one"]
    assert spool.values() == []
    path.write_text("one\ntwo\n")
    assert spool.values() == ["one", "two"]
    spool.open("LineDelimited", **{"cleanup.policy": "MOVE"})
    assert spool.values() == []
    path.write_text("three\n")
    assert spool.values() == ["three"]
    assert spool.names(spool.finished) == ["a.txt", "a.txt.1"]


@pytest.mark.parametrize("policy", ["MOVE", "DELETE"])
def test_a_file_that_changes_before_its_end_is_stored_is_not_put_away(
    spool: Spool, policy: str
) -> None:
    path = spool.input / "a.txt"
    path.write_text("1\n")
    spool.open("LineDelimited", **{"cleanup.policy": policy})
    assert spool.task is not None
    end = spool.task.reach(spool.positions, 10)
    assert [record.value for record in spool.task.read(spool.positions, end)] == ["1"]
    path.write_text("another file\n")
    spool.positions = end
    spool.task.stored(end)
    assert spool.values() == ["another file"]
    assert spool.names(spool.input) == []


def test_files_are_deleted_or_moved_by_their_date(spool: Spool) -> None:
    for policy in ("DELETE", "MOVEBYDATE"):
        path = spool.input / "a.txt"
        path.write_text(policy)
        os.utime(path, (86_400, 86_400))
        spool.open("LineDelimited", **{"cleanup.policy": policy})
        assert spool.values() == [policy]
    assert spool.names(spool.input) == []
    assert spool.names(spool.finished) == ["1970-01-02/a.txt"]


def test_a_bad_file_goes_to_the_errors_after_its_good_records(spool: Spool) -> None:
    (spool.input / "a.csv").write_text("id\n1\n2\nmany\n4\n")
    (spool.input / "b.csv").write_text("id\n5\n")
    settings = {"value.schema": VALUE_SCHEMA, "csv.first.row.as.header": "true"}
    spool.open("Csv", **settings)
    assert [value["id"] for value in spool.values()] == [1, 2]
    with pytest.raises(
        DataError, match=r"a\.csv: line 3, field id: 'many' is not a whole"
    ) as caught:
        spool.read()
    assert "what is before 3 in it has been written" in str(caught.value)
    assert spool.names(spool.error) == ["a.csv"]
    (spool.input / "a.csv").write_text("id\n3\n4\n")  # The rest is mended and put back.
    spool.open("Csv", **settings)
    assert [value["id"] for value in spool.values()] == [3, 4, 5]


def test_a_task_may_go_on_after_a_bad_file(spool: Spool) -> None:
    (spool.input / "a.csv").write_text("id,name\n1\n")
    (spool.input / "b.csv").write_text("id\n5\n")
    spool.open("Csv", **GENERATED, **{"halt.on.error": "false"})
    assert spool.values() == [{"id": "5"}]
    assert spool.names(spool.error) == ["a.csv"]


def test_which_files_and_in_which_order(spool: Spool) -> None:
    for name, size in (("b.txt", 1), ("a.txt", 2), ("c.txt", 3), ("c.txt.PROCESSING", 1)):
        (spool.input / name).write_text(name[0] * size)
    settings = {"files.sort.attributes": "LengthDesc", "cleanup.policy": "NONE"}
    spool.open("LineDelimited", **settings, **{"input.file.pattern": r"[ab]\.txt.*"})
    assert spool.values() == ["aa", "b"]
    spool.positions = Positions()
    spool.open("LineDelimited", **settings, **{"file.minimum.age.ms": "3600000"})
    assert spool.values() == []


def test_tasks_divide_the_files(spool: Spool) -> None:
    for number in range(20):
        (spool.input / f"{number}.txt").write_text(f"{number}\n")
    properties = spool.connector("LineDelimited").task_properties(spool.properties(), 3)
    seen = []
    for task in properties:
        spool.open("LineDelimited", **task)
        found = spool.values()
        assert 0 < len(found) < 20
        seen += found
    assert sorted(seen, key=int) == [str(number) for number in range(20)]


def test_directories_and_settings_are_checked(spool: Spool) -> None:
    wrong = spool.connector("LineDelimited", **{"error.path": "/none"}).wrong_outside()
    assert "/none is not a directory" in wrong["error.path"][0]

    def problems(kind: str, **more: str) -> dict[str, list[str]]:
        plugin = plugins.find_connector(f"SpoolDir{kind}Source")
        return plugin.settings_class.validate(spool.properties(**more))

    assert "value.schema" in problems("Csv")
    assert "not JSON" in problems("Csv", **{"value.schema": "{"})["value.schema"][0]
    assert "finished.path" in problems("BinaryFile", **{"finished.path": ""})
    assert "input.file.pattern" in problems("BinaryFile", **{"input.file.pattern": "("})
    assert "character.set" in problems("LineDelimited", **{"character.set": "utf-99"})
    assert "csv.first.row.as.header" in problems("Csv", **{"schema.generation.enabled": "true"})
    assert "timestamp.field" in problems("Csv", **GENERATED, **{"timestamp.mode": "FIELD"})
