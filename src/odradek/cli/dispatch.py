"""Finds the tool that the words of a command line mean, runs it, and prints failures as one line.

Only the requested tool is imported, so that every tool starts quickly. A failure shows no traceback
unless ODRADEK_DEBUG is set.
"""

import gc
import os
import sys
from typing import TYPE_CHECKING, Final

from odradek.cli.commands import GROUPS, SUMMARIES, module_name
from odradek.cli.kafka_names import (
    NEEDLESS,
    NOT_YET,
    OLDER_NAMES,
    OTHER_PROGRAMS,
    RUN_CLASS,
    VERBS,
    command_of_class,
    resolve,
    unknown_class,
)
from odradek.tools.failures import MissingFlag, UsageError, explain

if TYPE_CHECKING:
    from argparse import Namespace

# So many objects are made before CPython looks for garbage among them; by default 700. Imports make
# many objects and no garbage: with 700 the collector takes 20 ms of the 180 ms in which a broker
# starts. A broker changes the threshold again when it is ready (`world.garbage_collection`).
_COLLECTION_THRESHOLD: Final = 50_000

# Options of the JVM that take the next word.
_WITH_PATH: Final = frozenset({"-cp", "-classpath", "--class-path", "-p", "--module-path"})

_BROKEN_PIPE = 141


def dispatch(words: list[str]) -> int:
    gc.set_threshold(_COLLECTION_THRESHOLD)
    _open_standard_streams()
    name = "odradek"
    try:
        if not words or words[0] in {"--help", "-h", "help"}:
            return _help(words[1:])
        if words[0] in {"--version", "-V", "-v", "version"} or words[1:] == ["--version"]:
            from odradek import __version__

            print("odradek", __version__)
            return 0
        words, flags = _own_flags(words)
        command, arguments = _replacement(words)
        arguments += flags
        name = f"odradek {command}"
        return _run(command, arguments)
    except BrokenPipeError as failure:
        return _pipe_closed(failure, name)
    except Exception as failure:  # noqa: BLE001 - the last line of defence before a person
        return _fail(failure, name)


