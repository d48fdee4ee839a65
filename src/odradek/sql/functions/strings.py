"""SQL functions of strings; several take bytes as well. The docstrings are in the reference."""

import hashlib
import re
import uuid
from typing import Any, Final

from odradek.sql.functions.declaring import Subject
from odradek.sql.functions.encodings import decoded, encoded, without_marks
from odradek.streams.formats.columns import text_of
from odradek.streams.plan.types import STRING

SUBJECT: Final = Subject("Text")
scalar = SUBJECT.scalar

_DEFAULT_MASKS: Final = ("X", "x", "n", "-")


@scalar("CHR", "INTEGER -> STRING", "STRING -> STRING")
def chr_(code: int | str) -> str | None:
    """Returns the character with a code point, which is a number or text such as \\u0041."""
    if isinstance(code, str):
        is_escaped = len(code) >= 6 and code.startswith("\\u")
        return _unescaped(code) if is_escaped else None
    is_code = 0 <= code <= 0x10FFFF and not 0xD800 <= code <= 0xDFFF
    return chr(code) if is_code else None


_ESCAPE: Final = re.compile(r"\\(?:u+([0-9a-fA-F]{4})|(.))", re.DOTALL)
_ESCAPED: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}


def _unescaped(text: str) -> str:
    """Replaces Java's escapes in a string."""

    def character(match: "re.Match[str]") -> str:
        if match[1] is not None:
            return chr(int(match[1], 16))
        if match[2] == "u":
            raise ValueError(f"{text!r} has an escape without four hexadecimal digits")
        return _ESCAPED.get(match[2], match[2])

    units = _ESCAPE.sub(character, text)
    return units.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


@scalar("CONCAT", "BYTES, BYTES... -> BYTES", nulls=True)
def concat_bytes(*values: bytes | None) -> bytes:
    """Joins strings, or bytes. Nulls are left out."""
    return b"".join(value for value in values if value is not None)


@scalar("CONCAT", "STRING, STRING... -> STRING", nulls=True)
def concat(*values: str | None) -> str:
    return "".join(value for value in values if value is not None)


@scalar("CONCAT_WS", "BYTES, BYTES, BYTES... -> BYTES", nulls=True)
def concat_ws_bytes(separator: bytes | None, *values: bytes | None) -> bytes | None:
    """Joins strings, or bytes, with the first argument between them. Nulls are left out."""
    if separator is None:
        return None
    return separator.join(value for value in values if value is not None)


@scalar("CONCAT_WS", "STRING, ANY, ANY... -> STRING", nulls=True)
def concat_ws(separator: str | None, *values: Any) -> str | None:
    if separator is None:
        return None
    return separator.join(text_of(value, STRING) for value in values if value is not None)


@scalar("ELT", "INTEGER, STRING... -> STRING", nulls=True)
def elt(place: int | None, *values: str | None) -> str | None:
    """Returns the n-th of the strings that follow, or null if there are fewer."""
    return values[place - 1] if place is not None and 1 <= place <= len(values) else None


@scalar("FIELD", "STRING, STRING... -> INTEGER", nulls=True)
def field(wanted: str | None, *values: str | None) -> int:
    """Returns the position of a string among those that follow, from 1; 0 if it is not there."""
    if wanted is None or wanted not in values:
        return 0
    return values.index(wanted) + 1


@scalar("ENCODE", "STRING, STRING, STRING -> STRING")
def encode(value: str, given: str, wanted: str) -> str:
    """Changes the encoding of a string, from and to hex, utf8, ascii or base64."""
    if given.lower() == wanted.lower():
        raise ValueError("the two encodings must differ; there are hex, utf8, ascii and base64")
    if given.lower() == "hex":
        value = without_marks(value)
    text = encoded(decoded(value, given, is_lenient=True), wanted)
    return text.lower() if wanted.lower() == "hex" else text


@scalar("INITCAP", "STRING -> STRING")
def initcap(value: str) -> str:
    """Converts the first letter of each word to upper case, and all others to lower case."""
    words = re.findall(r"[^ \t\n\x0b\f\r]+[ \t\n\x0b\f\r]*", value.lower())
    return "".join(word[:1].upper() + word[1:] for word in words)


