"""How the values of columns become values of Kafka Connect, as Debezium's connectors do it.

`row_values` and `select_values` say what plain values are. A column type is a schema and a function
from the plain value; None stands for a function that changes nothing.
"""

import base64
import logging
import struct
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from ipaddress import IPv4Address, IPv6Address
from typing import Any, Final, NamedTuple

from odradek.connect.connectors.cdc import logical_types
from odradek.connect.connectors.mysql.columns import NOW, Column
from odradek.connect.connectors.mysql.select_values import parser_of
from odradek.connect.connectors.mysql.settings import MySqlSettings
from odradek.connect.data import schemas
from odradek.connect.data.schemas import Schema
from odradek.connect.errors import DataError

_log = logging.getLogger("odradek.connect")

Convert = Callable[[Any], Any]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_DAY: Final = _EPOCH.date().toordinal()
_DAY_US: Final = 86_400_000_000
_LARGEST_LONG: Final = (1 << 63) - 1
_FLOAT: Final = struct.Struct("<f")


@dataclass(frozen=True, slots=True)
class Modes:
    """The settings that say how values are written. `is_snapshot` is for rows of a `SELECT`: a
    TIMESTAMP has no zeros at the end of its fraction there, as with Debezium."""

    decimals: str
    times: str
    binaries: str
    bigint_unsigned: str
    has_comments: bool = False
    is_snapshot: bool = False

    @classmethod
    def of(cls, settings: MySqlSettings, *, is_snapshot: bool = False) -> "Modes":
        return cls(
            settings.decimal_handling_mode,
            settings.time_precision_mode,
            settings.binary_handling_mode,
            settings.bigint_unsigned_handling_mode,
            settings.include_schema_comments,
            is_snapshot,
        )


class ColumnValues(NamedTuple):
    schema: Schema
    convert: Convert | None = None


def column_values(column: Column, modes: Modes) -> ColumnValues:
    """Returns the schema of a column, with its default, and what makes its values."""
    make = _BY_TYPE.get(column.type)
    if make is None:
        raise DataError(
            f"column {column.name} has the type {column.type}, which the connector does not know;"
            " leave it out with column.exclude.list"
        )
    schema, convert = make(column, modes)
    if modes.has_comments and column.comment:
        schema = replace(schema, doc=column.comment)
    if column.is_nullable:
        schema = schema.optional()
    default = _default(column, convert)
    if default is not None:
        schema = replace(schema, default=default)
    return ColumnValues(schema, _not_null(column, schema, convert))


def _not_null(column: Column, schema: Schema, convert: Convert | None) -> Convert | None:
    """A zero date is null; where the column allows none, it is the default or the year 1970."""
    if convert is None or column.is_nullable or column.type not in _WITH_ZEROS:
        return convert
    instead = schema.default
    if instead is None:
        instead = convert(_first_moment(column.type))

    def converted(value: Any) -> Any:
        found = convert(value)
        return instead if found is None else found

    return converted


def _default(column: Column, convert: Convert | None) -> Any:
    text = column.default
    if text is None or column.is_generated:
        return None
    if text == NOW:
        if column.type == "timestamp" and column.is_nullable:
            return None
        value: Any = _first_moment(column.type)
    elif column.type == "bit":
        value = int(text or "0", 2)
    elif column.type in _BINARIES:
        value = text.encode()
    else:
        try:
            value = parser_of(column)(text.strip() if column.type in _TRIMMED else text)
        except (ValueError, InvalidOperation, IndexError):
            return None
    if column.type == "bigint" and column.is_unsigned and convert is not None:
        value = min(value, _LARGEST_LONG) if isinstance(convert(0), int) else value
    return value if convert is None else convert(value)


def _first_moment(kind: str) -> Any:
    """The beginning of 1970, as a plain value."""
    if kind == "timestamp":
        return _EPOCH_TIMESTAMP
    return (1970, 1, 1) if kind == "date" else (1970, 1, 1, 0, 0, 0, 0)


# Numbers


def _integer(schema: Schema, unsigned: Schema) -> "_Make":
    def make(column: Column, modes: Modes) -> ColumnValues:
        return ColumnValues(unsigned if column.is_unsigned else schema)

    return make


def _bigint(column: Column, modes: Modes) -> ColumnValues:
    if not column.is_unsigned:
        return ColumnValues(schemas.INT64)
    if modes.bigint_unsigned == "precise":
        return ColumnValues(logical_types.decimal(20, 0), Decimal)
    return ColumnValues(schemas.INT64, _wrapped)


def _wrapped(value: int) -> int:
    return value if value <= _LARGEST_LONG else value - (1 << 64)


def _float(column: Column, modes: Modes) -> ColumnValues:
    if column.scale is not None:
        return ColumnValues(schemas.FLOAT64, _as_float)
    return ColumnValues(schemas.FLOAT32, _as_float)


