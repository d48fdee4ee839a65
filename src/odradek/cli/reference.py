"""Writes the reference page of the command line from the parsers.

`python -m odradek.cli.reference docs/reference/cli.md`; a test keeps the page current.
"""

import argparse
import sys
from collections.abc import Iterator

from odradek.cli.commands import GROUPS, SUMMARIES, module_name
from odradek.cli.parser import load_tool

_OPENING = """\
# Command line

Made from the tools' own declarations by `python -m odradek.cli.reference docs/reference/cli.md`.

Every tool answers to Kafka's name as well: `odradek kafka-topics.sh --list` is
`odradek topics --list`, and `odradek shims DIR` writes scripts with Kafka's names. One dash before
a flag is enough (`-describe`), as in Kafka. Flags may be shortened as long as they stay
unambiguous. Older spellings (`--zookeeper`, `--broker-list`, `--property`, `--producer.config` and
the like) give the same result and a hint. A tool that fails says why in one line and ends with 1,
or with 2 when the command line itself was wrong; `ODRADEK_DEBUG=1` shows the whole traceback. Tools
look for a broker at `--bootstrap-server`, else where the file of `--command-config` says it
(`bootstrap.servers`), else at `$ODRADEK_BOOTSTRAP`, else at 127.0.0.1:9092.

Clusters have names in `~/.config/odradek/config.toml` (or the file that `$ODRADEK_CONFIG` names).
`odradek --profile staging topics --list` asks the brokers of one; `profile` says which one is meant
otherwise, unless `$ODRADEK_PROFILE` or `$ODRADEK_BOOTSTRAP` is set. Flags win over a profile.

```toml
profile = "laptop"

[profiles.laptop]
bootstrap.servers = "127.0.0.1:9092"

[profiles.staging]
bootstrap.servers = "staging-1:9092,staging-2:9092"
request.timeout.ms = 60000
```

Every command that lists or describes takes `--json` for programs, and `--watch` to show it again
and again. Of the others, those that print a result take `--json` too.
Colours are switched off by `NO_COLOR`.

Completion: `odradek completion bash|zsh|fish` prints the script for your shell;
`odradek completion --help` says where it goes.
"""


def reference() -> str:
    return "\n".join(_page()) + "\n"


def _page() -> Iterator[str]:
    yield _OPENING
    for command, summary in SUMMARIES.items():
        yield f"- [`odradek {command}`](#odradek-{command}): {summary}"
    for group, commands in GROUPS.items():
        yield f"\n## {group}"
        for command in commands:
            yield from _command(command)


def _command(command: str) -> Iterator[str]:
    _, parser = load_tool(command, module_name(command))
    yield f"\n### odradek {command}\n"
    yield f"{parser.description}\n"
    yield f"```\n{parser.usage}\n```\n"
    yield "| flag | meaning |"
    yield "|---|---|"
    for action in parser._actions:
        if action.help != argparse.SUPPRESS and "--help" not in action.option_strings:
            yield f"| {_flag(action)} | {_cell((action.help or '').replace('%%', '%'))} |"
    if parser.epilog:
        yield f"\n```\n{parser.epilog.rstrip()}\n```"


def _flag(action: argparse.Action) -> str:
    value = action.metavar or "\\|".join(map(str, action.choices or ()))
    if not action.option_strings:
        return f"`{value}`"
    takes = "" if action.nargs == 0 else f" {value}"
    return f"`{', '.join(action.option_strings)}{takes}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("*", "\\*")


if __name__ == "__main__":
    from odradek.world.disk import OsDisk

    OsDisk().replace(sys.argv[1], reference().encode())
