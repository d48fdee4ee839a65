"""`odradek server-stop`: stops brokers of this machine, as kafka-server-stop does.

A broker is known by its directory: it holds the lock of the directory, and `broker.pid` in it says
which process it is. No other process is ever signalled.
"""

import argparse

_EXAMPLES = """\
examples:
  odradek server-stop                              # the brokers of this machine's only cluster
  odradek server-stop odradek-data                 # one broker, or the brokers of a cluster
  odradek server-stop odradek-data/broker-2

It waits until they have stopped. Brokers in memory have no directory: end them with Ctrl-C.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "odradek server-stop [DIR ... | --all]"
    parser.epilog = _EXAMPLES
    parser.add_argument(
        "directories",
        metavar="DIR",
        nargs="*",
        help="data directories of brokers, or settings files (default: of all that run, if they"
        " belong to one cluster)",
    )
    parser.add_argument(
        "--all", action="store_true", help="all brokers of this user, of whichever cluster"
    )


def run(arguments: argparse.Namespace) -> int:
    from odradek.local.stopping import stop_brokers

    return stop_brokers(arguments.directories, every_cluster=arguments.all)
