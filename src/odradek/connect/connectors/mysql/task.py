"""The task of the connectors for MySQL and MariaDB: a snapshot if one is wanted, and the changes.

A step is what one call of `reach` finds: the records of some changes, or the rows of a chunk of a
snapshot. While a snapshot runs, changes go on: before each chunk come the changes up to the place
in the log at which the chunk was read (`snapshots`).

The position in the topic of offsets has everything that is needed to go on: the place in the log,
and how far a snapshot is. A task that was killed reads no row of a finished chunk again.
"""

import logging
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from odradek.connect.connectors.cdc import envelope
from odradek.connect.connectors.cdc.chunks import INCREMENTAL, INITIAL, Progress, TableToRead
from odradek.connect.connectors.cdc.envelope import Origin
from odradek.connect.connectors.cdc.filters import NameFilter
from odradek.connect.connectors.cdc.heartbeats import Heartbeats
from odradek.connect.connectors.cdc.settings import KAFKA_CHANNEL, SOURCE_CHANNEL
from odradek.connect.connectors.cdc.signals import (
    ExecuteSnapshot,
    KafkaSignals,
    PauseSnapshot,
    ResumeSnapshot,
    Signal,
    StopSnapshot,
    WriteLog,
    action_of,
)
from odradek.connect.connectors.cdc.stepping_task import SteppingTask
from odradek.connect.connectors.cdc.steps import Step
from odradek.connect.connectors.mysql.log_reader import LogReader
from odradek.connect.connectors.mysql.log_stream import LogIsGone
from odradek.connect.connectors.mysql.positions import (
    LogPosition,
    in_order,
    is_unfinished_elsewhere,
    partition_of,
    position_of,
    progress_of,
)
from odradek.connect.connectors.mysql.row_changes import Records
from odradek.connect.connectors.mysql.schema_changes import SchemaChanges
from odradek.connect.connectors.mysql.server import LogPlace, Server
from odradek.connect.connectors.mysql.settings import MySqlSettings
from odradek.connect.connectors.mysql.snapshots import Chunk, Snapshots
from odradek.connect.connectors.mysql.tables import Product, RowShape, Tables
from odradek.connect.connectors.positions import Positions, SourceOffset
from odradek.connect.errors import DataError

_log = logging.getLogger("odradek.connect")
_LONGEST_WAIT_S: Final = 0.5
# How long the stored position may lag behind a log in which nothing is captured.
_QUIET_S: Final = 10.0
_WITHOUT_ROWS: Final = frozenset(
    {"no_data", "recovery", "schema_only", "schema_only_recovery", "never"}
)
_ONCE: Final = "initial_only"


