"""The records of a captured table, in the form that Debezium gives them.

A change is one record with the row before and after it, and where it comes from. A delete is
followed by a record without a value (a tombstone), so that compaction forgets the key. A changed
key is a delete, a tombstone, and an insert under the new key; headers lead from one to the other.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from odradek.connect.data import schemas
from odradek.connect.data.schemas import Field, Schema, Type, struct
from odradek.connect.records import Header, SourceRecord

VERSION: Final = "3.6.1.Final"
"""The version of Debezium whose records these are, as `source.version`."""

READ: Final = "r"
CREATE: Final = "c"
UPDATE: Final = "u"
DELETE: Final = "d"
TRUNCATE: Final = "t"
MESSAGE: Final = "m"

NEW_KEY: Final = "__debezium.newkey"
OLD_KEY: Final = "__debezium.oldkey"

# What `source.snapshot` says of a row.
SNAPSHOT_TRUE: Final = "true"
SNAPSHOT_FIRST: Final = "first"
SNAPSHOT_FIRST_OF_TABLE: Final = "first_in_data_collection"
SNAPSHOT_LAST_OF_TABLE: Final = "last_in_data_collection"
SNAPSHOT_LAST: Final = "last"
SNAPSHOT_FALSE: Final = "false"
SNAPSHOT_INCREMENTAL: Final = "incremental"

_OPTIONAL_INT64: Final = schemas.INT64.optional()
_SNAPSHOT: Final = Schema(
    Type.STRING,
    is_optional=True,
    name="io.debezium.data.Enum",
    version=1,
    default=SNAPSHOT_FALSE,
    parameters={
        "allowed": ",".join(
            (
                SNAPSHOT_TRUE,
                SNAPSHOT_FIRST,
                SNAPSHOT_FIRST_OF_TABLE,
                SNAPSHOT_LAST_OF_TABLE,
                SNAPSHOT_LAST,
                SNAPSHOT_FALSE,
                SNAPSHOT_INCREMENTAL,
            )
        )
    },
)
TRANSACTION_BLOCK: Final = Schema(
    Type.STRUCT,
    is_optional=True,
    name="event.block",
    version=1,
    fields=(
        Field("id", schemas.STRING),
        Field("total_order", schemas.INT64),
        Field("data_collection_order", schemas.INT64),
    ),
)


def source_schema(name: str, *own: Field) -> Schema:
    """Returns the schema of `source`: the fields that all connectors have, then a connector's."""
    common = (
        Field("version", schemas.STRING),
        Field("connector", schemas.STRING),
        Field("name", schemas.STRING),
        Field("ts_ms", schemas.INT64),
        Field("snapshot", _SNAPSHOT),
        Field("db", schemas.STRING),
        Field("sequence", schemas.OPTIONAL_STRING),
        Field("ts_us", _OPTIONAL_INT64),
        Field("ts_ns", _OPTIONAL_INT64),
    )
    return replace(struct(*common, *own, name=name), version=1)


def source_times(microseconds: int) -> dict[str, int]:
    """Returns the fields of `source` that say when the change was made."""
    return {
        "ts_ms": microseconds // 1000,
        "ts_us": microseconds,
        "ts_ns": microseconds * 1000,
    }


def envelope_schema(name: str, row: Schema, source: Schema) -> Schema:
    """Returns the schema of a table's values; `name` is that of the topic."""
    return replace(
        struct(
            Field("before", row),
            Field("after", row),
            Field("source", source),
            Field("transaction", TRANSACTION_BLOCK),
            Field("op", schemas.STRING),
            Field("ts_ms", _OPTIONAL_INT64),
            Field("ts_us", _OPTIONAL_INT64),
            Field("ts_ns", _OPTIONAL_INT64),
            name=f"{name}.Envelope",
        ),
        version=2,
    )


Row = dict[str, Any]


class Origin(NamedTuple):
    """Where a change comes from. `source` is the block of that name, `transaction` the block of the
    transaction, if they are wanted. `partition` and `offset` say how far the source was read."""

    source: Row
    partition: Mapping[str, Any]
    offset: Mapping[str, Any]
    transaction: Row | None = None


