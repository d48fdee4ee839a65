"""`odradek console`: the web console in the foreground."""

import argparse
import os

from odradek.cli.services.starting import add_service_arguments, serve_service, settings_of
from odradek.tools.failures import CommandFailed

_EXAMPLES = """\
examples:
  odradek console                                          # brokers at 127.0.0.1:9092
  odradek console --bootstrap-server broker:9092
  odradek console console.properties                       # several clusters, log-in, masks

Open http://127.0.0.1:8080 in a browser. Users log in as themselves where the brokers need a log-in;
the console has none of its own: docs/console.md.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = (
        "odradek console [--bootstrap-server SERVERS] [CONFIG] [--override KEY=VALUE ...]"
    )
    parser.epilog = _EXAMPLES
    add_service_arguments(parser, "console.properties", "our names, and Confluent's for clients")
    parser.add_argument(
        "--bootstrap-server", metavar="SERVERS",
        help="brokers to learn the cluster from (default: those of the file; without a file"
        " $ODRADEK_BOOTSTRAP or 127.0.0.1:9092)",
    )  # fmt: skip
    parser.add_argument(
        "--port", metavar="PORT", type=int, help="serve at http://127.0.0.1:PORT (default: 8080)"
    )
    parser.add_argument("--read-only", action="store_true", help="refuse to change anything")


def run(arguments: argparse.Namespace) -> int:
    from odradek.cli.web_options import require_web

    require_web()
    from odradek.console import missing

    advice = missing()
    if advice is not None:
        raise CommandFailed(advice)
    from odradek.console.service import ConsoleService
    from odradek.console.settings import ConsoleSettings

    bootstrap = arguments.bootstrap_server
    if not bootstrap and not arguments.config:
        bootstrap = os.environ.get("ODRADEK_BOOTSTRAP")
    if bootstrap:
        # In front, so that an --override of the same setting wins over the environment.
        arguments.override.insert(0, f"bootstrap.servers={bootstrap}")
    if arguments.port is not None:
        arguments.override.append(f"listeners=http://127.0.0.1:{arguments.port}")
    if arguments.read_only:
        arguments.override.append("odradek.read.only=true")
    settings = settings_of(ConsoleSettings, arguments)
    return serve_service(lambda: ConsoleService(settings), "the console", arguments)
