"""Java's regular expressions and replacements, as rules of Kafka's users have them.

The rules that make names of principals (`ssl.principal.mapping.rules`,
`sasl.kerberos.principal.to.local.rules`) were written for Java. Almost all of its syntax is that of
Python; this module translates the rest.
"""

import re
from typing import Final

from odradek.wording import counted

_GROUP_NAME: Final = re.compile(r"\(\?<(?=[A-Za-z])")
# With it Java's (?i) and Python's are about all letters, and not about those of ASCII alone.
_UNICODE_CASE: Final = re.compile(r"\(\?[a-z]*u")
_REFERENCE: Final = re.compile(r"\\(.)|\$(\d)")


class InvalidPattern(ValueError):
    """A pattern or a replacement that cannot be used; the text says why."""


def compile_pattern(text: str) -> re.Pattern[str]:
    """In Java `\\d`, `\\w`, `\\s` and `(?i)` are about ASCII. In Python they would be about all of
    Unicode, and a rule for `robot-(\\d+)` would match digits of other scripts too. Raises
    `InvalidPattern`."""
    flags = re.NOFLAG if _UNICODE_CASE.search(text) else re.ASCII
    try:
        return re.compile(_GROUP_NAME.sub("(?P<", text), flags)
    except re.error as error:
        raise InvalidPattern(f"{text} is not a regular expression: {error}") from None


def check_replacement(text: str, pattern: re.Pattern[str]) -> None:
    """Raises `InvalidPattern` if `$1` and the like name groups that the pattern has not."""
    for _, group in _REFERENCE.findall(text):
        if group and int(group) > pattern.groups:
            there_are = counted(pattern.groups, "group")
            raise InvalidPattern(f"${group} in {text}: the pattern has {there_are}")


def expand(replacement: str, found: re.Match[str]) -> str:
    """Returns the replacement with `$1` replaced by the first group of the match, and so on."""

    def part(reference: re.Match[str]) -> str:
        return reference[1] if reference[1] is not None else found[int(reference[2])] or ""

    return _REFERENCE.sub(part, replacement)
