"""Expressions: their values and types, by ksqlDB's rules."""

# ruff: noqa: E501 - a case is a line

import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from odradek.sql.errors import Invalid
from odradek.sql.functions.reference import render
from odradek.sql.functions.table import NAMES
from odradek.sql.language.parser import parse_expression
from odradek.sql.planning.expressions import ROW_ERRORS, compile_expression
from odradek.sql.planning.scope import Scope
from odradek.streams.plan.types import (
    BIGINT,
    BYTES,
    DATE,
    DOUBLE,
    INTEGER,
    STRING,
    TIME,
    TIMESTAMP,
    ArrayType,
    Column,
    DecimalType,
    MapType,
    SqlType,
    StructType,
)

_VALUES: dict[str, tuple[SqlType, Any]] = {
    "I": (INTEGER, 7), "B": (BIGINT, -5), "D": (DOUBLE, 2.5), "E": (DecimalType(4, 2), Decimal("1.50")),
    "S": (STRING, "Hello World"), "N": (STRING, None), "Y": (BYTES, b"\x00\x00\x07\xe5"),
    "L": (ArrayType(INTEGER), [3, 1, None, 3]), "M": (MapType(STRING, INTEGER), {"a": 1, "b": 2}),
    "R": (StructType((("F", STRING), ("G", ArrayType(INTEGER)))), {"F": "x", "G": [1]}),
    "DA": (DATE, 19_782), "TI": (TIME, 43_200_500), "TS": (TIMESTAMP, 1_709_208_000_500),
}  # fmt: skip
_SCOPE = Scope.of("T", [], [Column(name, kind) for name, (kind, _) in _VALUES.items()])
_ROW = tuple(value for _, value in _VALUES.values())


def value_of(text: str) -> tuple[Any, str]:
    compiled = compile_expression(parse_expression(text), _SCOPE)
    try:
        return compiled.evaluate(_ROW), str(compiled.kind)
    except ROW_ERRORS:
        return None, str(compiled.kind)