@scalar("INSTR", "STRING, STRING -> INTEGER", "STRING, STRING, INTEGER -> INTEGER",
        "STRING, STRING, INTEGER, INTEGER -> INTEGER", nulls=True)  # fmt: skip
def instr(
    value: str | None, wanted: str | None, position: int | None = 1, occurrence: int | None = 1
) -> int | None:
    """Returns the position of the second string in the first, from 1; 0 if it is not there. The
    third argument is where the search begins; if negative, it searches backwards. With a fourth
    argument n, the position of the n-th occurrence is returned."""
    if position is None or occurrence is None:
        return None
    if value is None or wanted is None or abs(position) > len(value):
        return 0
    if position < 0:
        place = _ordinal_place(value[::-1][-position - 1 :], wanted[::-1], occurrence)
        return 0 if place < 0 else len(value) + position - place - len(wanted) + 2
    start = value[position - 1 :] if position else value[-1:]
    place = _ordinal_place(start, wanted, occurrence)
    return 0 if place < 0 else place + position


def _ordinal_place(value: str, wanted: str, occurrence: int) -> int:
    """Returns the index of the n-th occurrence of `wanted`, or -1."""
    if occurrence <= 0:
        return -1
    if not wanted:
        return 0
    found = -1
    for _ in range(occurrence):
        found = value.find(wanted, found + 1)
        if found < 0:
            return -1
    return found


@scalar("LCASE", "STRING -> STRING")
def lcase(value: str) -> str:
    """Converts all letters to lower case."""
    return value.lower()


@scalar("UCASE", "STRING -> STRING")
def ucase(value: str) -> str:
    """Converts all letters to upper case."""
    return value.upper()


@scalar("LEN", "STRING -> INTEGER", "BYTES -> INTEGER")
def length(value: str | bytes) -> int:
    """Returns the number of characters, or of bytes."""
    # Java counts units of UTF-16.
    return len(value) if isinstance(value, bytes) else len(value.encode("utf-16-le")) // 2


_MAX_PADDED: Final = 10_000_000


