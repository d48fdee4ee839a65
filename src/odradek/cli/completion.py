"""`odradek completion`: a completion script for the user's shell, made from the parsers.

The script is generated from the flags that the tools declare, so it cannot become outdated. It
completes commands, flags, the values of flags that have a fixed choice, keys of settings and file
names without running odradek, so that is instant. For topics, groups and profiles it asks
(`completion_values`).
"""

import argparse
from collections.abc import Iterator
from typing import NamedTuple

from odradek.cli.commands import SUMMARIES, module_name
from odradek.cli.completion_values import NAMES, keys_for, names_for, print_names
from odradek.cli.parser import FlagParser, load_tool

_SHELLS = ("bash", "zsh", "fish")
_FILE_METAVARS = frozenset({"FILE", "DIR", "CONFIG"})

_INSTALLATION = """\
bash:  echo 'source <(odradek completion bash)' >> ~/.bashrc
zsh:   odradek completion zsh > "${fpath[1]}/_odradek"
fish:  odradek completion fish > ~/.config/fish/completions/odradek.fish
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "odradek completion bash|zsh|fish"
    parser.epilog = "To install:\n" + _INSTALLATION
    parser.add_argument(
        "shell", metavar="SHELL", choices=(*_SHELLS, *NAMES), help="your shell: bash, zsh or fish"
    )
    parser.add_argument("line", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    if isinstance(parser, FlagParser):
        parser.takes_rest = True


def run(arguments: argparse.Namespace) -> int:
    if arguments.shell in NAMES:
        return print_names(arguments.shell, arguments.line)
    write = {"bash": _bash, "zsh": _zsh, "fish": _fish}[arguments.shell]
    print("\n".join(write(dict(_commands()))))
    return 0


class Flag(NamedTuple):
    name: str
    help: str
    takes_value: bool
    values: tuple[str, ...]
    takes_file: bool
    keys: tuple[str, ...] = ()
    """Keys of settings; a value follows those that end with `=`."""
    names: str | None = None
    """Which names of the cluster it takes, if it does."""


class CommandShape(NamedTuple):
    flags: list[Flag]
    words: tuple[str, ...]
    """What may stand without a flag before it, where that is a fixed choice."""
    takes_file: bool


def _commands() -> Iterator[tuple[str, CommandShape]]:
    for command in SUMMARIES:
        _, parser = load_tool(command, module_name(command))
        yield command, shape_of(command, parser)


def shape_of(command: str, parser: argparse.ArgumentParser) -> CommandShape:
    flags: list[Flag] = []
    words: tuple[str, ...] = ()
    takes_file = False
    for action in parser._actions:
        if action.help == argparse.SUPPRESS:
            continue
        values = tuple(value for value in map(str, action.choices or ()) if value not in NAMES)
        is_file = action.metavar in _FILE_METAVARS
        if not action.option_strings:
            words += values
            takes_file = takes_file or is_file
        long = [flag for flag in action.option_strings if flag.startswith("--")]
        flags += [
            Flag(
                flag,
                _short(action),
                action.nargs != 0,
                values,
                is_file,
                keys_for(command, flag),
                names_for(flag),
            )
            for flag in long
        ]
    return CommandShape(flags, words, takes_file)


def _short(action: argparse.Action) -> str:
    text = (action.help or "").partition(" (default")[0].partition(";")[0]
    return text.replace("%%", "%")


def _bash(commands: dict[str, CommandShape]) -> Iterator[str]:
    yield "_odradek() {"
    yield '  local word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}"'
    yield '  if [ "$COMP_CWORD" -eq 1 ]; then'
    yield f'    COMPREPLY=($(compgen -W "{" ".join(SUMMARIES)}" -- "$word")); return'
    yield "  fi"
    yield '  case "${COMP_WORDS[1]} $before" in'
    for command, shape in commands.items():
        for flag in shape.flags:
            if flag.values:
                reply = f'$(compgen -W "{" ".join(flag.values)}" -- "$word")'
            elif flag.keys:
                yield (
                    f'    "{command} {flag.name}") compopt -o nospace +o filenames 2>/dev/null;'
                    f' COMPREPLY=($(compgen -W "{" ".join(flag.keys)}" -- "$word")); return ;;'
                )
                continue
            elif flag.names:
                ask = f'$(odradek completion {flag.names} "${{COMP_WORDS[@]:1}}" 2>/dev/null)'
                reply = f'$(compgen -W "{ask}" -- "$word")'
            elif flag.takes_file:
                reply = '$(compgen -f -- "$word")'
            elif flag.takes_value:
                reply = ""
            else:
                continue
            yield f'    "{command} {flag.name}") COMPREPLY=({reply}); return ;;'
    yield "  esac"
    yield '  case "${COMP_WORDS[1]}" in'
    for command, shape in commands.items():
        words = " ".join([*shape.words, *(flag.name for flag in shape.flags)])
        files = ' $(compgen -f -- "$word")' if shape.takes_file else ""
        yield f'    {command}) COMPREPLY=($(compgen -W "{words}" -- "$word"){files}) ;;'
    yield "  esac"
    yield "}"
    yield "complete -o filenames -F _odradek odradek"


def _zsh(commands: dict[str, CommandShape]) -> Iterator[str]:
    yield "#compdef odradek"
    yield "_odradek_names() {"
    yield '  local -a found=(${(f)"$(odradek completion $1 $words 2>/dev/null)"})'
    yield "  compadd -a found"
    yield "}"
    yield "_odradek() {"
    yield "  if (( CURRENT == 2 )); then"
    yield "    local -a names=("
    for command, summary in SUMMARIES.items():
        yield f"      {_zsh_quoted(f'{command}:{summary}')}"
    yield "    )"
    yield "    _describe command names; return"
    yield "  fi"
    yield "  local command=$words[2]"
    yield "  shift words; (( CURRENT-- ))"
    yield "  case $command in"
    for command, shape in commands.items():
        yield f"    {command}) _arguments \\"
        for flag in shape.flags:
            described = f"*{flag.name}[{_bracketed(flag.help)}]{_zsh_value(flag)}"
            yield f"      {_zsh_quoted(described)} \\"
        words = f"({' '.join(shape.words)})" if shape.words else " "
        yield f"      {_zsh_quoted('*:word:' + ('_files' if shape.takes_file else words))} ;;"
    yield "  esac"
    yield "}"
    # If the file is sourced, it registers itself; if zsh loads it from fpath, zsh calls it.
    yield 'if [ "$funcstack[1]" = "_odradek" ]; then _odradek "$@"'
    yield "else compdef _odradek odradek; fi"


def _zsh_value(flag: Flag) -> str:
    if flag.values:
        return f":value:({' '.join(flag.values)})"
    if flag.keys:
        return f":key:{{compadd -S '' -- {' '.join(flag.keys)}}}"
    if flag.names:
        return f":name:{{_odradek_names {flag.names}}}"
    if flag.takes_file:
        return ":file:_files"
    return ":value: " if flag.takes_value else ""


def _bracketed(text: str) -> str:
    return text.replace("\\", "\\\\").replace("[", "\\[").replace("]", "\\]").replace(":", "\\:")


def _zsh_quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _fish(commands: dict[str, CommandShape]) -> Iterator[str]:
    yield "complete -c odradek -f"
    for command, summary in SUMMARIES.items():
        yield (
            f"complete -c odradek -n __fish_use_subcommand -a {command} -d {_fish_quoted(summary)}"
        )
    for command, shape in commands.items():
        seen = f"complete -c odradek -n '__fish_seen_subcommand_from {command}'"
        for flag in shape.flags:
            value = " -x" if flag.takes_value else ""
            if flag.takes_file:
                value = " -r -F"
            if flag.values or flag.keys:
                value += f" -a {_fish_quoted(' '.join(flag.values or flag.keys))}"
            elif flag.names:
                ask = f"(odradek completion {flag.names} (commandline -opc)[2..] 2>/dev/null)"
                value += f" -a {_fish_quoted(ask)}"
            yield f"{seen} -l {flag.name[2:]}{value} -d {_fish_quoted(flag.help)}"
        if shape.words:
            yield f"{seen} -a {_fish_quoted(' '.join(shape.words))}"
        if shape.takes_file:
            yield f"{seen} -F"


def _fish_quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
