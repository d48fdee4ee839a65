"""The flags that all tools share: how a tool connects to the brokers.

`odradek.tools.client_properties` combines their values.
"""

import argparse

from odradek.cli.parser import OlderSpelling, key_and_value
from odradek.tools.client_properties import DEFAULT_BOOTSTRAP


def add_connection_arguments(
    parser: argparse.ArgumentParser,
    *,
    broker_list: bool = True,
    many_properties: bool = False,
    older_role: str | None = None,
) -> None:
    """`older_role` is "producer" or "consumer" for tools that once had `--producer.config` or the
    like.

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
        "--profile",
        metavar="NAME",
        help="a cluster's client settings, by its name in ~/.config/odradek/config.toml;"
        " also before the command: odradek --profile NAME ...",
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


def add_new_consumer(parser: argparse.ArgumentParser) -> None:
    """Adds the flag that once chose the consumer without ZooKeeper."""
    parser.add_argument(
        "--new-consumer",
        dest="new_consumer",
        nargs=0,
        const=True,
        action=OlderSpelling,
        instead="it no longer: there is only one consumer",
    )


def add_json_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON, for programs")


def add_watch_argument(parser: argparse.ArgumentParser, *, changing: tuple[str, ...] = ()) -> None:
    """Adds `--watch`, which `main` carries out. `changing` are the actions of the tool that change
    something, and are not repeated: the names of flags, or values of `action`."""
    parser.add_argument(
        "--watch",
        metavar="SECONDS",
        nargs="?",
        type=interval_s,
        const=2.0,
        help="show it again and again, every 2 seconds or as often as given, until Ctrl-C",
    )
    parser.set_defaults(changing=changing)


def interval_s(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds") from None
    if not 0.1 <= seconds <= 86_400:
        raise argparse.ArgumentTypeError(f"{text} is not between 0.1 and 86400 seconds")
    return seconds
