"""`odradek zookeeper-security-migration`: gives the nodes of an ensemble to the brokers, or opens
them again, like the tool of that name in Kafka up to 3.9."""

import argparse

from odradek.cli.cluster.zookeeper_connection import add_zookeeper_arguments
from odradek.cli.connection_options import add_json_argument
from odradek.cli.parser import positive_number

_EXAMPLES = """\
examples:
  odradek zookeeper-security-migration --zookeeper.acl secure \\
      --zookeeper.connect zk1:2182/kafka --zk-tls-config-file server.properties

secure: nodes belong to the user that this tool logs in as, which must be that of the brokers.
Everybody may read them, but for nodes with passwords, settings of brokers and tokens.
unsecure: everybody may do everything with them. Set zookeeper.set.acl of the brokers first
(docs/zookeeper-security.md), because they make new nodes meanwhile.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "odradek zookeeper-security-migration --zookeeper.acl secure|unsecure [flags]"
    parser.epilog = _EXAMPLES
    parser.add_argument(
        "--zookeeper.acl",
        dest="acl",
        choices=("secure", "unsecure"),
        required=True,
        help="whether nodes belong to the brokers, or to everybody",
    )
    parser.add_argument(
        "--zookeeper.connect",
        dest="connect",
        metavar="HOST:PORT/CHROOT",
        default="localhost:2181",
        help="the ensemble (default: localhost:2181)",
    )
    for name, what in (("session", "the session timeout"), ("connection", "how long to connect")):
        parser.add_argument(
            f"--zookeeper.{name}.timeout",
            dest=f"{name}_timeout_ms",
            metavar="MS",
            type=positive_number,
            default=30_000,
            help=f"{what}, in milliseconds (default: 30000)",
        )
    parser.add_argument(
        "--enable.path.check",
        dest="checks_paths",
        action="store_true",
        help="change nothing unless all nodes are there that brokers make at their first start",
    )
    add_zookeeper_arguments(parser)
    add_json_argument(parser)


def run(arguments: argparse.Namespace) -> int:
    from odradek.cli.cluster.zookeeper_security_migration_actions import migrate

    return migrate(arguments)
