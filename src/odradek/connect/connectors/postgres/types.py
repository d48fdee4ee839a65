"""What a column of PostgreSQL becomes: a schema, and what makes a value of its text.

A type that is not here (composite types, `xid`, `tsquery`, and so on) leaves the column out of the
records, unless `include.unknown.datatypes` asks for its text as bytes. So does Debezium.
"""

import base64
import hashlib
import json
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Context, Decimal
from functools import partial
from typing import Any, Final, NamedTuple

from odradek.connect.connectors.cdc import logical_types
from odradek.connect.connectors.postgres import nested, times
from odradek.connect.data import schemas
from odradek.connect.data.schemas import Schema, Type, array, map_of
from odradek.connect.data.values import any_date, any_time, any_timestamp
from odradek.connect.errors import DataError

_NUMBERS: Final = Context(prec=20_000)
_NOT_IN_MONEY: Final = re.compile(r"[^0-9.-]")
_POINT: Final = re.compile(r"\(([^,]+),([^)]+)\)")
# How Debezium writes them as text.
_NO_NUMBERS: Final = {
    "NaN": "NAN",
    "Infinity": "POSITIVE_INFINITY",
    "-Infinity": "NEGATIVE_INFINITY",
}
_HEX: Final = "hex:"
_NO_DIGITS: Final = -1
_MOST_DIGITS: Final = 6
_ALL_BITS: Final = 2_147_483_647
_HAS_SRID: Final = 0x20000000

Convert = Callable[[str], Any]


class TypeRow(NamedTuple):
    """A type as the catalog has it. `kind` is that of `pg_type.typtype`; `element` the type of an
    array's elements, `base` that of a domain with its `modifier`."""

    oid: int
    name: str
    schema: str
    kind: str
    element: "TypeRow | None" = None
    base: "TypeRow | None" = None
    modifier: int = -1
    labels: tuple[str, ...] = ()
    delimiter: str = ","


@dataclass(frozen=True, slots=True)
class ColumnType:
    """`convert` makes a value of a text; None where the text is the value. `unavailable` stands for
    a value that was not sent, `zero` for null in a column that cannot be null."""

    schema: Schema
    convert: Convert | None
    zero: Any
    unavailable: Any


@dataclass(frozen=True, slots=True)
class Modes:
    """How values are written: the settings of these names."""

    decimal: str = "precise"
    time: str = "adaptive"
    interval: str = "numeric"
    hstore: str = "json"
    binary: str = "bytes"
    money_digits: int = 2
    unavailable: str = "__debezium_unavailable_value"
    includes_unknown: bool = False

    @property
    def placeholder_data(self) -> bytes:
        """What stands for bytes that were not sent. Raises ValueError for `hex:` without digits."""
        if self.unavailable.startswith(_HEX):
            return bytes.fromhex(self.unavailable.removeprefix(_HEX))
        return self.unavailable.encode()

    @property
    def placeholder(self) -> str:
        """What stands for a text that was not sent."""
        return self.placeholder_data.decode(errors="replace")


def column_type(found: TypeRow, modifier: int, modes: Modes) -> ColumnType | None:
    """Returns what a column of this type becomes; None if it is left out."""
    if found.kind == "d" and found.base is not None:
        return column_type(found.base, found.modifier, modes)
    if found.kind == "e":
        # Debezium separates PostgreSQL's labels by commas, and escapes none that are in labels.
        return _text_type(logical_types.enum(found.labels, escapes=False), modes)
    if found.element is not None:
        made = _array_type(found, modifier, modes)
    else:
        maker = _MAKERS.get(found.name)
        made = None if maker is None else maker(modifier, modes)
    if made is None and modes.includes_unknown:
        return _binary(modes, str.encode)
    return made


def _text_type(schema: Schema, modes: Modes) -> ColumnType:
    return ColumnType(schema, None, "", modes.placeholder)


def _text(schema: Schema) -> "Callable[[int, Modes], ColumnType]":
    return lambda _, modes: _text_type(schema, modes)


def _number(schema: Schema, convert: Convert, zero: Any) -> "Callable[[int, Modes], ColumnType]":
    return lambda _, __: ColumnType(schema, convert, zero, None)


# Numbers


def numeric_scale(modifier: int) -> tuple[int, int] | None:
    """Returns the digits and the scale of a numeric column; None if it has no limit."""
    if modifier < 4:
        return None
    packed = modifier - 4
    return packed >> 16 & 0xFFFF, (packed & 0x7FF ^ 0x400) - 0x400


