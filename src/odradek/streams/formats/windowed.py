"""Keys of windows as Kafka Streams writes them: the key, then times of the window in 64 bits.

A tumbling or hopping window is its start; a session is its end and its start.
"""

import struct
from typing import Any, Final

from odradek.streams.plan.nodes import Codec
from odradek.streams.plan.records import Window, Windowed

_TIME: Final = struct.Struct(">q")
_SESSION: Final = struct.Struct(">qq")


class TimeWindowedCodec:
    def __init__(self, inner: Codec, size_ms: int) -> None:
        self.inner = inner
        self._size_ms = size_ms

    def encode(self, value: Any) -> bytes | None:
        if value is None:
            return None
        _check(value)
        return (self.inner.encode(value.key) or b"") + _TIME.pack(value.window.start_ms)

    def decode(self, data: bytes | None) -> Windowed | None:
        if data is None:
            return None
        (start_ms,) = _TIME.unpack(_tail(data, _TIME.size))
        key = self.inner.decode(data[: -_TIME.size])
        return Windowed(key, Window(start_ms, start_ms + self._size_ms))


class SessionWindowedCodec:
    def __init__(self, inner: Codec) -> None:
        self.inner = inner

    def encode(self, value: Any) -> bytes | None:
        if value is None:
            return None
        _check(value)
        window = value.window
        return (self.inner.encode(value.key) or b"") + _SESSION.pack(window.end_ms, window.start_ms)

    def decode(self, data: bytes | None) -> Windowed | None:
        if data is None:
            return None
        end_ms, start_ms = _SESSION.unpack(_tail(data, _SESSION.size))
        return Windowed(self.inner.decode(data[: -_SESSION.size]), Window(start_ms, end_ms))


def _check(value: Any) -> None:
    if not isinstance(value, Windowed):
        raise ValueError(
            f"the key {value!r} is of no window: give the operator that made it the codec of the"
            " new keys, as key=STRING"
        )


def _tail(data: bytes, length: int) -> bytes:
    if len(data) < length:
        raise ValueError(f"a windowed key has at least {length} bytes, not {len(data)}")
    return data[-length:]
