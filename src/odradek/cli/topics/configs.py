"""`odradek configs`: settings of topics, brokers, groups and subscriptions, levels of loggers,
quotas, and the passwords of users that log in by SCRAM."""

import argparse
import re
from typing import NamedTuple

from odradek.cli.cluster.zookeeper_connection import add_zookeeper_arguments
from odradek.cli.connection_options import (
    add_connection_arguments,
    add_json_argument,
    add_watch_argument,
)
from odradek.tools.failures import MissingFlag, UsageError
from odradek.tools.hints import hint

ENTITY_TYPES = (
    "topics",
    "brokers",
    "broker-loggers",
    "clients",
    "users",
    "ips",
    "client-metrics",
    "groups",
)
QUOTA_TYPES = frozenset({"clients", "users", "ips"})
"""The entities that have quotas in place of settings."""
_SHORTCUTS = {
    "topic": "topics",
    "broker": "brokers",
    "client": "clients",
    "user": "users",
    "ip": "ips",
    "group": "groups",
    "client_metrics": "client-metrics",
    "broker_logger": "broker-loggers",
}

_EXAMPLES = """\
examples:
  odradek configs --describe --topic orders --all
  odradek configs --alter --topic orders \\
      --add-config retention.ms=3600000,cleanup.policy=[compact,delete]
  odradek configs --alter --broker-defaults --delete-config log.retention.ms
  odradek configs --alter --broker-logger 1 --add-config odradek.request=DEBUG
  odradek configs --alter --group billing --add-config consumer.session.timeout.ms=60000
  odradek configs --alter --user ada --client loader --add-config producer_byte_rate=1048576
  odradek configs --describe --entity-type users --entity-type clients
  odradek configs --alter --user ada --add-config 'SCRAM-SHA-512=[password=secret]'
"""


class Entity(NamedTuple):
    type: str
    """One of ENTITY_TYPES."""
    name: str | None
    """None means all of them, an empty name means the default of all."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "odradek configs --describe|--alter --topic NAME|--user NAME|... [flags]"
    parser.epilog = _EXAMPLES
    actions = parser.add_argument_group("what to do, one of")
    actions.add_argument("--describe", action="store_true", help="show settings")
    actions.add_argument("--alter", action="store_true", help="change settings")
    whose = parser.add_argument_group("whose settings")
    whose.add_argument("--topic", metavar="NAME", help="settings of a topic")
    whose.add_argument("--broker", metavar="ID", help="settings of one broker")
    whose.add_argument("--broker-defaults", action="store_true", help="settings of all brokers")
    whose.add_argument(
        "--broker-logger", metavar="ID", help="levels of one broker's loggers, until it stops"
    )
    whose.add_argument(
        "--entity-type",
        metavar="TYPE",
        action="append",
        type=entity_type,
        choices=ENTITY_TYPES,
        help="the long form: topics, brokers, broker-loggers, groups, client-metrics, users,"
        " clients or ips ...",
    )
    whose.add_argument(
        "--entity-name", metavar="NAME", action="append", help="... and a name or id ..."
    )
    whose.add_argument(
        "--entity-default",
        dest="entity_name",
        action="append_const",
        const="",
        help="... or the default of all brokers, users, clients or ips",
    )
    whose.add_argument(
        "--group", metavar="NAME", help="settings of a consumer group, also before it exists"
    )
    whose.add_argument(
        "--client-metrics", metavar="NAME", help="a subscription to metrics of clients"
    )
    add_quota_arguments(parser)
    parser.add_argument(
        "--all", action="store_true", help="with --describe: all settings, not only changed ones"
    )
    parser.add_argument(
        "--add-config",
        metavar="KEY=VALUE,...",
        action="append",
        help="settings to set; [a,b] holds a value with commas; may be repeated",
    )
    parser.add_argument("--add-config-file", metavar="FILE", help="a properties file to set")
    parser.add_argument(
        "--delete-config",
        metavar="KEY,...",
        action="append",
        help="settings to reset to their default",
    )
    parser.add_argument("--force", action="store_true", help=argparse.SUPPRESS)
    add_json_argument(parser)
    add_watch_argument(parser, changing=("alter",))
    add_zookeeper_arguments(parser)
    add_connection_arguments(parser)


def add_quota_arguments(parser: argparse.ArgumentParser) -> None:
    quotas = parser.add_argument_group("whose quotas; a user and a client may go together")
    quotas.add_argument("--user", metavar="NAME", help="a user, by the name of the principal")
    quotas.add_argument("--user-defaults", action="store_true", help="users without a quota")
    quotas.add_argument("--client", "--client-id", metavar="ID", help="a client id")
    quotas.add_argument("--client-defaults", action="store_true", help="client ids without a quota")
    quotas.add_argument("--ip", metavar="ADDRESS", help="an IP address")
    quotas.add_argument("--ip-defaults", action="store_true", help="addresses without a quota")


def entity_type(text: str) -> str:
    """Returns Kafka's word for a kind of entity: `topic` and `Topics` mean `topics`."""
    word = text.lower().replace("_", "-")
    return f"{word}s" if f"{word}s" in ENTITY_TYPES else word


