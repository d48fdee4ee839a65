"""`odradek logs`: the application logs of all brokers of this machine in one place."""

import argparse

from odradek.cli.connection_options import add_json_argument
from odradek.cli.parser import whole_number
from odradek.cli.quantities import duration_s

LEVELS = ("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL")
_EXAMPLES = """\
examples:
  odradek logs                               # of ./odradek-data or ./odradek-local
  odradek logs -f                            # and what is written from now on, until Ctrl-C
  odradek logs odradek-local --level WARN --since 10m
  odradek logs -f --grep 'orders-[0-9]+'     # a regular expression
  odradek logs /var/log/odradek --broker broker-2 --lines 1000

Lines of all brokers are merged by time. They are read from files of this machine: brokers elsewhere
have their own.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "odradek logs [DIR ...] [-f] [flags]"
    parser.epilog = _EXAMPLES
    parser.add_argument(
        "places",
        metavar="DIR",
        nargs="*",
        help="the data directory of a broker or a cluster, its settings file, or a directory of"
        " logs (default: ./odradek-data or ./odradek-local)",
    )
    parser.add_argument(
        "-f", "--follow", action="store_true", help="go on with what is written, until Ctrl-C"
    )
    parser.add_argument(
        "-n",
        "--lines",
        metavar="N",
        type=whole_number,
        default=100,
        help="how many of the newest lines are shown first (default: 100)",
    )
    parser.add_argument("--level", choices=LEVELS, help="lines of this level and above")
    parser.add_argument(
        "--grep", metavar="REGEX", help="lines that this regular expression finds something in"
    )
    parser.add_argument(
        "--since", metavar="TIME", type=duration_s, help="not older than this, as in 10m or 2h"
    )
    parser.add_argument(
        "--broker",
        metavar="NAME",
        action="append",
        default=[],
        help="of this broker only, as in broker-2 or 2; may be repeated",
    )
    add_json_argument(parser)


def run(arguments: argparse.Namespace) -> int:
    from odradek.cli.running.logs_actions import show_logs

    return show_logs(arguments)
