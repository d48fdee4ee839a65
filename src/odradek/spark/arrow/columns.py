"""The columns of an Arrow batch that records are made of, matched by name and type.

Purpose: from any batch with the columns key, value, headers, topic, partition and timestamp to
arrays that the compiled loops read.
Place: called by Spark's sink and by restores, for each batch; `encoding` packs the result.
Invariant: a column is taken by its name and only if its type is one of those named in `ACCEPTED`.
Nothing is taken by position and nothing is reinterpreted. A column that does not fit raises a
`BadColumn` that names the column and the types it may have.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from odradek.spark.arrow.accepted import ACCEPTED, BadColumn
from odradek.spark.arrow.kernels import (
    Bytes,
    Column,
    Ends,
    HeaderColumns,
    Longs,
    fingerprint,
    read_only,
)

_NO_BYTES: Bytes = read_only(np.empty(0, np.uint8))
_NO_ENDS: Ends = read_only(np.zeros(1, np.int32))
NO_HEADERS: Final = HeaderColumns(
    _NO_ENDS, Column(_NO_ENDS, _NO_BYTES, _NO_BYTES), Column(_NO_ENDS, _NO_BYTES, _NO_BYTES)
)


class RecordColumns(NamedTuple):
    """The columns of an Arrow batch that records are made of. `topic` is None where all rows go to
    the sink's own topic."""

    keys: Column
    values: Column
    headers: HeaderColumns | None
    topics: pa.Array | None
    partitions: Longs
    timestamps_ms: Longs

    @property
    def row_count(self) -> int:
        return len(self.partitions)

    def fingerprint(self) -> int:
        """Returns a number that is equal for two sets of equal rows, whatever their order."""
        return int(
            fingerprint(
                self.keys,
                self.values,
                self.headers or NO_HEADERS,
                self.headers is not None,
                _bytes_column(self.topics, self.row_count),
                self.partitions,
            )
        )


def record_columns(batch: pa.RecordBatch, now_ms: int) -> RecordColumns:
    """Takes the columns key, value, headers, topic, partition and timestamp. Only value is
    required.

    `now_ms` is the timestamp of rows that have none. Other columns are ignored.
    """
    count = batch.num_rows
    columns = _by_name(batch)
    return RecordColumns(
        _bytes_column(_typed_column(columns, "key", _is_bytes), count),
        _bytes_column(_typed_column(columns, "value", _is_bytes), count),
        _header_columns(_typed_column(columns, "headers", pa.types.is_list)),
        _typed_column(columns, "topic", _is_text),
        read_only(_partitions(_typed_column(columns, "partition", pa.types.is_integer), count)),
        read_only(_timestamps_ms(_typed_column(columns, "timestamp", _is_instant), count, now_ms)),
    )


def _by_name(batch: pa.RecordBatch) -> dict[str, pa.Array]:
    """Returns the columns that make records, by name. As in Spark, case does not matter."""
    columns: dict[str, pa.Array] = {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        lower_name = name.lower()
        if lower_name not in ACCEPTED:
            continue
        if lower_name in columns:
            raise BadColumn(f"there are two columns {lower_name}: drop or rename one")
        columns[lower_name] = column
    if "value" not in columns:
        raise BadColumn(f"there is no column value; it must be {ACCEPTED['value']}")
    return columns


def _typed_column(
    columns: dict[str, pa.Array], name: str, fits: Callable[[pa.DataType], bool]
) -> pa.Array | None:
    column = columns.get(name)
    if column is None:
        return None
    if pa.types.is_null(column.type):
        # `select null as key` gives a column of nulls that has no type.
        return None if name != "value" else pa.nulls(len(column), pa.binary())
    if not fits(column.type):
        raise BadColumn(f"column {name} is {column.type}, but must be {ACCEPTED[name]}")
    return column


def _is_text(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )


def _is_bytes(kind: pa.DataType) -> bool:
    return _is_text(kind) or bool(
        pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind)
    )


def _are_headers(entry: pa.DataType) -> bool:
    if not pa.types.is_struct(entry) or entry.num_fields != 2:
        return False
    kinds = {field.name.lower(): field.type for field in entry}
    return set(kinds) == {"key", "value"} and _is_text(kinds["key"]) and _is_bytes(kinds["value"])


def _is_instant(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind)) and kind.tz is not None


def _partitions(column: pa.Array | None, count: int) -> Longs:
    """Returns the partition that each row names; -1 where the column is null."""
    if column is None:
        none: Longs = np.full(count, -1, np.int64)
        return none
    numbers = column.cast(pa.int64())
    least = pc.min(numbers).as_py()
    if least is not None and least < 0:
        raise BadColumn(
            f"a row names partition {least}, but partitions count from 0: null leaves the choice to"
            " the key"
        )
    partitions: Longs = np.asarray(numbers.fill_null(-1))
    return partitions


def _timestamps_ms(column: pa.Array | None, count: int, now_ms: int) -> Longs:
    if column is None:
        now: Longs = np.full(count, now_ms, np.int64)
        return now
    times_us = column.cast(pa.timestamp("us", tz="UTC")).cast(pa.int64())
    filled: Longs = np.asarray(times_us.fill_null(0))
    times_ms: Longs = np.where(np.asarray(times_us.is_valid()), filled // 1000, now_ms).astype(
        np.int64
    )
    return times_ms


def _bytes_column(column: pa.Array | None, count: int) -> Column:
    if column is None:
        no_ends: Ends = np.zeros(count + 1, np.int32)
        return Column(read_only(no_ends), _NO_BYTES, read_only(np.zeros(count, np.uint8)))
    if column.type != pa.binary():
        column = column.cast(pa.binary())
    _, ends_buffer, data_buffer = column.buffers()
    begin = column.offset
    ends: Ends = np.frombuffer(ends_buffer, np.int32)[begin : begin + len(column) + 1]
    data = _NO_BYTES if data_buffer is None else np.frombuffer(data_buffer, np.uint8)
    return Column(read_only(ends), read_only(data), read_only(_validity(column)))


def _validity(column: pa.Array) -> Bytes:
    if not column.null_count:
        return np.ones(len(column), np.uint8)
    return np.asarray(column.is_valid()).astype(np.uint8)


def _header_columns(column: pa.Array | None) -> HeaderColumns | None:
    if column is None:
        return None
    if not _are_headers(column.type.value_type):
        raise BadColumn(f"column headers is {column.type}, but must be {ACCEPTED['headers']}")
    # The ends of a null list may still span entries. Filling nulls with empty lists prevents that.
    if column.null_count:
        column = pc.fill_null(column, pa.scalar([], column.type))
    begin = column.offset
    ends: Ends = np.frombuffer(column.buffers()[1], np.int32)[begin : begin + len(column) + 1]
    entries = column.values
    # An entry that is null is null in all of its fields.
    fields = dict(
        zip((field.name.lower() for field in entries.type), entries.flatten(), strict=True)
    )
    used = fields["key"].slice(int(ends[0]), int(ends[-1]) - int(ends[0]))
    if used.null_count:
        raise BadColumn("column headers: the key of a header is null, which no reader can take")
    return HeaderColumns(
        read_only(ends),
        _bytes_column(fields["key"], len(entries)),
        _bytes_column(fields["value"], len(entries)),
    )
