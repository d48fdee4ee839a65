"""`odradek connect`: a client of Connect workers, for ours and for Apache's."""

import argparse
from typing import Final

from odradek.cli.connection_options import (
    add_connection_arguments,
    add_json_argument,
    add_watch_argument,
)
from odradek.cli.parser import positive_number, whole_number
from odradek.tools.failures import MissingFlag, UsageError

DEFAULT_WORKER: Final = "http://127.0.0.1:8083"
VARIABLE: Final = "ODRADEK_CONNECT"
_EXAMPLES: Final = """\
examples:
  odradek connect list                              # connectors and how they are
  odradek connect status my-source                  # its tasks, and why one failed
  odradek connect validate my-source.json           # every wrong setting, in one table
  odradek connect preview my-source.json            # the next ten records; nothing is written
  odradek connect create my-source.json             # or a properties file; changes one that exists
  odradek connect config my-source batch.size=500   # changes settings; batch.size= removes one
  odradek connect restart my-source --failed        # its tasks too, those that failed
  odradek connect offsets my-source --reset         # reads from the beginning; stop it first
  odradek connect logs my-source -f                 # its log lines, as they are written
  odradek connect new weather                       # a connector of your own, with a test
  odradek connect dlq redrive my-sink               # dead letters back to their topics

A FILE is JSON as `POST /connectors` takes it, or a properties file; - is standard input.
"""
# The words that each action takes, and what they are.
WORDS: Final = {
    "list": ("", 0, 0),
    "status": ("[NAME]", 0, 1),
    "create": ("FILE...", 1, 1_000),
    "validate": ("FILE", 1, 1),
    "preview": ("NAME or FILE", 1, 1),
    "pause": ("NAME...", 1, 1_000),
    "resume": ("NAME...", 1, 1_000),
    "stop": ("NAME...", 1, 1_000),
    "restart": ("NAME...", 1, 1_000),
    "delete": ("NAME...", 1, 1_000),
    "config": ("NAME [KEY=VALUE...]", 1, 1_000),
    "offsets": ("NAME", 1, 1),
    "topics": ("NAME", 1, 1),
    "plugins": ("[CLASS]", 0, 1),
    "logs": ("NAME", 1, 1),
    "new": ("NAME", 1, 1),
    "dlq": ("redrive NAME", 2, 2),
}
_CHANGING: Final = (
    "create", "pause", "resume", "stop", "restart", "delete", "config", "offsets", "new", "dlq",
)  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = f"odradek connect {'|'.join(WORDS)} [NAME] [FILE] [flags]"
    parser.epilog = _EXAMPLES
    parser.add_argument("action", choices=tuple(WORDS), help="what to do")
    parser.add_argument("words", metavar="NAME", nargs="*", help="a connector, a file; see below")
    group = parser.add_argument_group("what exactly")
    group.add_argument(
        "--state", choices=("RUNNING", "PAUSED", "STOPPED"), type=str.upper,
        help="with create: how it begins (default: RUNNING)",
    )  # fmt: skip
    group.add_argument("--task", metavar="N", type=whole_number, help="with restart: one task")
    group.add_argument(
        "--failed", action="store_true", help="with restart: what failed, its tasks too"
    )
    group.add_argument("--tasks", action="store_true", help="with restart: its tasks too")
    group.add_argument(
        "--reset", action="store_true", help="with offsets: from the beginning; topics: forget them"
    )
    group.add_argument(
        "--set", metavar="FILE", help="with offsets: as JSON, in the form that is shown"
    )
    group.add_argument(
        "-f", "--follow", action="store_true", help="with logs: lines that are written later, too"
    )
    group.add_argument("--all", action="store_true", help="with plugins: transforms and converters")
    group.add_argument(
        "--count", metavar="N", type=positive_number, default=10,
        help="with preview: how many records (default: 10)",
    )  # fmt: skip
    group.add_argument(
        "--topic", metavar="TOPIC",
        help="with dlq: the dead-letter topic (default: as the connector says)",
    )  # fmt: skip
    group.add_argument(
        "--to", metavar="TOPIC", help="with dlq: the topic to write to (default: where it was read)"
    )
    _add_worker_arguments(parser)
    add_json_argument(parser)
    add_watch_argument(parser, changing=_CHANGING)
    add_connection_arguments(parser)


def _add_worker_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("the worker")
    group.add_argument(
        "--worker", metavar="URL",
        help=f"a worker, as https://user:password@host:8083 if it asks for a log-in (default:"
        f" ${VARIABLE} or {DEFAULT_WORKER})",
    )  # fmt: skip
    group.add_argument("--ca", metavar="FILE", help="the authority of the worker's certificate")


def run(arguments: argparse.Namespace) -> int:
    _check_words(arguments)
    if arguments.action == "new":
        from odradek.cli.connect.template import write_template

        return write_template(arguments.words[0])
    if arguments.action == "dlq":
        from odradek.cli.connect.redrive import redrive

        return redrive(arguments)
    from odradek.cli.connect.connect_actions import carry_out

    return carry_out(arguments)


def _check_words(arguments: argparse.Namespace) -> None:
    action, words = arguments.action, arguments.words
    shown, least, most = WORDS[action]
    if len(words) < least:
        raise MissingFlag(f"write: odradek connect {action} {shown}")
    if len(words) > most:
        raise UsageError(f"odradek connect {action} {shown}: {words[most]!r} is too much")
    if action == "dlq" and words[0] != "redrive":
        raise UsageError(f"odradek connect dlq redrive NAME, not {words[0]!r}")
