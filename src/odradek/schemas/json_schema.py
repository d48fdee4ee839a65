"""JSON with a JSON Schema, checked by jsonschema.

A part that a column type cannot express (a value of several types, a recursive schema) becomes a
string with its JSON text. Nothing is lost, and Spark's JSON functions can parse it further.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

import jsonschema
from jsonschema.exceptions import SchemaError as NoSchema
from jsonschema.exceptions import ValidationError
from jsonschema.validators import validator_for
from referencing import Registry, Resource
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT7

from odradek.schemas.errors import BadPayload, BadSchema
from odradek.schemas.shape import column_name

_PRIMITIVES: Final = {
    "string": "string",
    "integer": "bigint",
    "number": "double",
    "boolean": "boolean",
    "null": "void",
}
_ANYTHING: Final = "string"


class JsonCodec:
    """Decodes and checks payloads of one schema, without their frame."""

    def __init__(self, text: str, imports: Iterable[tuple[str, str]] = ()) -> None:
        try:
            self.schema = json.loads(text)
            self._imports = {name: json.loads(imported) for name, imported in imports}
        except ValueError as error:
            raise BadSchema(f"this JSON schema is no JSON: {error}") from None
        kind = validator_for(self.schema, default=jsonschema.Draft7Validator)
        try:
            kind.check_schema(self.schema)
        except NoSchema as error:
            raise BadSchema(f"this is no JSON schema: {error.message}") from None
        known: Registry[Any] = Registry().with_resources(
            (name, Resource.from_contents(imported, default_specification=DRAFT7))
            for name, imported in self._imports.items()
        )
        self._validator = kind(self.schema, registry=known)

    def decode(self, payload: bytes) -> Any:
        try:
            value = json.loads(payload)
        except ValueError as error:
            raise BadPayload(f"a value is no JSON: {error}") from None
        self.check(value)
        return value

    def encode(self, value: Any) -> bytes:
        self.check(value)
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()

    def check(self, value: Any) -> None:
        try:
            self._validator.validate(value)
        except ValidationError as error:
            where = error.json_path
            raise BadPayload(
                f"a value does not fit its JSON schema: {where}: {error.message}"
            ) from None
        except Unresolvable as error:
            raise BadSchema(f"the JSON schema refers to {error.ref}, which is not known") from None

    def column_type(self) -> str:
        """Returns the column type of such values, in Spark's notation."""
        return _Types(self.schema, self._imports).of(self.schema)


class _Types:
    def __init__(self, root: Any, imports: Mapping[str, Any]) -> None:
        self._root = root
        self._imports = imports
        self._within: list[str] = []

    def of(self, schema: Any) -> str:
        match schema:
            case {"$ref": str(reference)}:
                found = self._reference(reference)
            case {"oneOf": members} | {"anyOf": members}:
                found = self._one_of(members)
            case {"allOf": [only]}:
                found = self.of(only)
            case {"type": list(kinds)}:
                found = self._one_of([{**schema, "type": kind} for kind in kinds if kind != "null"])
            case {"type": "object"} | {"properties": _}:
                found = self._object(schema)
            case {"type": "array", "items": dict(items)}:
                found = f"array<{self.of(items)}>"
            case {"type": "array"}:
                found = f"array<{_ANYTHING}>"
            case {"type": str(kind)}:
                found = _PRIMITIVES.get(kind, _ANYTHING)
            case _:
                found = _ANYTHING
        return found

    def _object(self, schema: Mapping[str, Any]) -> str:
        if properties := schema.get("properties"):
            fields = [
                f"{column_name(name)}: {self.of(member)}" for name, member in properties.items()
            ]
            return f"struct<{', '.join(fields)}>"
        others = schema.get("additionalProperties")
        if isinstance(others, dict):
            return f"map<string, {self.of(others)}>"
        return _ANYTHING

    def _one_of(self, schemas: list[Any]) -> str:
        """Returns the type of alternatives. A type with null as the alternative is the type itself;
        other alternatives become text."""
        members = [schema for schema in schemas if schema != {"type": "null"}]
        return self.of(members[0]) if len(members) == 1 else _ANYTHING

    def _reference(self, reference: str) -> str:
        if reference in self._within:
            return _ANYTHING
        self._within.append(reference)
        found = self.of(self._resolved(reference))
        self._within.pop()
        return found

    def _resolved(self, reference: str) -> Any:
        name, _, path = reference.partition("#")
        if name and name not in self._imports:
            raise BadSchema(f"the JSON schema refers to {reference}, which is not known")
        found = self._imports[name] if name else self._root
        for part in path.strip("/").split("/") if path.strip("/") else ():
            key = part.replace("~1", "/").replace("~0", "~")
            if not isinstance(found, dict) or key not in found:
                raise BadSchema(f"the JSON schema refers to {reference}, which is not there")
            found = found[key]
        return found
