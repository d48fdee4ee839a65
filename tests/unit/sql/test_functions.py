"""Functions: corner cases, as ksqlDB's own implementations have them."""

# ruff: noqa: E501 - a case is a line

import math
import time
from decimal import Decimal
from typing import Any

import pytest

from odradek.sql.functions.patterns import Pattern
from odradek.sql.language.parser import parse_expression
from odradek.sql.planning.expressions import ROW_ERRORS, compile_expression
from odradek.sql.planning.scope import Scope
from odradek.sql.testing import SqlTester

_NULL = "CAST(null AS STRING)"


def value_of(text: str) -> Any:
    compiled = compile_expression(parse_expression(text), Scope(()))
    try:
        return compiled.evaluate(())
    except ROW_ERRORS:
        return None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        # Numbers
        ("LOG(CAST(100 AS DOUBLE))", math.log(100)),
        ("LOG(2, 8)", 3.0),
        ("LOG(0)", -math.inf),
        ("LOG(0.5, 0)", math.inf),
        ("SINH(-1000)", -math.inf),
        ("POWER(-10, 401)", -math.inf),
        ("ROUND(1e300)", (1 << 63) - 1),
        ("ROUND(2.5)", Decimal(3)),
        ("ROUND(-2.5)", Decimal(-2)),
        ("ROUND(123.456, -1)", Decimal("120.000")),
        ("TRUNC(-2.9)", Decimal(-2)),
        ("TRUNC(-1e300)", -(1 << 63)),
        ("SIGN(-0.5)", -1),
        ("GEO_DISTANCE(0, 0, 0, 90, 'miles')", 6218.782657780995),
        ("GEO_DISTANCE(-33.89640, 151.24504, -33.863, 151.1169, 'km')", 12.398568134716221),
        ("GEO_DISTANCE(0, 0, 0, 90, 'feet')", None),
        ("GEO_DISTANCE(0, 0, 0, 181)", None),
        # Text
        ("INITCAP('  the  QUICK fox ')", "The  Quick Fox "),
        ("CHR('\\u004b')", "K"),
        ("CHR('\\u004bx')", "Kx"),
        ("CHR('K')", None),
        ("CHR(22909)", "好"),
        ("CHR(-1)", None),
        (f"INSTR({_NULL}, 'a')", 0),
        ("INSTR('CORPORATE FLOOR', 'OR')", 2),
        ("INSTR('CORPORATE FLOOR', 'OR', 3)", 5),
        ("INSTR('CORPORATE FLOOR', 'OR', -3)", 5),
        ("INSTR('CORPORATE FLOOR', 'OR', -3, 2)", 2),
        ("INSTR('CORPORATE FLOOR', 'OR', 1, 0)", 0),
        ("INSTR('aaa', 'aa', 1, 2)", 2),
        ("INSTR('abc', 'c', 0)", 0),
        ("INSTR('abc', 'c', 4)", 0),
        ("SUBSTRING('stream', 0, 3)", "str"),
        ("SUBSTRING('stream', -3)", "eam"),
        ("SUBSTRING('stream', 10)", ""),
        ("SUBSTRING('stream', 2, -1)", ""),
        ("SUBSTRING(TO_BYTES('abc', 'utf8'), 2)", b"bc"),
        ("SPLIT('', '')", [""]),
        ("SPLIT('ab', '')", ["a", "b"]),
        ("SPLIT(',a,', ',')", ["", "a", ""]),
        ("SPLIT(TO_BYTES('a.b', 'utf8'), TO_BYTES('.', 'utf8'))", [b"a", b"b"]),
        ("SPLIT_TO_MAP('a=1;b=2;c;a=3', ';', '=')", {"a": "3", "b": "2"}),
        ("SPLIT_TO_MAP('a=1', '=', '=')", None),
        ("LPAD('foo', 2, 'x')", "fo"),
        ("LPAD('foo', -1, 'x')", None),
        ("LPAD('foo', 5, '')", None),
        ("RPAD(TO_BYTES('a', 'utf8'), 3, TO_BYTES('bc', 'utf8'))", b"abc"),
        ("MASK('Ab1-é', 'XX', 'x', 'n', '-')", None),
        ("MASK('Ab1!')", "Xxn-"),
        ("MASK_LEFT('AbC', 5)", "XxX"),
        ("MASK_KEEP_RIGHT('AbC', -1)", None),
        ("ENCODE('0x4142', 'hex', 'ascii')", "AB"),
        ("ENCODE('0x142', 'hex', 'ascii')", "\x01B"),
        ("ENCODE('142', 'hex', 'ascii')", None),
        ("ENCODE('x''4142''', 'hex', 'utf8')", "AB"),
        ("ENCODE('QUI', 'base64', 'utf8')", "AB"),
        ("ENCODE('ab', 'utf8', 'utf8')", None),
        ("ENCODE('Ab', 'utf8', 'HEX')", "4162"),
        ("TO_BYTES('0xff', 'hex')", None),
        ("FROM_BYTES(TO_BYTES('fF', 'hex'), 'hex')", "FF"),
        ("ELT(0, 'a')", None),
        ("ELT(2, 'a', 'b')", "b"),
        (f"FIELD({_NULL}, 'a', {_NULL})", 0),
        (f"CONCAT('a', {_NULL})", "a"),
        (f"CONCAT_WS({_NULL}, 'a', 'b')", None),
        ("TRIM('\t a ')", "a"),
        ("UUID(TO_BYTES('00', 'hex'))", None),
        ("UUID(TO_BYTES('237e9877e79b12d4a765321741963000', 'hex'))", "237e9877-e79b-12d4-a765-321741963000"),
        # Regular expressions
        ("REGEXP_EXTRACT('(?<year>\\d+)-(\\d+)', 'on 2024-05', 1)", "2024"),
        ("REGEXP_EXTRACT('a(b)?', 'a', 1)", None),
        ("REGEXP_EXTRACT('a', 'a', 1)", None),
        ("REGEXP_EXTRACT('[', 'a')", None),
        ("REGEXP_EXTRACT('\\p{Alpha}+', '12ab3')", "ab"),
        ("REGEXP_EXTRACT('(\\w)\\1', 'hello')", "ll"),
        ("REGEXP_EXTRACT('l(?=o)', 'hello')", "l"),
        ("REGEXP_EXTRACT('[a-z&&[^h]]+', 'hello')", "ello"),
        ("REGEXP_EXTRACT_ALL('(\\w+) (\\w+)', 'hello there nice day', 2)", ["there", "day"]),
        ("REGEXP_EXTRACT_ALL('x', 'abc')", []),
        ("REGEXP_REPLACE('héllo', 'l+', '[$0]')", "hé[ll]o"),
        ("REGEXP_REPLACE('abc', 'x*', '-')", "-a-b-c-"),
        ("REGEXP_REPLACE('a.b', '\\.', '\\$')", "a$b"),
        ("REGEXP_REPLACE('1234567', '(?<=\\d)(?=(\\d{3})+$)', ',')", "1,234,567"),
        ("REGEXP_SPLIT_TO_ARRAY('zax', '')", ["z", "a", "x"]),
        ("REGEXP_SPLIT_TO_ARRAY('z1a2', '[0-9]')", ["z", "a", ""]),
        ("REGEXP_SPLIT_TO_ARRAY('1z', '[0-9]')", ["", "z"]),
        ("REGEXP_SPLIT_TO_ARRAY('abc', 'x')", ["abc"]),
        # Collections
        ("SLICE(ARRAY[1, 2, 3], 2, 9)", None),
        ("SLICE(ARRAY[1, 2, 3], 2, 2)", [2]),
        ("SLICE(ARRAY[1, 2, 3], 0, 2)", None),
        ("SLICE(ARRAY[1, 2], null, 1)", [1]),
        ("AS_MAP(ARRAY['a', 'b'], ARRAY[1])", {"a": 1, "b": None}),
        ("ARRAY_JOIN(ARRAY[1, null, 2], '')", "1null2"),
        ("ARRAY_JOIN(ARRAY[ARRAY[1]])", None),
        ("ARRAY_MAX(ARRAY['Foo', 'Bar', null, 'baz'])", "baz"),
        ("ARRAY_REMOVE(ARRAY['Foo', 'Bar', null], null)", ["Foo", "Bar"]),
        ("ARRAY_SORT(ARRAY[2, null, 1], 'up')", None),
        ("FILTER(ARRAY[1, null], x => x > 0)", [1]),
        ("FILTER(MAP('a' := 1, 'b' := 2), (k, v) => v > 1)", {"b": 2}),
        ("TRANSFORM(MAP('a' := 1, 'b' := 2), (k, v) => 'x', (k, v) => v)", None),
        ("TRANSFORM(ARRAY[1, null], x => x + 1)", [2, None]),
        ("REDUCE(ARRAY[1, 2], CAST(null AS INT), (s, x) => s + x)", None),
        ("REDUCE(CAST(null AS ARRAY<INT>), 5, (s, x) => s + x)", 5),
        ("GENERATE_SERIES(1, 5, 2)", [1, 3, 5]),
        ("GENERATE_SERIES(5, 1, 2)", None),
        ("GENERATE_SERIES(3, 3)", [3]),
        ("ENTRIES(MAP('b' := 1, 'a' := 2), true)", [{"K": "a", "V": 2}, {"K": "b", "V": 1}]),
        # JSON
        ("EXTRACTJSONFIELD('{\"a\": null}', '$.a')", "null"),
        ("EXTRACTJSONFIELD('{\"a\": [1, 2]}', '$.a[5]')", None),
        ("EXTRACTJSONFIELD('{\"a\": {\"b c\": true}}', '$.a[\"b c\"]')", "true"),
        ("EXTRACTJSONFIELD('nonsense', '$.a')", None),
        ("JSON_RECORDS('{\"a\": \"abc\", \"b\": {\"c\": 1}}')", {"a": "abc", "b": '{"c":1}'}),
        ("JSON_CONCAT('3')", "3"),
        ("JSON_CONCAT('[1, 2]', '3')", "[1,2,3]"),
        ("JSON_CONCAT('null', 'null')", "[null,null]"),
        ("JSON_ARRAY_CONTAINS('[1, 2.5, \"a\", null, true]', 2.5e0)", True),
        ("JSON_ARRAY_CONTAINS('[1]', '1')", False),
        ("JSON_ARRAY_CONTAINS('[1, null]', null)", True),
        ("JSON_ARRAY_LENGTH('{}')", None),
        ("IS_JSON_STRING('')", False),
        (f"IS_JSON_STRING({_NULL})", False),
        ("TO_JSON_STRING(STRUCT(b := 1, a := 2))", '{"A":2,"B":1}'),
        ("TO_JSON_STRING(MAP('z' := 1, 'y' := 2))", '{"y":2,"z":1}'),
        ("TO_JSON_STRING(null)", "null"),
        ("JSON_ITEMS('[1, \"a\", {}]')", ["1", '"a"', "{}"]),
        ("JSON_KEYS('[]')", None),
        # Times
        ("CONVERT_TZ('2024-03-31T02:30', 'Europe/Berlin', 'UTC')", 1_711_845_000_000),
        ("DATEADD(HOURS, 23, CAST('2024-01-01' AS DATE))", 19_723),
        ("DATESUB(DAYS, 1, CAST('1970-01-01' AS DATE))", -1),
        ("TIMEADD(MINUTES, 90, '23:00')", 1_800_000),
        ("PARSE_DATE('2021-02-30', 'yyyy-MM-dd')", 18_688),
        ("PARSE_DATE('2021-2-3 rest', 'yyyy-MM-dd')", 18_661),
        ("PARSE_DATE('2021-02-03 01', 'yyyy-MM-dd HH')", None),
        ("PARSE_TIMESTAMP('2021-06-31 12:18:39.446', 'yyyy-MM-dd HH:mm:ss.SSS')", 1_625_055_519_446),
        ("PARSE_TIMESTAMP('2021-06-30 12', 'yyyy-MM-dd HH', 'America/Los_Angeles')", 1_625_079_600_000),
        ("PARSE_TIME('12:30', 'HH:mm')", 45_000_000),
        ("PARSE_TIME('2020 12:30', 'yyyy HH:mm')", None),
        ("FORMAT_DATE(CAST('2024-02-29' AS DATE), 'EEE, d MMM yyyy')", "Thu, 29 Feb 2024"),
        ("FORMAT_DATE(CAST('2024-02-29' AS DATE), 'yyyy HH')", None),
        ("FORMAT_TIME('12:30', 'yyyy')", None),
        ("FORMAT_TIME('12:30', '''T''HH:mm:ss.SSS')", "T12:30:00.000"),
        ("STRINGTODATE('2024-02', 'yyyy-MM')", None),
        ("STRINGTODATE('2024-02-29 x', 'yyyy-MM-dd')", None),
        ("STRINGTOTIMESTAMP('2024-02-29', 'yyyy-MM-dd')", 1_709_164_800_000),
        ("TIMESTAMPTOSTRING(0, 'yyyy-MM-dd HH:mm', 'nowhere')", None),
        ("UNIX_TIMESTAMP('2024-02-29')", 1_709_164_800_000),
        ("FROM_DAYS(-1)", -1),
        # URLs
        ("URL_EXTRACT_HOST('http://User@Test.com:8080/x')", "Test.com"),
        ("URL_EXTRACT_HOST('http://a_b/x')", None),
        ("URL_EXTRACT_PORT('http://test.com/x')", None),
        ("URL_EXTRACT_PORT('http://test.com:8080/x')", 8080),
        ("URL_EXTRACT_PROTOCOL('HTTP://x')", "HTTP"),
        ("URL_EXTRACT_PROTOCOL('test.com/x')", None),
        ("URL_EXTRACT_PATH('http://test.com')", ""),
        ("URL_EXTRACT_PATH('mailto:a@b')", None),
        ("URL_EXTRACT_PATH('http://test.com/a b')", None),
        ("URL_EXTRACT_QUERY('http://test.com?a=foo%20bar&b=baz')", "a=foo bar&b=baz"),
        ("URL_EXTRACT_QUERY('http://test.com')", None),
        ("URL_EXTRACT_FRAGMENT('http://test.com#frag%20space')", "frag space"),
        ("URL_EXTRACT_PARAMETER('http://t.com?a=&b', 'a')", ""),
        ("URL_EXTRACT_PARAMETER('http://t.com?a=&b', 'b')", ""),
        ("URL_EXTRACT_PARAMETER('http://t.com?a=b=c', 'a')", "b=c"),
        ("URL_EXTRACT_PARAMETER('http://t.com?a=1', 'x')", None),
        ("URL_DECODE_PARAM('url%20encoded+1')", "url encoded 1"),
        ("URL_DECODE_PARAM('100%')", None),
    ],
)  # fmt: skip
def test_corner_cases(text: str, value: Any) -> None:
    assert value_of(text) == value