class MySqlTask(SteppingTask):
    def __init__(self, settings: MySqlSettings, product: Product) -> None:
        super().__init__(partition_of(settings.topic_prefix), settings.max_batch_size)
        self._settings = settings
        self._server = Server(settings)
        self._tables = Tables(settings, self._server, product)
        self._snapshots = Snapshots(settings, self._server, self._tables)
        self._schema_changes = SchemaChanges(settings, self._tables)
        self._heartbeats = Heartbeats(
            settings.heartbeat_interval_ms, settings.heartbeat_topic, settings.topic_prefix
        )
        self._reader: LogReader | None = None
        self._changes: Iterator[Records | None] = iter(())
        self._progress: Progress | None = None
        self._chunk: Chunk | None = None
        self._wait_s = 0.0
        self._moved_s = time.monotonic()
        self._is_paused = False
        self._is_checked = False
        self._snapshot_is_due = settings.snapshot_mode == "always"
        self._signals: KafkaSignals | None = None

    def stored(self, positions: Positions) -> None:
        super().stored(positions)
        if self._signals is not None:
            self._signals.stored()

    def close(self) -> None:
        super().close()
        if self._signals is not None:
            self._signals.close()

    # Steps

    def _check(self) -> None:
        """Refuses a server whose log does not say enough."""
        wrong = self._server.wrong_variables()
        if wrong:
            raise DataError(". ".join(wrong))
        settings = self._settings
        if KAFKA_CHANNEL in settings.signal_enabled_channels and self._signals is None:
            self._signals = KafkaSignals(
                settings.signal_topic,
                {
                    "bootstrap.servers": settings.signal_kafka_bootstrap_servers,
                    "group.id": settings.signal_kafka_group_id,
                },
                settings.topic_prefix,
            )
            self._signals.start()
        self._is_checked = True

    def _next_step(self, offset: SourceOffset | None, max_records: int) -> Step | None:
        """Invariant: the step begins at `offset`."""
        if not self._is_checked:
            self._check()
        if self._reader is None:
            self._begin(offset)
        self._obey_signals()
        if self._begins_snapshot(offset):
            assert self._reader is not None
            return Step(self._reader.position.to_offset(self._progress), [])
        if self._progress is not None and self._chunk is None and not self._is_paused:
            self._read_chunk(max_records)
        if self._is_over(offset):
            return None
        try:
            if self._reader is None:
                self._connect(self._first_position())
            records = self._read_changes(max_records)
        except LogIsGone:
            if self._settings.snapshot_mode != "when_needed":
                raise
            _log.warning("%s: the binary log is gone; rows are read again", self._name)
            self._disconnect()
            self._steps.begin_at(offset)
            return self._next_step(None, max_records)
        if self._chunk is not None and self._has_reached(self._chunk.end.place) and not records:
            assert self._reader is not None
            last = self._reader.last_change
            assert last is None or in_order(last) < in_order(self._chunk.end.place)
            records = self._rows_of_chunk()
        return self._step(offset, records)

    def _begin(self, offset: SourceOffset | None) -> None:
        mode = self._settings.snapshot_mode
        if offset is None or is_unfinished_elsewhere(offset):
            self._progress = None if mode in _WITHOUT_ROWS else self._all_tables()
            if self._progress is None:
                self._connect(self._first_position())
            return
        self._progress = progress_of(offset)
        if self._snapshot_is_due and self._progress is None:
            self._progress = self._all_tables()
        self._snapshot_is_due = False
        if not self._is_over(offset):
            self._connect(position_of(offset), resumes=True)

    def _begins_snapshot(self, offset: SourceOffset | None) -> bool:
        """Whether a snapshot begins at a position that says nothing of one. That is stored first:
        a range of rows that ends where it begins would be none."""
        if offset is None or self._progress is None or self._reader is None:
            return False
        return progress_of(offset) is None

    def _is_over(self, offset: SourceOffset | None) -> bool:
        """Whether there is nothing to read: a snapshot was all that was wanted, and it is done."""
        if self._settings.snapshot_mode != _ONCE or offset is None:
            return False
        return self._progress is None and self._chunk is None

    def _all_tables(self) -> Progress | None:
        """Returns a snapshot of all tables; None if there are none."""
        if self._settings.snapshot_delay_ms:
            time.sleep(self._settings.snapshot_delay_ms / 1000)
        wanted = NameFilter(self._settings.snapshot_include_collection_list, None)
        names = [table.full_name for table in self._tables.captured()]
        tables = tuple(TableToRead(name) for name in names if wanted.selects(name))
        self._snapshot_is_due = False
        return Progress(INITIAL, tables) if tables else None

    def _first_position(self) -> LogPosition:
        """Where the changes begin: at the first chunk, or now."""
        end = self._server.log_end() if self._chunk is None else self._chunk.end
        gtids = end.gtids
        if self._server.is_mariadb:
            gtids = self._server.gtids_before(end.place)
        return LogPosition(end.place, gtids=gtids)

    def _connect(self, position: LogPosition, *, resumes: bool = False) -> None:
        self._reader = LogReader(
            self._settings,
            self._server,
            self._tables,
            position,
            is_unread=self._is_unread,
            resumes=resumes,
        )
        self._changes = self._reader.changes(lambda: self._wait_s)

    def _end_connection(self) -> None:
        if self._reader is not None:
            self._reader.close()
        self._reader = None
        self._chunk = None
        self._progress = None
        self._snapshots.close()
        self._server.close()

    def _step(self, offset: SourceOffset | None, records: Records) -> Step | None:
        assert self._reader is not None
        end = self._reader.position.to_offset(self._progress)
        now_s = time.monotonic()
        if self._heartbeats.is_due:
            self._act_on_heartbeat()
            records = [*records, self._heartbeats.beat(self._partition, end)]
        is_late = offset is None or now_s - self._moved_s > _QUIET_S
        if not records and (not is_late or end == offset):
            return None
        if end == offset:
            return None
        self._moved_s = now_s
        return Step(end, records)

    def _act_on_heartbeat(self) -> None:
        query = self._settings.heartbeat_action_query
        if query:
            self._server.execute(query)

    # Changes

    def _read_changes(self, max_records: int) -> Records:
        """Returns the changes that are there, and waits a little if there are none. Ends at the
        place of a chunk."""
        assert self._reader is not None
        found: Records = []
        until_s = time.monotonic() + self._longest_wait_s
        place = None if self._chunk is None else self._chunk.end.place
        while len(found) < max_records - 2:  # A changed key is three records.
            if place is not None and self._has_reached(place):
                break
            self._wait_s = 0.0 if found else max(0.001, until_s - time.monotonic())
            change = next(self._changes)
            found += change or ()
            is_quiet = change is None and bool(found)
            if is_quiet or (not found and time.monotonic() >= until_s):
                break
            if self._reader.signals:
                break
        return found

    @property
    def _longest_wait_s(self) -> float:
        return min(self._settings.poll_interval_ms / 1000, _LONGEST_WAIT_S)

    def _has_reached(self, place: LogPlace) -> bool:
        assert self._reader is not None
        position = self._reader.position
        return (
            self._reader.is_between_transactions
            and not position.event
            and in_order(position.place) >= in_order(place)
        )

    # Snapshots

    def _read_chunk(self, max_records: int) -> None:
        settings = self._settings
        while self._progress is not None and self._chunk is None:
            is_first = self._progress.kind == INITIAL
            size = (
                settings.snapshot_fetch_size
                if is_first
                else settings.incremental_snapshot_chunk_size
            )
            chunk = self._snapshots.read(self._progress, min(size, max_records))
            if chunk is None:
                self._table_is_read()
            elif self._is_ahead_of(chunk.end.place):
                return  # It is read again in the next step.
            self._chunk = chunk

    def _is_ahead_of(self, place: LogPlace) -> bool:
        """Whether changes after this place were sent already. The server sends a transaction
        before others see its rows, so a chunk can be older than what was read of the log."""
        if self._reader is None:
            return False
        here, there = in_order(self._reader.position.place), in_order(place)
        return here > there or (here == there and not self._reader.is_between_transactions)

    def _is_unread(self, table: str) -> bool:
        """Whether the first snapshot will read all rows of a table as they are at a later place."""
        progress = self._progress
        if progress is None or progress.kind != INITIAL:
            return False
        waiting = progress.tables if progress.after is None else progress.tables[1:]
        return any(each.name == table and each.signal is None for each in waiting)

    def _table_is_read(self) -> None:
        assert self._progress is not None
        following = self._progress.next_table()
        self._progress = None if following.is_done else following

    def _rows_of_chunk(self) -> Records:
        """Returns the rows of the chunk, whose place the log has reached."""
        chunk, progress = self._chunk, self._progress
        assert chunk is not None
        assert progress is not None
        assert self._reader is not None
        self._chunk = None
        records: Records = []
        if progress.kind == INITIAL and progress.after is None:
            records += self._definition(chunk)
        shape, last = chunk.shape, len(chunk.rows) - 1
        if chunk.after is None:
            self._table_is_read()
        else:
            self._progress = replace(progress.sent(chunk.after), up_to=chunk.up_to)
        offset = self._reader.position.to_offset(self._progress)
        for index, row in enumerate(chunk.rows):
            marker = envelope.SNAPSHOT_INCREMENTAL
            if progress.kind == INITIAL:
                is_first = index == 0 and not progress.has_sent
                is_last = index == last and self._progress is None
                marker = _marker(progress, chunk, index, is_first=is_first, is_last=is_last)
            origin = Origin(self._source(shape, chunk.end.place, marker), self._partition, offset)
            records += shape.records.read(shape.key(row), shape.value(row), origin)
        if progress.kind == INITIAL and self._progress is None:
            _log.info("%s: the snapshot is complete", self._name)
        return records

    def _definition(self, chunk: Chunk) -> Records:
        table = chunk.shape.table
        if not self._settings.include_schema_changes:
            return []
        name = f"`{table.database}`.`{table.name}`"
        sql = str(self._server.rows(f"SHOW CREATE TABLE {name}")[0][1])
        source = self._source(chunk.shape, chunk.end.place, envelope.SNAPSHOT_TRUE)
        origin = Origin(source, self._partition, {})
        return self._schema_changes.created(table, sql, origin)

    def _source(self, shape: RowShape, place: LogPlace, marker: str) -> dict[str, Any]:
        return {
            "version": envelope.VERSION,
            "connector": self._tables.product.name,
            "name": self._settings.topic_prefix,
            "snapshot": marker,
            "db": shape.table.database,
            "sequence": None,
            **envelope.source_times(time.time_ns() // 1000),
            "table": shape.table.name,
            "server_id": 0,
            "gtid": None,
            "file": place.file,
            "pos": place.position,
            "row": 0,
            "thread": None,
            "query": None,
        }

    # Signals

    def _obey_signals(self) -> None:
        found: list[Signal] = []
        if self._signals is not None:
            found += self._signals.take()
        if self._reader is not None:
            taken = [*self._reader.signals]
            self._reader.signals.clear()
            if SOURCE_CHANNEL in self._settings.signal_enabled_channels:
                found += taken
        for signal in found:
            self._obey(signal)

    def _obey(self, signal: Signal) -> None:
        match action_of(signal):
            case ExecuteSnapshot() as wanted:
                tables = wanted.of(table.full_name for table in self._tables.captured())
                if not tables:
                    _log.warning("%s: signal %s names no captured table", self._name, signal.id)
                    return
                progress = self._progress or Progress(INCREMENTAL, ())
                self._progress = progress.and_tables(tables)
            case StopSnapshot() as wanted:
                if self._progress is not None:
                    waiting = [table.name for table in self._progress.tables]
                    left = self._progress.without(wanted.of(waiting))
                    self._progress = None if left.is_done else left
                    self._chunk = None
            case PauseSnapshot():
                self._is_paused = True
            case ResumeSnapshot():
                self._is_paused = False
            case WriteLog() as wanted:
                position = None if self._reader is None else self._reader.position.place
                _log.info("%s: %s", self._name, wanted.message.replace("{}", str(position)))

    @property
    def _name(self) -> str:
        return self._settings.topic_prefix


def _marker(progress: Progress, chunk: Chunk, index: int, *, is_first: bool, is_last: bool) -> str:
    """What `source.snapshot` says of a row of the first snapshot."""
    if is_first:
        return envelope.SNAPSHOT_FIRST
    if is_last:
        return envelope.SNAPSHOT_LAST
    if index == len(chunk.rows) - 1 and chunk.after is None:
        return envelope.SNAPSHOT_LAST_OF_TABLE
    if index == 0 and progress.after is None:
        return envelope.SNAPSHOT_FIRST_OF_TABLE
    return envelope.SNAPSHOT_TRUE
