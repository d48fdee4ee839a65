"""Change events with schemas: `output.format.*=schema`.

A key or an event has a schema that never changes: `KEY` and `EVENT`, in which documents are texts
of JSON. With `output.schema.infer.value` each value has the schema that its own document shows:

1. Fields are in the order of their names, `_id` first, and all may be null.
2. A struct or an array has the path of its field as its name, `default` at the top.
3. The elements of an array have one schema, which structs are merged for; where they do not fit
   each other, they are texts. So is null alone, and what Kafka Connect has no type for.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import Any, Final

import bson
from bson.binary import Binary
from bson.code import Code
from bson.datetime_ms import DatetimeMS
from bson.decimal128 import Decimal128
from bson.int64 import Int64
from bson.timestamp import Timestamp

from odradek.connect.data import schemas
from odradek.connect.data.schemas import Field, Schema, Type, struct
from odradek.connect.data.values import any_timestamp, decimal_scale
from odradek.connect.errors import DataError

AsText = Callable[[Mapping[str, Any]], str]
_ID: Final = "_id"
_TOP: Final = "default"
_NUMBERS: Final = frozenset({Type.INT32, Type.INT64, Type.FLOAT64})
_TEXT: Final = schemas.OPTIONAL_STRING
_LONG: Final = schemas.INT64.optional()
# The schema of null, which every other one takes the place of. It is known by its identity.
_NOTHING: Final = replace(schemas.STRING, is_optional=True)

KEY: Final = struct(Field(_ID, schemas.STRING), name="keySchema")


def _place(name: str) -> Schema:
    return struct(Field("db", schemas.STRING), Field("coll", _TEXT), name=name, is_optional=True)


_TRUNCATED: Final = struct(
    Field("field", schemas.STRING), Field("newSize", schemas.INT32), name="truncatedArray"
)
_DESCRIPTION: Final = struct(
    Field("updatedFields", _TEXT),
    Field("removedFields", schemas.array(schemas.STRING, is_optional=True)),
    Field("truncatedArrays", schemas.array(_TRUNCATED, is_optional=True)),
    Field("disambiguatedPaths", _TEXT),
    name="updateDescription",
    is_optional=True,
)
_SESSION: Final = struct(
    Field("id", schemas.STRING), Field("uid", schemas.STRING), name="lsid", is_optional=True
)
EVENT: Final = struct(
    Field(_ID, schemas.STRING),
    Field("operationType", _TEXT),
    Field("fullDocumentBeforeChange", _TEXT),
    Field("fullDocument", _TEXT),
    Field("ns", _place("ns")),
    Field("to", _place("to")),
    Field("documentKey", _TEXT),
    Field("updateDescription", _DESCRIPTION),
    Field("clusterTime", _TEXT),
    Field("wallTime", _LONG),
    Field("txnNumber", _LONG),
    Field("lsid", _SESSION),
    name="ChangeStream",
)


# Schemas of documents


def inferred(document: Mapping[str, Any]) -> Schema:
    """Returns the schema of a document. Raises `DataError`."""
    return replace(_of_document(_TOP, document), is_optional=False)


def _of_document(path: str, document: Mapping[str, Any]) -> Schema:
    names = sorted(document, key=lambda name: (name != _ID, name))
    fields = [Field(name, _of_value(_path(path, name), document[name])) for name in names]
    return struct(*fields, name=path, is_optional=True)


def _path(path: str, name: str) -> str:
    return name if path == _TOP or name == _ID else f"{path}_{name}"


def _of_value(path: str, value: Any) -> Schema:
    if isinstance(value, Mapping):
        return _of_document(path, value)
    if isinstance(value, list):
        item = _NOTHING
        for element in value:
            item = _combined(item, _of_value(path, element))
        return replace(schemas.array(item, is_optional=True), name=path)
    if value is None:
        return _NOTHING
    if isinstance(value, Decimal128):
        return schemas.decimal(decimal_scale(_number(value))).optional()
    for kinds, schema in _PLAIN:
        if isinstance(value, kinds):
            return schema
    return _TEXT


_PLAIN: Final[tuple[tuple[tuple[type, ...], Schema], ...]] = (
    ((bool,), schemas.BOOLEAN.optional()),
    ((Int64,), _LONG),
    ((int,), schemas.INT32.optional()),
    ((float,), schemas.FLOAT64.optional()),
    ((DatetimeMS, datetime, Timestamp), schemas.timestamp().optional()),
    ((bytes, Binary), schemas.BYTES.optional()),
)


def _combined(first: Schema, second: Schema) -> Schema:
    """Returns the schema of values that have one or the other."""
    if first is _NOTHING or first == second:
        return second
    if second is _NOTHING:
        return first
    if first.type is second.type is Type.ARRAY:
        return replace(first, item=_combined(first.elements, second.elements))
    if first.type is second.type is Type.STRUCT:
        fields = {field.name: field.schema for field in first.fields}
        for field in second.fields:
            known = fields.get(field.name)
            fields[field.name] = field.schema if known is None else _combined(known, field.schema)
        names = sorted(fields, key=lambda name: (name != _ID, name))
        return first.with_fields(tuple(Field(name, fields[name]) for name in names))
    return _TEXT


# Values


def fitted(schema: Schema, value: Any, as_text: AsText) -> Any:
    """Returns a value of a document as its schema wants it. `as_text` writes documents as JSON.
    Raises `DataError`."""
    if value is None and schema.is_optional:
        return None
    if schema.type is Type.STRING:
        return _text(value, as_text)
    if schema.type is Type.STRUCT and isinstance(value, Mapping):
        return {field.name: _field(field, value, as_text) for field in schema.fields}
    if schema.type is Type.ARRAY and isinstance(value, list):
        return [fitted(schema.elements, element, as_text) for element in value]
    return _plain(schema, value)


def _plain(schema: Schema, value: Any) -> Any:
    if schema.type is Type.BYTES:
        return _bytes(schema, value)
    if schema.type is Type.BOOLEAN and isinstance(value, bool):
        return value
    if schema.type in _NUMBERS and not isinstance(value, bool):
        return _numeric(schema, value)
    raise DataError(f"a value of {type(value).__name__} is where {schema.type} is due")


def _field(field: Field, document: Mapping[str, Any], as_text: AsText) -> Any:
    if field.name not in document and not field.schema.is_optional:
        raise DataError(f"a document has no field {field.name}")
    return fitted(field.schema, document.get(field.name), as_text)


def _text(value: Any, as_text: AsText) -> str:
    if isinstance(value, str) and not isinstance(value, Code):
        return value
    if isinstance(value, Mapping):
        return as_text(value)
    written = as_text({"v": value})[len('{"v": ') : -1]
    return written[1:-1] if written.startswith('"') and written.endswith('"') else written


def _bytes(schema: Schema, value: Any) -> Any:
    if isinstance(value, Decimal128) and schema.name == schemas.DECIMAL:
        return _number(value)
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, Mapping):
        return bson.encode(value)
    if isinstance(value, bytes):
        return bytes(value)
    raise DataError(f"a value of {type(value).__name__} is where bytes are due")


def _numeric(schema: Schema, value: Any) -> Any:
    if isinstance(value, Timestamp):
        number: Any = value.time * 1000
    elif isinstance(value, datetime):
        number = DatetimeMS(value)
    else:
        number = value
    if not isinstance(number, int | float | DatetimeMS):
        raise DataError(f"a value of {type(value).__name__} is where a number is due")
    if schema.type is Type.FLOAT64:
        return float(int(number) if isinstance(number, DatetimeMS) else number)
    whole = int(number)
    return any_timestamp(whole) if schema.name == schemas.TIMESTAMP else whole


def _number(value: Decimal128) -> Decimal:
    try:
        found = value.to_decimal()
    except InvalidOperation as error:
        raise DataError(f"{value} cannot be written with a schema") from error
    if not found.is_finite():
        raise DataError(f"{value} is not a number, so it has no schema")
    return found
