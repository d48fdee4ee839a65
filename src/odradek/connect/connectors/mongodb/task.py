"""The task of the connector for MongoDB: a snapshot if one is wanted, and then the changes.

The position in the change stream is taken before the snapshot. Documents are read in the order of
their keys, a chunk in each step, and the stream begins when all are read. So a document that was
changed meanwhile comes again, as a change, and the newest record of a key is right. A task that was
killed reads no document of a finished chunk again.
"""

import logging
import re
import time
from typing import Any, Final

from odradek.connect.connectors.cdc import envelope
from odradek.connect.connectors.cdc.chunks import INITIAL, Progress, TableToRead
from odradek.connect.connectors.cdc.filters import NameFilter
from odradek.connect.connectors.cdc.heartbeats import Heartbeats
from odradek.connect.connectors.cdc.steps import Step
from odradek.connect.connectors.mongodb.documents import parsed_key, stored_key
from odradek.connect.connectors.mongodb.positions import (
    StreamPosition,
    is_unfinished_elsewhere,
    partition_of,
    position_of,
    progress_of,
)
from odradek.connect.connectors.mongodb.records import Collection, MongoRecords
from odradek.connect.connectors.mongodb.settings import MongoDbSettings
from odradek.connect.connectors.mongodb.source import (
    MongoSource,
    StreamIsGone,
    collection_of,
    translated,
)
from odradek.connect.connectors.mongodb.stream_task import ChangeStreamTask
from odradek.connect.connectors.positions import SourceOffset
from odradek.connect.errors import DataError
from odradek.connect.records import SourceRecord

_log = logging.getLogger("odradek.connect")
_WITHOUT_DOCUMENTS: Final = frozenset({"no_data", "never"})
_ONCE: Final = "initial_only"
# How long the stored position may lag behind a stream in which nothing is captured.
_QUIET_S: Final = 10.0


class Collections:
    """Which collections are captured."""

    def __init__(self, settings: MongoDbSettings) -> None:
        quote = _quoted_list if settings.filters_match_mode == "literal" else _as_it_is
        self._databases = NameFilter(
            quote(settings.database_include_list), quote(settings.database_exclude_list)
        )
        self._collections = NameFilter(
            quote(settings.collection_include_list), quote(settings.collection_exclude_list)
        )
        self._scope = settings.capture_target

    def selects(self, collection: Collection) -> bool:
        name = collection.full_name
        is_in_scope = not self._scope or f"{name}.".startswith(f"{self._scope}.")
        return (
            is_in_scope
            and self._databases.selects(collection.database)
            and self._collections.selects(name)
        )


def _as_it_is(text: str) -> str:
    return text


def _quoted_list(text: str) -> str:
    return ",".join(re.escape(name.strip()) for name in text.split(",") if name.strip())


