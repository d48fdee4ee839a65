"""`odradek shims`: small scripts with the names of Kafka's, so that command lines of books and
blogs work as they are printed.

Each script runs one command of ours with the Python that wrote it. A file that `odradek shims` did
not write is never replaced.
"""

import argparse
import os
import shlex
import sys
from typing import Final

from odradek.cli.commands import KAFKAS
from odradek.tools.failures import CommandFailed
from odradek.tools.files import cannot_create

_EXAMPLES: Final = """\
examples:
  odradek shims ~/kafka/bin
  PATH=~/kafka/bin:$PATH kafka-topics.sh --list

Each name is written with and without .sh: kafka-topics.sh, kafka-topics, zookeeper-shell.sh, ...
"""
_MARK: Final = "# Written by `odradek shims`."
# Scripts whose names are not made from a command of ours, but which `main` understands. For those
# that are not here it says so, and what to type instead.
_OTHER_SCRIPTS: Final = (
    "connect-distributed",
    "connect-mirror-maker",
    "connect-plugin-path",
    "connect-standalone",
    "kafka-client-metrics",
    "kafka-console-share-consumer",
    "kafka-features",
    "kafka-metadata-quorum",
    "kafka-mirror-maker",
    "kafka-preferred-replica-election",
    "kafka-run-class",
    "kafka-run-e2e-latency",
    "kafka-server-start",
    "kafka-share-groups",
    "kafka-streams-application-reset",
    "schema-registry-start",
    "zookeeper-server-start",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "odradek shims DIR"
    parser.epilog = _EXAMPLES
    parser.add_argument("directory", metavar="DIR", help="where the scripts go; created if missing")


def script_names() -> list[str]:
    """Returns the names of Kafka's scripts that are answered here, without `.sh`, sorted."""
    own = [
        command if command.startswith("zookeeper-") else f"kafka-{command}" for command in KAFKAS
    ]
    return sorted([*own, *_OTHER_SCRIPTS])


def run(arguments: argparse.Namespace) -> int:
    directory = os.path.abspath(arguments.directory)
    scripts = {
        os.path.join(directory, name + suffix): _script(name)
        for name in script_names()
        for suffix in ("", ".sh")
    }
    try:
        os.makedirs(directory, exist_ok=True)
        _require_ours(scripts)
        for path, text in scripts.items():
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            os.chmod(path, 0o755)  # noqa: S103 - a script that everybody may run
    except FileExistsError:
        raise CommandFailed(f"{directory} is a file; name a directory for the scripts") from None
    except OSError as error:
        raise CommandFailed(cannot_create(error, "~/.local/bin")) from None
    print(f"{len(scripts)} scripts are in {directory}. To use them, type or add to ~/.profile:")
    print(f"  export PATH={shlex.quote(directory)}:$PATH")
    return 0


def _require_ours(paths: "dict[str, str]") -> None:
    """Raises if one of the files exists and is not ours, before anything is written."""
    for path in paths:
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                is_ours = _MARK in file.read(200)
        except FileNotFoundError:
            continue
        if not is_ours:
            raise CommandFailed(
                f"{path} exists and is not ours; choose another directory, or remove the file"
            )


def _script(name: str) -> str:
    # -P: a directory `odradek` in the current directory is not taken for the package.
    command = shlex.join([sys.executable, "-P", "-m", "odradek.cli", name])
    return f'#!/bin/sh\n{_MARK}\nexec {command} "$@"\n'
