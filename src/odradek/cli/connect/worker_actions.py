"""Runs a worker for `odradek connect-standalone` and `odradek connect-distributed`."""

import argparse
from collections.abc import Iterable, Mapping
from typing import TypeVar

from odradek.cli.connect.connector_files import connector_of
from odradek.cli.services.starting import ready_line, run_in_foreground, say
from odradek.client.errors import SettingsError
from odradek.config import InvalidSetting, parse_overrides
from odradek.connect.worker.server import run_connect
from odradek.connect.worker.settings import DistributedSettings, StandaloneSettings, WorkerSettings
from odradek.services.start import CannotStart
from odradek.tools.client_properties import read_unresolved, with_secrets
from odradek.tools.failures import CommandFailed

S = TypeVar("S", bound=WorkerSettings)

ConnectorFile = tuple[str, Mapping[str, str]]


def worker_settings(kind: type[S], arguments: argparse.Namespace) -> S:
    """Returns the settings of the file and the flags; ends the command for what is wrong."""
    try:
        properties = read_unresolved(arguments.config) | parse_overrides(arguments.override)
        # Connectors may refer to secrets by the providers that are declared here.
        providers = {
            name: text for name, text in properties.items() if name.startswith("config.providers")
        }
        return kind.from_file(with_secrets(properties) | providers)
    except (SettingsError, InvalidSetting) as error:
        raise CommandFailed(f"{arguments.config}: {error}") from None


def connector_files(paths: Iterable[str]) -> list[ConnectorFile]:
    """Returns the properties of connectors, by the names of their files."""
    return [(path, connector_of(path)[1]) for path in paths]


def run_worker(
    settings: StandaloneSettings | DistributedSettings,
    log_level: str,
    files: Iterable[ConnectorFile],
) -> int:
    """Runs a worker in the foreground, until Ctrl-C."""
    main = run_connect(settings, say, ready_line("the Connect worker"), files=files)
    return run_in_foreground(main, log_level, CannotStart)
