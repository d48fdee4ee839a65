"""Filters only narrow what is fetched; what is not understood changes nothing."""

from datetime import UTC, datetime

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
)

from odradek.spark.filters import Narrowing


def narrowed(*filters: Filter) -> Narrowing:
    return Narrowing.by(filters)


def test_topics_and_partitions_are_intersected() -> None:
    one = narrowed(
        In(("partition",), (0, 1, 2)), EqualTo(("partition",), 2), EqualTo(("topic",), "a")
    )
    assert one.partitions == {2}
    assert one.topics == {"a"}


def test_offsets_are_cut_on_both_sides() -> None:
    one = narrowed(GreaterThan(("offset",), 4), LessThanOrEqual(("offset",), 9))
    assert (one.first_offset, one.end_offset) == (5, 10)
    two = narrowed(GreaterThanOrEqual(("offset",), 4), LessThan(("offset",), 9))
    assert (two.first_offset, two.end_offset) == (4, 9)
    assert narrowed(EqualTo(("offset",), 4)).end_offset == 5


def test_times_only_say_where_to_begin() -> None:
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    one = narrowed(GreaterThan(("timestamp",), noon), LessThan(("timestamp",), noon))
    assert one.first_timestamp_ms == int(noon.timestamp() * 1000)
    assert one.end_offset is None
    # Without a zone nobody knows which moment is meant.
    assert narrowed(GreaterThan(("timestamp",), noon.replace(tzinfo=None))) == Narrowing()


def test_what_is_not_understood_is_left_alone() -> None:
    assert (
        narrowed(
            IsNotNull(("offset",)),
            Not(EqualTo(("partition",), 1)),
            EqualTo(("headers", "key"), "x"),
            EqualTo(("value",), b"x"),
        )
        == Narrowing()
    )
