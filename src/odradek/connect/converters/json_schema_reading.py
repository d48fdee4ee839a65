"""Converts JSON Schemas to schemas of Connect; `json_schema_writing` is the other direction.

Schemas that no converter has written are read too. Their numbers are int64 and double. A union
(`oneOf`, `anyOf`, several types) is a struct with a field for each type. `allOf` is one struct with
the fields of all its parts. Connect has no recursive schemas, so these are refused.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

from odradek.connect.converters.json_schema_writing import (
    CONNECT_TYPES,
    ENUM,
    NULL_SYMBOL,
    ONE_OF,
    JsonSchemaConverterSettings,
    field_of_union,
)
from odradek.connect.data import schemas
from odradek.connect.data.schemas import Field, Schema, Type
from odradek.connect.errors import DataError

_BY_NAME: Final = {name: kind for kind, (_, name) in CONNECT_TYPES.items()}
_NULL: Final = {"type": "null"}


class ConnectSchemas:
    """Converts one JSON Schema. `imports` are the documents that it refers to, by name. `read`
    converts a value; it is used for defaults."""

    def __init__(
        self,
        root: Any,
        imports: Mapping[str, Any],
        settings: JsonSchemaConverterSettings,
        read: Callable[[Schema, Any], Any],
    ) -> None:
        self._root = root
        self._imports = imports
        self._settings = settings
        self._read = read
        self._open: list[str] = []
        """The references that are being followed, to notice recursion."""

    def schema(self) -> Schema:
        return self._of(self._root)

    def _of(self, given: Any, is_optional: bool = False) -> Schema:
        if not isinstance(given, dict) or not given:
            raise DataError("a part of the JSON Schema has no type, and Connect needs one")
        if "$ref" in given:
            return self._referred(given["$ref"], is_optional)
        members = self._members(given)
        if members is not None:
            return self._union(given, members, is_optional)
        has_all_of = isinstance(given.get("allOf"), list)
        made = self._all_of(given) if has_all_of else self._base(given)
        return self._described(made, given, is_optional)

    def _referred(self, reference: str, is_optional: bool) -> Schema:
        with self._following(reference):
            return self._of(self._target(reference), is_optional)

    @contextmanager
    def _following(self, reference: str) -> Iterator[None]:
        """Raises `DataError` if the reference is being followed already."""
        if reference in self._open:
            raise DataError(
                f"the JSON Schema's {reference} contains itself: Connect has no recursive schemas"
            )
        self._open.append(reference)
        yield
        self._open.pop()

    def _target(self, reference: str) -> Any:
        name, _, path = reference.partition("#")
        if name and name not in self._imports:
            raise DataError(
                f"the JSON Schema refers to {reference}, which is not one of its references"
            )
        found = self._imports[name] if name else self._root
        for part in filter(None, path.split("/")):
            key = part.replace("~1", "/").replace("~0", "~")
            if not isinstance(found, dict) or key not in found:
                raise DataError(f"the JSON Schema refers to {reference}, which does not exist")
            found = found[key]
        return found

    @staticmethod
    def _members(given: Mapping[str, Any]) -> list[Any] | None:
        """Returns the alternatives of a union; None if it is not one."""
        for name in ("oneOf", "anyOf"):
            if isinstance(given.get(name), list):
                return list(given[name])
        kinds = given.get("type")
        if isinstance(kinds, list):
            rest = {name: part for name, part in given.items() if name != "type"}
            return [_NULL if kind == "null" else {**rest, "type": kind} for kind in kinds]
        return None

    def _union(self, given: Mapping[str, Any], members: list[Any], is_optional: bool) -> Schema:
        rest = [member for member in members if member.get("type") != "null"]
        has_null = len(rest) < len(members)
        is_flat = has_null or self._settings.flatten_singleton_unions
        if len(rest) == 1 and is_flat:
            return self._of(rest[0], is_optional or has_null)
        fields = [
            Field(field_of_union(index), self._of(member, True))
            for index, member in enumerate(rest)
        ]
        made = schemas.struct(*fields, name=ONE_OF)
        return self._described(made, given, is_optional or has_null)

    def _all_of(self, given: Mapping[str, Any]) -> Schema:
        parts = list(self._flattened(given))
        properties: dict[str, Any] = {}
        required: set[str] = set()
        for part in parts:
            properties |= part.get("properties") or {}
            required |= set(part.get("required") or ())
        if properties:
            return self._struct({"properties": properties, "required": required})
        if not parts:
            raise DataError("the allOf of a JSON Schema has no type")
        return self._of(next((part for part in parts if "enum" not in part), parts[0]))

    def _flattened(self, given: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Returns the parts of an `allOf`, and of those within its parts."""
        for member in given.get("allOf") or ():
            if isinstance(member, dict) and "$ref" in member:
                with self._following(member["$ref"]):
                    yield from self._parts(self._target(member["$ref"]))
            else:
                yield from self._parts(member)
        own = {name: part for name, part in given.items() if name in {"properties", "required"}}
        if own:
            yield own

    def _parts(self, member: Any) -> Iterator[dict[str, Any]]:
        if isinstance(member, dict):
            yield from self._flattened(member)
            if "allOf" not in member:
                yield member

    def _base(self, given: Mapping[str, Any]) -> Schema:
        connect_type = given.get("connect.type")
        if "enum" in given or "const" in given:
            return _enum(given["enum"] if "enum" in given else [given["const"]])
        match given.get("type"):
            case "boolean":
                found = schemas.BOOLEAN
            case "integer":
                found = Schema(_BY_NAME.get(str(connect_type), Type.INT64))
            case "number" if connect_type == "bytes":
                found = schemas.BYTES
            case "number":
                found = Schema(_BY_NAME.get(str(connect_type), Type.FLOAT64))
            case "string":
                found = schemas.BYTES if connect_type == "bytes" else schemas.STRING
            case "array":
                found = self._array(given, connect_type)
            case "object" if connect_type == "map":
                found = schemas.map_of(schemas.STRING, self._of(given.get("additionalProperties")))
            case "object":
                found = self._struct(given)
            case None if "properties" in given:
                found = self._struct(given)
            case _:
                raise DataError(f"a part of the JSON Schema has the type {given.get('type')!r}")
        return found

    def _array(self, given: Mapping[str, Any], connect_type: Any) -> Schema:
        items = given.get("items")
        if not isinstance(items, dict):
            raise DataError("an array of the JSON Schema has no type for its items")
        if connect_type == "map" and isinstance(items.get("properties"), dict):
            parts = items["properties"]
            return schemas.map_of(self._of(parts.get("key")), self._of(parts.get("value")))
        return schemas.array(self._of(items))

    def _struct(self, given: Mapping[str, Any]) -> Schema:
        required = set(given.get("required") or ())
        ordered: dict[int, tuple[str, Any]] = {}
        for name, part in (given.get("properties") or {}).items():
            index = part.get("connect.index") if isinstance(part, dict) else None
            ordered[len(ordered) if index is None else int(index)] = name, part
        fields = []
        for _, (name, part) in sorted(ordered.items()):
            is_optional = self._settings.use_optional_for_nonrequired and name not in required
            fields.append(Field(name, self._of(part, is_optional)))
        return schemas.struct(*fields)

    def _described(self, made: Schema, given: Mapping[str, Any], is_optional: bool) -> Schema:
        parameters = given.get("connect.parameters")
        own = parameters if isinstance(parameters, dict) else {}
        version = given.get("connect.version")
        made = replace(
            made,
            is_optional=is_optional,
            name=made.name or given.get("title"),
            version=made.version if version is None else int(version),
            doc=given.get("description"),
            parameters={**made.parameters, **{name: str(text) for name, text in own.items()}},
        )
        if given.get("default") is not None:
            made = replace(made, default=self._read(made, given["default"]))
        return made


def _enum(symbols: list[Any]) -> Schema:
    """Returns the schema of an enum: a string, whatever its values are, with the values as
    parameters. Enums have no name in JSON Schema."""
    names = [NULL_SYMBOL if symbol is None else str(symbol) for symbol in symbols]
    parameters = {ENUM: "", **{f"{ENUM}.{name}": name for name in names}}
    return Schema(Type.STRING, parameters=parameters)
