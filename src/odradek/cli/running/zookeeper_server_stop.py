"""`odradek zookeeper-server-stop`: stops ZooKeeper servers that `odradek zookeeper` started.

`odradek zookeeper` notes its process and its configuration file in a directory of the user. A
process is signalled only if it is a ZooKeeper server with that configuration.
"""

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "odradek zookeeper-server-stop [CONFIG ...]"
    parser.add_argument(
        "configs",
        metavar="CONFIG",
        nargs="*",
        help="only the servers of these configuration files (default: all)",
    )


def run(arguments: argparse.Namespace) -> int:
    from odradek.local.stopping import stop_zookeepers

    return stop_zookeepers(arguments.configs)
