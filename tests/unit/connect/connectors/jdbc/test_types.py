"""Columns as fields: their schemas and values, there and back."""

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pytest

from odradek.connect.connectors.jdbc.settings import JdbcSinkSettings, JdbcSourceSettings
from odradek.connect.connectors.jdbc.sink import JdbcSink
from odradek.connect.connectors.jdbc.source import JdbcSource
from odradek.connect.data import schemas, values
from odradek.connect.data.schemas import Field, Schema
from odradek.connect.errors import DataError
from odradek.connect.records import SinkRecord, SourceRecord
from tests.unit.connect.connectors.jdbc.databases import KINDS, Db, Reader, opened


@pytest.fixture
def db(request: pytest.FixtureRequest) -> Iterator[Db]:
    yield from opened(request)


def read(db: Db, **settings: str) -> list[SourceRecord]:
    with closing(db.source(mode="bulk", poll_interval_ms="3600000", **settings).task()) as task:
        return Reader(task).read()


def fields(db: Db, **settings: str) -> dict[str, tuple[Schema, Any]]:
    """The fields of the only row, with values that fit their schemas."""
    (record,) = read(db, **settings)
    assert record.value_schema is not None
    values.check(record.value_schema, record.value)
    return {
        field.name: (field.schema, record.value[field.name]) for field in record.value_schema.fields
    }


MOMENT = datetime(2026, 1, 31, 12, 30, 15, 250_000, tzinfo=UTC)


@pytest.mark.parametrize("db", KINDS[1:2], indirect=True)
def test_types_of_postgresql(db: Db) -> None:
    db.run("CREATE TYPE mood AS ENUM ('sad', 'ok')")
    columns: dict[str, tuple[str, str, Schema | None, Any]] = {
        "b": ("boolean", "true", schemas.BOOLEAN, True),
        "i2": ("smallint", "-5", schemas.INT16, -5),
        "i4": ("int", "6", schemas.INT32, 6),
        "i8": ("bigint", "7", schemas.INT64, 7),
        "r": ("real", "1.5", schemas.FLOAT32, 1.5),
        "d": ("double precision", "2.5", schemas.FLOAT64, 2.5),
        "n": ("numeric(10,2)", "12.30", schemas.decimal(2), Decimal("12.30")),
        "whole": ("numeric(6,0)", "123", schemas.decimal(0), Decimal(123)),
        "t": ("text", "'ä%'", schemas.STRING, "ä%"),
        "v": ("varchar(5)", "'v'", schemas.STRING, "v"),
        "c": ("char(3)", "'c'", schemas.STRING, "c  "),
        "by": ("bytea", "'\\x00ff'", schemas.BYTES, b"\x00\xff"),
        "da": ("date", "'2026-01-31'", schemas.date(), date(2026, 1, 31)),
        "ti": ("time", "'12:30:15.25'", schemas.time(), time(12, 30, 15, 250_000)),
        "ts": ("timestamp", "'2026-01-31 12:30:15.25'", schemas.timestamp(), MOMENT),
        "tz": ("timestamptz", "'2026-01-31 14:30:15.25+02'", schemas.timestamp(), MOMENT),
        "u": ("uuid", "'6ecd8c99-4036-403d-bf84-cf8400f67836'", schemas.STRING,
              "6ecd8c99-4036-403d-bf84-cf8400f67836"),
        "j": ("jsonb", """'{"a": 1}'""", schemas.STRING, '{"a": 1}'),
        "m": ("mood", "'ok'", schemas.STRING, "ok"),
        "bit1": ("bit(1)", "B'1'", schemas.BOOLEAN, True),
        "bit8": ("bit(8)", "B'10000001'", schemas.INT8, -127),
        "bit12": ("bit(12)", "B'000100000001'", schemas.BYTES, b"\x01\x01"),
        "mo": ("money", "'1234.50'", schemas.FLOAT64, 1234.5),
        "arr": ("int[]", "'{1,2}'", None, None),
        "ip": ("inet", "'10.0.0.1'", None, None),
    }  # fmt: skip
    check_columns(db, columns)


