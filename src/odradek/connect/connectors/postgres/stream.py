"""Makes records of the stream of changes, and knows the position after each of them."""

import logging
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final

from odradek.connect.connectors.cdc import envelope
from odradek.connect.connectors.cdc.chunks import Window
from odradek.connect.connectors.cdc.envelope import Origin as RecordOrigin
from odradek.connect.connectors.cdc.signals import Signal, signal_of
from odradek.connect.connectors.cdc.transactions import Transactions
from odradek.connect.connectors.postgres import pgoutput
from odradek.connect.connectors.postgres.catalog import Catalog, ColumnRow, TableRow
from odradek.connect.connectors.postgres.messages import MessageRecords
from odradek.connect.connectors.postgres.offsets import Covered, LogPosition
from odradek.connect.connectors.postgres.pgoutput import UNCHANGED, Relation, Values
from odradek.connect.connectors.postgres.settings import PostgresSettings
from odradek.connect.connectors.postgres.tables import CapturedTable
from odradek.connect.connectors.postgres.visibility import Visibility, visibility
from odradek.connect.errors import DataError
from odradek.connect.records import Header, SourceRecord

_log = logging.getLogger("odradek.connect")
_REMEMBERED_TRANSACTIONS: Final = 10_000

Row = dict[str, Any]


