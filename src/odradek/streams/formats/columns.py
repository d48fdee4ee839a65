"""Rows as bytes: JSON, delimited text, Kafka's primitives. A row is a tuple, as columns are.

Reading is as lenient as ksqlDB's: names of JSON fields match without case, numbers may be text, and
a column that is missing is null. What does not fit its type raises `BadRow`, and the record is
skipped. `make` chooses by the name of the format and refuses columns that it cannot hold.
"""

import base64
import csv
import io
import json
import math
from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from typing import Any, Final

import msgspec

from odradek.javatext.numbers import double_text
from odradek.streams.formats import primitives
from odradek.streams.formats.hashable import hashable
from odradek.streams.plan.types import (
    ArrayType,
    Column,
    DecimalType,
    MapType,
    SqlType,
    StructType,
)

Reader = Callable[[Any], Any]
_LIMITS: Final = {"INTEGER": 1 << 31, "BIGINT": 1 << 63}


class BadRow(ValueError):
    """Bytes that are not a row of these columns."""


class UnfitColumns(ValueError):
    """A format cannot hold these columns."""


def decimal_of(value: Any, kind: DecimalType) -> Decimal:
    """Returns a number with the scale of its type, rounded half up. Raises if it is too large."""
    try:
        # Python allows underscores in numbers.
        number = value if isinstance(value, Decimal) else Decimal(str(value).replace("_", "?"))
        rounded = number.quantize(Decimal(1).scaleb(-kind.scale), ROUND_HALF_UP)
    except InvalidOperation:
        raise BadRow(f"{value!r} is no {kind}") from None
    if rounded.is_nan():
        raise BadRow(f"{value!r} is no {kind}")
    if rounded and rounded.adjusted() >= kind.precision - kind.scale:
        raise BadRow(f"{value} does not fit into {kind}")
    return rounded


# Out of JSON


def _read_boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    raise BadRow(f"{value!r} is not a BOOLEAN")


def _reader_of_integers(name: str) -> Reader:
    limit = _LIMITS.get(name, 1 << 63)

    def read(value: Any) -> int:
        try:
            if isinstance(value, bool | list | dict):
                raise ValueError
            number = int(value.replace("_", "?") if isinstance(value, str) else value)
        except (ValueError, OverflowError):
            raise BadRow(f"{value!r} is no {name}") from None
        if not -limit <= number < limit:
            raise BadRow(f"{value} is too large for {name}")
        return number

    return read


def _read_double(value: Any) -> float:
    if isinstance(value, bool | list | dict):
        raise BadRow(f"{value!r} is not a DOUBLE")
    try:
        return float(value)
    except ValueError:
        raise BadRow(f"{value!r} is not a DOUBLE") from None


def _read_string(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, list):
        return f"[{', '.join('null' if one is None else _read_string(one) for one in value)}]"
    return to_json(value)


def _read_bytes(value: Any) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except (ValueError, TypeError):
        raise BadRow(f"{value!r} is not BYTES in base64") from None


def reader(kind: SqlType) -> Reader:
    """Returns what makes a value of a type out of parsed JSON, None excepted."""
    if isinstance(kind, DecimalType):
        return lambda value: decimal_of(value, kind)
    if isinstance(kind, ArrayType):
        return _array_reader(kind)
    if isinstance(kind, MapType):
        return _map_reader(kind)
    if isinstance(kind, StructType):
        return _struct_reader(kind)
    readers: dict[str, Reader] = {
        "BOOLEAN": _read_boolean, "DOUBLE": _read_double, "STRING": _read_string,
        "BYTES": _read_bytes,
    }  # fmt: skip
    return readers.get(kind.name) or _reader_of_integers(kind.name)


def _array_reader(kind: ArrayType) -> Reader:
    read_one = reader(kind.element)

    def read(value: Any) -> list[Any]:
        if not isinstance(value, list):
            raise BadRow(f"{value!r} is no {kind}")
        return [None if one is None else read_one(one) for one in value]

    return read


def _map_reader(kind: MapType) -> Reader:
    read_key, read_value = reader(kind.key), reader(kind.value)

    def read(value: Any) -> dict[Any, Any]:
        if not isinstance(value, dict):
            raise BadRow(f"{value!r} is no {kind}")
        return {
            read_key(key): None if one is None else read_value(one) for key, one in value.items()
        }

    return read


