"""Answers to DescribeConfigs and changes by AlterConfigs: settings as text, with sources."""

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import NamedTuple

from odradek.config.broker_settings import BROKER_DECLARED, BrokerSettings, broker_setting
from odradek.config.listener_settings import PREFIX as LISTENER_PREFIX
from odradek.config.operation import ConfigOperation
from odradek.config.setting import (
    InvalidSetting,
    Kind,
    Scope,
    Setting,
)
from odradek.config.topic_settings import TopicSettings
from odradek.config.values import parse_list


class Source(IntEnum):
    """Where a value was set, with the numbers of the protocol."""

    UNKNOWN = 0
    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


class SynonymDescription(NamedTuple):
    name: str
    value: str | None
    source: Source


class Description(NamedTuple):
    name: str
    value: str | None
    source: Source
    is_sensitive: bool
    read_only: bool
    kind: int
    synonyms: tuple[SynonymDescription, ...]
    documentation: str


def describe_topic(
    settings: BrokerSettings, overrides: Mapping[str, str], names: Iterable[str] | None = None
) -> list[Description]:
    """Returns the settings of a topic with these overrides: all of them, or those named."""
    topic = settings.topic(overrides)
    wanted_names = None if names is None else set(names)
    described = []
    for setting in TopicSettings.declared.values():
        if wanted_names is not None and setting.name not in wanted_names:
            continue
        value = setting.text(getattr(topic, setting.attribute))
        synonyms = _synonyms(settings, tuple(synonym.name for synonym in setting.synonyms))
        if setting.name in overrides:
            synonyms = (SynonymDescription(setting.name, value, Source.TOPIC), *synonyms)
        described.append(_description(setting, setting.name, value, synonyms, read_only=False))
    return described


def describe_broker(
    settings: BrokerSettings, names: Iterable[str] | None = None
) -> list[Description]:
    """Returns the settings of a broker, with hidden values also unknown ones that were set."""
    settings_by_name = {**BROKER_DECLARED, **dict.fromkeys(_set_names(settings))}
    for setting in BROKER_DECLARED.values():
        settings_by_name.update(dict.fromkeys(setting.aliases, setting))
    wanted_names = settings_by_name if names is None else set(names)
    return [
        _describe_broker_setting(settings, name, broker_setting(name))
        for name in settings_by_name
        if name in wanted_names
    ]


def describe_cluster_default(
    settings: BrokerSettings, names: Iterable[str] | None = None
) -> list[Description]:
    """Returns the settings that were set dynamically for the whole cluster, which a request with an
    empty broker name asks for."""
    wanted_names = None if names is None else set(names)
    described = []
    for name, text in settings.layers.dynamic_default.items():
        if wanted_names is not None and name not in wanted_names:
            continue
        setting = broker_setting(name)
        shown = None if setting is None or setting.is_sensitive else text
        synonyms = (SynonymDescription(name, shown, Source.DYNAMIC_DEFAULT_BROKER),)
        described.append(_description(setting, name, shown, synonyms, read_only=False))
    return described


def _describe_broker_setting(
    settings: BrokerSettings, name: str, setting: Setting[object] | None
) -> Description:
    is_prefixed = name.startswith(LISTENER_PREFIX)
    if setting is None:
        names: tuple[str, ...] = (name,)
    elif is_prefixed:
        names = (name, setting.name)
    else:
        names = _SAME_VALUE.get(name, (setting.name, *setting.aliases))
    synonyms = _synonyms(settings, names)
    if setting is None:
        value = None
    elif setting.attribute and not is_prefixed:
        value = setting.text(getattr(settings, setting.attribute))
    else:
        own = [synonym.value for synonym in synonyms if synonym.name == name]
        value = own[0] if own else None
    read_only = setting is None or setting.scope is Scope.READ_ONLY
    return _description(setting, name, value, synonyms, read_only=read_only)


# log.retention.ms, .minutes and .hours are one setting: each shows all three as synonyms.
_SAME_VALUE = {
    synonym.name: tuple(other.name for other in setting.synonyms)
    for setting in TopicSettings.declared.values()
    for synonym in setting.synonyms
}


def _synonyms(settings: BrokerSettings, names: tuple[str, ...]) -> tuple[SynonymDescription, ...]:
    """Returns what was set under these names, and their defaults; the first one is used."""
    layers = settings.layers
    synonyms = []
    for source, layer in (
        (Source.DYNAMIC_BROKER, layers.dynamic_broker),
        (Source.DYNAMIC_DEFAULT_BROKER, layers.dynamic_default),
        (Source.STATIC_BROKER, layers.static),
    ):
        for name in names:
            if name in layer:
                synonyms.append(SynonymDescription(name, _shown(name, layer[name]), source))
    for name in names:
        setting = BROKER_DECLARED.get(name)
        if setting is not None and setting.default is not None:
            text = setting.text(setting.default)
            synonyms.append(SynonymDescription(name, text, Source.DEFAULT))
    return tuple(synonyms)


def _shown(name: str, text: str) -> str | None:
    """Returns a value if it may be shown: an unknown setting may be a password, so it is not."""
    setting = broker_setting(name)
    if setting is None or setting.is_sensitive:
        return None
    try:
        return setting.text(setting.parse(text))
    except InvalidSetting:
        return text


def _description(
    setting: Setting[object] | None,
    name: str,
    value: str | None,
    synonyms: tuple[SynonymDescription, ...],
    *,
    read_only: bool,
) -> Description:
    hidden = setting is None or setting.is_sensitive
    return Description(
        name=name,
        value=None if hidden else value,
        source=synonyms[0].source if synonyms else Source.DEFAULT,
        is_sensitive=hidden,
        read_only=read_only,
        kind=0 if setting is None else int(setting.kind),
        synonyms=synonyms,
        documentation="" if setting is None else setting.full_doc,
    )


def _set_names(settings: BrokerSettings) -> list[str]:
    layers = settings.layers
    return [*layers.static, *layers.dynamic_default, *layers.dynamic_broker]


def alter(
    current: Mapping[str, str],
    operations: Iterable[tuple[str, ConfigOperation, str | None]],
    declared: Mapping[str, Setting[object]],
) -> dict[str, str]:
    """Returns `current` after the operations.

    `declared` is `TopicSettings.declared` or `BROKER_DECLARED`. The values are checked afterwards,
    all together.
    """
    altered = dict(current)
    for name, operation, text in operations:
        if operation is ConfigOperation.DELETE:
            altered.pop(name, None)
            continue
        if text is None:
            raise InvalidSetting(name, "null", "a value is needed")
        if operation is ConfigOperation.SET:
            altered[name] = text
            continue
        setting = declared.get(name)
        if setting is None or setting.kind is not Kind.LIST:
            raise InvalidSetting(name, text, "only a list can be appended to or subtracted from")
        old = parse_list(altered.get(name, setting.text(setting.default) or ""))
        values = parse_list(text)
        if operation is ConfigOperation.APPEND:
            new = (*old, *(value for value in values if value not in old))
        else:
            new = tuple(value for value in old if value not in values)
        altered[name] = ",".join(new)
    return altered
