"""What expressions see of a record."""

from typing import Any, Final

from odradek.connect.data import schemas
from odradek.connect.data.schemas import Schema
from odradek.connect.data.values import ms_to_timestamp
from odradek.connect.expressions.compiling import Compiled, Scope
from odradek.connect.records import Record, SinkRecord
from odradek.connect.transforms.transform import Side

_NO_FIELDS: Final = schemas.struct()


def field_scope(side: Side, key: Schema | None, value: Schema | None) -> Scope:
    """Returns the scope in which bare names are fields of the key or of the value."""
    schema = key if side is Side.KEY else value
    return Scope(schema, side.content, _special(key, value))


def record_scope(key: Schema | None, value: Schema | None) -> Scope:
    """Returns the scope in which `key`, `value`, `topic` and so on are all the names there are."""
    return Scope(_NO_FIELDS, lambda record: None, _special(key, value))


def _special(key: Schema | None, value: Schema | None) -> dict[str, Compiled]:
    headers = Compiled(_headers)
    return {
        "key": Compiled(lambda record: record.key, key),
        "value": Compiled(lambda record: record.value, value),
        "topic": Compiled(lambda record: record.topic, schemas.STRING),
        "partition": Compiled(lambda record: record.partition, schemas.INT32.optional()),
        "offset": Compiled(_offset, schemas.INT64.optional()),
        "timestamp": Compiled(_time, schemas.timestamp(is_optional=True)),
        "headers": headers,
        "header": Compiled(_debezium_headers),
    }


def _headers(record: Record) -> dict[str, Any]:
    return {header.name: header.value for header in record.headers}


def _debezium_headers(record: Record) -> dict[str, Any]:
    """Debezium's way to write it: `header.name.value`."""
    return {header.name: {"value": header.value} for header in record.headers}


def _offset(record: Record) -> int | None:
    return record.offset if isinstance(record, SinkRecord) else None


def _time(record: Record) -> Any:
    return None if record.timestamp_ms is None else ms_to_timestamp(record.timestamp_ms)
