"""Client properties of a tool, from its flags, files and the environment.

Precedence, highest first: the flag, `--command-property`, the file of `--command-config`, the
profile that the user names, the environment variable ODRADEK_BOOTSTRAP, the profile that the user's
own file chooses (`odradek.tools.profiles`), then 127.0.0.1:9092, where `odradek up` listens.
"""

import argparse
import os

from odradek.tools.failures import CommandFailed, UsageError
from odradek.tools.files import read_text
from odradek.tools.hints import hint
from odradek.tools.profiles import chosen_profile

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"


def client_properties(arguments: argparse.Namespace, **defaults: str) -> dict[str, str]:
    """Returns Kafka's client properties. `defaults`, in snake_case, apply where the user has set
    nothing."""
    properties = {name.replace("_", "."): value for name, value in defaults.items()}
    profile = chosen_profile(arguments.profile)
    properties |= profile.properties
    if not profile.is_named and os.environ.get("ODRADEK_BOOTSTRAP"):
        properties.pop("bootstrap.servers", None)
    if arguments.command_config:
        properties |= read_properties(arguments.command_config)
    properties |= dict(arguments.command_property)
    _leave_out_serializers(properties)
    if arguments.bootstrap_server:
        properties["bootstrap.servers"] = arguments.bootstrap_server
    elif not properties.get("bootstrap.servers"):
        properties["bootstrap.servers"] = os.environ.get("ODRADEK_BOOTSTRAP") or DEFAULT_BOOTSTRAP
    if isinstance(arguments.zookeeper, str):
        hint(
            "--zookeeper is an older spelling; asking the broker at"
            f" {properties['bootstrap.servers']} (choose one with --bootstrap-server HOST:PORT)"
        )
    return properties


def _leave_out_serializers(properties: dict[str, str]) -> None:
    """Removes serializers of bytes or text: like Kafka's, the tools move bytes, so these change
    nothing. Any other serializer would change what is written or shown, and is refused."""
    for name in [name for name in properties if name.endswith((".serializer", ".deserializer"))]:
        value = properties.pop(name).strip()
        kind = value.rpartition(".")[2].removesuffix("Serializer").removesuffix("Deserializer")
        if kind.lower() not in {"", "bytes", "bytearray", "bytebuffer", "string"}:
            raise UsageError(f"{name}={value}: this tool moves bytes as they are; leave it out")


def read_properties(path: str) -> dict[str, str]:
    """Reads a properties file. A file of another kind ends the command with its name."""
    from odradek.config.properties import parse_properties
    from odradek.config.setting import InvalidSetting

    try:
        return parse_properties(read_text(path))
    except InvalidSetting as error:
        raise CommandFailed(f"{path}: {error}") from None
