"""One end of a simulated TCP connection.

An end has two halves, as on a real machine. The transport is what the program holds: its write
buffer, its watermarks, its protocol. The socket below it belongs to the host: what arrived and
was not read, what may still be sent, whether it was closed; it works on while the program is
stopped, and tells the peer when the program is killed. Bytes arrive in order, in pieces cut
anywhere, and no more than a window of them is on the way or unread.
"""

import asyncio
import errno
import zlib
from collections import deque
from collections.abc import Iterable
from contextvars import Context
from enum import Enum
from typing import TYPE_CHECKING, Any

from odradek.world.disk import Buffer

if TYPE_CHECKING:
    from simulation.link import Link
    from simulation.network import Network

MAX_BYTES_IN_A_READ = 256 * 1024
_HIGH_WATER_BYTES = 64 * 1024
_BUFFERS = (bytes, bytearray, memoryview)
# The two most frequent lines of every trace.
_READ = "%s read %d B %08x"
_SENT = "%s sent %d B %08x"


class Mark(Enum):
    """Signals that travel like bytes: the end of the stream and a reset."""

    END = "end"
    RESET = "reset"


class Pipe:
    """The bytes on their way in one direction. Each packet that arrives brings the next piece."""

    __slots__ = ("_back", "_link", "_on_the_way", "in_flight_bytes", "source", "target")

    def __init__(
        self, link: "Link", back: "Link", source: "SimulatedTransport", target: "SimulatedTransport"
    ) -> None:
        self._link = link
        self._back = back
        self._on_the_way: deque[bytes | Mark] = deque()
        self.in_flight_bytes = 0
        self.source = source
        self.target = target

    def send(self, piece: bytes | Mark) -> None:
        size = 0 if isinstance(piece, Mark) else len(piece)
        self.in_flight_bytes += size
        self._on_the_way.append(piece)
        self._link.carry(self._arrive, size)

    def _arrive(self) -> None:
        if self._on_the_way:
            self.target.socket_received(self._on_the_way.popleft())

    def forget(self) -> None:
        self._on_the_way.clear()

    def acknowledge(self, count: int) -> None:
        """Tells the sender that the reader took bytes, unless the link back is cut."""
        if self._back.is_cut:
            self._back.hold(lambda: self._acknowledged(count))
        else:
            self._acknowledged(count)

    def _acknowledged(self, count: int) -> None:
        self.in_flight_bytes -= count
        if self.source.has_unsent_bytes:
            self.source.socket_has_room()