@pytest.mark.parametrize("db", KINDS[2:], indirect=True)
def test_types_of_mariadb(db: Db) -> None:
    columns: dict[str, tuple[str, str, Schema | None, Any]] = {
        "b": ("boolean", "1", schemas.INT8, 1),
        "i1": ("tinyint", "-5", schemas.INT8, -5),
        "u1": ("tinyint unsigned", "255", schemas.INT16, 255),
        "u2": ("smallint unsigned", "65535", schemas.INT32, 65535),
        "i3": ("mediumint", "6", schemas.INT32, 6),
        "i4": ("int", "6", schemas.INT32, 6),
        "u4": ("int unsigned", "4294967295", schemas.INT64, 4294967295),
        "i8": ("bigint", "7", schemas.INT64, 7),
        "f": ("float", "1.5", schemas.FLOAT32, 1.5),
        "d": ("double", "2.5", schemas.FLOAT64, 2.5),
        "n": ("decimal(10,2)", "12.30", schemas.decimal(2), Decimal("12.30")),
        "t": ("text", "'ä%'", schemas.STRING, "ä%"),
        "v": ("varchar(5)", "'v'", schemas.STRING, "v"),
        "j": ("json", """'{"a": 1}'""", schemas.STRING, '{"a": 1}'),
        "e": ("enum('x', 'y')", "'y'", schemas.STRING, "y"),
        "bl": ("blob", "x'00ff'", schemas.BYTES, b"\x00\xff"),
        "vb": ("varbinary(9)", "x'00ff'", schemas.BYTES, b"\x00\xff"),
        "bit1": ("bit(1)", "b'1'", schemas.INT8, 1),
        "bit12": ("bit(12)", "b'000100000001'", schemas.BYTES, b"\x01\x01"),
        "da": ("date", "'2026-01-31'", schemas.date(), date(2026, 1, 31)),
        "y": ("year", "2026", schemas.date(), date(2026, 1, 1)),
        "ti": ("time(2)", "'12:30:15.25'", schemas.time(), time(12, 30, 15, 250_000)),
        "ts": ("datetime(2)", "'2026-01-31 12:30:15.25'", schemas.timestamp(), MOMENT),
        "tz": ("timestamp(2) null", "'2026-01-31 12:30:15.25'", schemas.timestamp(), MOMENT),
        "g": ("point", "point(1, 2)", None, None),
    }
    check_columns(db, columns)


@pytest.mark.parametrize("db", KINDS[2:], indirect=True)
@pytest.mark.parametrize("mode", ["bulk", "timestamp+incrementing"])
@pytest.mark.parametrize("is_query", [False, True])
def test_a_float_of_mariadb_has_all_of_its_digits(db: Db, mode: str, is_query: bool) -> None:
    """The server sends six digits; a FLOAT that is shown in eight is another number with six."""
    db.run(
        "CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, f FLOAT, fixed FLOAT(7,2), `a b` FLOAT,"
        " at DATETIME(3) NOT NULL)",
        f"INSERT INTO t VALUES (1, 16777217, 12345.67, 0.1, {db.ago(9)}),"
        f" (2, 1.2345678, NULL, NULL, {db.ago(8)})",
    )
    settings = {"query": "SELECT * FROM t"} if is_query else {"table_whitelist": "t"}
    if mode != "bulk":
        settings |= {"timestamp_column_name": "at", "incrementing_column_name": "id"}
    with closing(db.source(mode=mode, **settings).task()) as task:
        reader = Reader(task)
        found = reader.values()
        db.run(
            "ALTER TABLE t DROP COLUMN `a b`", "ALTER TABLE t ADD COLUMN g FLOAT DEFAULT 3.1415927"
        )
        if mode != "bulk" and not is_query:
            db.run(f"INSERT INTO t VALUES (3, 0.3, NULL, {db.ago(7)}, 8388609)")
            with pytest.raises(DataError, match="a b"):
                reader.read()
            found += reader.values()
    assert [(row["f"], row["fixed"]) for row in found[:2]] == [
        (16777216, 12345.67),
        (1.2345678, None),
    ]
    assert found[0]["a b"] == 0.1
    assert [row["g"] for row in found[2:]] in ([], [8388609.0])


