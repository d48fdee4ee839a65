"""Filters on topic, partition, offset and timestamp that reduce how much is read.

Spark applies every filter itself as well. Here a filter only avoids fetching records that Spark
would drop, so a filter that is not understood can be ignored safely.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)


@dataclass(slots=True)
class Narrowing:
    """What all filters together admit; None means everything."""

    topics: set[str] | None = None
    partitions: set[int] | None = None
    first_offset: int = 0
    end_offset: int | None = None
    first_timestamp_ms: int | None = None
    understood: list[Filter] = field(default_factory=list)

    @classmethod
    def by(cls, filters: Iterable[Filter]) -> "Narrowing":
        narrowing = cls()
        for pushed_filter in filters:
            if narrowing._take(pushed_filter):
                narrowing.understood.append(pushed_filter)
        return narrowing

    def _take(self, pushed_filter: Filter) -> bool:
        attribute: tuple[str, ...] = getattr(pushed_filter, "attribute", ())
        value = getattr(pushed_filter, "value", None)
        if len(attribute) != 1 or value is None:
            return False
        column = attribute[0]
        if column in {"topic", "partition"} and isinstance(pushed_filter, EqualTo | In):
            values = set(value) if isinstance(pushed_filter, In) else {value}
            if column == "topic":
                self.topics = values if self.topics is None else self.topics & values
            else:
                self.partitions = values if self.partitions is None else self.partitions & values
            return True
        if column == "offset" and isinstance(value, int):
            return self._take_offset(pushed_filter, value)
        if column == "timestamp" and isinstance(value, datetime):
            return self._take_timestamp(pushed_filter, value)
        return False

    def _take_offset(self, pushed_filter: Filter, value: int) -> bool:
        first, end = 0, None
        if isinstance(pushed_filter, EqualTo):
            first, end = value, value + 1
        elif isinstance(pushed_filter, GreaterThan):
            first = value + 1
        elif isinstance(pushed_filter, GreaterThanOrEqual):
            first = value
        elif isinstance(pushed_filter, LessThan):
            end = value
        elif isinstance(pushed_filter, LessThanOrEqual):
            end = value + 1
        else:
            return False
        self.first_offset = max(self.first_offset, first)
        if end is not None:
            self.end_offset = end if self.end_offset is None else min(self.end_offset, end)
        return True

    def _take_timestamp(self, pushed_filter: Filter, value: datetime) -> bool:
        """Uses only lower bounds: timestamps in a log need not rise, so an upper bound gives no end
        offset."""
        if not isinstance(pushed_filter, EqualTo | GreaterThan | GreaterThanOrEqual):
            return False
        if value.tzinfo is None:
            return False
        # Rounded down to a millisecond, the unit that brokers search by.
        first_ms = math.floor(value.timestamp() * 1000)
        self.first_timestamp_ms = max(self.first_timestamp_ms or 0, first_ms)
        return True
