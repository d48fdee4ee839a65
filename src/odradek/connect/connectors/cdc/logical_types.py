"""The schemas that Debezium gives to columns whose type Kafka Connect does not have.

Values are plain numbers, texts, bytes and dicts: `MicroTimestamp` is an int64, for instance, and
its name says what it counts. Only the four logical types of Kafka Connect itself (`data.schemas`)
have Python values of their own.
"""

from decimal import Decimal
from typing import Any, Final

from odradek.connect.data import schemas
from odradek.connect.data.schemas import Field, Schema, Type
from odradek.connect.data.values import decimal_scale, decimal_to_bytes

_TIME: Final = "io.debezium.time."
_DATA: Final = "io.debezium.data."


def _number(kind: Type, name: str) -> Schema:
    return Schema(kind, name=f"{_TIME}{name}", version=1)


def _text(name: str) -> Schema:
    return Schema(Type.STRING, name=name, version=1)


DATE: Final = _number(Type.INT32, "Date")
"""Days since 1970."""
TIME: Final = _number(Type.INT32, "Time")
"""Milliseconds since midnight."""
MICRO_TIME: Final = _number(Type.INT64, "MicroTime")
NANO_TIME: Final = _number(Type.INT64, "NanoTime")
TIMESTAMP: Final = _number(Type.INT64, "Timestamp")
"""Milliseconds since 1970, of a time without a zone."""
MICRO_TIMESTAMP: Final = _number(Type.INT64, "MicroTimestamp")
NANO_TIMESTAMP: Final = _number(Type.INT64, "NanoTimestamp")
YEAR: Final = _number(Type.INT32, "Year")
MICRO_DURATION: Final = _number(Type.INT64, "MicroDuration")

ISO_DATE: Final = _text(f"{_TIME}IsoDate")
ISO_TIME: Final = _text(f"{_TIME}IsoTime")
ISO_TIMESTAMP: Final = _text(f"{_TIME}IsoTimestamp")
INTERVAL: Final = _text(f"{_TIME}Interval")
ZONED_TIME: Final = _text(f"{_TIME}ZonedTime")
ZONED_TIMESTAMP: Final = _text(f"{_TIME}ZonedTimestamp")

JSON: Final = _text(f"{_DATA}Json")
XML: Final = _text(f"{_DATA}Xml")
UUID: Final = _text(f"{_DATA}Uuid")
LTREE: Final = _text(f"{_DATA}Ltree")
TSVECTOR: Final = _text(f"{_DATA}Tsvector")

VARIABLE_SCALE_DECIMAL: Final = Schema(
    Type.STRUCT,
    name=f"{_DATA}VariableScaleDecimal",
    version=1,
    doc="Variable scaled decimal",
    fields=(Field("scale", schemas.INT32), Field("value", schemas.BYTES)),
)
POINT: Final = Schema(
    Type.STRUCT,
    name=f"{_DATA}geometry.Point",
    version=1,
    doc="Geometry (POINT)",
    fields=(
        Field("x", schemas.FLOAT64),
        Field("y", schemas.FLOAT64),
        Field("wkb", schemas.BYTES.optional()),
        Field("srid", schemas.INT32.optional()),
    ),
)
GEOMETRY: Final = Schema(
    Type.STRUCT,
    name=f"{_DATA}geometry.Geometry",
    version=1,
    doc="Geometry",
    fields=(Field("wkb", schemas.BYTES), Field("srid", schemas.INT32.optional())),
)
GEOGRAPHY: Final = Schema(
    Type.STRUCT,
    name=f"{_DATA}geometry.Geography",
    version=1,
    doc="Geography",
    fields=(Field("wkb", schemas.BYTES), Field("srid", schemas.INT32.optional())),
)
DOUBLE_VECTOR: Final = Schema(
    Type.ARRAY, name=f"{_DATA}DoubleVector", version=1, item=schemas.FLOAT64
)
FLOAT_VECTOR: Final = Schema(
    Type.ARRAY, name=f"{_DATA}FloatVector", version=1, item=schemas.FLOAT32
)


def bits(length: int) -> Schema:
    return Schema(Type.BYTES, name=f"{_DATA}Bits", version=1, parameters={"length": str(length)})


def enum(allowed: tuple[str, ...], *, escapes: bool = True) -> Schema:
    return Schema(
        Type.STRING,
        name=f"{_DATA}Enum",
        version=1,
        parameters={"allowed": _list(allowed) if escapes else ",".join(allowed)},
    )


def enum_set(allowed: tuple[str, ...]) -> Schema:
    return Schema(
        Type.STRING,
        name=f"{_DATA}EnumSet",
        version=1,
        parameters={"allowed": _list(allowed)},
    )


def _list(texts: tuple[str, ...]) -> str:
    """A comma in a text is written with a backslash."""
    return ",".join(text.replace(",", "\\,") for text in texts)


def decimal(precision: int, scale: int) -> Schema:
    """Kafka Connect's Decimal, with the number of digits beside the scale."""
    return Schema(
        Type.BYTES,
        name=schemas.DECIMAL,
        version=1,
        parameters={"scale": str(scale), "connect.decimal.precision": str(precision)},
    )


def variable_scale_decimal(value: Decimal) -> dict[str, Any]:
    """Returns a number with its scale, for columns that do not say how many digits they have."""
    scale = decimal_scale(value)
    return {"scale": scale, "value": decimal_to_bytes(value, scale)}
