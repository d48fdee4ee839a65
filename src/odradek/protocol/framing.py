"""Cuts a stream of bytes into frames.

A frame is a four-byte size and that many bytes. The size is checked before memory is used for the
frame, and memory is used only for received bytes: a peer that announces a hundred megabytes and
sends ten bytes costs ten bytes.
"""

import struct
from typing import Final

from odradek.protocol.errors import MalformedMessage
from odradek.protocol.types import Buffer

_SIZE: Final = struct.Struct(">i")

# A small frame is copied out of its chunk; a view would cost more to make and to read, and
# would keep the whole chunk alive.
_MAX_COPIED_BYTES: Final = 8192


class BadFrameSize(MalformedMessage):
    """A size below zero or above the limit. `frames` are the frames before it in the chunk."""

    def __init__(self, size: int, max_size_bytes: int, frames: list[Buffer]) -> None:
        super().__init__(f"a frame of {size} bytes, where 0 to {max_size_bytes} are allowed")
        self.frames = frames


class FrameSplitter:
    """Takes chunks as they arrive and returns the frames that are complete.

    Chunks must not change afterwards: large frames are views into them. `max_size_bytes` may
    be changed at any time, for instance when a peer has authenticated.
    """

    __slots__ = ("_begun", "_missing", "max_size_bytes")

    def __init__(self, max_size_bytes: int) -> None:
        self.max_size_bytes = max_size_bytes
        self._begun = bytearray()  # the frame that is not whole yet, with its size
        self._missing = 0  # bytes it still needs; 0 while its size is not known

    @property
    def unfinished_bytes(self) -> int:
        """How many bytes are kept of the frame that is not whole yet, with its size."""
        return len(self._begun)

    @property
    def missing_bytes(self) -> int:
        """How many bytes that frame still needs; 0 while its size is not known."""
        return self._missing

    def clear(self) -> None:
        """Frees the unfinished frame. `feed` must not be called afterwards."""
        self._begun = bytearray()
        self._missing = 0

    def feed(self, chunk: bytes) -> list[Buffer]:
        """Returns the frames that are complete now. After `BadFrameSize` it must not be used."""
        frames: list[Buffer] = []
        position = self._continue(chunk, frames) if self._begun else 0
        end = len(chunk)
        while end - position >= 4:
            size = self._size_at(chunk, position, frames)
            start = position + 4
            position = start + size
            if position > end:
                self._begun += chunk[start - 4 :]
                self._missing = position - end
                return frames
            if size <= _MAX_COPIED_BYTES:
                frames.append(chunk[start:position])
            else:
                frames.append(memoryview(chunk)[start:position])
        if position < end:
            self._begun += chunk[position:]
        return frames

    def _continue(self, chunk: bytes, frames: list[Buffer]) -> int:
        """Adds to the frame that was begun; returns how much of the chunk that took."""
        begun = self._begun
        taken = 0
        if not self._missing:
            taken = 4 - len(begun)
            begun += chunk[:taken]
            if len(begun) < 4:
                return len(chunk)
            self._missing = self._size_at(begun, 0, frames)
        more = memoryview(chunk)[taken : taken + self._missing]
        begun += more
        self._missing -= len(more)
        if not self._missing:
            frames.append(memoryview(begun)[4:])
            self._begun = bytearray()
        return taken + len(more)

    def _size_at(self, buffer: Buffer, position: int, frames: list[Buffer]) -> int:
        size: int = _SIZE.unpack_from(buffer, position)[0]
        if not 0 <= size <= self.max_size_bytes:
            raise BadFrameSize(size, self.max_size_bytes, frames)
        return size
