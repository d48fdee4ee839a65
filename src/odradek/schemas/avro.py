"""Avro, by fastavro: values as Python has them.

A record is a dict. Logical types are `Decimal`, `date`, `time`, `datetime` and `UUID`. In a union
of several records a dict is written as the first one that fits; `(full name, dict)` says which one,
and so does a key `"-type"` in the dict.
"""

import io
import json
from collections.abc import Iterable, Mapping
from functools import cache, cached_property
from typing import Any, Final

import fastavro
from fastavro.schema import SchemaParseException, UnknownType
from fastavro.validation import ValidationError, ValidationErrorData

from odradek.schemas.errors import BadPayload, BadSchema

_RECORDS: Final = frozenset({"record", "error"})
_NAMED: Final = _RECORDS | {"enum", "fixed"}
_SHOWN: Final = 200
# fastavro's compiled code recurses without a limit, until the process dies. Each level of a value
# takes a byte at least, so shorter payloads are safe.
_SAFE_DEPTH: Final = 1000
# Values of some types take no bytes: null, a record of nulls. A schema is refused if one of them
# has more parts than this, because records of records of them double at each level.
_MAX_WEIGHTLESS: Final = 1000


class AvroCodec:
    """Encodes and decodes payloads of one schema, without their frame.

    With a `reader` schema, decoded values are resolved to it by Avro's rules. With `names_records`,
    a record in a union is decoded as `(full name, dict)`. With `strict`, a record must have all
    fields of the schema and no others; with `strict_allow_default` it may lack those with defaults.
    """

    def __init__(
        self,
        text: str,
        imports: Iterable[tuple[str, str]] = (),
        *,
        reader: "AvroCodec | None" = None,
        names_records: bool = False,
        strict: bool = False,
        strict_allow_default: bool = False,
    ) -> None:
        named: dict[str, Any] = {}
        try:
            for _, imported in imports:
                fastavro.parse_schema(self._prepared(json.loads(imported)), named)
            self.source = self._prepared(json.loads(text))
            self.schema = fastavro.parse_schema(self.source, named)
        except (ValueError, SchemaParseException, UnknownType, KeyError) as error:
            raise BadSchema(f"this is not an Avro schema: {_reason(error)}") from None
        except RecursionError:
            raise BadSchema("the Avro schema is nested too deeply") from None
        self._named = named
        self._reader = None if reader is None else reader.schema
        self._names_records = names_records
        self._strict = strict
        self._strict_allow_default = strict_allow_default

    def _prepared(self, schema: Any) -> Any:
        """Returns the schema that is used in place of a given one."""
        return schema

    @cached_property
    def record_name(self) -> str | None:
        """The full name of the record, enum or fixed that this schema is; None for other types."""
        schema = self.schema
        if isinstance(schema, dict) and schema.get("type") in _NAMED:
            return str(schema["name"])
        return None

    @cached_property
    def is_bytes(self) -> bool:
        """Whether values are plain bytes, which Confluent's frame has without Avro's length."""
        kind = self.schema.get("type") if isinstance(self.schema, dict) else self.schema
        return bool(kind == "bytes" and "logicalType" not in self.source)

    @cached_property
    def _is_recursive(self) -> bool:
        """Whether a value may contain values of its own type."""
        return _contains_itself(self.schema, self._named, frozenset(), set())

    @cached_property
    def _bomb(self) -> str | None:
        """Why a few bytes could become a value that fills the memory; None if they cannot."""
        return _Weights(self._named).bomb(self.schema)

    def decode(self, payload: bytes, start: int = 0) -> Any:
        if self._bomb is not None:
            raise BadPayload(f"a value is not read by its Avro schema: {self._bomb}")
        stream = io.BytesIO(payload)
        if start:
            stream.seek(start)
        read = fastavro.schemaless_reader
        if self._is_recursive and len(payload) > _SAFE_DEPTH:
            read = python_reader()
        try:
            value = read(stream, self.schema, self._reader, return_record_name=self._names_records)
        except Exception as error:
            # fastavro raises exceptions of many types for malformed bytes.
            raise BadPayload(f"a value does not fit its Avro schema: {_reason(error)}") from error
        if stream.tell() != len(payload):
            raise BadPayload(f"{len(payload) - stream.tell()} bytes are left after an Avro value")
        return value

    def encode(self, value: Any, prefix: bytes = b"") -> bytes:
        """Returns `prefix` and the encoded value."""
        if self._is_recursive and _is_deep(value):
            raise BadPayload("a value does not fit its Avro schema: it is nested too deeply")
        stream = io.BytesIO()
        if prefix:
            stream.write(prefix)
        try:
            fastavro.schemaless_writer(
                stream,
                self.schema,
                value,
                strict=self._strict,
                strict_allow_default=self._strict_allow_default,
            )
        except Exception as error:
            raise BadPayload(
                f"a value does not fit its Avro schema: {self._why_not(value, error)}"
            ) from error
        return stream.getvalue()

    def _why_not(self, value: Any, error: Exception) -> str:
        """Returns which part of a value does not fit. fastavro's writer does not say it, but its
        validation does."""
        try:
            fastavro.validate(value, self.schema, raise_errors=True)
        except ValidationError as found:
            reasons = [item for item in found.errors if isinstance(item, ValidationErrorData)]
            if reasons:
                first = reasons[0]
                where = f"{first.field} is" if first.field else "it is"
                return f"{where} {first.datum!r:.80}, not {_kind(first.schema)}"
        except Exception:  # noqa: BLE001, S110 - the validation has defects of its own
            pass
        return _reason(error)