class ChangeStream:
    """`position` is behind the last message. `window` is the chunk of a snapshot that is waiting
    for the stream to pass it; `signals` are those that have come by the table for them; `recent`
    are the transactions that have come last."""

    def __init__(
        self,
        settings: PostgresSettings,
        catalog: Catalog,
        position: LogPosition,
        partition: Mapping[str, Any],
        *,
        headers: tuple[Header, ...],
        is_unread: Callable[[str], bool] = lambda _: False,
    ) -> None:
        """`is_unread` says whether a snapshot has still to read a table, by its full name."""
        self._settings = settings
        self._is_unread = is_unread
        self._catalog = catalog
        self._partition = partition
        self._headers = headers
        self._skipped = frozenset(settings.skipped_operations)
        self.window: Window[Values] | None = None
        self.signals: list[Signal] = []
        self.recent: deque[int] = deque(maxlen=_REMEMBERED_TRANSACTIONS)
        self.in_transaction = False
        self.commit_lsn = position.commit_lsn
        self._open_commit_lsn = position.open_commit_lsn
        self._index = position.index
        self._lsn = position.lsn
        self._xid = position.xid
        self._time_us = position.time_us
        # Changes of a transaction that was read in part are skipped, by number or by place.
        self._open_at_start = position.open_commit_lsn
        self._index_at_start = position.index
        self._read_to_lsn = position.lsn if position.is_foreign else None
        self._tables: dict[int, CapturedTable | None] = {}
        self._covered: dict[str, tuple[Visibility, int]] = {
            covered.table: (visibility(covered.visible), covered.until_lsn)
            for covered in position.covered
        }
        self._messages = MessageRecords(settings)
        self._transactions = (
            Transactions(settings.transaction_topic)
            if settings.provide_transaction_metadata
            else None
        )
        # The transaction that is being read.
        self._begun = pgoutput.Begin(0, 0, 0)
        self._source: Row = {}
        self._is_read_already = False
        self._seen = 0
        self._skips = 0
        self._handlers: dict[type, Callable[[Any, int], list[SourceRecord]]] = {
            pgoutput.Insert: self._insert,
            pgoutput.Update: self._update,
            pgoutput.Delete: self._delete,
            pgoutput.Truncate: self._truncate,
            pgoutput.Begin: self._begin,
            pgoutput.Commit: self._commit,
            pgoutput.Relation: self._relation,
            pgoutput.Origin: self._origin,
            pgoutput.Type: self._type,
            pgoutput.Message: self._message,
        }

    def records(self, message: pgoutput.Decoded, lsn: int) -> list[SourceRecord]:
        """Returns the records of a message, none if it was read before or is not captured."""
        return self._handlers[type(message)](message, lsn)

    @property
    def position(self) -> LogPosition:
        """What is behind the last message; a snapshot's progress is the task's to add."""
        return LogPosition(
            self.commit_lsn,
            self._open_commit_lsn,
            self._index,
            self._lsn,
            self._xid,
            self._time_us,
            covered=tuple(
                Covered(table, visible.text, until_lsn)
                for table, (visible, until_lsn) in self._covered.items()
            ),
            is_foreign=self._read_to_lsn is not None,
        )

    def covers(self, table: str, visible: Visibility, until_lsn: int) -> None:
        """The rows of this table were read: transactions that they have in them are skipped."""
        self._covered[table] = visible, until_lsn

    def idle_at(self, lsn: int) -> None:
        """The server has sent everything before this position."""
        if not self.in_transaction and lsn > self.commit_lsn:
            self._ended_at(lsn)

    def _ended_at(self, lsn: int) -> None:
        self.commit_lsn = self._lsn = lsn
        self._open_commit_lsn = None
        self._index = 0
        if self._covered:
            self._covered = {
                table: covered for table, covered in self._covered.items() if covered[1] > lsn
            }

    # Transactions

    def _begin(self, begin: pgoutput.Begin, lsn: int) -> list[SourceRecord]:
        self.in_transaction = True
        self._begun = begin
        self.recent.append(begin.xid)
        self._is_read_already = begin.commit_lsn < self.commit_lsn
        is_open = self._open_at_start == begin.commit_lsn
        self._seen = 0
        self._skips = self._index_at_start if is_open else 0
        self._source = {
            "version": envelope.VERSION,
            "connector": "postgresql",
            "name": self._settings.topic_prefix,
            "snapshot": envelope.SNAPSHOT_FALSE,
            "db": self._settings.database_dbname,
            "txId": begin.xid,
            "xmin": None,
            "origin": None,
            "origin_lsn": None,
            **envelope.source_times(begin.commit_us),
        }
        if self._transactions is None or self._is_read_already:
            return []
        if not is_open:
            self._open_commit_lsn, self._index = begin.commit_lsn, 0
        record = self._transactions.begin(
            f"{begin.xid}:{begin.commit_lsn}",
            self._partition,
            self.position.offset(),
            begin.commit_us // 1000,
        )
        return [] if is_open else [record]

    def _commit(self, commit: pgoutput.Commit, lsn: int) -> list[SourceRecord]:
        self.in_transaction = False
        if self._is_read_already:
            return []
        self._read_to_lsn = None
        self._ended_at(commit.end_lsn)
        if self._transactions is None:
            return []
        offset = self.position.offset()
        return [self._transactions.end(self._partition, offset, commit.commit_us // 1000)]

    def _origin(self, origin: pgoutput.Origin, lsn: int) -> list[SourceRecord]:
        self._source = {**self._source, "origin": origin.name, "origin_lsn": origin.commit_lsn}
        return []

    # Tables

    def _type(self, found: pgoutput.Type, lsn: int) -> list[SourceRecord]:
        self._catalog.forget_types([found.oid])
        return []

    def _relation(self, relation: Relation, lsn: int) -> list[SourceRecord]:
        signals = self._settings.signal_table == (relation.schema, relation.table)
        if signals or self._settings.captures(relation.schema, relation.table):
            self._tables[relation.oid] = captured_by(
                relation, self._catalog, self._settings, self._headers
            )
        else:
            self._tables[relation.oid] = None
        return []

    def _table(self, oid: int) -> CapturedTable | None:
        try:
            return self._tables[oid]
        except KeyError:
            raise DataError(f"a change of relation {oid} came before its description") from None

    # Changes

    def _insert(self, change: pgoutput.Insert, lsn: int) -> list[SourceRecord]:
        table = self._next_change(change.relation, lsn)
        if table is None:
            return []
        if table.is_for_signals:
            self._note_signal(table, change.new)
        if self._is_left_out(table, envelope.CREATE):
            return []
        self._left_window(table, change.new)
        origin = self._record_origin(table, lsn)
        return self.converted(
            lambda: table.records.created(table.key(change.new), table.row(change.new), origin)
        )

    def _update(self, change: pgoutput.Update, lsn: int) -> list[SourceRecord]:
        table = self._next_change(change.relation, lsn, change)
        if table is None or self._is_left_out(table, envelope.UPDATE):
            return []
        old = change.old if change.old is not None else change.key
        new = change.new
        if old is not None and UNCHANGED in new:
            new = [
                before if after is UNCHANGED and before is not None else after
                for before, after in zip(old, new, strict=True)
            ]
        self._left_window(table, new, old)
        origin = self._record_origin(table, lsn)

        def made() -> list[SourceRecord]:
            before = None if change.old is None else table.row(change.old)
            after = table.row(new)
            if before == after and self._settings.skip_messages_without_change:
                return []
            old_key = None if old is None else table.key(old)
            if old_key is not None and change.key is not None and old_key != table.key(new):
                # The row before a changed key: what the replica identity has of it.
                before = table.row(change.key)
            records = table.records.updated(old_key, table.key(new), before, after, origin)
            if len(records) == 1:
                return records
            if self._transactions is not None:
                # A changed key is two changes of the transaction.
                records[-1].value["transaction"] = self._transactions.change(table.full_name)
            return self._not_skipped(records)

        return self.converted(made)

    def _delete(self, change: pgoutput.Delete, lsn: int) -> list[SourceRecord]:
        table = self._next_change(change.relation, lsn)
        if table is None or self._is_left_out(table, envelope.DELETE):
            return []
        old = change.old if change.old is not None else change.key
        if old is None:
            return []
        self._left_window(table, old)
        origin = self._record_origin(table, lsn)
        return self.converted(lambda: table.records.deleted(table.key(old), table.row(old), origin))

    def _truncate(self, change: pgoutput.Truncate, lsn: int) -> list[SourceRecord]:
        records = []
        is_new = self._counts_as_new(lsn)
        for oid in change.relations:
            table = self._table(oid) if is_new else None
            if table is None:
                continue
            if self.window is not None and self.window.table == table.full_name:
                self.window.truncated()
            if not self._is_left_out(table, envelope.TRUNCATE):
                records += table.records.truncated(self._record_origin(table, lsn))
        return records

    def _message(self, message: pgoutput.Message, lsn: int) -> list[SourceRecord]:
        is_new = (
            self._counts_as_new(lsn) if message.is_transactional else message.lsn >= self.commit_lsn
        )
        if not is_new or not self._messages.selects(message):
            return []
        if not message.is_transactional:
            self._ended_at(lsn + 1)
        block = None
        if self._transactions is not None and message.is_transactional:
            block = self._transactions.change("LOGICAL_DECODING_MESSAGE")
        sequence = self._sequence(lsn)
        return [
            self._messages.record(
                message,
                RecordOrigin(
                    self._messages.source(self._source, message, lsn, sequence),
                    self._partition,
                    self._offset(),
                    block,
                ),
            )
        ]

    def _next_change(
        self, relation: int, lsn: int, update: pgoutput.Update | None = None
    ) -> CapturedTable | None:
        """Counts a change, and returns its table if it is new and captured."""
        if self._counts_as_new(lsn):
            return self._table(relation)
        if self._transactions is not None and not self._is_read_already:
            # A transaction that is read again: later ones get the numbers that they had.
            table = self._table(relation)
            if table is not None and table.is_captured:
                self._transactions.change(table.full_name)
                if update is not None and _changes_key(table, update):
                    self._transactions.change(table.full_name)
        return None

    def _counts_as_new(self, lsn: int) -> bool:
        if self._is_read_already:
            return False
        self._seen += 1
        is_read = self._seen <= self._skips or (
            self._read_to_lsn is not None and lsn <= self._read_to_lsn
        )
        if is_read:
            return False
        begun = self._begun
        self._open_commit_lsn = begun.commit_lsn
        self._index = self._seen
        self._lsn = lsn
        self._xid = begun.xid
        self._time_us = begun.commit_us
        return True

    def _offset(self) -> Row:
        """The same as that of `position`, without what a snapshot adds."""
        return {
            "lsn_proc": self._lsn,
            "lsn_commit": self.commit_lsn,
            "lsn": self._lsn,
            "txId": self._xid,
            "ts_usec": self._time_us,
            "tx_commit": self._open_commit_lsn,
            "index": self._index,
        }

    def _not_skipped(self, records: list[SourceRecord]) -> list[SourceRecord]:
        """Returns what a changed key leaves: a delete with its tombstone, and an insert."""
        *deleted, created = records
        return [
            *([] if envelope.DELETE in self._skipped else deleted),
            *([] if envelope.CREATE in self._skipped else [created]),
        ]

    def _is_left_out(self, table: CapturedTable, operation: str) -> bool:
        if operation in self._skipped or not table.is_captured:
            return True
        if not table.has_chunk_key and self._is_unread(table.full_name):
            # Its rows come at once later on, and have this change in them.
            return True
        covered = self._covered.get(table.full_name) if self._covered else None
        if covered is None:
            return False
        visible, until_lsn = covered
        return self._begun.commit_lsn < until_lsn and visible.sees(self._begun.xid)

    def _left_window(self, table: CapturedTable, *rows: Values | None) -> None:
        window = self.window
        if window is not None and window.table == table.full_name:
            window.changed(*(table.chunk_key(values) for values in rows))

    def converted(self, make: Callable[[], list[SourceRecord]]) -> list[SourceRecord]:
        """Returns what `make` makes, or nothing where a value that cannot be converted is passed
        over by `event.processing.failure.handling.mode`."""
        try:
            return make()
        except DataError as error:
            mode = self._settings.event_processing_failure_handling_mode
            if mode == "fail":
                raise
            if mode == "warn":
                _log.warning("a change is skipped: %s", error)
            return []

    def _note_signal(self, table: CapturedTable, values: Values) -> None:
        row = dict(zip(table.column_names, values, strict=True))
        signal = signal_of(row)
        if signal is not None:
            self.signals.append(signal)

    def _record_origin(self, table: CapturedTable, lsn: int) -> RecordOrigin:
        source = {
            **self._source,
            "sequence": self._sequence(lsn),
            "schema": table.schema,
            "table": table.name,
            "lsn": lsn,
        }
        block = None
        if self._transactions is not None:
            block = self._transactions.change(table.full_name)
        return RecordOrigin(source, self._partition, self._offset(), block)

    def _sequence(self, lsn: int) -> str:
        return f'["{self.commit_lsn}","{lsn}"]'


def _changes_key(table: CapturedTable, update: pgoutput.Update) -> bool:
    old = update.old if update.old is not None else update.key
    return old is not None and table.key(old) not in (None, table.key(update.new))


def captured_by(
    relation: Relation, catalog: Catalog, settings: PostgresSettings, headers: tuple[Header, ...]
) -> CapturedTable:
    """Returns a table with the columns that its changes have. The catalog says what the stream does
    not: which columns may be null, their defaults and the key. It says so of today; a column that
    is gone since then may be null."""
    found = catalog.table(relation.oid)
    known = {} if found is None else {column.name: column for column in found.columns}
    columns = []
    # Other than with the identity FULL, the columns that are marked cannot be null.
    is_key_only = relation.replica_identity != "f"
    for column in relation.columns:
        row = known.get(column.name)
        if row is None or row.type.oid != column.type_oid:
            row = ColumnRow(
                column.name,
                catalog.type(column.type_oid),
                column.type_modifier,
                column.is_key and is_key_only if row is None else row.is_required,
                None,
                False,
                None,
            )
        columns.append(row._replace(modifier=column.type_modifier))
    identity = tuple(column.name for column in relation.columns if column.is_key and is_key_only)
    table = TableRow(
        relation.oid,
        relation.schema,
        relation.table,
        tuple(columns),
        identity if found is None else found.key,
        () if found is None else found.unique,
    )
    return CapturedTable(table, columns, settings, headers)
