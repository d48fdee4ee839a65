"""Where a connector is in a binary log: offsets as Debezium writes them, so that each can go on
where the other was.

    file, pos     where the transaction begins that is being read, or the next one
    event, row    how many events of it were read, and how many rows of the event after those
    gtids         the transactions before it, by their numbers, if the server numbers them
    ts_sec, server_id    when and where the last event was written; for people

A snapshot that has not ended adds its progress, and what Debezium notes then. `xa` are distributed
transactions that are prepared and not yet decided: where each begins.
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
NEEDED: Final = 'the offset in a binary log is {"file": "binlog.000001", "pos": 4}'


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
    """Raises `DataError`."""
    file, position = offset.get("file"), offset.get("pos")
    if not isinstance(file, str) or not file:
        raise DataError(f"{NEEDED}, and this one has no file")
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
    """Returns what a snapshot has still to read. Raises `DataError`."""
    text = offset.get(_PROGRESS)
    return None if text is None else Progress.from_text(str(text))


def is_unfinished_elsewhere(offset: SourceOffset) -> bool:
    """Whether Debezium was in the middle of a snapshot, which must begin again then."""
    return offset.get("snapshot") not in {None, False, "false"} and _PROGRESS not in offset


def _whole(name: str, value: Any) -> int:
    try:
        if isinstance(value, bool) or int(value) < 0:
            raise ValueError(value)
        return int(value)
    except (TypeError, ValueError):
        raise DataError(f"{NEEDED}, and {name} is a whole number: {value!r}") from None


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
    """Returns what places are compared by: the number of the file, and the position."""
    number = place.file.rpartition(".")[2]
    return int(number) if number.isdigit() else 0, place.position
