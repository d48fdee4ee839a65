"""Makes records of changed rows, as the settings want them, and finds the signals among them."""

import logging
from collections.abc import Callable

from odradek.connect.connectors.cdc import envelope
from odradek.connect.connectors.cdc.envelope import Origin
from odradek.connect.connectors.cdc.signals import Signal, signal_of
from odradek.connect.connectors.cdc.transactions import Transactions
from odradek.connect.connectors.mysql.events import INSERTS, Event
from odradek.connect.connectors.mysql.row_values import Row
from odradek.connect.connectors.mysql.settings import MySqlSettings
from odradek.connect.connectors.mysql.tables import RowShape, Tables
from odradek.connect.errors import DataError
from odradek.connect.records import SourceRecord

_log = logging.getLogger("odradek.connect")

Records = list[SourceRecord]


class RowChanges:
    def __init__(
        self,
        settings: MySqlSettings,
        tables: Tables,
        transactions: Transactions | None,
        is_unread: Callable[[str], bool],
    ) -> None:
        """`transactions` number the changes of each transaction, if that is wanted. `is_unread`
        says whether a snapshot has still to read a table."""
        self._settings = settings
        self._tables = tables
        self._transactions = transactions
        self._is_unread = is_unread
        self.signals: list[Signal] = []

    def of_row(
        self,
        event: Event,
        shape: RowShape,
        row: Row,
        new: Row | None,
        origin: Origin,
        *,
        is_skipping: bool,
    ) -> Records:
        """Returns the records of a row that `event` has changed; of an update `new` is the row
        after it. A change that is skipped counts in its transaction, and is no signal again."""
        if self._tables.is_for_signals(shape.table):
            if event.type in INSERTS and not is_skipping:
                self._note_signal(row)
            if not self._tables.selects(shape.table.database, shape.table.name):
                return []
        if not shape.key_columns and self._is_unread(shape.table.full_name):
            return []  # The snapshot will have it, and without a key it would be there twice.
        if self._transactions is not None:
            block = self._transactions.change(shape.table.full_name)
            origin = origin._replace(transaction=block)
        try:
            return self._records(event, shape, row, new, origin)
        except DataError as error:
            mode = self._settings.event_processing_failure_handling_mode
            if mode == "fail":
                raise
            if mode == "warn":
                _log.warning("%s: %s", self._settings.topic_prefix, error)
            return []

    def _records(
        self, event: Event, shape: RowShape, row: Row, new: Row | None, origin: Origin
    ) -> Records:
        skips = self._settings.skips
        if new is not None:
            return [] if skips(envelope.UPDATE) else self._updated(shape, row, new, origin)
        if event.type in INSERTS:
            if skips(envelope.CREATE):
                return []
            return shape.records.created(shape.key(row), shape.value(row), origin)
        if skips(envelope.DELETE):
            return []
        return shape.records.deleted(shape.key(row), shape.value(row), origin)

    def _updated(self, shape: RowShape, row: Row, new: Row, origin: Origin) -> Records:
        before, after = shape.value(row), shape.value(new)
        if self._settings.skip_messages_without_change and before == after:
            return []
        records = shape.records.updated(shape.key(row), shape.key(new), before, after, origin)
        if self._transactions is not None and len(records) > 1:
            # A changed key is two changes of the transaction.
            block = self._transactions.change(shape.table.full_name)
            records[-1].value["transaction"] = block
        return records

    def _note_signal(self, row: Row) -> None:
        signal = signal_of(dict(zip(("id", "type", "data"), row, strict=False)))
        if signal is not None:
            self.signals.append(signal)
