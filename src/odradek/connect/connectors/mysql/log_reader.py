"""Makes records of the events of a binary log, and knows after each where reading would go on.

Invariant: `position` is where a new reader would give what follows, no record twice and none left
out. In the middle of a transaction it is the beginning of the transaction, with the number of
events and rows to skip: those numbers count the same in every run, because a server sends the
same events again.
"""

import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Final, NamedTuple

from odradek.connect.connectors.cdc import envelope
from odradek.connect.connectors.cdc.envelope import Origin
from odradek.connect.connectors.cdc.signals import Signal
from odradek.connect.connectors.cdc.transactions import Transactions
from odradek.connect.connectors.mysql import statements
from odradek.connect.connectors.mysql.events import (
    DELETES,
    INSERTS,
    ROWS,
    Event,
    EventType,
    parse_mariadb_gtid,
    parse_mysql_gtid,
    parse_query,
    parse_rotation,
    parse_rows,
)
from odradek.connect.connectors.mysql.gtids import with_mariadb_gtid, with_mysql_gtid
from odradek.connect.connectors.mysql.log_stream import LogStream
from odradek.connect.connectors.mysql.positions import (
    LogPosition,
    in_order,
    partition_of,
)
from odradek.connect.connectors.mysql.row_changes import Records, RowChanges
from odradek.connect.connectors.mysql.row_values import Row
from odradek.connect.connectors.mysql.schema_changes import SchemaChanges
from odradek.connect.connectors.mysql.server import LogPlace, Server
from odradek.connect.connectors.mysql.settings import MySqlSettings
from odradek.connect.connectors.mysql.statements import TRUNCATE, Definition
from odradek.connect.connectors.mysql.table_maps import table_id
from odradek.connect.connectors.mysql.tables import RowShape, Tables
from odradek.connect.errors import DataError, Unavailable

_log = logging.getLogger("odradek.connect")

Wait = Callable[[], float]
_SECOND_US: Final = 1_000_000
_PREPARED_WAIT_S: Final = 10.0
_HEARTBEATS: Final = frozenset({EventType.HEARTBEAT, EventType.HEARTBEAT_V2})


class _Group(NamedTuple):
    """A transaction that is being read. `gtid` is its number, `thread` the connection that made
    it, `is_alone` says that its one event is its end, `prepared` is the distributed transaction
    whose first phase it is."""

    place: LogPlace
    gtid: str | None
    thread: int | None
    is_alone: bool = False
    prepared: str | None = None


