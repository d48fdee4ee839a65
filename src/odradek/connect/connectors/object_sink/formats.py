"""What is in an object: JSON, CSV or bytes; and what a format is.

A format makes an item of each record as it comes, so that a record which does not fit fails alone,
and an object of many items.
"""

import base64
import csv
import gzip
import io
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import cramjam

from odradek.connect.converters.json_converter import JsonConverter
from odradek.connect.converters.primitives import java_string
from odradek.connect.data.schemas import Schema, Type
from odradek.connect.errors import DataError


class Item(NamedTuple):
    """A record in the form of the format. `size` is that of what it adds to an object, about."""

    data: Any
    size: int


class ObjectFormat(ABC):
    extension: str
    # Whether the records of an object must have one schema.
    has_schema = False

    @abstractmethod
    def item(self, schema: Schema | None, value: Any) -> Item:
        """Raises `DataError`."""

    @abstractmethod
    def content(self, schema: Schema | None, items: Sequence[Any]) -> bytes:
        """Returns an object with these items."""


class JsonLines(ObjectFormat):
    extension = ".json"

    def __init__(self, *, is_array: bool = False) -> None:
        self._is_array = is_array
        self._converter = JsonConverter(has_schemas=False)

    def item(self, schema: Schema | None, value: Any) -> Item:
        data = self._converter.from_connect("", schema, value)
        line = b"null" if data is None else data
        return Item(line, len(line) + 1)

    def content(self, schema: Schema | None, items: Sequence[Any]) -> bytes:
        if self._is_array:
            return b"[\n" + b",\n".join(items) + b"\n]"
        return b"\n".join(items) + b"\n"


class Bytes(ObjectFormat):
    """Values that are bytes or text, one after the other."""

    extension = ".bin"

    def __init__(self, separator: bytes) -> None:
        self._separator = separator

    def item(self, schema: Schema | None, value: Any) -> Item:
        data = _raw(value)
        return Item(data, len(data) + len(self._separator))

    def content(self, schema: Schema | None, items: Sequence[Any]) -> bytes:
        return b"".join(item + self._separator for item in items)


class Csv(ObjectFormat):
    """Fields of structs in lines, with their names in the first one."""

    extension = ".csv"
    has_schema = True

    def item(self, schema: Schema | None, value: Any) -> Item:
        fields = struct_of(schema, value).fields
        row = [
            "" if value.get(field.name) is None else _cell(value[field.name], field.schema)
            for field in fields
        ]
        return Item(row, sum(map(len, row)) + len(row))

    def content(self, schema: Schema | None, items: Sequence[Any]) -> bytes:
        assert schema is not None
        return _lines([[field.name for field in schema.fields], *items])


class PlainCsv(ObjectFormat):
    """Chosen parts of records in lines, as Aiven's connector writes them: keys and values are bytes
    or text, in Base64 unless it is turned off."""

    extension = ".csv"

    def __init__(self, encoding: str) -> None:
        self._is_base64 = encoding == "base64"

    def item(self, schema: Schema | None, value: Any) -> Item:
        row = [self._cell(name, part) for name, part in value.items()]
        return Item(row, sum(map(len, row)) + len(row))

    def _cell(self, name: str, value: Any) -> str:
        if value is None:
            return ""
        if name not in {"key", "value"}:
            return str(value)
        data = _raw(value)
        if self._is_base64 or name == "key":
            return base64.b64encode(data).decode()
        return data.decode("utf-8", "replace")

    def content(self, schema: Schema | None, items: Sequence[Any]) -> bytes:
        return _lines(items)


class Compressed(ObjectFormat):
    def __init__(self, inner: ObjectFormat, codec: str) -> None:
        self._inner = inner
        self._codec = codec
        self.extension = inner.extension + _EXTENSIONS[codec]
        self.has_schema = inner.has_schema

    def item(self, schema: Schema | None, value: Any) -> Item:
        return self._inner.item(schema, value)

    def content(self, schema: Schema | None, items: Sequence[Any]) -> bytes:
        data = self._inner.content(schema, items)
        if self._codec == "gzip":
            # Without a time the same records give the same bytes.
            return gzip.compress(data, mtime=0)
        codec = cramjam.zstd if self._codec == "zstd" else cramjam.snappy
        return bytes(codec.compress(data))


_JSON: Final = JsonConverter(has_schemas=False)
_EXTENSIONS: Final = {"gzip": ".gz", "zstd": ".zst", "snappy": ".snappy"}


def struct_of(schema: Schema | None, value: Any) -> Schema:
    """Raises `DataError` if the value is not a struct with a schema."""
    if schema is None:
        raise DataError(
            "the value has no schema, and this format needs one: set value.converter to one with"
            " schemas (JsonConverter with schemas.enable=true, Avro, Protobuf, JSON Schema), or"
            " the format to JSON"
        )
    if schema.type is not Type.STRUCT or not isinstance(value, dict):
        raise DataError(
            f"the value is a {schema.type}, and this format needs a struct: the transform"
            " HoistField makes one"
        )
    return schema


def _raw(value: Any) -> bytes:
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if isinstance(value, str):
        return value.encode("utf-8", "replace")
    raise DataError(
        f"the value is {type(value).__name__}, and this format needs bytes or text: set"
        " value.converter to ByteArrayConverter or StringConverter"
    )


def _cell(value: Any, schema: Schema) -> str:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, dict | list):
        return (_JSON.from_connect("", schema, value) or b"").decode()
    return java_string(value, schema)


def _lines(rows: Sequence[Sequence[str]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode("utf-8", "replace")
