"""Schemas as Kafka Connect's JsonConverter writes them into JSON, and reads them from it.

{"type": "struct", "fields": [{"type": "int32", "optional": false, "field": "id"}],
 "optional": false, "name": "orders"}
"""

from dataclasses import replace
from typing import Any, Final

from odradek.connect.data import values
from odradek.connect.data.schemas import Field, Schema, Type
from odradek.connect.errors import DataError

_TYPES: Final = {kind.value: kind for kind in Type}


def schema_to_json(schema: Schema, default: Any) -> dict[str, Any]:
    """Returns the schema as a dict for JSON. `default` writes a default value."""
    written: dict[str, Any] = {"type": schema.type.value}
    if schema.type is Type.ARRAY:
        written["items"] = schema_to_json(schema.elements, default)
    elif schema.type is Type.MAP:
        assert schema.key is not None
        written["keys"] = schema_to_json(schema.key, default)
        written["values"] = schema_to_json(schema.elements, default)
    elif schema.type is Type.STRUCT:
        written["fields"] = [
            {**schema_to_json(part.schema, default), "field": part.name} for part in schema.fields
        ]
    written["optional"] = schema.is_optional
    if schema.name is not None:
        written["name"] = schema.name
    if schema.version is not None:
        written["version"] = schema.version
    if schema.doc is not None:
        written["doc"] = schema.doc
    if schema.parameters:
        written["parameters"] = dict(schema.parameters)
    if schema.default is not None:
        written["default"] = default(schema, schema.default)
    return written


def schema_from_json(written: Any, default: Any) -> Schema | None:
    """Reads a schema; `default` reads a default value. Raises `DataError`."""
    if written is None:
        return None
    if not isinstance(written, dict):
        raise DataError(f"a schema is an object in JSON, and this is {type(written).__name__}")
    kind = _TYPES.get(str(written.get("type")))
    if kind is None:
        raise DataError(f"{written.get('type')!r} is not a type of a schema: {', '.join(_TYPES)}")
    key = item = None
    fields: tuple[Field, ...] = ()
    if kind is Type.ARRAY:
        item = _part(written, "items", default)
    elif kind is Type.MAP:
        key, item = _part(written, "keys", default), _part(written, "values", default)
    elif kind is Type.STRUCT:
        fields = _fields(written.get("fields"), default)
    parameters = _object(written, "parameters")
    schema = Schema(
        kind,
        is_optional=bool(_typed(written, "optional", bool) or False),
        name=_typed(written, "name", str),
        version=_typed(written, "version", int),
        doc=_typed(written, "doc", str),
        parameters={name: str(text) for name, text in parameters.items()},
        fields=fields,
        key=key,
        item=item,
    )
    if written.get("default") is None:
        return schema
    with_default = replace(schema, default=default(schema, written["default"]))
    values.check(with_default, with_default.default, "the default")
    return with_default


def _fields(written: Any, default: Any) -> tuple[Field, ...]:
    if not isinstance(written, list):
        raise DataError("the schema of a struct needs a list `fields`")
    fields = []
    for part in written:
        name = part.get("field") if isinstance(part, dict) else None
        if not isinstance(name, str):
            raise DataError("each of the `fields` of a struct needs its name as `field`")
        schema = schema_from_json(part, default)
        assert schema is not None
        fields.append(Field(name, schema))
    return tuple(fields)


def _part(written: dict[str, Any], name: str, default: Any) -> Schema:
    schema = schema_from_json(written.get(name), default)
    if schema is None:
        raise DataError(f"the schema of {written['type']} lacks {name!r}")
    return schema


def _typed(written: dict[str, Any], name: str, kind: type) -> Any:
    value = written.get(name)
    if value is not None and not isinstance(value, kind):
        raise DataError(f"{name!r} of a schema is {value!r:.40}, not of the right type")
    return value


def _object(written: dict[str, Any], name: str) -> dict[str, Any]:
    return _typed(written, name, dict) or {}


def is_envelope(written: Any) -> bool:
    """Whether JSON is a schema and the value that belongs to it."""
    return isinstance(written, dict) and written.keys() == {"schema", "payload"}
