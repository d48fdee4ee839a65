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
# A person is waiting.
_PATIENCE: Final = {
    "schema.registry.max.retries": "1",
    "schema.registry.request.timeout.ms": "10000",
}
_URL: Final = "schema.registry.url"
# Registries have codes of five digits. Where the code is the status, perhaps none has answered.
_LEAST_CODE: Final = 999
_OF_OTHER_SERVERS: Final = frozenset({400, 404, 405, 415})
_NEXT: Final = {
    40401: "; odradek schema list shows all",
    40402: "; odradek schema get SUBJECT shows the newest",
    40405: "; odradek schema delete SUBJECT without --permanent comes first",
    40407: "; odradek schema delete SUBJECT comes first",
}
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
        return RegistryClient(_PATIENCE | properties)
    except BadSetting as error:
        raise UsageError(str(error)) from None


def reported(error: Exception) -> CommandFailed:
    """Returns the failure for an error of the registry or of a schema: without the address that was
    asked, if a registry has answered in its own words."""
    from odradek.schemas.errors import RegistryFailed, RegistryUnreachable

    where_to_say = f"say where it is with --registry URL or ${VARIABLE}"
    if not isinstance(error, RegistryFailed):
        return CommandFailed(str(error))
    if isinstance(error, RegistryUnreachable):
        return CommandFailed(str(error) if error.status else f"{error}; {where_to_say}")
    said = str(error).rstrip(".")
    address, colon, words = said.partition(": ")
    if error.error_code > _LEAST_CODE and colon and "://" in address:
        return CommandFailed(f"{words}{_NEXT.get(error.error_code, '')}")
    if error.status in _OF_OTHER_SERVERS:
        return CommandFailed(f"{said}: is it a schema registry? If not, {where_to_say}")
    return CommandFailed(said)
