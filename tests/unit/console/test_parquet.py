"""Records as Parquet and back, and files of other programs."""

import base64
import io
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from odradek.console.records import parquet
from odradek.console.records.parquet import BadParquet, read, written


def line(
    value: Any, value_format: str, key: Any = None, key_format: str = "null"
) -> dict[str, Any]:
    return {
        "partition": 3, "offset": 7, "timestamp": "2026-11-19T14:00:00.123Z", "key": key,
        "key_format": key_format, "value": value, "value_format": value_format,
        "headers": [["trace", "t1"], ["trace", "t2"]],
    }  # fmt: skip


LINES = [
    line({"n": 1, "of": {"deep": [1, None]}}, "json", "a", "text"),
    line({"n": 2**53, "of": None}, "json", "7", "json"),
    line('"quoted"', "text"),
    line("00ff", "hex", "0a", "hex"),
    line(None, "null", "gone", "text"),
    line([1, "two"], "json"),
    line({"amount": 3}, "Avro 17"),
]


def encoded(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


def table(content: bytes) -> pa.Table:
    return pq.read_table(io.BytesIO(content))


def test_what_was_written_is_read_as_the_lines_were() -> None:
    found = [json.loads(one) for one in read(encoded(written(LINES)), 10)]
    assert len(found) == len(LINES)
    for before, after in zip(LINES, found, strict=True):
        expected = {name: before[name] for name in ("value", "value_format", "headers")}
        if before["key"] is not None:
            expected["key"] = 7 if before["key_format"] == "json" else before["key"]
        assert {name: after[name] for name in expected} == expected


def test_objects_that_agree_are_columns_too() -> None:
    found = table(written([line({"n": 1, "x": "a"}, "json"), line({"n": 2}, "json")]))
    assert found.column("fields").to_pylist() == [{"n": 1, "x": "a"}, {"n": 2, "x": None}]
    assert found.column("timestamp").to_pylist()[0] == datetime(
        2026, 11, 19, 14, 0, 0, 123_000, tzinfo=UTC
    )
    disagree = [line({"n": 1}, "json"), line({"n": "one"}, "json")]
    assert "fields" not in table(written(disagree)).column_names
    assert "fields" not in table(written(LINES)).column_names
    assert table(written([])).num_rows == 0


def test_files_of_other_programs() -> None:
    sink = io.BytesIO()
    rows = pa.table(
        {
            "day": [date(2026, 11, 19)],
            "price": [Decimal("2.50")],
            "blob": [b"\x00\xff"],
            "tags": [["a", "b"]],
        }
    )
    pq.write_table(rows, sink)
    (found,) = read(encoded(sink.getvalue()), 10)
    assert json.loads(found) == {
        "value": {"day": "2026-11-19", "price": "2.50", "blob": "00ff", "tags": ["a", "b"]}
    }


def test_what_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadParquet, match="not a Parquet file"):
        read(encoded(b"PAR1 nothing"), 10)
    with pytest.raises(BadParquet, match="did not arrive"):
        read("ä", 10)
    with pytest.raises(BadParquet, match="7 rows"):
        read(encoded(written(LINES)), 6)
    # A file of kilobytes whose rows have megabytes: each has the same large value.
    monkeypatch.setattr(parquet, "_MAX_OPENED_BYTES", 3_000_000)
    sink = io.BytesIO()
    pq.write_table(pa.table({"value": ["x" * 50_000] * 100}), sink)
    assert len(sink.getvalue()) < 100_000
    with pytest.raises(BadParquet, match="more than 3,000,000 bytes"):
        read(encoded(sink.getvalue()), 10_000)
