"""Records as Parquet, and Parquet as records (docs/decisions/0126).

A file has a row for each record, with `key` and `value` as the texts that a download of lines has,
so an import reads both alike. Where every value is a JSON object and their fields agree,
the column `fields` has them as columns of their own, for programs that read Parquet.

A file of another program is imported too: if it has no column `value`, each row is a value, as a
JSON object. pyarrow does the work; it is imported with the first file, for it takes much memory.
"""

import base64
import io
import json
from collections.abc import Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from importlib.util import find_spec
from typing import Any, Final

from odradek.world.installing import install_line

PARQUET: Final = "application/vnd.apache.parquet"
MAX_BYTES: Final = 12_000_000
"""The largest file that is imported."""
_MAX_OPENED_BYTES: Final = 150_000_000
_BATCH: Final = 50
_OWN: Final = ("key", "value", "key_format", "value_format", "headers")


class BadParquet(ValueError):
    """A file that cannot be read; the message says why."""


def missing() -> str:
    """Returns what to install if Parquet cannot be read or written here, or nothing."""
    if find_spec("pyarrow") is None:
        return f"Parquet needs pyarrow where the console runs: {install_line('parquet')}"
    return ""


def written(lines: Sequence[Mapping[str, Any]]) -> bytes:
    """Returns a file with the rows that `lines` describe, as a download of lines has them."""
    import pyarrow as pa  # noqa: PLC0415 - see above
    import pyarrow.parquet as pq  # noqa: PLC0415

    text = pa.string()
    columns: dict[str, Any] = {
        "partition": pa.array([line["partition"] for line in lines], pa.int32()),
        "offset": pa.array([line["offset"] for line in lines], pa.int64()),
        "timestamp": pa.array(
            [datetime.fromisoformat(line["timestamp"]) for line in lines],
            pa.timestamp("ms", tz="UTC"),
        ),
    }
    for part in ("key", "value"):
        columns[part] = pa.array([_text(line[part]) for line in lines], text)
        columns[f"{part}_format"] = pa.array([line[f"{part}_format"] for line in lines], text)
    header = pa.struct([("name", text), ("value", text)])
    columns["headers"] = pa.array(
        [[{"name": name, "value": value} for name, value in line["headers"]] for line in lines],
        pa.list_(header),
    )
    if (fields := _fields([line["value"] for line in lines])) is not None:
        columns["fields"] = fields
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink)
    return sink.getvalue()


def _fields(values: list[Any]) -> Any:
    """Returns the values as a column of structs, or None if they are not objects that agree."""
    import pyarrow as pa  # noqa: PLC0415

    if not values or not all(isinstance(value, dict) and value for value in values):
        return None
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError):
        return None


def read(encoded: str, at_most: int) -> list[str]:
    """Returns the rows of a file as lines of JSON, as an import takes them. `encoded` is the file
    in URL-safe base64, as the page sends it. Raises `BadParquet`."""
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    try:
        content = base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4))
    except ValueError:
        raise BadParquet("the file did not arrive as the page sends it; choose it again") from None
    if len(content) > MAX_BYTES:
        raise BadParquet(f"the file has {len(content):,} bytes; at most {MAX_BYTES:,} are read")
    try:
        file = pq.ParquetFile(io.BytesIO(content))
        opened = sum(
            file.metadata.row_group(group).total_byte_size
            for group in range(file.metadata.num_row_groups)
        )
        rows = file.metadata.num_rows
        if rows > at_most:
            raise BadParquet(f"the file has {rows:,} rows; at most {at_most:,} are read")
        found: list[Mapping[str, Any]] = []
        # A value that many rows have is in the file once, so sizes are known when rows are read.
        batches = file.iter_batches(batch_size=_BATCH) if opened <= _MAX_OPENED_BYTES else ()
        for batch in batches:
            opened += batch.nbytes
            if opened > _MAX_OPENED_BYTES:
                break
            found += batch.to_pylist()
        if opened > _MAX_OPENED_BYTES:
            raise BadParquet(f"its rows have more than {_MAX_OPENED_BYTES:,} bytes")
    except (pa.ArrowException, OSError, UnicodeDecodeError, OverflowError) as error:
        raise BadParquet(f"this is not a Parquet file that can be read: {error}") from None
    return [_line(row) for row in found]


def _line(row: Mapping[str, Any]) -> str:
    if "value" not in row:
        return json.dumps({"value": _plain(row)}, ensure_ascii=False)
    line: dict[str, Any] = {name: row[name] for name in _OWN if row.get(name) is not None}
    for part in ("key", "value"):
        if part in line:
            line[part] = _given(line[part], line.get(f"{part}_format"))
    if isinstance(line.get("headers"), list):
        line["headers"] = [
            [header.get("name"), header.get("value")] if isinstance(header, Mapping) else header
            for header in line["headers"]
        ]
    line.setdefault("value", None)
    return json.dumps(_plain(line), ensure_ascii=False)


def _given(value: Any, kind: object) -> Any:
    """Returns a key or value of a file as a line has it: JSON as JSON, text as text."""
    if not isinstance(value, str) or kind in (None, "text", "hex"):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)


def _plain(value: Any) -> Any:
    """Returns a value of Arrow as JSON has it: times and decimals as texts, bytes in hex."""
    if isinstance(value, Mapping):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, Decimal | timedelta):
        return str(value)
    return value
