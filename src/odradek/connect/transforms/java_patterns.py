"""Patterns and replacements in the settings of transforms, in the syntax of Java."""

import re
from collections.abc import Callable

from odradek.connect.errors import InvalidConfig
from odradek.javatext import patterns


def java_pattern(text: str) -> "re.Pattern[str]":
    """Compiles a pattern. Raises `InvalidConfig`."""
    try:
        return patterns.java_pattern(text)
    except patterns.BadPattern as error:
        raise InvalidConfig(str(error)) from None


def java_replacement(text: str, pattern: "re.Pattern[str]") -> "Callable[[re.Match[str]], str]":
    """Returns what makes the new text of a match. Raises `InvalidConfig`."""
    try:
        return patterns.java_replacement(text, pattern)
    except patterns.BadPattern as error:
        raise InvalidConfig(str(error)) from None