@pytest.mark.parametrize(
    ("text", "value", "kind"),
    [
        # Arithmetic as Java does it
        ("i + b", 2, "BIGINT"),
        ("i / 2", 3, "INTEGER"),
        ("b / 2", -2, "BIGINT"),
        ("b % 3", -2, "BIGINT"),
        ("2147483647 + 1", -2147483648, "INTEGER"),
        ("2147483648", 2147483648, "BIGINT"),
        ("i / 0", None, "INTEGER"),
        ("d / 0", math.inf, "DOUBLE"),
        ("e + e", Decimal("3.00"), "DECIMAL(5, 2)"),
        ("e * 2", Decimal("3.00"), "DECIMAL(15, 2)"),
        ("1.25", Decimal("1.25"), "DECIMAL(3, 2)"),
        ("1e2", 100.0, "DOUBLE"),
        ("-(i - 10)", 3, "INTEGER"),
        ("i + n", None, None),
        ("s + '!'", "Hello World!", "STRING"),
        ("'a' || 'b'", "ab", "STRING"),
        # Conditions: a comparison with null is false
        ("n = 'x'", False, "BOOLEAN"),
        ("n <> 'x'", False, "BOOLEAN"),
        ("n IS NULL AND NOT i IS NULL", True, "BOOLEAN"),
        ("n IS DISTINCT FROM 'x'", True, "BOOLEAN"),
        ("n IS NOT DISTINCT FROM null", True, "BOOLEAN"),
        ("i BETWEEN 7 AND 8", True, "BOOLEAN"),
        ("i NOT BETWEEN 7 AND 8", False, "BOOLEAN"),
        ("i IN (1, 7.0, '9')", True, "BOOLEAN"),
        ("s LIKE 'H_llo%'", True, "BOOLEAN"),
        ("s LIKE '%o%o%'", True, "BOOLEAN"),
        ("s LIKE '%o%o%o%'", False, "BOOLEAN"),
        ("s LIKE '%l_%ld'", True, "BOOLEAN"),
        ("s LIKE 'H%d%'", True, "BOOLEAN"),
        ("s LIKE 'Hello'", False, "BOOLEAN"),
        # Trying all combinations would take years.
        ("LPAD('', 1000, 'a') LIKE '%a%a%a%a%a%a%a%a%a%a%b'", False, "BOOLEAN"),
        # Two gigabytes are refused.
        ("LPAD('a', 2147483647, 'b')", None, "STRING"),
        ("'50%' LIKE '50!%' ESCAPE '!'", True, "BOOLEAN"),
        ("da = '2024-02-29'", True, "BOOLEAN"),
        ("ts > '2024-02-29T12:00'", True, "BOOLEAN"),
        ("da < ts", True, "BOOLEAN"),
        ("CONCAT('2024-02-', '29') = da", True, "BOOLEAN"),
        ("ts > CONCAT('2024', '')", True, "BOOLEAN"),
        # Collections
        ("l[1] + l[-1]", 6, "INTEGER"),
        ("l[9]", None, "INTEGER"),
        ("m['b']", 2, "INTEGER"),
        ("r->g[1]", 1, "INTEGER"),
        ("ARRAY[1, 2.5]", [Decimal("1.0"), Decimal("2.5")], "ARRAY<DECIMAL(11, 1)>"),
        ("ARRAY[1, i / 0]", [1, None], "ARRAY<INTEGER>"),
        ("MAP('x' := i / 0)", {"x": None}, "MAP<STRING, INTEGER>"),
        ("STRUCT(a := CAST('x' AS INT), b := 2)", {"A": None, "B": 2}, "STRUCT<`A` INTEGER, `B` INTEGER>"),
        ("MAP('x' := 1, 'y' := 2)['y']", 2, "INTEGER"),
        ("STRUCT(a := 1, b := 'x')->b", "x", "STRING"),
        ("FILTER(l, e => e > 1)", [3, 3], "ARRAY<INTEGER>"),
        ("TRANSFORM(m, (k, v) => UCASE(k), (k, v) => v + i)", {"A": 8, "B": 9}, "MAP<STRING, INTEGER>"),
        ("REDUCE(m, 10, (t, k, v) => t + v)", 13, "INTEGER"),
        ("TRANSFORM(ARRAY[ARRAY[1], ARRAY[2, 3]], x => REDUCE(x, 0, (t, e) => t + e))", [1, 5], "ARRAY<INTEGER>"),
        ("TRANSFORM(ARRAY['a'], s => s + t.s)", ["aHello World"], "ARRAY<STRING>"),
        ("TRANSFORM(ARRAY[1], i => REDUCE(ARRAY[2], 0, (s, i) => s + i) + i)", [3], "ARRAY<INTEGER>"),
        ("ARRAY_SORT(l, 'DESC')", [3, 3, 1, None], "ARRAY<INTEGER>"),
        ("ARRAY_DISTINCT(l)", [3, 1, None], "ARRAY<INTEGER>"),
        ("GENERATE_SERIES(3, 1)", [3, 2, 1], "ARRAY<INTEGER>"),
        ("SLICE(ARRAY['a','b','c'], 2, 3)", ["b", "c"], "ARRAY<STRING>"),
        # Casts
        ("CAST(e AS STRING)", "1.50", "STRING"),
        ("CAST(1e10 AS STRING)", "1.0E10", "STRING"),
        ("CAST(l AS STRING)", "[3, 1, null, 3]", "STRING"),
        ("CAST(m AS STRING)", "{a=1, b=2}", "STRING"),
        ("CAST('12' AS INT)", 12, "INTEGER"),
        ("CAST('x' AS INT)", None, "INTEGER"),
        ("CAST(d AS INT)", 2, "INTEGER"),
        ("CAST(1e10 AS INT)", 2147483647, "INTEGER"),
        ("CAST(4294967297 AS INT)", 1, "INTEGER"),
        ("CAST('1_0' AS INT)", None, "INTEGER"),
        ("CAST('1_0' AS DECIMAL(4, 2))", None, "DECIMAL(4, 2)"),
        ("CAST('NaN' AS DECIMAL(4, 2))", None, "DECIMAL(4, 2)"),
        ("CAST('\u00a07' AS BIGINT)", None, "BIGINT"),
        ("CAST('\t7\n' AS BIGINT)", 7, "BIGINT"),
        ("CAST('inf' AS DOUBLE)", None, "DOUBLE"),
        ("CAST('Ye' AS BOOLEAN)", True, "BOOLEAN"),
        ("CAST('' AS BOOLEAN)", False, "BOOLEAN"),
        ("CAST('YWJj' AS BYTES)", b"abc", "BYTES"),
        ("CAST('2024-02-29T10:00' AS DATE)", None, "DATE"),
        ("CAST('2024-02' AS DATE)", 19_754, "DATE"),
        ("CAST('9:00' AS TIME)", None, "TIME"),
        ("CAST(ti AS STRING)", "12:00", "STRING"),
        ("CAST(d AS DECIMAL(3, 0))", Decimal("3"), "DECIMAL(3, 0)"),
        ("CAST('12:30' AS TIME)", 45_000_000, "TIME"),
        ("CAST(ts AS DATE)", 19_782, "DATE"),
        ("CAST(ts AS STRING)", "2024-02-29T12:00:00.500", "STRING"),
        ("CASE WHEN i > 5 THEN 1 ELSE 2.5 END", Decimal("1.0"), "DECIMAL(11, 1)"),
        ("CASE i WHEN 7 THEN 'seven' END", "seven", "STRING"),
        # Functions
        ("ROUND(-2.5)", Decimal("-2"), "DECIMAL(1, 0)"),
        ("ROUND(d)", 3, "BIGINT"),
        ("TRUNC(12345.67, -3)", Decimal("12000.00"), "DECIMAL(7, 2)"),
        ("GREATEST(i, b, null)", 7, "BIGINT"),
        ("CONCAT(s, n, '!')", "Hello World!", "STRING"),
        ("CONCAT_WS('-', 'a', null, 'b')", "a-b", "STRING"),
        ("INSTR('CORPORATE FLOOR', 'OR', 3, 2)", 14, "INTEGER"),
        ("INSTR('CORPORATE FLOOR', 'OR', -3)", 5, "INTEGER"),
        ("LPAD('Foo', 7, 'Bar')", "BarBFoo", "STRING"),
        ("MASK('My Test $123', '*', null, '1', null)", "*y *est $111", "STRING"),
        ("MASK_KEEP_RIGHT('My Test $123', 4)", "Xx-Xxxx-$123", "STRING"),
        ("SUBSTRING(s, -5, 3)", "Wor", "STRING"),
        ("REGEXP_EXTRACT('(.*) (.*)', s, 2)", "World", "STRING"),
        ("REGEXP_REPLACE(s, '(l+)', '<$1>')", "He<ll>o Wor<l>d", "STRING"),
        ("SPLIT('a.b.', '.')", ["a", "b", ""], "ARRAY<STRING>"),
        ("INT_FROM_BYTES(y)", 2021, "INTEGER"),
        ("TO_BYTES('ff', 'hex')", b"\xff", "BYTES"),
        ("ENCODE('hi', 'utf8', 'hex')", "6869", "STRING"),
        ("EXTRACTJSONFIELD('{\"a\": {\"b\": [1, {\"c\": 2.50}]}}', '$.a.b[1].c')", "2.50", "STRING"),
        ("JSON_CONCAT('{\"a\": 1}', '{\"b\": 2}')", '{"a":1,"b":2}', "STRING"),
        ("JSON_RECORDS('{\"a\": [1]}')", {"a": "[1]"}, "MAP<STRING, STRING>"),
        ("TO_JSON_STRING(STRUCT(d := da, e := e))", '{"D":"2024-02-29","E":1.50}', "STRING"),
        ("URL_EXTRACT_PARAMETER('http://t.com?a%20b=c%20d', 'a b')", "c d", "STRING"),
        ("URL_ENCODE_PARAM('a b~')", "a+b%7E", "STRING"),
        ("FORMAT_TIMESTAMP(ts, 'yyyy-MM-dd''T''HH:mm:ss.SSS XXX', 'Europe/Berlin')", "2024-02-29T13:00:00.500 +01:00", "STRING"),
        ("PARSE_TIMESTAMP('29 Feb 2024 01:05 PM', 'dd MMM yyyy hh:mm a')", 1_709_211_900_000, "TIMESTAMP"),
        ("PARSE_DATE('2024-060', 'yyyy-DDD')", 19_782, "DATE"),
        ("DATEADD(MONTHS, 12, da)", 20_147, "DATE"),
        ("TIMESUB(HOURS, 13, ti)", 82_800_500, "TIME"),
        ("COALESCE(n, 'x')", "x", "STRING"),
        ("NULLIF(i, 7)", None, "INTEGER"),
    ],
)  # fmt: skip
def test_values(text: str, value: Any, kind: str | None) -> None:
    if kind is None:
        with pytest.raises(Invalid):
            value_of(text)
        return
    assert value_of(text) == (value, kind)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("nope", "line 1:1: Column 'NOPE' cannot be resolved"),
        ("fooo(1)", "line 1:1: there is no function FOOO; did you mean"),
        ("i + l", "line 1:3: Unsupported arithmetic types. INTEGER ARRAY<INTEGER>"),
        ("s > i", "line 1:3: Cannot compare STRING to INTEGER with '>'"),
        ("LEN(i)", "line 1:1: Function 'LEN' does not accept parameters (INTEGER)"),
        ("r->nope", "there is no field NOPE in STRUCT"),
        ("i->x", "'->X' needs a STRUCT, and this is INTEGER"),
        ("COUNT(i)", "line 1:1: COUNT is an aggregate"),
        ("EXPLODE(l)", "line 1:1: EXPLODE makes several rows"),
        ("i AND true", "an operand of AND is a condition of type BOOLEAN, and this is INTEGER"),
        ("i = null", "Comparison with NULL not supported: INTEGER = NULL"),
        ("ARRAY[null]", "Cannot construct an array with all NULL elements"),
        ("CAST(l AS INT)", "Cast of ARRAY<INTEGER> to INTEGER is not supported"),
        ("ARRAY[]", "Array constructor cannot be empty"),
        ("TRANSFORM(l, (a, b) => a)", "does not accept parameters"),
    ],
)
def test_refusals(text: str, reason: str) -> None:
    with pytest.raises(Invalid) as caught:
        value_of(text)
    assert reason in str(caught.value)


def test_all_names_are_in_the_reference() -> None:
    text = render()
    assert len(NAMES) >= 141
    assert all(f"`{name}`" in text for name in NAMES)


def test_the_reference_page_is_current() -> None:
    page = Path(__file__).parents[3] / "docs/reference/sql-functions.md"
    assert page.read_text() == render(), (
        "run: python -m odradek.sql.functions.reference docs/reference/sql-functions.md"
    )
