"""Values whose types are guessed from text, as Kafka Connect reads headers and literals.

12 -> int8    1.5 -> float    true -> boolean    [1, 2] -> array    {"a": 1} -> map
2020-01-02 -> Date    2020-01-02T03:04:05.678Z -> Timestamp    anything else -> string
"""

import json
import re
from collections.abc import Iterable
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any, Final

from odradek.connect.data import schemas, values
from odradek.connect.data.schemas import INTEGERS, Schema, Type
from odradek.connect.errors import DataError
from odradek.javatext import numbers

_NUMBER: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d")
_TIME: Final = re.compile(r"\d\d:\d\d:\d\d\.\d{3}Z")
_TIMESTAMP: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
_MAX_DIGITS: Final = 4000
_OF_TYPE: Final = {
    Type.INT8: schemas.INT8,
    Type.INT16: schemas.INT16,
    Type.INT32: schemas.INT32,
    Type.INT64: schemas.INT64,
}


def parse_literal(text: str) -> tuple[Schema | None, Any]:
    """Returns the schema and the value that the text stands for. Any text stands for something."""
    stripped = text.strip()
    if stripped == "null":
        return None, None
    if stripped in {"true", "false"}:
        return schemas.BOOLEAN, stripped == "true"
    found = _number(stripped) or _moment(stripped)
    if found is not None:
        return found
    if stripped[:1] in {"[", "{"}:
        found = _parts(stripped)
        if found is not None:
            return found
    return schemas.STRING, text


def _number(text: str) -> tuple[Schema, Any] | None:
    """Returns a number in the smallest type that has it: a whole number is one even if it is
    written with a point or an exponent. Kafka Connect takes every fraction for a float of 32 bits;
    where that would change it, it is a double here, or a Decimal."""
    if len(text) > _MAX_DIGITS or not _NUMBER.fullmatch(text):
        return None
    exact = Decimal(text)
    if abs(exact.adjusted()) > _MAX_DIGITS:
        return None
    if exact == exact.to_integral_value():
        whole = _whole(int(exact))
        if whole is not None:
            return whole
    number = float(text)
    for schema, written in (
        (schemas.FLOAT32, numbers.float_text(number)),
        (schemas.FLOAT64, numbers.double_text(number)),
    ):
        has_point = exact.as_tuple().exponent != 0
        if has_point and written[-1].isdigit() and Decimal(written) == exact:
            return schema, number
    return schemas.decimal(values.decimal_scale(exact)), exact


def _whole(number: int) -> tuple[Schema, Any] | None:
    for kind, bits in INTEGERS.items():
        if -(1 << bits - 1) <= number < 1 << bits - 1:
            return _OF_TYPE[kind], number
    return None


def _moment(text: str) -> tuple[Schema, Any] | None:
    try:
        if _DATE.fullmatch(text):
            return schemas.date(), date.fromisoformat(text)
        if _TIME.fullmatch(text):
            return schemas.time(), time.fromisoformat(text[:-1])
        if _TIMESTAMP.fullmatch(text):
            return schemas.timestamp(), datetime.fromisoformat(text[:-1]).replace(tzinfo=UTC)
    except ValueError:
        return None
    return None


class _Number(str):
    """A number as it is written within a list or a map."""


def _parts(text: str) -> tuple[Schema, Any] | None:
    """Reads a list or a map whose elements have one type. Other ones stay text."""
    try:
        found = json.loads(text, parse_float=_Number, parse_int=_Number, parse_constant=_refuse)
        return _part(found)
    except (ValueError, RecursionError, DataError):
        return None


def _refuse(text: str) -> Any:
    raise ValueError(text)


def _part(found: Any) -> tuple[Schema, Any]:
    if isinstance(found, _Number):
        number = _number(found)
        if number is None:
            raise DataError(f"{found} is not a number")
        return number
    if isinstance(found, str):
        return _moment(found) or (schemas.STRING, found)
    if isinstance(found, bool):
        return schemas.BOOLEAN, found
    if isinstance(found, list):
        item, elements = _aligned(found)
        return schemas.array(item), elements
    if isinstance(found, dict):
        item, elements = _aligned(found.values())
        return schemas.map_of(schemas.STRING, item), dict(zip(found, elements, strict=True))
    raise DataError("null has no type")


def _aligned(found: Iterable[Any]) -> tuple[Schema, list[Any]]:
    """Returns the schema that fits all of them, and the values in that type."""
    parts = [(None, None) if element is None else _part(element) for element in found]
    common: Schema | None = None
    for schema, _ in parts:
        if schema is not None:
            common = schema if common is None else _wider(common, schema)
    if common is None:
        raise DataError("there is no element with a type")
    is_float = common.type in {Type.FLOAT32, Type.FLOAT64}
    aligned = [float(value) if is_float and isinstance(value, int) else value for _, value in parts]
    return common.optional() if None in aligned else common, aligned


def _wider(one: Schema, other: Schema) -> Schema:
    if one == other:
        return one
    order = [*INTEGERS, Type.FLOAT32, Type.FLOAT64]
    if one.name or other.name or one.type not in order or other.type not in order:
        raise DataError("the elements have several types")
    return max(one, other, key=lambda schema: order.index(schema.type))