@cache
def python_reader() -> Any:
    """Returns fastavro's reader in pure Python, which raises RecursionError. It is slower."""
    from fastavro._read_py import schemaless_reader  # noqa: PLC0415 - seldom

    return schemaless_reader


def _is_deep(value: Any) -> bool:
    level, depth = [value], 0
    while level:
        depth += 1
        if depth > _SAFE_DEPTH:
            return True
        below: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                below += item.values()
            elif isinstance(item, list | tuple):
                below += item
        level = below
    return False


def _contains_itself(
    schema: Any, named: Mapping[str, Any], within: frozenset[str], done: set[str]
) -> bool:
    """`done` has the names of the types that are known not to."""
    if isinstance(schema, list):
        return any(_contains_itself(one, named, within, done) for one in schema)
    if isinstance(schema, str):
        if schema in within:
            return True
        if schema not in named or schema in done:
            return False
        schema = named[schema]
    kind = schema.get("type")
    if kind not in _RECORDS:
        inner = [schema[part] for part in ("items", "values") if part in schema]
        inner += [kind] if isinstance(kind, dict | list) else []
        return _contains_itself(inner, named, within, done)
    name = schema["name"]
    inner = [field["type"] for field in schema["fields"]]
    found = _contains_itself(inner, named, within | {name}, done)
    done.add(name)
    return found


class _Weights:
    """Looks for types whose values can have many parts in no bytes at all."""

    def __init__(self, named: Mapping[str, Any]) -> None:
        self._named = named
        self._parts: dict[str, int] = {}
        self._seen: set[str] = set()

    def bomb(self, schema: Any) -> str | None:
        """Returns what is wrong with a schema or a type within it."""
        if isinstance(schema, str):
            if schema not in self._named or schema in self._seen:
                return None
            schema = self._named[schema]
        if isinstance(schema, list):
            return next(filter(None, map(self.bomb, schema)), None)
        kind = schema.get("type")
        if kind == "array" and self.parts(schema["items"]):
            return "it has an array of items that take no bytes"
        if kind in _RECORDS:
            self._seen.add(schema["name"])
            if self.parts(schema) > _MAX_WEIGHTLESS:
                return f"{schema['name']} takes no bytes and has more than {_MAX_WEIGHTLESS} parts"
            inner = [field["type"] for field in schema["fields"]]
        else:
            inner = [schema[part] for part in ("items", "values") if part in schema]
            inner += [kind] if isinstance(kind, dict | list) else []
        return self.bomb(inner)

    def parts(self, schema: Any) -> int:
        """Returns how many parts a value has; 0 if it takes bytes."""
        if isinstance(schema, str):
            return 1 if schema == "null" else self.parts(self._named.get(schema, []))
        if isinstance(schema, list):
            return 0  # A union says by a byte which one it is.
        kind = schema.get("type")
        if isinstance(kind, dict | list) or kind == "null":
            return self.parts(kind)
        if kind == "fixed":
            return int(schema["size"] == 0)
        return self._parts_of_record(schema) if kind in _RECORDS else 0

    def _parts_of_record(self, schema: Mapping[str, Any]) -> int:
        name = schema["name"]
        if name not in self._parts:
            self._parts[name] = 0  # A record that is a part of itself never ends.
            parts = [self.parts(field["type"]) for field in schema["fields"]]
            self._parts[name] = 1 + sum(parts) if all(parts) else 0
        return self._parts[name]


def _reason(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if isinstance(error, EOFError | StopIteration | IndexError):
        return "it ends too early"
    text = str(error)
    if isinstance(error, KeyError):
        text = f"{text} is missing"
    return text[:_SHOWN] or type(error).__name__


def _kind(schema: Any) -> str:
    """Returns a schema in a word or two."""
    if isinstance(schema, list):
        return f"one of {', '.join(map(_kind, schema))}"
    if isinstance(schema, dict):
        return str(schema.get("logicalType") or schema.get("name") or schema.get("type"))
    return str(schema)
