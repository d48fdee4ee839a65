"""The events of a server's binary log, as they are written.

The stream logs in as a replica does, and asks for the log from a position on, or for everything
after a set of GTIDs. PyMySQL makes the connection and logs in; the packets are read here, because
a reader must be able to wait for a moment and go on, which PyMySQL's connections do not allow.
"""

import re
import ssl
import time
import zlib
from collections.abc import Callable, Iterator
from typing import Any, Final

import pymysql

from odradek.connect.connectors.mysql import server
from odradek.connect.connectors.mysql.events import (
    Event,
    EventType,
    checksum_of_format,
    parse_event,
    parse_rotation,
    payload_events,
)
from odradek.connect.connectors.mysql.gtids import gtid_set_bytes
from odradek.connect.connectors.mysql.server import LogPlace
from odradek.connect.connectors.mysql.settings import MySqlSettings
from odradek.connect.errors import DataError, Unavailable

_DUMP: Final = 0x12
_DUMP_GTID: Final = 0x1E
_ANNOTATED: Final = 2
_BY_GTID: Final = 4
_FIRST_POSITION: Final = 4
_HEARTBEAT_S: Final = 5
_SILENCE_S: Final = 3 * _HEARTBEAT_S
_LARGEST_PACKET: Final = 0xFFFFFF
_RECEIVE_BYTES: Final = 1 << 20
_LOG_IS_GONE: Final = frozenset({1236, 1373, 1789})
_FIRST_SERVER_ID: Final = 1_000_000
_OK: Final = 0
_ERROR: Final = 0xFF
_SAME_READER: Final = re.compile("same server_uuid|same server_id|server id", re.IGNORECASE)


class LogIsGone(DataError):
    """The server has deleted the part of the log that is asked for."""


