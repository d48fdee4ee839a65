"""The parser for a tool's flags: argparse with short error messages.

A wrong flag raises `UsageError` with one line and the nearest known flag, without the usage text.
`OlderSpelling` keeps older flags that books and scripts use: the result is the same, and a hint on
stderr names the new flag.
"""

import argparse
import os
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import Final, Protocol, cast

from odradek.cli.commands import SUMMARIES
from odradek.config.spelling import did_you_mean
from odradek.tools.failures import UsageError
from odradek.tools.hints import hint

# The width of help texts if standard output is not a terminal.
_DEFAULT_COLUMNS: Final = 80


class Tool(Protocol):
    """The functions that each tool's module defines."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None: ...

    def run(self, arguments: argparse.Namespace) -> int: ...


class FlagParser(argparse.ArgumentParser):
    def parse_args(  # type: ignore[override] # the inherited overloads allow other namespaces
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> argparse.Namespace:
        parsed, unknown = self.parse_known_args(args, namespace)
        for word in unknown:
            raise UsageError(self._unknown(word))
        return parsed

    def error(self, message: str) -> "None":  # type: ignore[override] # it raises, as asked
        message = message.removeprefix("argument ")
        required = message.partition("the following arguments are required: ")[2]
        raise UsageError(f"{required} is needed" if required else message)

    def _unknown(self, word: str) -> str:
        if not word.startswith("-"):
            return f"unexpected {word!r}; {self.prog} --help shows the flags"
        flag = word.partition("=")[0]
        near = did_you_mean(flag, visible_flags(self))
        return f"unknown flag {flag}{near or f'; {self.prog} --help shows the flags'}"


class OlderSpelling(argparse.Action):
    """An older spelling of a flag: acts like the newer flag, and prints its name as a hint."""

    def __init__(
        self,
        option_strings: Sequence[str],
        dest: str,
        *,
        instead: str,
        appends: bool = False,
        **options: object,
    ) -> None:
        options["help"] = argparse.SUPPRESS
        options["default"] = argparse.SUPPRESS
        super().__init__(option_strings, dest, **options)  # type: ignore[arg-type]
        self.instead = instead
        self.appends = appends

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: object,
        option_string: str | None = None,
    ) -> None:
        hint(f"{option_string} is an older spelling; use {self.instead}")
        if self.nargs == 0:
            values = self.const
        if self.appends:
            many = values if isinstance(values, list) else [values]
            values = [*(getattr(namespace, self.dest, None) or []), *many]
        setattr(namespace, self.dest, values)


def visible_flags(parser: argparse.ArgumentParser) -> list[str]:
    """Returns the long flags that the help shows, in the order of declaration."""
    return [
        flag
        for action in parser._actions
        if action.help != argparse.SUPPRESS
        for flag in action.option_strings
        if flag.startswith("--")
    ]


def load_tool(command: str, module: str) -> tuple[Tool, FlagParser]:
    tool = cast("Tool", import_module(module))
    return tool, parser_of(command, tool)


def parser_of(command: str, tool: Tool) -> FlagParser:
    summary = SUMMARIES[command]
    parser = FlagParser(
        prog=f"odradek {command}",
        usage=f"odradek {command} [flags]",
        description=f"{summary[0].upper()}{summary[1:]}.",
        formatter_class=_HelpFormatter,
    )
    tool.add_arguments(parser)
    return parser


class _HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """`argparse` makes a formatter for every argument that is added, also where no help is shown.
    Without a width each one would ask for the terminal's, through `shutil`, whose import takes
    2 ms."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=36, width=_terminal_columns() - 2)


@cache
def _terminal_columns() -> int:
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns):
        return int(columns)
    try:
        return os.get_terminal_size(1).columns or _DEFAULT_COLUMNS
    except OSError:  # Standard output is not a terminal.
        return _DEFAULT_COLUMNS


def whole_number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None


def positive_number(text: str) -> int:
    number = whole_number(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not greater than 0")
    return number


def key_and_value(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form key=value")
    return key.strip(), value


def flag_of(name: str) -> str:
    """Returns the flag of an argument: `--reset-offsets` for `reset_offsets`."""
    return "--" + name.replace("_", "-")


def given_of(arguments: argparse.Namespace, names: Sequence[str]) -> list[str]:
    """Returns which of these arguments the user has given."""
    # An offset of 0 equals False, but was given; an empty list is the default of repeated flags.
    values = ((name, getattr(arguments, name)) for name in names)
    return [name for name, value in values if value not in (None, []) and value is not False]


def exactly_one_of(arguments: argparse.Namespace, names: Sequence[str], verb: str = "give") -> str:
    """Returns which one of these arguments the user has given; raises unless it is exactly one."""
    given = given_of(arguments, names)
    if len(given) != 1:
        raise UsageError(f"{verb} exactly one of {', '.join(map(flag_of, names))}")
    return given[0]
