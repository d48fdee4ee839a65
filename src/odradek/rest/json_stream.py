"""Splits a stream of JSON objects, written one after the other, into single objects.

The body of a streaming produce request is `{...}{...}`, with or without white space in between. It
arrives in pieces that may end anywhere, also within a string. The splitter looks only at quotes,
backslashes and brackets, and remembers its position, so it looks at each byte once.

Invariant: between two pieces, no more bytes are kept than an object may have.
"""

import re
from collections.abc import Iterator
from typing import Final

_OUTSIDE: Final = re.compile(rb'["{}\[\]]')
_INSIDE: Final = re.compile(rb'["\\]')
_SPACES: Final = re.compile(rb"[ \t\r\n]*")
_MAX_DEPTH: Final = 200
_SPACE: Final = b" \t\r\n"
_OPENING: Final = b"{["


class BadStream(ValueError):
    """The stream does not consist of JSON objects, or one is too large; the message says which."""


class JsonSplitter:
    """Collects the pieces of one stream, and returns whole objects. `_kept` begins with the first
    object that is not complete; it was searched up to `_place`."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._kept = bytearray()
        self._place = 0
        self._depth = 0
        self._is_in_string = False

    def feed(self, piece: bytes) -> Iterator[bytes]:
        """Adds a piece, and yields the objects that are complete now. Raises `BadStream`."""
        self._kept += piece
        while True:
            end = self._end()
            if end is None:
                break
            yield bytes(self._kept[:end])
            del self._kept[:end]
            self._place = 0
        if len(self._kept) > self._max_bytes:
            raise BadStream(f"a record has more than {self._max_bytes:,} bytes of JSON")

    def finish(self) -> None:
        """Raises if the stream ended within an object."""
        if self._kept.strip(_SPACE):
            raise BadStream("the stream ends within a record")

    def _end(self) -> int | None:
        """Returns where the first object ends, or None if it is not complete."""
        kept = self._kept
        if self._depth == 0:
            space = _SPACES.match(kept)
            assert space is not None
            end = space.end()
            del space  # The match refers to the buffer, which could not be shortened then.
            del kept[:end]
            self._place = 0
            if kept and kept[0] != 0x7B:
                raise BadStream("each record must be a JSON object, which begins with {")
        while True:
            if self._is_in_string:
                if not self._skip_string():
                    return None
                continue
            found = _OUTSIDE.search(kept, self._place)
            if found is None:
                self._place = len(kept)
                return None
            self._place = found.end()
            mark = kept[found.start()]
            if mark == 0x22:
                self._is_in_string = True
            elif mark in _OPENING:
                self._depth += 1
                if self._depth > _MAX_DEPTH:
                    raise BadStream("a record is nested too deeply")
            else:
                self._depth -= 1
                if self._depth <= 0:
                    self._depth = 0
                    return self._place

    def _skip_string(self) -> bool:
        """Goes to the end of a string; returns False if it is not there yet."""
        kept = self._kept
        while True:
            found = _INSIDE.search(kept, self._place)
            if found is None:
                self._place = len(kept)
                return False
            if kept[found.start()] == 0x22:
                self._place = found.end()
                self._is_in_string = False
                return True
            if found.end() >= len(kept):
                # The character after the backslash has not arrived yet.
                self._place = found.start()
                return False
            self._place = found.end() + 1
