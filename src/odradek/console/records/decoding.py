"""Bytes of keys and values as people read them.

`auto` shows a value by its schema if the registry knows it, JSON as JSON, text as text, and the
rest in hexadecimal. MessagePack and CBOR are shown where the user asks for them: most bytes are
valid in both, so a guess would be wrong more often than right.
"""

import io
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import Any, Final

import msgspec

from odradek.console.records.masks import HIDDEN, Masks
from odradek.rest.schema_formats import CallerFormats
from odradek.schemas.framing import HEADER_SIZE, Headers, header_content

HOW: Final = {
    "auto": "Automatic",
    "json": "JSON",
    "text": "Text",
    "hex": "Hexadecimal",
    "msgpack": "MessagePack",
    "cbor": "CBOR",
}
_SCHEMA_NAMES: Final = {"AVRO": "Avro", "JSONSCHEMA": "JSON Schema", "PROTOBUF": "Protobuf"}
_GUESSED: Final = ("msgpack", "cbor")
"""Formats that are tried because a user asks for it: nothing in the bytes says that it is right."""
_MAX_SHOWN: Final = 100_000
_HEX_LINE: Final = 16
_MAX_DECODED: Final = 16_000_000
_PREVIEW: Final = 400
_BYTES_OF_A_LIST: Final = 60
_INDENT: Final = 2
_MOST_INDENTED: Final = 4
"""How many times as long as the bytes JSON may become by line breaks and indentation."""


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
    is_short: bool = False
    """Whether `text` is the preview, and nothing else is kept."""

    @property
    def is_null(self) -> bool:
        return self.kind == "null"

    def contains(self, text: str) -> bool:
        """Returns whether the text, in lower case, occurs in it; for JSON however it is
        spaced."""
        if text in self.text.lower():
            return True
        if not self.is_structured:
            return False
        return text in _compact(self.data).lower() or text in _dense(self.data).lower()

    @property
    def preview(self) -> str:
        """One line of it, for tables."""
        if self.is_short:
            return self.text
        if not self.is_structured:
            return visible(" ".join(self.text[:_PREVIEW].split()))
        return visible(_compact(self.data)[:_PREVIEW])

    def short(self) -> "Decoded":
        """Returns what tables show of it. Data takes many times as much memory as its bytes."""
        return replace(self, data=None, text=self.preview, is_structured=False, is_short=True)

    @property
    def memory_bytes(self) -> int:
        """Returns about how much memory it takes: each list and object takes more than its two
        characters."""
        opened = self.text.count("[") + self.text.count("{") if self.is_structured else 0
        return self.size + len(self.text) + _BYTES_OF_A_LIST * opened


class Decoder:
    """Decodes the records of one topic for one user, and masks them."""

    def __init__(self, formats: CallerFormats, masks: Masks, how: dict[str, str]) -> None:
        """`how` says for `key` and `value` how they are read; else it is `auto`."""
        self._formats = formats
        self._masks = masks
        self._how = how

    @property
    def note(self) -> str:
        """Why values are not shown as they could be, if the registry does not answer."""
        return getattr(self._formats, "note", "")

    async def decode(self, part: str, content: bytes | None, headers: Headers = ()) -> Decoded:
        """`part` is "key" or "value". A header of the record may name the schema."""
        how = self._how.get(part, "auto")
        if content is not None and len(content) > _MAX_DECODED:
            found = _too_large(content)
        elif content is not None and how == "auto":
            found = await self._automatic(part, content, headers)
        else:
            found = self._as_chosen(how, content)
        if found.is_null or not self._masks.concern(part):
            return found
        schema = found.kind.partition(" ")[0]
        # MessagePack that is read as CBOR, or the other way round, may be a value of other fields.
        is_guessed = how in _GUESSED and not self._masks.find_all(part, found.data)
        if not found.is_structured or is_guessed:
            return Decoded(found.kind, HIDDEN, HIDDEN, found.size, is_masked=True)
        data = self._masks.apply(part, found.data, schema)
        # The text is made of the data: the bytes of JSON may have a field twice, once hidden.
        is_masked = data != found.data
        return Decoded(
            found.kind, data, _pretty(data), found.size, not isinstance(data, str), is_masked
        )

    def headers(self, given: list[tuple[str, bytes | None]]) -> list[tuple[str, str]]:
        return [
            (name, HIDDEN if self._masks.hides_header(name) else _header_text(content))
            for name, content in given
        ]

    def _as_chosen(self, how: str, content: bytes | None) -> Decoded:
        if content is None:
            return Decoded("null", None, "null", 0)
        try:
            return _READERS[how](content)
        except (ValueError, UnicodeDecodeError, RecursionError, msgspec.DecodeError) as error:
            shown = _hexadecimal(content)
            words = f"This is not {HOW[how]}: {error}"
            return Decoded(shown.kind, shown.data, shown.text, len(content), problem=words)

    async def _automatic(self, part: str, content: bytes, headers: Headers) -> Decoded:
        has_frame = content[:1] == b"\x00" and len(content) >= HEADER_SIZE
        has_schema = has_frame or header_content(headers, part) is not None
        if has_schema:
            found = await self._formats.shown(content, headers, part)
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
        problem = self.note if has_schema else ""
        try:
            return replace(_printable(content), problem=problem)
        except ValueError:
            return replace(_hexadecimal(content), problem=problem)