class MongoDbTask(ChangeStreamTask):
    def __init__(self, settings: MongoDbSettings) -> None:
        self._source = MongoSource(settings)
        super().__init__(self._source, partition_of(settings.topic_prefix), settings.max_batch_size)
        self._settings = settings
        self._collections = Collections(settings)
        self._records = MongoRecords(settings, self._partition)
        self._heartbeats = Heartbeats(
            settings.heartbeat_interval_ms, settings.heartbeat_topic, settings.topic_prefix
        )
        self._position: StreamPosition | None = None
        self._progress: Progress | None = None
        self._moved_s = time.monotonic()
        self._snapshot_is_due = settings.snapshot_mode == "always"

    def _forget(self) -> None:
        self._position = None
        self._progress = None

    # Steps

    def _next_step(self, offset: SourceOffset | None, max_records: int) -> Step | None:
        """Invariant: the step begins at `offset`."""
        if self._position is None:
            self._begin(offset)
        assert self._position is not None
        if self._progress is not None:
            if offset is not None and progress_of(offset) is None:
                # A range of documents that ends where it begins would be none.
                return Step(self._position.to_offset(self._progress), [])
            records = self._read_chunk(max_records)
            return Step(self._position.to_offset(self._progress), records)
        if offset is None:
            return Step(self._position.to_offset(), [])
        if self._settings.snapshot_mode == _ONCE:
            return None
        try:
            records = self._read_changes(max_records)
        except StreamIsGone:
            if self._settings.snapshot_mode != "when_needed":
                raise
            _log.warning("%s: the changes are gone; documents are read again", self._name)
            self._disconnect()
            self._steps.begin_at(offset)
            return self._next_step(None, max_records)
        return self._step(offset, records)

    def _begin(self, offset: SourceOffset | None) -> None:
        mode = self._settings.snapshot_mode
        if offset is None or is_unfinished_elsewhere(offset):
            self._position = self._source.now()
            self._progress = None if mode in _WITHOUT_DOCUMENTS else self._all_collections()
            return
        self._position = position_of(offset)
        self._progress = progress_of(offset)
        if self._snapshot_is_due and self._progress is None:
            self._progress = self._all_collections()
        self._snapshot_is_due = False

    def _all_collections(self) -> Progress | None:
        if self._settings.snapshot_delay_ms:
            time.sleep(self._settings.snapshot_delay_ms / 1000)
        wanted = NameFilter(self._settings.snapshot_include_collection_list, None)
        names = sorted(
            collection.full_name
            for collection in self._source.collections()
            if self._collections.selects(collection) and wanted.selects(collection.full_name)
        )
        self._snapshot_is_due = False
        return Progress(INITIAL, tuple(map(TableToRead, names))) if names else None

    def _step(self, offset: SourceOffset | None, records: list[SourceRecord]) -> Step | None:
        assert self._position is not None
        end = self._position.to_offset()
        if self._heartbeats.is_due:
            records = [*records, self._heartbeats.beat(self._partition, end)]
        is_late = time.monotonic() - self._moved_s > _QUIET_S
        if end == offset or not (records or is_late):
            return None
        self._moved_s = time.monotonic()
        return Step(end, records)

    # Changes

    def _read_changes(self, max_records: int) -> list[SourceRecord]:
        assert self._position is not None
        if self._stream is None:
            self._stream = self._source.stream(self._position)
        found: list[SourceRecord] = []
        until_s = time.monotonic() + self._settings.poll_interval_ms / 1000
        while len(found) < max_records - 1:  # A delete is two records.
            with translated():
                change = self._stream.try_next()
            if change is not None:
                found += self._changed(change)
            elif found or time.monotonic() >= until_s:
                break
        token = self._stream.resume_token
        if token is not None:
            self._position = StreamPosition(self._position.time, token)
        return found

    def _changed(self, change: dict[str, Any]) -> list[SourceRecord]:
        if change["operationType"] == "invalidate":
            raise DataError(
                f"{self._settings.capture_target} was dropped or renamed, which ends its change"
                " stream: begin again under another name, or use capture.scope=deployment"
            )
        at = change["clusterTime"]
        self._position = StreamPosition(at, change["_id"])
        collection = collection_of(change, self._settings)
        if not self._collections.selects(collection):
            return []
        try:
            return self._records.changed(collection, change, self._position.to_offset())
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(
                f"a change of {collection.full_name} cannot be written: {error!r}"
            ) from error

    # Snapshots

    def _read_chunk(self, max_records: int) -> list[SourceRecord]:
        progress = self._progress
        assert progress is not None
        assert self._position is not None
        database, _, name = progress.table.name.partition(".")
        collection = Collection(database, name)
        count = min(self._settings.snapshot_fetch_size, max_records)
        has_after = progress.after is not None
        after = None
        if progress.after is not None:
            after = parsed_key(progress.after[0] or "")
        documents = self._source.documents(collection, after, has_after, count)
        is_last = len(documents) < count
        if is_last:
            following = progress.next_table(has_sent=progress.has_sent or bool(documents))
            self._progress = None if following.is_done else following
        else:
            self._progress = progress.sent((stored_key(documents[-1]["_id"]),))
        offset = self._position.to_offset(self._progress)
        if self._progress is None:
            _log.info("%s: the snapshot is complete", self._name)
        found: list[SourceRecord] = []
        for index, document in enumerate(documents):
            marker = envelope.SNAPSHOT_TRUE
            if index == 0 and not progress.has_sent:
                marker = envelope.SNAPSHOT_FIRST
            elif index == len(documents) - 1 and self._progress is None:
                marker = envelope.SNAPSHOT_LAST
            found += self._records.read(collection, document, marker, self._position.time, offset)
        return found

    @property
    def _name(self) -> str:
        return self._settings.topic_prefix
