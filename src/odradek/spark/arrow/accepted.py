"""Which columns make a record, and what they may be: also for those that do not want to load numba.

Spark's sink checks a query's schema when it is planned, `columns` checks each batch.
"""

from typing import Final

# What each column may be, in Spark's words, and how to make it so.
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
