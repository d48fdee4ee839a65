"""Positions in PostgreSQL's log (LSN): numbers here, and texts as `16/B374D848` in SQL."""

import re
from typing import Final

from odradek.connect.errors import DataError

_TEXT: Final = re.compile(r"([0-9A-Fa-f]{1,8})/([0-9A-Fa-f]{1,8})")
_PAGE_BYTES: Final = 8192
# A page of the log begins with a header of 24 or 40 bytes.
_LONGEST_HEADER_BYTES: Final = 40


def parse_lsn(text: str) -> int:
    match = _TEXT.fullmatch(text)
    if match is None:
        raise DataError(f"{text!r} is not a position in the log of PostgreSQL")
    return int(match[1], 16) << 32 | int(match[2], 16)


def lsn_text(lsn: int) -> str:
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def end_of_records(insert_lsn: int) -> int:
    """Returns where the last record before an insert position ends. At the beginning of a page the
    server counts the header in, and it reads no further than the end of the page before."""
    in_page = insert_lsn % _PAGE_BYTES
    return insert_lsn - in_page if in_page <= _LONGEST_HEADER_BYTES else insert_lsn
