"""Functions of text; several take bytes as well. Positions begin at 1."""

import hashlib
import re
import uuid
from functools import lru_cache
from typing import Any, Final

from odradek.javatext.patterns import java_pattern, java_replacement
from odradek.sql.functions.declaring import Subject
from odradek.sql.functions.encodings import decoded, encoded
from odradek.streams.formats.columns import text_of
from odradek.streams.plan.types import STRING

SUBJECT: Final = Subject("Text")
scalar = SUBJECT.scalar

_pattern = lru_cache(maxsize=500)(java_pattern)
_DEFAULT: Final = ("X", "x", "n", "-")


@scalar("CHR", "INTEGER -> STRING", "STRING -> STRING")
def chr_(code: int | str) -> str | None:
    """Returns the character of a code, given as a number or as \\uXXXX."""
    if isinstance(code, str):
        if not re.fullmatch(r"(\\u[0-9a-fA-F]{4})+", code):
            return None
        units = [int(part, 16) for part in code.split("\\u")[1:]]
        data = b"".join(unit.to_bytes(2, "big") for unit in units)
        text = data.decode("utf-16-be", "replace")
        return text if len(text) == 1 else None
    is_code = 0 <= code <= 0x10FFFF and not 0xD800 <= code <= 0xDFFF
    return chr(code) if is_code else None


@scalar("CONCAT", "BYTES, BYTES... -> BYTES", nulls=True)
def concat_bytes(*values: bytes | None) -> bytes:
    """Joins texts, or bytes; nulls are left out."""
    return b"".join(value for value in values if value is not None)


@scalar("CONCAT", "STRING, STRING... -> STRING", nulls=True)
def concat(*values: str | None) -> str:
    return "".join(value for value in values if value is not None)


@scalar("CONCAT_WS", "BYTES, BYTES, BYTES... -> BYTES", nulls=True)
def concat_ws_bytes(separator: bytes | None, *values: bytes | None) -> bytes | None:
    """Joins texts, or bytes, with a separator between; nulls are left out."""
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
    """Returns the n-th of the texts that follow, or null if there is none."""
    return values[place - 1] if place is not None and 1 <= place <= len(values) else None


@scalar("FIELD", "STRING, STRING... -> INTEGER", nulls=True)
def field(wanted: str | None, *values: str | None) -> int:
    """Returns the place of a text among those that follow, or 0."""
    if wanted is None or wanted not in values:
        return 0
    return values.index(wanted) + 1


@scalar("ENCODE", "STRING, STRING, STRING -> STRING")
def encode(value: str, given: str, wanted: str) -> str:
    """Changes the encoding of a text, from and to hex, utf8, ascii or base64."""
    text = encoded(decoded(value, given), wanted)
    return text.lower() if wanted.lower() == "hex" else text


@scalar("INITCAP", "STRING -> STRING")
def initcap(value: str) -> str:
    """Writes the first letter of each word large, and all others small."""
    return re.sub(r"\S+", lambda match: match[0][:1].upper() + match[0][1:].lower(), value)


@scalar("INSTR", "STRING, STRING -> INTEGER", "STRING, STRING, INTEGER -> INTEGER",
        "STRING, STRING, INTEGER, INTEGER -> INTEGER")  # fmt: skip
def instr(value: str, wanted: str, position: int = 1, occurrence: int = 1) -> int:
    """Returns where a text is in another one, or 0. A negative position searches backwards; with an
    occurrence, the n-th place is returned."""
    if position == 0 or abs(position) > len(value):
        return 0
    if position > 0:
        found = position - 2
        for _ in range(occurrence):
            found = value.find(wanted, found + 1)
            if found < 0:
                break
        return found + 1
    found = len(value) + position + 1
    for _ in range(occurrence):
        found = value.rfind(wanted, 0, found - 1 + len(wanted)) if found > 0 else -1
        if found < 0:
            break
    return found + 1


@scalar("LCASE", "STRING -> STRING")
def lcase(value: str) -> str:
    """Writes all letters small."""
    return value.lower()


@scalar("UCASE", "STRING -> STRING")
def ucase(value: str) -> str:
    """Writes all letters large."""
    return value.upper()