class LogStream:
    """`file` is the file that the last event came from."""

    def __init__(
        self,
        settings: MySqlSettings,
        place: LogPlace,
        transactions: str | None,
        *,
        is_mariadb: bool,
        is_second: bool = False,
    ) -> None:
        """Begins after the `transactions`, if they are given, and else at the place. `is_second`
        is for a connector that reads another part of the log at the same time. Raises `Unavailable`
        or `DataError`; whether the log is there is known by the first event."""
        self.file = place.file
        self._settings = settings
        self._is_second = is_second
        self._buffer = b""
        self._at = 0
        self._last_s = time.monotonic()
        self._has_checksums = False
        self._connection = server.connect(settings)
        self._socket = self._connection._sock
        try:
            with self._connection.cursor() as cursor:
                self._prepare(cursor, transactions, is_mariadb=is_mariadb)
        except pymysql.MySQLError as error:
            self.close()
            raise server.translated(error, settings) from error
        self._ask(place, transactions, is_mariadb=is_mariadb)

    def close(self) -> None:
        """It may be called by another thread, which ends a `poll` that waits."""
        server.end(self._connection)

    def _prepare(self, cursor: Any, transactions: str | None, *, is_mariadb: bool) -> None:
        period_ns = _HEARTBEAT_S * 1_000_000_000
        cursor.execute(
            "SET @master_binlog_checksum = @@GLOBAL.binlog_checksum,"
            " @source_binlog_checksum = @@GLOBAL.binlog_checksum,"
            f" @master_heartbeat_period = {period_ns}, @source_heartbeat_period = {period_ns}"
        )
        cursor.execute("SELECT @master_binlog_checksum")
        self._has_checksums = cursor.fetchone()[0] == "CRC32"
        if is_mariadb:
            # 4: the reader knows the events that begin a numbered transaction.
            cursor.execute("SET @mariadb_slave_capability = 4")
            if transactions is not None:
                cursor.execute("SET @slave_connect_state = %s", (transactions,))
                cursor.execute("SET @slave_gtid_strict_mode = 0, @slave_gtid_ignore_duplicates = 0")

    def _ask(self, place: LogPlace, transactions: str | None, *, is_mariadb: bool) -> None:
        flags = _ANNOTATED if is_mariadb and self._settings.include_query else 0
        number = self._server_id()
        if transactions is None or is_mariadb:
            found = place if transactions is None else LogPlace("", _FIRST_POSITION)
            packet = (
                found.position.to_bytes(4, "little")
                + flags.to_bytes(2, "little")
                + number.to_bytes(4, "little")
                + found.file.encode()
            )
            command = _DUMP
        else:
            sids = gtid_set_bytes(transactions)
            packet = (
                (flags | _BY_GTID).to_bytes(2, "little")
                + number.to_bytes(4, "little")
                + (0).to_bytes(4, "little")
                + _FIRST_POSITION.to_bytes(8, "little")
                + len(sids).to_bytes(4, "little")
                + sids
            )
            command = _DUMP_GTID
        try:
            self._connection._execute_command(command, packet)
        except (OSError, pymysql.MySQLError) as error:
            self.close()
            raise Unavailable(f"the server ended the connection: {error}") from error

    def _server_id(self) -> int:
        """Two readers with one number end each other's connections."""
        given = self._settings.database_server_id
        derived = zlib.crc32(self._settings.topic_prefix.encode()) % (1 << 31)
        return (given or _FIRST_SERVER_ID + derived) + self._is_second

    # Events

    def events(self, wait_s: Callable[[], float]) -> Iterator[Event | None]:
        """Returns the events without end, and None when none has come for as long as `wait_s` says
        to wait. Raises `LogIsGone`, `Unavailable` or `DataError`."""
        while True:
            data = self._packet(wait_s)
            if data is None:
                yield None
                continue
            yield from self._parsed(data)

    def _parsed(self, data: bytes) -> Iterator[Event]:
        kind = data[4]
        if kind == EventType.FORMAT_DESCRIPTION:
            self._has_checksums = checksum_of_format(data)
            yield parse_event(data, has_checksum=self._has_checksums)
            return
        event = parse_event(data, has_checksum=self._has_checksums)
        if kind == EventType.ROTATE:
            self.file = parse_rotation(event.body).file
        if kind == EventType.TRANSACTION_PAYLOAD:
            yield from payload_events(event)
        else:
            yield event

    # Packets

    def _packet(self, wait_s: Callable[[], float]) -> bytes | None:
        """Returns the event in the next packet; None if it has not come whole."""
        while (parts := self._whole_packet()) is None:
            if not self._receive(wait_s()):
                return None
        data = parts[0] if len(parts) == 1 else b"".join(parts)
        if data[0] == _OK:
            return data[1:]
        raise self._error(data)

    def _whole_packet(self) -> list[bytes] | None:
        """Takes a packet out of the buffer. A large one comes in several parts."""
        parts: list[bytes] = []
        buffer, at = self._buffer, self._at
        while True:
            if len(buffer) - at < 4:
                return None
            size = buffer[at] | buffer[at + 1] << 8 | buffer[at + 2] << 16
            end = at + 4 + size
            if len(buffer) < end:
                return None
            parts.append(buffer[at + 4 : end])
            at = end
            if size < _LARGEST_PACKET:
                self._at = at
                return parts

    def _receive(self, wait_s: float) -> bool:
        """Waits for more bytes. Returns whether there are some."""
        try:
            self._socket.settimeout(wait_s)
            data = self._socket.recv(_RECEIVE_BYTES)
        except (TimeoutError, BlockingIOError, ssl.SSLWantReadError):
            if time.monotonic() - self._last_s > _SILENCE_S:
                raise Unavailable(
                    "the server has sent nothing for a while, not even that it lives"
                ) from None
            return False
        except (OSError, ValueError) as error:
            raise Unavailable(f"the connection to the server was lost: {error}") from error
        if not data:
            raise Unavailable("the server has ended the connection")
        self._last_s = time.monotonic()
        self._buffer = self._buffer[self._at :] + data
        self._at = 0
        return True

    def _error(self, data: bytes) -> DataError | Unavailable:
        if data[0] != _ERROR:
            return Unavailable("the server has ended its log: it is shutting down")
        number = int.from_bytes(data[1:3], "little")
        said = data[9:].decode("utf-8", "replace")
        if number in _LOG_IS_GONE and not _SAME_READER.search(said):
            return LogIsGone(
                f"the server cannot send its binary log from where this connector was: {said}. If"
                " the log was deleted, changes are lost: set snapshot.mode=when_needed to read"
                " all rows again, and let the server keep its logs longer"
            )
        if number in _LOG_IS_GONE:
            return Unavailable(
                f"{said}. Another reader has the same database.server.id; give each one of its own"
            )
        return Unavailable(f"the server sends no log: {said}")