def test_types_of_sqlite(db: Db) -> None:
    columns: dict[str, tuple[str, str, Schema | None, Any]] = {
        "b": ("BOOLEAN", "1", schemas.BOOLEAN, True),
        "i1": ("TINYINT", "5", schemas.INT8, 5),
        "i2": ("SMALLINT", "5", schemas.INT16, 5),
        "i": ("INTEGER", "5000000000", schemas.INT64, 5000000000),
        "r": ("REAL", "2", schemas.FLOAT64, 2.0),
        "n": ("DECIMAL(10,2)", "12.3", schemas.decimal(2), Decimal("12.30")),
        "t": ("VARCHAR(9)", "'ä%'", schemas.STRING, "ä%"),
        "bl": ("BLOB", "x'00ff'", schemas.BYTES, b"\x00\xff"),
        "da": ("DATE", "'2026-01-31'", schemas.date(), date(2026, 1, 31)),
        "ti": ("TIME", "'12:30:15.250'", schemas.time(), time(12, 30, 15, 250_000)),
        "ts": ("TIMESTAMP", "'2026-01-31 12:30:15.250'", schemas.timestamp(), MOMENT),
        "ms": ("DATETIME", "1769862615250", schemas.timestamp(), MOMENT),
        "none": ("", "'x'", schemas.STRING, "x"),
    }
    check_columns(db, columns)


def check_columns(db: Db, columns: dict[str, tuple[str, str, Schema | None, Any]]) -> None:
    """Reads a row of values, and one of nulls."""
    made = ", ".join(f"{name} {kind}" for name, (kind, *_) in columns.items())
    given = ", ".join(text for _, text, _, _ in columns.values())
    db.run(f"CREATE TABLE t ({made})", f"INSERT INTO t VALUES ({given})")
    found = fields(db)
    expected = {
        name: (schema.optional(), value)
        for name, (_, _, schema, value) in columns.items()
        if schema is not None
    }
    assert found == expected
    db.run("DELETE FROM t", f"INSERT INTO t VALUES ({', '.join(['NULL'] * len(columns))})")
    assert {value for _, value in fields(db).values()} == {None}


@pytest.mark.parametrize("db", KINDS, indirect=True)
def test_columns_that_are_not_null_are_required(db: Db) -> None:
    db.run("CREATE TABLE t (id INT PRIMARY KEY NOT NULL, a INT NOT NULL, b INT)")
    db.run("INSERT INTO t VALUES (1, 2, 3)")
    found = fields(db)
    assert [found[name][0].is_optional for name in ("id", "a", "b")] == [False, False, True]


@pytest.mark.parametrize("db", KINDS, indirect=True)
def test_numbers_are_mapped_as_asked(db: Db) -> None:
    db.run(
        "CREATE TABLE t (a DECIMAL(2,0), b DECIMAL(4,0), c DECIMAL(9,0), d DECIMAL(18,0),"
        " e DECIMAL(19,0), f DECIMAL(8,2))",
        "INSERT INTO t VALUES (1, 2, 3, 4, 5, 6.25)",
    )

    def kinds(mapping: str) -> list[str]:
        found = fields(db, numeric_mapping=mapping)
        return [schema.name or schema.type for schema, _ in found.values()]

    whole = ["int8", "int16", "int32", "int64"]
    assert kinds("none") == [schemas.DECIMAL] * 6
    assert kinds("precision_only") == [*whole, schemas.DECIMAL, schemas.DECIMAL]
    assert kinds("best_fit") == [*whole, schemas.DECIMAL, "double"]


@pytest.mark.parametrize("db", KINDS[1:2], indirect=True)
def test_a_number_of_any_scale_loses_nothing(db: Db) -> None:
    db.run("CREATE TABLE t (n NUMERIC)", "INSERT INTO t VALUES (0.123456789)")
    schema, value = fields(db)["n"]
    assert (schema.scale, value) == (38, Decimal("0.123456789"))
    assert fields(db, numeric_mapping="best_fit")["n"] == (schemas.FLOAT64.optional(), 0.123456789)
    db.run(f"UPDATE t SET n = 0.{'1' * 39}")
    with pytest.raises(DataError, match=r"column n .*more than 38 digits"):
        read(db)


