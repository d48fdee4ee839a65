"""A connection to a server: the stream of a slot, and chunks of snapshots between transactions.

A session begins at a stored offset and makes steps from there. When the connection is lost it is
thrown away, and another one begins where the last step ended.

Between the read of a chunk and the moment at which the stream has passed it, the chunk is a
`Window`. Its rows then come before the next transaction of the stream. Nothing of a chunk stands in
the offset before its rows have been sent, so a session that ends leaves nothing half done.
"""

import logging
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import replace
from typing import Final, NamedTuple

from odradek.connect.connectors.cdc import envelope
from odradek.connect.connectors.cdc.chunks import (
    INCREMENTAL,
    INITIAL,
    Progress,
    TableToRead,
    Window,
)
from odradek.connect.connectors.cdc.envelope import Origin
from odradek.connect.connectors.cdc.filters import NameFilter
from odradek.connect.connectors.cdc.heartbeats import Heartbeats
from odradek.connect.connectors.cdc.notifications import Notifier, notifications
from odradek.connect.connectors.cdc.signals import (
    Action,
    ExecuteSnapshot,
    PauseSnapshot,
    ResumeSnapshot,
    Signal,
    StopSnapshot,
    action_of,
)
from odradek.connect.connectors.cdc.steps import Step
from odradek.connect.connectors.positions import SourceOffset
from odradek.connect.connectors.postgres import settings as names
from odradek.connect.connectors.postgres import slots
from odradek.connect.connectors.postgres.catalog import Catalog
from odradek.connect.connectors.postgres.database import Database
from odradek.connect.connectors.postgres.offsets import SERVER, LogPosition, position_of
from odradek.connect.connectors.postgres.pgoutput import Begin, Commit, Values
from odradek.connect.connectors.postgres.replication import Change, Keepalive, Replication
from odradek.connect.connectors.postgres.settings import PostgresSettings
from odradek.connect.connectors.postgres.snapshot import Chunk, ChunkReader
from odradek.connect.connectors.postgres.stream import ChangeStream
from odradek.connect.errors import DataError, Unavailable
from odradek.connect.records import Header, SourceRecord

_log = logging.getLogger("odradek.connect")
_SLICE_S: Final = 0.1
_ASK_AGAIN_S: Final = 0.02
_SLOT_IN_USE_S: Final = 2.0
_FEW_RECORDS: Final = 100
_LINGER_S: Final = 0.01
_HEARTBEAT: Final = "heartbeat_ms"


class _Ready(NamedTuple):
    """A row of a chunk that the stream has passed; `progress` is what remains after it."""

    chunk: Chunk
    values: Values
    mark: str
    progress: Progress


