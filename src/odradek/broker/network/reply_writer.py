"""Writes replies that contain records, or that the socket does not take at once.

The kernel moves records from the log's file to the socket (`sendfile`) as long as the socket takes
them. When the socket is full, asyncio's transport is given one small piece, and calls back when
that has been sent. Where there is no file or no plain socket (memory, TLS, the simulation) the
transport gets everything, a chunk at a time.

Invariant: bytes are sent past the transport only while it holds none itself, so they keep their
order. A slow reader costs one piece or one chunk of memory, whatever it asked for.
"""

import asyncio
import logging
import socket
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final, Protocol

from odradek.storage.errors import StorageError
from odradek.world.disk import Buffer
from odradek.world.sockets import set_buffers

logger = logging.getLogger("odradek.server")

# What the transport holds for a slow reader, where `sendfile` cannot be used.
CHUNK_BYTES: Final = 256 * 1024
# The same with TLS, where a connection costs memory for OpenSSL too.
_TLS_CHUNK_BYTES: Final = 64 * 1024
# What it holds while the socket is full: any amount makes it call back.
_PIECE_BYTES: Final = 16 * 1024
# After this much, a fifth of a millisecond, the other connections have their turn.
_TURN_BYTES: Final = 1024 * 1024
# Up to this size a reply with records is copied and sent in one call. `sendfile` needs another call
# for the header, and saves nothing on so few bytes (decision 6).
_COPIED_BYTES: Final = 16 * 1024
# A copied byte takes so many times as long as one that `sendfile` moves.
_COPY_WEIGHT: Final = 4


class Transferable(Protocol):
    """Bytes of a log that are read when they are written to the socket, and not before (Kafka:
    TransferableRecords). `storage.Slice` is one."""

    def __len__(self) -> int: ...

    def read(self, start: int, length: int) -> bytes: ...

    def read_some(self, start: int, length: int) -> Buffer:
        """Returns at least one of these bytes, and as many as can be had cheaply."""
        ...

    def send(self, descriptor: int, start: int, length: int) -> int:
        """Sends bytes to a socket. Returns how many it took, or -1 if there is no file that the
        kernel could send from, so that `read` is needed. Raises BlockingIOError if it is full."""
        ...

    def release(self) -> None: ...


Parts = list[bytes | Transferable]
"""An encoded reply with its size prefix: bytes, and records between them."""