@scalar("LEN", "STRING -> INTEGER", "BYTES -> INTEGER")
def length(value: str | bytes) -> int:
    """Returns the number of characters, or of bytes."""
    # Java counts units of UTF-16.
    return len(value) if isinstance(value, bytes) else len(value.encode("utf-16-le")) // 2


_MAX_PADDED: Final = 10_000_000


def _padding(value: Any, target: int, padding: Any) -> Any:
    if target > _MAX_PADDED:
        raise ValueError(f"a text is filled up to a length of {_MAX_PADDED:,} at most")
    missing = max(0, target - len(value))
    return (padding * (missing // len(padding) + 1))[:missing]


@scalar("LPAD", "STRING, INTEGER, STRING -> STRING", "BYTES, INTEGER, BYTES -> BYTES")
def lpad(value: Any, target: int, padding: Any) -> Any:
    """Fills a text up from the left to a length, or cuts it off."""
    if target < 0 or not padding:
        return None
    return (_padding(value, target, padding) + value)[:target]


@scalar("RPAD", "STRING, INTEGER, STRING -> STRING", "BYTES, INTEGER, BYTES -> BYTES")
def rpad(value: Any, target: int, padding: Any) -> Any:
    """Fills a text up from the right to a length, or cuts it off."""
    if target < 0 or not padding:
        return None
    return (value + _padding(value, target, padding))[:target]


def _masked(text: str, masks: tuple[str | None, ...]) -> str:
    chosen_masks: list[str | None] = [*masks, *_DEFAULT[len(masks) :]]
    upper, lower, digit, other = chosen_masks

    def mask(character: str) -> str:
        if character.isupper():
            chosen = upper
        elif character.islower():
            chosen = lower
        elif character.isdigit():
            chosen = digit
        else:
            chosen = other
        return character if chosen is None else chosen[:1]

    return "".join(map(mask, text))


_MASKS: Final = ", STRING, STRING, STRING, STRING"


@scalar("MASK", "STRING -> STRING", f"STRING{_MASKS} -> STRING", nulls=True)
def mask(value: str | None, *masks: str | None) -> str | None:
    """Replaces letters and digits: by default X, x, n and - for large, small, digits and others. A
    mask of null keeps the characters."""
    return None if value is None else _masked(value, masks)


@scalar("MASK_KEEP_LEFT", "STRING, INTEGER -> STRING", f"STRING, INTEGER{_MASKS} -> STRING",
        nulls=True)  # fmt: skip
def mask_keep_left(value: str | None, count: int, *masks: str | None) -> str | None:
    """Masks a text but for its first characters."""
    _check_count(count)
    return None if value is None else value[:count] + _masked(value[count:], masks)


@scalar("MASK_KEEP_RIGHT", "STRING, INTEGER -> STRING", f"STRING, INTEGER{_MASKS} -> STRING",
        nulls=True)  # fmt: skip
def mask_keep_right(value: str | None, count: int, *masks: str | None) -> str | None:
    """Masks a text but for its last characters."""
    _check_count(count)
    if value is None:
        return None
    start = max(0, len(value) - count)
    return _masked(value[:start], masks) + value[start:]


@scalar("MASK_LEFT", "STRING, INTEGER -> STRING", f"STRING, INTEGER{_MASKS} -> STRING",
        nulls=True)  # fmt: skip
def mask_left(value: str | None, count: int, *masks: str | None) -> str | None:
    """Masks the first characters of a text."""
    _check_count(count)
    return None if value is None else _masked(value[:count], masks) + value[count:]


@scalar("MASK_RIGHT", "STRING, INTEGER -> STRING", f"STRING, INTEGER{_MASKS} -> STRING",
        nulls=True)  # fmt: skip
def mask_right(value: str | None, count: int, *masks: str | None) -> str | None:
    """Masks the last characters of a text."""
    _check_count(count)
    if value is None:
        return None
    start = max(0, len(value) - count)
    return value[:start] + _masked(value[start:], masks)


def _check_count(count: int) -> None:
    if count < 0:
        raise ValueError("the number of characters is not negative")


@scalar("MD5", "STRING -> STRING")
def md5(value: str) -> str:
    """Returns the MD5 hash of a text, in hexadecimal digits."""
    return hashlib.md5(value.encode(), usedforsecurity=False).hexdigest()


@scalar("REPLACE", "STRING, STRING, STRING -> STRING")
def replace(value: str, old: str, new: str) -> str:
    """Replaces all places of one text in another."""
    return value.replace(old, new)


@scalar("REGEXP_EXTRACT", "STRING, STRING -> STRING", "STRING, STRING, INTEGER -> STRING")
def regexp_extract(pattern: str, value: str, group: int = 0) -> str | None:
    """Returns what a regular expression matches first, or a group of it."""
    match = _pattern(pattern).search(value)
    if match is None or not 0 <= group <= match.re.groups:
        return None
    found: str | None = match[group]
    return found


@scalar("REGEXP_EXTRACT_ALL", "STRING, STRING -> ARRAY<STRING>",
        "STRING, STRING, INTEGER -> ARRAY<STRING>")  # fmt: skip
def regexp_extract_all(pattern: str, value: str, group: int = 0) -> list[str | None] | None:
    """Returns everything that a regular expression matches, or a group of each."""
    compiled = _pattern(pattern)
    if not 0 <= group <= compiled.groups:
        return None
    return [match[group] for match in compiled.finditer(value)]


@scalar("REGEXP_REPLACE", "STRING, STRING, STRING -> STRING")
def regexp_replace(value: str, pattern: str, new: str) -> str:
    """Replaces all that a regular expression matches; $1 in the new text is a group."""
    compiled = _pattern(pattern)
    return compiled.sub(java_replacement(new, compiled), value)


@scalar("REGEXP_SPLIT_TO_ARRAY", "STRING, STRING -> ARRAY<STRING>")
def regexp_split_to_array(value: str, pattern: str) -> list[str]:
    """Splits a text where a regular expression matches."""
    if not pattern:
        return list(value)
    pieces, end = [], 0
    for match in _pattern(pattern).finditer(value):
        if match.end() > match.start():
            pieces.append(value[end : match.start()])
            end = match.end()
    return [*pieces, value[end:]]


@scalar("SPLIT", "STRING, STRING -> ARRAY<STRING>", "BYTES, BYTES -> ARRAY<BYTES>")
def split(value: Any, delimiter: Any) -> list[Any]:
    """Splits a text, or bytes, at a delimiter; without one, into characters."""
    if delimiter:
        return list(value.split(delimiter))
    return [value[place : place + 1] for place in range(len(value))]


@scalar("SPLIT_TO_MAP", "STRING, STRING, STRING -> MAP<STRING, STRING>")
def split_to_map(value: str, entries: str, pair: str) -> dict[str, str] | None:
    """Splits a text into entries, and each of them into key and value."""
    if not entries or not pair:
        return None
    pairs = (entry.split(pair) for entry in value.split(entries))
    return {parts[0]: parts[1] for parts in pairs if len(parts) >= 2}


@scalar("SUBSTRING", "STRING, INTEGER -> STRING", "STRING, INTEGER, INTEGER -> STRING",
        "BYTES, INTEGER -> BYTES", "BYTES, INTEGER, INTEGER -> BYTES")  # fmt: skip
def substring(value: Any, position: int, count: int | None = None) -> Any:
    """Returns a part of a text, or of bytes, from a position on. A negative one counts from the
    end."""
    start = max(0, position - 1) if position >= 0 else max(0, len(value) + position)
    end = len(value) if count is None else min(len(value), start + max(0, count))
    return value[start:end]


@scalar("TRIM", "STRING -> STRING")
def trim(value: str) -> str:
    """Removes spaces at the beginning and end."""
    return value.strip("".join(map(chr, range(33))))


@scalar("UUID", "-> STRING", is_deterministic=False)
def uuid4() -> str:
    """Returns a new random UUID, or the UUID of 16 bytes."""
    return str(uuid.uuid4())


@scalar("UUID", "BYTES -> STRING")
def uuid_of(value: bytes) -> str | None:
    return str(uuid.UUID(bytes=value)) if len(value) == 16 else None
