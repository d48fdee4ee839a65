"""How the rows of a captured table become keys and values of records."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from odradek.connect.connectors.cdc import envelope
from odradek.connect.connectors.cdc.chunks import Key
from odradek.connect.connectors.cdc.column_masks import Mask
from odradek.connect.connectors.cdc.envelope import TableRecords
from odradek.connect.connectors.cdc.names import adjusted_name
from odradek.connect.connectors.postgres.catalog import ColumnRow, TableRow
from odradek.connect.connectors.postgres.defaults import default_of
from odradek.connect.connectors.postgres.pgoutput import UNCHANGED, Value, Values
from odradek.connect.connectors.postgres.settings import PostgresSettings
from odradek.connect.connectors.postgres.source_types import SourceTypes
from odradek.connect.connectors.postgres.types import Convert, column_type
from odradek.connect.data import schemas
from odradek.connect.data.schemas import Field, Schema
from odradek.connect.errors import DataError
from odradek.connect.records import Header

_INT64: Final = schemas.INT64.optional()
SOURCE: Final = envelope.source_schema(
    "io.debezium.connector.postgresql.Source",
    Field("schema", schemas.STRING),
    Field("table", schemas.STRING),
    Field("txId", _INT64),
    Field("lsn", _INT64),
    Field("xmin", _INT64),
    Field("origin", schemas.OPTIONAL_STRING),
    Field("origin_lsn", _INT64),
)


# What the database itself calls text, and what it adds to a declared length.
_TEXTS: Final = frozenset({"text", "varchar", "bpchar", "char", "name", "citext"})
_MODIFIER: Final = 4


class _Cell(NamedTuple):
    """What is done with the column at this place of a row. `missing` stands for null,
    `unavailable` for a value that was not sent."""

    at: int
    name: str
    convert: Convert | None
    missing: Any
    unavailable: Any


class CapturedTable:
    """One table with the columns that it has now: `columns` are those of the rows, in their order;
    the stream and a snapshot may have different ones."""

    def __init__(
        self,
        table: TableRow,
        columns: Sequence[ColumnRow],
        settings: PostgresSettings,
        headers: tuple[Header, ...],
    ) -> None:
        self.schema = table.schema
        self.name = table.name
        self.full_name = table.full_name
        self.column_names = [column.name for column in columns]
        self._settings = settings
        # A table for signals comes by the stream, and is perhaps not captured.
        self.is_captured = settings.captures(table.schema, table.name)
        self.is_for_signals = settings.signal_table == (table.schema, table.name)
        self._source_types = SourceTypes(settings)
        key = settings.keys.of(self.full_name, self.column_names) or table.key
        if not set(key) <= set(self.column_names):
            key = ()
        fields: list[Field] = []
        self._cells: list[_Cell] = []
        key_parts: dict[str, tuple[Field, _Cell]] = {}
        for index, column in enumerate(columns):
            made = self._field(index, column)
            if made is None:
                continue
            if column.name in key:
                key_parts[column.name] = made
            name = f"{self.full_name}.{column.name}"
            if settings.columns.selects(name):
                field, cell = _masked(*made, column, settings.column_masks.of(name))
                fields.append(self._with_source_type(field, column))
                self._cells.append(cell)
        naming = settings.topic_naming
        self._own_key = naming.own_key(table.schema, table.name)
        in_order = [key_parts[name] for name in key if name in key_parts]
        self._key_cells = [cell for _, cell in in_order]
        topic = naming.of(table.schema, table.name)
        name = adjusted_name(topic, settings.schema_name_adjustment_mode)
        self.records: TableRecords = envelope.table_records(
            topic,
            envelope.key_schema(
                name, (*(field for field, _ in in_order), *map(_text_field, self._own_key))
            ),
            envelope.row_schema(name, tuple(fields)),
            SOURCE,
            name=name,
            has_tombstones=settings.tombstones_on_delete,
            headers=headers,
        )
        chunk = table.unique if set(table.unique) <= set(self.column_names) else ()
        self._chunk_key = [self.column_names.index(name) for name in chunk]

    def _with_source_type(self, field: Field, column: ColumnRow) -> Field:
        """Keys do not say the types of the source."""
        added = self._source_types.parameters(self.full_name, column)
        if not added:
            return field
        parameters = {**field.schema.parameters, **added}
        return Field(field.name, replace(field.schema, parameters=parameters))

    def _field(self, index: int, column: ColumnRow) -> tuple[Field, _Cell] | None:
        kind = column_type(column.type, column.modifier, self._settings.modes)
        if kind is None:
            return None
        default = default_of(column.default, column.type, column.modifier, kind)
        schema: Schema = replace(
            kind.schema,
            is_optional=not column.is_required,
            default=default,
            doc=column.comment if self._settings.include_schema_comments else kind.schema.doc,
        )
        missing = None
        if column.is_required:
            missing = kind.zero if default is None else default
        unavailable = kind.unavailable if kind.unavailable is not None else missing
        name = adjusted_name(column.name, self._settings.field_name_adjustment_mode, is_field=True)
        return Field(name, schema), _Cell(index, name, kind.convert, missing, unavailable)

    def row(self, values: Values) -> dict[str, Any]:
        """Raises `DataError` for a value that cannot be converted."""
        return self._converted(self._cells, values)

    def key(self, values: Values) -> dict[str, Any] | None:
        if not self._own_key:
            return self._converted(self._key_cells, values) if self._key_cells else None
        return {**self._converted(self._key_cells, values), **self._own_key}

    def _converted(self, cells: list[_Cell], values: Sequence[Value]) -> dict[str, Any]:
        found = {}
        for index, name, convert, missing, unavailable in cells:
            text = values[index]
            if text is None:
                found[name] = missing
            elif text is UNCHANGED:
                found[name] = unavailable
            elif convert is None:
                found[name] = text
            else:
                try:
                    value = convert(text)
                except (ValueError, ArithmeticError, DataError) as error:
                    raise DataError(
                        f"column {name} of {self.full_name} has {text[:100]!r}: {error}"
                    ) from error
                found[name] = missing if value is None else value
        return found

    @property
    def has_chunk_key(self) -> bool:
        return bool(self._chunk_key)

    def chunk_key(self, values: Values | None) -> Key | None:
        """Returns the key by which snapshots read the table; None if the values lack a part."""
        if values is None or not self._chunk_key:
            return None
        key = tuple(values[index] for index in self._chunk_key)
        return None if None in key or UNCHANGED in key else key  # type: ignore[return-value]


def _text_field(name: str) -> Field:
    return Field(name, schemas.STRING)


def _masked(field: Field, cell: _Cell, column: ColumnRow, mask: Mask | None) -> tuple[Field, _Cell]:
    if mask is None:
        return field, cell
    shown = Field(field.name, mask.schema(field.schema))
    kind, modifier = column.type, column.modifier
    while kind.base is not None:
        kind, modifier = kind.base, kind.modifier
    if not mask.changes(field.schema, is_text=kind.kind == "e" or kind.name in _TEXTS):
        return shown, cell
    change = mask.change(modifier - _MODIFIER if modifier > _MODIFIER else None)
    convert = cell.convert
    return shown, cell._replace(
        convert=change if convert is None else lambda text: change(convert(text)),
        missing=change(cell.missing) if mask.instead is None else mask.instead,
        unavailable=change(cell.unavailable),
    )
