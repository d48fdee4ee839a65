"""Java's .properties syntax, so that a `server.properties` written for Kafka is read as is.

Comments begin with # or !; a key ends at =, : or white space; a backslash at the end of a
line continues it; \\t \\n \\r \\f and \\uXXXX are escapes, any other backslash is dropped.
"""

from collections.abc import Iterable
from string import hexdigits

from odradek.config.setting import InvalidSetting

_WHITESPACE = " \t\f"
_HEXADECIMAL = frozenset(hexdigits)
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_properties(text: str) -> dict[str, str]:
    """Raises `InvalidSetting` for a \\u escape that is not complete."""
    properties: dict[str, str] = {}
    for number, line in _logical_lines(text):
        key, value = _split(line)
        try:
            properties[_unescape(key)] = _unescape(value)
        except ValueError:
            raise InvalidSetting(
                key, value, f"line {number} has a \\u escape without four hexadecimal digits"
            ) from None
    return properties


def parse_overrides(overrides: Iterable[str]) -> dict[str, str]:
    """Parses settings that are given on the command line as `name=value`."""
    properties: dict[str, str] = {}
    for override in overrides:
        name, equals, value = override.partition("=")
        if not equals or not name.strip():
            raise InvalidSetting(
                "--override", override, "write it as name=value, as in num.partitions=3"
            )
        properties[name.strip()] = value.strip()
    return properties


def _logical_lines(text: str) -> Iterable[tuple[int, str]]:
    """Yields each line that has a setting, joined with its continuation lines, and the number of
    the first of them."""
    first_number = 0
    joined = ""
    for number, raw in enumerate(_natural_lines(text), start=1):
        line = raw.lstrip(_WHITESPACE)
        if not first_number:
            if not line or line[0] in "#!":
                continue
            first_number = number
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            joined += line[:-1]
        else:
            yield first_number, joined + line
            first_number, joined = 0, ""
    if first_number:
        yield first_number, joined


def _natural_lines(text: str) -> list[str]:
    # Java ends lines only at \n, \r and \r\n; splitlines() would also end them at a form feed.
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def _split(line: str) -> tuple[str, str]:
    end = 0
    while end < len(line) and line[end] not in "=:" + _WHITESPACE:
        end += 2 if line[end] == "\\" else 1
    key, rest = line[:end], line[end:].lstrip(_WHITESPACE)
    if rest and rest[0] in "=:":
        rest = rest[1:].lstrip(_WHITESPACE)
    return key, rest


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    parts: list[str] = []
    position = 0
    while position < len(text):
        character = text[position]
        position += 1
        if character != "\\":
            parts.append(character)
            continue
        escaped = text[position : position + 1]
        position += 1
        if escaped == "u":
            digits = text[position : position + 4]
            # int() alone would also accept a sign, underscores and spaces.
            if len(digits) != 4 or not set(digits) <= _HEXADECIMAL:
                raise ValueError(digits)
            parts.append(chr(int(digits, 16)))
            position += 4
        else:
            parts.append(_ESCAPES.get(escaped, escaped))
    # Java writes a character beyond 16 bits as two escapes.
    return "".join(parts).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
