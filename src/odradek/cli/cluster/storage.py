"""`odradek storage`: prepares the metadata store of a cluster before its first start, by the name
and flags of Kafka's tool."""

import argparse

from odradek.cli.connection_options import add_json_argument

_EXAMPLES = """\
examples:
  odradek storage random-uuid
  odradek storage format -t 4L6g3nShT-eMCtK--X86sw -c server.properties \\
      --add-scram 'SCRAM-SHA-512=[name=admin,password=admin-secret]'
  odradek storage info -c server.properties

Brokers make their directories and their metadata store themselves, so `format` is needed only for
users that must be there before the first start, or for a cluster id of your own. The store is the
one that the file names: SQLite, the store of `odradek up`, or a ZooKeeper ensemble.
"""

# Kafka's flags that have no effect: there is no quorum of controllers and no metadata version.
_WITHOUT_EFFECT = ("--standalone", "--no-initial-controllers")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "odradek storage format|info|random-uuid [flags]"
    parser.epilog = _EXAMPLES
    parser.add_argument("action", choices=("format", "info", "random-uuid"), help="what to do")
    parser.add_argument("-c", "--config", metavar="FILE", help="the settings of a broker")
    parser.add_argument(
        "-t", "--cluster-id", metavar="ID", help="with format: the cluster id (default: a new one)"
    )
    parser.add_argument(
        "-S",
        "--add-scram",
        metavar="MECHANISM=[name=USER,password=...]",
        action="append",
        default=[],
        help="with format: a user who logs in by SCRAM; may be repeated",
    )
    parser.add_argument(
        "-g",
        "--ignore-formatted",
        action="store_true",
        help="with format: a store that has a cluster id already is no error",
    )
    for flag in _WITHOUT_EFFECT:
        parser.add_argument(flag, action="store_true", help=argparse.SUPPRESS)
    for flag in ("--feature", "--release-version", "--initial-controllers"):
        parser.add_argument(flag, action="append", help=argparse.SUPPRESS)
    add_json_argument(parser)


def run(arguments: argparse.Namespace) -> int:
    from odradek.cli.cluster.storage_actions import ACTIONS

    return ACTIONS[arguments.action](arguments)
