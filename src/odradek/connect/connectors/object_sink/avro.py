"""Avro files: the schema once, then the records."""

import io
import re
from collections.abc import Sequence
from typing import Any, Final

from odradek.connect.connectors.object_sink.formats import Item, ObjectFormat, struct_of
from odradek.connect.converters.avro_schemas import PRIMITIVES
from odradek.connect.data import schemas, values
from odradek.connect.data.schemas import Schema, Type
from odradek.connect.errors import DataError, InvalidConfig
from odradek.world.installing import install_line

try:
    import fastavro
except ImportError as error:
    raise InvalidConfig(f"Avro is not installed: {install_line('schemas')}") from error

_LOGICAL: Final[dict[str, dict[str, Any]]] = {
    schemas.DATE: {"type": "int", "logicalType": "date"},
    schemas.TIME: {"type": "int", "logicalType": "time-millis"},
    schemas.TIMESTAMP: {"type": "long", "logicalType": "timestamp-millis"},
}
_NO_NAME: Final = re.compile(r"[^A-Za-z0-9_.]")
_DIGITS: Final = 64


def avro_schema(schema: Schema, name: str = "Record") -> Any:
    """Returns the schema as Avro has it. Records inside get names by their place."""
    found = _without_null(schema, name)
    return ["null", found] if schema.is_optional else found


def _without_null(schema: Schema, name: str) -> Any:
    if schema.name == schemas.DECIMAL:
        parts = {"precision": _DIGITS, "scale": schema.scale}
        return {"type": "bytes", "logicalType": "decimal", **parts}
    if schema.name in _LOGICAL:
        return _LOGICAL[schema.name]
    match schema.type:
        case Type.STRUCT:
            own = _NO_NAME.sub("_", schema.name or name)
            fields = [
                {"name": field.name, "type": avro_schema(field.schema, f"{own}_{field.name}")}
                for field in schema.fields
            ]
            return {"type": "record", "name": own, "fields": fields}
        case Type.ARRAY:
            return {"type": "array", "items": avro_schema(schema.elements, f"{name}_item")}
        case Type.MAP:
            return {"type": "map", "values": avro_schema(schema.elements, f"{name}_item")}
    return PRIMITIVES[schema.type]


class Avro(ObjectFormat):
    extension = ".avro"
    has_schema = True

    def __init__(self, codec: str) -> None:
        self._codec = codec

    def item(self, schema: Schema | None, value: Any) -> Item:
        values.check(struct_of(schema, value), value)
        return Item(value, len(str(value)))

    def content(self, schema: Schema | None, items: Sequence[Any]) -> bytes:
        assert schema is not None
        data = io.BytesIO()
        try:
            parsed = fastavro.parse_schema(_without_null(schema, "Record"))
            # The marker between blocks is random otherwise, and the bytes would not be the same.
            fastavro.writer(data, parsed, items, codec=self._codec, sync_marker=bytes(16))
        except (ValueError, TypeError, fastavro.schema.SchemaParseException) as error:
            raise DataError(f"the records are not Avro: {error}") from error
        return data.getvalue()
