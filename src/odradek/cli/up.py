"""`odradek up`: a broker in the foreground, with nothing to configure."""

import argparse

from odradek.cli.failures import UsageError
from odradek.cli.parser import positive_number, whole_number
from odradek.cli.serving_options import add_serving_arguments

DEFAULT_PORT = 9092

_EXAMPLES = """\
examples:
  odradek up                                        # 127.0.0.1:9092, data in ./odradek-data
  odradek up --memory --port 0                      # any free port, nothing kept
  odradek up --override num.partitions=3 --override log.retention.ms=3600000

A new group waits for no further members (group.initial.rebalance.delay.ms=0), so a consumer
reads at once, and members of the new protocol hear of changes within half a second
(group.consumer.heartbeat.interval.ms=500). `odradek broker` takes 3 and 5 seconds, as Kafka does
in production.
"""

# For laptops and CI, where nobody wants to wait and groups are small.
_DEFAULTS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.consumer.min.heartbeat.interval.ms": "500",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EXAMPLES
    parser.add_argument(
        "--port",
        metavar="PORT",
        type=port_number,
        default=DEFAULT_PORT,
        help=f"where to listen; 0 takes any free port (default: {DEFAULT_PORT})",
    )
    parser.add_argument(
        "--host",
        metavar="HOST",
        default="127.0.0.1",
        help="the address to listen on, and to tell clients (default: 127.0.0.1)",
    )
    parser.add_argument(
        "--data",
        metavar="DIR",
        default="./odradek-data",
        help="where records and metadata are kept; created if missing (default: ./odradek-data)",
    )
    parser.add_argument("--memory", action="store_true", help="keep nothing on disk")
    add_serving_arguments(parser)
    parser.add_argument(
        "--until-input-closes",
        action="store_true",
        help="stop when standard input ends: for programs that start a broker",
    )
    parser.add_argument(
        "--brokers", metavar="N", type=positive_number, default=1, help=argparse.SUPPRESS
    )


def port_number(text: str) -> int:
    port = whole_number(text)
    if not 0 <= port <= 65535:
        raise argparse.ArgumentTypeError(f"{port} is not a port; ports go from 0 to 65535")
    return port


def properties_for(arguments: argparse.Namespace) -> dict[str, str]:
    if "," in arguments.data:
        raise UsageError("--data takes one directory; give several with --override log.dirs=A,B")
    host = arguments.host
    if ":" in host and not host.startswith("["):
        host = f"[{host}]"
    return _DEFAULTS | {
        "listeners": f"PLAINTEXT://{host}:{arguments.port}",
        "log.dirs": arguments.data,
    }


def run(arguments: argparse.Namespace) -> int:
    if arguments.brokers > 1:
        raise UsageError("several brokers at once are not part of this version yet; use one")
    from odradek.cli.serving import serve, settings_from

    settings = settings_from(
        properties_for(arguments), arguments.override, in_memory=arguments.memory
    )
    return serve(
        settings,
        log_level=arguments.log_level,
        in_memory=arguments.memory,
        until_input_closes=arguments.until_input_closes,
    )
