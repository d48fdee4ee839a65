"""What the sink says about a query's columns before anything runs."""

import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DateType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from odradek.spark.arrow.accepted import ACCEPTED, BadColumn
from odradek.spark.option_names import BadOption
from odradek.spark.sink import check_schema

TEXT, BYTES = StringType(), BinaryType()


def headers(*fields: tuple[str, DataType]) -> ArrayType:
    return ArrayType(StructType([StructField(name, kind) for name, kind in fields]))


def check(*columns: tuple[str, DataType], topic: str | None = "t") -> None:
    check_schema(StructType([StructField(name, kind) for name, kind in columns]), topic)


def test_columns_that_records_can_be_made_of() -> None:
    check(("value", TEXT))
    check(("Value", BYTES), ("KEY", TEXT), ("partition", LongType()), ("other", DoubleType()))
    check(("value", TEXT), ("timestamp", TimestampType()), ("key", NullType()))
    check(("value", TEXT), ("headers", headers(("value", BYTES), ("key", TEXT))))
    check(("value", TEXT), ("headers", headers(("key", TEXT), ("value", TEXT))))


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("key", IntegerType()),
        ("topic", BYTES),
        ("partition", TEXT),
        ("timestamp", LongType()),
        ("timestamp", TimestampNTZType()),
        ("timestamp", DateType()),
        ("headers", MapType(TEXT, BYTES)),
        ("headers", ArrayType(TEXT)),
        ("headers", headers(("name", TEXT), ("content", BYTES))),
        ("headers", headers(("key", BYTES), ("value", BYTES))),
        ("headers", headers(("key", TEXT), ("value", BYTES), ("more", TEXT))),
    ],
)
def test_a_column_of_another_type_is_named_with_what_it_may_be(name: str, kind: DataType) -> None:
    with pytest.raises(BadColumn) as refused:
        check(("value", TEXT), (name, kind))
    assert str(refused.value) == (
        f"column {name} is {kind.simpleString()}, but must be {ACCEPTED[name]}"
    )


def test_a_value_and_a_topic_are_needed_and_no_column_twice() -> None:
    with pytest.raises(BadColumn, match="no column value"):
        check(("key", TEXT))
    with pytest.raises(BadColumn, match="two columns key"):
        check(("value", TEXT), ("key", TEXT), ("KEY", BYTES))
    with pytest.raises(BadOption, match="no topic"):
        check(("value", TEXT), topic=None)
    check(("value", TEXT), ("topic", TEXT), topic=None)