_SETTING_NAME = r"[a-zA-Z0-9._$-]+"
_OUTSIDE_BRACKETS = r"(?=[^\]]*(?:\[|$))"


def parse_added(text: str) -> dict[str, str]:
    """Parses `a=1,b=[x,y]` into pairs; commas inside brackets belong to the value."""
    added: dict[str, str] = {}
    for pair in re.split("," + _OUTSIDE_BRACKETS, text):
        parts = re.split(r"\s*=\s*" + _OUTSIDE_BRACKETS, pair, maxsplit=1)
        name = parts[0].strip()
        if len(parts) != 2 or not re.fullmatch(_SETTING_NAME, name):
            # It may be the rest of a value with commas.
            brackets = "; write commas of a value in brackets: key=[a,b]" if added else ""
            raise UsageError(f"--add-config {pair!r} is not of the form key=value{brackets}")
        if is_password(name):
            # Its brackets hold a password, which may have brackets too.
            added[name] = parts[1].strip().removeprefix("[").removesuffix("]")
        else:
            added[name] = re.sub(r"[\[\]]", "", parts[1]).strip()
    return added


def is_password(name: str) -> bool:
    """Returns whether a setting of a user is a SCRAM credential and not a quota."""
    return name.upper().startswith("SCRAM")


def chosen_entities(arguments: argparse.Namespace) -> list[Entity]:
    """Returns what the flags name, in any of their forms."""
    entities = [
        Entity(kind, getattr(arguments, shortcut))
        for shortcut, kind in _SHORTCUTS.items()
        if getattr(arguments, shortcut) is not None
    ]
    entities += [
        Entity(kind, "")
        for kind in ("brokers", "clients", "users", "ips")
        if getattr(arguments, f"{kind[:-1]}_defaults")
    ]
    names = arguments.entity_name or []
    for position, kind in enumerate(arguments.entity_type or []):
        entities.append(Entity(kind, names[position] if position < len(names) else None))
    if not entities:
        raise MissingFlag("whose settings? give --topic NAME, --broker ID or --broker-defaults")
    return entities


def chosen_entity(entities: list[Entity]) -> Entity:
    """Returns the one that has settings. Raises `UsageError` if there is another one."""
    if len(entities) > 1:
        raise UsageError("give one topic or one broker at a time")
    entity = entities[0]
    if entity.type == "broker-loggers" and not (entity.name or "").isdecimal():
        raise UsageError("loggers are a broker's own: give its id, as in --broker-logger 1")
    if entity.type == "brokers" and entity.name and not entity.name.isdecimal():
        raise UsageError(f"--broker takes a broker's id, a number, not {entity.name!r}")
    if entity == Entity("topics", ""):
        raise UsageError("topics have no common default; set it for brokers: --broker-defaults")
    if entity == Entity("groups", ""):
        raise UsageError("groups have no common default; set it in the brokers' files")
    if entity == Entity("client-metrics", ""):
        raise UsageError("subscriptions have no common default; give --client-metrics NAME")
    return entity


def chosen_changes(arguments: argparse.Namespace) -> tuple[dict[str, str], list[str]]:
    """Returns the settings to set and the settings to reset to their default."""
    from odradek.tools.client_properties import read_properties

    added = read_properties(arguments.add_config_file) if arguments.add_config_file else {}
    for name in added:
        if not re.fullmatch(_SETTING_NAME, name):
            raise UsageError(
                f"{arguments.add_config_file}: {name!r} is not the name of a setting; write lines"
                " like retention.ms=3600000"
            )
    for text in arguments.add_config or []:
        added |= parse_added(text)
    deleted = [
        name.strip() for text in arguments.delete_config or [] for name in text.split(",") if name
    ]
    if arguments.alter and not (added or deleted):
        raise MissingFlag("--alter needs --add-config, --add-config-file or --delete-config")
    if arguments.describe and (added or deleted):
        raise UsageError("--describe only shows; use --alter to change settings")
    both = sorted(set(added) & set(deleted))
    if both:
        raise UsageError(f"{both[0]} is both added and deleted")
    return added, deleted


def run(arguments: argparse.Namespace) -> int:
    if arguments.describe == arguments.alter:
        raise MissingFlag("give exactly one of --describe, --alter")
    entities = chosen_entities(arguments)
    added, deleted = chosen_changes(arguments)
    if arguments.alter and any(map(is_password, [*added, *deleted])):
        import asyncio

        from odradek.cli.topics.user_actions import alter_passwords

        return asyncio.run(alter_passwords(arguments, entities, added, deleted))
    if any(entity.type in QUOTA_TYPES for entity in entities):
        from odradek.cli.topics.quota_actions import run_quotas

        return run_quotas(arguments, entities, added, deleted)
    entity = chosen_entity(entities)
    if arguments.alter and entity.name is None:
        raise MissingFlag("--alter needs the name: --topic NAME, --broker ID or --broker-defaults")
    if arguments.all and arguments.alter:
        hint("--all only matters with --describe")
    import asyncio

    from odradek.cli.topics.config_actions import alter, describe

    if arguments.alter:
        return asyncio.run(alter(arguments, entity, added, deleted))
    return asyncio.run(describe(arguments, entity))
