"""Every command that lists or describes takes --json and --watch."""

import argparse

import pytest

from odradek.cli.commands import SUMMARIES, module_name
from odradek.cli.parser import load_tool, visible_flags

# Words by which a command says that it lists or describes, as a flag or as a word of its own.
LOOKING = {"list", "describe", "status", "ls", "get", "cluster-id", "list-endpoints"}
# Commands that do nothing else.
ALWAYS = {"broker-api-versions", "doctor", "get-offsets", "groups", "zookeeper-shell"}


def looks(command: str) -> bool:
    parser = load_tool(command, module_name(command))[1]
    words = {flag[2:] for flag in visible_flags(parser)}
    for action in parser._actions:
        if not action.option_strings and action.help != argparse.SUPPRESS:
            words |= set(map(str, action.choices or ()))
    return bool(words & LOOKING) or command in ALWAYS


LOOKING_COMMANDS = [command for command in SUMMARIES if looks(command)]


def test_the_known_ones_are_found() -> None:
    expected = {"topics", "configs", "consumer-groups", "acls", "transactions", "local", "pipeline"}
    assert expected <= set(LOOKING_COMMANDS)


@pytest.mark.parametrize("command", LOOKING_COMMANDS)
def test_both_flags_are_there(command: str) -> None:
    flags = visible_flags(load_tool(command, module_name(command))[1])
    assert {"--json", "--watch"} <= set(flags)
