"""The functions that expressions may call. Null as an argument gives null, but for `coalesce`."""

import math
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, Final, NamedTuple

from odradek.connect.converters.primitives import java_string
from odradek.connect.data import schemas
from odradek.connect.data.schemas import Schema
from odradek.connect.errors import DataError, InvalidConfig
from odradek.connect.transforms.java_patterns import java_pattern

_MAX_TEXT: Final = 1 << 20


class Function(NamedTuple):
    """`schema` is that of the results; None for that of the first argument."""

    call: Callable[..., Any]
    least: int
    most: int
    schema: Schema | None


def like(text: Any, pattern: Any) -> bool:
    """Matches `%` and `_` as SQL does, in time that grows with the product of both lengths at
    most."""
    text, pattern = _text(text), _text(pattern)
    at = position = 0
    star, mark = -1, 0
    while at < len(text):
        if position < len(pattern) and pattern[position] == "%":
            star, mark = position, at
            position += 1
        elif position < len(pattern) and pattern[position] in {"_", text[at]}:
            at += 1
            position += 1
        elif star >= 0:
            mark += 1
            at, position = mark, star + 1
        else:
            return False
    return not pattern[position:].strip("%")


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise DataError(f"a text is needed, and this is {type(value).__name__}")
    return value


def _number(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise DataError(f"a number is needed, and this is {type(value).__name__}")
    return value


def _substring(text: Any, begin: Any, length: Any = None) -> str:
    text, start = _text(text), int(_number(begin))
    first = start - 1 if start > 0 else len(text) + start
    last = len(text) if length is None else first + max(int(_number(length)), 0)
    return str(text[max(first, 0) : max(last, 0)])


def _round(number: Any, digits: Any = 0) -> Any:
    count = int(_number(digits))
    number = _number(number)
    if isinstance(number, int):
        return number if count >= 0 else int(round(Decimal(number), count))
    if isinstance(number, Decimal):
        return number.quantize(Decimal(1).scaleb(-count), ROUND_HALF_UP)
    if not math.isfinite(number):
        return number
    return float(Decimal(repr(number)).quantize(Decimal(1).scaleb(-count), ROUND_HALF_UP))


def _whole(number: Any, rounded: Callable[[Any], int]) -> int:
    try:
        return rounded(_number(number))
    except (ValueError, OverflowError):
        raise DataError(f"{number} is not a whole number") from None


def _replace(text: Any, old: Any, new: Any) -> str:
    found = _text(text).replace(_text(old), _text(new)) if old else _text(text)
    if len(found) > _MAX_TEXT:
        raise DataError(f"a text of more than {_MAX_TEXT} characters")
    return found


def _length(value: Any) -> int:
    if isinstance(value, str | bytes | list | dict):
        return len(value)
    raise DataError(f"{type(value).__name__} has no length")


def _matches(text: Any, pattern: Any) -> bool:
    try:
        return java_pattern(_text(pattern)).fullmatch(_text(text)) is not None
    except InvalidConfig as error:
        raise DataError(str(error)) from None


_TEXT, _BOOLEAN, _INT64 = schemas.STRING, schemas.BOOLEAN, schemas.INT64
FUNCTIONS: Final[dict[str, Function]] = {
    "ABS": Function(lambda number: abs(_number(number)), 1, 1, None),
    "CEIL": Function(lambda number: _whole(number, math.ceil), 1, 1, _INT64),
    "CONCAT": Function(lambda *parts: "".join(map(java_string, parts)), 1, 50, _TEXT),
    "CONTAINS": Function(lambda text, part: _text(part) in _text(text), 2, 2, _BOOLEAN),
    "ENDS_WITH": Function(lambda text, part: _text(text).endswith(_text(part)), 2, 2, _BOOLEAN),
    "FLOOR": Function(lambda number: _whole(number, math.floor), 1, 1, _INT64),
    "LENGTH": Function(_length, 1, 1, _INT64),
    "LIKE": Function(like, 2, 2, _BOOLEAN),
    "LOWER": Function(lambda text: _text(text).lower(), 1, 1, _TEXT),
    "LTRIM": Function(lambda text: _text(text).lstrip(), 1, 1, _TEXT),
    "NULLIF": Function(lambda one, other: None if one == other else one, 2, 2, None),
    "REGEXP_MATCHES": Function(_matches, 2, 2, _BOOLEAN),
    "REPLACE": Function(_replace, 3, 3, _TEXT),
    "ROUND": Function(_round, 1, 2, None),
    "RTRIM": Function(lambda text: _text(text).rstrip(), 1, 1, _TEXT),
    "STARTS_WITH": Function(lambda text, part: _text(text).startswith(_text(part)), 2, 2, _BOOLEAN),
    "SUBSTRING": Function(_substring, 2, 3, _TEXT),
    "TO_STRING": Function(java_string, 1, 1, _TEXT),
    "TRIM": Function(lambda text: _text(text).strip(), 1, 1, _TEXT),
    "UPPER": Function(lambda text: _text(text).upper(), 1, 1, _TEXT),
}
FUNCTIONS["SUBSTR"] = FUNCTIONS["SUBSTRING"]
