"""Flags that `up`, `broker` and `local` share. They are in a module of their own, so that showing
help does not import the broker."""

import argparse
import shlex
from typing import Final

from odradek.tools.failures import UsageError


def add_input_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--until-input-closes",
        action="store_true",
        help="stop when standard input ends: for programs that start a broker",
    )


def add_secure_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--secure",
        action="store_true",
        help="with TLS, log-ins (SCRAM) and ACLs: makes certificates, the user admin, and"
        " DIR/client.properties, with which admin logs in",
    )


# The services of `--platform`, and the ports where each listens if no flag says otherwise.
PLATFORM_PORTS: Final = (
    ("registry", 8081),
    ("rest", 8082),
    ("connect", 8083),
    ("sql", 8088),
    ("console", 8080),
)


def add_platform_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--platform",
        action="store_true",
        help="with the schema registry, the REST proxy, Connect, SQL and the console, on this"
        " machine only",
    )
    for service, port in PLATFORM_PORTS:
        parser.add_argument(
            f"--{service}-port",
            metavar="PORT",
            type=int,
            default=port,
            help=f"with --platform (default: {port})",
        )


def add_serving_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--override",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="any broker setting, by Kafka's name; may be repeated",
    )
    parser.add_argument(
        "--log-level",
        choices=("ERROR", "WARN", "INFO", "DEBUG"),
        help="log level of brokers (default: WARN on stderr, INFO into files)",
    )


def add_daemon_argument(parser: argparse.ArgumentParser) -> None:
    """`-daemon` of Kafka's start scripts, which `refuse_daemon` answers."""
    parser.add_argument("--daemon", action="store_true", help=argparse.SUPPRESS)


def refuse_daemon(arguments: argparse.Namespace, command: str) -> None:
    """Raises for `-daemon`: a server stays in the foreground, where its supervisor sees it end."""
    if arguments.daemon:
        config = shlex.quote(arguments.config or "CONFIG")
        raise UsageError(
            f"it stays in the foreground; for the background type: nohup odradek {command} {config}"
            f" > {command}.log 2>&1 &"
        )
