"""Parquet and ORC, through Arrow."""

import io
from collections.abc import Sequence
from typing import Any, Final

from odradek.connect.connectors.object_sink.formats import Item, ObjectFormat, struct_of
from odradek.connect.data import schemas, values
from odradek.connect.data.schemas import Schema, Type
from odradek.connect.errors import DataError, InvalidConfig

try:
    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyarrow import orc
except ImportError as error:
    raise InvalidConfig("Arrow is not installed: pip install pyarrow") from error

_DIGITS: Final = 38
_BYTES_OF_A_NUMBER: Final = 8
_LOGICAL: Final = {
    schemas.DATE: pa.date32(),
    schemas.TIME: pa.time32("ms"),
    schemas.TIMESTAMP: pa.timestamp("ms", "UTC"),
}
_TYPES: Final = {
    Type.INT8: pa.int8(),
    Type.INT16: pa.int16(),
    Type.INT32: pa.int32(),
    Type.INT64: pa.int64(),
    Type.FLOAT32: pa.float32(),
    Type.FLOAT64: pa.float64(),
    Type.BOOLEAN: pa.bool_(),
    Type.STRING: pa.string(),
    Type.BYTES: pa.binary(),
}


def arrow_type(schema: Schema) -> Any:
    """Returns the type of Arrow for values of a schema."""
    if schema.name == schemas.DECIMAL:
        return pa.decimal128(_DIGITS, schema.scale)
    if schema.name in _LOGICAL:
        return _LOGICAL[schema.name]
    match schema.type:
        case Type.STRUCT:
            return pa.struct(_fields(schema))
        case Type.ARRAY:
            return pa.list_(arrow_type(schema.elements))
        case Type.MAP:
            assert schema.key is not None
            return pa.map_(arrow_type(schema.key), arrow_type(schema.elements))
    return _TYPES[schema.type]


def _fields(schema: Schema) -> list[Any]:
    return [
        pa.field(field.name, arrow_type(field.schema), nullable=field.schema.is_optional)
        for field in schema.fields
    ]


class Columnar(ObjectFormat):
    """Records are checked as they come, because a table is made of all or none."""

    has_schema = True

    def item(self, schema: Schema | None, value: Any) -> Item:
        values.check(struct_of(schema, value), value)
        return Item(value, _size(value))

    def content(self, schema: Schema | None, items: Sequence[Any]) -> bytes:
        assert schema is not None
        try:
            rows = [_plain(schema, item) for item in items]
            table = pa.Table.from_pylist(rows, schema=pa.schema(_fields(schema)))
        except (pa.ArrowException, ValueError, TypeError) as error:
            raise DataError(f"the records are not a table: {error}") from error
        return self._written(table)

    def _written(self, table: Any) -> bytes:
        raise NotImplementedError


class Parquet(Columnar):
    extension = ".parquet"

    def __init__(self, codec: str) -> None:
        self._codec = codec

    def _written(self, table: Any) -> bytes:
        data = io.BytesIO()
        pq.write_table(table, data, compression=self._codec)
        return data.getvalue()


class Orc(Columnar):
    extension = ".orc"

    def __init__(self, codec: str) -> None:
        self._codec = "uncompressed" if codec == "none" else codec

    def _written(self, table: Any) -> bytes:
        data = io.BytesIO()
        orc.write_table(table, data, compression=self._codec)
        return data.getvalue()


def _plain(schema: Schema, value: Any) -> Any:
    """Returns a value as Arrow takes it: maps are pairs."""
    if value is None:
        return schema.default
    match schema.type:
        case Type.STRUCT:
            return {
                field.name: _plain(field.schema, value.get(field.name)) for field in schema.fields
            }
        case Type.ARRAY:
            return [_plain(schema.elements, element) for element in value]
        case Type.MAP:
            return [(key, _plain(schema.elements, item)) for key, item in value.items()]
    return value


def _size(value: Any) -> int:
    if isinstance(value, str | bytes):
        return len(value) + _BYTES_OF_A_NUMBER
    if isinstance(value, dict):
        return sum(map(_size, value.values()))
    return sum(map(_size, value)) if isinstance(value, list) else _BYTES_OF_A_NUMBER
