"""How a tool reaches the schema registry.

Precedence, highest first: `--registry` (or the property `schema.registry.url` of a tool that has
properties), `--command-property`, the file of `--command-config`, the profile that the user names,
the environment variable ODRADEK_SCHEMA_REGISTRY, the profile that the user's own file chooses. The
other settings of the registry, such as `basic.auth.user.info`, come from the same places.
"""

import argparse
import os
from typing import TYPE_CHECKING, Final

from odradek.tools.client_properties import read_properties, with_secrets
from odradek.tools.failures import CommandFailed, UsageError
from odradek.tools.profiles import chosen_profile

if TYPE_CHECKING:
    from odradek.schemas.registry_client import RegistryClient

DEFAULT_REGISTRY: Final = "http://127.0.0.1:8081"
VARIABLE: Final = "ODRADEK_SCHEMA_REGISTRY"
_URL: Final = "schema.registry.url"
_PREFIXES: Final = ("schema.registry.", "basic.auth.", "bearer.auth.")


def registry_properties(
    arguments: argparse.Namespace, own: dict[str, str] | None = None
) -> dict[str, str]:
    """Returns the settings of the registry; they have no address if none is configured. `own` are
    properties of the tool itself."""
    profile = chosen_profile(arguments.profile)
    properties = profile.properties
    if profile.file is not None:
        properties = read_properties(profile.file) | properties
    found = _of_registry(with_secrets(properties))
    if (url := os.environ.get(VARIABLE)) and not (profile.is_named and _URL in found):
        found[_URL] = url
    if arguments.command_config:
        found |= _of_registry(read_properties(arguments.command_config))
    found |= _of_registry(with_secrets(dict(arguments.command_property)))
    if own is not None:
        found |= _of_registry(own)
    if getattr(arguments, "registry", None):
        found[_URL] = arguments.registry
    return found


def _of_registry(properties: dict[str, str]) -> dict[str, str]:
    return {name: text for name, text in properties.items() if name.startswith(_PREFIXES)}


def open_registry(arguments: argparse.Namespace) -> "RegistryClient":
    """Returns a client of the registry, by default of the one on this machine."""
    properties = {_URL: DEFAULT_REGISTRY} | registry_properties(arguments)
    return client_of(properties)


def client_of(properties: dict[str, str]) -> "RegistryClient":
    from odradek.schemas.errors import BadSetting
    from odradek.schemas.registry_client import RegistryClient

    try:
        return RegistryClient({"schema.registry.max.retries": "1", **properties})
    except BadSetting as error:
        raise UsageError(str(error)) from None


def reported(error: Exception) -> CommandFailed:
    """Returns the failure for an error of the registry or of a schema."""
    from odradek.schemas.errors import RegistryUnreachable

    hint = ""
    if isinstance(error, RegistryUnreachable) and not error.status:
        hint = f"; say where it is with --registry URL or ${VARIABLE}"
    return CommandFailed(f"{error}{hint}")
