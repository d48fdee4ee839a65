"""Reads topic names from command-line options: a name, or a regular expression that matches several
topics."""

import re
import shlex
from collections.abc import Iterable

from odradek.config.spelling import did_you_mean
from odradek.protocol.internal_topics import KAFKA_INTERNAL_TOPICS
from odradek.tools.failures import CommandFailed, UsageError


def is_internal(topic: str) -> bool:
    return topic in KAFKA_INTERNAL_TOPICS


def topic_pattern(text: str, flag: str = "--topic") -> "re.Pattern[str]":
    """Compiles a topic name or regular expression, the value of `flag`. As in Kafka's tools, a
    comma separates alternatives, and spaces and surrounding quotes are removed."""
    pattern = text.strip().replace(",", "|").replace(" ", "").strip("\"'")
    try:
        return re.compile(pattern)
    except re.error as problem:
        raise UsageError(f"{flag} {text!r} is not a regular expression: {problem}") from None


def select_topics(text: str, known: Iterable[str]) -> list[str]:
    """Returns the topics that the value of `--topic` selects. The name of a topic selects that one
    alone: as a regular expression `orders.v1` would also match `orders-v1`."""
    names = list(known)
    if text in names:
        return [text]
    pattern = topic_pattern(text)
    return [name for name in names if pattern.fullmatch(name)]


def names_without_topic(text: str, known: Iterable[str]) -> list[str]:
    """Returns the names in a list such as `orders,oders` that no topic has, although others of the
    list select some. Kafka's tools pass over them in silence."""
    names = set(known)
    if text in names:
        return []
    return [name for name in text.split(",") if re.fullmatch(r"[\w-]+", name) and name not in names]


def no_match(text: str, known: list[str]) -> CommandFailed:
    """Returns the error if `--topic` selects nothing, with the regular expression that was meant if
    it is a pattern of a shell."""
    meant = re.sub(r"(?<![.\])])\*", ".*", text)
    if meant != text and select_topics(meant, known):
        return CommandFailed(
            f"no topic matches {text!r}, which is a regular expression; did you mean"
            f" {shlex.quote(meant)}?"
        )
    return no_such_topic(text, known)


def no_topic_name(name: str) -> CommandFailed:
    """Returns the error for a name that no topic can have, with one that it can."""
    allowed = re.sub(r"[^A-Za-z0-9._-]+", "-", name.strip()).strip("-")
    near = "" if allowed in {"", ".", "..", name} else f"; did you mean {allowed}?"
    return CommandFailed(
        f"{name!r} cannot be the name of a topic: it has letters, digits, '.', '_' and '-', at most"
        f" 249{near}"
    )


def no_such_topic(topic: str, known: list[str], *, may_create: bool = False) -> CommandFailed:
    """Returns the error for an unknown topic, with the nearest name, or for those who want to write
    to it (`may_create`) the command that creates it."""
    if not may_create and re.search(r"[][*+?(){}|^$\\]", topic):
        return CommandFailed(
            f"no topic matches {topic!r}, which is a regular expression for the whole name;"
            " `odradek topics --list` shows all"
        )
    near = did_you_mean(topic, known)
    advice = (
        f"; create it with: odradek topics --create --topic {shlex.quote(topic)}"
        if may_create
        else "; `odradek topics --list` shows which do"
    )
    return CommandFailed(f"topic {topic!r} does not exist{near or advice}")
