"""TLS between a socket and a connection.

asyncio and uvloop have TLS of their own. It is not used, for three reasons: it keeps half a
megabyte of buffers for each connection, whose number a client decides that has not even finished
its handshake; its context is fixed when the listener is opened, while keys must be replaceable for
the connections that come later; and it waits with `connection_made` until the handshake is over,
while the limits of connections must count before.

`TlsLayer` is what the event loop calls. It decrypts what arrives and gives it to the connection
behind it, to which `TlsTransport` looks like the transport of a socket. OpenSSL's objects are made
when the first record, which has the ClientHello, is whole: a client that connects and sends
nothing, or half of a hello, costs a few hundred bytes and no computation. The objects of a
handshake that has begun take 100 KB.

A handshake runs on the event loop: a tenth of a millisecond with an elliptic curve, one with a key
of RSA with 2048 bits. So handshakes begin one after the other (`handshake_turns`).
"""

import asyncio
import logging
import ssl
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Final, Protocol, cast

from odradek.broker.network.handshake_turns import HandshakeTurns

logger = logging.getLogger("odradek.authentication")

# What is decrypted, or encrypted, at once. OpenSSL's buffers in memory never become smaller, so
# they must not become large.
_PIECE_BYTES: Final = 64 * 1024
# The largest record of TLS.
_RECORD_BYTES: Final = 16 * 1024
_HEADER_BYTES: Final = 5
# A client that has sent so much before it was answered is no client that waits for its turn.
_MAX_WAITING_BYTES: Final = 64 * 1024
# The first bytes of every connection that speaks TLS: a record of the handshake, in versions 3.x.
_HANDSHAKE: Final = b"\x16\x03"


class Inner(Protocol):
    """The connection behind the layer: what an event loop calls, and whose it is."""

    address: str
    port: int

    def connection_made(self, transport: asyncio.BaseTransport) -> None: ...
    def connection_lost(self, error: Exception | None) -> None: ...
    def data_received(self, data: bytes) -> None: ...
    def pause_writing(self) -> None: ...
    def resume_writing(self) -> None: ...


class Refused(Exception):
    """The certificate of a client is valid, and does not let it in."""


