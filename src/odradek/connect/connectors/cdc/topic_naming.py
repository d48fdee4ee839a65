"""How the topics of tables are named: `topic.naming.strategy`, with Debezium's classes.

SchemaTopicNamingStrategy          PREFIX.SCHEMA.TABLE
DefaultTopicNamingStrategy         PREFIX.TABLE, where a connector captures one database
*UnicodeTopicNamingStrategy        the same; letters that a topic cannot have, and underscores, are
                                   written as _u and their number, so that no two names meet
*RegexTopicNamingStrategy          the same, changed by `topic.regex` and `topic.replacement`; a
                                   field of the key says which table a record is from
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from odradek.connect.transforms.java_patterns import java_pattern, java_replacement

_PACKAGE: Final = "io.debezium.schema."
_KINDS: Final = ("", "Regex", "Unicode")
STRATEGIES: Final = tuple(
    f"{_PACKAGE}{begin}{kind}TopicNamingStrategy"
    for kind in _KINDS
    for begin in ("Schema", "Default")
)
_LONGEST: Final = 249
_NOT_ALLOWED: Final = re.compile(r"[^A-Za-z0-9._-]")
_NOT_PLAIN: Final = re.compile(r"[^A-Za-z0-9.-]")


def topic_name(name: str, *, is_unicode: bool = False) -> str:
    """Returns a name with everything that a topic cannot have replaced."""
    found = _NOT_PLAIN.sub(_escaped, name) if is_unicode else _NOT_ALLOWED.sub("_", name)
    return found[:_LONGEST]


def _escaped(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be")
    return "".join(f"_u{int.from_bytes(units[at : at + 2]):04x}" for at in range(0, len(units), 2))


@dataclass(frozen=True, slots=True)
class Replacement:
    """What becomes of a text that a pattern fits as a whole; others stay as they are."""

    pattern: re.Pattern[str]
    replaced: Callable[[re.Match[str]], str]

    def of(self, text: str) -> str:
        return self.pattern.sub(self.replaced, text, 1) if self.pattern.fullmatch(text) else text


def replacement(regex: str, text: str) -> Replacement:
    """Raises `InvalidConfig`."""
    pattern = java_pattern(regex)
    return Replacement(pattern, java_replacement(text, pattern))


@dataclass(frozen=True, slots=True)
class TopicNaming:
    """`routes` changes names of topics. `key_field` is added to keys, with the name that the topic
    would have without that, as `identifies` changes it."""

    prefix: str
    delimiter: str
    strategy: str
    routes: Replacement | None = None
    key_field: str | None = None
    identifies: Replacement | None = None

    def of(self, schema: str, table: str) -> str:
        is_unicode = "Unicode" in self.strategy
        topic = topic_name(self.origin(schema, table), is_unicode=is_unicode)
        return topic if self.routes is None else self.routes.of(topic) or topic

    def origin(self, schema: str, table: str) -> str:
        """Returns the name before anything in it is replaced."""
        is_short = self.strategy.startswith(f"{_PACKAGE}Default")
        parts = (self.prefix, table) if is_short else (self.prefix, schema, table)
        return self.delimiter.join(parts)

    def own_key(self, schema: str, table: str) -> dict[str, str]:
        """Returns what keys have besides their columns."""
        if self.key_field is None:
            return {}
        origin = self.origin(schema, table)
        return {self.key_field: origin if self.identifies is None else self.identifies.of(origin)}
