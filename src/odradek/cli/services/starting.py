"""What the commands that start HTTP services share: flags, and how a file becomes settings."""

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from odradek.cli.web_options import require_web
from odradek.tools.client_properties import read_properties
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
        properties = read_properties(arguments.config) if arguments.config else {}
        properties |= parse_overrides(arguments.override)
        return kind.from_file(properties)
    except (SettingsError, InvalidSetting) as error:
        source = f"{arguments.config}: " if arguments.config else ""
        raise CommandFailed(f"{source}{error}") from None


def serve_service(make: "Callable[[], Service]", name: str, arguments: argparse.Namespace) -> int:
    """Runs a service in the foreground, until Ctrl-C. `make` is called within the event loop."""
    import asyncio

    from odradek.client.errors import SettingsError
    from odradek.services.running import run_service
    from odradek.telemetry.logs import start_logging
    from odradek.web.serving import CannotServe
    from odradek.world.event_loop import fastest_loop

    logging = start_logging(arguments.log_level)

    async def main() -> None:
        await run_service(make(), lambda url: print(f"{name} is ready at {url}", flush=True))

    try:
        with asyncio.Runner(loop_factory=fastest_loop()) as runner:
            runner.run(main())
    except (CannotServe, SettingsError) as error:
        raise CommandFailed(str(error)) from None
    finally:
        logging.stop()
    return 0
