"""The rows that are in the tables, read in chunks, each as of an exact place in the binary log.

A chunk is read in a transaction that sees the table as it was at one place of the log. The task
sends the changes up to that place, then the chunk, then the changes after it. So every row is as
old as its place in the topic says, and nothing is doubled or left out. A table without a key is
read at once, and its changes before that are skipped, because its rows have them.

MariaDB says the place of such a transaction itself, without a lock. MySQL does not, so a lock on
the table is held until the transaction has begun and the place is read: some milliseconds.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from odradek.connect.connectors.cdc.chunks import Key, Progress
from odradek.connect.connectors.mysql.columns import Column, Table
from odradek.connect.connectors.mysql.row_values import Row
from odradek.connect.connectors.mysql.select_values import parser_of, quoted, selected
from odradek.connect.connectors.mysql.server import LogEnd, LogPlace, Server
from odradek.connect.connectors.mysql.settings import MySqlSettings
from odradek.connect.connectors.mysql.tables import RowShape, Tables
from odradek.connect.errors import DataError

_LOCK_WAIT_S: Final = 5
_NUMBERS: Final = frozenset(
    {"tinyint", "smallint", "mediumint", "int", "bigint", "decimal", "year"}
)
_BYTES: Final = frozenset({"binary", "varbinary"})
_TEXTS: Final = frozenset({"char", "varchar", "date", "datetime", "timestamp", "time"})
# Keys of these types have an order that a condition can continue. (The order of an ENUM is that of
# its numbers, while a condition compares its texts.) Other tables are read in one chunk.
_ORDERED: Final = _NUMBERS | _BYTES | _TEXTS


class Chunk(NamedTuple):
    """Rows of a table as of the end that the log had then. `after` is the key of the last one, None
    if the table was read to its end."""

    end: LogEnd
    shape: RowShape
    rows: list[Row]
    after: Key | None
    up_to: Key | None


class Snapshots:
    def __init__(self, settings: MySqlSettings, server: Server, tables: Tables) -> None:
        self._settings = settings
        self._server = server
        self._tables = tables
        self._reader = Server(settings)

    def close(self) -> None:
        self._reader.close()

    def read(self, progress: Progress, max_rows: int) -> Chunk | None:
        """Returns the next chunk; None if the table is not there any more. Raises `Unavailable` or
        `DataError`."""
        database, _, name = progress.table.name.partition(".")
        table = self._tables.described(database, name)
        if table is None:
            return None
        key = progress.table.key or table.key
        columns = [column for column in map(table.column, key) if column is not None]
        if len(columns) < len(key):
            raise DataError(f"{table.full_name} has no columns {', '.join(key)} to be read by")
        is_ordered = bool(columns) and all(column.type in _ORDERED for column in columns)
        with self._consistent(table) as end:
            if not is_ordered:
                rows = self._rows(table, _where(progress.table.condition), "")
                return Chunk(end, self._tables.selected(table), rows, None, None)
            return self._chunk(table, columns, progress, max_rows, end)

    def _chunk(
        self,
        table: Table,
        key: Sequence[Column],
        progress: Progress,
        max_rows: int,
        end: LogEnd,
    ) -> Chunk:
        condition = progress.table.condition
        up_to = progress.up_to or self._largest(table, key, condition)
        shape = self._tables.selected(table)
        if up_to is None:
            return Chunk(end, shape, [], None, None)
        wheres = [condition, _compared(key, up_to, "<", "<=")]
        if progress.after is not None:
            wheres.append(_compared(key, progress.after, ">", ">"))
        order = ", ".join(quoted(column.name) for column in key)
        raw = self._selected(table, _where(*wheres), f" ORDER BY {order} LIMIT {max_rows}")
        rows = self._parsed(table, raw)
        if len(rows) < max_rows:
            return Chunk(end, shape, rows, None, up_to)
        return Chunk(end, shape, rows, _key_of(table, key, raw[-1]), up_to)

    def _largest(self, table: Table, key: Sequence[Column], condition: str | None) -> Key | None:
        names = [quoted(column.name) for column in key]
        order = ", ".join(f"{name} DESC" for name in names)
        found = self._reader.rows(
            f"SELECT {', '.join(names)} FROM {_from(table)}{_where(condition)}"  # noqa: S608 - quoted
            f" ORDER BY {order} LIMIT 1"
        )
        return _as_key(found[0]) if found else None

    def _rows(self, table: Table, where: str, rest: str) -> list[Row]:
        return self._parsed(table, self._selected(table, where, rest))

    def _selected(self, table: Table, where: str, rest: str) -> list[tuple[Any, ...]]:
        columns = ", ".join(selected(column) for column in table.columns)
        return self._reader.rows(f"SELECT {columns} FROM {_from(table)}{where}{rest}")  # noqa: S608

    def _parsed(self, table: Table, raw: list[tuple[Any, ...]]) -> list[Row]:
        parsers = [parser_of(column) for column in table.columns]
        return [
            [
                None if value is None else parse(value)
                for value, parse in zip(row, parsers, strict=True)
            ]
            for row in raw
        ]

    @contextmanager
    def _consistent(self, table: Table) -> Iterator[LogEnd]:
        """A transaction that sees the table as of a place in the log."""
        self._reader.execute("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        end = self._with_status() if self._server.is_mariadb else self._with_lock(_from(table))
        try:
            yield end
        finally:
            self._reader.execute("ROLLBACK")

    def _with_status(self) -> LogEnd:
        self._reader.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
        found = dict(self._reader.rows("SHOW STATUS LIKE 'binlog_snapshot_%'"))
        file, position = found.get("Binlog_snapshot_file"), found.get("Binlog_snapshot_position")
        if not file or not position:
            raise DataError("the server has no binary log: start it with log_bin=binlog")
        return LogEnd(LogPlace(str(file), int(position)))

    def _with_lock(self, table: str) -> LogEnd:
        self._server.execute(
            f"SET SESSION lock_wait_timeout = {_LOCK_WAIT_S}", f"LOCK TABLES {table} READ"
        )
        try:
            self._reader.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
            return self._server.log_end()
        finally:
            self._server.execute("UNLOCK TABLES")


def _from(table: Table) -> str:
    return f"{quoted(table.database)}.{quoted(table.name)}"


def _where(*conditions: str | None) -> str:
    found = [f"({condition})" for condition in conditions if condition]
    return f" WHERE {' AND '.join(found)}" if found else ""


def _compared(key: Sequence[Column], values: Key, inner: str, last: str) -> str:
    """Returns the condition that a key of several columns stands before or after another one. The
    servers use an index for it only if it is written like this."""
    names = [quoted(column.name) for column in key]
    literals = [_literal(column, value) for column, value in zip(key, values, strict=True)]
    parts = []
    for place, (name, literal) in enumerate(zip(names, literals, strict=True)):
        sign = last if place == len(key) - 1 else inner
        equal = [f"{names[i]} = {literals[i]}" for i in range(place)]
        parts.append(f"({' AND '.join([*equal, f'{name} {sign} {literal}'])})")
    head = f"{names[0]} {inner}= {literals[0]}"
    return f"{head} AND ({' OR '.join(parts)})"


def _literal(column: Column, value: str | None) -> str:
    if value is None:
        raise DataError(f"column {column.name} has nulls, so {column.name} is not a key to read by")
    if column.type in _NUMBERS:
        return value if value.lstrip("-").replace(".", "", 1).isdigit() else "NULL"
    if column.type in _BYTES:
        return f"X'{bytes.fromhex(value).hex()}'"
    escaped = value.replace("\\", "\\\\").replace("'", "''")
    return f"'{escaped}'"


def _key_of(table: Table, key: Sequence[Column], row: Sequence[Any]) -> Key:
    places = {column.name: place for place, column in enumerate(table.columns)}
    return _as_key([row[places[column.name]] for column in key])


def _as_key(values: Sequence[Any]) -> Key:
    """Values are text as the server sends it, and bytes as digits."""
    return tuple(
        value.hex() if isinstance(value, bytes) else None if value is None else str(value)
        for value in values
    )
