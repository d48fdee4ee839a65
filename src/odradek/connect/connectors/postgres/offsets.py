"""How far the log of a server was read, as the offset that is stored.

    lsn_commit        where the last transaction that was read to its end ends
    tx_commit, index  a transaction that was read in part: where its commit is, and how many changes
    lsn_proc, lsn     where the last change stands; txId and ts_usec: its transaction and time
    odradek_snapshot  what a snapshot has still to read (`cdc.chunks.Progress`)
    odradek_covered   tables without a key whose rows were read while changes of them were under way

`lsn_commit`, `lsn_proc`, `lsn`, `txId` and `ts_usec` are Debezium's, so its offsets can be taken
over, and ours given back. The key of a position is (commit, index): transactions come in the order
of their commits, and the changes of one always in the same order.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from odradek.connect.connectors.cdc.chunks import Progress
from odradek.connect.connectors.positions import SourceOffset
from odradek.connect.errors import DataError

SERVER: Final = "server"
_COMMIT: Final = "lsn_commit"
_SNAPSHOT: Final = "odradek_snapshot"
_COVERED: Final = "odradek_covered"


@dataclass(frozen=True, slots=True)
class Covered:
    """The rows of a table that were read in a snapshot of the database: transactions that it has
    seen (`visible`, as `pg_current_snapshot()` writes it) and that come until `until_lsn` are in
    them already."""

    table: str
    visible: str
    until_lsn: int


@dataclass(frozen=True, slots=True)
class LogPosition:
    """`is_foreign` is set for an offset of Debezium, which counts no changes but remembers the
    place of the last one."""

    commit_lsn: int
    open_commit_lsn: int | None = None
    index: int = 0
    lsn: int | None = None
    xid: int | None = None
    time_us: int | None = None
    snapshot: Progress | None = None
    covered: tuple[Covered, ...] = ()
    is_foreign: bool = False

    def offset(self) -> SourceOffset:
        lsn = self.commit_lsn if self.lsn is None else self.lsn
        found: dict[str, Any] = {"lsn_proc": lsn, _COMMIT: self.commit_lsn, "lsn": lsn}
        if self.xid is not None:
            found["txId"] = self.xid
        if self.time_us is not None:
            found["ts_usec"] = self.time_us
        if self.open_commit_lsn is not None:
            found["tx_commit"] = self.open_commit_lsn
            found["index"] = self.index
        if self.snapshot is not None:
            found[_SNAPSHOT] = self.snapshot.to_text()
        if self.covered:
            rows = [[table.table, table.visible, table.until_lsn] for table in self.covered]
            found[_COVERED] = json.dumps(rows, separators=(",", ":"))
        return found

    def with_snapshot(self, progress: Progress | None) -> "LogPosition":
        done = progress is None or progress.is_done
        return replace(self, snapshot=None if done else progress)


def position_of(offset: SourceOffset) -> LogPosition:
    """Raises `DataError` for an offset that is none of this connector."""
    commit = _number(offset, _COMMIT)
    processed = _number(offset, "lsn_proc")
    if commit is None:
        # Debezium has written no commit yet: it stands in its first snapshot, or before it.
        commit = _number(offset, "lsn")
        if commit is None:
            raise DataError(f'{dict(offset)} is not an offset of PostgreSQL: {{"{_COMMIT}": N}}')
    open_commit = _number(offset, "tx_commit")
    try:
        snapshot = offset.get(_SNAPSHOT)
        covered = json.loads(offset.get(_COVERED) or "[]")
        return LogPosition(
            commit,
            open_commit,
            _number(offset, "index") or 0,
            processed,
            _number(offset, "txId"),
            _number(offset, "ts_usec"),
            None if snapshot is None else Progress.from_text(snapshot),
            tuple(Covered(str(row[0]), str(row[1]), int(row[2])) for row in covered),
            is_foreign=open_commit is None and processed is not None and processed > commit,
        )
    except (TypeError, ValueError, IndexError) as error:
        raise DataError(f"{dict(offset)} is not an offset of PostgreSQL: {error}") from error


def _number(offset: Mapping[str, Any], name: str) -> int | None:
    found = offset.get(name)
    if found is None:
        return None
    if isinstance(found, bool) or not isinstance(found, int) or found < 0:
        raise DataError(f"{name} of an offset is a number, and this is {found!r}")
    return found
