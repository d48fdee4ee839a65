"""Runs the schema registry for `odradek schema-registry-start`."""

import argparse

from odradek.cli.services.starting import ready_line, run_in_foreground, say, settings_of
from odradek.cli.web_options import require_web
from odradek.world import World


def run_from_file(arguments: argparse.Namespace) -> int:
    require_web()
    from odradek.registry.schema_log import UnusableTopic
    from odradek.registry.server import run_registry
    from odradek.registry.settings import SchemaRegistrySettings
    from odradek.services.start import CannotStart

    settings = settings_of(SchemaRegistrySettings, arguments)
    main = run_registry(settings, say, ready_line("the schema registry"), World())
    return run_in_foreground(main, arguments.log_level, CannotStart, UnusableTopic)
