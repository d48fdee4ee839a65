"""Reads the rows of tables in chunks (`cdc.chunks`), each in a snapshot of the database.

The snapshot says which transactions it has seen. The position of the log that is asked for right
after it is later than all of their commits. When the stream has come to that position, it has sent
everything that the chunk contains.

A table without a unique key cannot be read in chunks: it is read at once, and its rows are sent
before everything that the stream brings then. Its changes are skipped until it is read, and
after that those which the snapshot has seen. So its rows come exactly once too, but they must fit
into one transaction.
"""

import logging
from collections.abc import Iterable
from typing import Final, NamedTuple

from odradek.connect.connectors.cdc.chunks import INITIAL, Key, Progress, TableToRead
from odradek.connect.connectors.postgres.catalog import Catalog, TableRow
from odradek.connect.connectors.postgres.database import Database, identifier
from odradek.connect.connectors.postgres.failures import Refused
from odradek.connect.connectors.postgres.lsn import end_of_records, parse_lsn
from odradek.connect.connectors.postgres.pgoutput import Values
from odradek.connect.connectors.postgres.settings import PostgresSettings
from odradek.connect.connectors.postgres.tables import CapturedTable
from odradek.connect.connectors.postgres.visibility import Visibility, visibility
from odradek.connect.errors import DataError
from odradek.connect.records import Header

_log = logging.getLogger("odradek.connect")
_UNDEFINED_TABLE: Final = "42P01"
_MOMENT: Final = """SELECT {snapshot}()::text, CASE WHEN pg_is_in_recovery()
  THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_insert_lsn() END"""
_SNAPSHOT_SINCE: Final = 130_000


class Chunk(NamedTuple):
    """`rows` have the key by which the table is read; it is None without one. `until_lsn` is after
    everything that the rows contain."""

    table: CapturedTable
    rows: list[tuple[Key | None, Values]]
    is_last: bool
    up_to: Key | None
    visible: Visibility
    until_lsn: int

    @property
    def has_key(self) -> bool:
        return self.up_to is not None


class ChunkReader:
    def __init__(
        self,
        database: Database,
        catalog: Catalog,
        settings: PostgresSettings,
        headers: tuple[Header, ...],
    ) -> None:
        self._database = database
        self._catalog = catalog
        self._settings = settings
        self._headers = headers

    def read(self, progress: Progress, size: int, recent: Iterable[int]) -> Chunk | None:
        """Returns the next rows of the first table; None if the table is gone. It is empty without
        rows that the snapshot could take now: then a transaction of `recent`, which the stream has
        sent already, has not become visible yet, and the read is to be tried again."""
        table = self._described(progress.table)
        if table is None:
            _log.warning("table %s is gone, and left out of the snapshot", progress.table.name)
            return None
        database = self._database
        database.run("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        try:
            return self._read(progress, table, size, recent)
        except Refused as error:
            if error.state == _UNDEFINED_TABLE:
                return None
            raise
        finally:
            database.run("ROLLBACK")

    def _described(self, table: TableToRead) -> TableRow | None:
        found = self._catalog.table_named(table.name)
        if found is None or table.key is None:
            return found
        missing = set(table.key) - {column.name for column in found.columns}
        if missing:
            raise DataError(f"the signal names a key that {table.name} does not have: {missing}")
        return found._replace(unique=table.key)

    def _read(self, progress: Progress, table: TableRow, size: int, recent: Iterable[int]) -> Chunk:
        visible, until_lsn = self._moment()
        captured = CapturedTable(table, table.columns, self._settings, self._headers)
        if any(not visible.sees(xid) for xid in recent):
            return Chunk(captured, [], False, progress.up_to, visible, until_lsn)
        condition, statement = progress.table.condition, None
        if progress.table.is_blocking:
            condition, statement = None, condition
        elif progress.kind == INITIAL and progress.table.signal is None:
            statement = self._settings.snapshot_statements.get(table.full_name)
        query = _Query(table, condition, statement)
        if not table.unique:
            rows = self._database.query(query.everything()).rows
            whole: list[tuple[Key | None, Values]] = [(None, list(row)) for row in rows]
            return Chunk(captured, whole, True, None, visible, until_lsn)
        up_to = progress.up_to
        if up_to is None:
            largest = self._database.query(query.largest_key()).rows
            if not largest:
                return Chunk(captured, [], True, (), visible, until_lsn)
            up_to = largest[0]
        rows = self._database.query(*query.chunk(progress.after, up_to, size + 1)).rows
        keyed: list[tuple[Key | None, Values]] = [
            (captured.chunk_key([*row]), [*row]) for row in rows[:size]
        ]
        return Chunk(captured, keyed, len(rows) <= size, up_to, visible, until_lsn)

    def _moment(self) -> tuple[Visibility, int]:
        is_new = self._database.version >= _SNAPSHOT_SINCE
        function = "pg_current_snapshot" if is_new else "txid_current_snapshot"
        ((snapshot, lsn),) = self._database.query(_MOMENT.format(snapshot=function)).rows
        return visibility(str(snapshot)), end_of_records(parse_lsn(str(lsn)))


class _Query:
    """The queries of a table, or of a statement that selects some of its rows. Names are quoted; a
    condition comes from a user who may signal, and is SQL on purpose, as the statement is."""

    def __init__(self, table: TableRow, condition: str | None, statement: str | None) -> None:
        columns = ", ".join(identifier(column.name) for column in table.columns)
        self._from = f"FROM {identifier(table.schema, table.name)}"
        if statement is not None:
            self._from = f"FROM ({statement}\n) AS odradek_selected"
        self._select = f"SELECT {columns} {self._from}"
        self._where = f"WHERE ({condition or 'true'})"
        self._key = [identifier(name) for name in table.unique]
        types = {column.name: column.type for column in table.columns}
        self._types = [
            identifier(*filter(None, (types[name].schema, types[name].name)))
            for name in table.unique
        ]

    def everything(self) -> str:
        return f"{self._select} {self._where}"

    def largest_key(self) -> str:
        key = ", ".join(self._key)
        order = ", ".join(f"{column} DESC" for column in self._key)
        return " ".join(("SELECT", key, self._from, self._where, "ORDER BY", order, "LIMIT 1"))

    def chunk(self, after: Key | None, up_to: Key, limit: int) -> list[str]:
        """Returns the query and its parameters."""
        key = ", ".join(self._key)
        text = f"{self._select} {self._where} AND ({key}) <= ({self._numbered(1)})"
        parameters = [*map(str, up_to)]
        if after is not None:
            text += f" AND ({key}) > ({self._numbered(1 + len(self._key))})"
            parameters += map(str, after)
        return [f"{text} ORDER BY {key} LIMIT {limit}", *parameters]

    def _numbered(self, first: int) -> str:
        return ", ".join(f"${first + index}::{name}" for index, name in enumerate(self._types))
