"""`odradek completion`: a completion script for the user's shell, made from the parsers.

The script is generated from the flags that the tools declare, so it cannot become outdated. It
completes commands, flags, the values of flags that have a fixed choice, and file names. It does not
run odradek, so completion is instant.
"""

import argparse
from collections.abc import Iterator
from typing import NamedTuple

from odradek.cli.commands import SUMMARIES, module_name
from odradek.cli.parser import load_tool

_FILE_METAVARS = frozenset({"FILE", "DIR", "CONFIG"})

_INSTALLATION = """\
bash:  echo 'source <(odradek completion bash)' >> ~/.bashrc
zsh:   odradek completion zsh > "${fpath[1]}/_odradek"
fish:  odradek completion fish > ~/.config/fish/completions/odradek.fish
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "odradek completion bash|zsh|fish"
    parser.epilog = "To install:\n" + _INSTALLATION
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), help="the shell you use")


def run(arguments: argparse.Namespace) -> int:
    write = {"bash": _bash, "zsh": _zsh, "fish": _fish}[arguments.shell]
    print("\n".join(write(dict(_commands()))))
    return 0


class Flag(NamedTuple):
    name: str
    help: str
    takes_value: bool
    values: tuple[str, ...]
    takes_file: bool


class CommandShape(NamedTuple):
    flags: list[Flag]
    words: tuple[str, ...]
    """What may stand without a flag before it, where that is a fixed choice."""
    takes_file: bool


def _commands() -> Iterator[tuple[str, CommandShape]]:
    for command in SUMMARIES:
        _, parser = load_tool(command, module_name(command))
        yield command, shape_of(parser)


def shape_of(parser: argparse.ArgumentParser) -> CommandShape:
    flags: list[Flag] = []
    words: tuple[str, ...] = ()
    takes_file = False
    for action in parser._actions:
        if action.help == argparse.SUPPRESS:
            continue
        values = tuple(map(str, action.choices or ()))
        is_file = action.metavar in _FILE_METAVARS
        if not action.option_strings:
            words += values
            takes_file = takes_file or is_file
        long = [flag for flag in action.option_strings if flag.startswith("--")]
        flags += [Flag(f, _short(action), action.nargs != 0, values, is_file) for f in long]
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
            if flag.values:
                value += f" -a {_fish_quoted(' '.join(flag.values))}"
            yield f"{seen} -l {flag.name[2:]}{value} -d {_fish_quoted(flag.help)}"
        if shape.words:
            yield f"{seen} -a {_fish_quoted(' '.join(shape.words))}"
        if shape.takes_file:
            yield f"{seen} -F"


def _fish_quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
