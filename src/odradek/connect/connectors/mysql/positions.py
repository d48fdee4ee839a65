"""The positions of a connector in a binary log, stored as offsets in Debezium's format, so that
Debezium can continue where Odradek stopped, and Odradek where Debezium stopped.

    file, pos            where the current transaction begins, or the next one
    event, row           how many of its events were read, and how many rows of the event after them
    gtids                the GTIDs of the transactions before it, if the server has GTIDs
    ts_sec, server_id    when and by which server the last event was written; for people
    odradek_xa           where each XA transaction begins that is prepared but not decided
    odradek_snapshot     the progress of a snapshot that has not ended; with it are Debezium's marks
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from odradek.connect.connectors.cdc.chunks import INITIAL, Progress
from odradek.connect.connectors.mysql.server import LogPlace
from odradek.connect.connectors.positions import SourceOffset, SourcePartition
from odradek.connect.errors import DataError

_PROGRESS: Final = "odradek_snapshot"
_PREPARED: Final = "odradek_xa"
NEEDED: Final = 'the offset in a binary log is like {"file": "binlog.000001", "pos": 4}'


def partition_of(topic_prefix: str) -> SourcePartition:
    return {"server": topic_prefix}


@dataclass(frozen=True, slots=True)
class LogPosition:
    place: LogPlace
    event: int = 0
    row: int = 0
    gtids: str | None = None
    ts_sec: int | None = None
    server_id: int = 0
    prepared: Mapping[str, LogPlace] = field(default_factory=dict)

    def to_offset(self, progress: Progress | None = None) -> SourceOffset:
        found: dict[str, Any] = {}
        if self.ts_sec:
            found["ts_sec"] = self.ts_sec
        found["file"], found["pos"] = self.place
        if self.gtids is not None:
            found["gtids"] = self.gtids
        if self.row:
            found["row"] = self.row
        if self.server_id:
            found["server_id"] = self.server_id
        if self.event:
            found["event"] = self.event
        if self.prepared:
            found[_PREPARED] = json.dumps(self.prepared, separators=(",", ":"))
        if progress is not None and not progress.is_done:
            if progress.kind == INITIAL:
                found["snapshot"], found["snapshot_completed"] = "INITIAL", False
            found[_PROGRESS] = progress.to_text()
        return found


def position_of(offset: SourceOffset) -> LogPosition:
    """Returns the position of an offset. Raises `DataError` if the offset is not one."""
    file, position = offset.get("file"), offset.get("pos")
    if not isinstance(file, str) or not file:
        raise DataError(f"{NEEDED}, but this one has no file")
    gtids = offset.get("gtids")
    return LogPosition(
        LogPlace(file, _whole("pos", position)),
        _whole("event", offset.get("event", 0)),
        _whole("row", offset.get("row", 0)),
        None if gtids is None else str(gtids),
        offset.get("ts_sec"),
        _whole("server_id", offset.get("server_id", 0)),
        _prepared(offset.get(_PREPARED)),
    )


def progress_of(offset: SourceOffset) -> Progress | None:
    """Returns the progress of a snapshot that has not ended, or None. Raises `DataError`."""
    text = offset.get(_PROGRESS)
    return None if text is None else Progress.from_text(str(text))


def is_unfinished_elsewhere(offset: SourceOffset) -> bool:
    """Returns whether Debezium stopped within a snapshot. That snapshot must begin again."""
    return offset.get("snapshot") not in {None, False, "false"} and _PROGRESS not in offset


def _whole(name: str, value: Any) -> int:
    try:
        if isinstance(value, bool) or int(value) < 0:
            raise ValueError(value)
        return int(value)
    except (TypeError, ValueError):
        raise DataError(f"{NEEDED}, and {name} must be a whole number, not {value!r}") from None


def _prepared(text: Any) -> dict[str, LogPlace]:
    if text is None:
        return {}
    try:
        return {
            str(xid): LogPlace(str(file), int(at)) for xid, (file, at) in json.loads(text).items()
        }
    except (TypeError, ValueError, AttributeError):
        raise DataError(
            f"the offset has distributed transactions that cannot be read: {text}"
        ) from None


def in_order(place: LogPlace) -> tuple[int, int]:
    """Returns the key that orders positions: the number of the file, and the byte in it."""
    number = place.file.rpartition(".")[2]
    return int(number) if number.isdigit() else 0, place.position
