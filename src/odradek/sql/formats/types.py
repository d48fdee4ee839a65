"""Columns as Connect's schemas, and values both ways.

ksqlDB writes Avro, Protobuf and JSON Schema through Kafka Connect's converters, so the schemas of
its topics are those that Connect makes. The converters of `odradek.connect.converters` make the
same; here is what stands between them and the types of SQL. All columns and fields may be null.
"""

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any, Final

from odradek.connect.data import schemas, values
from odradek.connect.data.schemas import Field, Schema, Type
from odradek.streams.formats.columns import BadRow, decimal_of, text_of
from odradek.streams.plan.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    INTEGER,
    STRING,
    TIME,
    TIMESTAMP,
    ArrayType,
    DecimalType,
    MapType,
    SqlType,
    StructType,
)

Convert = Callable[[Any], Any]
PRECISION: Final = "connect.decimal.precision"
_DEFAULT_PRECISION: Final = 64
_SCHEMAS: Final[dict[SqlType, Schema]] = {
    BOOLEAN: schemas.BOOLEAN.optional(),
    INTEGER: schemas.INT32.optional(),
    BIGINT: schemas.INT64.optional(),
    DOUBLE: schemas.FLOAT64.optional(),
    STRING: schemas.OPTIONAL_STRING,
    BYTES: schemas.BYTES.optional(),
    DATE: schemas.date(is_optional=True),
    TIME: schemas.time(is_optional=True),
    TIMESTAMP: schemas.timestamp(is_optional=True),
}


def schema_of(kind: SqlType) -> Schema:
    """Returns the schema of a column; structs in it have no names."""
    if isinstance(kind, DecimalType):
        made = schemas.decimal(kind.scale, is_optional=True)
        return replace(made, parameters={**made.parameters, PRECISION: str(kind.precision)})
    if isinstance(kind, ArrayType):
        return schemas.array(schema_of(kind.element), is_optional=True)
    if isinstance(kind, MapType):
        return schemas.map_of(schema_of(kind.key), schema_of(kind.value), is_optional=True)
    if isinstance(kind, StructType):
        fields = (Field(name, schema_of(one)) for name, one in kind.fields)
        return schemas.struct(*fields, is_optional=True)
    return _SCHEMAS[kind]


class Unsupported(ValueError):
    """A schema has no type in SQL."""


_KINDS: Final[dict[Type, SqlType]] = {
    Type.INT8: INTEGER, Type.INT16: INTEGER, Type.INT32: INTEGER, Type.INT64: BIGINT,
    Type.FLOAT32: DOUBLE, Type.FLOAT64: DOUBLE, Type.BOOLEAN: BOOLEAN, Type.STRING: STRING,
    Type.BYTES: BYTES,
}  # fmt: skip
_LOGICAL: Final = {
    (schemas.DATE, Type.INT32): DATE,
    (schemas.TIME, Type.INT32): TIME,
    (schemas.TIMESTAMP, Type.INT64): TIMESTAMP,
}
_MAP_KEYS: Final = (INTEGER, BIGINT, BOOLEAN, STRING)


def kind_of(schema: Schema, rename: Callable[[str], str]) -> SqlType:
    """Returns the type of a schema of anybody. `rename` makes the names of columns and fields of
    those of the schema. A field that has no type in SQL is left out. Raises `Unsupported`."""
    if schema.name == schemas.DECIMAL:
        precision = int(schema.parameters.get(PRECISION, _DEFAULT_PRECISION))
        return DecimalType(precision, schema.scale)
    match schema.type:
        case Type.ARRAY:
            return ArrayType(kind_of(schema.elements, rename))
        case Type.MAP:
            assert schema.key is not None
            if kind_of(schema.key, rename) not in _MAP_KEYS:
                raise Unsupported(f"Unsupported type for map key: {schema.key.type}")
            return MapType(STRING, kind_of(schema.elements, rename))
        case Type.STRUCT:
            fields: dict[str, SqlType] = {}
            for part in schema.fields:
                try:
                    fields[rename(part.name)] = kind_of(part.schema, rename)
                except Unsupported:
                    continue
            return StructType(tuple(fields.items()))
    return _LOGICAL.get((schema.name or "", schema.type)) or _KINDS[schema.type]


# Values of SQL as Connect's


