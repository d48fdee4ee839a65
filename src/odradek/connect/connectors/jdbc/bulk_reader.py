"""The mode bulk: reads the whole table again and again, a round every `poll.interval.ms`.

A table whose primary key consists of integers or text is read in pages, in the order of the key, so
it may have any size. After a restart, a round goes on with the next page. A page that is read again
gives the same records, unless its rows were changed. Any other table, and a query, is read at once.

Offsets: `{"round": T, "after": [...]}` within a round that began at T, where `after` is the last
key that was read, and `{"round": T}` after the round.
"""

import time
from collections.abc import Sequence
from typing import Any, ClassVar, Final

from odradek.connect.connectors.jdbc.dialect import Connection
from odradek.connect.connectors.jdbc.names import PLACE
from odradek.connect.connectors.jdbc.table_reader import Batch, Shape, TableReader
from odradek.connect.connectors.positions import SourceOffset
from odradek.connect.data.schemas import INTEGERS, Type
from odradek.connect.records import SourceRecord

ROUND_FIELD: Final = "round"
AFTER_FIELD: Final = "after"


class BulkReader(TableReader):
    offset_names: ClassVar = frozenset((ROUND_FIELD,))
    _keys: list[str] | None = None

    def find(self, connection: Connection, start: SourceOffset | None, limit: int) -> Batch | None:
        now_ms = int(time.time() * 1000)
        started_ms, after = _place(start)
        if after is None:
            if started_ms is not None and now_ms < started_ms + self.settings.poll_interval_ms:
                return None
            started_ms = now_ms
        rows, shape, is_last = self._page(connection, after, limit)
        if not rows and after is None:
            return None
        end: dict[str, Any] = {ROUND_FIELD: started_ms}
        if not is_last:
            end[AFTER_FIELD] = self._key_of(rows[-1], shape)
        return Batch(start, end, self._records(rows, shape, end), not is_last)

    def find_again(
        self, connection: Connection, start: SourceOffset | None, end: SourceOffset
    ) -> list[SourceRecord]:
        _, after = _place(start)
        _, until = _place(end)
        rows, shape = self._select(connection, after, until, None)
        return self._records(rows, shape, end)

    def _page(
        self, connection: Connection, after: Sequence[Any] | None, limit: int
    ) -> tuple[list[Any], Shape, bool]:
        if self._keys is None:
            self._keys = self._sortable_keys(connection)
        rows, shape = self._select(connection, after, None, limit if self._keys else None)
        return rows, shape, not self._keys or len(rows) < limit

    def _sortable_keys(self, connection: Connection) -> list[str]:
        """Returns the columns of the primary key if all are integers or text, which JSON keeps as
        they are; else an empty list."""
        if self.table is None:
            return []
        keys = self.dialect.key_columns(connection, self.table)
        _, shape = self.rows(connection, f" FROM {self.source} AS found WHERE 1=0", ())
        kinds = {
            field.name: field.schema for field in shape.schema.fields if field.schema.name is None
        }
        is_sortable = all(
            name in kinds and kinds[name].type in {*INTEGERS, Type.STRING} for name in keys
        )
        return keys if is_sortable else []

    def _select(
        self,
        connection: Connection,
        after: Sequence[Any] | None,
        until: Sequence[Any] | None,
        limit: int | None,
    ) -> tuple[list[Any], Shape]:
        keys = self._keys if self._keys is not None else self._sortable_keys(connection)
        listed = ", ".join(map(self.dialect.identifier, keys))
        places = ", ".join([PLACE] * len(keys))
        conditions: list[str] = []
        values: list[Any] = []
        for sign, bound in ((">", after), ("<=", until)):
            if bound is not None:
                conditions.append(f"({listed}) {sign} ({places})")
                values += bound
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        order = f" ORDER BY {listed}" if keys else ""
        rest = f" FROM {self.source} AS found{where}{order}"
        return self.rows(connection, rest if limit is None else f"{rest} LIMIT {limit}", values)

    def _key_of(self, row: Sequence[Any], shape: Shape) -> list[Any]:
        value = shape.value(row)
        return [value[name] for name in self._keys or ()]

    def _records(
        self, rows: Sequence[Any], shape: Shape, offset: SourceOffset
    ) -> list[SourceRecord]:
        return [self.record(shape.value(row), shape.schema, self.stored_as, offset) for row in rows]


def _place(offset: SourceOffset | None) -> tuple[int | None, list[Any] | None]:
    if offset is None:
        return None, None
    return offset.get(ROUND_FIELD), offset.get(AFTER_FIELD)
