"""`odradek top`: a live page of the cluster: brokers, topics, partitions, groups, events."""

import argparse
import sys
from typing import TYPE_CHECKING, Final

from odradek.cli.connection_options import (
    add_connection_arguments,
    add_json_argument,
)
from odradek.cli.lag.query_options import add_query_arguments
from odradek.tools.failures import UsageError

if TYPE_CHECKING:
    from odradek.cli.top.page import Page

# As in `page.NAMES`, which is not imported to show a help text; a test compares them.
PANEL_NAMES: Final = ("overview", "brokers", "topics", "partitions", "groups", "events")
_EXAMPLES = """\
keys: q quits, 1 to 6 and Tab choose a panel, s sorts, / filters, p pauses, ? explains more

Bytes that consumers fetch, requests, processor and memory come from the management ports of
brokers (docs/monitoring.md), which brokers tell to those who may describe their settings. Without
them, as with Apache Kafka, these are not known; all else comes from Kafka's own requests.

examples:
  odradek top                                       # the page; q quits
  odradek top --panel groups                        # begins with consumer groups
  odradek top --once                                # prints the figures of 2 seconds, and ends
  odradek top --json --interval 10                  # the same of 10 seconds, for programs
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EXAMPLES
    parser.add_argument(
        "--interval",
        metavar="SECONDS",
        type=interval_s,
        default=2.0,
        help="how often brokers are asked (default: 2); with --once, 0 shows no rates",
    )
    parser.add_argument(
        "--panel", metavar="NAME", choices=PANEL_NAMES, default="overview",
        help=f"what is shown first: {', '.join(PANEL_NAMES)} (default: overview)",
    )  # fmt: skip
    parser.add_argument(
        "--filter", metavar="TEXT", default="", help="show only what contains the text"
    )
    parser.add_argument(
        "--sort",
        metavar="COLUMN",
        help="sort the panel by this column, as LAG or IN/s; needs --panel",
    )
    parser.add_argument(
        "--management",
        metavar="URL",
        action="append",
        default=[],
        help="a management port, as http://host:port, if brokers tell another address than can be"
        " reached from here; may be repeated",
    )
    add_query_arguments(parser)
    parser.add_argument("--once", action="store_true", help="print the figures once, and end")
    add_json_argument(parser)
    add_connection_arguments(parser)


def interval_s(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds") from None
    if not (seconds == 0 or 0.2 <= seconds <= 3600):
        raise argparse.ArgumentTypeError(f"{text} is not between 0.2 and 3600 seconds")
    return seconds


def run(arguments: argparse.Namespace) -> int:
    is_live = not arguments.once and not arguments.json
    if is_live and not sys.stdout.isatty():
        raise UsageError("standard output is not a terminal; --once prints the figures, --json too")
    if is_live and not arguments.interval:
        raise UsageError("--interval 0 belongs to --once; the page needs at least 0.2")
    arguments.ports = _ports(arguments.management)
    from odradek.cli.top.page import Page
    from odradek.tools.client_properties import bootstrap_servers

    page = Page(
        bootstrap_servers(arguments)[0], panel=arguments.panel, filter_text=arguments.filter
    )
    if arguments.sort is not None:
        _sort(page, arguments.panel, arguments.sort)
    if not is_live:
        import asyncio

        from odradek.cli.top.printing import print_once

        return asyncio.run(print_once(arguments, page))
    return _show(arguments, page)


def _show(arguments: argparse.Namespace, page: "Page") -> int:
    from odradek.cli.top.screen import Screen

    with Screen() as screen:
        # Before the client is imported, which takes longer than all before it.
        screen.draw(page.lines(*screen.size()))
        import asyncio

        from odradek.cli.top.live import show_live

        try:
            return asyncio.run(show_live(arguments, page, screen))
        except KeyboardInterrupt:
            return 0


def _sort(page: "Page", panel: str, column: str) -> None:
    from odradek.cli.top.panels import PANELS
    from odradek.cli.top.tables import Order

    if panel == "overview":
        raise UsageError("--sort needs a panel, as in --panel groups --sort LAG")
    headers = {
        one.header.casefold(): one.header
        for known in PANELS
        if known.name == panel
        for one in known.columns
    }
    if column.casefold() not in headers:
        raise UsageError(
            f"--sort {column}: the columns of {panel} are {', '.join(headers.values())}"
        )
    page.orders[panel] = Order(headers[column.casefold()])


def _ports(urls: list[str]) -> list[tuple[str, int]]:
    if not urls:
        return []
    from odradek.ops.top.management import address_of

    ports = []
    for url in urls:
        address = address_of(url, "127.0.0.1")
        if address is None:
            raise UsageError(f"--management {url} is not http://host:port")
        ports.append(address)
    return ports