class TlsLayer(asyncio.Protocol):
    """Invariant: the connection gets bytes only after the handshake."""

    __slots__ = (
        "_context",
        "_first",
        "_handshake_done",
        "_incoming",
        "_inner",
        "_is_shaken",
        "_is_waiting",
        "_outgoing",
        "_raw",
        "_turns",
        "ssl_object",
    )

    def __init__(
        self,
        inner: Inner,
        context: ssl.SSLContext,
        handshake_done: Callable[[ssl.SSLObject], None],
        turns: HandshakeTurns,
    ) -> None:
        """`handshake_done` is called once, with the certificate of the client if there is one. It
        raises `Refused` to close the connection."""
        self._inner = inner
        self._context = context
        self._handshake_done = handshake_done
        self._turns = turns
        self._is_shaken = False
        # Whether the handshake waits for its turn.
        self._is_waiting = False
        # What has arrived before the handshake has begun: perhaps not yet the first record.
        self._first = b""
        self._raw: asyncio.Transport | None = None
        self._incoming: ssl.MemoryBIO
        self._outgoing: ssl.MemoryBIO
        self.ssl_object: ssl.SSLObject | None = None

    # What the event loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are not of this class, and have its methods.
        raw = self._raw = cast("asyncio.Transport", transport)
        self._inner.connection_made(TlsTransport(self, raw, self._context))

    def connection_lost(self, error: Exception | None) -> None:
        self._raw = None
        self.ssl_object = None
        self._inner.connection_lost(error)

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()

    def eof_received(self) -> bool:
        return False

    def data_received(self, data: bytes) -> None:
        if self.ssl_object is not None:
            self._received(self.ssl_object, data)
            return
        self._first += data
        if self._is_waiting:
            if len(self._first) > _MAX_WAITING_BYTES:
                self._take_turn()
        elif _is_first_record(self._first):
            self._is_waiting = True
            self._turns.wait(self._take_turn)

    def _take_turn(self) -> bool:
        """Begins the handshake; returns whether there was one to begin."""
        if self.ssl_object is not None or self._raw is None or self._raw.is_closing():
            return False
        data, self._first = self._first, b""
        self._received(self._begin(), data)
        return True

    def _received(self, tls: ssl.SSLObject, data: bytes) -> None:
        plain: list[bytes] = []
        is_ended = False
        try:
            for start in range(0, len(data), _PIECE_BYTES):
                self._incoming.write(data[start : start + _PIECE_BYTES])
                if self._is_shaken or self._shake_hands(tls):
                    is_ended = _decrypt(tls, plain)
        except (ssl.SSLError, Refused) as error:
            self._fail(error)
            return
        if self._outgoing.pending:
            self._flush()
        if plain and self._raw is not None and not self._raw.is_closing():
            self._inner.data_received(plain[0] if len(plain) == 1 else b"".join(plain))
        if is_ended:
            self.close()

    # The handshake

    def _begin(self) -> ssl.SSLObject:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.ssl_object = self._context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        return self.ssl_object

    def _shake_hands(self, tls: ssl.SSLObject) -> bool:
        """Goes on with the handshake; returns whether it is over."""
        try:
            tls.do_handshake()
        except ssl.SSLWantReadError:
            self._flush()
            return False
        self._flush()
        self._is_shaken = True
        self._handshake_done(tls)
        return True

    def _fail(self, error: ssl.SSLError | Refused) -> None:
        """Tells the client why, by the alert that OpenSSL has written, and closes."""
        reason = error.reason if isinstance(error, ssl.SSLError) else None
        what = "a TLS record is wrong" if self._is_shaken else "the TLS handshake failed"
        logger.info(
            "closing the connection from %s:%s: %s: %s",
            self._inner.address,
            self._inner.port,
            what,
            (reason or str(error)).replace("_", " ").lower(),
        )
        self._flush()
        if self._raw is not None:
            self._raw.close()

    # What the transport of the connection calls

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Encrypts and sends."""
        tls, raw = self.ssl_object, self._raw
        if tls is None or raw is None or raw.is_closing():
            return
        view, encrypted = memoryview(data), []
        try:
            while view:
                # OpenSSL takes one record at a time.
                view = view[tls.write(view[:_RECORD_BYTES]) :]
                encrypted.append(self._outgoing.read())
        except ssl.SSLError as error:
            self._fail(error)
            return
        raw.write(encrypted[0] if len(encrypted) == 1 else b"".join(encrypted))

    def close(self) -> None:
        """Says good-bye by TLS, and closes when everything has been sent."""
        raw = self._raw
        if raw is None or raw.is_closing():
            return
        if self._is_shaken and self.ssl_object is not None:
            # It waits for the good-bye of the client, which need not come.
            with suppress(ssl.SSLError):
                self.ssl_object.unwrap()
            self._flush()
        raw.close()

    def _flush(self) -> None:
        if self._raw is not None and self._outgoing.pending:
            self._raw.write(self._outgoing.read())


def _is_first_record(data: bytes) -> bool:
    """Returns whether there is something for OpenSSL to look at: a whole record, or the beginning
    of something that is none, which OpenSSL refuses."""
    if not data.startswith(_HANDSHAKE[: len(data)]):
        return True
    if len(data) < _HEADER_BYTES:
        return False
    length = int.from_bytes(data[3:_HEADER_BYTES], "big")
    return length > _RECORD_BYTES or len(data) >= _HEADER_BYTES + length


def _decrypt(tls: ssl.SSLObject, plain: list[bytes]) -> bool:
    """Adds what can be decrypted; returns whether the client has said that nothing more follows.
    Raises `ssl.SSLError`."""
    try:
        while data := tls.read(_PIECE_BYTES):
            plain.append(data)
    except ssl.SSLWantReadError:
        return False
    return True


class TlsTransport(asyncio.Transport):
    """The transport that a connection behind TLS has."""

    def __init__(self, layer: TlsLayer, raw: asyncio.Transport, context: ssl.SSLContext) -> None:
        super().__init__()
        self._layer = layer
        self._raw = raw
        self._context = context

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        if name == "sslcontext":
            return self._context
        if name == "ssl_object":
            return self._layer.ssl_object
        return self._raw.get_extra_info(name, default)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._layer.write(data)

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        self._layer.write(b"".join(list_of_data))

    def close(self) -> None:
        self._layer.close()

    def abort(self) -> None:
        self._raw.abort()

    def is_closing(self) -> bool:
        return self._raw.is_closing()

    def is_reading(self) -> bool:
        return self._raw.is_reading()

    def pause_reading(self) -> None:
        self._raw.pause_reading()

    def resume_reading(self) -> None:
        self._raw.resume_reading()

    def can_write_eof(self) -> bool:
        return False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._raw.set_write_buffer_limits(high, low)

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._raw.get_write_buffer_limits()

    def get_write_buffer_size(self) -> int:
        return self._raw.get_write_buffer_size()
