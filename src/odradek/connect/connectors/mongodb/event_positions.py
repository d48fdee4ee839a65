"""The positions of a source of change events, stored as offsets in the format of MongoDB's Kafka
connector:

_id                 the resume token of the change stream: a document of the server, as JSON
copy                documents are being copied
odradek_snapshot    how far they have been copied
odradek_time        the time at which the stream begins, until the first change has arrived
odradek_invalid     the stream ended here, because what it watched was dropped or renamed
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from bson import json_util
from bson.timestamp import Timestamp

from odradek.connect.connectors.cdc.chunks import Progress
from odradek.connect.connectors.mongodb.documents import spaced_json
from odradek.connect.connectors.positions import SourceOffset, SourcePartition
from odradek.connect.errors import DataError

_PLACE: Final = "_id"
_COPY: Final = "copy"
_TIME: Final = "odradek_time"
_INVALID: Final = "odradek_invalid"
_PROGRESS: Final = "odradek_snapshot"


def event_partition(name: str) -> SourcePartition:
    return {"ns": name}


@dataclass(frozen=True, slots=True)
class EventPosition:
    """A position in a change stream: a resume token, or a time as long as there is no token.
    `is_ended` says that the stream ended there."""

    token: Mapping[str, Any] | None = None
    time: Timestamp | None = None
    is_ended: bool = False

    def to_offset(self, progress: Progress | None = None) -> SourceOffset:
        found: dict[str, Any] = {}
        if self.token is not None:
            found[_PLACE] = spaced_json(self.token, "relaxed")
        if self.time is not None:
            found[_TIME] = f"{self.time.time}.{self.time.inc}"
        if self.is_ended:
            found[_INVALID] = "true"
        if progress is not None and not progress.is_done:
            found[_COPY] = "true"
            found[_PROGRESS] = progress.to_text()
        return found


def event_position(offset: SourceOffset) -> EventPosition:
    """Returns the position of an offset. Raises `DataError` if the offset is not one."""
    try:
        token, time = offset.get(_PLACE), offset.get(_TIME)
        parsed = None if token is None else json_util.loads(str(token))
        if parsed is not None and not isinstance(parsed, dict):
            raise TypeError(f"{token} is not a resume token")
        if time is None and parsed is None:
            raise TypeError("it has no resume token")
        at = None
        if time is not None:
            seconds, _, number = str(time).partition(".")
            at = Timestamp(int(seconds), int(number or 0))
        return EventPosition(parsed, at, _INVALID in offset)
    except (TypeError, ValueError) as error:
        raise DataError(
            f'the offset in a change stream is like {{"_id": "TOKEN AS JSON"}}: {error}'
        ) from error


def copying_progress(offset: SourceOffset) -> Progress | None:
    """Returns the progress of a copy that has not ended, or None. Raises `DataError`."""
    text = offset.get(_PROGRESS)
    return None if text is None else Progress.from_text(str(text))


def copies_elsewhere(offset: SourceOffset) -> bool:
    """Returns whether MongoDB's connector stopped while copying, which must begin again then."""
    return _COPY in offset and _PROGRESS not in offset
