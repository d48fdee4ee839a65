"""The schema of a value: a type, a name, whether it may be null, and for some types more schemas.

Values are those of Python: a struct and a map are dicts, an array is a list, bytes are `bytes`.
Kafka Connect has four logical types, which are known by the name of their schema:

    Decimal     decimal.Decimal       bytes on the way; the scale is a parameter
    Date        datetime.date         int32, days since 1970
    Time        datetime.time         int32, milliseconds since midnight
    Timestamp   datetime.datetime     int64, milliseconds since 1970; always in UTC

A schema is immutable, and equal schemas are interchangeable.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final

from odradek.connect.errors import DataError


class Type(StrEnum):
    """The types, with the names that Kafka Connect's JSON gives them."""

    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    FLOAT32 = "float"
    FLOAT64 = "double"
    BOOLEAN = "boolean"
    STRING = "string"
    BYTES = "bytes"
    ARRAY = "array"
    MAP = "map"
    STRUCT = "struct"

    @property
    def is_primitive(self) -> bool:
        return self not in {Type.ARRAY, Type.MAP, Type.STRUCT}


INTEGERS: Final = {Type.INT8: 8, Type.INT16: 16, Type.INT32: 32, Type.INT64: 64}
"""The integer types, with their widths in bits."""

_PACKAGE: Final = "org.apache.kafka.connect.data."
DECIMAL: Final = f"{_PACKAGE}Decimal"
DATE: Final = f"{_PACKAGE}Date"
TIME: Final = f"{_PACKAGE}Time"
TIMESTAMP: Final = f"{_PACKAGE}Timestamp"
_SCALE: Final = "scale"


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a struct."""

    name: str
    schema: "Schema"


@dataclass(frozen=True, slots=True)
class Schema:
    """`fields` are those of a struct; `key` and `item` are the schemas of a map's keys and values,
    or `item` that of an array's elements. A `default` of None is none."""

    type: Type
    is_optional: bool = False
    name: str | None = None
    version: int | None = None
    doc: str | None = None
    # A default and the parameters may be of types that have no hash, and seldom differ.
    default: Any = field(default=None, hash=False)
    parameters: Mapping[str, str] = field(default_factory=dict, hash=False)
    fields: tuple[Field, ...] = ()
    key: "Schema | None" = None
    item: "Schema | None" = None

    def field(self, name: str) -> Field | None:
        for candidate in self.fields:
            if candidate.name == name:
                return candidate
        return None

    def optional(self) -> "Schema":
        """Returns the same schema for values that may be null."""
        return self if self.is_optional else replace(self, is_optional=True)

    def with_version(self, version: int) -> "Schema":
        return replace(self, version=version)

    def with_fields(self, fields: tuple[Field, ...]) -> "Schema":
        """Returns a struct's schema with other fields, and everything else as it is."""
        return replace(self, fields=fields)

    @property
    def elements(self) -> "Schema":
        """The schema of an array's elements or a map's values."""
        if self.item is None:
            raise DataError(f"a {self.type} has no elements")
        return self.item

    @property
    def scale(self) -> int:
        """The scale of a Decimal: how many digits are after the decimal point."""
        try:
            return int(self.parameters[_SCALE])
        except (KeyError, ValueError):
            raise DataError("the schema of a Decimal needs a whole number as `scale`") from None


def struct(*fields: Field, name: str | None = None, is_optional: bool = False) -> Schema:
    return Schema(Type.STRUCT, is_optional=is_optional, name=name, fields=fields)


def array(item: Schema, *, is_optional: bool = False) -> Schema:
    return Schema(Type.ARRAY, is_optional=is_optional, item=item)


def map_of(key: Schema, item: Schema, *, is_optional: bool = False) -> Schema:
    return Schema(Type.MAP, is_optional=is_optional, key=key, item=item)


def decimal(scale: int, *, is_optional: bool = False) -> Schema:
    return Schema(Type.BYTES, is_optional, DECIMAL, 1, parameters={_SCALE: str(scale)})


def date(*, is_optional: bool = False) -> Schema:
    return Schema(Type.INT32, is_optional, DATE, 1)


def time(*, is_optional: bool = False) -> Schema:
    return Schema(Type.INT32, is_optional, TIME, 1)


def timestamp(*, is_optional: bool = False) -> Schema:
    return Schema(Type.INT64, is_optional, TIMESTAMP, 1)


INT8: Final = Schema(Type.INT8)
INT16: Final = Schema(Type.INT16)
INT32: Final = Schema(Type.INT32)
INT64: Final = Schema(Type.INT64)
FLOAT32: Final = Schema(Type.FLOAT32)
FLOAT64: Final = Schema(Type.FLOAT64)
BOOLEAN: Final = Schema(Type.BOOLEAN)
STRING: Final = Schema(Type.STRING)
BYTES: Final = Schema(Type.BYTES)
OPTIONAL_STRING: Final = STRING.optional()
