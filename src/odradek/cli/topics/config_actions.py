"""The actions of `odradek configs`, after its flags are parsed."""

import argparse
from collections.abc import Iterable

from odradek.cli.topics.configs import Entity
from odradek.cli.topics.next_steps import meant_value
from odradek.client.admin.brokers import BrokerCalls
from odradek.client.admin.config_types import (
    ConfigChange,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    ConfigType,
)
from odradek.client.admin.configs import ConfigCalls
from odradek.client.admin.groups import GroupCalls
from odradek.client.admin.topics import TopicCalls
from odradek.config.operation import ConfigOperation
from odradek.config.spelling import did_you_mean
from odradek.protocol.errors import KafkaError
from odradek.tools.admin_session import open_admin, require_brokers, topics_named
from odradek.tools.failures import CommandFailed
from odradek.tools.hints import hint
from odradek.tools.terminal import print_json

_TYPES = {
    "topics": ConfigType.TOPIC,
    "brokers": ConfigType.BROKER,
    "broker-loggers": ConfigType.BROKER_LOGGER,
    "groups": ConfigType.GROUP,
    "client-metrics": ConfigType.CLIENT_METRICS,
}


class _ConfigAdmin(ConfigCalls, TopicCalls, BrokerCalls, GroupCalls):
    """The admin calls of this tool."""


async def describe(arguments: argparse.Namespace, entity: Entity) -> int:
    async with open_admin(_ConfigAdmin, arguments) as admin:
        names = [entity.name] if entity.name is not None else await _all(admin, entity.type)
        await _require(admin, entity.type, names)
        report = []
        for name in names:
            entries = await _entries(admin, Entity(entity.type, name), everything=arguments.all)
            if arguments.json:
                report.append(_as_json(entity.type, name, entries))
            else:
                _print(entity.type, name, entries, everything=arguments.all)
        if arguments.json:
            print_json(report)
    return 0


async def _all(admin: _ConfigAdmin, entity_type: str) -> list[str]:
    if entity_type == "topics":
        return list(await admin.list_topics(include_internal=True))
    if entity_type == "groups":
        names = {group.group_id for group in await admin.list_groups()}
        names |= {
            resource.name for resource in await admin.list_config_resources([ConfigType.GROUP])
        }
        return sorted(names)
    if entity_type == "client-metrics":
        found = await admin.list_config_resources([ConfigType.CLIENT_METRICS])
        return sorted(resource.name for resource in found)
    return [str(broker.id) for broker in (await admin.describe_cluster()).brokers] + [""]


async def _require(admin: _ConfigAdmin, entity_type: str, names: list[str]) -> None:
    if entity_type == "topics":
        await topics_named(admin, names)
    elif entity_type not in ("groups", "client-metrics"):  # These need not exist before.
        await require_brokers(admin, (int(name) for name in names if name))


async def _require_settings(
    admin: _ConfigAdmin, entity: Entity, added: Iterable[str], deleted: Iterable[str]
) -> None:
    """Raises if a setting that is added or deleted does not exist. A broker takes any name, because
    plugins have settings of their own, so it does not notice a misspelt one: only a name that is
    near no other may be added. Unknown settings that were added are described, so these can be
    deleted."""
    if entity.type in ("broker-loggers", "client-metrics"):
        return  # The broker refuses unknown names itself.
    name = entity.name or ""
    if entity.type == "brokers" and not name:
        name = str((await admin.describe_cluster()).brokers[0].id)
    resource = ConfigResource(_TYPES[entity.type], name)
    (answer,) = (await admin.describe_configs([resource], include_synonyms=True)).values()
    if isinstance(answer, KafkaError):
        return  # Who may change settings need not be allowed to see them.
    for key in added:
        if key not in answer and not key.startswith("listener.name."):
            near = did_you_mean(key, answer)
            if near:
                raise CommandFailed(f"{entity.type} have no setting {key}{near}")
            hint(_unknown_setting(entity.type, key))
    for key in deleted:
        if key not in answer:
            near = did_you_mean(key, answer) or ", so there is nothing to delete"
            raise CommandFailed(f"{entity.type} have no setting {key}{near}")
        if not _is_own(answer[key], entity):
            hint(f"{key} was not set {_whose(entity)}; its value stays {_shown(answer[key])}")