def _open_standard_streams() -> None:
    """Opens the standard streams that the shell has closed, as in `odradek ... <&-`, as empty ones.
    Otherwise the next file or socket would get the number of one, and be read or written for it."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            # It stays open until the end.
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115


def _own_flags(words: list[str]) -> tuple[list[str], list[str]]:
    """Splits off `--profile NAME` before the command, as a flag of the command."""
    first = words[0]
    if first == "--profile" and len(words) > 2:
        return words[2:], [f"--profile={words[1]}"]
    if first.startswith("--profile=") and len(words) > 1:
        return words[1:], [first]
    if first.partition("=")[0] == "--profile":
        raise UsageError("--profile takes a name and then a command: odradek --profile NAME topics")
    return words, []


def _help(arguments: list[str]) -> int:
    if arguments:
        return _run(_command(arguments[0], []), ["--help"])
    print("Odradek speaks the Kafka protocol: a broker and its tools.\n")
    print("usage: odradek COMMAND [flags]        odradek COMMAND --help says more")
    width = max(map(len, SUMMARIES)) + 2
    for group, commands in GROUPS.items():
        print(f"\n{group}")
        for name, command in commands.items():
            print(f"  {name:<{width}}{command.summary}")
    print("\nKafka's names work too: odradek kafka-topics.sh --list; odradek shims DIR writes them")
    return 0


def _replacement(words: list[str]) -> tuple[str, list[str]]:
    """Returns the command that the words mean, and its arguments: for an older name, flags that it
    implies come first."""
    name, *arguments = words
    if resolve(name) == RUN_CLASS:
        return _replacement(_tool_of_class(arguments))
    older = OLDER_NAMES.get(resolve(name))
    if older is None:
        return _command(name, arguments), arguments
    from odradek.tools.hints import hint

    command, flags = older
    hint(f"{name} is an older name; use odradek {command}")
    return command, [*flags, *arguments]


def _tool_of_class(arguments: list[str]) -> list[str]:
    """Returns the command for `kafka-run-class CLASS ...`. Options of the JVM before the class mean
    nothing here."""
    while arguments and arguments[0].startswith("-"):
        del arguments[: 2 if arguments[0] in _WITH_PATH else 1]
    if not arguments:
        raise UsageError("name a tool's class, as in: kafka-run-class kafka.tools.GetOffsetShell")
    name, *rest = arguments
    command = command_of_class(name)
    if command is None:
        raise UsageError(unknown_class(name))
    return [command, *rest]


def _command(word: str, arguments: list[str]) -> str:
    command = resolve(word)
    if command in SUMMARIES:
        return command
    if command in NOT_YET:
        until_then = NOT_YET[command]
        todo = f"until then: {until_then}" if until_then else "odradek --help lists what is"
        raise UsageError(f"{word} is not part of this version yet; {todo}")
    if command in NEEDLESS:
        raise UsageError(NEEDLESS[command])
    if command in OTHER_PROGRAMS:
        raise _another_program(word, OTHER_PROGRAMS[command])
    if command in VERBS:
        raise UsageError(f"no command {word!r}; type {VERBS[command]}")
    if command in {"kafkacat", "kcat"}:
        from odradek.cli.kcat import line_to_type

        raise _another_program(word, line_to_type(arguments))
    if word.startswith("-"):
        raise UsageError(f"a command comes first, then {word}; odradek --help lists the commands")
    from odradek.config.spelling import did_you_mean

    near = did_you_mean(command, list(SUMMARIES))
    raise UsageError(f"no command {word!r}{near or '; odradek --help lists the commands'}")


def _another_program(word: str, line: str) -> UsageError:
    return UsageError(f"{word} is a program of its own; here type: {line}")


def _run(command: str, arguments: list[str]) -> int:
    from odradek.cli.parser import load_tool

    tool, parser = load_tool(command, module_name(command))
    parsed: Namespace | None = None
    try:
        parsed = parser.parse_args(arguments)
        if getattr(parsed, "watch", None) is not None:
            from odradek.cli.watching import watch

            return watch(tool, parsed, parser.prog)
        code = tool.run(parsed)
    except UsageError as failure:
        if not arguments:
            # As Kafka's tools do: a bare tool shows its help, and after it what is missing.
            parser.print_help(sys.stderr)
            print(file=sys.stderr)
            raise
        if isinstance(failure, MissingFlag):
            raise UsageError(f"{failure}; {parser.prog} --help shows the flags") from None
        raise
    except BrokenPipeError:
        raise
    except Exception as failure:  # noqa: BLE001 - as in `dispatch`, and the arguments are known
        return _fail(failure, parser.prog, parsed)
    sys.stdout.flush()
    return code


def _pipe_closed(failure: BrokenPipeError, name: str) -> int:
    """Handles a closed pipe, as in `odradek ... | head`: it is not a failure, and output is not
    possible any more."""
    if failure.filename is not None:
        return _fail(failure, name)
    # At exit the interpreter would try to flush the rest and report an error.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return _BROKEN_PIPE


def _without_secrets(text: str) -> str:
    """Hides secrets that the tool has read. If it has read none, their module is not imported."""
    redaction = sys.modules.get("odradek.config.redaction")
    return text if redaction is None else str(redaction.redact(text))


def _fail(failure: Exception, name: str, arguments: "Namespace | None" = None) -> int:
    if os.environ.get("ODRADEK_DEBUG"):
        import traceback

        print(_without_secrets("".join(traceback.format_exception(failure))), file=sys.stderr)
    else:
        line = " ".join(explain(failure, arguments).split())
        print(f"{name}: {_without_secrets(line)}", file=sys.stderr)
    return getattr(failure, "exit_code", 1)
