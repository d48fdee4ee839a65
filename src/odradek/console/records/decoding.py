"""Bytes of keys and values as people read them.

`auto` shows a value by its schema if the registry knows it, JSON as JSON, text as text, and the
rest in hexadecimal. MessagePack and CBOR are shown where the user asks for them: most bytes are
valid in both, so a guess would be wrong more often than right.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Final

import msgspec

from odradek.console.records.masks import HIDDEN, Masks
from odradek.rest.schema_formats import CallerFormats

HOW: Final = {
    "auto": "Automatic",
    "json": "JSON",
    "text": "Text",
    "hex": "Hexadecimal",
    "msgpack": "MessagePack",
    "cbor": "CBOR",
}
_SCHEMA_NAMES: Final = {"AVRO": "Avro", "JSONSCHEMA": "JSON Schema", "PROTOBUF": "Protobuf"}
_MAX_SHOWN: Final = 100_000
_HEX_LINE: Final = 16


@dataclass(frozen=True, slots=True)
class Decoded:
    """A key or value: what kind it is, its data for filters, and its text for people."""

    kind: str
    data: Any
    text: str
    size: int
    is_structured: bool = False
    is_masked: bool = False
    problem: str = ""
    """Why it is not shown as it was asked for."""

    @property
    def is_null(self) -> bool:
        return self.kind == "null"

    def contains(self, text: str) -> bool:
        """Returns whether the text, in small letters, occurs in it; for JSON however it is
        spaced."""
        if text in self.text.lower():
            return True
        if not self.is_structured:
            return False
        return text in _compact(self.data).lower() or text in _dense(self.data).lower()

    @property
    def preview(self) -> str:
        """One line of it, for tables."""
        if not self.is_structured:
            return " ".join(self.text[:400].split())
        return _compact(self.data)[:400]


class Decoder:
    """Decodes the records of one topic for one user, and masks them."""

    def __init__(self, formats: CallerFormats, masks: Masks, how: dict[str, str]) -> None:
        """`how` says for `key` and `value` how they are read; else it is `auto`."""
        self._formats = formats
        self._masks = masks
        self._how = how

    async def decode(self, part: str, content: bytes | None) -> Decoded:
        found = await self._decode(self._how.get(part, "auto"), content)
        if found.is_null or not self._masks.concern(part):
            return found
        if not found.is_structured:
            return Decoded(found.kind, HIDDEN, HIDDEN, found.size, is_masked=True)
        data = self._masks.apply(part, found.data)
        if data == found.data:
            return found
        return Decoded(found.kind, data, _pretty(data), found.size, not isinstance(data, str), True)

    def headers(self, given: list[tuple[str, bytes | None]]) -> list[tuple[str, str]]:
        return [
            (name, HIDDEN if self._masks.hides_header(name) else _header_text(content))
            for name, content in given
        ]

    async def _decode(self, how: str, content: bytes | None) -> Decoded:
        if content is None:
            return Decoded("null", None, "null", 0)
        if how == "auto":
            return await self._automatic(content)
        try:
            return _READERS[how](content)
        except (ValueError, UnicodeDecodeError, RecursionError, msgspec.DecodeError) as error:
            shown = _hexadecimal(content)
            words = f"This is not {HOW[how]}: {error}"
            return Decoded(shown.kind, shown.data, shown.text, len(content), problem=words)

    async def _automatic(self, content: bytes) -> Decoded:
        if content[:1] == b"\x00" and len(content) >= 5:
            found = await self._formats.shown(content)
            if found is not None and found["type"] in _SCHEMA_NAMES:
                content_as_json = msgspec.json.encode(found["data"])
                data = msgspec.json.decode(content_as_json)
                if _is_deep(content_as_json, data):
                    return _hexadecimal(content)
                name = f"{_SCHEMA_NAMES[str(found['type'])]} {found.get('schema_id', '')}".strip()
                return Decoded(name, data, _pretty(data), len(content), is_structured=True)
        if content[:1] in b"{[" and content:
            try:
                return _json(content)
            except (ValueError, RecursionError):
                pass
        try:
            return _printable(content)
        except ValueError:
            return _hexadecimal(content)


def _json(content: bytes) -> Decoded:
    data = msgspec.json.decode(content)
    if _is_deep(content, data):
        raise ValueError("it is nested too deeply")
    # Formatted as bytes, so that numbers keep all of their digits.
    text = msgspec.json.format(content, indent=2).decode()
    is_structured = isinstance(data, dict | list)
    return Decoded("JSON", data, text, len(content), is_structured=is_structured)


def _printable(content: bytes) -> Decoded:
    text = content.decode()
    if any(ord(character) < 32 and character not in "\t\r\n" for character in text[:1000]):
        raise ValueError("it has control characters")
    return Decoded("text", text, text[:_MAX_SHOWN], len(content))


def _text(content: bytes) -> Decoded:
    text = content.decode(errors="replace")
    return Decoded("text", text, text[:_MAX_SHOWN], len(content))


def _hexadecimal(content: bytes) -> Decoded:
    lines = []
    for place in range(0, min(len(content), _MAX_SHOWN // 8), _HEX_LINE):
        piece = content[place : place + _HEX_LINE]
        shown = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in piece)
        lines.append(f"{place:08x}  {piece.hex(' '):<47}  {shown}")
    return Decoded("bytes", content.hex(), "\n".join(lines), len(content))


def _msgpack(content: bytes) -> Decoded:
    try:
        data = msgspec.msgpack.decode(content)
    except msgspec.DecodeError as error:
        raise ValueError(str(error)) from None
    return _structured("MessagePack", data, len(content))


def _cbor(content: bytes) -> Decoded:
    import cbor2  # noqa: PLC0415 - when a user asks for it

    if _refers_to_itself(content):
        raise ValueError("parts of it are references to other parts, which are not followed")
    try:
        data = cbor2.loads(content)
    except (cbor2.CBORDecodeError, ArithmeticError, LookupError, TypeError) as error:
        raise ValueError(str(error)) from None
    return _structured("CBOR", data, len(content))


def _tag(number: int) -> bytes:
    """Returns a pattern of a tag of CBOR, which may be written with 1, 2, 4 or 8 bytes."""
    forms = [bytes([0xD7 + size.bit_length()]) + number.to_bytes(size) for size in (1, 2, 4, 8)
             if number < 256**size]  # fmt: skip
    return b"|".join(map(re.escape, forms))


# A shared value and a reference to it; a namespace of texts and a reference into it.
_REFERENCES: Final = [
    (re.compile(_tag(28)), re.compile(_tag(29))),
    (re.compile(_tag(256)), re.compile(_tag(25))),
]


def _refers_to_itself(content: bytes) -> bool:
    """Returns whether CBOR may have references: forty in a row make two to the power of forty
    values of a hundred bytes. Bytes that look like them by chance are rare."""
    return any(one.search(content) and other.search(content) for one, other in _REFERENCES)


def _structured(kind: str, data: Any, size: int) -> Decoded:
    plain = _plain(data, 0)
    return Decoded(kind, plain, _pretty(plain), size, is_structured=isinstance(plain, dict | list))


_MAX_DEPTH: Final = 64
_MAX_JSON_DEPTH: Final = 150


def _is_deep(content: bytes, data: Any) -> bool:
    """Returns whether JSON is nested more deeply than masks, filters and pages can follow: one such
    record must not hide the others of a page."""
    if content.count(b"[") + content.count(b"{") <= _MAX_JSON_DEPTH:
        return False
    level = [data]
    for _ in range(_MAX_JSON_DEPTH):
        holders = [one for one in level if isinstance(one, dict | list)]
        if not holders:
            return False
        level = [
            item
            for holder in holders
            for item in (holder.values() if isinstance(holder, dict) else holder)
        ]
    return True


def _plain(data: Any, depth: int) -> Any:
    """Returns data as JSON can write it."""
    if depth > _MAX_DEPTH:
        raise ValueError("it is nested too deeply")
    if isinstance(data, dict):
        return {str(key): _plain(value, depth + 1) for key, value in data.items()}
    if isinstance(data, list | tuple | set | frozenset):
        return [_plain(value, depth + 1) for value in data]
    if isinstance(data, bytes):
        return data.hex()
    if isinstance(data, datetime | date):
        return data.isoformat()
    if data is None or isinstance(data, str | int | float | bool):
        return data
    return str(data)


_READERS: Final[dict[str, Callable[[bytes], Decoded]]] = {
    "json": _json,
    "text": _text,
    "hex": _hexadecimal,
    "msgpack": _msgpack,
    "cbor": _cbor,
}


def _pretty(data: Any) -> str:
    if isinstance(data, str):
        return data
    return json.dumps(data, indent=2, ensure_ascii=False)[:_MAX_SHOWN]


def _compact(data: Any) -> str:
    return json.dumps(data, ensure_ascii=False)


def _dense(data: Any) -> str:
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"))


def _header_text(content: bytes | None) -> str:
    if content is None:
        return "null"
    try:
        return _printable(content).text
    except ValueError:
        return content.hex(" ")