def _numeric(modifier: int, modes: Modes) -> ColumnType:
    digits = numeric_scale(modifier)
    if modes.decimal == "string":
        zero_text = str(Decimal(0).scaleb(-max(digits[1], 0))) if digits else "0"
        return ColumnType(schemas.STRING, _decimal_text, zero_text, modes.placeholder)
    if modes.decimal == "double":
        return ColumnType(schemas.FLOAT64, float, 0.0, None)
    if digits is None:
        zero = logical_types.variable_scale_decimal(Decimal(0))
        return ColumnType(logical_types.VARIABLE_SCALE_DECIMAL, _variable_decimal, zero, None)
    precision, scale = digits
    zero_number = Decimal(0).scaleb(-scale)
    schema = logical_types.decimal(precision, scale)
    return ColumnType(schema, partial(_decimal, scale=scale), zero_number, None)


def _decimal_text(text: str) -> str:
    return _NO_NUMBERS.get(text, text)


def _variable_decimal(text: str) -> dict[str, Any] | None:
    if "." in text:
        # PostgreSQL keeps the zeros that were written, and 1.10 is 1.1 here.
        text = text.rstrip("0").rstrip(".")
    value = Decimal(text)
    return logical_types.variable_scale_decimal(value) if value.is_finite() else None


def _decimal(text: str, scale: int) -> Decimal | None:
    value = Decimal(text)
    if not value.is_finite():
        return None
    if value.as_tuple().exponent == -scale:
        return value
    return value.quantize(Decimal(1).scaleb(-scale), context=_NUMBERS)


def _money(_: int, modes: Modes) -> ColumnType:
    digits = modes.money_digits
    if modes.decimal == "string":
        zero_text = str(Decimal(0).scaleb(-digits))
        return ColumnType(schemas.STRING, lambda text: str(money(text, digits)), zero_text, None)
    if modes.decimal == "double":
        return ColumnType(schemas.FLOAT64, lambda text: float(money(text, digits)), 0.0, None)
    zero = Decimal(0).scaleb(-digits)
    return ColumnType(schemas.decimal(digits), partial(money, digits=digits), zero, None)


def money(text: str, digits: int) -> Decimal:
    value = Decimal(_NOT_IN_MONEY.sub("", text))
    return value.quantize(Decimal(1).scaleb(-digits), context=_NUMBERS)


# Bytes and bits


def _bytea(_: int, modes: Modes) -> ColumnType:
    return _binary(modes, unhex)


def unhex(text: str) -> bytes:
    return bytes.fromhex(text.removeprefix("\\x"))


def binary_writer(mode: str) -> Callable[[bytes], Any]:
    """Returns what writes bytes by `binary.handling.mode`."""
    match mode:
        case "base64":
            return lambda data: base64.b64encode(data).decode()
        case "base64-url-safe":
            return lambda data: base64.urlsafe_b64encode(data).decode()
        case "hex":
            return lambda data: data.hex()
    return lambda data: data


def binary_schema(mode: str) -> Schema:
    return schemas.BYTES if mode == "bytes" else schemas.STRING


def _binary(modes: Modes, to_bytes: Callable[[str], bytes]) -> ColumnType:
    write = binary_writer(modes.binary)
    return ColumnType(
        binary_schema(modes.binary),
        to_bytes if modes.binary == "bytes" else lambda text: write(to_bytes(text)),
        write(b""),
        modes.placeholder_data if modes.binary == "bytes" else modes.placeholder,
    )


def _bit(modifier: int, _: Modes) -> ColumnType:
    return _varbit(1 if modifier == _NO_DIGITS else modifier, _)


def _varbit(modifier: int, _: Modes) -> ColumnType:
    if modifier == 1:
        return ColumnType(schemas.BOOLEAN, lambda text: text == "1", False, None)
    length = _ALL_BITS if modifier < 0 else modifier
    return ColumnType(logical_types.bits(length), bits, b"", None)