class CaptureSession:
    def __init__(
        self,
        settings: PostgresSettings,
        offset: SourceOffset | None,
        headers: tuple[Header, ...],
        heartbeats: Heartbeats,
        *,
        is_first: bool,
        is_closed: Callable[[], bool],
    ) -> None:
        """`is_first` is set for the first session of a task. Raises `Unavailable`, or `DataError`
        with advice."""
        self._settings = settings
        self._partition = {SERVER: settings.topic_prefix}
        self._heartbeats = heartbeats
        self._is_closed = is_closed
        self._replication: Replication | None = None
        self.database = Database(
            settings.address, statement_timeout_ms=settings.database_query_timeout_ms
        )
        try:
            catalog = Catalog(self.database)
            position = self._prepared(catalog, offset, is_first=is_first)
            self._progress = position.snapshot
            self._stream = ChangeStream(
                settings,
                catalog,
                position,
                self._partition,
                headers=headers,
                is_unread=self._is_unread,
            )
            self._chunks = ChunkReader(self.database, catalog, settings, headers)
            if settings.snapshots != names.INITIAL_ONLY:
                self._replication = self._replicating(position.commit_lsn)
        except Exception:
            self.database.close()
            raise
        self._sent_progress = self._progress if offset is not None else None
        self._notifier = Notifier(
            settings.notification_enabled_channels,
            settings.notification_sink_topic_name,
            settings.topic_prefix,
        )
        is_going_on = offset is not None and position_of(offset).snapshot is not None
        # A snapshot may begin and end in one step, so its beginning is noted here.
        self._notes = [] if is_going_on else notifications(None, self._progress, {})
        self._told_progress = self._progress
        self._read_rows: Counter[str] = Counter()
        self._chunk: Chunk | None = None
        self._ready: deque[_Ready] = deque()
        self._held: Change | None = None
        self._ask_at = 0.0
        self._is_paused = False
        self._chunks_from_s = time.monotonic() + settings.snapshot_delay_ms / 1000

    # The beginning

    def _replicating(self, start_lsn: int) -> Replication:
        """Begins to stream. The server needs a moment to see that the connection of the session
        before is gone, and until then the slot is in use."""
        settings = self._settings
        deadline = time.monotonic() + _SLOT_IN_USE_S
        while True:
            try:
                return Replication(
                    settings.address,
                    settings.slot_name,
                    settings.publication_name,
                    start_lsn,
                    status_interval_ms=settings.status_update_interval_ms,
                    parameters=settings.slot_stream_params,
                )
            except Unavailable:
                if time.monotonic() > deadline or self._is_closed():
                    raise
            time.sleep(_ASK_AGAIN_S)

    def _prepared(
        self, catalog: Catalog, offset: SourceOffset | None, *, is_first: bool
    ) -> LogPosition:
        """Makes what the server lacks, and returns where to begin."""
        settings, database = self._settings, self.database
        for statement in settings.database_initial_statements.replace(";;", "\0").split(";"):
            if statement.strip():
                database.run(statement.replace("\0", ";"))
        self._captured = slots.captured_tables(catalog, settings)
        if settings.snapshots == names.INITIAL_ONLY:
            return (
                LogPosition(0, snapshot=self._snapshot()) if offset is None else position_of(offset)
            )
        wrong = slots.wrong_server(database)
        if wrong is not None:
            raise DataError(wrong)
        slots.set_replica_identities(database, settings, self._captured)
        slots.prepare_publication(database, settings, self._captured)
        slot = slots.find_slot(database, settings.slot_name)
        mode = settings.snapshots
        is_new = offset is None
        if slot is None:
            if not is_new and mode not in (names.WHEN_NEEDED, names.ALWAYS):
                raise DataError(
                    f"replication slot {settings.slot_name} is gone, and with it the changes since"
                    f" {dict(offset or {})}: start the connector with snapshot.mode=when_needed, or"
                    " after its offsets were reset, to read the tables again"
                )
            slot = slots.make_slot(database, settings.slot_name)
            is_new = True
        if offset is None or is_new:
            reads = mode not in (names.NO_DATA, "never")
            position = LogPosition(slot.stored_lsn)
            return position.with_snapshot(self._snapshot() if reads else None)
        position = position_of(offset)
        is_unfinished = bool(offset.get("snapshot")) and not offset.get("snapshot_completed")
        if position.snapshot is None and (is_unfinished or (is_first and mode == names.ALWAYS)):
            position = position.with_snapshot(self._snapshot())
        return position

    def _snapshot(self) -> Progress:
        """Returns the snapshot of all captured tables."""
        wanted = NameFilter(self._settings.snapshot_include_collection_list, None)
        full = [f"{schema}.{table}" for schema, table in self._captured]
        tables = tuple(TableToRead(name) for name in full if wanted.selects(name))
        if not tables:
            _log.warning(
                "%s: the lists of schemas and tables select no table that is there",
                self._settings.topic_prefix,
            )
        return Progress(INITIAL, tables)

    def _is_unread(self, table: str) -> bool:
        """Whether the first snapshot has still to read a table."""
        progress = self._progress
        return progress is not None and any(
            waiting.name == table and waiting.signal is None for waiting in progress.tables
        )

    # Steps

    def step(self, max_records: int) -> Step | None:
        """Returns the records that have come, or None if none has come for a while."""
        records: list[SourceRecord] = []
        deadline = time.monotonic() + self._settings.poll_interval_ms / 1000
        while len(records) < max_records and not self._is_closed():
            if self._ready:
                self._send_ready(records, max_records)
            elif self._wants_chunk():
                self._read_chunk(records)
            else:
                left = deadline - time.monotonic()
                # A step is a transaction of the topic: while changes pour in, it gets more of them.
                linger = _LINGER_S if len(records) > _FEW_RECORDS else 0.0
                if not self._take_message(records, linger if records else left) and (
                    records or left <= 0
                ):
                    break
        offset = self._offset()
        if self._heartbeats.is_due:
            self._run_heartbeat_query()
            offset = {**offset, _HEARTBEAT: time.time_ns() // 1_000_000}
            records.append(self._heartbeats.beat(self._partition, offset))
        if not records and self._progress == self._sent_progress:
            return None
        if self._progress is not None and self._progress.is_done:
            _log.info("%s: the snapshot is complete", self._settings.topic_prefix)
            self._progress = None
        self._sent_progress = self._progress
        records += self._told(offset)
        return Step(offset, records)

    def _told(self, offset: SourceOffset) -> list[SourceRecord]:
        """Tells what the step has made of a snapshot."""
        self._notes += notifications(self._told_progress, self._progress, self._read_rows)
        notes, self._notes = self._notes, []
        self._told_progress = self._progress
        if self._progress is None:
            self._read_rows.clear()
        return self._notifier.records(notes, self._partition, offset)

    def _offset(self) -> SourceOffset:
        return self._stream.position.with_snapshot(self._progress).offset()

    def _run_heartbeat_query(self) -> None:
        if self._settings.heartbeat_action_query:
            self.database.run(self._settings.heartbeat_action_query)

    def stored(self, lsn: int) -> None:
        if self._replication is not None and self._settings.lsn_flush_mode != "manual":
            self._replication.stored(lsn)

    def all_stored(self) -> None:
        """Nothing waits to be stored: the slot may advance to where the server has read."""
        self.stored(self._stream.commit_lsn)

    def close(self) -> None:
        try:
            if self._replication is not None:
                self._replication.close()
        finally:
            self.database.close()

    # The stream

    def _take_message(self, records: list[SourceRecord], timeout_s: float) -> bool:
        """Handles the next message. Returns whether there was one."""
        if self._replication is None:
            time.sleep(min(max(timeout_s, 0.0), _SLICE_S))
            return False
        message = self._held or self._next_message(self._replication, timeout_s)
        self._held = None
        if message is None:
            return False
        if isinstance(message, Keepalive):
            self._stream.idle_at(message.lsn)
            self._pass(message.lsn)
            return True
        found = message.message
        if isinstance(found, Begin) and self._pass(found.commit_lsn) and self._ready:
            self._held = message
            return True
        records += self._stream.records(found, message.lsn)
        if isinstance(found, Commit):
            self._pass(found.end_lsn)
        if self._stream.signals:
            signals, self._stream.signals = self._stream.signals, []
            self.act(signals)
        return True

    def _next_message(
        self, replication: Replication, timeout_s: float
    ) -> Change | Keepalive | None:
        message = replication.next()
        if message is not None or timeout_s <= 0:
            return message
        slice_s = _SLICE_S
        if self._chunk is not None:
            slice_s = _ASK_AGAIN_S
            if time.monotonic() >= self._ask_at:
                self._ask_at = time.monotonic() + _ASK_AGAIN_S
                replication.ask_position()
        return replication.next(min(timeout_s, slice_s))

    # Chunks

    def _wants_chunk(self) -> bool:
        return (
            self._progress is not None
            and not self._progress.is_done
            and self._chunk is None
            and self._held is None
            and not self._is_paused
            and not self._stream.in_transaction
            and time.monotonic() >= self._chunks_from_s
        )

    def _read_chunk(self, records: list[SourceRecord]) -> None:
        progress = self._progress
        assert progress is not None
        is_first = progress.kind == INITIAL and progress.table.signal is None
        settings = self._settings
        size = (
            settings.snapshot_fetch_size if is_first else settings.incremental_snapshot_chunk_size
        )
        chunk = self._chunks.read(progress, size, self._stream.recent)
        if chunk is None:
            self._progress = progress.next_table()
        elif not chunk.rows and not chunk.is_last:
            time.sleep(_ASK_AGAIN_S)
        elif not chunk.has_key:
            self._send_at_once(chunk, progress, records)
        else:
            self._progress = replace(progress, up_to=chunk.up_to)
            self._chunk = chunk
            self._stream.window = Window(
                chunk.table.full_name, {key: row for key, row in chunk.rows if key is not None}
            )
            self._ask_at = 0.0
            if self._replication is None:
                self._pass(chunk.until_lsn)

    def _send_at_once(self, chunk: Chunk, progress: Progress, records: list[SourceRecord]) -> None:
        """Sends a table without a key."""
        if self._replication is not None:
            self._stream.covers(chunk.table.full_name, chunk.visible, chunk.until_lsn)
        count = len(chunk.rows)
        for number, (_, values) in enumerate(chunk.rows):
            mark = _mark(progress, number == 0, number == count - 1, chunk)
            records += self._row(_Ready(chunk, values, mark, progress))
        self._progress = progress.next_table(has_sent=progress.has_sent or count > 0)

    def _pass(self, lsn: int) -> bool:
        """The stream has come to this position: its rows are ready if the chunk is before it."""
        chunk, window, progress = self._chunk, self._stream.window, self._progress
        if chunk is None or window is None or progress is None or lsn < chunk.until_lsn:
            return False
        self._chunk = self._stream.window = None
        rows = window.rows()
        last_key = chunk.rows[-1][0] if chunk.rows else None
        for number, (key, values) in enumerate(rows):
            is_first = progress.after is None and number == 0
            is_last = chunk.is_last and number == len(rows) - 1
            mark = _mark(progress, is_first, is_last, chunk)
            self._ready.append(_Ready(chunk, values, mark, progress.sent(key)))
        end = progress if last_key is None else replace(progress, after=last_key)
        end = replace(end, has_sent=end.has_sent or bool(rows))
        if chunk.is_last:
            end = end.next_table()
        if self._ready:
            self._ready[-1] = self._ready[-1]._replace(progress=end)
        else:
            self._progress = end
        return True

    def _send_ready(self, records: list[SourceRecord], max_records: int) -> None:
        while self._ready and len(records) < max_records:
            ready = self._ready.popleft()
            records += self._row(ready)
            self._progress = ready.progress

    def _row(self, ready: _Ready) -> list[SourceRecord]:
        table = ready.chunk.table
        self._read_rows[table.full_name] += 1
        source = {
            "version": envelope.VERSION,
            "connector": "postgresql",
            "name": self._settings.topic_prefix,
            "snapshot": ready.mark,
            "db": self._settings.database_dbname,
            "sequence": f'[null,"{ready.chunk.until_lsn}"]',
            "schema": table.schema,
            "table": table.name,
            "txId": None,
            "lsn": ready.chunk.until_lsn,
            "xmin": None,
            "origin": None,
            "origin_lsn": None,
            **envelope.source_times(time.time_ns() // 1000),
        }
        # A position before the chunk: whoever went back there would repeat, and lose nothing.
        origin = Origin(source, self._partition, self._stream.position.offset())
        values = ready.values
        return self._stream.converted(
            lambda: table.records.read(table.key(values), table.row(values), origin)
        )

    # Signals

    def act(self, signals: list[Signal]) -> None:
        for signal in signals:
            action = action_of(signal, takes_blocking=True)
            if action is not None:
                _log.info("%s: signal %s: %s", self._settings.topic_prefix, signal.id, action)
                self._act(action)

    def _act(self, action: Action) -> None:
        match action:
            case ExecuteSnapshot():
                self._execute(action)
            case StopSnapshot():
                self._stop(action)
            case PauseSnapshot():
                self._is_paused = True
            case ResumeSnapshot():
                self._is_paused = False

    def _execute(self, action: ExecuteSnapshot) -> None:
        captured = [f"{schema}.{table}" for schema, table in self._captured]
        tables = action.of(captured)
        if not tables:
            _log.warning(
                "signal %s names no captured table: %s", action.id, ", ".join(action.tables)
            )
            return
        waiting = self._progress or Progress(INCREMENTAL, ())
        self._progress = waiting.and_tables(tables)

    def _stop(self, action: StopSnapshot) -> None:
        if self._progress is None or self._progress.is_done:
            return
        reading = self._progress.table.name
        stopped = action.of(table.name for table in self._progress.tables)
        if stopped is None or reading in stopped:
            self._chunk = self._stream.window = None
            self._ready.clear()
        self._progress = self._progress.without(stopped)


def _mark(progress: Progress, is_first: bool, is_last: bool, chunk: Chunk) -> str:
    """Returns what `source.snapshot` says of a row."""
    if progress.table.is_incremental:
        return envelope.SNAPSHOT_INCREMENTAL
    if is_first and not progress.has_sent:
        return envelope.SNAPSHOT_FIRST
    if is_last:
        is_end = len(progress.tables) == 1
        return envelope.SNAPSHOT_LAST if is_end else envelope.SNAPSHOT_LAST_OF_TABLE
    return envelope.SNAPSHOT_FIRST_OF_TABLE if is_first else envelope.SNAPSHOT_TRUE
