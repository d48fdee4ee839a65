"""How a tool reaches the brokers: the flags that all tools share, and what they mean together.

Precedence, highest first: the flag, `--command-property`, the file of `--command-config`, the
environment variable ODRADEK_BOOTSTRAP, then 127.0.0.1:9092, where `odradek up` listens.
"""

import argparse
import os

from odradek.cli.failures import UsageError
from odradek.cli.parser import OlderSpelling, hint, key_and_value

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"


def add_connection_arguments(
    parser: argparse.ArgumentParser,
    *,
    broker_list: bool = True,
    many_properties: bool = False,
    older_role: str | None = None,
) -> None:
    """`older_role` is "producer" or "consumer" where `--producer.config` and the like were used.

    `broker_list` is False for the one tool where `--broker-list` means something else.
    `many_properties` lets one `--command-property` take several `key=value`.
    """
    group = parser.add_argument_group("connection")
    group.add_argument(
        "--bootstrap-server",
        metavar="HOST:PORT",
        help=f"brokers to ask first, with commas between (default: $ODRADEK_BOOTSTRAP or"
        f" {DEFAULT_BOOTSTRAP}, where `odradek up` listens)",
    )
    group.add_argument(
        "--command-config", metavar="FILE", help="a properties file with client settings"
    )
    group.add_argument(
        "--command-property",
        metavar="KEY=VALUE",
        type=key_and_value,
        action="extend" if many_properties else "append",
        nargs="+" if many_properties else None,
        default=[],
        help="one client setting; may be repeated, wins over the file",
    )
    group.add_argument(
        "--zookeeper", dest="zookeeper", metavar="ADDRESS", help=argparse.SUPPRESS, default=None
    )
    if broker_list:
        group.add_argument(
            "--broker-list",
            dest="bootstrap_server",
            action=OlderSpelling,
            instead="--bootstrap-server",
        )
    if older_role is not None:
        _add_older_spellings(group, older_role, many_properties)


def _add_older_spellings(
    group: "argparse._ArgumentGroup", role: str, many_properties: bool
) -> None:
    group.add_argument(
        f"--{role}.config",
        dest="command_config",
        action=OlderSpelling,
        instead="--command-config",
    )
    for spelling in (f"--{role}-property", f"--{role}-props"):
        group.add_argument(
            spelling,
            dest="command_property",
            action=OlderSpelling,
            instead="--command-property",
            appends=True,
            type=key_and_value,
            nargs="+" if many_properties else None,
        )


def add_json_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON, for programs")


def client_properties(arguments: argparse.Namespace, **defaults: str) -> dict[str, str]:
    """Kafka's client properties; `defaults`, in snake_case, give way to what the user set."""
    properties = {name.replace("_", "."): value for name, value in defaults.items()}
    if arguments.command_config:
        properties |= read_properties(arguments.command_config)
    properties |= dict(arguments.command_property)
    _leave_out_serializers(properties)
    if arguments.bootstrap_server:
        properties["bootstrap.servers"] = arguments.bootstrap_server
    elif not properties.get("bootstrap.servers"):
        properties["bootstrap.servers"] = os.environ.get("ODRADEK_BOOTSTRAP") or DEFAULT_BOOTSTRAP
    if arguments.zookeeper is not None:
        hint(
            "--zookeeper is an older spelling; asking the broker at"
            f" {properties['bootstrap.servers']} (choose one with --bootstrap-server HOST:PORT)"
        )
    return properties


def _leave_out_serializers(properties: dict[str, str]) -> None:
    """Tools move bytes, as Kafka's do, so a serializer of bytes or of text asks for nothing. Any
    other would change what is written or shown, and is refused."""
    for name in [name for name in properties if name.endswith((".serializer", ".deserializer"))]:
        value = properties.pop(name).strip()
        kind = value.rpartition(".")[2].removesuffix("Serializer").removesuffix("Deserializer")
        if kind.lower() not in {"", "bytes", "bytearray", "bytebuffer", "string"}:
            raise UsageError(f"{name}={value}: this tool moves bytes as they are; leave it out")


def read_properties(path: str) -> dict[str, str]:
    from odradek.config.properties import parse_properties
    from odradek.world.disk import OsDisk

    return parse_properties(OsDisk().read(path).decode("utf-8"))
