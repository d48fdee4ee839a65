"""A block of commands: what is typed, and what is printed after it."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

_MESSAGE: Final = re.compile(r"odradek(?: [a-z-]+)?: ")


@dataclass(frozen=True)
class Step:
    """A command and the output that the page shows. `compares` is false in a block that shows no
    output at all: a list of commands."""

    command: str
    shown: str
    compares: bool = True

    @property
    def must_fail(self) -> bool:
        """A command fails if the last line shown is the message of a tool: `odradek topics: ...`"""
        last = self.shown.rstrip("\n").rpartition("\n")[2]
        return _MESSAGE.match(last) is not None


def steps(text: str) -> list[Step]:
    """A command begins with `$ `. It goes on in the next line if its line ends with a backslash, or
    if the next begins with `> `, as a shell shows it."""
    found = list(_commands(text))
    compares = any(shown for _, shown in found)
    return [Step(command, shown, compares) for command, shown in found]


def _commands(text: str) -> Iterator[tuple[str, str]]:
    lines = text.splitlines()
    while lines:
        command = lines.pop(0).removeprefix("$ ")
        while lines and (command.endswith("\\") or lines[0].startswith("> ")):
            command += "\n" + lines.pop(0).removeprefix("> ")
        shown = []
        while lines and not lines[0].startswith("$ "):
            shown.append(lines.pop(0))
        yield command, "".join(f"{line}\n" for line in shown)
