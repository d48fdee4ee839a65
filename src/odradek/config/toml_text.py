"""Reads TOML that people write by hand, and says what to write where it is not TOML."""

import re
from typing import Any, Final

from odradek.config.values import InvalidValue, in_a_line

_LINE: Final = re.compile(r"at line (\d+)")
# A value without quotes: neither text, list, table nor comment, and something must be there.
_UNQUOTED: Final = re.compile(r"""\s*([^="'#\[]+?)\s*=\s*([^\s"'\[{#][^"'#]*?)\s*(?:#.*)?""")


def parse_toml(text: str) -> dict[str, Any]:
    """Raises `InvalidValue` with the line that is wrong, and with quotes if it lacks them."""
    import tomllib  # noqa: PLC0415 - most programs read no TOML

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidValue(f"{error}{_advice(text, str(error))}") from None


def _advice(text: str, said: str) -> str:
    found = _LINE.search(said)
    lines = text.splitlines()
    if found is None or int(found[1]) > len(lines):
        return ""
    line = lines[int(found[1]) - 1]
    unquoted = _UNQUOTED.fullmatch(line)
    if unquoted is None:
        return f": {in_a_line(line.strip())}"
    return f'; text needs quotes: {unquoted[1]} = "{in_a_line(unquoted[2])}"'