def _as_float(value: float) -> float:
    """A `SELECT` gives more digits than the number has."""
    return float(_FLOAT.unpack(_FLOAT.pack(value))[0])


def _double(column: Column, modes: Modes) -> ColumnValues:
    return ColumnValues(schemas.FLOAT64)


def _decimal(column: Column, modes: Modes) -> ColumnValues:
    match modes.decimals:
        case "double":
            return ColumnValues(schemas.FLOAT64, float)
        case "string":
            return ColumnValues(schemas.STRING, lambda value: f"{value:f}")
    return ColumnValues(logical_types.decimal(column.length, column.scale or 0))


def _bit(column: Column, modes: Modes) -> ColumnValues:
    if column.length <= 1:
        return ColumnValues(schemas.BOOLEAN, bool)
    size = (column.length + 7) // 8
    return ColumnValues(
        logical_types.bits(column.length), lambda value: value.to_bytes(size, "little")
    )


# Texts and bytes


def _text(column: Column, modes: Modes) -> ColumnValues:
    return ColumnValues(schemas.STRING)


def _json(column: Column, modes: Modes) -> ColumnValues:
    return ColumnValues(logical_types.JSON)


def _enum(column: Column, modes: Modes) -> ColumnValues:
    return ColumnValues(logical_types.enum(column.labels))


def _set(column: Column, modes: Modes) -> ColumnValues:
    return ColumnValues(logical_types.enum_set(column.labels))


def _bytes(column: Column, modes: Modes) -> ColumnValues:
    # The log leaves out the zeros at the end of a BINARY.
    size = column.length if column.type == "binary" else 0
    match modes.binaries:
        case "base64":
            return ColumnValues(
                schemas.STRING, lambda value: base64.b64encode(value.ljust(size, b"\0")).decode()
            )
        case "base64-url-safe":
            return ColumnValues(
                schemas.STRING,
                lambda value: base64.urlsafe_b64encode(value.ljust(size, b"\0")).decode(),
            )
        case "hex":
            return ColumnValues(schemas.STRING, lambda value: value.ljust(size, b"\0").hex())
    return ColumnValues(schemas.BYTES, (lambda value: value.ljust(size, b"\0")) if size else None)


def _uuid(column: Column, modes: Modes) -> ColumnValues:
    def convert(value: Any) -> str:
        return value if isinstance(value, str) else str(uuid.UUID(bytes=value.ljust(16, b"\0")))

    return ColumnValues(logical_types.UUID, convert)


def _address(kind: type[IPv4Address] | type[IPv6Address], size: int) -> "_Make":
    def make(column: Column, modes: Modes) -> ColumnValues:
        def convert(value: Any) -> str:
            return value if isinstance(value, str) else str(kind(value.ljust(size, b"\0")))

        return ColumnValues(schemas.STRING, convert)

    return make


# Shapes


def _geometry(column: Column, modes: Modes) -> ColumnValues:
    return ColumnValues(logical_types.GEOMETRY, _shape)


def _shape(value: bytes) -> dict[str, Any]:
    """The databases store the number of the reference system before the shape, 0 for none."""
    number = int.from_bytes(value[:4], "little")
    return {"wkb": value[4:], "srid": number or None}


def _point(column: Column, modes: Modes) -> ColumnValues:
    return ColumnValues(logical_types.POINT, _point_of)


def _point_of(value: bytes) -> dict[str, Any]:
    order = "<" if value[4] else ">"
    x, y = struct.unpack_from(f"{order}dd", value, 9)
    return {"x": x, "y": y, **_shape(value)}


# Times


def _year(column: Column, modes: Modes) -> ColumnValues:
    return ColumnValues(logical_types.YEAR)


def _date(column: Column, modes: Modes) -> ColumnValues:
    match modes.times:
        case "connect":
            return ColumnValues(schemas.date(), _day)
        case "isostring":
            return ColumnValues(logical_types.ISO_DATE, _iso_date)
    return ColumnValues(logical_types.DATE, _days)


def _days(value: tuple[int, int, int]) -> int | None:
    try:
        return date(*value).toordinal() - _FIRST_DAY
    except ValueError:
        return None


def _day(value: tuple[int, int, int]) -> date | None:
    try:
        return date(*value)
    except ValueError:
        return None


def _iso_date(value: tuple[int, int, int]) -> str | None:
    found = _day(value)
    return None if found is None else f"{found.isoformat()}Z"


def _time(column: Column, modes: Modes) -> ColumnValues:
    match modes.times:
        case "connect":
            return ColumnValues(schemas.time(), _clock)
        case "isostring":
            return ColumnValues(logical_types.ISO_TIME, _iso_time)
        case "nanoseconds":
            return ColumnValues(logical_types.NANO_TIME, lambda value: value * 1000)
    return ColumnValues(logical_types.MICRO_TIME)


