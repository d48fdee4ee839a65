"""The modes incrementing, timestamp and timestamp+incrementing: rows after a number or a time.

An offset is the number, the time, or both, of the last row that was read, in the form of Aiven's
and Confluent's connectors. The same range gives the same records again as long as its rows are not
changed or deleted, and none is added within it. What would add one is a row that becomes visible
late, after an offset that has passed it. Three things prevent that:

1. A row is read when no other one can get the same time any more: with times of whole seconds, when
   the second is over.
2. A row is read when all transactions have ended that wrote to the table before it could be seen
   (`SettledBounds`). So rows whose transactions end in another order than their numbers or times
   say are not missed. It needs a table, and a database that tells of its transactions.
3. `timestamp.delay.interval.ms` covers what the two cannot: times that were taken long before the
   row was written, such as PostgreSQL's now(), which is when the transaction began.

In the mode timestamp a range never ends between rows that have the same time, so such rows come
together even if there are more than a batch should have.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, ClassVar, Final, NamedTuple

from odradek.connect.connectors.jdbc.dialect import Connection, Dialect, Moments
from odradek.connect.connectors.jdbc.names import PLACE, TableId
from odradek.connect.connectors.jdbc.settings import (
    BOTH,
    INCREMENTING,
    TIMESTAMP,
    JdbcSourceSettings,
)
from odradek.connect.connectors.jdbc.table_reader import Batch, Shape, TableReader
from odradek.connect.connectors.positions import SourceOffset
from odradek.connect.errors import DataError
from odradek.connect.records import SourceRecord

INCREMENTING_FIELD: Final = "incrementing"
TIMESTAMP_FIELD: Final = "timestamp"
NANOS_FIELD: Final = "timestamp_nanos"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_MOST_BOUNDS: Final = 64


class Place(NamedTuple):
    """Between which rows an offset is."""

    moment: datetime | None
    number: int | None

    @classmethod
    def of(cls, offset: SourceOffset) -> "Place":
        """Raises `DataError` for one that no connector has written."""
        milliseconds = _whole(offset, TIMESTAMP_FIELD)
        number = _whole(offset, INCREMENTING_FIELD)
        if milliseconds is None:
            return cls(None, number)
        nanos = _whole(offset, NANOS_FIELD)
        if nanos is None:
            return cls(_EPOCH + timedelta(milliseconds=milliseconds), number)
        moment = _EPOCH + timedelta(seconds=milliseconds // 1000, microseconds=nanos // 1000)
        return cls(moment, number)

    def offset(self) -> dict[str, int]:
        found: dict[str, int] = {}
        if self.number is not None:
            found[INCREMENTING_FIELD] = self.number
        if self.moment is not None:
            microseconds = (self.moment - _EPOCH) // _MICROSECOND
            found[TIMESTAMP_FIELD] = microseconds // 1000
            found[NANOS_FIELD] = microseconds % 1_000_000 * 1000
        return found


def _whole(offset: Mapping[str, Any], name: str) -> int | None:
    found = offset.get(name)
    if found is None:
        return None
    if isinstance(found, bool) or not isinstance(found, int):
        raise DataError(f"{name} of an offset must be a whole number, and is {found!r}")
    return found


class SettledBounds:
    """Up to where no row can come late any more.

    A bound is a number or a time that was the highest one when the transactions were looked at. It
    is settled when all that were open then have ended, because a row that was numbered before the
    bound is either there by then, or never.
    """

    def __init__(self) -> None:
        self._waiting: list[tuple[Any, frozenset[str]]] = []
        self._settled: Any = None

    def add(self, bound: Any, writers: frozenset[str]) -> Any:
        """Returns the highest settled bound, None if there is none. `writers` are the transactions
        that are open now; `bound` was taken before."""
        waiting = [(known, left & writers) for known, left in self._waiting]
        waiting.append((bound, writers))
        for known, left in waiting:
            if not left and (self._settled is None or known > self._settled):
                self._settled = known
        self._waiting = [entry for entry in waiting if entry[1] and self._is_above(entry[0])]
        # A transaction that never ends holds them all; the first and the newest say enough.
        del self._waiting[_MOST_BOUNDS // 2 : -_MOST_BOUNDS // 2]
        return self._settled

    def _is_above(self, bound: Any) -> bool:
        return self._settled is None or bool(bound > self._settled)


class RangeReader(TableReader):
    offset_names: ClassVar = frozenset((INCREMENTING_FIELD, TIMESTAMP_FIELD))

    def __init__(
        self,
        dialect: Dialect,
        settings: JdbcSourceSettings,
        table: TableId | None,
        mode: str,
    ) -> None:
        super().__init__(dialect, settings, table)
        self._has_number = mode in {INCREMENTING, BOTH}
        self._has_moment = mode in {TIMESTAMP, BOTH}
        self._number_column = settings.incrementing_column_name
        self._moments: Moments | None = None
        self._bounds = SettledBounds()
        self._is_prepared = False
        self._initial = _EPOCH + timedelta(milliseconds=settings.timestamp_initial_ms)
        self.extra_columns = int(self._has_moment)

    def find(self, connection: Connection, start: SourceOffset | None, limit: int) -> Batch | None:
        self._prepare(connection)
        place = self._start(start)
        bound = self._bound(connection, place)
        if bound is None:
            return None
        # One more row tells whether the last time has more of them.
        most = limit if self._has_number else limit + 1
        rows, shape = self._select(connection, place, bound, is_bound_in=False, limit=most)
        if not rows:
            return None
        is_full = len(rows) >= most
        if is_full and not self._has_number:
            rows, shape = self._whole_moments(connection, rows, shape)
        records = self._records(rows, shape)
        return Batch(start, records[-1].source_offset, records, is_full)

    def find_again(
        self, connection: Connection, start: SourceOffset | None, end: SourceOffset
    ) -> list[SourceRecord]:
        self._prepare(connection)
        rows, shape = self._select(
            connection, self._start(start), Place.of(end), is_bound_in=True, limit=None
        )
        return self._records(rows, shape)

    def _start(self, offset: SourceOffset | None) -> Place:
        found = Place(None, None) if offset is None else Place.of(offset)
        moment, number = found
        if moment is None and self._has_moment:
            moment = self._initial
        if number is None and self._has_number:
            number = self.settings.incrementing_initial
        return Place(moment, number)

    def _prepare(self, connection: Connection) -> None:
        """Looks at the columns that find new rows, once."""
        if self._is_prepared:
            return
        if self._has_number and not self._number_column:
            self._number_column = self._counting_column(connection)
        if self._has_moment:
            found = [
                self.dialect.moments(connection, self.table, name)
                for name in self.settings.timestamp_column_name
            ]
            self._moments = found[0]
            if len(found) > 1:
                listed = ", ".join(each.expression for each in found)
                self._moments = found[0]._replace(
                    expression=f"COALESCE({listed})",
                    resolution_us=max(each.resolution_us for each in found),
                )
            if self.settings.timestamp_initial_ms == -1:
                self._initial = self.dialect.now(connection)
        self._is_prepared = True

    def _counting_column(self, connection: Connection) -> str:
        assert self.table is not None
        cursor = connection.cursor()
        try:
            self.dialect.execute(cursor, f"SELECT * FROM {self.source} WHERE 1=0")
            for column in self.dialect.describe(connection, cursor, [], self.table, ""):
                if column.is_incrementing:
                    return column.name
        finally:
            cursor.close()
        raise DataError(
            f"table {self.table} has no column that counts up by itself: set"
            " incrementing.column.name"
        )

    def _bound(self, connection: Connection, start: Place) -> Place | None:
        """Returns before or at which place rows are safe to read; None if there is nothing new."""
        waits = self.settings.wait_for_transactions and self.dialect.tells_of_writers
        if self._has_moment:
            assert self._moments is not None
            delay = timedelta(milliseconds=self.settings.timestamp_delay_interval_ms)
            latest = self.dialect.now(connection) - delay
            bound: Any = _rounded_down(latest, self._moments.resolution_us)
        elif waits and self.table is not None:
            name = self.dialect.identifier(self._number_column)
            ((bound,),) = self.dialect.rows(connection, f"SELECT max({name}) FROM {self.source}")
            if bound is None or (start.number is not None and bound <= start.number):
                return None
        else:
            return Place(None, None)
        if waits and self.table is not None:
            settled = self._bounds.add(bound, self.dialect.writers(connection, self.table))
            self.is_held = settled != bound
            bound = settled
        if bound is None:
            return None
        return Place(bound, None) if self._has_moment else Place(None, int(bound))

    def _select(
        self,
        connection: Connection,
        start: Place,
        end: Place,
        *,
        is_bound_in: bool,
        limit: int | None,
    ) -> tuple[list[Any], Shape]:
        conditions, values = self._conditions(start, end, is_bound_in=is_bound_in)
        order = [self.dialect.identifier(self._number_column)] if self._has_number else []
        if self._moments is not None:
            order.insert(0, self._moments.expression)
        return self._selected(connection, conditions, values, order, limit)

    def _selected(
        self,
        connection: Connection,
        conditions: Sequence[str],
        values: Sequence[Any],
        order: Sequence[str],
        limit: int | None,
    ) -> tuple[list[Any], Shape]:
        more = "" if self._moments is None else f", {self._moments.expression}"
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        rest = f"{more} FROM {self.source} AS found{where} ORDER BY {', '.join(order)}"
        return self.rows(connection, rest if limit is None else f"{rest} LIMIT {limit}", values)

    def _conditions(
        self, start: Place, end: Place, *, is_bound_in: bool
    ) -> tuple[list[str], list[Any]]:
        number = self.dialect.identifier(self._number_column)
        if self._moments is None:
            conditions, values = [f"{number} > {PLACE}"], [start.number]
            if end.number is not None:
                conditions.append(f"{number} <= {PLACE}")
                values.append(end.number)
            return conditions, values
        moment, value = self._moments.expression, self._moments.value
        assert start.moment is not None
        assert end.moment is not None
        first, last = value(start.moment), value(end.moment)
        if not self._has_number:
            return (
                [f"{moment} > {PLACE}", f"{moment} {'<=' if is_bound_in else '<'} {PLACE}"],
                [first, last],
            )
        # The first comparison says nothing new, but lets the database use an index.
        conditions = [
            f"{moment} >= {PLACE}",
            f"({moment} > {PLACE} OR {number} > {PLACE})",
        ]
        values = [first, first, start.number]
        if is_bound_in:
            conditions += [
                f"{moment} <= {PLACE}",
                f"({moment} < {PLACE} OR {number} <= {PLACE})",
            ]
            return conditions, [*values, last, last, end.number]
        return [*conditions, f"{moment} < {PLACE}"], [*values, last]

    def _whole_moments(
        self, connection: Connection, rows: list[Any], shape: Shape
    ) -> tuple[list[Any], Shape]:
        """Returns the rows without those of the last time, or, if all have the same one, all rows
        that have it: an offset could not say how many of them were read."""
        last = rows[-1][-1]
        before = [row for row in rows if row[-1] != last]
        if before:
            return before, shape
        assert self._moments is not None
        moment = self._moments.value(self._moments.moment(last))
        expression = self._moments.expression
        return self._selected(connection, [f"{expression} = {PLACE}"], [moment], [expression], None)

    def _records(self, rows: Sequence[Any], shape: Shape) -> list[SourceRecord]:
        partition = self.stored_as
        number_at = self._number_index(shape)
        found = []
        for row in rows:
            moment = None if self._moments is None else self._moments.moment(row[-1])
            number = None if number_at is None else self._number(row[number_at])
            offset = Place(moment, number).offset()
            found.append(self.record(shape.value(row), shape.schema, partition, offset))
        return found

    def _number_index(self, shape: Shape) -> int | None:
        if not self._has_number:
            return None
        wanted = self._number_column.lower()
        for at, column in enumerate(shape.columns):
            if column is not None and column.name.lower() == wanted:
                return at
        raise DataError(
            f"{self.name} has no column {self._number_column}: check incrementing.column.name"
        )

    def _number(self, value: Any) -> int:
        is_whole = isinstance(value, int) or (isinstance(value, Decimal) and value % 1 == 0)
        if not is_whole or isinstance(value, bool):
            raise DataError(
                f"column {self._number_column} of {self.name} has {value!r}, which is not a whole"
                " number: incrementing.column.name needs a column of whole numbers"
            )
        return int(value)


def _rounded_down(moment: datetime, resolution_us: int) -> datetime:
    microseconds = (moment - _EPOCH) // _MICROSECOND
    return _EPOCH + timedelta(microseconds=microseconds // resolution_us * resolution_us)
