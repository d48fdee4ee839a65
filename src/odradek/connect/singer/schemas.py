"""Converts the schemas of Singer taps to schemas of Connect.

Taps describe their streams loosely: several types for a field, objects without fields, or no type
at all. A value without a type in Connect becomes a string with its JSON. All fields are optional,
because taps leave fields out.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from odradek.connect.data import schemas
from odradek.connect.data.schemas import Field, Schema, Type
from odradek.connect.errors import DataError

Convert = Callable[[Any], Any]
_MAX_DEPTH: Final = 30


class StreamShape:
    """The schemas of a stream's records, and the functions that convert its values to them."""

    def __init__(self, stream: str, schema: Mapping[str, Any], keys: tuple[str, ...]) -> None:
        fields = schema.get("properties")
        properties = fields if isinstance(fields, dict) else {}
        parts = {name: _part(part, 0) for name, part in properties.items()}
        missing = [name for name in keys if name not in parts]
        if missing:
            raise DataError(f"stream {stream} has no field {missing[0]}, although its key names it")
        self._parts = parts
        self._keys = keys
        self.value_schema = schemas.struct(
            *(Field(name, part) for name, (part, _) in parts.items()), name=stream
        )
        self.key_schema = (
            schemas.struct(*(Field(name, parts[name][0]) for name in keys), name=f"{stream}.Key")
            if keys
            else None
        )

    def value(self, record: Mapping[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, (_, convert) in self._parts.items():
            given = record.get(name)
            found[name] = None if given is None else convert(given)
        return found

    def key(self, value: Mapping[str, Any]) -> dict[str, Any] | None:
        return {name: value[name] for name in self._keys} if self._keys else None


def _part(schema: Any, depth: int) -> tuple[Schema, Convert]:
    """Returns the schema of a field or element, which is always optional, and the function that
    converts its values."""
    kind = _kind(schema)
    if kind == "object" and schema.get("properties") and depth < _MAX_DEPTH:
        return _struct(schema["properties"], depth)
    if kind == "array" and isinstance(schema.get("items"), dict) and depth < _MAX_DEPTH:
        item, convert = _part(schema["items"], depth + 1)

        def elements(value: Any) -> list[Any]:
            if not isinstance(value, list):
                raise DataError(f"the tap sent {value!r:.60} instead of a list")
            return [None if element is None else convert(element) for element in value]

        return schemas.array(item, is_optional=True), elements
    found = _PRIMITIVES.get(kind)
    return found if found is not None else (schemas.OPTIONAL_STRING, _text)


def _kind(schema: Any) -> str:
    """Returns the only type that a schema has beside null, or "" if it has none or several."""
    kinds = schema.get("type") if isinstance(schema, dict) else None
    several = [kinds] if isinstance(kinds, str) else kinds if isinstance(kinds, list) else []
    rest = {kind for kind in several if kind != "null"}
    if rest == {"integer", "number"}:
        return "number"
    return str(rest.pop()) if len(rest) == 1 else ""


def _struct(properties: Mapping[str, Any], depth: int) -> tuple[Schema, Convert]:
    parts = {name: _part(part, depth + 1) for name, part in properties.items()}
    schema = schemas.struct(
        *(Field(name, part) for name, (part, _) in parts.items()), is_optional=True
    )

    def fields(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise DataError(f"the tap sent {value!r:.60} instead of an object")
        return {
            name: None if value.get(name) is None else convert(value[name])
            for name, (_, convert) in parts.items()
        }

    return schema, fields


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _integer(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not -(1 << 63) <= value < 1 << 63:
        raise DataError(f"the tap sent {value!r:.60} instead of a whole number of 64 bits")
    return value


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise DataError(f"the tap sent {value!r:.60} instead of a number")
    return float(value)


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise DataError(f"the tap sent {value!r:.60} instead of true or false")
    return value


_PRIMITIVES: Final[dict[str, tuple[Schema, Convert]]] = {
    "integer": (Schema(Type.INT64, True), _integer),
    "number": (Schema(Type.FLOAT64, True), _number),
    "boolean": (Schema(Type.BOOLEAN, True), _boolean),
}
