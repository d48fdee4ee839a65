"""The progress of a snapshot that is read in chunks while changes stream.

A chunk is the next rows of a table in the order of its key. Between the moment at which it is read
and the moment at which the stream has passed that moment, changes of its rows may come by the
stream. Those are newer than the row, or equal to it, so the row is dropped from the chunk (this is
the algorithm of Netflix's DBLog). What is left goes into the topic before the changes that follow.

1. A task reads a chunk, and puts its rows into a `Window`.
2. It reads the stream up to a position that is certainly after the moment of the read. The key of
   each change on the way leaves the window.
3. It sends the rows that are left, and the progress after them, in one range.

So each row is in the topic before or by its first change after the chunk, whatever is written
meanwhile, without a lock; and a task that was killed goes on after the last row that it has sent.
What would break it: a key that is not unique, or a position that is not after the read.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final, Generic, TypeVar

from odradek.connect.errors import DataError

INITIAL: Final = "initial"
INCREMENTAL: Final = "incremental"

Key = tuple[str | None, ...]
RowT = TypeVar("RowT")


@dataclass(frozen=True, slots=True)
class TableToRead:
    """`condition` is a filter in the language of the source; `key` are columns to read by in place
    of the table's key; `signal` is the identifier of the signal that asked for it. One that was
    asked for as blocking is read like the others, but its rows look like those of a first snapshot,
    and its condition is a whole statement."""

    name: str
    condition: str | None = None
    key: tuple[str, ...] | None = None
    signal: str | None = None
    is_blocking: bool = False

    @property
    def is_incremental(self) -> bool:
        """Whether its rows are marked as those of a signal."""
        return self.signal is not None and not self.is_blocking


@dataclass(frozen=True, slots=True)
class Progress:
    """What a snapshot has still to read. The first of `tables` is being read: `after` is the key
    of the last row that was sent, `up_to` the largest key that the table had in the beginning.
    `own` is what a connector notes besides."""

    kind: str
    tables: tuple[TableToRead, ...]
    after: Key | None = None
    up_to: Key | None = None
    has_sent: bool = False
    own: Mapping[str, Any] = field(default_factory=dict)

    @property
    def table(self) -> TableToRead:
        return self.tables[0]

    @property
    def is_done(self) -> bool:
        return not self.tables

    def sent(self, after: Key) -> "Progress":
        """The rows up to this key have been sent."""
        return replace(self, after=after, has_sent=True)

    def next_table(self, *, has_sent: bool | None = None) -> "Progress":
        """The first table has been read to its end."""
        return replace(
            self,
            tables=self.tables[1:],
            after=None,
            up_to=None,
            has_sent=self.has_sent if has_sent is None else has_sent,
            own={},
        )

    def and_tables(self, tables: Iterable[TableToRead]) -> "Progress":
        """Adds tables that are not waiting already."""
        waiting = {(table.name, table.condition) for table in self.tables}
        added = tuple(table for table in tables if (table.name, table.condition) not in waiting)
        return replace(self, tables=(*self.tables, *added))

    def without(self, names: Iterable[str] | None) -> "Progress":
        """Takes tables out; all if None."""
        stopped = {table.name for table in self.tables} if names is None else set(names)
        left = tuple(table for table in self.tables if table.name not in stopped)
        if self.tables and self.tables[0].name in stopped:
            return replace(self, tables=left, after=None, up_to=None, own={})
        return replace(self, tables=left)

    def to_text(self) -> str:
        """Returns it for an offset: those of Kafka Connect hold texts and numbers only."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def from_text(cls, text: str) -> "Progress":
        """Raises `DataError`."""
        try:
            found = json.loads(text)
            tables = tuple(
                TableToRead(
                    str(table["name"]),
                    table.get("condition"),
                    None if table.get("key") is None else tuple(map(str, table["key"])),
                    table.get("signal"),
                    bool(table.get("is_blocking")),
                )
                for table in found["tables"]
            )
            return cls(
                str(found["kind"]),
                tables,
                _key(found.get("after")),
                _key(found.get("up_to")),
                bool(found.get("has_sent")),
                dict(found.get("own") or {}),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise DataError(
                f"the offset has a progress of a snapshot that cannot be read: {text[:200]}"
            ) from error


def _key(found: Any) -> Key | None:
    return None if found is None else tuple(found)


class Window(Generic[RowT]):
    """The rows of a chunk, by key, while the stream passes the moment at which they were read."""

    def __init__(self, table: str, rows: Mapping[Key, RowT]) -> None:
        self.table = table
        self._rows = dict(rows)

    def changed(self, *keys: Key | None) -> None:
        """The stream has changed these rows."""
        for key in keys:
            if key is not None:
                self._rows.pop(key, None)

    def truncated(self) -> None:
        self._rows.clear()

    def rows(self) -> list[tuple[Key, RowT]]:
        """Returns what is left, in the order of the chunk."""
        return list(self._rows.items())
