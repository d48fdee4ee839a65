"""`odradek local`: a cluster on this machine in the background."""

import argparse

from odradek.cli.connection_options import add_json_argument, add_watch_argument
from odradek.cli.parser import directory_name, positive_number
from odradek.cli.quantities import size_bytes
from odradek.cli.running.options import (
    add_platform_arguments,
    add_secure_argument,
    add_serving_arguments,
)
from odradek.cli.running.up import DEFAULT_PORT, DEFAULTS, port_number

# Bytes a second. A broker can send more, so clients are served meanwhile.
DEFAULT_THROTTLE = 100_000_000

_EXAMPLES = """\
examples:
  odradek local start                      # three brokers at 127.0.0.1:9092, 9093 and 9094
  odradek local status
  odradek local start --secure             # with TLS, log-ins and ACLs
  odradek local stop                       # keeps the data for the next `start`
  odradek local grow --data ./odradek-data --plan       # what the next line would do
  odradek local grow --data ./odradek-data              # `odradek up` becomes three brokers

It is `odradek up --brokers 3` with its output in DIR/up.log. `status` ends with 0 if every broker
runs, with 1 if some do not, with 3 if none does.

`grow` makes a cluster of a single broker that `odradek up` or `odradek local start --brokers 1` has
started, with its data: clients see one restart of that broker. If it is interrupted, the same
command goes on.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "odradek local start|stop|status|grow [flags]"
    parser.epilog = _EXAMPLES
    parser.add_argument("action", choices=("start", "stop", "status", "grow"), help="what to do")
    parser.add_argument(
        "--data",
        metavar="DIR",
        type=directory_name,
        default="./odradek-local",
        help="the directory of the cluster (default: ./odradek-local)",
    )
    parser.add_argument(
        "--brokers",
        metavar="N",
        type=positive_number,
        default=3,
        help="with start and grow: how many (default: 3)",
    )
    parser.add_argument(
        "--port",
        metavar="PORT",
        type=port_number,
        help=f"with start: where the first listens; 0 takes free ports (default: {DEFAULT_PORT});"
        " with grow: where the single broker listens, if its log does not say it",
    )
    parser.add_argument(
        "--host",
        metavar="HOST",
        default="127.0.0.1",
        help="with start and grow: the address on which brokers listen (default: 127.0.0.1)",
    )
    parser.add_argument(
        "--zookeeper",
        metavar="HOST:PORT/CHROOT",
        help="with start: keep the metadata in this ZooKeeper",
    )
    parser.add_argument(
        "--throttle",
        metavar="BYTES",
        type=size_bytes,
        default=DEFAULT_THROTTLE,
        help="with grow: how many bytes a second are copied to new brokers, as in 20MB; 0 for no"
        " limit (default: 100MB)",
    )
    parser.add_argument(
        "--plan", action="store_true", help="with grow: show what would happen, change nothing"
    )
    add_secure_argument(parser)
    add_platform_arguments(parser)
    add_serving_arguments(parser)
    add_json_argument(parser)
    add_watch_argument(parser, changing=("start", "stop", "grow"))


def run(arguments: argparse.Namespace) -> int:
    if arguments.action == "grow":
        from odradek.cli.running.grow_actions import grow

        arguments.defaults = DEFAULTS
        return grow(arguments)
    from odradek.local.background import start, status, stop

    if arguments.port is None:
        arguments.port = DEFAULT_PORT
    return {"start": start, "stop": stop, "status": status}[arguments.action](arguments)
