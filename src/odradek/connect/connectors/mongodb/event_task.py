"""The task of the source of change events: documents that are there if they are wanted, and then
the changes.

The position in the change stream is taken before documents are copied. They are read in the order
of their keys, a chunk in each step, and a task that was killed goes on after the last chunk. Where
the pipelines select none of a chunk, the step moves the position only.
"""

import logging
import time
from typing import Any, Final

from odradek.connect.connectors.cdc.chunks import INITIAL, Progress, TableToRead
from odradek.connect.connectors.cdc.steps import Step
from odradek.connect.connectors.mongodb.documents import parsed_key, stored_key
from odradek.connect.connectors.mongodb.event_positions import (
    EventPosition,
    copies_elsewhere,
    copying_progress,
    event_partition,
    event_position,
)
from odradek.connect.connectors.mongodb.event_records import EventRecords
from odradek.connect.connectors.mongodb.event_settings import MongoEventSettings
from odradek.connect.connectors.mongodb.event_source import URI, MongoEventSource
from odradek.connect.connectors.mongodb.records import Collection
from odradek.connect.connectors.mongodb.source import StreamIsGone, translated
from odradek.connect.connectors.mongodb.stream_task import ChangeStreamTask
from odradek.connect.connectors.positions import SourceOffset
from odradek.connect.errors import DataError
from odradek.connect.records import SourceRecord

_log = logging.getLogger("odradek.connect")
# How long the stored position may lag behind a stream in which nothing is written.
_QUIET_S: Final = 10.0


class MongoEventTask(ChangeStreamTask):
    def __init__(self, settings: MongoEventSettings) -> None:
        self._source = MongoEventSource(settings)
        partition = event_partition(settings.offset_name)
        super().__init__(self._source, partition, settings.poll_max_batch_size)
        self._settings = settings
        self._records = EventRecords(settings, partition)
        self._position: EventPosition | None = None
        self._progress: Progress | None = None
        self._moved_s = self._beat_s = time.monotonic()

    def _forget(self) -> None:
        self._position = None
        self._progress = None

    # Steps

    def _next_step(self, offset: SourceOffset | None, max_records: int) -> Step | None:
        """Invariant: the step begins at `offset`."""
        if self._position is None:
            self._begin(offset)
        assert self._position is not None
        if offset is None or (self._progress is not None and copying_progress(offset) is None):
            # A range of documents that ends where it begins would be none.
            return Step(self._position.to_offset(self._progress), [])
        if self._progress is not None:
            records = self._copy(self._progress, max_records)
            return Step(self._position.to_offset(self._progress), records)
        try:
            return self._step(offset, self._read_changes(max_records))
        except StreamIsGone as error:
            raise DataError(
                "MongoDB has no changes any more from where this connector was. Reset its offsets"
                " to begin again, with startup.mode=copy_existing to have all documents again, and"
                f" let the servers keep more of their oplog: {error.__cause__}"
            ) from error

    def _begin(self, offset: SourceOffset | None) -> None:
        if offset is None or copies_elsewhere(offset):
            self._position = self._source.first_position()
            if self._settings.copies_existing:
                names = [TableToRead(found.full_name) for found in self._source.watched()]
                self._progress = Progress(INITIAL, tuple(names)) if names else None
            return
        self._position = event_position(offset)
        self._progress = copying_progress(offset)

    def _step(self, offset: SourceOffset, records: list[SourceRecord]) -> Step | None:
        assert self._position is not None
        end = self._position.to_offset()
        now_s = time.monotonic()
        interval_s = self._settings.heartbeat_interval_ms / 1000
        token = self._position.token
        if not records and interval_s and token is not None and now_s - self._beat_s >= interval_s:
            self._beat_s = now_s
            if end != offset:
                records = [self._records.heartbeat(token, end)]
        if end == offset or not (records or now_s - self._moved_s > _QUIET_S):
            return None
        self._moved_s = now_s
        return Step(end, records)

    # Changes

    def _read_changes(self, max_records: int) -> list[SourceRecord]:
        assert self._position is not None
        if self._stream is None:
            self._stream = self._source.stream(self._position)
        found: list[SourceRecord] = []
        until_s = time.monotonic() + self._settings.await_ms / 1000
        while len(found) < max_records:
            with translated(URI):
                event = self._stream.try_next()
            if event is not None:
                found += self._changed(event)
                if not self._stream.alive:
                    self._close_stream()
                    return found
            elif found or time.monotonic() >= until_s:
                break
        token = self._stream.resume_token
        if token is not None:
            self._position = EventPosition(token)
        return found

    def _changed(self, event: dict[str, Any]) -> list[SourceRecord]:
        is_end = event.get("operationType") == "invalidate"
        self._position = EventPosition(event["_id"], is_ended=is_end)
        return self._records.of(event, self._position.to_offset())

    # Documents

    def _copy(self, progress: Progress, max_records: int) -> list[SourceRecord]:
        assert self._position is not None
        database, _, name = progress.table.name.partition(".")
        collection = Collection(database, name)
        has_after = progress.after is not None
        after = parsed_key(progress.after[0] or "") if progress.after else None
        chunk = self._source.last_key(collection, after, has_after, max_records)
        events: list[dict[str, Any]] = []
        if chunk is not None:
            events = self._source.selected(collection, after, has_after, chunk[0])
        if chunk is None or chunk[1]:
            following = progress.next_table(has_sent=True)
            self._progress = None if following.is_done else following
        else:
            self._progress = progress.sent((stored_key(chunk[0]),))
        if self._progress is None:
            _log.info("%s: all documents are copied", self._settings.offset_name)
        offset = self._position.to_offset(self._progress)
        return [record for event in events for record in self._records.of(event, offset)]
