"""Reads topic names from command-line options: a name, or a regular expression that matches several
topics."""

import re
import shlex

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


def no_such_topic(topic: str, known: list[str], *, may_create: bool = True) -> CommandFailed:
    """Returns the error for an unknown topic, with the nearest name or the command that creates
    it, unless the user wants to get rid of it (`may_create` is False)."""
    near = did_you_mean(topic, known)
    advice = (
        f"; create it with: odradek topics --create --topic {shlex.quote(topic)}"
        if may_create
        else "; `odradek topics --list` shows which do"
    )
    return CommandFailed(f"topic {topic!r} does not exist{near or advice}")
