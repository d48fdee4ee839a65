"""What the commands that start HTTP services share: flags, how a file becomes settings, and how a
service runs in the foreground."""

import argparse
import sys
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from odradek.cli.web_options import require_web
from odradek.tools.client_properties import read_properties, with_secrets
from odradek.tools.failures import CommandFailed

if TYPE_CHECKING:
    from odradek.services.running import Service
    from odradek.services.settings import ServiceSettings

S = TypeVar("S", bound="ServiceSettings")


def add_service_arguments(
    parser: argparse.ArgumentParser, file: str, names: str = "Confluent's names"
) -> None:
    """`file` is what the properties file of the service is usually called, and `names` whose names
    its settings have."""
    parser.add_argument(
        "config", metavar="CONFIG", nargs="?",
        help=f"a properties file with {names}, as config/{file}; without it, defaults",
    )  # fmt: skip
    add_process_arguments(parser)


def add_process_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the flags that a service with any properties file has."""
    parser.add_argument(
        "--override", metavar="KEY=VALUE", action="append", default=[],
        help="sets one setting, over the file; may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--log-level", metavar="LEVEL", default="INFO",
        choices=("ERROR", "WARN", "INFO", "DEBUG"),
        help="how much is written to stderr: ERROR, WARN, INFO or DEBUG (default: INFO)",
    )  # fmt: skip


def settings_of(kind: type[S], arguments: argparse.Namespace) -> S:
    """Returns the settings of the file and the flags; ends the command for what is wrong."""
    require_web()
    from odradek.client.errors import SettingsError
    from odradek.config import InvalidSetting, parse_overrides

    try:
        overrides = with_secrets(parse_overrides(arguments.override))
    except InvalidSetting as error:
        raise CommandFailed(str(error)) from None
    properties = read_properties(arguments.config) if arguments.config else {}
    try:
        return kind.from_file(properties | overrides)
    except (SettingsError, InvalidSetting) as error:
        source = f"{arguments.config}: " if arguments.config else ""
        raise CommandFailed(f"{source}{error}") from None


def serve_service(make: "Callable[[], Service]", name: str, arguments: argparse.Namespace) -> int:
    """Runs a service in the foreground, until Ctrl-C. `make` is called within the event loop."""
    from odradek.services.running import run_service

    async def main() -> None:
        await run_service(make(), ready_line(name))

    return run_in_foreground(main(), arguments.log_level)


def run_in_foreground(
    main: Coroutine[Any, Any, None], log_level: str, *expected: type[Exception]
) -> int:
    """Runs a service until Ctrl-C, with log lines on the terminal. Failures of the expected kinds
    end the command with one line, also those in an exception group."""
    import asyncio

    from odradek.client.errors import SettingsError
    from odradek.telemetry.logs import start_logging
    from odradek.web.serving import CannotServe
    from odradek.world.event_loop import fastest_loop

    logging = start_logging(log_level)
    try:
        with asyncio.Runner(loop_factory=fastest_loop()) as runner:
            runner.run(main)
    except Exception as failure:
        first = failure
        while isinstance(first, ExceptionGroup):
            first = first.exceptions[0]
        if not isinstance(first, (CannotServe, SettingsError, *expected)):
            raise
        raise CommandFailed(str(first)) from None
    finally:
        logging.stop()
    return 0


def ready_line(name: str) -> Callable[[str], None]:
    """Returns a function that prints that the service answers at a URL."""
    return lambda url: print(f"{name} is ready at {url}", flush=True)


def say(text: str) -> None:
    """Prints what a service reports while it starts."""
    print(text, file=sys.stderr, flush=True)