def _padding(value: Any, target: int, padding: Any) -> Any:
    if target > _MAX_PADDED:
        raise ValueError(f"the length must be at most {_MAX_PADDED:,}")
    missing = max(0, target - len(value))
    return (padding * (missing // len(padding) + 1))[:missing]


@scalar("LPAD", "STRING, INTEGER, STRING -> STRING", "BYTES, INTEGER, BYTES -> BYTES")
def lpad(value: Any, target: int, padding: Any) -> Any:
    """Pads a string, or bytes, on the left to a length, or cuts the end off if it is longer."""
    if target < 0 or not padding:
        return None
    return (_padding(value, target, padding) + value)[:target]


@scalar("RPAD", "STRING, INTEGER, STRING -> STRING", "BYTES, INTEGER, BYTES -> BYTES")
def rpad(value: Any, target: int, padding: Any) -> Any:
    """Pads a string, or bytes, on the right to a length, or cuts the end off if it is longer."""
    if target < 0 or not padding:
        return None
    return (value + _padding(value, target, padding))[:target]


def _masked(text: str, masks: tuple[str | None, ...]) -> str:
    chosen_masks: list[str | None] = [*masks, *_DEFAULT_MASKS[len(masks) :]]
    upper, lower, digit, other = chosen_masks

    def mask(character: str) -> str:
        if character.isupper():
            chosen = upper
        elif character.islower():
            chosen = lower
        elif character.isdecimal():
            chosen = digit
        else:
            chosen = other
        return character if chosen is None else chosen

    for given in chosen_masks:
        if given is not None and len(given) != 1:
            raise ValueError(f"a mask must be one character, not {given!r}")
    return "".join(map(mask, text))


_MASKS: Final = ", STRING, STRING, STRING, STRING"


@scalar("MASK", "STRING -> STRING", f"STRING{_MASKS} -> STRING", nulls=True)
def mask(value: str | None, *masks: str | None) -> str | None:
    """Replaces upper-case letters, lower-case letters, digits and other characters, by default with
    X, x, n and -. If a mask is null, the characters of its kind are kept."""
    return None if value is None else _masked(value, masks)


@scalar("MASK_KEEP_LEFT", "STRING, INTEGER -> STRING", f"STRING, INTEGER{_MASKS} -> STRING",
        nulls=True)  # fmt: skip
def mask_keep_left(value: str | None, count: int, *masks: str | None) -> str | None:
    """Masks a string except for its first characters."""
    _check_count(count)
    return None if value is None else value[:count] + _masked(value[count:], masks)


@scalar("MASK_KEEP_RIGHT", "STRING, INTEGER -> STRING", f"STRING, INTEGER{_MASKS} -> STRING",
        nulls=True)  # fmt: skip
def mask_keep_right(value: str | None, count: int, *masks: str | None) -> str | None:
    """Masks a string except for its last characters."""
    _check_count(count)
    if value is None:
        return None
    start = max(0, len(value) - count)
    return _masked(value[:start], masks) + value[start:]


@scalar("MASK_LEFT", "STRING, INTEGER -> STRING", f"STRING, INTEGER{_MASKS} -> STRING",
        nulls=True)  # fmt: skip
def mask_left(value: str | None, count: int, *masks: str | None) -> str | None:
    """Masks the first characters of a string."""
    _check_count(count)
    return None if value is None else _masked(value[:count], masks) + value[count:]


@scalar("MASK_RIGHT", "STRING, INTEGER -> STRING", f"STRING, INTEGER{_MASKS} -> STRING",
        nulls=True)  # fmt: skip
def mask_right(value: str | None, count: int, *masks: str | None) -> str | None:
    """Masks the last characters of a string."""
    _check_count(count)
    if value is None:
        return None
    start = max(0, len(value) - count)
    return value[:start] + _masked(value[start:], masks)


def _check_count(count: int) -> None:
    if count < 0:
        raise ValueError("the number of characters must not be negative")


@scalar("MD5", "STRING -> STRING")
def md5(value: str) -> str:
    """Returns the MD5 hash of a string, in hexadecimal digits."""
    return hashlib.md5(value.encode(), usedforsecurity=False).hexdigest()


@scalar("REPLACE", "STRING, STRING, STRING -> STRING")
def replace(value: str, old: str, new: str) -> str:
    """Replaces all occurrences of the second string in the first with the third."""
    return value.replace(old, new)


@scalar("SPLIT", "STRING, STRING -> ARRAY<STRING>", "BYTES, BYTES -> ARRAY<BYTES>")
def split(value: Any, delimiter: Any) -> list[Any]:
    """Splits a string, or bytes, at a delimiter. An empty delimiter splits into characters."""
    if delimiter or not value:
        return list(value.split(delimiter)) if delimiter else [value]
    return [value[place : place + 1] for place in range(len(value))]


@scalar("SPLIT_TO_MAP", "STRING, STRING, STRING -> MAP<STRING, STRING>")
def split_to_map(value: str, entries: str, pair: str) -> dict[str, str] | None:
    """Splits a string into entries at the second argument, and each entry into key and value at the
    third."""
    if not entries or not pair or entries == pair:
        return None
    pairs = (entry.split(pair) for entry in value.split(entries))
    return {parts[0]: parts[1] for parts in pairs if len(parts) >= 2}


@scalar("SUBSTRING", "STRING, INTEGER -> STRING", "STRING, INTEGER, INTEGER -> STRING",
        "BYTES, INTEGER -> BYTES", "BYTES, INTEGER, INTEGER -> BYTES")  # fmt: skip
def substring(value: Any, position: int, count: int | None = None) -> Any:
    """Returns the part of a string, or of bytes, that begins at a position, from 1. A negative
    position counts from the end. With a third argument, the part has at most this length."""
    start = max(0, position - 1) if position >= 0 else max(0, len(value) + position)
    end = len(value) if count is None else min(len(value), start + max(0, count))
    return value[start:end]


@scalar("TRIM", "STRING -> STRING")
def trim(value: str) -> str:
    """Removes spaces and control characters at the beginning and the end."""
    return value.strip("".join(map(chr, range(33))))


@scalar("UUID", "-> STRING", is_deterministic=False)
def uuid4() -> str:
    """Returns a new random UUID, or the UUID of 16 bytes."""
    return str(uuid.uuid4())


@scalar("UUID", "BYTES -> STRING")
def uuid_of(value: bytes) -> str | None:
    return str(uuid.UUID(bytes=value)) if len(value) == 16 else None
