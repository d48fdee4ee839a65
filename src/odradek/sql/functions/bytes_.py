"""Functions of bytes."""

import struct
from typing import Final

from odradek.sql.functions.declaring import Subject
from odradek.sql.functions.encodings import decoded, encoded

SUBJECT: Final = Subject("Bytes")
scalar = SUBJECT.scalar


def _unpacked(value: bytes, letter: str, size: int, order: str) -> float | int | None:
    marks = {"BIG_ENDIAN": ">", "LITTLE_ENDIAN": "<"}
    if len(value) != size or order not in marks:
        return None
    found: float | int = struct.unpack(marks[order] + letter, value)[0]
    return found


@scalar("BIGINT_FROM_BYTES", "BYTES -> BIGINT", "BYTES, STRING -> BIGINT")
def bigint_from_bytes(value: bytes, order: str = "BIG_ENDIAN") -> float | int | None:
    """Reads a number of 8 bytes, BIG_ENDIAN or LITTLE_ENDIAN; null for other lengths."""
    return _unpacked(value, "q", 8, order)


@scalar("DOUBLE_FROM_BYTES", "BYTES -> DOUBLE", "BYTES, STRING -> DOUBLE")
def double_from_bytes(value: bytes, order: str = "BIG_ENDIAN") -> float | int | None:
    """Reads a floating-point number of 8 bytes; null for other lengths."""
    return _unpacked(value, "d", 8, order)


@scalar("INT_FROM_BYTES", "BYTES -> INTEGER", "BYTES, STRING -> INTEGER")
def int_from_bytes(value: bytes, order: str = "BIG_ENDIAN") -> float | int | None:
    """Reads a number of 4 bytes; null for other lengths."""
    return _unpacked(value, "i", 4, order)


@scalar("FROM_BYTES", "BYTES, STRING -> STRING")
def from_bytes(value: bytes, encoding: str) -> str:
    """Returns bytes as text in an encoding: hex, utf8, ascii or base64."""
    return encoded(value, encoding)


@scalar("TO_BYTES", "STRING, STRING -> BYTES")
def to_bytes(value: str, encoding: str) -> bytes:
    """Returns the bytes of a text in an encoding: hex, utf8, ascii or base64."""
    return decoded(value, encoding)
