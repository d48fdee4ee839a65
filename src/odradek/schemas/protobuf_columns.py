"""Protobuf messages as columns, for Spark and Arrow.

Types are those of Spark's own Protobuf functions where it has them: an enum is its name, a
`google.protobuf.Timestamp` a timestamp; an unsigned 64-bit number is a decimal of 20 digits.
"""

from collections.abc import Iterable
from decimal import Decimal
from typing import Any, Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from odradek.schemas.errors import BadSchema
from odradek.schemas.protobuf import TIMESTAMP, ProtobufCodec
from odradek.schemas.protobuf_descriptors import is_map, is_repeated
from odradek.schemas.shape import column_name

_SCALARS: Final = {
    FieldDescriptor.TYPE_DOUBLE: "double",
    FieldDescriptor.TYPE_FLOAT: "float",
    FieldDescriptor.TYPE_INT64: "bigint",
    FieldDescriptor.TYPE_SINT64: "bigint",
    FieldDescriptor.TYPE_SFIXED64: "bigint",
    FieldDescriptor.TYPE_UINT64: "decimal(20, 0)",
    FieldDescriptor.TYPE_FIXED64: "decimal(20, 0)",
    FieldDescriptor.TYPE_INT32: "int",
    FieldDescriptor.TYPE_SINT32: "int",
    FieldDescriptor.TYPE_SFIXED32: "int",
    FieldDescriptor.TYPE_UINT32: "bigint",
    FieldDescriptor.TYPE_FIXED32: "bigint",
    FieldDescriptor.TYPE_BOOL: "boolean",
    FieldDescriptor.TYPE_STRING: "string",
    FieldDescriptor.TYPE_BYTES: "binary",
    FieldDescriptor.TYPE_ENUM: "string",
}


class ProtobufColumns(ProtobufCodec):
    """Encodes and decodes payloads whose values are cells of a column of `column_type()`."""

    def column_type(self) -> str:
        return _type_of(self.descriptor, ())

    def _pairs(self, pairs: Iterable[tuple[Any, Any]]) -> Any:
        return list(pairs)

    def _unsigned(self, number: int) -> Any:
        return Decimal(number)


def _type_of(message: Descriptor, within: tuple[str, ...]) -> str:
    if message.full_name == TIMESTAMP:
        return "timestamp"
    if message.full_name in within:
        raise BadSchema(f"{message.full_name} contains itself, which a column's type cannot")
    inner = (*within, message.full_name)
    fields = [f"{column_name(field.name)}: {_field_type(field, inner)}" for field in message.fields]
    return f"struct<{', '.join(fields)}>"


def _field_type(field: FieldDescriptor, within: tuple[str, ...]) -> str:
    if is_map(field):
        key, value = field.message_type.fields
        return f"map<{_field_type(key, within)}, {_field_type(value, within)}>"
    kind = (
        _type_of(field.message_type, within)
        if field.message_type is not None
        else _SCALARS[field.type]
    )
    return f"array<{kind}>" if is_repeated(field) else kind
