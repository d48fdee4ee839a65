"""`odradek local`: a cluster on this machine in the background."""

import argparse

from odradek.cli.connection_options import add_json_argument
from odradek.cli.parser import positive_number
from odradek.cli.running.options import add_serving_arguments
from odradek.cli.running.up import DEFAULT_PORT, port_number

_EXAMPLES = """\
examples:
  odradek local start                      # three brokers at 127.0.0.1:9092, 9093 and 9094
  odradek local status
  odradek local stop                       # keeps the data for the next `start`

It is `odradek up --brokers 3` with its output in DIR/up.log. `status` ends with 0 if every broker
runs, with 1 if some do not, with 3 if none does.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "odradek local start|stop|status [flags]"
    parser.epilog = _EXAMPLES
    parser.add_argument("action", choices=("start", "stop", "status"), help="what to do")
    parser.add_argument(
        "--data",
        metavar="DIR",
        default="./odradek-local",
        help="the directory of the cluster (default: ./odradek-local)",
    )
    parser.add_argument(
        "--brokers",
        metavar="N",
        type=positive_number,
        default=3,
        help="with start: how many (default: 3)",
    )
    parser.add_argument(
        "--port",
        metavar="PORT",
        type=port_number,
        default=DEFAULT_PORT,
        help=f"with start: where the first listens; 0 takes free ports (default: {DEFAULT_PORT})",
    )
    parser.add_argument(
        "--host", metavar="HOST", default="127.0.0.1", help="with start (default: 127.0.0.1)"
    )
    parser.add_argument(
        "--zookeeper", metavar="HOST:PORT/CHROOT", help="with start: keep metadata there"
    )
    add_serving_arguments(parser)
    add_json_argument(parser)


def run(arguments: argparse.Namespace) -> int:
    from odradek.local.background import start, status, stop

    return {"start": start, "stop": stop, "status": status}[arguments.action](arguments)
