"""The names of records in a schema, as ksqlDB gives them.

Avro's records need names. The outermost one is called as WITH says, a struct in the field F of it
has that name with _F, and so on; the values of a map add _MapValue.
"""

from dataclasses import replace
from typing import Final

from odradek.connect.data.schemas import Field, Schema, Type
from odradek.sql.planning.sources import AVRO_SPACE

AVRO_NAME: Final = f"{AVRO_SPACE}.KsqlDataSourceSchema"
PROTOBUF_DEFAULT: Final = "ConnectDefault"


def avro_field(name: str) -> str:
    return name.replace(".", "_")


def named_for_avro(schema: Schema, name: str) -> Schema:
    """Returns a schema with the names that Avro needs. The outermost value is never null."""
    named = _named(schema, name)
    return replace(named, is_optional=False, version=None if _is_plain(schema) else named.version)


def _is_plain(schema: Schema) -> bool:
    return schema.type.is_primitive


def _named(schema: Schema, name: str) -> Schema:
    match schema.type:
        case Type.STRUCT:
            fields = tuple(
                Field(avro_field(part.name), _named(part.schema, f"{name}_{part.name}"))
                for part in schema.fields
            )
            return replace(schema, name=schema.name or name, fields=fields)
        case Type.ARRAY:
            return replace(schema, item=_named(schema.elements, name))
        case Type.MAP:
            assert schema.key is not None
            return replace(
                schema, name=name, key=_named(schema.key, f"{name}_MapKey"),
                item=_named(schema.elements, f"{name}_MapValue"),
            )  # fmt: skip
    return schema


def named_for_protobuf(schema: Schema, name: str | None) -> Schema:
    """Returns a schema whose outermost message has a name of its own, if there is one."""
    if name is None or name.startswith(PROTOBUF_DEFAULT) or schema.type is not Type.STRUCT:
        return schema
    return replace(schema, name=name)
