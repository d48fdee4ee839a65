"""Which columns a record fills, and with which values.

A `RowPlan` is made for each table and pair of schemas, and kept, because a topic has few schemas.
"""

from collections.abc import Callable, Sequence
from operator import is_
from typing import Any, Final, NamedTuple

from odradek.connect.connectors.jdbc.dialect import Dialect
from odradek.connect.connectors.jdbc.names import TableId
from odradek.connect.connectors.jdbc.settings import JdbcSinkSettings
from odradek.connect.data import schemas
from odradek.connect.data.schemas import Schema, Type
from odradek.connect.errors import DataError
from odradek.connect.records import SinkRecord

KAFKA_FIELDS: Final = ("__connect_topic", "__connect_partition", "__connect_offset")
_NO_SCHEMA: Final = (
    "the {side} of the record has no schema, and a table needs the names and types of its columns:"
    " set {side}.converter to one with schemas (JsonConverter with schemas.enable=true if the"
    " records carry them, or Avro, Protobuf or JSON Schema with the schema registry)"
)


class FilledColumn(NamedTuple):
    """A column that records fill. `bind` makes the driver's value; None if nothing is to do."""

    name: str
    schema: Schema
    is_key: bool
    bind: Callable[[Any], Any] | None

    @property
    def is_nullable(self) -> bool:
        return self.schema.is_optional and not self.is_key


class RowPlan(NamedTuple):
    table: TableId
    keys: tuple[FilledColumn, ...]
    others: tuple[FilledColumn, ...]
    # Where the values of the key come from.
    key_values: Callable[[SinkRecord], Sequence[Any]]

    @property
    def columns(self) -> tuple[FilledColumn, ...]:
        return (*self.keys, *self.others)

    def row(self, record: SinkRecord) -> tuple[Any, ...]:
        """Returns the values of the columns of the key, then of the others. Raises `DataError`."""
        found = self.key_of(record)
        value = record.value
        for name, schema, _, bind in self.others:
            given = value.get(name)
            if given is None:
                given = schema.default
            found.append(given if given is None or bind is None else bind(given))
        return tuple(found)

    def key_of(self, record: SinkRecord) -> list[Any]:
        found = []
        for column, given in zip(self.keys, self.key_values(record), strict=True):
            if given is None:
                raise DataError(f"the field {column.name} of the primary key is null")
            found.append(given if column.bind is None else column.bind(given))
        return found


class RowPlanner:
    def __init__(self, dialect: Dialect, settings: JdbcSinkSettings) -> None:
        self._dialect = dialect
        self._settings = settings
        self._plans: dict[Any, RowPlan] = {}
        # To hash a schema takes longer than to make a row, so the last ones are known by identity.
        self._last: tuple[TableId, Schema | None, Schema | None, bool] | None = None
        self._last_plan: RowPlan | None = None

    def plan(self, table: TableId, record: SinkRecord) -> RowPlan:
        """Raises `DataError` if the record cannot fill the columns."""
        known = table, record.key_schema, record.value_schema, record.value is None
        last, plan = self._last, self._last_plan
        if plan is not None and last is not None and all(map(is_, known, last)):
            return plan
        plan = self._plans.get(known)
        if plan is None:
            plan = self._plans[known] = self._make(table, record)
        self._last, self._last_plan = known, plan
        return plan

    def _make(self, table: TableId, record: SinkRecord) -> RowPlan:
        key_names, key_schemas, key_values = self._key(record)
        keys = tuple(
            self._column(name, schema, is_key=True)
            for name, schema in zip(key_names, key_schemas, strict=True)
        )
        others: list[FilledColumn] = []
        if record.value is not None:
            schema = self._struct(record)
            wanted = self._settings.fields_whitelist
            others = [
                self._column(field.name, field.schema, is_key=False)
                for field in schema.fields
                if field.name not in key_names and (not wanted or field.name in wanted)
            ]
        if not keys and not others:
            raise DataError(f"the record has no fields for table {table}")
        return RowPlan(table, keys, tuple(others), key_values)

    def _column(self, name: str, schema: Schema, *, is_key: bool) -> FilledColumn:
        if self._dialect.sql_type(schema, is_key=is_key) is None:
            raise DataError(
                f"field {name} is of the type {schema.type}, for which there is no column: leave"
                " it out with fields.whitelist, or change it with the transform Flatten"
            )
        return FilledColumn(name, schema, is_key, self._dialect.bound(schema))

    def _struct(self, record: SinkRecord) -> Schema:
        schema = record.value_schema
        if schema is None:
            raise DataError(_NO_SCHEMA.format(side="value"))
        if schema.type is not Type.STRUCT:
            raise DataError(
                f"the value is of the type {schema.type}, and a row needs a struct: the transform"
                " HoistField makes one"
            )
        return schema

    def _key(
        self, record: SinkRecord
    ) -> tuple[Sequence[str], list[Schema], Callable[[SinkRecord], Sequence[Any]]]:
        names = self._settings.pk_fields
        match self._settings.pk_mode:
            case "none":
                return (), [], lambda _: ()
            case "kafka":
                kinds = [schemas.STRING, schemas.INT32, schemas.INT64]
                return names or KAFKA_FIELDS, kinds, _coordinates
            case "record_key":
                return self._record_key(record, names)
        schema = self._struct(record)
        fields = names or [field.name for field in schema.fields]
        return fields, _schemas_of(fields, schema, "value"), lambda one: _picked(one.value, fields)

    def _record_key(
        self, record: SinkRecord, names: Sequence[str]
    ) -> tuple[Sequence[str], list[Schema], Callable[[SinkRecord], Sequence[Any]]]:
        schema = record.key_schema
        if schema is None or record.key is None:
            what = "key" if schema is None and record.key is not None else None
            raise DataError(
                _NO_SCHEMA.format(side=what)
                if what
                else "the record has no key, and pk.mode=record_key needs one"
            )
        if schema.type is Type.STRUCT:
            fields = names or [field.name for field in schema.fields]
            return fields, _schemas_of(fields, schema, "key"), lambda one: _picked(one.key, fields)
        if len(names) != 1:
            raise DataError(
                f"the key is a {schema.type}, so pk.fields must have one name, that of its column;"
                f" it has {len(names)}"
            )
        return names, [schema], lambda one: (one.key,)


def _coordinates(record: SinkRecord) -> Sequence[Any]:
    return record.original_topic, record.original_partition, record.offset


def _picked(value: Any, fields: Sequence[str]) -> Sequence[Any]:
    return [value.get(name) for name in fields]


def _schemas_of(fields: Sequence[str], schema: Schema, side: str) -> list[Schema]:
    found = []
    for name in fields:
        field = schema.field(name)
        if field is None:
            known = ", ".join(each.name for each in schema.fields)
            raise DataError(f"the {side} has no field {name} for pk.fields; it has {known}")
        found.append(field.schema)
    return found
