"""The stream of changes from a replication slot.

The server sends messages of pgoutput inside those of streaming replication, and between them
keepalives, which say how far it has read its log. The client says how far the changes are stored;
the server keeps the log from there on, and begins there after a lost connection.
"""

import time
from struct import Struct
from typing import Final, NamedTuple

from odradek.connect.connectors.postgres.database import Address, Database, identifier, literal
from odradek.connect.connectors.postgres.lsn import lsn_text
from odradek.connect.connectors.postgres.pgoutput import Decoded, decode
from odradek.connect.errors import DataError

_POSTGRES_EPOCH_US: Final = 946_684_800_000_000
_DATA: Final = 0x77  # w
_KEEPALIVE: Final = 0x6B  # k
_Q: Final = Struct(">Q")
_KEEPALIVE_BODY: Final = Struct(">QqB")
_STATUS: Final = Struct(">cQQQqB")
_PAYLOAD_AT: Final = 25
# Longer than this, and the server might take a silent client for dead (wal_sender_timeout).
_LONGEST_SILENCE_S: Final = 15.0
_MESSAGES_SINCE: Final = 140_000


class Change(NamedTuple):
    """`lsn` is where the log has what the message is about."""

    lsn: int
    message: Decoded


class Keepalive(NamedTuple):
    """The server has read its log up to here, and has sent everything that it found."""

    lsn: int


class Replication:
    def __init__(
        self,
        address: Address,
        slot: str,
        publication: str,
        start_lsn: int,
        *,
        status_interval_ms: int = 10_000,
        parameters: str = "",
    ) -> None:
        """Begins to stream: transactions that have ended before `start_lsn` do not come."""
        self._database = Database(
            address, replication="database", application_name=f"odradek {slot}"
        )
        self._interval_s = min(status_interval_ms / 1000, _LONGEST_SILENCE_S)
        self._last_status = time.monotonic()
        self._is_awaited = False
        self.stored_lsn = start_lsn
        options = {"proto_version": "1", "publication_names": identifier(publication)}
        if self._database.version >= _MESSAGES_SINCE:
            options["messages"] = "true"
        for part in filter(None, parameters.split(";")):
            name, _, value = part.partition("=")
            options[name.strip()] = value.strip()
        given = ", ".join(f"{name} {literal(value)}" for name, value in options.items())
        try:
            self._database.begin_copy(
                f"START_REPLICATION SLOT {identifier(slot)} LOGICAL {lsn_text(start_lsn)} ({given})"
            )
        except Exception:
            self._database.close()
            raise

    def next(self, timeout_s: float = 0.0) -> Change | Keepalive | None:
        """Returns the next message; None if none comes in time. Raises `Unavailable`."""
        data = self._database.receive()
        if data is None:
            self._keep_status()
            if timeout_s <= 0:
                return None
            self._database.wait(min(timeout_s, self._interval_s))
            data = self._database.receive()
            if data is None:
                return None
        if data[0] == _DATA:
            return Change(_Q.unpack_from(data, 1)[0], decode(data[_PAYLOAD_AT:]))
        if data[0] == _KEEPALIVE:
            lsn, _, wants_reply = _KEEPALIVE_BODY.unpack_from(data, 1)
            if wants_reply:
                self._send_status()
                # A server that shuts down waits for a reply that has everything it has sent.
                self._is_awaited = True
            return Keepalive(lsn)
        raise DataError(f"streaming replication has no message {data[:1]!r}")

    def ask_position(self) -> None:
        """Asks for a keepalive."""
        self._send_status(wants_reply=True)

    def stored(self, lsn: int) -> None:
        """Everything before this position is stored. The server hears of it in time."""
        if lsn > self.stored_lsn:
            self.stored_lsn = lsn
            if self._is_awaited:
                self._is_awaited = False
                self._send_status()
        self._keep_status()

    def close(self) -> None:
        """Says for a last time what is stored."""
        try:
            self._send_status()
        finally:
            self._database.close()

    def _keep_status(self) -> None:
        if time.monotonic() - self._last_status >= self._interval_s:
            self._send_status()

    def _send_status(self, *, wants_reply: bool = False) -> None:
        self._last_status = time.monotonic()
        now_us = time.time_ns() // 1000 - _POSTGRES_EPOCH_US
        lsn = self.stored_lsn
        self._database.send(_STATUS.pack(b"r", lsn, lsn, lsn, now_us, wants_reply))
