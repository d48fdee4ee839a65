"""The defaults of columns in schemas, from the expressions that the catalog has.

A schema can have a constant only. So an expression that is a literal, perhaps with a cast, becomes
its value; functions such as `now()` and `nextval(...)` become the zero of the type, as Debezium has
it, since a column that cannot be null and has a default is not required of those who write; all
others are left out.
"""

import re
from typing import Any, Final

from odradek.connect.connectors.postgres.types import ColumnType, TypeRow

_LITERAL: Final = re.compile(r"'((?:[^']|'')*)'(?:::[^()']+(?:\(\d+(?:,-?\d+)?\))?[\w\s\".]*)?")
_NUMBER: Final = re.compile(r"\(?(-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)\)?(?:::[^()]+(?:\([\d,]+\))?)?")
_ESCAPED: Final = re.compile(r"\\(.)")

_NUMBERS: Final = {"int2", "int4", "int8", "float4", "float8", "numeric"}
_TIMES: Final = {"date", "time", "timestamp", "timestamptz", "interval"}
_TEXTS: Final = {"text", "varchar", "bpchar"}
_OTHERS: Final = {"bool", "bit", "varbit", "uuid", "json", "jsonb", "xml"}
_WITH_LITERALS: Final = _NUMBERS | _TIMES | _TEXTS | _OTHERS
_FUNCTIONS: Final[dict[str, Any]] = {
    "int2": 0,
    "int4": 0,
    "int8": 0,
    "date": "1970-01-01",
    "time": "00:00:00",
    "timestamp": "1970-01-01 00:00:00",
    "timestamptz": "1970-01-01 00:00:00+00",
    "uuid": "00000000-0000-0000-0000-000000000000",
}


def default_of(expression: str | None, found: TypeRow, kind: ColumnType) -> Any:
    """Returns the default for a column's schema; None without one."""
    if expression is None or found.kind not in "be" or found.element is not None:
        return None
    if found.kind == "b" and found.name not in _WITH_LITERALS:
        return None
    if found.name == "numeric" and kind.schema.type == "struct":
        return None
    text = _literal(expression, found)
    if text is None:
        return None
    try:
        return text if kind.convert is None else kind.convert(text)
    except (ValueError, ArithmeticError):
        return None


def _literal(expression: str, found: TypeRow) -> str | None:
    match = _LITERAL.fullmatch(expression)
    if match is not None:
        return match[1].replace("''", "'")
    if expression in ("true", "false"):
        return expression[0]
    match = _NUMBER.fullmatch(expression)
    if match is not None:
        return match[1]
    if expression.startswith("NULL"):
        return None
    return _of_function(expression, found)


def _of_function(expression: str, found: TypeRow) -> str | None:
    if found.name in _TEXTS:
        # CURRENT_USER and its kin are kept as they are written.
        return expression if expression.isupper() and expression.isidentifier() else ""
    if found.name.startswith("int") and not expression.startswith("nextval("):
        return None
    zero = _FUNCTIONS.get(found.name)
    return None if zero is None else str(zero)