def _clock(value: int) -> time | None:
    """Kafka Connect has the times of a day only."""
    if 0 <= value < _DAY_US:
        return (_EPOCH + timedelta(microseconds=value)).time()
    _log.warning(
        "a TIME is not a time of day, which is all that time.precision.mode=connect and isostring"
        " can write: it becomes null. adaptive_time_microseconds can write it"
    )
    return None


def _iso_time(value: int) -> str | None:
    clock = _clock(value)
    return None if clock is None else f"{_trimmed(clock.isoformat())}Z"


def _datetime(column: Column, modes: Modes) -> ColumnValues:
    match modes.times:
        case "connect":
            return ColumnValues(schemas.timestamp(), _moment)
        case "isostring":
            return ColumnValues(logical_types.ISO_TIMESTAMP, _iso_moment)
        case "microseconds":
            return ColumnValues(logical_types.MICRO_TIMESTAMP, _microseconds)
        case "nanoseconds":
            return ColumnValues(logical_types.NANO_TIMESTAMP, _nanoseconds)
    if column.length <= 3:
        return ColumnValues(logical_types.TIMESTAMP, _milliseconds)
    return ColumnValues(logical_types.MICRO_TIMESTAMP, _microseconds)


def _moment(value: tuple[int, ...]) -> datetime | None:
    try:
        return datetime(*value[:7], tzinfo=UTC)  # type: ignore[arg-type, misc]
    except ValueError:
        return None


def _microseconds(value: tuple[int, ...]) -> int | None:
    try:
        year, month, day, hour, minute, second, microsecond = value
        days = date(year, month, day).toordinal() - _FIRST_DAY
    except ValueError:
        return None
    return ((days * 24 + hour) * 60 + minute) * 60_000_000 + second * 1_000_000 + microsecond


def _milliseconds(value: tuple[int, ...]) -> int | None:
    found = _microseconds(value)
    return None if found is None else found // 1000


def _nanoseconds(value: tuple[int, ...]) -> int | None:
    found = _microseconds(value)
    if found is None:
        return None
    if abs(found) > _LARGEST_LONG // 1000:
        raise DataError(
            "a DATETIME is beyond the years 1677 to 2262, which is all that"
            " time.precision.mode=nanoseconds can write; microseconds can write it"
        )
    return found * 1000


def _iso_moment(value: tuple[int, ...]) -> str | None:
    found = _moment(value)
    return None if found is None else f"{_trimmed(found.replace(tzinfo=None).isoformat())}Z"


_EPOCH_TIMESTAMP: Final = -1
"""Stands for the beginning of 1970 where 0 is the zero date."""


def _timestamp(column: Column, modes: Modes) -> ColumnValues:
    digits = column.length

    def convert(value: int) -> str | None:
        if not value and modes.is_snapshot:
            return None
        moment = _utc(max(value, 0))
        text = moment.strftime("%Y-%m-%dT%H:%M:%S")
        fraction = f"{moment.microsecond:06}"
        fraction = fraction.rstrip("0") if modes.is_snapshot or value < 0 else fraction[:digits]
        return f"{text}.{fraction}Z" if fraction else f"{text}Z"

    return ColumnValues(logical_types.ZONED_TIMESTAMP, convert)


def _utc(microseconds: int) -> datetime:
    return _EPOCH + timedelta(microseconds=microseconds)


def _trimmed(text: str) -> str:
    """The fraction of a second without zeros at its end."""
    return text.rstrip("0") if "." in text else text


_Make = Callable[[Column, Modes], ColumnValues]
_BINARIES: Final = frozenset(
    {"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob", "vector"}
)
_WITH_ZEROS: Final = frozenset({"date", "datetime", "timestamp"})
_TRIMMED: Final = frozenset(
    {"tinyint", "smallint", "mediumint", "int", "bigint", "decimal", "float", "double", "year",
     "date", "datetime", "timestamp", "time"}
)  # fmt: skip
_BY_TYPE: Final[Mapping[str, _Make]] = {
    "tinyint": _integer(schemas.INT16, schemas.INT16),
    "smallint": _integer(schemas.INT16, schemas.INT32),
    "mediumint": _integer(schemas.INT32, schemas.INT32),
    "int": _integer(schemas.INT32, schemas.INT64),
    "bigint": _bigint,
    "float": _float,
    "double": _double,
    "decimal": _decimal,
    "bit": _bit,
    **dict.fromkeys(("char", "varchar", "tinytext", "text", "mediumtext", "longtext"), _text),
    **dict.fromkeys(_BINARIES, _bytes),
    "json": _json,
    "enum": _enum,
    "set": _set,
    "uuid": _uuid,
    "inet4": _address(IPv4Address, 4),
    "inet6": _address(IPv6Address, 16),
    "point": _point,
    **dict.fromkeys(
        ("geometry", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon",
         "geometrycollection", "geomcollection"),
        _geometry,
    ),
    "year": _year,
    "date": _date,
    "time": _time,
    "datetime": _datetime,
    "timestamp": _timestamp,
}  # fmt: skip
