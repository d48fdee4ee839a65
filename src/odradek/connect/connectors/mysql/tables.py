"""The tables that are captured: how their rows are read, and what records become of them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from odradek.connect.connectors.cdc import envelope
from odradek.connect.connectors.cdc.envelope import TableRecords, table_records
from odradek.connect.connectors.cdc.filters import KeyColumns, NameFilter
from odradek.connect.connectors.cdc.names import adjusted_name
from odradek.connect.connectors.cdc.settings import context_headers
from odradek.connect.connectors.mysql.column_types import Convert, Modes, column_values
from odradek.connect.connectors.mysql.columns import (
    COLUMNS_QUERY,
    KEY_QUERY,
    Table,
    described_column,
    key_of,
    logged_table,
    refined_table,
)
from odradek.connect.connectors.mysql.row_values import BYTES_COLLATION, Row, rows_reader
from odradek.connect.connectors.mysql.server import Server
from odradek.connect.connectors.mysql.settings import MySqlSettings
from odradek.connect.connectors.mysql.table_maps import parse_table_map, table_names
from odradek.connect.data import schemas
from odradek.connect.data.schemas import Field
from odradek.connect.errors import DataError

_BUILT_IN: Final = frozenset({"mysql", "information_schema", "performance_schema", "sys"})


class Product(NamedTuple):
    """Which of the two connectors this is: `name` stands in `source.connector`."""

    name: str
    package: str

    @property
    def source_fields(self) -> tuple[Field, ...]:
        return (
            Field("table", schemas.OPTIONAL_STRING),
            Field("server_id", schemas.INT64),
            Field("gtid", schemas.OPTIONAL_STRING),
            Field("file", schemas.STRING),
            Field("pos", schemas.INT64),
            Field("row", schemas.INT32),
            Field("thread", schemas.INT64.optional()),
            Field("query", schemas.OPTIONAL_STRING),
        )


MYSQL: Final = Product("mysql", "io.debezium.connector.mysql")
MARIADB: Final = Product("mariadb", "io.debezium.connector.mariadb")

_Columns = Sequence[tuple[int, str, Convert | None, Any]]
"""Where the value of a column is in a row, its field, what is done with it, and with null."""
_TEXTS: Final = frozenset(
    {"char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set"}
)
_WITH_LENGTH: Final = frozenset({"char", "varchar"})


@dataclass(frozen=True, slots=True)
class RowShape:
    """A table with certain columns. `read` takes a row out of the bytes of an event; `key` and
    `value` make the parts of a record of it."""

    table: Table
    records: TableRecords
    read: Callable[[bytes, int], tuple[Row, int]] | None
    key_columns: _Columns
    value_columns: _Columns

    def value(self, row: Row) -> dict[str, Any]:
        try:
            return _made(row, self.value_columns)
        except (ValueError, TypeError, OverflowError) as error:
            raise DataError(
                f"a row of {self.table.full_name} cannot be converted: {error}"
            ) from error

    def key(self, row: Row) -> dict[str, Any] | None:
        return _made(row, self.key_columns) if self.key_columns else None


def _made(row: Row, columns: _Columns) -> dict[str, Any]:
    return {
        name: null
        if (found := row[index]) is None
        else (found if convert is None else convert(found))
        for index, name, convert, null in columns
    }


class Tables:
    """What is known of the tables is forgotten when a definition changes, and looked up again."""

    def __init__(self, settings: MySqlSettings, server: Server, product: Product) -> None:
        self.product = product
        self.source_schema = envelope.source_schema(
            f"{product.package}.Source", *product.source_fields
        )
        self._settings = settings
        self._server = server
        self._headers = context_headers(settings, product.name)
        self._charsets: dict[int, str] | None = None
        self._databases = NameFilter(settings.database_include_list, settings.database_exclude_list)
        self._tables = NameFilter(settings.table_include_list, settings.table_exclude_list)
        self._columns = NameFilter(settings.column_include_list, settings.column_exclude_list)
        self._keys = KeyColumns(settings.message_key_columns)
        self._logged: dict[bytes, RowShape | None] = {}
        self._known: dict[tuple[str, str], Table | None] = {}

    @property
    def charsets(self) -> Mapping[int, str]:
        if self._charsets is None:
            self._charsets = self._server.charsets()
        return self._charsets

    def forget(self) -> None:
        self._logged.clear()
        self._known.clear()

    def selects_database(self, database: str) -> bool:
        if self._settings.table_ignore_builtin and database.lower() in _BUILT_IN:
            return False
        return self._databases.selects(database)

    def selects(self, database: str, table: str) -> bool:
        return self.selects_database(database) and self._tables.selects(f"{database}.{table}")

    def is_for_signals(self, table: Table) -> bool:
        return table.full_name == self._settings.signal_data_collection

    def captured(self) -> list[Table]:
        """Returns all tables that are there, by name, in the order of the include list."""
        found = self._server.rows(
            "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES"
            " WHERE TABLE_TYPE = 'BASE TABLE'"
        )
        names = {
            f"{database}.{table}": (str(database), str(table))
            for database, table in found
            if self.selects_database(str(database))
        }
        tables = (self.known(*names[name]) for name in self._tables.in_order(names))
        return [table for table in tables if table is not None]

    def known(self, database: str, table: str) -> Table | None:
        """Returns a table as the server describes it now."""
        name = database, table
        if name not in self._known:
            self._known[name] = self.described(database, table)
        return self._known[name]

    def described(self, database: str, table: str) -> Table | None:
        rows = self._server.rows(COLUMNS_QUERY, (database, table))
        if not rows:
            return None
        columns = tuple(described_column(row, is_mariadb=self._server.is_mariadb) for row in rows)
        key = key_of(self._server.rows(KEY_QUERY, (database, table)))
        return Table(database, table, columns, key)

    # Shapes

    def logged(self, body: bytes) -> RowShape | None:
        """Returns how to read the rows after a `TABLE_MAP`; None if they are not captured."""
        description = body[8:]  # The table's number changes without reason.
        if description not in self._logged:
            self._logged[description] = self._shape_of(body)
        return self._logged[description]

    def _shape_of(self, body: bytes) -> RowShape | None:
        database, name, _ = table_names(body)
        is_signal = f"{database}.{name}" == self._settings.signal_data_collection
        if not is_signal and not self.selects(database, name):
            return None
        table_map = parse_table_map(body, self.charsets)
        table = refined_table(logged_table(table_map), self.known(database, name))
        # What is left out is read as bytes, for its character set may be one that is not known.
        stored = [
            column
            if column.name in table.key or self._is_selected(table, column.name)
            else replace(column, collation=BYTES_COLLATION)
            for column in table_map.columns
        ]
        read = rows_reader(stored, self.charsets)
        return self.shape(table, Modes.of(self._settings), read)

    def selected(self, table: Table) -> RowShape:
        """Returns the shape of the rows of a `SELECT`."""
        return self.shape(table, Modes.of(self._settings, is_snapshot=True), None)

    def shape(
        self,
        table: Table,
        modes: Modes,
        read: Callable[[bytes, int], tuple[Row, int]] | None,
    ) -> RowShape:
        values = [
            (index, column.name, column_values(column, modes))
            for index, column in enumerate(table.columns)
            if column.name in table.key or self._columns.selects(f"{table.full_name}.{column.name}")
        ]
        names = [name for _, name, _ in values]
        key = self._keys.of(table.full_name, names) or table.key
        mode = self._settings.field_name_adjustment_mode
        fields = {
            name: Field(adjusted_name(name, mode, is_field=True), found.schema)
            for _, name, found in values
        }
        topic = self._settings.topic_of(table.database, table.name)
        name = adjusted_name(topic, self._settings.schema_name_adjustment_mode)
        columns: dict[str, tuple[int, str, Convert | None, Any]] = {
            column: (index, fields[column].name, found.convert, None)
            for index, column, found in values
        }
        selected = [column for column in names if self._is_selected(table, column)]
        shown = [self._masked(table, fields[column], columns[column]) for column in selected]
        records = table_records(
            topic,
            envelope.key_schema(name, tuple(fields[column] for column in key)),
            envelope.row_schema(name, tuple(field for field, _ in shown)),
            self.source_schema,
            name=name,
            has_tombstones=self._settings.tombstones_on_delete,
            headers=self._headers,
        )
        return RowShape(
            table,
            records,
            read,
            [columns[column] for column in key],
            [column for _, column in shown],
        )

    def _masked(
        self, table: Table, field: Field, column: tuple[int, str, Convert | None, Any]
    ) -> tuple[Field, tuple[int, str, Convert | None, Any]]:
        """Returns a column of values as `column.mask.*` and `column.truncate.*` want it."""
        index, name, convert, null = column
        declared = table.columns[index]
        mask = self._settings.column_masks.of(f"{table.full_name}.{declared.name}")
        if mask is None:
            return field, column
        shown = Field(name, mask.schema(field.schema))
        if not mask.changes(field.schema, is_text=declared.type in _TEXTS):
            return shown, column
        length = declared.length if declared.type in _WITH_LENGTH else 0
        change = mask.change(length or None)
        both = change if convert is None else lambda value: change(convert(value))
        return shown, (index, name, both, null if mask.instead is None else mask.instead)

    def _is_selected(self, table: Table, column: str) -> bool:
        return self._columns.selects(f"{table.full_name}.{column}")
