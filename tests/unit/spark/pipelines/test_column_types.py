"""Schemas, as Spark reads them (tests/spark compares with Spark)."""

import pytest

from odradek.spark.pipelines.column_types import BadSchema, check_schema

GOOD = (
    "user string, page string",
    "struct<a int>",
    "a struct<b: int, c: map<string, array<int>>> not null comment 'x', b INT",
    "`a b` int, 1a int, select int, array int",
    "a decimal(10, 2), b decimal, c decimal(38), d dec, e numeric",
    "a interval day to second, b interval, c void, d timestamp_ntz, e variant",
    "a string collate UTF8_BINARY, b time(3), c time",
    "a integer, b long, c short, d byte, e real, f tinyint, g smallint, h bigint, i float",
    "a double, b date, c timestamp, d timestamp_ltz, e binary, f boolean, g struct<>",
    '{"type": "struct", "fields": []}',
)
BAD = (
    ("user strin, page string", "column user: there is no type strin; did you mean string?"),
    ("a array<map<string, strng>>", "column a: there is no type strng; did you mean string?"),
    ("a struct<b: strng>", "column b: there is no type strng; did you mean string?"),
    ("a number", "column a: there is no type number; write double"),
    ("a list<int>", "column a: there is no type list; write array<...>"),
    ("a xyzzy", "column a: there is no type xyzzy; there are string, boolean, int,"),
    ("user string page string", "a comma is missing before page"),
    ("a: int", "write a int, without the colon"),
    ("a-b int", "put the name a-b between backticks"),
    ("a.b int", "put the name a.b between backticks"),
    ("a int,", "a column is missing at the end"),
    ("a int)", ") is too much at the end"),
    ("string", "column string has no type"),
    ("array<int>", "it must name columns"),
    ("a array", "column a: array needs types, as in array<int>"),
    ("a array<int", "column a: array< has no > at its end"),
    ("a map<string>", "column a: a map needs two types"),
    ("a decimal(40, 2)", "at most 38 digits"),
    ("a decimal(2, 3)", "at most 38 digits"),
    ("a decimal(2", "decimal( has no ) at its end"),
    ("a int default 3", "a comma is missing before default"),
    ("{a", "it is not JSON"),
)


@pytest.mark.parametrize("text", GOOD)
def test_what_spark_takes_is_taken(text: str) -> None:
    check_schema(text)


@pytest.mark.parametrize(("text", "said"), BAD)
def test_what_spark_refuses_is_told_by_its_column(text: str, said: str) -> None:
    with pytest.raises(BadSchema) as refused:
        check_schema(text)
    assert said in str(refused.value)