def into(kind: SqlType, name_of: Convert) -> Convert:
    """Returns what makes Connect's value of one of SQL, null excepted. `name_of` makes the names of
    a schema's fields of those of a struct."""
    if isinstance(kind, ArrayType):
        return _each(or_null(into(kind.element, name_of)))
    if isinstance(kind, MapType):
        of_key, of_value = into(kind.key, name_of), or_null(into(kind.value, name_of))
        return lambda value: {of_key(key): of_value(item) for key, item in value.items()}
    if isinstance(kind, StructType):
        parts = [(name, name_of(name), or_null(into(one, name_of))) for name, one in kind.fields]
        return lambda value: {own: convert(value.get(name)) for name, own, convert in parts}
    if isinstance(kind, DecimalType):
        return lambda value: decimal_of(value, kind)
    return _INTO.get(kind.name, _same)


def _each(convert: Convert) -> Convert:
    return lambda found: [convert(one) for one in found]


def or_null(convert: Convert) -> Convert:
    return lambda value: None if value is None else convert(value)


def _same(value: Any) -> Any:
    return value


_INTO: Final[dict[str, Convert]] = {
    "DATE": values.days_to_date,
    "TIME": values.ms_to_time,
    "TIMESTAMP": values.ms_to_timestamp,
    "DOUBLE": float,
}


# Values of Connect as SQL's

_WHOLE: Final = (Type.INT8, Type.INT16, Type.INT32)
_ACCEPTED: Final[dict[str, tuple[Type, ...]]] = {
    "BOOLEAN": (Type.BOOLEAN,), "INTEGER": _WHOLE, "DATE": _WHOLE, "TIME": _WHOLE,
    "BIGINT": (*_WHOLE, Type.INT64), "TIMESTAMP": (*_WHOLE, Type.INT64),
    "DOUBLE": (Type.FLOAT32, Type.FLOAT64), "BYTES": (Type.BYTES,), "DECIMAL": (Type.BYTES,),
    "STRING": (*_WHOLE, Type.INT64, Type.FLOAT32, Type.FLOAT64, Type.BOOLEAN, Type.STRING),
    "ARRAY": (Type.ARRAY,), "MAP": (Type.MAP,), "STRUCT": (Type.STRUCT,),
}  # fmt: skip
_PLAIN: Final[dict[str, Convert]] = {
    schemas.DATE: values.date_to_days,
    schemas.TIME: values.time_to_ms,
    schemas.TIMESTAMP: values.timestamp_to_ms,
}


def out_of(schema: Schema, kind: SqlType, path: str = "") -> Convert:
    """Returns what makes a value of SQL of one of Connect, null excepted. Raises `BadRow` if values
    of the schema are not read as the type: none is narrowed, as in ksqlDB."""
    if schema.type not in _ACCEPTED[kind.name]:
        raise BadRow(
            f"Cannot deserialize type {schema.type} as type {kind.name} for path: {path or 'root'}"
        )
    if isinstance(kind, StructType):
        return _fields_out(schema, kind, path)
    if isinstance(kind, ArrayType):
        return _each(or_null(out_of(schema.elements, kind.element, f"{path}->ARRAY")))
    if isinstance(kind, MapType):
        assert schema.key is not None
        of_key = out_of(schema.key, kind.key, f"{path}->MAP_KEY")
        of_value = or_null(out_of(schema.elements, kind.value, f"{path}->MAP_VAL"))
        return lambda value: {of_key(key): of_value(item) for key, item in value.items()}
    if isinstance(kind, DecimalType):
        return lambda value: _decimal(value, kind)
    plain = _PLAIN.get(schema.name or "", _same)
    if kind == STRING:
        return lambda value: text_of(plain(value), STRING)
    return {"DOUBLE": float, "BYTES": bytes}.get(kind.name, plain)


def _decimal(value: Any, kind: DecimalType) -> Decimal:
    if not isinstance(value, Decimal):
        raise BadRow(f"{value!r} is no {kind}")
    return decimal_of(value, kind)


def _fields_out(schema: Schema, kind: StructType, path: str) -> Convert:
    pick = picker(schema, kind.fields, path)
    names = [name for name, _ in kind.fields]
    return lambda value: dict(zip(names, pick(value), strict=True))


def picker(
    schema: Schema, fields: tuple[tuple[str, SqlType], ...], path: str = ""
) -> Callable[[Any], tuple[Any, ...]]:
    """Returns what takes the values of fields out of a struct. A field of the schema is found by
    its name as it is, or in capitals; one that the schema does not have is null."""
    kinds = dict(fields)
    found: dict[str, tuple[str, Convert]] = {}
    for part in schema.fields:
        name = part.name if part.name in kinds else part.name.upper()
        if name in kinds:
            convert = or_null(out_of(part.schema, kinds[name], f"{path}->{name}"))
            found[name] = (part.name, convert)
    missing = ("", lambda _: None)
    parts = [found.get(name, missing) for name, _ in fields]
    return lambda value: tuple([convert(value.get(name)) for name, convert in parts])