@dataclass(frozen=True, slots=True)
class TableRecords:
    """Makes the records of one table while it has the same columns.

    `key_schema` is None for a table without a key. `headers` are put on every record.
    """

    topic: str
    key_schema: Schema | None
    value_schema: Schema
    has_tombstones: bool = True
    headers: tuple[Header, ...] = ()

    def read(self, key: Row | None, after: Row, origin: Origin) -> list[SourceRecord]:
        return [self._change(READ, key, None, after, origin)]

    def created(self, key: Row | None, after: Row, origin: Origin) -> list[SourceRecord]:
        return [self._change(CREATE, key, None, after, origin)]

    def updated(
        self, old_key: Row | None, key: Row | None, before: Row | None, after: Row, origin: Origin
    ) -> list[SourceRecord]:
        """`old_key` is None if the source does not say what it was: then it is the same."""
        if old_key is None or old_key == key:
            return [self._change(UPDATE, key, before, after, origin)]
        assert self.key_schema is not None
        new = Header(NEW_KEY, self.key_schema, key)
        old = Header(OLD_KEY, self.key_schema, old_key)
        return [
            self._change(DELETE, old_key, before, None, origin, new),
            *self._tombstone(old_key, origin, new),
            self._change(CREATE, key, None, after, origin, old),
        ]

    def deleted(self, key: Row | None, before: Row | None, origin: Origin) -> list[SourceRecord]:
        deleted = self._change(DELETE, key, before, None, origin)
        return [deleted, *self._tombstone(key, origin)]

    def truncated(self, origin: Origin) -> list[SourceRecord]:
        """The record has no key: it is about all rows."""
        value = self._value(TRUNCATE, None, None, origin)
        return [self._record(None, None, self.value_schema, value, origin)]

    def _change(
        self,
        op: str,
        key: Row | None,
        before: Row | None,
        after: Row | None,
        origin: Origin,
        *headers: Header,
    ) -> SourceRecord:
        value = self._value(op, before, after, origin)
        return self._record(self.key_schema, key, self.value_schema, value, origin, *headers)

    def _tombstone(self, key: Row | None, origin: Origin, *headers: Header) -> list[SourceRecord]:
        if not self.has_tombstones:
            return []
        return [self._record(self.key_schema, key, None, None, origin, *headers)]

    def _value(self, op: str, before: Row | None, after: Row | None, origin: Origin) -> Row:
        now_ns = time.time_ns()
        return {
            "before": before,
            "after": after,
            "source": origin.source,
            "transaction": origin.transaction,
            "op": op,
            "ts_ms": now_ns // 1_000_000,
            "ts_us": now_ns // 1_000,
            "ts_ns": now_ns,
        }

    def _record(
        self,
        key_schema: Schema | None,
        key: Row | None,
        value_schema: Schema | None,
        value: Row | None,
        origin: Origin,
        *headers: Header,
    ) -> SourceRecord:
        return SourceRecord(
            self.topic,
            key,
            value,
            key_schema,
            value_schema,
            None,
            None,
            (*headers, *self.headers) if headers else self.headers,
            origin.partition,
            origin.offset,
        )


def table_records(
    topic: str,
    key_schema: Schema | None,
    row_schema: Schema,
    source: Schema,
    *,
    name: str | None = None,
    has_tombstones: bool = True,
    headers: tuple[Header, ...] = (),
) -> TableRecords:
    """`name` is what the names of the schemas begin with, if that is not the topic."""
    return TableRecords(
        topic,
        key_schema,
        envelope_schema(name or topic, row_schema, source),
        has_tombstones,
        headers,
    )


def key_schema(name: str, fields: tuple[Field, ...]) -> Schema | None:
    """Returns the schema of a table's keys; None without fields."""
    return struct(*fields, name=f"{name}.Key") if fields else None


def row_schema(name: str, fields: tuple[Field, ...]) -> Schema:
    """Returns the schema of a table's rows."""
    return struct(*fields, name=f"{name}.Value", is_optional=True)