def _struct_reader(kind: StructType) -> Reader:
    pick = field_picker(kind.fields)

    def read(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise BadRow(f"{value!r} is no {kind}")
        return dict(zip((name for name, _ in kind.fields), pick(value), strict=True))

    return read


def field_picker(fields: Sequence[tuple[str, SqlType]]) -> Callable[[dict[str, Any]], list[Any]]:
    """Returns what takes the fields out of a JSON object. Case matters only where two differ by
    nothing else."""
    readers = [(name, reader(kind)) for name, kind in fields]

    def pick(value: dict[str, Any]) -> list[Any]:
        folded: dict[str, Any] | None = None
        picked = []
        for name, read in readers:
            found = value.get(name)
            if found is None and name not in value:
                if folded is None:
                    folded = {}
                    for key, one in value.items():
                        folded.setdefault(key.upper(), one)
                # A name that was quoted is not a name in capitals, and is found as it is alone.
                found = folded.get(name)
            picked.append(None if found is None else read(found))
        return picked

    return pick


# Into JSON


def plain(value: Any, kind: SqlType) -> Any:
    """Returns a value as JSON has it."""
    if value is None or kind.name in ("STRING", "BOOLEAN", "INTEGER", "BIGINT"):
        return value
    if isinstance(kind, ArrayType):
        return [plain(one, kind.element) for one in value]
    if isinstance(kind, MapType):
        return {_map_key(key, kind.key): plain(one, kind.value) for key, one in value.items()}
    if isinstance(kind, StructType):
        return {name: plain(value.get(name), field_kind) for name, field_kind in kind.fields}
    if kind.name == "BYTES":
        return base64.b64encode(value).decode()
    is_special = kind.name == "DOUBLE" and not math.isfinite(value)
    return double_text(value) if is_special else value


def _map_key(key: Any, kind: SqlType) -> str:
    if key is None:
        return "null"
    if isinstance(key, str):
        return key
    return double_text(key) if isinstance(key, float) else text_of(key, kind)


_ENCODER: Final = msgspec.json.Encoder(decimal_format="number")


def to_json(value: Any) -> str:
    """Returns JSON without spaces. Decimal numbers keep their digits."""
    return _ENCODER.encode(value).decode()


def text_of(value: Any, kind: SqlType) -> str:
    """Returns a primitive value as text, as Java does."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return double_text(value)
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return str(value)


# Formats. A format for keys of one column has the column's value itself; so has one for values
# with WRAP_SINGLE_VALUE=false.


class RowCodec:
    """Encodes and decodes rows: tuples with a value for each column."""

    def __init__(self, columns: Sequence[Column], *, is_key: bool) -> None:
        self.columns = tuple(columns)
        self.is_key = is_key

    def encode(self, value: Any) -> bytes | None:
        return None if value is None else self._encode(value)

    def decode(self, data: bytes | None) -> Any:
        if data is None:
            return None
        row = self._decode(data)
        return hashable(row) if self.is_key and row is not None else row

    def _encode(self, row: Sequence[Any]) -> bytes | None:
        raise NotImplementedError

    def _decode(self, data: bytes) -> tuple[Any, ...] | None:
        raise NotImplementedError


_SCHEMA_HEADER: Final = 5


class JsonCodec(RowCodec):
    def __init__(self, columns: Sequence[Column], *, is_key: bool, is_wrapped: bool) -> None:
        super().__init__(columns, is_key=is_key)
        self._is_wrapped = is_wrapped
        for column in columns:
            if not _has_text_keys(column.kind):
                raise UnfitColumns(
                    f"JSON has maps with keys of type STRING alone, and {column.name} is"
                    f" {column.kind}"
                )
        self._names = [(column.name, column.kind) for column in columns]
        self._pick = field_picker(self._names)
        self._read_one = None if is_wrapped else reader(columns[0].kind)
        # Decimals and texts need the digits as they are written.
        kinds = [str(column.kind) for column in columns]
        self._is_exact = any("DECIMAL" in kind or "STRING" in kind for kind in kinds)

    def _encode(self, row: Sequence[Any]) -> bytes | None:
        if not self._is_wrapped:
            return None if row[0] is None else to_json(plain(row[0], self._names[0][1])).encode()
        pairs = zip(self._names, row, strict=True)
        return to_json({name: plain(value, kind) for (name, kind), value in pairs}).encode()

    def _decode(self, data: bytes) -> tuple[Any, ...] | None:
        if data[:1] == b"\0":
            # JSON_SR writes a zero and the id of the schema before the JSON.
            data = data[_SCHEMA_HEADER:]
        try:
            parsed = json.loads(data, parse_float=Decimal) if self._is_exact else json.loads(data)
        except ValueError as error:
            raise BadRow(f"it is not JSON: {error}") from None
        if parsed is None:
            return None
        if self._read_one is not None:
            return (self._read_one(parsed),)
        if not isinstance(parsed, dict):
            raise BadRow(
                f"it is not a JSON object with {', '.join(name for name, _ in self._names)}"
            )
        return tuple(self._pick(parsed))


def _has_text_keys(kind: SqlType) -> bool:
    if isinstance(kind, MapType):
        return kind.key.name == "STRING" and _has_text_keys(kind.value)
    if isinstance(kind, ArrayType):
        return _has_text_keys(kind.element)
    if isinstance(kind, StructType):
        return all(_has_text_keys(field_kind) for _, field_kind in kind.fields)
    return True


def _boolean_of_text(text: str) -> bool:
    return text.lower() == "true"


_DELIMITERS: Final = {"SPACE": " ", "TAB": "\t"}


class DelimitedCodec(RowCodec):
    """One line of delimited text. A field that is empty is null."""

    def __init__(self, columns: Sequence[Column], *, is_key: bool, delimiter: str) -> None:
        super().__init__(columns, is_key=is_key)
        self._delimiter = _DELIMITERS.get(delimiter.upper(), delimiter)
        if len(self._delimiter) != 1:
            raise UnfitColumns(f"the delimiter is one character, SPACE or TAB, not {delimiter!r}")
        for column in columns:
            if not column.kind.is_primitive:
                raise UnfitColumns(
                    f"The 'DELIMITED' format does not support type '{column.kind.name}',"
                    f" column: {column.name}"
                )
        self._readers = [
            _boolean_of_text if column.kind.name == "BOOLEAN" else reader(column.kind)
            for column in columns
        ]

    def _encode(self, row: Sequence[Any]) -> bytes | None:
        texts = [
            "" if value is None else self._quoted(text_of(value, column.kind), place == 0)
            for place, (value, column) in enumerate(zip(row, self.columns, strict=True))
        ]
        return self._delimiter.join(texts).encode()

    def _quoted(self, text: str, is_first: bool) -> str:
        """Returns a field as Apache Commons CSV 1.4 writes it, which ksqlDB uses: with quotation
        marks where they are needed, and around a first field that begins with no letter or
        digit."""
        if not text:
            return '""' if is_first else ""
        begins_oddly = not (text[0].isascii() and text[0].isalnum())
        needs = (
            (is_first and begins_oddly)
            or text[0] <= "#"
            or text[-1] <= " "
            or any(mark in text for mark in ("\n", "\r", '"', self._delimiter))
        )
        return '"' + text.replace('"', '""') + '"' if needs else text

    def _decode(self, data: bytes) -> tuple[Any, ...] | None:
        try:
            lines = list(csv.reader(io.StringIO(data.decode()), delimiter=self._delimiter))
        except (csv.Error, UnicodeDecodeError) as error:
            raise BadRow(f"it is not a delimited text: {error}") from None
        if not lines or not lines[0]:
            raise BadRow("there are no fields")
        fields = lines[0]
        if len(fields) != len(self._readers):
            raise BadRow(f"it has {len(fields)} fields, and the columns are {len(self._readers)}")
        return tuple(
            None if not text else read(text)
            for text, read in zip(fields, self._readers, strict=True)
        )


_PRIMITIVES: Final = {
    "INTEGER": primitives.INTEGER,
    "BIGINT": primitives.LONG,
    "DOUBLE": primitives.DOUBLE,
    "STRING": primitives.STRING,
    "BYTES": primitives.BYTES,
}


class KafkaCodec(RowCodec):
    """One column, as Kafka's own serializers write it."""

    def __init__(self, columns: Sequence[Column], *, is_key: bool) -> None:
        super().__init__(columns, is_key=is_key)
        if len(columns) != 1:
            names = ", ".join(map(str, columns))
            raise UnfitColumns(f"The 'KAFKA' format only supports a single field. Got: [{names}]")
        primitive = _PRIMITIVES.get(columns[0].kind.name)
        if primitive is None:
            raise UnfitColumns(
                f"The 'KAFKA' format does not support type '{columns[0].kind.name}', column:"
                f" {columns[0].name}"
            )
        self._primitive = primitive

    def _encode(self, row: Sequence[Any]) -> bytes | None:
        return self._primitive.encode(row[0])

    def _decode(self, data: bytes) -> tuple[Any, ...] | None:
        return (self._primitive.decode(data),)


class NothingCodec(RowCodec):
    """A key or value without columns: what is there is not read. `empty` is written as a value."""

    def __init__(self, *, is_key: bool, empty: bytes = b"") -> None:
        super().__init__((), is_key=is_key)
        self._empty = empty

    def _encode(self, row: Sequence[Any]) -> bytes | None:
        return None if self.is_key else self._empty

    def _decode(self, data: bytes) -> tuple[Any, ...] | None:
        return None if self.is_key else ()


NAMES: Final = ("NONE", "DELIMITED", "JSON", "KAFKA")
"""The formats that need no schema registry."""


def make(
    name: str,
    columns: Sequence[Column],
    *,
    is_key: bool,
    is_wrapped: bool | None = None,
    delimiter: str = ",",
) -> RowCodec:
    """Returns the codec of a format. Raises `UnfitColumns` if it cannot hold the columns."""
    columns = tuple(column for column in columns if column.header is None)
    if not columns:
        return NothingCodec(is_key=is_key, empty=b"{}" if name == "JSON" else b"")
    if is_wrapped is None:
        is_wrapped = not is_key or len(columns) > 1
    if name == "JSON":
        return JsonCodec(columns, is_key=is_key, is_wrapped=is_wrapped or len(columns) > 1)
    if name == "DELIMITED":
        return DelimitedCodec(columns, is_key=is_key, delimiter=delimiter)
    if name == "KAFKA":
        return KafkaCodec(columns, is_key=is_key)
    raise UnfitColumns(f"the format {name} cannot hold columns: choose one of {', '.join(NAMES)}")
