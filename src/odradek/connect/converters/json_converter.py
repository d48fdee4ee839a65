"""JSON as Kafka Connect's JsonConverter writes it, byte by byte.

With `schemas.enable` (the default) the value stands beside its schema in an envelope:
`{"schema": {...}, "payload": ...}`. Without, there is the value alone; what is read has no schema
then, objects become dicts, and numbers integers or floats.
"""

import base64
import binascii
import json
import re
from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import Any, Final

from odradek.connect.converters.by_schema import DEFAULT_CAPACITY, BySchema
from odradek.connect.converters.converter import SchemaAndValue
from odradek.connect.converters.json_schemas import is_envelope, schema_from_json, schema_to_json
from odradek.connect.converters.known_envelopes import KnownEnvelopes
from odradek.connect.data import schemas, values
from odradek.connect.data.schemas import INTEGERS, Schema, Type
from odradek.connect.errors import DataError
from odradek.javatext import numbers

Write = Callable[[Any], str]

BASE64: Final = "BASE64"
NUMERIC: Final = "NUMERIC"
_ESCAPED: Final = re.compile(r'[\x00-\x1f"\\\U00010000-\U0010ffff]')
_RARE: Final = re.compile(r"[\x00-\x1f\U00010000-\U0010ffff]")
_SHORT: Final = {
    '"': '\\"',
    "\\": "\\\\",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
}


