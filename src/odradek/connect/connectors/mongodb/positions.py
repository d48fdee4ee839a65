"""Where a connector is in a change stream: offsets as Debezium writes them.

resume_token    where the stream goes on: a document of the server, in BSON and base64
sec, ord        the time of the last change; without a token the stream begins there
initsync        a snapshot is under way; its progress stands beside it
"""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import bson
from bson.timestamp import Timestamp

from odradek.connect.connectors.cdc.chunks import Progress
from odradek.connect.connectors.positions import SourceOffset, SourcePartition
from odradek.connect.errors import DataError

_PROGRESS: Final = "odradek_snapshot"
_INITIAL: Final = "initsync"


def partition_of(topic_prefix: str) -> SourcePartition:
    return {"server_id": topic_prefix}


@dataclass(frozen=True, slots=True)
class StreamPosition:
    time: Timestamp
    token: Mapping[str, Any] | None = None

    def to_offset(self, progress: Progress | None = None) -> SourceOffset:
        found: dict[str, Any] = {"sec": self.time.time, "ord": self.time.inc}
        if self.token is not None:
            found["resume_token"] = base64.b64encode(bson.encode(dict(self.token))).decode()
        if progress is not None and not progress.is_done:
            found[_INITIAL] = True
            found[_PROGRESS] = progress.to_text()
        return found


def position_of(offset: SourceOffset) -> StreamPosition:
    """Raises `DataError`."""
    try:
        time = Timestamp(int(offset.get("sec", 0)), max(int(offset.get("ord", 0)), 0))
        return StreamPosition(time, _token(offset.get("resume_token")))
    except (TypeError, ValueError) as error:
        raise DataError(
            'the offset in a change stream is {"sec": SECONDS, "ord": NUMBER, "resume_token":'
            f" TEXT}}: {error}"
        ) from error


def _token(text: Any) -> dict[str, Any] | None:
    if text is None:
        return None
    try:
        return dict(bson.decode(base64.b64decode(str(text), validate=True)))
    except (ValueError, bson.errors.BSONError):
        return {"_data": str(text)}  # The form of older versions.


def progress_of(offset: SourceOffset) -> Progress | None:
    """Returns what a snapshot has still to read. Raises `DataError`."""
    text = offset.get(_PROGRESS)
    return None if text is None else Progress.from_text(str(text))


def is_unfinished_elsewhere(offset: SourceOffset) -> bool:
    """Whether Debezium was in the middle of a snapshot, which must begin again then."""
    return bool(offset.get(_INITIAL)) and _PROGRESS not in offset
