"""Decodes MessagePack as log agents send it: values one after the other. The last value may be
incomplete, because the rest has not arrived yet.

values, rest = decoded(data)
"""

import struct
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from odradek.connect.errors import DataError

_MAX_DEPTH: Final = 64


class Extension(NamedTuple):
    kind: int
    data: bytes


class _Incomplete(Exception):
    """The data ends within a value."""


def decoded(data: bytes) -> tuple[list[Any], bytes]:
    """Returns the complete values, and the bytes of the incomplete one. Raises `DataError` if the
    data is not MessagePack."""
    values = []
    reader = _Reader(data)
    while reader.at < len(data):
        begin = reader.at
        try:
            values.append(reader.value(0))
        except _Incomplete:
            return values, data[begin:]
    return values, b""


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0

    def value(self, depth: int) -> Any:
        if depth > _MAX_DEPTH:
            raise DataError("a MessagePack value is nested too deeply")
        code = self._take(1)[0]
        if code < 0x80:
            return code
        if code >= 0xE0:
            return code - 0x100
        if code < 0x90:
            return self._map(code & 0x0F, depth)
        if code < 0xA0:
            return self._array(code & 0x0F, depth)
        if code < 0xC0:
            return self._text(code & 0x1F)
        read = _CODES.get(code)
        if read is None:
            raise DataError(f"this is not MessagePack: there is no type {code:#x}")
        return read(self, depth)

    def _take(self, count: int) -> bytes:
        end = self.at + count
        if end > len(self._data):
            raise _Incomplete
        taken = self._data[self.at : end]
        self.at = end
        return taken

    def number(self, form: str) -> Any:
        kind = struct.Struct(f">{form}")
        return kind.unpack(self._take(kind.size))[0]

    def _text(self, length: int) -> str:
        # Old agents send bytes as text, and `surrogateescape` keeps bytes that are not UTF-8.
        return self._take(length).decode("utf-8", "surrogateescape")

    def _array(self, count: int, depth: int) -> list[Any]:
        if count > len(self._data) - self.at:
            raise _Incomplete
        return [self.value(depth + 1) for _ in range(count)]

    def _map(self, count: int, depth: int) -> dict[Any, Any]:
        if count > len(self._data) - self.at:
            raise _Incomplete
        found = {}
        for _ in range(count):
            key = self.value(depth + 1)
            try:
                found[key] = self.value(depth + 1)
            except TypeError:
                raise DataError("a key of a MessagePack map is a list or a map") from None
        return found

    def _extension(self, length: int) -> Extension:
        return Extension(self.number("b"), self._take(length))


_CODES: Final[dict[int, Callable[[_Reader, int], Any]]] = {
    0xC0: lambda reader, depth: None,
    0xC2: lambda reader, depth: False,
    0xC3: lambda reader, depth: True,
    **{
        code: lambda reader, depth, form=form: reader.number(form)  # type: ignore[misc]
        for code, form in enumerate("fdBHIQbhiq", 0xCA)
    },
    **{
        code: lambda reader, depth, form=form: reader._take(reader.number(form))  # type: ignore[misc]
        for code, form in enumerate("BHI", 0xC4)
    },
    **{
        code: lambda reader, depth, form=form: reader._text(reader.number(form))  # type: ignore[misc]
        for code, form in enumerate("BHI", 0xD9)
    },
    **{
        code: lambda reader, depth, form=form: reader._extension(reader.number(form))  # type: ignore[misc]
        for code, form in enumerate("BHI", 0xC7)
    },
    **{
        code: lambda reader, depth, size=size: reader._extension(size)  # type: ignore[misc]
        for code, size in enumerate((1, 2, 4, 8, 16), 0xD4)
    },
    0xDC: lambda reader, depth: reader._array(reader.number("H"), depth),
    0xDD: lambda reader, depth: reader._array(reader.number("I"), depth),
    0xDE: lambda reader, depth: reader._map(reader.number("H"), depth),
    0xDF: lambda reader, depth: reader._map(reader.number("I"), depth),
}


def packed(value: Any) -> bytes:
    """Encodes a response to a log agent. It can have texts, booleans, and lists and maps with at
    most 15 elements."""
    match value:
        case bool():
            return b"\xc3" if value else b"\xc2"
        case str():
            data = value.encode()
            return b"\xda" + len(data).to_bytes(2, "big") + data
        case list():
            return bytes([0x90 | len(value)]) + b"".join(map(packed, value))
    pairs = (packed(key) + packed(item) for key, item in value.items())
    return bytes([0x80 | len(value)]) + b"".join(pairs)
