"""`odradek zookeeper-shell`: looks at the nodes of the metadata store, as zookeeper-shell does.

It works with a ZooKeeper ensemble, and with the store of `odradek up`, which has the same nodes.
"""

import argparse

from odradek.cli.cluster.zookeeper_connection import add_zookeeper_arguments
from odradek.cli.connection_options import add_json_argument, add_watch_argument
from odradek.cli.parser import FlagParser
from odradek.tools.failures import UsageError

_EXAMPLES = """\
examples:
  odradek zookeeper-shell localhost:2181 ls /brokers/topics
  odradek zookeeper-shell localhost:2181/chroot            # asks for commands
  odradek zookeeper-shell odradek-data get /controller     # the store of `odradek up`
  odradek zookeeper-shell odradek-data ls -R /config
  odradek zookeeper-shell --watch --json odradek-data get /controller

commands: ls [-s] [-R] PATH, get [-s] PATH, stat PATH, delete /controller, help, quit. Deleting
/controller starts the election of a new controller; the other nodes are changed by the tools for
topics, settings and ACLs only, because brokers rely on their versions.
"""

# The commands that change nothing.
LOOKING = ("ls", "ls2", "get", "stat")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "odradek zookeeper-shell [flags] HOST:PORT[/CHROOT]|DIR [COMMAND ...]"
    parser.epilog = _EXAMPLES
    parser.add_argument(
        "store",
        metavar="HOST:PORT|DIR",
        help="a ZooKeeper ensemble, or the data directory of `odradek up` or of a broker",
    )
    command = parser.add_argument(
        "command",
        metavar="COMMAND",
        nargs=argparse.REMAINDER,
        help="one command; without it, commands are read from standard input",
    )
    command.required = False  # `argparse` would name it as missing if the store is.
    add_zookeeper_arguments(parser)
    add_json_argument(parser)
    add_watch_argument(parser)
    if isinstance(parser, FlagParser):
        parser.takes_rest = True


def check(arguments: argparse.Namespace) -> None:
    """Takes `--json` after the command too, and raises for what cannot be repeated."""
    command = arguments.command
    if "--json" in command:
        command.remove("--json")
        arguments.json = True
    if any(word.partition("=")[0] == "--watch" for word in command):
        raise UsageError("write --watch first: odradek zookeeper-shell --watch STORE COMMAND ...")
    if arguments.watch is not None and (not command or command[0] not in LOOKING):
        raise UsageError(f"--watch repeats what only looks: {', '.join(LOOKING)}")


def run(arguments: argparse.Namespace) -> int:
    check(arguments)
    import asyncio

    from odradek.cli.cluster.zookeeper_shell_actions import perform

    return asyncio.run(
        perform(
            arguments.store,
            arguments.command,
            as_json=arguments.json,
            zookeeper_file=arguments.zk_tls_config_file,
        )
    )
