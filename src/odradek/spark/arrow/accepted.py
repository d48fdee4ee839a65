"""Which columns make a record and which types they may have. Importing this does not load numba.

Spark's sink checks a query's schema against it when the query is planned; `columns` checks each
batch.
"""

from typing import Final

# The types that each column may have, as Spark names them, and how to convert to one of them.
ACCEPTED: Final = {
    "key": "string or binary: cast it, or use to_json",
    "value": "string or binary: cast it, or use to_json",
    "headers": "array<struct<key: string, value: binary>>: for a map use map_entries(column)",
    "topic": "string",
    "partition": "tinyint, smallint, int or bigint",
    "timestamp": (
        "timestamp: for a number use timestamp_millis, timestamp_micros or timestamp_seconds, for a"
        " timestamp_ntz or a date cast(column as timestamp)"
    ),
}


class BadColumn(ValueError):
    """A column, or a value in it, cannot be part of a record; the message says what it may be."""
