"""The task of the PostgreSQL connector.

A call of `reach` makes one step of what the session has found since the last one, and keeps it
until it is stored. The slot is told to advance only by `stored`, or when nothing waits to be
stored: then to where the server has read its log, so that it keeps none for tables that nobody
changes.
"""

import logging
import threading
from collections.abc import Iterator
from typing import Final

from odradek.connect.connectors.cdc.heartbeats import Heartbeats
from odradek.connect.connectors.cdc.settings import KAFKA_CHANNEL
from odradek.connect.connectors.cdc.signals import KafkaSignals
from odradek.connect.connectors.cdc.steps import Steps
from odradek.connect.connectors.connector import SourceTask
from odradek.connect.connectors.positions import Positions, SourceOffset
from odradek.connect.connectors.postgres import slots
from odradek.connect.connectors.postgres.database import Database
from odradek.connect.connectors.postgres.offsets import SERVER, position_of
from odradek.connect.connectors.postgres.session import CaptureSession
from odradek.connect.connectors.postgres.settings import PostgresSettings
from odradek.connect.errors import ConnectError
from odradek.connect.records import Header, SourceRecord

_log = logging.getLogger("odradek.connect")
_CLOSE_S: Final = 10.0


class PostgresTask(SourceTask):
    def __init__(self, settings: PostgresSettings, headers: tuple[Header, ...] = ()) -> None:
        """`headers` are put on every record."""
        self._settings = settings
        self._headers = headers
        self._partition = {SERVER: settings.topic_prefix}
        self._steps = Steps()
        self._heartbeats = Heartbeats(
            settings.heartbeat_interval_ms, settings.heartbeat_topic, settings.topic_prefix
        )
        self._signals = self._kafka_signals()
        self._session: CaptureSession | None = None
        self._has_begun = False
        self._is_closed = False
        # The engine may close a task while another thread is in one of its methods.
        self._lock = threading.Lock()

    def reach(self, start: Positions, max_records: int) -> Positions:
        with self._lock:
            offset = start.of(self._partition)
            if not self._steps.is_known(offset):
                self._disconnect()
                self._steps.begin_at(offset)
            following = self._steps.after(offset)
            if following is None and not self._is_closed:
                following = self._next_step(min(max_records, self._settings.max_batch_size))
            return start if following is None else start.with_offset(self._partition, following)

    def _next_step(self, max_records: int) -> SourceOffset | None:
        try:
            session = self._session or self._connected()
            if self._signals is not None:
                session.act(self._signals.take())
            step = session.step(max_records)
            if step is not None:
                self._steps.add(step)
                return step.offset
            if self._steps.is_all_stored:
                session.all_stored()
        except Exception:
            self._disconnect()
            raise
        return None

    def read(self, start: Positions, end: Positions) -> Iterator[SourceRecord]:
        with self._lock:
            return iter(self._steps.between(start.of(self._partition), end.of(self._partition)))

    def stored(self, positions: Positions) -> None:
        with self._lock:
            offset = positions.of(self._partition)
            if offset is None or not self._steps.stored(offset):
                return
            if self._session is not None:
                self._session.stored(position_of(offset).commit_lsn)
            if self._signals is not None:
                self._signals.stored()

    def close(self) -> None:
        self._is_closed = True
        session = self._session
        is_mine = self._lock.acquire(blocking=False)
        if not is_mine:
            # Another thread reads. It sees soon that the task is closed, unless a query holds it.
            if session is not None:
                session.database.cancel()
            is_mine = self._lock.acquire(timeout=_CLOSE_S)
        try:
            self._disconnect()
        finally:
            if is_mine:
                self._lock.release()
        if self._signals is not None:
            self._signals.close()
        if self._settings.slot_drop_on_stop and self._has_begun:
            self._drop_slot()

    def _drop_slot(self) -> None:
        try:
            database = Database(self._settings.address)
        except ConnectError as error:
            _log.warning("slot %s is not dropped: %s", self._settings.slot_name, error)
            return
        slots.drop_slot(database, self._settings.slot_name)
        database.close()

    def _connected(self) -> CaptureSession:
        """Begins a session where the last step has ended."""
        session = CaptureSession(
            self._settings,
            self._steps.end,
            self._headers,
            self._heartbeats,
            is_first=not self._has_begun,
            is_closed=lambda: self._is_closed,
        )
        self._has_begun = True
        self._session = session
        return session

    def _disconnect(self) -> None:
        session, self._session = self._session, None
        if session is None:
            return
        try:
            session.close()
        except (ConnectError, OSError) as error:
            _log.info("%s: %s", self._settings.topic_prefix, error)

    def _kafka_signals(self) -> KafkaSignals | None:
        settings = self._settings
        if KAFKA_CHANNEL not in settings.signal_enabled_channels:
            return None
        properties = {
            "bootstrap.servers": settings.signal_kafka_bootstrap_servers,
            "group.id": settings.signal_kafka_group_id,
            **settings.signal_consumer,
        }
        signals = KafkaSignals(settings.signal_topic, properties, settings.topic_prefix)
        signals.start()
        return signals