def test_a_pattern_cannot_hold_up_the_server() -> None:
    text = "a" * 40 + "b"
    begun = time.perf_counter()
    assert value_of(f"REGEXP_EXTRACT('(a|aa)+$', '{text}')") is None
    assert value_of(f"REGEXP_REPLACE('{text}', '(a+)+$', '')") == text
    # What RE2 does not have is stopped, and not tried again.
    slow = Pattern("(a|aa)+(?=c)")
    for _ in range(50):
        with pytest.raises(ValueError, match=r"the pattern (takes|took)"):
            slow.first(text)
    assert time.perf_counter() - begun < 5


def _aggregated(expression: str, kind: str, values: str) -> Any:
    tester = SqlTester()
    tester.run(
        f"CREATE STREAM s (k INT KEY, x {kind}) WITH (kafka_topic='s', value_format='JSON');"
        f"CREATE TABLE t AS SELECT k, {expression} AS r FROM s GROUP BY k;"
    )
    for value in values.split(";"):
        tester.run(f"INSERT INTO s VALUES (1, {value});")
    return tester.rows("T")[-1][0]["R"]


@pytest.mark.parametrize(
    ("expression", "kind", "values", "result"),
    [
        ("STDDEV_SAMPLE(x)", "INT", "1;null;4;6", 2.516611478423583),
        ("STDDEV_SAMP(x)", "DOUBLE", "1;4;6", 6.333333333333333),
        ("STDDEV_SAMPLE(x)", "BIGINT", "5", 0.0),
        ("SUM_LIST(x)", "ARRAY<INT>", "ARRAY[1, null, 2];null;ARRAY[4]", 7),
        ("AVG(x)", "INT", "1;2", 1.5),
        ("LATEST_BY_OFFSET(x, 2, false)", "INT", "1;null;3", [None, 3]),
        ("EARLIEST_BY_OFFSET(x, false)", "INT", "null;3", None),
        ("EARLIEST_BY_OFFSET(x, 2)", "INT", "null;3;4;5", [3, 4]),
        ("TOPK(x, 2)", "INT", "1;3;2", [3, 2]),
        ("TOPKDISTINCT(x, 2)", "INT", "3;3;2", [3, 2]),
        ("COLLECT_SET(x)", "INT", "1;null;1;null", [1, None]),
        ("HISTOGRAM(x)", "STRING", "'a';'b';'a'", {"a": 2, "b": 1}),
        ("ATTR(x)", "INT", "1;1", 1),
        ("ATTR(x)", "INT", "1;2", None),
        ("COUNT_DISTINCT(x)", "INT", "1;1;2;null", 2),
        ("CORRELATION(x, x * 2)", "INT", "1;2;4", 1.0),
    ],
)
def test_aggregates(expression: str, kind: str, values: str, result: Any) -> None:
    assert _aggregated(expression, kind, values) == pytest.approx(result)
