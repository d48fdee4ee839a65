"""Client properties of a tool, from its flags, files and the environment.

Precedence, highest first: the flag, `--command-property`, the file of `--command-config`, the
profile that the user names, the environment variable ODRADEK_BOOTSTRAP, the profile that the user's
own file chooses (`odradek.tools.profiles`), then 127.0.0.1:9092, where `odradek up` listens.
"""

import argparse
import os
from typing import NamedTuple

from odradek.tools.failures import CommandFailed, UsageError
from odradek.tools.hints import hint
from odradek.tools.profiles import Profile, chosen_profile

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"

_SERVERS = "bootstrap.servers"


class Servers(NamedTuple):
    """The brokers that a tool asks first."""

    addresses: str
    named_by: str | None
    """The flag, variable or file that names them; None if it is the default."""


def client_properties(arguments: argparse.Namespace, **defaults: str) -> dict[str, str]:
    """Returns Kafka's client properties. `defaults`, in snake_case, apply where the user has set
    nothing."""
    properties = {name.replace("_", "."): value for name, value in defaults.items()}
    profile, file = _profile_and_file(arguments)
    flags = with_secrets(dict(arguments.command_property))
    properties |= with_secrets(profile.properties) | file | flags
    _leave_out_serializers(properties)
    properties[_SERVERS] = _servers(arguments, profile, file).addresses
    if isinstance(arguments.zookeeper, str):
        hint(
            "--zookeeper is an older spelling; asking the broker at"
            f" {properties[_SERVERS]} (choose one with --bootstrap-server HOST:PORT)"
        )
    return properties


def bootstrap_servers(arguments: argparse.Namespace) -> Servers:
    """Returns the brokers that a tool with these arguments asks first, and who names them."""
    return _servers(arguments, *_profile_and_file(arguments))


def _profile_and_file(arguments: argparse.Namespace) -> tuple[Profile, dict[str, str]]:
    config = arguments.command_config
    profile = chosen_profile(arguments.profile)
    if profile.file is not None:
        profile = profile._replace(properties=read_properties(profile.file) | profile.properties)
    return profile, read_properties(config) if config else {}


def _servers(arguments: argparse.Namespace, profile: Profile, file: dict[str, str]) -> Servers:
    named_in_profile = f"bootstrap.servers of profile {profile.name}"
    candidates = (
        (arguments.bootstrap_server, "--bootstrap-server"),
        (dict(arguments.command_property).get(_SERVERS), f"--command-property {_SERVERS}"),
        (file.get(_SERVERS), f"{_SERVERS} in {arguments.command_config}"),
        (profile.properties.get(_SERVERS) if profile.is_named else None, named_in_profile),
        (os.environ.get("ODRADEK_BOOTSTRAP"), "$ODRADEK_BOOTSTRAP"),
        (profile.properties.get(_SERVERS), named_in_profile),
    )
    if arguments.bootstrap_server is not None and not arguments.bootstrap_server.strip():
        # A variable of the shell that is not set. The default may be another cluster.
        raise UsageError("--bootstrap-server is empty; name brokers, as in localhost:9092")
    for addresses, named_by in candidates:
        if addresses:
            return Servers(addresses, named_by)
    return Servers(DEFAULT_BOOTSTRAP, None)


def _leave_out_serializers(properties: dict[str, str]) -> None:
    """Removes serializers of bytes or text: like Kafka's, the tools move bytes, so these change
    nothing. Any other serializer would change what is written or shown, and is refused."""
    for name in [name for name in properties if name.endswith((".serializer", ".deserializer"))]:
        value = properties.pop(name).strip()
        kind = value.rpartition(".")[2].removesuffix("Serializer").removesuffix("Deserializer")
        if kind.lower() not in {"", "bytes", "bytearray", "bytebuffer", "string"}:
            raise UsageError(f"{name}={value}: this tool moves bytes as they are; leave it out")


def read_properties(path: str) -> dict[str, str]:
    """Reads a properties file, with the secrets that it refers to. A file of another kind ends the
    command with its name."""
    from odradek.config.setting import InvalidSetting

    try:
        return with_secrets(read_unresolved(path))
    except InvalidSetting as error:
        raise CommandFailed(f"{path}: {error}") from None


def read_unresolved(path: str) -> dict[str, str]:
    """Reads a properties file as it is, with references to secrets. Raises `InvalidSetting`."""
    from odradek.config.properties import parse_properties
    from odradek.tools.files import read_text

    return parse_properties(read_text(path))


def with_secrets(properties: dict[str, str]) -> dict[str, str]:
    """Returns properties with the secrets that they refer to. Raises `InvalidSetting`."""
    if not properties:
        return properties
    from odradek.config.secrets import resolve
    from odradek.world.disk import OsDisk

    return resolve(properties, lambda path: OsDisk().read(path).decode().rstrip("\r\n"), os.environ)
