"""Avro values as columns, for Spark and Arrow.

Types are those of Spark's own Avro functions: an optional value is a nullable column, a union of
several types is a struct with a field for each, an enum is a string. Logical types that Spark does
not have (times of day, durations) keep their underlying type; a uuid is a string.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import fastavro

from odradek.schemas import shape
from odradek.schemas.avro import AvroCodec
from odradek.schemas.errors import BadPayload, BadSchema
from odradek.schemas.shape import Shape

_PRIMITIVES: Final = {
    "null": "void",
    "boolean": "boolean",
    "int": "int",
    "long": "bigint",
    "float": "float",
    "double": "double",
    "bytes": "binary",
    "string": "string",
}
_LOGICAL: Final = {
    "date": "date",
    "timestamp-millis": "timestamp",
    "timestamp-micros": "timestamp",
    "local-timestamp-millis": "timestamp_ntz",
    "local-timestamp-micros": "timestamp_ntz",
}
_KEPT_LOGICAL: Final = {*_LOGICAL, "decimal"}


class AvroColumns(AvroCodec):
    """Encodes and decodes payloads whose values are cells of a column of type `shape().type`."""

    def __init__(
        self,
        text: str,
        imports: Iterable[tuple[str, str]] = (),
        *,
        reader: "AvroColumns | None" = None,
    ) -> None:
        super().__init__(text, imports, reader=reader, names_records=True)

    def _prepared(self, schema: Any) -> Any:
        return _without_logical(schema)

    def shape(self) -> Shape:
        """The column type of decoded values."""
        return _Shapes(self._named).of(self.schema)


def _without_logical(schema: Any) -> Any:
    """Returns the schema without logical types that columns do not support."""
    if isinstance(schema, list):
        return [_without_logical(member) for member in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {
        name: _without_logical(value)
        if name in {"type", "items", "values"}
        else [
            _without_logical(element) if isinstance(element, dict) else element for element in value
        ]
        if name == "fields"
        else value
        for name, value in schema.items()
    }
    if kept.get("logicalType") not in _KEPT_LOGICAL:
        kept.pop("logicalType", None)
    return kept


class _Shapes:
    def __init__(self, named: Mapping[str, Any]) -> None:
        self._named = named
        self._within: list[str] = []

    def of(self, schema: Any) -> Shape:
        if isinstance(schema, list):
            return self._union(schema)
        if isinstance(schema, str):
            known = _PRIMITIVES.get(schema)
            return self._reference(schema) if known is None else Shape(known)
        return self._logical(schema) or self._complex(schema)

    def _complex(self, schema: Mapping[str, Any]) -> Shape:
        match schema["type"]:
            case "array":
                found = shape.array(self.of(schema["items"]))
            case "map":
                found = shape.mapping(self.of(schema["values"]))
            case "enum":
                found = Shape("string")
            case "fixed":
                found = Shape("binary")
            case "record" | "error":
                found = self._record(schema)
            case kind:
                found = self.of(kind)
        return found

    @staticmethod
    def _logical(schema: Mapping[str, Any]) -> Shape | None:
        logical = schema.get("logicalType")
        if logical == "decimal":
            return Shape(f"decimal({schema['precision']}, {schema.get('scale', 0)})")
        return Shape(_LOGICAL[logical]) if logical in _LOGICAL else None

    def _reference(self, name: str) -> Shape:
        if name not in self._named:
            raise BadSchema(f"the Avro schema refers to {name}, which is not known")
        return self.of(self._named[name])

    def _record(self, schema: Mapping[str, Any]) -> Shape:
        name = schema["name"]
        if name in self._within:
            raise BadSchema(f"{name} contains itself, which a column's type cannot")
        self._within.append(name)
        fields = [(field["name"], self.of(field["type"])) for field in schema["fields"]]
        self._within.pop()
        return shape.struct(fields)

    def _union(self, schema: list[Any]) -> Shape:
        members = [member for member in schema if member != "null"]
        if not members:
            return Shape("void")
        if len(members) == 1:
            inner = self.of(members[0])
            if not _is_record(self._resolved(members[0])):
                return inner
            into = inner.to_row
            # In unions, fastavro gives records as (name, record).
            return inner._replace(to_row=lambda value: into(_bare(value)) if into else _bare(value))
        return _Union(
            [self.of(member) for member in members], [self._resolved(member) for member in members]
        ).shape()

    def _resolved(self, schema: Any) -> Any:
        return self._named.get(schema, schema) if isinstance(schema, str) else schema


def _is_record(schema: Any) -> bool:
    return isinstance(schema, dict) and schema["type"] in {"record", "error"}


def _bare(value: Any) -> Any:
    return value[1] if isinstance(value, tuple) else value


class _Union:
    """A union of several types: a struct with `member0`, `member1`, ... of which one is not
    null."""

    def __init__(self, shapes: list[Shape], schemas: list[Any]) -> None:
        self._shapes = shapes
        self._schemas = schemas
        self._names = [f"member{index}" for index in range(len(shapes))]

    def shape(self) -> Shape:
        fields = zip(self._names, self._shapes, strict=True)
        kind = ", ".join(f"{name}: {field.type}" for name, field in fields)
        return Shape(f"struct<{kind}>", self._to_row, self._from_row)

    def _to_row(self, value: Any) -> dict[str, Any]:
        for name, schema, member in zip(self._names, self._schemas, self._shapes, strict=True):
            if isinstance(value, tuple):
                if not (isinstance(schema, dict) and schema.get("name") == value[0]):
                    continue
            elif not fastavro.validate(value, schema, raise_errors=False):
                continue
            bare = _bare(value)
            return {name: bare if member.to_row is None else member.to_row(bare)}
        raise BadPayload(f"{value!r} has none of the types of its union")

    def _from_row(self, row: Mapping[str, Any]) -> Any:
        for name, schema, member in zip(self._names, self._schemas, self._shapes, strict=True):
            value = row.get(name)
            if value is not None:
                converted = value if member.from_row is None else member.from_row(value)
                return (schema["name"], converted) if _is_record(schema) else converted
        return None
