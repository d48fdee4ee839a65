r"""Turns a line of text into a record, as the console producer's properties say.

`headers<headers.delimiter>key<key.separator>value`, where headers are
`name<headers.key.separator>value<headers.separator>...`. Pure: bytes in, record out.
"""

import re
from typing import NamedTuple

from odradek.cli.records.separators import in_shell, likely_separator, shown
from odradek.tools.failures import CommandFailed, UsageError
from odradek.tools.known_names import is_true, require_known

Headers = list[tuple[str, bytes | None]]


class Line(NamedTuple):
    key: bytes | None
    value: bytes | None
    headers: Headers


_KNOWN = {
    "parse.key": "false",
    "parse.headers": "false",
    "ignore.error": "false",
    "key.separator": "\t",
    "headers.delimiter": "\t",
    "headers.separator": ",",
    "headers.key.separator": ":",
}
_NULL = "null.marker"
PROPERTIES = (*_KNOWN, _NULL)
# Which other property each of these belongs to.
NEEDS = {
    "key.separator": ("parse.key",),
    "headers.delimiter": ("parse.headers",),
    "headers.separator": ("parse.headers",),
    "headers.key.separator": ("parse.headers",),
    "ignore.error": ("parse.key", "parse.headers"),
}
# Pairs of separators that would make a line ambiguous if they were equal.
_DISTINCT = (
    ("headers.delimiter", "headers.separator"),
    ("headers.delimiter", "headers.key.separator"),
    ("headers.separator", "headers.key.separator"),
    (_NULL, "key.separator"),
    (_NULL, "headers.separator"),
    (_NULL, "headers.delimiter"),
    (_NULL, "headers.key.separator"),
)


class LineReader:
    def __init__(self, properties: dict[str, str]) -> None:
        """Raises `UsageError` for a property that would have no effect."""
        require_known("reader property", properties, PROPERTIES)
        for name, value in properties.items():
            if not value and name != _NULL:
                raise UsageError(f"reader property {name} has no value")
        marks = _KNOWN | properties
        for first, other in _DISTINCT:
            if first in marks and marks[first] == marks[other]:
                raise UsageError(f"{first} and {other} may not be equal")
        self._parse_key, self._parse_headers, self._ignore_error = (
            is_true("reader property", name, marks[name])
            for name in ("parse.key", "parse.headers", "ignore.error")
        )
        self._key_separator = marks["key.separator"].encode()
        self._headers_delimiter = marks["headers.delimiter"].encode()
        self._headers_separator = re.compile(marks["headers.separator"].encode())
        self._headers_key_separator = marks["headers.key.separator"].encode()
        self._null = marks[_NULL].encode() if _NULL in marks else None
        self._line_number = 0

    def read(self, line: bytes) -> Line:
        self._line_number += 1
        headers: Headers = []
        key: bytes | None = None
        rest = line
        if self._parse_headers:
            text, rest = self._split(rest, self._headers_delimiter, "headers.delimiter", line)
            if text is not None and text != self._null:
                headers = [self._header(pair) for pair in self._headers_separator.split(text)]
        if self._parse_key:
            key, rest = self._split(rest, self._key_separator, "key.separator", line)
        return Line(
            None if key == self._null else key, None if rest == self._null else rest, headers
        )

    def _split(
        self, text: bytes, mark: bytes, name: str, line: bytes
    ) -> tuple[bytes | None, bytes]:
        before, separator, after = text.partition(mark)
        if separator:
            return before, after
        if self._ignore_error:
            return None, text
        raise CommandFailed(self._no_separator(text, mark.decode(), name, line))

    def _no_separator(self, text: bytes, mark: str, name: str, line: bytes) -> str:
        """Returns what to do about a line that ends before its key, or its headers, do."""
        parts = [
            *(["headers"] if self._parse_headers else []),
            *(["key"] if self._parse_key else []),
            "value",
        ]
        said = (
            f"line {self._line_number} is {_quoted(line)}, without the {name}, which is"
            f" {shown(mark)}, between {' and '.join(parts)}"
        )
        likely = likely_separator(text.decode(errors="replace"))
        if likely is not None and self._line_number == 1:
            return f"{said}; for {shown(likely)} add --reader-property {in_shell(name, likely)}"
        return f"{said}; --reader-property ignore.error=true takes such lines as values"

    def _header(self, pair: bytes) -> tuple[str, bytes | None]:
        name, separator, value = pair.partition(self._headers_key_separator)
        if not separator:
            if self._ignore_error:
                return pair.decode(errors="replace"), None
            mark = self._headers_key_separator.decode()
            raise CommandFailed(
                f"line {self._line_number} has the header {_quoted(pair)}, without {mark!r} between"
                " name and value; --reader-property headers.key.separator=... sets another"
                " separator"
            )
        if name == self._null:
            raise CommandFailed(f"line {self._line_number}: a header's name cannot be null")
        return name.decode(errors="replace"), None if value == self._null else value


def _quoted(text: bytes) -> str:
    return repr(text[:80].decode(errors="replace"))