class JsonConverter:
    def __init__(
        self,
        *,
        has_schemas: bool = True,
        decimal_format: str = BASE64,
        replaces_null: bool = True,
        capacity: int = DEFAULT_CAPACITY,
        schema_content: str | None = None,
    ) -> None:
        """`replaces_null` writes the default of a schema where a value is null. `schema_content` is
        the schema of all values that are read, which then have none beside them."""
        self._has_schemas = has_schemas
        self._decimals_are_numbers = decimal_format.upper() == NUMERIC
        self._replaces_null = replaces_null
        # Records of a topic have few schemas, and a schema is larger than its values.
        self._written_schema = BySchema(self._write_schema, capacity).get
        self._writer = BySchema(self._make_writer, capacity).get
        self._known = KnownEnvelopes()
        self._read_schema = lru_cache(capacity)(self._parse_schema)
        self._given = self._given_schema(schema_content) if schema_content else None

    def from_connect(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        if schema is None and value is None:
            return None
        payload = self._written(schema, value)
        if not self._has_schemas:
            return payload.encode("utf-8", "surrogatepass")
        about = "null" if schema is None else self._written_schema(schema)
        return f'{{"schema":{about},"payload":{payload}}}'.encode("utf-8", "surrogatepass")

    def to_connect(self, topic: str, data: bytes | None) -> SchemaAndValue:
        if data is None:
            return SchemaAndValue(None, None)
        known = self._known.split(data) if self._has_schemas else None
        if known is not None:
            known_schema, payload = known
            try:
                return SchemaAndValue(
                    known_schema, self._read(known_schema, json.loads(payload, parse_float=Number))
                )
            except (ValueError, RecursionError):
                pass  # It is read as a whole, which says what is wrong with it.
        try:
            found = json.loads(data, parse_float=Number)
        except (ValueError, RecursionError) as error:
            raise DataError(f"this is not JSON: {error}") from None
        if not self._has_schemas:
            return SchemaAndValue(None, _without_schema(found))
        if self._given is not None:
            return SchemaAndValue(self._given, self._read(self._given, found))
        if not is_envelope(found):
            raise DataError(
                'with schemas.enable, JSON is {"schema": ..., "payload": ...} and nothing more;'
                " for plain JSON set schemas.enable=false"
            )
        about = found["schema"]
        schema = None if about is None else self._read_schema(json.dumps(about, default=str))
        if schema is None:
            return SchemaAndValue(None, _without_schema(found["payload"]))
        self._known.learn(data, schema)
        return SchemaAndValue(schema, self._read(schema, found["payload"]))

    # Schemas

    def _given_schema(self, content: str) -> Schema | None:
        try:
            return self._parse_schema(content)
        except ValueError as error:
            raise DataError(f"this is not JSON: {error}") from None

    def _write_schema(self, schema: Schema) -> str:
        def default(of: Schema, value: Any) -> _Raw:
            return _Raw(self._written(of, value))

        return _plain(schema_to_json(schema, default))

    def _parse_schema(self, text: str) -> Schema | None:
        return schema_from_json(json.loads(text), self._read)

    # Values out

    def _written(self, schema: Schema | None, value: Any) -> str:
        if schema is not None:
            return self._writer(schema)(value)
        return "null" if value is None else self._written_without(value)

    def _make_writer(self, schema: Schema) -> Write:
        """Returns what writes the values of a schema. It is made once for a schema, because a
        record has many fields and a topic has few schemas."""
        write = self._writer_of_values(schema)
        default = schema.default if self._replaces_null else None
        of_null = "null" if schema.is_optional else None
        if default is not None:
            of_null = write(default)

        def write_null() -> str:
            if of_null is None:
                raise DataError("a value is null, and its schema does not allow that")
            return of_null

        return _primitive_writer(schema, write, write_null)

    def _writer_of_values(self, schema: Schema) -> Write:
        if schema.name == schemas.DECIMAL:
            scale = schema.scale
            return lambda value: self._decimal(value, scale)
        to_number = _NUMBERS.get(schema.name or "")
        if to_number is not None:

            def write_number(value: Any) -> str:
                values.check(schema, value)
                return str(to_number(value))

            return write_number
        match schema.type:
            case Type.STRUCT:
                return self._struct_writer(schema)
            case Type.ARRAY:
                write = self._make_writer(schema.elements)
                return lambda value: f"[{','.join(map(write, value))}]"
            case Type.MAP:
                return lambda value: self._map(value, schema.key, schema.elements)
        kind = schema.type
        return lambda value: _primitive(kind, value)

    def _struct_writer(self, schema: Schema) -> Write:
        parts = [(part.name, self._make_writer(part.schema)) for part in schema.fields]
        names = (_text(part.name).replace("%", "%%") for part in schema.fields)
        template = "{" + ",".join(f"{name}:%s" for name in names) + "}"

        def write_struct(value: Any) -> str:
            if not isinstance(value, Mapping):
                raise DataError(f"a struct is needed, and this is {type(value).__name__}")
            get = value.get
            return template % tuple([write(get(name)) for name, write in parts])

        return write_struct

    def _written_without(self, value: Any) -> str:
        if isinstance(value, Mapping):
            return self._map(value, None, None)
        if isinstance(value, list | tuple):
            return f"[{','.join(self._written(None, item) for item in value)}]"
        if isinstance(value, str):
            return _text(value)
        schema = values.infer(value)
        if schema is None:
            raise DataError(f"{type(value).__name__} cannot be written as JSON")
        return self._written(schema, value)

    def _map(self, value: Any, key: Schema | None, item: Schema | None) -> str:
        """A map with keys of text is an object, any other one a list of pairs."""
        if not isinstance(value, Mapping):
            raise DataError(f"a map is needed, and this is {type(value).__name__}")
        if self._is_object(value, key):
            pairs = (f"{_text(name)}:{self._written(item, part)}" for name, part in value.items())
            return f"{{{','.join(pairs)}}}"
        entries = (
            self._pair(self._written(key, name), self._written(item, part))
            for name, part in value.items()
        )
        return f"[{','.join(entries)}]"

    def _is_object(self, value: Mapping[Any, Any], key: Schema | None) -> bool:
        if key is None:
            return all(isinstance(name, str) for name in value)
        return key.type is Type.STRING and not key.is_optional

    def _pair(self, key: str, item: str) -> str:
        return f"[{key},{item}]"

    def _decimal(self, value: Any, scale: int) -> str:
        if not isinstance(value, Decimal):
            raise DataError(f"a Decimal is needed, and this is {type(value).__name__}")
        if self._decimals_are_numbers:
            return f"{value:f}"
        return _bytes(values.decimal_to_bytes(value, scale))

    # Values in

    def _read(self, schema: Schema, found: Any) -> Any:
        if found is None:
            if schema.default is None and not schema.is_optional:
                raise DataError("null where the schema allows none")
            return schema.default if self._replaces_null else None
        reader = _READERS.get(schema.name or "")
        return self._read_by_type(schema, found) if reader is None else reader(schema, found)

    def _read_by_type(self, schema: Schema, found: Any) -> Any:
        match schema.type:
            case Type.STRUCT:
                if not isinstance(found, dict):
                    raise DataError("a struct is an object in JSON")
                return {
                    part.name: self._read(part.schema, found.get(part.name))
                    for part in schema.fields
                }
            case Type.ARRAY:
                if not isinstance(found, list):
                    raise DataError("an array is a list in JSON")
                return [self._read(schema.elements, item) for item in found]
            case Type.MAP:
                return self._read_map(schema, found)
        return _read_primitive(schema.type, found)

    def _read_map(self, schema: Schema, found: Any) -> dict[Any, Any]:
        assert schema.key is not None
        if isinstance(found, dict) and schema.key.type is Type.STRING:
            return {name: self._read(schema.elements, item) for name, item in found.items()}
        if not isinstance(found, list) or not all(
            isinstance(pair, list) and len(pair) == 2 for pair in found
        ):
            raise DataError("a map with keys of this type is a list of pairs in JSON")
        return {
            self._read(schema.key, name): self._read(schema.elements, item) for name, item in found
        }


class _Raw(str):
    """JSON that is written already."""


class Number(str):
    """A number with a point or an exponent, as it was written: a Decimal loses nothing of it."""


def _plain(written: Any) -> str:
    """Returns JSON without spaces."""
    if isinstance(written, _Raw):
        return str(written)
    if isinstance(written, dict):
        return f"{{{','.join(f'{_text(name)}:{_plain(part)}' for name, part in written.items())}}}"
    if isinstance(written, list):
        return f"[{','.join(map(_plain, written))}]"
    if isinstance(written, str):
        return _text(written)
    return json.dumps(written)


def _text(value: str) -> str:
    if _RARE.search(value) is None:
        plain = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{plain}"'
    return f'"{_ESCAPED.sub(_escape, value)}"'


def _escape(match: "re.Match[str]") -> str:
    character = match[0]
    short = _SHORT.get(character)
    if short is not None:
        return short
    code = ord(character)
    if code < 0x10000:
        return f"\\u{code:04X}"
    code -= 0x10000
    return f"\\u{0xD800 + (code >> 10):04X}\\u{0xDC00 + (code & 0x3FF):04X}"


def _bytes(data: bytes) -> str:
    return f'"{base64.b64encode(data).decode()}"'


def _primitive_writer(schema: Schema, write: Write, write_null: Callable[[], str]) -> Write:
    """Returns what writes values and null. Whole numbers and texts, which are most of all values,
    are written here if they are plainly right."""
    if schema.type in INTEGERS and schema.name not in _NUMBERS:
        limit = 1 << INTEGERS[schema.type] - 1

        def write_integer(value: Any) -> str:
            if type(value) is int and -limit <= value < limit:
                return str(value)
            return write_null() if value is None else write(value)

        return write_integer
    if schema.type is Type.STRING:

        def write_text(value: Any) -> str:
            if type(value) is str:
                return f'"{value}"' if _ESCAPED.search(value) is None else _text(value)
            return write_null() if value is None else write(value)

        return write_text
    if schema.type is Type.BOOLEAN:

        def write_boolean(value: Any) -> str:
            if value is True:
                return "true"
            if value is False:
                return "false"
            return write_null() if value is None else write(value)

        return write_boolean
    return lambda value: write_null() if value is None else write(value)


def _primitive(kind: Type, value: Any) -> str:
    values.check(Schema(kind), value)
    if kind in INTEGERS:
        return str(value)
    match kind:
        case Type.BOOLEAN:
            return "true" if value else "false"
        case Type.STRING:
            return _text(value)
        case Type.BYTES:
            return _bytes(bytes(value))
        case Type.FLOAT32:
            text = numbers.float_text(value)
        case _:
            text = numbers.double_text(value)
    # JSON has no such numbers, so they are text.
    return f'"{text}"' if text[-1].isalpha() else text


_NUMBERS: Final[dict[str, Callable[[Any], int]]] = {
    schemas.DATE: values.date_to_days,
    schemas.TIME: values.time_to_ms,
    schemas.TIMESTAMP: values.timestamp_to_ms,
}


def _read_decimal(schema: Schema, found: Any) -> Decimal:
    if isinstance(found, Number | int) and not isinstance(found, bool):
        number = Decimal(found)
        try:
            return number.quantize(Decimal(1).scaleb(-schema.scale))
        except InvalidOperation:
            raise DataError(f"{found} does not fit the scale {schema.scale}") from None
    return values.bytes_to_decimal(_read_primitive(Type.BYTES, found), schema.scale)


def _read_integer(found: Any) -> int:
    if isinstance(found, bool) or not isinstance(found, int):
        raise DataError(f"a whole number is needed, and this is {found!r:.40}")
    return found


_READERS: Final[dict[str, Callable[[Schema, Any], Any]]] = {
    schemas.DECIMAL: _read_decimal,
    schemas.DATE: lambda _, found: values.days_to_date(_read_integer(found)),
    schemas.TIME: lambda _, found: values.ms_to_time(_read_integer(found)),
    schemas.TIMESTAMP: lambda _, found: values.ms_to_timestamp(_read_integer(found)),
}


_PLAIN: Final = {kind: Schema(kind) for kind in Type}
# Values of these types need no look at the schema's limits.
_EXACT: Final = {
    Type.STRING: str,
    Type.BOOLEAN: bool,
}


def _read_primitive(kind: Type, found: Any) -> Any:
    if type(found) is _EXACT.get(kind):
        return found
    value = found
    if kind is Type.BYTES:
        try:
            value = base64.b64decode(found, validate=True)
        except (binascii.Error, ValueError, TypeError):
            raise DataError(f"bytes are Base64 in JSON, and this is {found!r:.40}") from None
    elif kind in {Type.FLOAT32, Type.FLOAT64} and not isinstance(found, bool):
        try:
            return float(found)
        except (ValueError, TypeError, OverflowError):
            raise DataError(f"a number is needed, and this is {found!r:.40}") from None
    elif isinstance(found, Number):
        raise DataError(f"{kind} is needed, and this is the number {found}")
    values.check(_PLAIN[kind], value)
    return value


def _without_schema(found: Any) -> Any:
    """Returns plain values: numbers that kept their text become floats."""
    if isinstance(found, dict):
        return {name: _without_schema(part) for name, part in found.items()}
    if isinstance(found, list):
        return [_without_schema(part) for part in found]
    return float(found) if isinstance(found, Number) else found