class LogReader:
    def __init__(
        self,
        settings: MySqlSettings,
        server: Server,
        tables: Tables,
        start: LogPosition,
        *,
        is_unread: Callable[[str], bool],
        resumes: bool = True,
        reads_prepared: bool = False,
    ) -> None:
        """`is_unread` says whether a snapshot has still to read a table. `resumes` is False for a
        start that is the place of a snapshot. `reads_prepared` gives the rows of a distributed
        transaction that was prepared there, as if it was committed. Raises `Unavailable` or
        `DataError`."""
        self._settings = settings
        self._server = server
        self._tables = tables
        self._is_unread = is_unread
        self._partition = partition_of(settings.topic_prefix)
        self._schema_changes = SchemaChanges(settings, tables)
        self._transactions = (
            Transactions(settings.transaction_topic)
            if settings.provide_transaction_metadata
            else None
        )
        self._changes = RowChanges(settings, tables, self._transactions, is_unread)
        self.last_change: LogPlace | None = None
        self._start = start
        self._place = start.place
        self._gtids = start.gtids
        self._next_gtid: str | None = None
        self._last_gtid: tuple[str, int] | None = None
        self._prepared = dict(start.prepared)
        self._ts_sec = start.ts_sec
        self._server_id = start.server_id
        self._query: str | None = None
        self._group: _Group | None = None
        self._has_ended = False  # The event that is being read was the end of a group.
        self._done = 0  # Events of the group that were read.
        self._row = 0  # Rows of the next event that were read.
        self._skip_events = start.event
        self._skip_rows = start.row
        self._is_skipping = False
        self._reads_prepared = reads_prepared
        self._maps: dict[int, bytes] = {}
        self._handlers = self._made_handlers()
        self._stream = LogStream(
            settings,
            start.place,
            start.gtids if resumes and server.has_gtids else None,
            is_mariadb=server.is_mariadb,
            is_second=reads_prepared,
        )

    def close(self) -> None:
        self._stream.close()

    @property
    def signals(self) -> list[Signal]:
        """The signals in the rows that were read; who obeys them takes them out."""
        return self._changes.signals

    @property
    def position(self) -> LogPosition:
        if self._skip_events or self._skip_rows:
            return self._start  # What was read before this run has not been skipped yet.
        if self._group is None:
            return self._at(self._place, 0, 0)
        return self._at(self._group.place, self._done, self._row)

    @property
    def is_between_transactions(self) -> bool:
        return self._group is None

    def changes(self, wait_s: Wait) -> Iterator[Records | None]:
        """Returns the records of each change, no records wherever a transaction has ended, and
        None whenever nothing comes for a while. `position` is right at each of them."""
        for event in self._stream.events(wait_s):
            if event is None:
                yield None
                continue
            yield from self._changes_of(event)
            self._finished(event)
            if self._group is None:
                yield []

    def _changes_of(self, event: Event) -> Iterator[Records]:
        if event.type in ROWS:
            yield from self._rows(event)
        elif event.type == EventType.TABLE_MAP:
            self._maps[table_id(event.body)] = event.body
        else:
            handler = self._handlers.get(event.type)
            if handler is not None:
                records = handler(event)
                if records and not self._is_skipping:
                    yield records

    def _finished(self, event: Event) -> None:
        if not event.is_in_file or event.type in _HEARTBEATS:
            return
        self._ts_sec, self._server_id = event.timestamp_s, event.server_id
        if self._group is not None:
            self._done += 1
        elif event.type != EventType.ROTATE:
            self._move(LogPlace(self._stream.file, event.next_position))
        self._row = 0
        if self._is_skipping:
            self._skip_events -= 1
            self._is_skipping = self._skip_events > 0

    def _made_handlers(self) -> dict[int, Callable[[Event], Records | None]]:
        return {
            EventType.ROTATE: self._rotated,
            EventType.QUERY: self._queried,
            EventType.QUERY_COMPRESSED: self._queried,
            EventType.XID: self._committed,
            EventType.XA_PREPARE: self._prepared_or_committed,
            EventType.GTID: self._numbered_by_mysql,
            EventType.GTID_TAGGED: self._numbered_with_tag,
            EventType.MARIADB_GTID: self._numbered_by_mariadb,
            EventType.ROWS_QUERY: self._annotated,
            EventType.ANNOTATE_ROWS: self._annotated,
            EventType.PARTIAL_UPDATE_ROWS: self._partial,
            EventType.INCIDENT: self._incident,
        }

    # Transactions

    def _rotated(self, event: Event) -> None:
        if self._group is None and event.is_in_file:
            self._place = LogPlace(*parse_rotation(event.body))

    def _move(self, place: LogPlace) -> None:
        """Behind a transaction, reading goes on there, whatever files the server has. Before the
        first one, a server that was asked by numbers begins with the head of an older file."""
        if self._has_ended or in_order(place) > in_order(self._place):
            self._place = place
        self._has_ended = False
        self._done = 0

    def _numbered_by_mysql(self, event: Event) -> None:
        gtid = parse_mysql_gtid(event.body)
        self._next_gtid = gtid.text
        self._last_gtid = gtid.source, gtid.number

    def _numbered_with_tag(self, event: Event) -> None:
        raise DataError(
            "the server numbers transactions with tags, which this connector cannot read: set"
            " gtid_next without a tag in the programs that write"
        )

    def _numbered_by_mariadb(self, event: Event) -> Records | None:
        gtid = parse_mariadb_gtid(event)
        self._end_group()  # One that has only a definition in it has no end of its own.
        self._next_gtid = gtid.text
        prepared = gtid.xa_name if gtid.prepares else None
        return self._begin(event, is_alone=gtid.is_standalone, prepared=prepared)

    def _begin(
        self,
        event: Event,
        thread: int | None = None,
        *,
        is_alone: bool = False,
        prepared: str | None = None,
    ) -> Records | None:
        place = LogPlace(self._stream.file, event.position)
        self._group = _Group(place, self._next_gtid, thread, is_alone, prepared)
        self._done = self._row = 0
        self._is_skipping = self._skip_events > 0
        if self._transactions is None:
            return None
        begun = self._transactions.begin(
            self._transaction_id, self._partition, self._offset(1, 0), event.timestamp_s * 1000
        )
        return None if self._is_skipping else [begun]

    @property
    def _transaction_id(self) -> str:
        assert self._group is not None
        return self._group.gtid or f"file={self._group.place.file},pos={self._group.place.position}"

    def _committed(self, event: Event) -> Records | None:
        ended = None
        if self._transactions is not None and self._group is not None:
            ended = self._transactions.end(
                self._partition, self._offset(self._done + 1, 0), event.timestamp_s * 1000
            )
        self._end_group()
        return None if ended is None else [ended]

    # Distributed transactions: their rows are in the log when they are prepared, and it is decided
    # later whether they count. Where the rows are is a part of the position until then.

    def _prepared_or_committed(self, event: Event) -> Records | None:
        """The end of the first phase. MySQL also writes it for transactions in one phase."""
        group = self._group
        if group is None or group.prepared is None:
            return self._committed(event)
        if event.body[0]:
            records = self._rows_of_prepared(group.place)
            return [*records, *(self._committed(event) or ())]
        self._prepared[group.prepared] = group.place
        return self._committed(event)

    def _decided(self, event: Event, verb: str, name: str) -> Records | None:
        place = self._prepared.pop(name, None)
        records: Records = []
        if verb == "COMMIT" and place is not None:
            records = self._rows_of_prepared(place)
        elif verb == "COMMIT":
            _log.warning(
                "%s: a distributed transaction (%s) was prepared before this connector began, so"
                " its rows are not captured; a signal execute-snapshot reads their tables",
                self._settings.topic_prefix, name,
            )  # fmt: skip
        return [*records, *(self._committed(event) or ())]

    def _rows_of_prepared(self, place: LogPlace) -> Records:
        """Returns all rows of a transaction. They are in memory at once, and sent together."""
        if self._is_skipping or self._reads_prepared:
            return []
        reader = LogReader(
            self._settings, self._server, self._tables, LogPosition(place),
            is_unread=self._is_unread, resumes=False, reads_prepared=True,
        )  # fmt: skip
        offset = self._offset(self._done + 1, 0)
        records: Records = []
        try:
            for event in reader._stream.events(lambda: _PREPARED_WAIT_S):
                if event is None:
                    raise Unavailable(f"the server does not send its log from {place}")
                for found in reader._changes_of(event):
                    records += [replace(record, source_offset=offset) for record in found]
                if event.type == EventType.XA_PREPARE:
                    break
                reader._finished(event)
        finally:
            reader.close()
        return records

    def _end_group(self) -> None:
        """Invariant: what was read so far does not come again."""
        if self._group is not None:
            self._group = None
            self._has_ended = True
            self._skip_events = self._skip_rows = 0
            self._is_skipping = False
        if self._next_gtid is not None and self._gtids is not None:
            if self._last_gtid is not None:
                self._gtids = with_mysql_gtid(self._gtids, *self._last_gtid)
            else:
                self._gtids = with_mariadb_gtid(self._gtids, self._next_gtid)
        self._next_gtid = self._last_gtid = None
        self._query = None
        self._maps.clear()

    # Statements

    def _queried(self, event: Event) -> Records | None:
        query = parse_query(event, dict(self._tables.charsets))
        statement = statements.plain(query.sql)
        verb = statement.upper()
        if verb == "BEGIN":
            return self._begin(event, query.thread_id) if self._group is None else None
        if verb in {"COMMIT", "ROLLBACK"}:
            return self._committed(event)
        if found := statements.xa_statement(statement):
            return self._distributed(event, query.thread_id, *found)
        if verb.startswith(("SAVEPOINT", "ROLLBACK TO", "RELEASE")):
            if verb.startswith("ROLLBACK TO"):
                _log.warning(
                    "%s: the log has rows at %s:%d that were taken back, because the transaction"
                    " also changed a table without transactions",
                    self._settings.topic_prefix, self._stream.file, event.position,
                )  # fmt: skip
            return None
        if statements.changes_rows(statement):
            _log.warning(
                "%s: a statement at %s:%d is in the binary log as text, and its rows are not:"
                " binlog_format must be ROW in all sessions. %.100s",
                self._settings.topic_prefix, self._stream.file, event.position, statement,
            )  # fmt: skip
            return None
        return self._defined(event, query.sql, statements.definition_of(statement, query.database))

    def _distributed(self, event: Event, thread: int, verb: str, name: str) -> Records | None:
        match verb:
            case "START" | "BEGIN":
                return self._begin(event, thread, prepared=name) if self._group is None else None
            case "COMMIT" | "ROLLBACK":
                return self._decided(event, verb, name)
        return None

    def _defined(self, event: Event, sql: str, definition: Definition | None) -> Records | None:
        """A definition is a transaction of its own."""
        records: Records = []
        if definition is not None:
            self._tables.forget()
            offset = self._offset(self._done + 1, 0)
            origin = Origin(self._source(event, None), self._partition, offset)
            if definition.kind == TRUNCATE:
                records = self._truncated(definition, origin)
            else:
                records = self._schema_changes.records(sql, definition, origin)
        if self._group is None or self._group.is_alone:
            is_skipping = self._is_skipping
            self._end_group()
            self._is_skipping = False
            return None if is_skipping else records
        return records

    def _truncated(self, definition: Definition, origin: Origin) -> Records:
        if self._settings.skips(envelope.TRUNCATE):
            return []
        found: Records = []
        for name in definition.tables:
            if self._tables.selects(name.database, name.table):
                table = self._tables.known(name.database, name.table)
                if table is not None:
                    shape = self._tables.selected(table)
                    source = {**origin.source, "db": name.database, "table": name.table}
                    found += shape.records.truncated(origin._replace(source=source))
        return found

    def _annotated(self, event: Event) -> None:
        if self._settings.include_query:
            skipped = 1 if event.type == EventType.ROWS_QUERY else 0
            self._query = event.body[skipped:].decode("utf-8", "replace")

    def _partial(self, event: Event) -> None:
        raise DataError(
            "the binary log has parts of JSON values: run SET GLOBAL"
            " binlog_row_value_options='', and begin with a new snapshot"
        )

    def _incident(self, event: Event) -> None:
        raise DataError(
            f"the server notes at {self._stream.file}:{event.position} that its binary log lacks"
            " changes: begin with a new snapshot"
        )

    # Rows

    def _rows(self, event: Event) -> Iterator[Records]:
        header = parse_rows(event)
        body = self._maps.get(header.table_id)
        shape = None if body is None else self._tables.logged(body)
        if shape is None or (self._is_skipping and self._transactions is None):
            return
        if self._group is not None and self._group.prepared and not self._reads_prepared:
            return
        if not header.is_whole:
            raise DataError(
                f"the binary log has rows of {shape.table.full_name} without all columns: type SET"
                " GLOBAL binlog_row_image='FULL', and begin with a new snapshot"
            )
        assert shape.read is not None
        skipped, at, index, data = self._skip_rows, 0, 0, header.rows
        # What is the same for all rows is made once.
        offset = dict(self._offset(self._done, 0))
        source = self._source(event, shape)
        if not self._is_skipping:
            self._skip_rows = 0
        is_update = event.type not in INSERTS and event.type not in DELETES
        while at < len(data):
            row, at = shape.read(data, at)
            new: Row | None = None
            if is_update:
                new, at = shape.read(data, at)
            index += 1
            origin = Origin({**source, "row": index - 1}, self._partition, {**offset, "row": index})
            records = self._changes.of_row(
                event, shape, row, new, origin, is_skipping=self._is_skipping
            )
            if index > skipped and not self._is_skipping and records:
                self._row = index
                self.last_change = LogPlace(self._stream.file, event.position)
                yield records

    # Where changes come from

    def _at(self, place: LogPlace, event: int, row: int) -> LogPosition:
        return LogPosition(
            place, event, row, self._gtids, self._ts_sec, self._server_id, self._prepared
        )

    def _offset(self, event: int, row: int) -> Any:
        place = self._place if self._group is None else self._group.place
        return self._at(place, event, row).to_offset()

    def _source(self, event: Event, shape: RowShape | None) -> dict[str, Any]:
        return {
            "version": envelope.VERSION,
            "connector": self._tables.product.name,
            "name": self._settings.topic_prefix,
            "snapshot": envelope.SNAPSHOT_FALSE,
            "db": "" if shape is None else shape.table.database,
            "sequence": None,
            **envelope.source_times(event.timestamp_s * _SECOND_US),
            "table": None if shape is None else shape.table.name,
            "server_id": event.server_id,
            "gtid": None if self._group is None else self._group.gtid,
            "file": self._stream.file,
            "pos": event.position,
            "row": 0,
            "thread": None if self._group is None else self._group.thread,
            "query": self._query,
        }
