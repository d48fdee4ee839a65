"""Converters for text, bytes and numbers: the bytes of Kafka's own serializers."""

import struct
from typing import Any, Final

from odradek.connect.converters.converter import SchemaAndValue
from odradek.connect.data import schemas, values
from odradek.connect.data.schemas import Schema, Type
from odradek.connect.errors import DataError
from odradek.javatext import numbers


class BytesConverter:
    """Bytes as they are (ByteArrayConverter)."""

    _SCHEMA: Final = schemas.BYTES.optional()

    def from_connect(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        if schema is not None and schema.type is not Type.BYTES:
            raise DataError(f"bytes are needed, and the schema says {schema.type}")
        if value is None:
            return None
        if not isinstance(value, bytes | bytearray | memoryview):
            raise DataError(f"bytes are needed, and this is {type(value).__name__}")
        return bytes(value)

    def to_connect(self, topic: str, data: bytes | None) -> SchemaAndValue:
        return SchemaAndValue(self._SCHEMA, data)


class StringConverter:
    """Text. A value of another type becomes the text that Java makes of it."""

    def __init__(self, encoding: str = "UTF-8") -> None:
        try:
            "".encode(encoding)
        except LookupError:
            raise DataError(f"{encoding} is not an encoding of text, as UTF-8 is") from None
        self._encoding = encoding

    def from_connect(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        return (
            None if value is None else java_string(value, schema).encode(self._encoding, "replace")
        )

    def to_connect(self, topic: str, data: bytes | None) -> SchemaAndValue:
        text = None if data is None else data.decode(self._encoding, "replace")
        return SchemaAndValue(schemas.OPTIONAL_STRING, text)


class NumberConverter:
    """One of Kafka's numbers (IntegerConverter and its kin)."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema.optional()
        self._struct = struct.Struct(f">{_FORMATS[schema.type]}")

    def from_connect(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        if value is None:
            return None
        if schema is not None and schema.type is not self._schema.type:
            raise DataError(f"the schema says {schema.type}, the converter is for {self._name}")
        values.check(self._schema, value)
        try:
            return self._struct.pack(value)
        except (struct.error, OverflowError):
            raise DataError(f"{value} is beyond {self._name}") from None

    def to_connect(self, topic: str, data: bytes | None) -> SchemaAndValue:
        if data is None:
            return SchemaAndValue(self._schema, None)
        if len(data) != self._struct.size:
            raise DataError(
                f"{self._name} takes {self._struct.size} bytes, and there are {len(data)}"
            )
        return SchemaAndValue(self._schema, self._struct.unpack(data)[0])

    @property
    def _name(self) -> str:
        return str(self._schema.type)


_FORMATS: Final = {
    Type.INT16: "h",
    Type.INT32: "i",
    Type.INT64: "q",
    Type.FLOAT32: "f",
    Type.FLOAT64: "d",
}


class BooleanConverter:
    """One byte: 1 or 0."""

    _SCHEMA: Final = schemas.BOOLEAN.optional()

    def from_connect(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        if schema is not None and schema.type is not Type.BOOLEAN:
            raise DataError(f"the schema says {schema.type}, the converter is for boolean")
        if value is None:
            return None
        values.check(self._SCHEMA, value)
        return b"\1" if value else b"\0"

    def to_connect(self, topic: str, data: bytes | None) -> SchemaAndValue:
        if data is None:
            return SchemaAndValue(self._SCHEMA, None)
        if data not in {b"\0", b"\1"}:
            raise DataError(f"{data.hex() or 'nothing'} is not a boolean: it is one byte, 00 or 01")
        return SchemaAndValue(self._SCHEMA, data == b"\1")


def java_string(value: Any, schema: Schema | None = None) -> str:
    """Returns the text that Java's `toString` makes of a value."""
    match value:
        case str():
            text = value
        case None:
            text = "null"
        case bool():
            text = "true" if value else "false"
        case float():
            is_short = schema is not None and schema.type is Type.FLOAT32
            text = numbers.float_text(value) if is_short else numbers.double_text(value)
        case dict() if schema is not None and schema.type is Type.STRUCT:
            parts = (
                f"{part.name}={java_string(value[part.name], part.schema)}"
                for part in schema.fields
                if value.get(part.name) is not None
            )
            text = f"Struct{{{','.join(parts)}}}"
        case dict():
            pairs = (f"{java_string(key)}={java_string(item)}" for key, item in value.items())
            text = f"{{{', '.join(pairs)}}}"
        case list() | tuple():
            text = f"[{', '.join(map(java_string, value))}]"
        case _:
            text = str(value)
    return text