@pytest.mark.parametrize("db", KINDS, indirect=True)
def test_times_without_a_zone_are_those_of_the_setting(db: Db) -> None:
    kind = db.sql(sqlite="TIMESTAMP", postgres="TIMESTAMP", mariadb="DATETIME")
    db.run(f"CREATE TABLE t (id INT PRIMARY KEY, ts {kind} NOT NULL)")
    db.run("INSERT INTO t VALUES (1, '2026-07-01 12:00:00')")
    expected = datetime(2026, 7, 1, 9, tzinfo=UTC)
    assert fields(db, db_timezone="Europe/Helsinki")["ts"][1] == expected
    settings = {"mode": "timestamp", "timestamp_column_name": "ts", "db_timezone": "+03:00"}
    with closing(db.source(**settings).task()) as task:
        (record,) = Reader(task).read()
        assert record.value["ts"] == expected
        assert record.source_offset["timestamp"] == expected.timestamp() * 1000


def test_a_value_that_does_not_fit_its_column_is_named(db: Db) -> None:
    db.run("CREATE TABLE t (a INTEGER)", "INSERT INTO t VALUES ('many')")
    with pytest.raises(DataError, match=r"column a \(INTEGER\): 'many' is not a whole number"):
        read(db)
    db.run("CREATE TABLE u (updated TIMESTAMP NOT NULL)", "INSERT INTO u VALUES ('31.1.2026')")
    settings = {"mode": "timestamp", "timestamp_column_name": "updated", "table_whitelist": "u"}
    with (
        closing(db.source(**settings).task()) as task,
        pytest.raises(DataError, match="write times such as"),
    ):
        Reader(task).read()


ALL_TYPES = {
    "i1": (schemas.INT8, 1),
    "i2": (schemas.INT16, 2),
    "i4": (schemas.INT32, 3),
    "i8": (schemas.INT64, 4),
    "f4": (schemas.FLOAT32, 1.5),
    "f8": (schemas.FLOAT64, 2.5),
    "b": (schemas.BOOLEAN, True),
    "s": (schemas.STRING, "ä'\\ \U0001f600"),
    "by": (schemas.BYTES, b"\x00\xff"),
    "de": (schemas.decimal(2), Decimal("12.30")),
    "da": (schemas.date(), date(2026, 1, 31)),
    "ti": (schemas.time(), time(12, 30, 15, 250_000)),
    "ts": (schemas.timestamp(), MOMENT),
}


@pytest.mark.parametrize("db", KINDS, indirect=True)
@pytest.mark.parametrize("zone", ["UTC", "Asia/Kolkata"])
def test_what_a_sink_writes_a_source_reads(db: Db, zone: str) -> None:
    fields_of = tuple(Field(name, schema.optional()) for name, (schema, _) in ALL_TYPES.items())
    schema = schemas.struct(*fields_of)
    value = {name: value for name, (_, value) in ALL_TYPES.items()}
    given = {**db.properties, "auto.create": "true", "db.timezone": zone}
    with closing(JdbcSink(JdbcSinkSettings.read(given)).task()) as sink:
        nulls = dict.fromkeys(value)
        records = [SinkRecord("t", value=each, value_schema=schema) for each in (value, nulls)]
        assert not sink.write(records)
    settings = {**db.properties, "db.timezone": zone, "mode": "bulk", "topic.prefix": ""}
    with closing(JdbcSource(JdbcSourceSettings.read(settings)).task()) as task:
        first, second = sorted(Reader(task).values(), key=lambda row: row["i4"] is None)
    assert second == nulls
    if db.kind == "sqlite":
        # The column NUMERIC says nothing of what is in it.
        first |= {"de": Decimal(str(first["de"])), "da": value["da"], "ti": value["ti"]}
        first["ts"] = values.ms_to_timestamp(int(first["ts"]))
    assert {**first, "b": bool(first["b"])} == value
