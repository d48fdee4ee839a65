"""Requests as bytes, made once and sent many times: load that costs the client almost nothing.

Where the work per request is measured (one-record requests, round trips, slow peers), a real client
would be the limit. These frames are Kafka's protocol by hand, in the last versions without
compact types, understood by every broker since 2.4: Produce 7, Fetch 11, Metadata 4,
OffsetCommit 7.
"""

import socket
import struct
from typing import Final

import crc32c

_PRODUCE: Final = (0, 7)
_FETCH: Final = (1, 11)
_METADATA: Final = (3, 4)
_OFFSET_COMMIT: Final = (8, 7)
_CORRELATION: Final = 7


def _text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def _frame(api: tuple[int, int], body: bytes) -> bytes:
    header = struct.pack(">hhi", *api, _CORRELATION) + _text("benchmark")
    return struct.pack(">i", len(header) + len(body)) + header + body


def _varint(value: int) -> bytes:
    zigzag = value << 1
    out = bytearray()
    while zigzag > 0x7F:
        out.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    return bytes(out) + bytes([zigzag])


def one_record_batch(value: bytes, timestamp_ms: int) -> bytes:
    """A record batch (magic 2, uncompressed) of one record without key and headers."""
    record = b"\0\0\0\1" + _varint(len(value)) + value + b"\0"
    record = _varint(len(record)) + record
    checked = struct.pack(">hiqqqhii", 0, 0, timestamp_ms, timestamp_ms, -1, -1, -1, 1)
    checked += record
    body = struct.pack(">ibI", -1, 2, crc32c.crc32c(checked)) + checked
    return struct.pack(">qi", 0, len(body)) + body


def produce_frame(topic: str, batch: bytes, acks: int = 1) -> bytes:
    body = struct.pack(">hhi", -1, acks, 30_000)
    body += struct.pack(">i", 1) + _text(topic)
    body += struct.pack(">ii", 1, 0) + struct.pack(">i", len(batch)) + batch
    return _frame(_PRODUCE, body)


def fetch_frame(topic: str, offset: int, *, wait_ms: int, max_bytes: int) -> bytes:
    body = struct.pack(">iiiibii", -1, wait_ms, 1, max_bytes, 0, 0, -1)
    body += struct.pack(">i", 1) + _text(topic)
    body += struct.pack(">iiiqqi", 1, 0, -1, offset, -1, max_bytes)
    return _frame(_FETCH, body + struct.pack(">i", 0) + _text(""))


def metadata_frame(topic: str) -> bytes:
    """Asks for a topic and lets the broker create it."""
    return _frame(_METADATA, struct.pack(">i", 1) + _text(topic) + b"\1")


def commit_frame(group: str, topic: str, offset: int) -> bytes:
    """A commit of one partition by somebody who is in no group."""
    body = _text(group) + struct.pack(">i", -1) + _text("") + struct.pack(">h", -1)
    body += struct.pack(">i", 1) + _text(topic)
    body += struct.pack(">iiqi", 1, 0, offset, -1) + _text("")
    return _frame(_OFFSET_COMMIT, body)


class WireConnection:
    """A blocking connection; answers come in the order of the requests."""

    def __init__(self, port: int, receive_buffer_bytes: int | None = None) -> None:
        self.socket = socket.socket()
        if receive_buffer_bytes is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.settimeout(30)
        try:
            self.socket.connect(("127.0.0.1", port))
        except OSError:
            self.socket.close()
            raise

    def close(self) -> None:
        self.socket.close()

    def send(self, frames: bytes) -> None:
        self.socket.sendall(frames)

    def receive(self) -> bytes:
        """The next answer without its size."""
        size: int = struct.unpack(">i", self._exactly(4))[0]
        return self._exactly(size)

    def _exactly(self, count: int) -> bytes:
        data = self.socket.recv(count)
        while len(data) < count:
            more = self.socket.recv(count - len(data))
            if not more:
                raise ConnectionError("the broker closed the connection")
            data += more
        return data


def produce_error(answer: bytes, topic: str) -> int:
    """The error code in the answer to ``produce_frame``."""
    position = 4 + 4 + 2 + len(topic) + 4 + 4
    code: int = struct.unpack_from(">h", answer, position)[0]
    return code


def commit_error(answer: bytes) -> int:
    """The error code in the answer to ``commit_frame``: its last two bytes."""
    code: int = struct.unpack_from(">h", answer, len(answer) - 2)[0]
    return code


def fetched_bytes(answer: bytes, topic: str) -> int:
    """The size of the records in the answer to ``fetch_frame``; raises on an error code."""
    position = 4 + 4 + 2 + 4 + 4 + 2 + len(topic) + 4 + 4
    code: int = struct.unpack_from(">h", answer, position)[0]
    if code:
        raise RuntimeError(f"fetch was answered with error {code}")
    position += 2 + 8 + 8 + 8
    aborted: int = struct.unpack_from(">i", answer, position)[0]
    position += 4 + max(0, aborted) * 16 + 4
    size: int = struct.unpack_from(">i", answer, position)[0]
    return max(0, size)
