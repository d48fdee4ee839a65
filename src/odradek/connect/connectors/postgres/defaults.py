"""Derives the default of a column in a schema from its DEFAULT expression in PostgreSQL's catalog.

A default in a schema is a constant. So a literal, with a cast or without, becomes its value. A
function such as `now()` or `nextval(...)` becomes the zero value of the type, as in Debezium: a
column that is NOT NULL and has a default may be left out by writers, so its schema must have one
too. Nothing evaluates other expressions: Debezium takes their first literal, `false` for a boolean,
or the expression itself for a text, and so do we. What is not a value of the type gives no default.
"""

import re
from decimal import Decimal
from typing import Any, Final

from odradek.connect.connectors.postgres.types import ColumnType, TypeRow, numeric_scale
from odradek.connect.errors import DataError

_LITERAL: Final = re.compile(r"'((?:[^']|'')*)'(?:::[^()']+(?:\(\d+(?:,-?\d+)?\))?[\w\s\".]*)?")
_NUMBER: Final = re.compile(r"\(?(-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)\)?(?:::[^()]+(?:\([\d,]+\))?)?")
_FIRST_LITERAL: Final = re.compile(r"'(.*?)'")
_CALL: Final = re.compile(r"\(?[A-Za-z0-9_.]+\(.*\)")
_MOMENTS: Final = frozenset(
    {"current_timestamp", "current_time", "current_date", "localtime", "localtimestamp"}
)

_NUMBERS: Final = {"int2", "int4", "int8", "float4", "float8", "numeric"}
_TIMES: Final = {"date", "time", "timestamp", "timestamptz", "interval"}
_TEXTS: Final = {"text", "varchar", "bpchar"}
_OTHERS: Final = {"bool", "bit", "varbit", "uuid", "json", "jsonb", "xml"}
_WITH_LITERALS: Final = _NUMBERS | _TIMES | _TEXTS | _OTHERS
# The default for a column whose DEFAULT is a function.
_ZERO_VALUES: Final[dict[str, str]] = {
    "bool": "f",
    "bpchar": "",
    "date": "1970-01-01",
    "float4": "0",
    "float8": "0",
    "int2": "0",
    "int4": "0",
    "int8": "0",
    "interval": "00:00:00",
    "json": "{}",
    "jsonb": "{}",
    "numeric": "0",
    "text": "",
    "time": "00:00:00",
    "timestamp": "1970-01-01 00:00:00",
    "timestamptz": "1970-01-01 00:00:00+00",
    "uuid": "00000000-0000-0000-0000-000000000000",
    "varchar": "",
    "xml": "",
}


def default_of(expression: str | None, row: TypeRow, modifier: int, kind: ColumnType) -> Any:
    """Returns the default for a column's schema, or None. `row` is the type in the catalog."""
    if expression is None or row.kind not in "be" or row.element is not None:
        return None  # Only base types (b) and enums (e) have one; arrays have elements.
    if row.kind == "b" and row.name not in _WITH_LITERALS:
        return None
    text = _text_of(expression, row)
    try:
        if text is not None and row.name == "numeric":
            text = None if kind.schema.type == "struct" else _number(text, modifier)
        if text is None:
            return None
        return text if kind.convert is None else kind.convert(text)
    except (ValueError, ArithmeticError, DataError):
        return None


def _number(text: str, modifier: int) -> str | None:
    """Returns a number with the digits that its column has; None for one that would have to be
    rounded, and for NaN."""
    number, digits = Decimal(text), numeric_scale(modifier)
    exponent = number.as_tuple().exponent
    if not isinstance(exponent, int):
        return None
    if digits is None:
        return text
    scale = digits[1]
    if -exponent > scale:
        return None
    return f"{number:f}" if scale <= 0 else f"{number:.{scale}f}"


def _text_of(expression: str, row: TypeRow) -> str | None:
    """Returns the value of an expression as PostgreSQL would print it; None if it has none."""
    match = _LITERAL.fullmatch(expression)
    if match is not None:
        return match[1].replace("''", "'")
    if expression in ("true", "false"):
        return expression[0]
    match = _NUMBER.fullmatch(expression)
    if match is not None:
        return match[1]
    return None if expression.startswith("NULL") else _of_other(expression, row)


def _of_other(expression: str, row: TypeRow) -> str | None:
    if _CALL.match(expression) or expression.lower() in _MOMENTS:
        return _ZERO_VALUES.get(row.name)
    first = _FIRST_LITERAL.search(expression)
    if first is not None:
        return first[1]
    if row.name == "bool":
        return "f"
    return expression if row.name in _TEXTS else None