# Embeddings, overrides and isolates of writing directions.
_DIRECTIONS: Final = {
    code: f"\\u{code:04x}" for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A))
}


def visible(text: str) -> str:
    """Returns a text with the characters that change its direction as escapes. By one of them the
    rest of a record is shown backwards, so a value may look like another one."""
    return text.translate(_DIRECTIONS)


def _json(content: bytes) -> Decoded:
    data = msgspec.json.decode(content)
    if _is_deep(content, data):
        raise ValueError("it is nested too deeply")
    # Formatted as bytes, so that numbers keep all of their digits.
    text = msgspec.json.format(content, indent=indent_of(content, data)).decode()
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


def _too_large(content: bytes) -> Decoded:
    problem = f"It has {len(content):,} bytes, and {_MAX_DECODED:,} at most are read here"
    shown = _hexadecimal(content[: _MAX_SHOWN // 8])
    return Decoded("too large", problem, shown.text, len(content), problem=problem)


def _msgpack(content: bytes) -> Decoded:
    try:
        data = msgspec.msgpack.decode(content)
    except msgspec.DecodeError as error:
        raise ValueError(str(error)) from None
    return _structured("MessagePack", data, len(content))


def _cbor(content: bytes) -> Decoded:
    import cbor2  # noqa: PLC0415 - when a user asks for it

    stream = io.BytesIO(content)
    try:
        data = cbor2.CBORDecoder(stream, semantic_decoders=_CBOR_TAGS).decode()
    except (cbor2.CBORDecodeError, ArithmeticError, LookupError, TypeError) as error:
        cause = error.__cause__  # What a decoder of ours raised.
        raise ValueError(str(cause if isinstance(cause, ValueError) else error)) from None
    if stream.tell() != len(content):
        raise ValueError(f"{len(content) - stream.tell()} bytes are left after the value")
    return _structured("CBOR", data, len(content))


class _Bignum(int):
    """A number of CBOR with more than 64 bits. Numbers of one hash can be made at will, and a map
    with thousands of them as keys would take minutes; nobody knows the hashes of texts."""

    def __hash__(self) -> int:
        return hash(hex(self))


def _as_it_is(value: Any, _: bool) -> Any:
    return value


def _number(value: Any, _: bool) -> int:
    return _Bignum.from_bytes(value)


def _negative(value: Any, _: bool) -> int:
    return _Bignum(-1 - int.from_bytes(value))


def _reference(value: Any, _: bool) -> Any:
    raise ValueError("parts of it are references to other parts, which are not followed")


# How tags of CBOR are read by which a few bytes would become much memory or much work: 28 and 256
# are values that can be referred to by 29 and 25 (forty references in a row make two to the power
# of forty values), 30 is a fraction, which is reduced, 35 a regular expression, which is compiled,
# and 36 a mail, which is parsed. What is in these is shown as it is. 2 and 3 are numbers.
_CBOR_TAGS: Final[dict[int, Callable[[Any, bool], Any]]] = {
    **dict.fromkeys((28, 30, 35, 36, 256), _as_it_is),
    **dict.fromkeys((25, 29), _reference),
    2: _number,
    3: _negative,
}


def _structured(kind: str, data: Any, size: int) -> Decoded:
    plain = _plain(data, 0)
    return Decoded(kind, plain, _pretty(plain), size, is_structured=isinstance(plain, dict | list))


_MAX_DEPTH: Final = 64
_MAX_JSON_DEPTH: Final = 150


def _is_deep(content: bytes, data: Any) -> bool:
    """Returns whether JSON is nested more deeply than masks, filters and pages can follow: one such
    record must not hide the others of a page."""
    if _opened(content) <= _MAX_JSON_DEPTH:
        return False
    return _depth(data) > _MAX_JSON_DEPTH


def _opened(content: bytes) -> int:
    """Returns how many lists and objects JSON has at most."""
    return content.count(b"[") + content.count(b"{")


def _depth(data: Any) -> int:
    """Returns how deeply data is nested; it is not looked at any deeper than is allowed."""
    level, depth = [data], 0
    while depth <= _MAX_JSON_DEPTH:
        holders = [one for one in level if isinstance(one, dict | list)]
        if not holders:
            break
        depth += 1
        level = [
            item
            for holder in holders
            for item in (holder.values() if isinstance(holder, dict) else holder)
        ]
    return depth


def indent_of(content: bytes, data: Any) -> int:
    """Returns by how many places JSON is indented: by none, in one line, if it would become many
    times as long. A list of numbers below a hundred others has a hundred places before each."""
    opened = _opened(content)
    lines = content.count(b",") + 2 * opened
    most = _MOST_INDENTED * len(content) + 10_000
    for depth in (min(opened, _MAX_JSON_DEPTH), _depth(data)):
        if len(content) + lines * (_INDENT * depth + 1) <= most:
            return _INDENT
    return 0


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
    dense = _dense(data)
    if not indent_of(dense.encode(errors="replace"), data):
        return dense[:_MAX_SHOWN]
    return json.dumps(data, indent=_INDENT, ensure_ascii=False)[:_MAX_SHOWN]


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
