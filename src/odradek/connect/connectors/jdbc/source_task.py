"""Reads several tables, each when its time has come."""

import time
from collections.abc import Iterator, Sequence

from odradek.connect.connectors.connector import SourceTask
from odradek.connect.connectors.jdbc.bulk_reader import BulkReader
from odradek.connect.connectors.jdbc.connection import Database
from odradek.connect.connectors.jdbc.dialect import Dialect
from odradek.connect.connectors.jdbc.names import TableId
from odradek.connect.connectors.jdbc.range_reader import RangeReader
from odradek.connect.connectors.jdbc.settings import BULK, JdbcSourceSettings
from odradek.connect.connectors.jdbc.table_reader import TableReader
from odradek.connect.connectors.positions import Positions
from odradek.connect.records import SourceRecord


def make_reader(
    dialect: Dialect, settings: JdbcSourceSettings, table: TableId | None
) -> TableReader:
    mode = settings.mode
    if table is not None:
        mode = settings.mode_of(table.name, str(table))
    if mode == BULK:
        return BulkReader(dialect, settings, table)
    return RangeReader(dialect, settings, table, mode)


class JdbcSourceTask(SourceTask):
    def __init__(
        self, dialect: Dialect, settings: JdbcSourceSettings, tables: Sequence[TableId | None]
    ) -> None:
        self._database = Database(dialect, is_sink=False)
        self._readers = [make_reader(dialect, settings, table) for table in tables]

    def reach(self, start: Positions, max_records: int) -> Positions:
        end = start
        left = max_records
        now_s = time.monotonic()
        due = [reader for reader in self._readers if reader.due_s <= now_s]
        # The one that has waited longest comes first: a large table does not hold up others.
        for reader in sorted(due, key=lambda reader: reader.due_s):
            if left <= 0:
                break
            with self._database.use() as connection:
                reached = reader.reach(connection, reader.begin(start), left)
            if reached is not None:
                offset, count = reached
                end = end.with_offset(reader.stored_as, offset)
                left -= count
        return end

    def read(self, start: Positions, end: Positions) -> Iterator[SourceRecord]:
        for reader in self._readers:
            begin = reader.begin(start)
            until = end.of(reader.stored_as)
            if until is None or until == start.of(reader.stored_as):
                continue
            with self._database.use() as connection:
                records = reader.read(connection, begin, until)
            yield from records

    def close(self) -> None:
        self._database.close()