class ReplyWriter:
    __slots__ = (
        "_chunk_bytes",
        "_drained",
        "_is_scheduled",
        "_loop",
        "_position",
        "_socket",
        "_transport",
        "gathered",
        "is_paused",
        "parts",
    )

    def __init__(self, loop: asyncio.AbstractEventLoop, drained: Callable[[], None]) -> None:
        """`drained` is called when everything has been sent that had to wait."""
        self.parts: deque[bytes | Transferable] = deque()
        # Small replies of the current turn, which `flush` sends in one system call.
        self.gathered: list[bytes] = []
        self.is_paused = False
        self._loop = loop
        self._drained = drained
        self._position = 0  # How much has been sent of the records in front.
        self._is_scheduled = False
        self._transport: asyncio.Transport | None = None
        self._socket: socket.socket | None = None
        self._chunk_bytes = CHUNK_BYTES

    def open(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._socket = _own_view(transport)
        if self._socket is None and transport.get_extra_info("sslcontext") is not None:
            self._chunk_bytes = _TLS_CHUNK_BYTES
        transport.set_write_buffer_limits(high=self._chunk_bytes)

    @property
    def is_direct(self) -> bool:
        """Whether the transport is a socket of the operating system, without TLS in between."""
        return self._socket is not None

    @property
    def has_socket(self) -> bool:
        """Whether there is a socket of the operating system behind the transport."""
        return self._socket is not None or self._chunk_bytes == _TLS_CHUNK_BYTES

    def limit_send_buffer(self, size_bytes: int) -> None:
        """Sets SO_SNDBUF. By default the kernel buffers megabytes for each reader, far more than
        the processor's cache holds."""
        if self._transport is not None:
            set_buffers(self._transport.get_extra_info("socket"), send_bytes=size_bytes)

    def reply(self, parts: Parts, *, gathers: bool) -> None:
        """Sends a reply. If `gathers`, a small one waits for `flush`, which the caller promises."""
        if self._transport is None:
            _release(parts)
        elif len(parts) == 1 and not self.parts and isinstance(parts[0], bytes):
            self.gathered.append(parts[0])
            if not gathers:
                self.flush()
        else:
            self.flush()
            self.send(parts)

    def flush(self) -> None:
        """Sends the small replies that were gathered."""
        replies, self.gathered = self.gathered, []
        if replies and self._transport is not None:
            self._transport.write(replies[0] if len(replies) == 1 else b"".join(replies))

    def send(self, parts: Parts) -> None:
        if sum(map(len, parts)) <= _COPIED_BYTES:
            joined = self._joined(parts)
            if joined is None:
                return
            parts = [joined]
        self.parts.extend(parts)
        if self._transport is not None and not self.is_paused and not self._is_scheduled:
            self._pump(self._transport)

    def _joined(self, parts: Parts) -> bytes | None:
        """Returns a small reply as bytes, and releases its records. If they cannot be read it
        aborts the connection, because half a reply is of no use, and returns None."""
        pieces = []
        try:
            for part in parts:
                data = part if isinstance(part, bytes) else part.read(0, len(part))
                if len(data) != len(part):
                    raise OSError(f"a slice of {len(part)} bytes has only {len(data)}")
                pieces.append(data)
        except (OSError, StorageError) as error:
            if self._transport is not None:
                self._give_up(self._transport, error)
            return None
        finally:
            _release(parts)
        return b"".join(pieces)

    def resume(self) -> None:
        """Called when the transport has sent everything that it held."""
        self.is_paused = False
        if not self._is_scheduled:
            self._pump_on()

    def end(self) -> None:
        """Called when the transport is closed. Releases what was not sent, and the descriptor."""
        _release(self.parts)
        self.parts.clear()
        self.gathered.clear()
        self._transport = None
        # A method of the connection, which owns this object: the cycle would keep both in memory.
        self._drained = _nothing
        if self._socket is not None:
            self._socket.detach()  # The transport closes it.
            self._socket = None

    def _pump_on(self) -> None:
        self._is_scheduled = False
        if self._transport is None or self.is_paused:
            return
        self._pump(self._transport)
        if not self.parts:
            self._drained()

    def _pump(self, transport: asyncio.Transport) -> None:
        """Sends what the socket takes, up to a limit; then other connections have their turn."""
        parts = self.parts
        left = _TURN_BYTES
        while parts and not self.is_paused and not transport.is_closing():
            if left <= 0:
                self._is_scheduled = True
                self._loop.call_soon(self._pump_on)
                return
            part = parts[0]
            if isinstance(part, bytes):
                parts.popleft()
                left -= len(part)
                self._send_bytes(transport, part)
            else:
                left -= self._send_some(transport, part)

    def _send_bytes(self, transport: asyncio.Transport, data: bytes) -> None:
        if self._socket is not None and self.parts and not transport.get_write_buffer_size():
            # The transport finds out that the socket is full or broken.
            with suppress(OSError):
                # Records follow at once: a TCP segment with the header alone would wake the client
                # for nothing.
                data = data[self._socket.send(data, socket.MSG_MORE) :]
        if data:
            transport.write(data)

    def _send_some(self, transport: asyncio.Transport, part: Transferable) -> int:
        """Sends the next bytes of the records; returns how much of a turn they took."""
        if self._socket is None:
            return _COPY_WEIGHT * self._write_some(transport, part, self._chunk_bytes)
        if not transport.get_write_buffer_size():
            length = min(len(part) - self._position, _TURN_BYTES)
            try:
                sent = part.send(self._socket.fileno(), self._position, length)
            except BlockingIOError:
                pass
            except OSError as error:
                self._give_up(transport, error)
                return 0
            else:
                if sent > 0:
                    self._moved(part, sent)
                    return sent
                # There is no file, or it is shorter than it should be: `read` finds out.
                return _COPY_WEIGHT * self._write_some(transport, part, CHUNK_BYTES)
        # With a limit of 0 the transport calls back as soon as this piece has been sent.
        transport.set_write_buffer_limits(high=0)
        written = self._write_some(transport, part, _PIECE_BYTES)
        transport.set_write_buffer_limits(high=CHUNK_BYTES)
        return written

    def _write_some(self, transport: asyncio.Transport, part: Transferable, length: int) -> int:
        """Copies the next bytes to the transport; returns how many. Aborts the connection if there
        are none, because half a reply is of no use."""
        try:
            data = part.read_some(self._position, length)
        except (OSError, StorageError) as error:
            self._give_up(transport, error)
            return 0
        if not data:
            transport.abort()
            return 0
        self._moved(part, len(data))
        transport.write(data)
        return len(data)

    def _moved(self, part: Transferable, length: int) -> None:
        self._position += length
        if self._position >= len(part):
            self.parts.popleft()
            part.release()
            self._position = 0

    def _give_up(self, transport: asyncio.Transport, error: OSError | StorageError) -> None:
        if not isinstance(error, ConnectionError):
            peer = transport.get_extra_info("peername") or ("?", 0)
            logger.error("cannot read a log for %s:%s: %s", peer[0], peer[1], error)
        transport.abort()


def _release(parts: Iterable[bytes | Transferable]) -> None:
    for part in parts:
        if not isinstance(part, bytes):
            part.release()


def _nothing() -> None:
    """In place of `drained` when the transport is closed."""


def _own_view(transport: asyncio.Transport) -> socket.socket | None:
    """Returns the transport's socket, to send on it directly; None if there is no socket, or TLS
    in between."""
    found = transport.get_extra_info("socket")
    if found is None or transport.get_extra_info("sslcontext") is not None:
        return None
    if not hasattr(socket, "MSG_MORE") or not hasattr(found, "fileno"):
        return None
    return socket.socket(found.family, found.type, found.proto, fileno=found.fileno())
