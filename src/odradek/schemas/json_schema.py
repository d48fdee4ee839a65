"""JSON with a JSON Schema, checked by jsonschema-rs.

Schemas and values come from anybody. jsonschema-rs matches patterns and follows references in
bounded time, where Python's `re` takes years for some patterns and holds the interpreter
meanwhile. It may look for references in the network and in files: it is told to look only among the
references that were given (docs/decisions/0058-json-schema.md).

A part that a column type cannot express (a value of several types, a recursive schema) becomes a
string with its JSON text. Nothing is lost, and Spark's JSON functions can parse it further.
"""

import json
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any, Final

import jsonschema
from jsonschema.exceptions import SchemaError as NoSchema
from jsonschema.validators import validator_for

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
            raise BadSchema(f"this JSON schema is not JSON: {error}") from None
        kind = validator_for(self.schema, default=jsonschema.Draft7Validator)
        try:
            kind.check_schema(self.schema)
        except NoSchema as error:
            raise BadSchema(f"this is not a JSON schema: {error.message}") from None

    @property
    def title(self) -> str | None:
        """The name that a schema has as a record."""
        found = self.schema.get("title") if isinstance(self.schema, dict) else None
        return found if isinstance(found, str) else None

    def decode(self, payload: bytes) -> Any:
        try:
            value = json.loads(payload)
        except ValueError as error:
            raise BadPayload(f"a value is not JSON: {error}") from None
        except RecursionError:
            raise BadPayload("a value is nested too deeply") from None
        self.check(value)
        return value

    def encode(self, value: Any) -> bytes:
        self.check(value)
        return _dumped(value).encode()

    def check(self, value: Any) -> None:
        """Raises `BadPayload`, or `BadSchema` if the schema cannot be used."""
        try:
            if self._validator.is_valid(value):
                return
        except (ValueError, TypeError) as error:
            raise BadPayload(f"a value cannot be checked by its JSON schema: {error}") from None
        raise BadPayload(f"a value does not fit its JSON schema: {self._mistake(value)}")

    def _mistake(self, value: Any) -> str:
        """Returns the first mistake of a value, and where it is. To list all of them may take
        years."""
        import jsonschema_rs  # noqa: PLC0415 - large, and only for values

        try:
            self._validator.validate(value)
        except jsonschema_rs.ValidationError as error:
            where = "".join(_step(step) for step in error.instance_path)
            return f"${where}: {error.message}"
        raise AssertionError("the value fits")

    @cached_property
    def _validator(self) -> Any:
        """Made when the first value is checked: a schema that refers to others, which are not
        given, can still be shown."""
        import jsonschema_rs  # noqa: PLC0415 - large, and only for values

        unknown = []

        def reference(url: str) -> Any:
            """Returns what a schema refers to. Nothing is fetched."""
            name = url if url in self._imports else url.removeprefix(_BASE)
            if name not in self._imports:
                unknown.append(name)
                raise LookupError(name)
            return _with_dialect(self._imports[name])

        try:
            return jsonschema_rs.validator_for(
                _with_dialect(self.schema),
                retriever=reference,
                validate_formats=False,
                keywords=dict.fromkeys(_ANNOTATIONS, _Annotation),
            )
        except ValueError as error:
            if unknown:
                problem = f"the JSON schema refers to {unknown[0]}, which is not known"
            else:
                problem = f"this JSON schema cannot be used: {str(error).partition(_LINE)[0]}"
            raise BadSchema(problem) from None

    def column_type(self) -> str:
        """Returns the column type of such values, in Spark's notation."""
        return _Types(self.schema, self._imports).of(self.schema)


_dumped: Final = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode
_DRAFT7: Final = "http://json-schema.org/draft-07/schema#"
_LINE: Final = "\n"
# What jsonschema-rs puts before a reference that is relative.
_BASE: Final = "json-schema:///"
# Draft 7 lets a validator choose whether it checks them. Confluent's does not.
_ANNOTATIONS: Final = ("contentEncoding", "contentMediaType")


class _Annotation:
    """A keyword that is not checked."""

    def __init__(self, *_: object) -> None:
        pass

    def validate(self, _: object) -> None:
        pass


def _with_dialect(schema: Any) -> Any:
    """Returns a schema with the draft by which it is checked: 7, unless it names one that is
    known."""
    if not isinstance(schema, dict) or validator_for(schema, default=None) is not None:
        return schema
    return {**schema, "$schema": _DRAFT7}


def _step(step: str | int) -> str:
    """Returns a step of a JSON path."""
    if isinstance(step, int):
        return f"[{step}]"
    return f".{step}" if step.isidentifier() else f"[{json.dumps(step, ensure_ascii=False)}]"


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
