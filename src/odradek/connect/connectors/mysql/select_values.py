"""Converts the values in the result of a `SELECT` to the same Python values as `row_values` reads
from the binary log.

The servers send values as text, in UTF-8. Geometries, and values that are stored as bytes, arrive
as bytes.
"""

from collections.abc import Callable, Mapping
from datetime import date
from decimal import Decimal
from typing import Any, Final

from odradek.connect.connectors.mysql.columns import Column

Parse = Callable[[Any], Any]
_SECOND_US: Final = 1_000_000
_FIRST_DAY: Final = date(1970, 1, 1).toordinal()


def parser_of(column: Column) -> Parse:
    """Returns the function that converts the values of a column."""
    return _BY_TYPE.get(column.type, _unchanged)


def selected(column: Column) -> str:
    """Returns the expression to select for a column. A FLOAT is cast, because the server writes
    only six digits of it as text."""
    name = quoted(column.name)
    return f"CAST({name} AS DOUBLE)" if column.type in {"float", "double"} else name


def quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def _unchanged(value: Any) -> Any:
    return value


def _bits(value: bytes | str) -> int:
    return int.from_bytes(value if isinstance(value, bytes) else value.encode("latin-1"), "big")


def _date(text: str) -> tuple[int, int, int]:
    return int(text[:4]), int(text[5:7]), int(text[8:10])


def _datetime(text: str) -> tuple[int, ...]:
    fraction = text[20:26].ljust(6, "0") if len(text) > 19 else "0"
    clock = (text[11:13] or "0", text[14:16] or "0", text[17:19] or "0", fraction)
    return (*_date(text), *map(int, clock))


def _timestamp(text: str) -> int:
    """Returns microseconds since 1970. The text is in UTC, the time zone of the session."""
    year, month, day, hour, minute, second, microsecond = _datetime(text)
    if not year:
        return 0
    days = date(year, month, day).toordinal() - _FIRST_DAY
    return ((days * 24 + hour) * 60 + minute) * 60 * _SECOND_US + second * _SECOND_US + microsecond


def _time(text: str) -> int:
    sign = -1 if text.startswith("-") else 1
    clock, _, fraction = text.lstrip("-").partition(".")
    hours, minutes, seconds = map(int, clock.split(":"))
    whole = (hours * 60 + minutes) * 60 + seconds
    return sign * (whole * _SECOND_US + int(fraction.ljust(6, "0")[:6] or "0"))


_BY_TYPE: Final[Mapping[str, Parse]] = {
    **dict.fromkeys(("tinyint", "smallint", "mediumint", "int", "bigint", "year"), int),
    "float": float,
    "double": float,
    "decimal": Decimal,
    "bit": _bits,
    "date": _date,
    "datetime": _datetime,
    "timestamp": _timestamp,
    "time": _time,
}
