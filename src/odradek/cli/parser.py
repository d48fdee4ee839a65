"""The parser for a tool's flags: argparse with short error messages.

A wrong flag raises `UsageError` with one line and the nearest known flag, without the usage text.
Flags are understood as Kafka's own parser (jopt-simple) does: one dash is enough (`-describe`), and
a flag that takes a value takes the next word, also if it begins with a dash.
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
from odradek.tools.failures import MissingFlag, UsageError
from odradek.tools.hints import hint

# The width of help texts if standard output is not a terminal.
_DEFAULT_COLUMNS: Final = 80

_TAKERS_OF_PAIRS: Final = frozenset(
    {"--add-config", "--command-property", "--config", "--override", "--property"}
)


class Tool(Protocol):
    """The functions that each tool's module defines."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None: ...

    def run(self, arguments: argparse.Namespace) -> int: ...


class FlagParser(argparse.ArgumentParser):
    takes_rest = False
    """Whether words after the first positional argument belong to that, as they stand."""

    def parse_args(  # type: ignore[override] # the inherited overloads allow other namespaces
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> argparse.Namespace:
        parsed, unknown = self.parse_known_args(self._as_argparse_reads(args or ()), namespace)
        for word in unknown:
            raise UsageError(self._unknown(word, args or ()))
        return parsed

    def error(self, message: str) -> "None":  # type: ignore[override] # it raises, as asked
        message = message.removeprefix("argument ")
        required = message.partition("the following arguments are required: ")[2]
        # What may be left out is listed too, if something else is missing.
        hidden = [
            action.metavar if action.nargs == "*" else action.dest
            for action in self._actions
            if action.help == argparse.SUPPRESS or action.nargs == "*"
        ]
        required = ", ".join(name for name in required.split(", ") if name not in hidden)
        if required or "one of the arguments" in message:
            verb = "are" if "," in required else "is"
            raise MissingFlag(f"{required} {verb} needed" if required else message)
        message = message.replace("invalid float value:", "not a number:")
        message = message.replace("expected one argument", "needs a value")
        message = message.replace("ignored explicit argument", "takes no value, and was given")
        raise UsageError(message)

    def _check_value(self, action: argparse.Action, value: object) -> None:
        """Raises if a word is none of those that an argument takes, with the nearest of them."""
        if action.choices is None or value in action.choices:
            return
        from odradek.cli.flag_habits import word_meant

        choices = [str(choice) for choice in action.choices]
        near = word_meant(str(value), choices)
        raise argparse.ArgumentError(action, f"{value!r} is none of {', '.join(choices)}{near}")

    def _as_argparse_reads(self, words: Sequence[str]) -> list[str]:
        """Returns the words in the only spelling that `argparse` takes: two dashes, and `=` before
        a value that begins with a dash. A word that is a flag itself is not taken for a value.
        Words without a flag come first: `argparse` understands no optional one behind a flag, as in
        `odradek keys shred --key-file FILE orders`.

        Raises for a flag that does not exist: `argparse` would first say which flags are missing,
        and the user may have meant one of these."""
        words = self._with_interval(words)
        if self.takes_rest:
            return list(words)
        loose: list[str] = []
        result: list[str] = []
        action: argparse.Action | None = None
        takes_words = self._takes_words()
        for position, word in enumerate(words):
            if word == "--":
                return [*loose, *result, *words[position:]]
            flag = self._two_dashes(word)
            if flag is not None:
                name, equals, _ = flag.partition("=")
                action = self._option_string_actions[name]
                if equals or action.nargs == 0:
                    action = None
                result.append(flag)
            elif _is_dashed_value(word) and action is not None and action.nargs is None:
                result[-1] += f"={word}"
                action = None
            elif (word.startswith("--") and _begins_as_flag(word)) or (
                action is None and not takes_words
            ):
                raise UsageError(self._unknown(word, words))
            elif action is None:
                loose.append(word)
            else:
                if action.nargs not in {"+", "*"}:
                    action = None
                result.append(word)
        return [*loose, *result]

    def _takes_words(self) -> bool:
        """Returns whether the tool takes words without a flag before them."""
        return any(not action.option_strings for action in self._actions)

    def _with_interval(self, words: Sequence[str]) -> Sequence[str]:
        """Returns the words with `--watch=2` for a `--watch` that no number follows, if the tool
        takes words without a flag: `argparse` would take the next one for the value of `--watch`,
        as in `odradek local --watch status`."""
        watch = self._option_string_actions.get("--watch")
        if watch is None or "--watch" not in words or not self._takes_words():
            return words
        following = [*words[1:], ""]
        return [
            f"--watch={watch.const}" if word == "--watch" and not _is_number(after) else word
            for word, after in zip(words, following, strict=True)
        ]

    def _two_dashes(self, word: str) -> str | None:
        """Returns a flag with two dashes if the word is one, in full or unambiguously shortened."""
        name, equals, value = word.partition("=")
        if not _begins_as_flag(word):
            return None
        if name in self._option_string_actions:
            return word
        full = "--" + name.lstrip("-")
        if full in self._option_string_actions:
            return full + equals + value
        near = [flag for flag in self._option_string_actions if flag.startswith(full)]
        if near and self._explained(full):
            return None
        return near[0] + equals + value if len(near) == 1 and name.startswith("--") else None

    def _explained(self, flag: str) -> str | None:
        from odradek.cli.flag_habits import explained

        return explained(flag, visible_flags(self))

    @staticmethod
    def _pair_with_space(word: str, words: Sequence[str]) -> str | None:
        """Returns `--add-config KEY=VALUE` if a space stands in place of the equals sign."""
        for flag, key, value in zip(words, words[1:], words[2:], strict=False):
            if flag in _TAKERS_OF_PAIRS and value == word and "=" not in key and "." in key:
                return f"{flag} {key}={value}"
        return None

    def _with_quotes(self, word: str, words: Sequence[str]) -> str | None:
        """Returns the flag before a word with all that follows it as one value, if the flag takes
        text: `--topic my topic`. Returns None for a property after another one."""
        import shlex

        position = list(words).index(word)
        if position < 2 or "=" in word:
            return None
        action = self._option_string_actions.get(words[position - 2])
        if action is None or action.nargs is not None or action.type is not None:
            return None
        if action.choices is not None or "--bootstrap-server" in action.option_strings:
            return None
        value = [words[position - 1]]
        for part in words[position:]:
            if part.startswith("-"):
                break
            value.append(part)
        return f"{words[position - 2]} {shlex.quote(' '.join(value))}"

    def _place_alone(self, flag: str, words: Sequence[str]) -> str | None:
        """Returns the command line without a flag for a place that the tool takes as a word."""
        import shlex

        from odradek.cli.flag_habits import is_place

        for action in self._actions:
            metavar = action.metavar if isinstance(action.metavar, str) else action.dest
            if not action.option_strings and is_place(flag, metavar):
                following = list(words)[list(words).index(flag) + 1 :] if flag in words else []
                named = following and not following[0].startswith("-")
                return f"{self.prog} {shlex.quote(following[0]) if named else metavar}"
        return None

    def _unexpected(self, word: str, words: Sequence[str]) -> str:
        """Returns what to say about a word that stands without a flag."""
        from odradek.cli.flag_habits import flag_before

        if pair := self._pair_with_space(word, words):
            return f"unexpected {word!r}; write {pair}"
        flags = [self._two_dashes(one) or "" for one in words]
        given = {flag.partition("=")[0] for flag in flags}
        near = flag_before(word, visible_flags(self), given)
        quotes = self._with_quotes(word, words)
        if quotes and near.endswith("?"):
            return f"unexpected {word!r}{near} A value with spaces needs quotes: {quotes}"
        if quotes and not near:
            return f"unexpected {word!r}; a value with spaces needs quotes: {quotes}"
        return f"unexpected {word!r}{near or f'; {self.prog} --help shows the flags'}"

    def _unknown(self, word: str, words: Sequence[str]) -> str:
        """Returns what to say about one of the words of a command line that is not understood."""
        if not word.startswith("-"):
            return self._unexpected(word, words)
        from odradek.cli.flag_habits import probably_meant

        flag = word.partition("=")[0]
        for action in self._actions:
            # `transactions --list`: it is a word there.
            if not action.option_strings and flag.lstrip("-") in (action.choices or ()):
                return f"unknown flag {flag}; did you mean {self.prog} {flag.lstrip('-')}?"
        if todo := self._explained("--" + flag.lstrip("-")):
            return f"there is no {flag}: {todo}"
        if place := self._place_alone(flag, words):
            return f"there is no {flag}; write {place}"
        near = probably_meant(flag, visible_flags(self))
        longer = [known for known in visible_flags(self) if known.startswith(flag)]
        if longer and not near:
            return f"{flag} may be {' or '.join(longer)}; write more of it"
        return f"unknown flag {flag}{near or f'; {self.prog} --help shows the flags'}"


def _begins_as_flag(word: str) -> bool:
    """Returns whether the word begins like a flag: `-1` and `-` do not."""
    return word.startswith("-") and word.lstrip("-")[:1].isalpha()


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _is_dashed_value(word: str) -> bool:
    """With two dashes it is rather a flag that is misspelt."""
    return _begins_as_flag(word) and not word.startswith("--")


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
        super().__init__(prog, max_help_position=36, width=terminal_columns() - 2)


@cache
def terminal_columns(default: int = _DEFAULT_COLUMNS) -> int:
    """Returns the width of standard output: $COLUMNS, or the terminal's, or the default."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns):
        return int(columns)
    try:
        return os.get_terminal_size(1).columns or default
    except OSError:  # Standard output is not a terminal.
        return default


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


def directory_name(text: str) -> str:
    """Refuses an empty text, which an unset variable of the shell leaves. With it a broker would
    take the default directory of Kafka's settings, where another one may have its data."""
    if not text.strip():
        raise argparse.ArgumentTypeError("it is empty; name a directory")
    return text


def key_and_value(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form key=value")
    return key.strip(), value


def flag_of(name: str) -> str:
    """Returns the flag of an argument: `--reset-offsets` for `reset_offsets`."""
    return "--" + name.replace("_", "-")


def used_flags(arguments: argparse.Namespace, names: Sequence[str]) -> list[str]:
    """Returns which of these arguments the user has given."""
    # An offset of 0 equals False, but was given; an empty list is the default of repeated flags.
    values = ((name, getattr(arguments, name)) for name in names)
    return [name for name, value in values if value not in (None, []) and value is not False]


def exactly_one_of(arguments: argparse.Namespace, names: Sequence[str], verb: str = "give") -> str:
    """Returns which one of these arguments the user has given; raises unless it is exactly one."""
    choices = used_flags(arguments, names)
    if len(choices) != 1:
        error = UsageError if choices else MissingFlag
        raise error(f"{verb} exactly one of {', '.join(map(flag_of, names))}")
    return choices[0]
