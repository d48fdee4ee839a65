"""Java's .properties syntax, so that a `server.properties` written for Kafka is read as is.

Comments begin with # or !; a key ends at =, : or white space; a backslash at the end of a
line continues it; \\t \\n \\r \\f and \\uXXXX are escapes, any other backslash is dropped.
"""

from collections.abc import Iterable

from odradek.config.setting import InvalidSetting

_WHITE = " \t\f"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_properties(text: str) -> dict[str, str]:
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
    """Settings given on a command line as `name=value`."""
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
    """Lines that carry a setting, continuations joined, with the number of their first line."""
    started = 0
    joined = ""
    for number, raw in enumerate(_natural_lines(text), start=1):
        line = raw.lstrip(_WHITE)
        if not started:
            if not line or line[0] in "#!":
                continue
            started = number
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            joined += line[:-1]
        else:
            yield started, joined + line
            started, joined = 0, ""
    if started:
        yield started, joined


def _natural_lines(text: str) -> list[str]:
    # Not splitlines(): Java breaks lines at these three only, and a form feed is white space.
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def _split(line: str) -> tuple[str, str]:
    end = 0
    while end < len(line) and line[end] not in "=:" + _WHITE:
        end += 2 if line[end] == "\\" else 1
    key, rest = line[:end], line[end:].lstrip(_WHITE)
    if rest and rest[0] in "=:":
        rest = rest[1:].lstrip(_WHITE)
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
            if len(digits) != 4:
                raise ValueError(digits)
            parts.append(chr(int(digits, 16)))
            position += 4
        else:
            parts.append(_ESCAPES.get(escaped, escaped))
    # Java writes a character beyond 16 bits as two escapes.
    return "".join(parts).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