class SimulatedTransport(asyncio.Transport):
    """Made by the network; `start` once the program's protocol is there."""

    def __init__(
        self,
        network: "Network",
        *,
        number: int,
        host: str,
        local: tuple[str, int],
        remote: tuple[str, int],
        label: str,
        context: Context,
    ) -> None:
        super().__init__({"sockname": local, "peername": remote})
        self.number = number
        self.host = host
        self.label = label
        self.context = context
        self.outgoing: Pipe
        self.incoming: Pipe
        self._network = network
        self._protocol: asyncio.BaseProtocol | None = None
        # The program's half.
        self._buffer: deque[memoryview] = deque()
        self._buffer_bytes = 0
        self._high_bytes = _HIGH_WATER_BYTES
        self._low_bytes = _HIGH_WATER_BYTES // 4
        self._writing_paused = False
        self._reading_paused = False
        self._closing = False
        self._losing = False
        self._end_after_buffer = False
        self._read_is_scheduled = False
        self._end_was_told = False
        self._closed_callback: Any = None
        # The host's half.
        self._unread: deque[bytes] = deque()
        self._was_ended = False
        self._was_reset = False
        self._socket_closed = False
        self._end_was_sent = False
        self._vanished = False
        self._missed_while_vanished = False

    def __hash__(self) -> int:
        return self.number

    def __repr__(self) -> str:
        return f"<SimulatedTransport {self.label}>"

    def start(self, protocol: asyncio.BaseProtocol, on_closed: Any = None) -> None:
        """Hands the connection to the program: `connection_made`, then what has arrived."""
        self._protocol = protocol
        self._closed_callback = on_closed
        self._soon(protocol.connection_made, self)
        self._soon(self._schedule_read)

    def _soon(self, call: Any, *args: Any) -> None:
        self._network.loop.call_soon(call, *args, context=self.context)

    # Reading

    def socket_received(self, piece: bytes | Mark) -> None:
        """Something arrived at the host."""
        if self._vanished:
            self._missed_while_vanished = True
            return
        if self._socket_closed:
            if not isinstance(piece, Mark):
                self.outgoing.send(Mark.RESET)
            return
        if isinstance(piece, bytes):
            self._unread.append(piece)
        elif piece is Mark.RESET:
            self._was_reset = True
            self._trace("%s reset by peer")
        else:
            self._was_ended = True
        self._schedule_read()

    def _schedule_read(self) -> None:
        if self._read_is_scheduled or self._closing or self._protocol is None:
            return
        news = self._unread or self._was_reset or (self._was_ended and not self._end_was_told)
        if news and (not self._reading_paused or (self._was_reset and self._buffer)):
            self._read_is_scheduled = True
            self._network.loop.call_soon(self._read_ready, context=self.context)

    def _read_ready(self) -> None:
        self._read_is_scheduled = False
        if self._closing:
            return
        if self._was_reset and (self._reading_paused or not self._unread):
            self._force_close(ConnectionResetError(errno.ECONNRESET, "connection reset by peer"))
        elif self._reading_paused:
            return
        elif self._unread:
            self._deliver(self._take())
            self._schedule_read()
        elif self._was_ended and not self._end_was_told:
            self._end_was_told = True
            self._trace("%s end of stream")
            protocol = self._protocol
            assert isinstance(protocol, asyncio.Protocol | asyncio.BufferedProtocol)
            if not protocol.eof_received():
                self.close()

    def _take(self) -> bytes:
        """The next bytes for the program: all that is there, or a part cut anywhere."""
        unread = self._unread
        present = len(unread[0]) if len(unread) == 1 else sum(map(len, unread))
        size = self._network.cut_size(min(present, MAX_BYTES_IN_A_READ))
        if isinstance(self._protocol, asyncio.BufferedProtocol):
            self._target = memoryview(self._protocol.get_buffer(-1))
            if not len(self._target):
                raise RuntimeError("get_buffer() returned an empty buffer")
            size = min(size, len(self._target))
        if len(unread[0]) == size:
            return unread.popleft()
        parts = []
        missing = size
        while missing:
            part = unread.popleft()
            if len(part) > missing:
                unread.appendleft(part[missing:])
                part = part[:missing]
            missing -= len(part)
            parts.append(part)
        return b"".join(parts)

    def _deliver(self, data: bytes) -> None:
        size = len(data)
        self._network.trace(self.host, _READ, self.label, size, zlib.crc32(data))
        self.incoming.acknowledge(size)
        protocol = self._protocol
        if isinstance(protocol, asyncio.BufferedProtocol):
            self._target[:size] = data
            protocol.buffer_updated(size)
        else:
            assert isinstance(protocol, asyncio.Protocol)
            protocol.data_received(data)

    def is_reading(self) -> bool:
        return not self._reading_paused and not self._closing

    def pause_reading(self) -> None:
        self._reading_paused = True

    def resume_reading(self) -> None:
        self._reading_paused = False
        self._schedule_read()

    # Writing

    def write(self, data: Buffer) -> None:
        if not isinstance(data, _BUFFERS):
            raise TypeError(f"data must be bytes-like, not {type(data).__name__}")
        if self._end_after_buffer:
            raise RuntimeError("Cannot call write() after write_eof()")
        if self._losing or not len(data):
            return
        # Unsent bytes stay in the caller's buffer, as with uvloop: code that changes the buffer
        # too early corrupts what is sent, here too.
        view = memoryview(data).cast("B")
        self._buffer.append(view)
        self._buffer_bytes += len(view)
        self._flush()
        if self._buffer_bytes > self._high_bytes and not self._writing_paused:
            self._writing_paused = True
            assert self._protocol is not None
            self._protocol.pause_writing()

    def writelines(self, list_of_data: Iterable[Buffer]) -> None:
        # One write, as the real loop makes of it: watermarks move once, not per piece.
        parts = [part for part in list_of_data if len(part)]
        for part in parts[:-1]:
            if not self._losing:
                view = memoryview(part).cast("B")
                self._buffer.append(view)
                self._buffer_bytes += len(view)
        if parts:
            self.write(parts[-1])

    def _flush(self) -> None:
        """Gives the host what fits in the window."""
        if self._was_reset or self._socket_closed:
            self._force_close(BrokenPipeError(errno.EPIPE, "the peer has closed the connection"))
            return
        room = self._room()
        while self._buffer and room > 0:
            size = self._network.cut_size(min(room, self._buffer_bytes))
            piece = self._next_piece(size)
            room -= size
            self._buffer_bytes -= size
            self._network.trace(self.host, _SENT, self.label, size, zlib.crc32(piece))
            self.outgoing.send(piece)
        if not self._buffer:
            self._buffer_is_empty()

    def _room(self) -> int:
        """How many bytes the host takes now: none while the window is nearly full, as in TCP."""
        window = self._network.window_bytes
        room = window - self.outgoing.in_flight_bytes
        return room if room >= min(self._buffer_bytes, window // 4) else 0

    def _next_piece(self, size: int) -> bytes:
        if len(self._buffer[0]) == size:
            return bytes(self._buffer.popleft())
        parts = []
        while size:
            part = self._buffer.popleft()
            if len(part) > size:
                self._buffer.appendleft(part[size:])
                part = part[:size]
            size -= len(part)
            parts.append(part)
        return b"".join(parts)

    def _buffer_is_empty(self) -> None:
        if self._end_after_buffer and not self._end_was_sent:
            self._send_end()
        if self._closing and not self._losing:
            self._losing = True
            self._soon(self._lose, None)

    @property
    def has_unsent_bytes(self) -> bool:
        return bool(self._buffer)

    def socket_has_room(self) -> None:
        """The peer has read: send on."""
        if self._losing or not self._buffer or not self._room():
            return
        # Sending on is the program's own work, so a stopped program does not.
        self._soon(self._send_on)

    def _send_on(self) -> None:
        if self._losing or not self._buffer:
            return
        self._flush()
        if self._writing_paused and self._buffer_bytes <= self._low_bytes:
            self._writing_paused = False
            if self._protocol is not None:
                self._protocol.resume_writing()

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        if not self._end_after_buffer and not self._closing:
            self._end_after_buffer = True
            if not self._buffer:
                self._buffer_is_empty()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        if high is None:
            high = _HIGH_WATER_BYTES if low is None else 4 * low
        if low is None:
            low = high // 4
        if not high >= low >= 0:
            raise ValueError(f"high ({high!r}) must be >= low ({low!r}) must be >= 0")
        self._high_bytes, self._low_bytes = high, low

    def get_write_buffer_size(self) -> int:
        return self._buffer_bytes

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._low_bytes, self._high_bytes

    # Ending

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        if self._closing:
            return
        self._closing = True
        if not self._buffer:
            self._buffer_is_empty()

    def abort(self) -> None:
        self._force_close(None)

    def _force_close(self, error: Exception | None) -> None:
        if self._losing:
            return
        self._losing = self._closing = True
        self._buffer.clear()
        self._buffer_bytes = 0
        self._soon(self._lose, error)

    def _lose(self, error: Exception | None) -> None:
        self._trace("%s closed%s", f": {error}" if error else "")
        try:
            if self._protocol is not None:
                self._protocol.connection_lost(error)
        finally:
            self.close_socket()
            if self._closed_callback is not None:
                self._closed_callback()

    def close_socket(self) -> None:
        """The host's half ends: with a reset if bytes were left unread, as Linux does it."""
        if self._socket_closed:
            return
        if self._unread and not self._vanished:
            self._end_was_sent = True
            self.outgoing.send(Mark.RESET)
        self._send_end()
        self._socket_closed = True
        self._unread.clear()
        self._network.forget(self)

    def _send_end(self) -> None:
        if not (self._end_was_sent or self._was_reset or self._vanished):
            self._end_was_sent = True
            self.outgoing.send(Mark.END)

    def killed(self) -> None:
        """The program is gone; its host closes the socket."""
        self._losing = self._closing = True
        self._buffer.clear()
        self.close_socket()

    def vanish(self) -> None:
        """The host lost its power: the peer hears nothing at all."""
        self._vanished = True
        self._losing = self._closing = True
        self._buffer.clear()

    def host_is_back(self) -> None:
        """A host that has no such connection answers every packet with a reset."""
        self._vanished = False
        self._socket_closed = True
        self._unread.clear()
        if self._missed_while_vanished:
            self.outgoing.send(Mark.RESET)

    def broken_from_outside(self) -> None:
        """A reset that neither end asked for."""
        self.incoming.forget()
        self.outgoing.forget()
        self._end_was_sent = True
        self._unread.clear()
        if self._protocol is None:
            self._was_reset = True
        elif not self._losing:
            self._was_reset = True
            self._force_close(ConnectionResetError(errno.ECONNRESET, "connection reset by peer"))

    def get_protocol(self) -> asyncio.BaseProtocol:
        assert self._protocol is not None
        return self._protocol

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def _trace(self, event: str, *details: str | int) -> None:
        self._network.trace(self.host, event, self.label, *details)
