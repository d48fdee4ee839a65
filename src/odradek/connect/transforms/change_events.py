"""The parts of a change event that transforms look at: its operation, and the rows in it."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from odradek.connect.data.schemas import Schema
from odradek.connect.records import Record

_ENVELOPE: Final = ".Envelope"


class ChangeEvent(NamedTuple):
    """`row_schema` is that of `before` and `after`; None if the record has no schema."""

    schema: Schema | None
    value: Mapping[str, Any]
    row_schema: Schema | None

    @property
    def operation(self) -> str:
        return str(self.value.get("op"))

    @property
    def before(self) -> Any:
        return self.value.get("before")

    @property
    def after(self) -> Any:
        return self.value.get("after")


def change_event(record: Record) -> ChangeEvent | None:
    """Returns the event of a record; None if it is another record, such as a heartbeat. One without
    a schema is known by its fields."""
    value, schema = record.value, record.value_schema
    if not isinstance(value, Mapping):
        return None
    if schema is None:
        is_event = "op" in value and "source" in value and ("after" in value or "before" in value)
        return ChangeEvent(None, value, None) if is_event else None
    if not (schema.name or "").endswith(_ENVELOPE):
        return None
    row = schema.field("after") or schema.field("before")
    return None if row is None else ChangeEvent(schema, value, row.schema)
