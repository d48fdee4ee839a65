"""Reads one table, or one query, in one of the modes."""

import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final, NamedTuple

from odradek.connect.connectors.jdbc.dialect import Connection, Dialect, SourceColumn
from odradek.connect.connectors.jdbc.names import TableId
from odradek.connect.connectors.jdbc.settings import JdbcSourceSettings
from odradek.connect.connectors.positions import Positions, SourceOffset, SourcePartition
from odradek.connect.data import schemas
from odradek.connect.data.schemas import Schema
from odradek.connect.errors import DataError
from odradek.connect.records import SourceRecord

_log = logging.getLogger("odradek.connect")
PROTOCOL: Final = "1"
_HELD_PAUSE_S: Final = 0.1
QUERY_PARTITION: Final = {"query": "query"}


class Shape(NamedTuple):
    """How rows become records. `columns` has None for those that are left out."""

    schema: Schema
    columns: tuple[SourceColumn | None, ...]

    def value(self, row: Sequence[Any]) -> dict[str, Any]:
        """Raises `DataError` for a value that does not fit its column."""
        found: dict[str, Any] = {}
        for column, value in zip(self.columns, row, strict=False):
            if column is None:
                continue
            if value is None or column.convert is None:
                found[column.name] = value
                continue
            try:
                found[column.name] = column.convert(value)
            except (DataError, ValueError, TypeError, ArithmeticError) as error:
                raise DataError(
                    f"column {column.name} ({column.type_name}): {error}; use `query` with a CAST"
                    " to read such values"
                ) from error
        return found


class Batch(NamedTuple):
    """Rows of a range, kept because the range is read right after it was found."""

    start: SourceOffset | None
    end: SourceOffset
    records: list[SourceRecord]
    # Whether there may be more rows now.
    is_full: bool


