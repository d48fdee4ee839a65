"""Whether a table fits the records, and how it is made or changed so that it does."""

import logging
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from odradek.connect.connectors.jdbc.dialect import Connection, Dialect, TableColumn
from odradek.connect.connectors.jdbc.names import TableId
from odradek.connect.connectors.jdbc.rows import FilledColumn, RowPlan
from odradek.connect.connectors.jdbc.settings import JdbcSinkSettings
from odradek.connect.data import schemas
from odradek.connect.errors import DataError

_log = logging.getLogger("odradek.connect")
_MOST_TRIES: Final = 3


class Target(NamedTuple):
    """The columns of a table that records fill, as the table calls them."""

    keys: Sequence[str]
    others: Sequence[str]
    # Whether these keys are the primary key of the table.
    is_primary: bool


class Tables:
    def __init__(self, dialect: Dialect, settings: JdbcSinkSettings) -> None:
        self._dialect = dialect
        self._settings = settings
        self._targets: dict[int, tuple[RowPlan, Target]] = {}

    def forget(self) -> None:
        """Looks at all tables again when they are next needed."""
        self._targets.clear()

    def target(self, connection: Connection, plan: RowPlan) -> Target:
        """Returns the columns to fill, after making what is missing: that ends the transaction, so
        it is called for all plans before a row is written. Raises `DataError`."""
        known = self._targets.get(id(plan))
        if known is None:
            known = self._targets[id(plan)] = plan, self._fitted(connection, plan)
        return known[1]

    def _fitted(self, connection: Connection, plan: RowPlan) -> Target:
        for tries_left in reversed(range(_MOST_TRIES)):
            columns = self._dialect.table_columns(connection, plan.table)
            missing = _missing(plan, columns)
            if columns is not None and not missing:
                return _target(plan, columns)
            try:
                if columns is None:
                    self._create(connection, plan)
                else:
                    self._add(connection, plan.table, missing)
                connection.commit()
            except self._dialect.error as error:
                # Another task may have done the same at the same time.
                if not tries_left:
                    raise
                _log.info("table %s is looked at again: %s", plan.table, error)
                connection.rollback()
            self._dialect.begin(connection)
        raise DataError(f"table {plan.table} does not get the columns that it needs")

    def _create(self, connection: Connection, plan: RowPlan) -> None:
        if not self._settings.auto_create:
            raise DataError(
                f"table {plan.table} does not exist: create it, or set auto.create=true"
            )
        lines = [self._definition(column) for column in plan.columns]
        if plan.keys:
            keys = ",".join(self._dialect.identifier(column.name) for column in plan.keys)
            lines.append(f"PRIMARY KEY({keys})")
        self._change(
            connection, f"CREATE TABLE {self._dialect.table(plan.table)} ({', '.join(lines)})"
        )

    def _add(self, connection: Connection, table: TableId, missing: Sequence[FilledColumn]) -> None:
        listed = ", ".join(column.name for column in missing)
        if not self._settings.auto_evolve:
            raise DataError(
                f"table {table} has no column for {listed}: add it, or set auto.evolve=true, or"
                " leave the field out with fields.whitelist"
            )
        for column in missing:
            if not column.is_nullable and column.schema.default is None:
                raise DataError(
                    f"column {column.name} cannot be added to table {table}, because the field is"
                    " not optional and has no default: add the column by hand"
                )
        for column in missing:
            self._change(
                connection,
                f"ALTER TABLE {self._dialect.table(table)} ADD {self._definition(column)}",
            )

    def _change(self, connection: Connection, sql: str) -> None:
        _log.info("%s", sql)
        cursor = connection.cursor()
        try:
            self._dialect.execute(cursor, sql)
        finally:
            cursor.close()

    def _definition(self, column: FilledColumn) -> str:
        kind = self._dialect.sql_type(column.schema, is_key=column.is_key)
        default = column.schema.default
        # MySQL takes no default for texts and bytes of any length.
        has_default = default is not None and "MEDIUM" not in str(kind)
        parts = [self._dialect.identifier(column.name), str(kind)]
        if has_default:
            parts.append(f"DEFAULT {_literal(column, default)}")
        parts.append("NULL" if column.is_nullable else "NOT NULL")
        return " ".join(parts)


def _literal(column: FilledColumn, default: Any) -> str:
    value = default if column.bind is None else column.bind(default)
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, bytes):
        raise DataError(f"the default of field {column.name} is bytes: add the column by hand")
    if column.schema.name == schemas.DECIMAL:
        return str(value)
    escaped = str(value).replace("'", "''")
    if "\\" in escaped:
        raise DataError(f"the default of field {column.name} has a \\: add the column by hand")
    return f"'{escaped}'"


def _missing(plan: RowPlan, columns: Sequence[TableColumn] | None) -> list[FilledColumn]:
    if columns is None:
        return []
    known = {column.name.lower() for column in columns}
    return [column for column in plan.columns if column.name.lower() not in known]


def _target(plan: RowPlan, columns: Sequence[TableColumn]) -> Target:
    """Columns are found by their exact names, else in any case."""
    exact = {column.name for column in columns}
    folded = {column.name.lower(): column.name for column in columns}

    def found(filled: FilledColumn) -> str:
        return filled.name if filled.name in exact else folded[filled.name.lower()]

    keys = [found(column) for column in plan.keys]
    primary = {column.name for column in columns if column.is_key}
    return Target(keys, [found(column) for column in plan.others], set(keys) == primary)