def bits(text: str) -> bytes:
    """Returns the bits as a number, the lowest byte first, without zeros at the end."""
    value = int(text, 2) if text else 0
    return value.to_bytes((value.bit_length() + 7) // 8, "little")


# Times


def _date(_: int, modes: Modes) -> ColumnType:
    if modes.time == "connect":
        first = any_date(0)
        return ColumnType(schemas.date(), lambda text: any_date(times.days(text)), first, None)
    if modes.time == "isostring":
        return ColumnType(
            logical_types.ISO_DATE, lambda text: f"{times.iso_date(text)}Z", "1970-01-01Z", None
        )
    return ColumnType(logical_types.DATE, times.days, 0, None)


def _time(modifier: int, modes: Modes) -> ColumnType:
    match modes.time:
        case "connect":
            first = any_time(0)
            return ColumnType(schemas.time(), _connect_time, first, None)
        case "isostring":
            return ColumnType(logical_types.ISO_TIME, times.iso_time, "00:00:00Z", None)
        case "nanoseconds":
            return ColumnType(
                logical_types.NANO_TIME, lambda text: times.micros_of_day(text) * 1000, 0, None
            )
    if modes.time == "adaptive" and 0 <= modifier <= 3:
        return ColumnType(
            logical_types.TIME, lambda text: times.micros_of_day(text) // 1000, 0, None
        )
    return ColumnType(logical_types.MICRO_TIME, times.micros_of_day, 0, None)


def _connect_time(text: str) -> Any:
    return any_time(times.micros_of_day(text) // 1000)


def _timestamp(modifier: int, modes: Modes) -> ColumnType:
    match modes.time:
        case "connect":
            first = any_timestamp(0)
            return ColumnType(
                schemas.timestamp(), lambda text: any_timestamp(times.millis(text)), first, None
            )
        case "isostring":
            return ColumnType(
                logical_types.ISO_TIMESTAMP, times.iso_timestamp, "1970-01-01T00:00:00Z", None
            )
        case "nanoseconds":
            return ColumnType(logical_types.NANO_TIMESTAMP, times.nanos, 0, None)
    if modes.time.startswith("adaptive") and 0 <= modifier <= 3:
        return ColumnType(logical_types.TIMESTAMP, times.millis, 0, None)
    return ColumnType(logical_types.MICRO_TIMESTAMP, times.micros, 0, None)


def _digits(modifier: int) -> int:
    return _MOST_DIGITS if modifier == _NO_DIGITS else modifier


def _zoned_timestamp(modifier: int, _: Modes) -> ColumnType:
    digits = _digits(modifier)
    return ColumnType(
        logical_types.ZONED_TIMESTAMP,
        lambda text: times.zoned_timestamp(text, digits),
        "1970-01-01T00:00:00Z",
        None,
    )


def _zoned_time(_: int, __: Modes) -> ColumnType:
    return ColumnType(logical_types.ZONED_TIME, times.zoned_time, "00:00:00Z", None)


def _interval(_: int, modes: Modes) -> ColumnType:
    if modes.interval == "string":
        return ColumnType(logical_types.INTERVAL, times.iso_interval, "P0Y0M0DT0H0M0S", None)
    return ColumnType(logical_types.MICRO_DURATION, times.interval_micros, 0, None)


# Others


def _hstore(_: int, modes: Modes) -> ColumnType:
    unavailable = {modes.placeholder: modes.placeholder}
    if modes.hstore == "map":
        schema = map_of(schemas.STRING, schemas.OPTIONAL_STRING)
        return ColumnType(schema, nested.pairs, {}, unavailable)
    return ColumnType(logical_types.JSON, _hstore_json, "{}", _json(unavailable))


def _hstore_json(text: str) -> str:
    return _json(nested.pairs(text))


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def point(x: float, y: float) -> dict[str, Any]:
    """Returns the fields of a point; `wkb` is its well-known binary form."""
    return {"x": x, "y": y, "wkb": struct.pack("<BIdd", 1, 1, x, y), "srid": None}


def _point(text: str) -> dict[str, Any]:
    match = _POINT.fullmatch(text)
    if match is None:
        raise DataError(f"{text!r} is not a point")
    return point(float(match[1]), float(match[2]))


def _geometry(text: str) -> dict[str, Any]:
    """PostGIS writes the extended well-known binary form, which may have a reference system."""
    data = bytes.fromhex(text)
    order = "<" if data[0] else ">"
    (kind,) = struct.unpack_from(f"{order}I", data, 1)
    srid = struct.unpack_from(f"{order}I", data, 5)[0] if kind & _HAS_SRID else None
    return {"wkb": data, "srid": srid}


def _vector(text: str) -> list[float]:
    return [float(part) for part in text.strip("[]").split(",")]


# Arrays

_NO_ARRAYS: Final = frozenset(
    {"money", "name", "interval", "varbit", "bit", "xml", "point", "refcursor", "geography"}
)


def _array_type(found: TypeRow, modifier: int, modes: Modes) -> ColumnType | None:
    element = found.element
    assert element is not None
    if element.name in _NO_ARRAYS or element.kind == "d":
        return None
    inner = column_type(element, modifier, modes)
    if inner is None:
        return None
    # Debezium's schema says that labels of enums, vectors and elements of types that it does not
    # know are never null.
    is_unknown = element.kind == "b" and element.name not in _MAKERS
    is_never_null = element.kind == "e" or element.name == "tsvector" or is_unknown
    item = inner.schema if is_never_null else inner.schema.optional()
    convert = inner.convert

    def converted(text: str) -> list[Any] | None:
        parts = nested.elements(text, found.delimiter)
        if convert is None:
            return [None if isinstance(part, list) else part for part in parts]
        values = [
            None if part is None or isinstance(part, list) else convert(part) for part in parts
        ]
        # One that has no value at all, such as NaN, takes the array with it.
        lost = any(
            value is None and isinstance(part, str)
            for value, part in zip(values, parts, strict=True)
        )
        return None if lost else values

    return ColumnType(array(item), converted, [], _unavailable_array(inner.schema, modes))


def _unavailable_array(item: Schema, modes: Modes) -> list[Any] | None:
    """Returns what stands for an array that was not sent."""
    data = modes.placeholder_data
    if item.name == logical_types.UUID.name:
        return [_uuid_of(data)]
    match item.type:
        case Type.STRING if item.name not in _NOT_FOR_TEXT:
            return [modes.placeholder]
        case Type.BYTES if item.name is None:
            return [data]
        case Type.INT16 | Type.INT32 | Type.INT64:
            return [byte - 256 if byte > 127 else byte for byte in data]
    return None


_NOT_FOR_TEXT: Final = {logical_types.ZONED_TIME.name, logical_types.ZONED_TIMESTAMP.name}


def _uuid_of(data: bytes) -> str:
    """Returns the UUID (version 3) of a name without a namespace."""
    digest = bytearray(hashlib.md5(data, usedforsecurity=False).digest())
    digest[6] = digest[6] & 0x0F | 0x30
    digest[8] = digest[8] & 0x3F | 0x80
    hexed = digest.hex()
    return "-".join((hexed[:8], hexed[8:12], hexed[12:16], hexed[16:20], hexed[20:]))


_STRING: Final = _text(schemas.STRING)
_MAKERS: Final[dict[str, Callable[[int, Modes], ColumnType]]] = {
    "bool": _number(schemas.BOOLEAN, lambda text: text == "t", False),
    "int2": _number(schemas.INT16, int, 0),
    "int4": _number(schemas.INT32, int, 0),
    "int8": _number(schemas.INT64, int, 0),
    "oid": _number(schemas.INT64, int, 0),
    "float4": _number(schemas.FLOAT32, float, 0.0),
    "float8": _number(schemas.FLOAT64, float, 0.0),
    "numeric": _numeric,
    "money": _money,
    "text": _STRING,
    "varchar": _STRING,
    "bpchar": _STRING,
    "char": _STRING,
    "name": _STRING,
    "citext": _STRING,
    "bytea": _bytea,
    "bit": _bit,
    "varbit": _varbit,
    "date": _date,
    "time": _time,
    "timetz": _zoned_time,
    "timestamp": _timestamp,
    "timestamptz": _zoned_timestamp,
    "interval": _interval,
    "uuid": _text(logical_types.UUID),
    "json": _text(logical_types.JSON),
    "jsonb": _text(logical_types.JSON),
    "xml": _text(logical_types.XML),
    "ltree": _text(logical_types.LTREE),
    "tsvector": _text(logical_types.TSVECTOR),
    "inet": _STRING,
    "cidr": _STRING,
    "macaddr": _STRING,
    "macaddr8": _STRING,
    "int4range": _STRING,
    "int8range": _STRING,
    "numrange": _STRING,
    "tsrange": _STRING,
    "tstzrange": _STRING,
    "daterange": _STRING,
    "isbn": _STRING,
    "hstore": _hstore,
    "point": _number(logical_types.POINT, _point, point(0.0, 0.0)),
    "geometry": _number(logical_types.GEOMETRY, _geometry, {"wkb": b"", "srid": None}),
    "geography": _number(logical_types.GEOGRAPHY, _geometry, {"wkb": b"", "srid": None}),
    "vector": _number(logical_types.DOUBLE_VECTOR, _vector, []),
    "halfvec": _number(logical_types.FLOAT_VECTOR, _vector, []),
}
