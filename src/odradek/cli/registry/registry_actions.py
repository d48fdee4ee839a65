"""Runs the schema registry for `odradek schema-registry-start`."""

import asyncio
import sys
from collections.abc import Sequence

from odradek.cli.web_options import require_web
from odradek.client.errors import SettingsError
from odradek.telemetry.logs import start_logging
from odradek.tools.client_properties import read_properties
from odradek.tools.failures import CommandFailed, UsageError
from odradek.world import World
from odradek.world.event_loop import fastest_loop


def run_from_file(path: str, overrides: Sequence[str]) -> int:
    require_web()
    from odradek.registry.schema_log import UnusableTopic
    from odradek.registry.server import CannotStart, run_registry
    from odradek.registry.settings import SchemaRegistrySettings
    from odradek.web.serving import CannotServe

    properties = read_properties(path)
    for override in overrides:
        name, equals, value = override.partition("=")
        if not equals or not name.strip():
            raise UsageError(f"--override {override} is not KEY=VALUE")
        properties[name.strip()] = value
    try:
        settings = SchemaRegistrySettings.from_file(properties)
    except SettingsError as error:
        raise CommandFailed(f"{path}: {error}") from None
    logging = start_logging("INFO")
    try:
        with asyncio.Runner(loop_factory=fastest_loop()) as runner:
            runner.run(run_registry(settings, _say, _say_ready, World()))
    except* (CannotStart, CannotServe, UnusableTopic) as group:
        raise CommandFailed(str(group.exceptions[0])) from None
    finally:
        logging.stop()
    return 0


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _say_ready(url: str) -> None:
    print(f"the schema registry is ready at {url}", flush=True)
