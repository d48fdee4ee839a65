"""The replies of a connection that do not fit its socket at once, and how they leave.

Records go from the log's file to the socket without passing through this process (`sendfile`),
as long as the socket takes them. When it is full the transport is given one small piece to wait
with: it calls back when that is gone. Where there is no file or no socket (memory, TLS, the
simulation), the transport gets everything, a chunk at a time.

Invariant: bytes go past the transport only while it holds none itself, so they keep their order;
what a slow reader costs is one piece, or one chunk, whatever it asked for.
"""

import asyncio
import logging
import socket
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Protocol

logger = logging.getLogger("odradek.server")

# What the transport holds for a reader that is slow, where `sendfile` is not to be had.
CHUNK_BYTES: Final = 256 * 1024
# What it holds while a full socket is waited for: any amount is a reason to call back.
_PIECE_BYTES: Final = 16 * 1024
# Readers that keep up take turns after this much: a fifth of a millisecond.
_TURN_BYTES: Final = 1024 * 1024
# Up to this size a reply with records is copied and leaves in one call. `sendfile` needs a call
# of its own beside that for the header, and saves nothing on so few bytes (decision 6).
_COPIED_BYTES: Final = 16 * 1024
# How much more of a turn a copied byte is worth than one that `sendfile` moved.
_COPY_WEIGHT: Final = 4


class Transferable(Protocol):
    """Bytes of a log that are read when they are written to the socket, and not before."""

    def __len__(self) -> int: ...

    def read(self, start: int, length: int) -> bytes: ...

    def send(self, descriptor: int, start: int, length: int) -> int:
        """Hands bytes to a socket: how many it took, or -1 if only `read` works here.

        Raises BlockingIOError if it is full.
        """
        ...

    def release(self) -> None: ...


Parts = list[bytes | Transferable]
"""An encoded reply, size prefix included: bytes, and slices between them."""


class ReplyWriter:
    __slots__ = (
        "_drained",
        "_is_scheduled",
        "_loop",
        "_position",
        "_socket",
        "_transport",
        "is_paused",
        "parts",
    )

    def __init__(self, loop: asyncio.AbstractEventLoop, drained: Callable[[], None]) -> None:
        """`drained` is called when everything has left that had to wait."""
        self.parts: deque[bytes | Transferable] = deque()
        self.is_paused = False
        self._loop = loop
        self._drained = drained
        self._position = 0  # How much of the slice at the front has left.
        self._is_scheduled = False
        self._transport: asyncio.Transport | None = None
        self._socket: socket.socket | None = None

    def open(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._socket = _own_view(transport)
        transport.set_write_buffer_limits(high=CHUNK_BYTES)

    @property
    def is_direct(self) -> bool:
        """Whether there is a socket of the operating system behind the transport."""
        return self._socket is not None

    def limit_send_buffer(self, size_bytes: int) -> None:
        """Left alone, the kernel takes megabytes for each reader, far more than a cache holds."""
        if self._socket is not None:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, size_bytes)

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
        """Reads the slices of a small reply and releases them. None if that failed: then the
        connection is aborted, because half a reply is worthless."""
        pieces = []
        try:
            for part in parts:
                data = part if isinstance(part, bytes) else part.read(0, len(part))
                if len(data) != len(part):
                    raise OSError(f"a slice of {len(part)} bytes has only {len(data)}")
                pieces.append(data)
        except OSError as error:
            if self._transport is not None:
                self._give_up(self._transport, error)
            return None
        finally:
            for part in parts:
                if not isinstance(part, bytes):
                    part.release()
        return b"".join(pieces)

    def resume(self) -> None:
        """The transport has sent all it held."""
        self.is_paused = False
        if not self._is_scheduled:
            self._pump_on()

    def end(self) -> None:
        """The transport is gone: lets go of what was not sent, and of the descriptor."""
        for part in self.parts:
            if not isinstance(part, bytes):
                part.release()
        self.parts.clear()
        self._transport = None
        # It belongs to the connection, which owns this object: the two would keep each other alive.
        self._drained = _nothing
        if self._socket is not None:
            self._socket.detach()  # It is the transport's to close.
            self._socket = None

    def _pump_on(self) -> None:
        self._is_scheduled = False
        if self._transport is None or self.is_paused:
            return
        self._pump(self._transport)
        if not self.parts:
            self._drained()

    def _pump(self, transport: asyncio.Transport) -> None:
        """Sends what the socket takes, up to a limit: then others have their turn."""
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
            # A socket that is full or broken is the transport's to find out.
            with suppress(OSError):
                # More follows at once: a segment of its own would wake the reader for nothing.
                data = data[self._socket.send(data, socket.MSG_MORE) :]
        if data:
            transport.write(data)

    def _send_some(self, transport: asyncio.Transport, part: Transferable) -> int:
        """Sends the next bytes of a slice; returns how much of a turn that was."""
        if self._socket is None:
            return _COPY_WEIGHT * self._write_some(transport, part, CHUNK_BYTES)
        if not transport.get_write_buffer_size():
            wanted = min(len(part) - self._position, _TURN_BYTES)
            try:
                sent = part.send(self._socket.fileno(), self._position, wanted)
            except BlockingIOError:
                pass
            except OSError as error:
                self._give_up(transport, error)
                return 0
            else:
                if sent > 0:
                    self._moved(part, sent)
                    return sent
                # No file, or one that is shorter than the slice: `read` will tell.
                return _COPY_WEIGHT * self._write_some(transport, part, CHUNK_BYTES)
        # A limit of nothing makes the transport call back as soon as this piece has left.
        transport.set_write_buffer_limits(high=0)
        written = self._write_some(transport, part, _PIECE_BYTES)
        transport.set_write_buffer_limits(high=CHUNK_BYTES)
        return written

    def _write_some(self, transport: asyncio.Transport, part: Transferable, length: int) -> int:
        """Copies the next bytes to the transport. None at all: half a reply is worthless."""
        try:
            data = part.read(self._position, length)
        except OSError as error:
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

    def _give_up(self, transport: asyncio.Transport, error: OSError) -> None:
        if not isinstance(error, ConnectionError):
            peer = transport.get_extra_info("peername") or ("?", 0)
            logger.error("cannot read a log for %s:%s: %s", peer[0], peer[1], error)
        transport.abort()


def _nothing() -> None:
    """Takes the place of `drained` when the transport is gone."""


def _own_view(transport: asyncio.Transport) -> socket.socket | None:
    """The transport's socket, to send on it directly; None where something lies between."""
    found = transport.get_extra_info("socket")
    if found is None or transport.get_extra_info("sslcontext") is not None:
        return None
    if not hasattr(socket, "MSG_MORE") or not hasattr(found, "fileno"):
        return None
    return socket.socket(found.family, found.type, found.proto, fileno=found.fileno())
