"""Hints about properties of the console tools that do not do what their user expects.

A separator alone splits nothing: `parse.key=true` or `print.key=true` belongs to it. And a shell
passes `"\\t"` as a backslash and a letter. Kafka's tools take both without a word; here a hint on
standard error says what to write, and the result is the same.
"""

import shlex
from collections.abc import Mapping
from typing import Final

from odradek.tools.hints import hint

# What shells do not turn into one character, and what was probably meant.
_ESCAPES: Final = {"\\t": "a tab", "\\n": "a newline", "\\0": "a zero byte"}
# Characters that often end a key. A space is one only if there is none of these.
_USUAL_ENDS: Final = ":\t;|,="


def hint_without_effect(
    flag: str, properties: Mapping[str, str], needs: Mapping[str, tuple[str, ...]]
) -> None:
    """Prints hints for separators that have no effect, or another one than meant.

    `flag` takes these properties. `needs` says for a property which others it belongs to; the first
    of them is proposed.
    """
    for name, value in properties.items():
        others = needs.get(name)
        if others and not any(properties.get(other, "").lower() == "true" for other in others):
            hint(f"{name} has no effect without {flag} {others[0]}=true")
        if name.endswith(("separator", "delimiter")):
            escaped = next((text for text in _ESCAPES if text in value), None)
            if escaped is not None:
                hint(
                    f"{name}={value} has a backslash in it; for {_ESCAPES[escaped]} write"
                    f" {name}=$'{value}' in your shell"
                )


def likely_separator(line: str) -> str | None:
    """Returns the character that probably ends the key of a line, if there is one."""
    text = line.strip()
    return next((mark for mark in text if mark in _USUAL_ENDS), " " if " " in text else None)


def in_shell(name: str, separator: str) -> str:
    """Returns a property as it is typed in a shell: `key.separator=:`."""
    if separator == "\t":
        return f"{name}=$'\\t'"
    return shlex.quote(f"{name}={separator}")


def shown(separator: str) -> str:
    """Returns a separator as a message shows it."""
    return "a tab" if separator == "\t" else repr(separator)