def _unknown_setting(kind: str, key: str) -> str:
    from odradek.config.without_effect import reason

    why = reason(key) if kind == "brokers" else None
    return f"{key} has no effect: {why}" if why else f"{kind} have no setting {key} that is known"


def _is_own(entry: ConfigEntry, entity: Entity) -> bool:
    """Returns whether the setting was made for this topic, broker or group."""
    sources = {entry.source, *(synonym.source for synonym in entry.synonyms)}
    return _own_source(entity) in sources


def _whose(entity: Entity) -> str:
    if entity.name:
        return f"for {_singular(entity.type)} {entity.name}"
    return f"as a default of {entity.type}"


def _singular(entity_type: str) -> str:
    """Returns the word for one entity, as Kafka's tool writes it."""
    return entity_type if entity_type == "client-metrics" else entity_type[:-1]


def _shown(entry: ConfigEntry) -> str:
    return "hidden" if entry.is_sensitive else _text(entry.value)


async def _entries(admin: _ConfigAdmin, entity: Entity, *, everything: bool) -> list[ConfigEntry]:
    resource = ConfigResource(_TYPES[entity.type], entity.name or "")
    (answer,) = (await admin.describe_configs([resource], include_synonyms=True)).values()
    if isinstance(answer, KafkaError):
        raise CommandFailed(answer.message)
    own = _own_source(entity)
    entries = [entry for entry in answer.values() if everything or entry.source == own]
    return sorted(entries, key=lambda entry: entry.name)


def _own_source(entity: Entity) -> ConfigSource:
    """Returns the source of settings that were made for this topic or broker only."""
    if entity.type == "topics":
        return ConfigSource.DYNAMIC_TOPIC_CONFIG
    if entity.type == "groups":
        return ConfigSource.GROUP_CONFIG
    if entity.type == "client-metrics":
        return ConfigSource.CLIENT_METRICS_CONFIG
    if entity.type == "broker-loggers":
        return ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG
    if entity.name:
        return ConfigSource.DYNAMIC_BROKER_CONFIG
    return ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG


def _print(kind: str, name: str, entries: list[ConfigEntry], *, everything: bool) -> None:
    if name:
        print(f"{'All' if everything else 'Dynamic'} configs for {_singular(kind)} {name} are:")
    else:
        print(f"Default configs for {kind} in the cluster are:")
    for entry in entries:
        synonyms = ", ".join(
            f"{synonym.source.name}:{synonym.name}={_text(synonym.value)}"
            for synonym in entry.synonyms
        )
        sensitive = str(entry.is_sensitive).lower()
        print(f"  {entry.name}={_text(entry.value)} sensitive={sensitive} synonyms={{{synonyms}}}")


def _as_json(kind: str, name: str, entries: list[ConfigEntry]) -> dict[str, object]:
    return {
        "type": kind,
        "name": name,
        "configs": [
            {
                "name": entry.name,
                "value": entry.value,
                "source": entry.source.name,
                "sensitive": entry.is_sensitive,
                "readOnly": entry.is_read_only,
                "synonyms": [
                    {"name": synonym.name, "value": synonym.value, "source": synonym.source.name}
                    for synonym in entry.synonyms
                ],
            }
            for entry in entries
        ],
    }


def _text(value: str | None) -> str:
    return "null" if value is None else value


async def alter(
    arguments: argparse.Namespace, entity: Entity, added: dict[str, str], deleted: list[str]
) -> int:
    name = entity.name or ""
    changes = [ConfigChange(key, value) for key, value in added.items()]
    changes += [ConfigChange(key, None, ConfigOperation.DELETE) for key in deleted]
    async with open_admin(_ConfigAdmin, arguments) as admin:
        await _require(admin, entity.type, [name])
        await _require_settings(admin, entity, added, deleted)
        resource = ConfigResource(_TYPES[entity.type], name)
        for answer in (await admin.incremental_alter_configs({resource: changes})).values():
            if isinstance(answer, KafkaError):
                raise CommandFailed(answer.message + meant_value(answer, added))
    if arguments.json:
        print_json({"type": entity.type, "name": name, "set": added, "deleted": deleted})
    elif name:
        print(f"Completed updating config for {_singular(entity.type)} {name}.")
    else:
        print(f"Completed updating default config for {entity.type} in the cluster.")
    return 0