class TableReader(ABC):
    """`due_s` is when the table is asked again, by the monotonic clock."""

    # Whether an offset of another mode means anything to this one.
    offset_names: ClassVar[frozenset[str]]
    # How many columns a question selects after those of the table.
    extra_columns: int = 0

    def __init__(
        self, dialect: Dialect, settings: JdbcSourceSettings, table: TableId | None
    ) -> None:
        self.dialect = dialect
        self.settings = settings
        self.table = table
        self.topic = _topic(settings, table)
        self.source = (
            f"({settings.query.strip().rstrip(';')})" if table is None else dialect.table(table)
        )
        self.due_s = 0.0
        # Whether rows wait for transactions that are open.
        self.is_held = False
        # The name under which offsets are stored; the task sets it.
        self.stored_as: SourcePartition = self.partitions()[0]
        self._shape: Shape | None = None
        self._shape_of: Any = None
        self._batch: Batch | None = None
        # The columns whose whole values are selected beside them.
        self._cut: list[str] = []

    @abstractmethod
    def find(self, connection: Connection, start: SourceOffset | None, limit: int) -> Batch | None:
        """Returns the next rows after `start`, by `limit` at most, or None if there are none."""

    @abstractmethod
    def find_again(
        self, connection: Connection, start: SourceOffset | None, end: SourceOffset
    ) -> list[SourceRecord]:
        """Returns the rows of a range that another task has found."""

    @property
    def name(self) -> str:
        return "the query" if self.table is None else f"table {self.table}"

    def partitions(self) -> list[SourcePartition]:
        """Returns the names under which there may be an offset; the first one is our own. The
        others are those of older connectors, and of drivers that name the database too."""
        if self.table is None:
            return [QUERY_PARTITION]
        full = str(self.table)
        found: list[SourcePartition] = [{"protocol": PROTOCOL, "table": full}]
        database = self.dialect.session.url.database
        if self.table.schema and not self.table.catalog:
            found.append({"protocol": PROTOCOL, "table": f"{database}.{full}"})
        found.append({"table": self.table.name})
        return found

    def begin(self, start: Positions) -> SourceOffset | None:
        """Returns the offset to begin at. Offsets are stored under the name that has one already,
        so that they can be given back; only the oldest form of names is not used any more."""
        for partition in self.partitions():
            found = start.of(partition)
            if found is not None:
                if len(partition) == len(self.partitions()[0]):
                    self.stored_as = partition
                return found if found.keys() & self.offset_names else None
        return None

    def reach(
        self, connection: Connection, start: SourceOffset | None, limit: int
    ) -> tuple[SourceOffset, int] | None:
        """Returns how far the table can be read now, and the number of rows until there."""
        limit = min(limit, self.settings.batch_max_rows)
        self._batch = self.find(connection, start, limit)
        pause_s = self.settings.poll_interval_ms / 1000
        if self._batch is not None and self._batch.is_full:
            pause_s = 0
        elif self.is_held:
            pause_s = min(pause_s, _HELD_PAUSE_S)
        self.due_s = time.monotonic() + pause_s
        return None if self._batch is None else (self._batch.end, len(self._batch.records))

    def read(
        self, connection: Connection, start: SourceOffset | None, end: SourceOffset
    ) -> list[SourceRecord]:
        batch = self._batch
        if batch is not None and batch.start == start and batch.end == end:
            return batch.records
        return self.find_again(connection, start, end)

    def rows(
        self, connection: Connection, rest: str, values: Sequence[Any]
    ) -> tuple[list[Any], Shape]:
        """Returns rows and how they become records. `rest` is the statement after the columns of
        the table or the query, which is called `found`; it may begin with more columns."""
        cursor = connection.cursor()
        try:
            rows = self._fetched(cursor, rest, values)
            seen = tuple(column[:2] for column in cursor.description)
            if self._shape is None or self._shape_of != seen:
                self._shape = self._described(connection, cursor, rows)
                self._shape_of = seen if rows else None
                cut = [column.name for column in self._shape.columns if column and column.is_cut]
                if cut != self._cut:
                    self._cut, self._shape_of = cut, None
                    return self.rows(connection, rest, values)
            return [self._whole(row, self._shape) for row in rows], self._shape
        except self.dialect.error:
            # One of these columns may be gone.
            self._cut = []
            raise
        finally:
            cursor.close()

    def _fetched(self, cursor: Any, rest: str, values: Sequence[Any]) -> list[Any]:
        exact = "".join(f", {self.dialect.exact(name)}" for name in self._cut)
        self.dialect.execute(cursor, f"SELECT found.*{exact}{rest}", values)
        return list(cursor.fetchall())

    def _whole(self, row: Sequence[Any], shape: Shape) -> Sequence[Any]:
        """Returns a row with the whole values of columns that the server cuts."""
        if not self._cut:
            return row
        whole, first = list(row), len(shape.columns)
        cut = (at for at, column in enumerate(shape.columns) if column and column.is_cut)
        for number, at in enumerate(cut):
            whole[at] = row[first + number]
        return [*whole[:first], *whole[first + len(self._cut) :]]

    def _described(self, connection: Connection, cursor: Any, rows: Sequence[Any]) -> Shape:
        columns: list[SourceColumn | None] = []
        query = self.settings.query.strip().rstrip(";")
        described = self.dialect.describe(connection, cursor, rows, self.table, query)
        for column in described[: len(described) - self.extra_columns - len(self._cut)]:
            if column.schema is None:
                _log.warning(
                    "%s: column %s is left out, because there is no type for %s; select it in"
                    " `query` with a CAST", self.name, column.name, column.type_name,
                )  # fmt: skip
                columns.append(None)
            else:
                columns.append(column)
        fields = tuple(
            schemas.Field(column.name, column.schema)
            for column in columns
            if column is not None and column.schema is not None
        )
        name = None if self.table is None else self.table.name
        return Shape(schemas.struct(*fields, name=name), tuple(columns))

    def record(
        self, value: Any, schema: Schema, partition: SourcePartition, offset: Mapping[str, Any]
    ) -> SourceRecord:
        return SourceRecord(
            self.topic,
            value=value,
            value_schema=schema,
            source_partition=partition,
            source_offset=offset,
        )


def _topic(settings: JdbcSourceSettings, table: TableId | None) -> str:
    if table is None:
        return settings.topic_prefix
    found = settings.topic_format
    parts = {
        "prefix": settings.topic_prefix,
        "table": table.name,
        "schema": table.schema or "",
        "catalog": table.catalog or "",
    }
    for name, value in parts.items():
        found = found.replace(f"${{{name}}}", value)
    return found
