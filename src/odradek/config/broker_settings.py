"""The settings of a broker, layered as Kafka layers them.

default < static (the file and the command line) < dynamic for the whole cluster < dynamic for
this broker < override of a topic. The layers are kept as text, so that `describe` can say
where each value comes from. Every setting of a broker is in `BROKER_DECLARED`.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Self, TypeVar, cast

from odradek.config.audit_settings import AuditSettings
from odradek.config.cluster_settings import ClusterSettings
from odradek.config.coordinator_settings import (
    GroupSettings,
    QuotaSettings,
    TransactionSettings,
)
from odradek.config.key_settings import KeySettings
from odradek.config.listener_settings import PREFIX as LISTENER_PREFIX
from odradek.config.listener_settings import ListenerSettings, parse_prefixed, split_prefixed
from odradek.config.listeners import Listener
from odradek.config.log_settings import NO_FILES, ApplicationLogSettings
from odradek.config.management_settings import ManagementSettings
from odradek.config.network_settings import NetworkSettings
from odradek.config.schema_validation_settings import SchemaRegistrySettings
from odradek.config.security_settings import SecuritySettings
from odradek.config.setting import InvalidSetting, Scope, Setting, merge
from odradek.config.spelling import Speller
from odradek.config.stock_files import interpret
from odradek.config.storage_settings import StorageSettings
from odradek.config.topic_checks import check_has_key_provider
from odradek.config.topic_settings import BROKER_SYNONYMS, TopicSettings
from odradek.config.tracing_settings import TracingSettings
from odradek.config.without_effect import UNDECLARED, is_default, reason, sentence
from odradek.config.zookeeper_settings import ZookeeperSecuritySettings

T = TypeVar("T")

_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})


class Layers:
    """The texts that were set, by layer."""

    __slots__ = ("dynamic_broker", "dynamic_default", "static")

    def __init__(
        self,
        static: Mapping[str, str] = _NOTHING,
        dynamic_default: Mapping[str, str] = _NOTHING,
        dynamic_broker: Mapping[str, str] = _NOTHING,
    ) -> None:
        self.static = static
        self.dynamic_default = dynamic_default
        self.dynamic_broker = dynamic_broker


class BrokerSettings(
    ClusterSettings,
    ZookeeperSecuritySettings,
    NetworkSettings,
    SecuritySettings,
    StorageSettings,
    GroupSettings,
    TransactionSettings,
    QuotaSettings,
    ApplicationLogSettings,
    ManagementSettings,
    AuditSettings,
    KeySettings,
    TracingSettings,
    SchemaRegistrySettings,
):
    layers: Layers
    topic_defaults: TopicSettings
    # Lines for the operator: unknown names, and stored values that could not be used.
    warnings: tuple[str, ...]
    # Kafka's settings that were set to something else than their default and change nothing
    # here, each with the reason.
    without_effect: tuple[tuple[str, str], ...]
    _topics: dict[tuple[tuple[str, str], ...], TopicSettings]
    # The texts that were set and can be used, of all layers.
    _given: Mapping[str, str]
    # Values of single listeners, by their full names.
    _of_listeners: dict[str, object]

    def __init__(self, layers: Layers | None = None) -> None:
        """Raises `InvalidSetting` for a bad static value; a bad dynamic one becomes a warning."""
        layers = layers or Layers()
        warnings: list[str] = []
        usable = merge(
            _alias(layers.static),
            _usable(layers.dynamic_default, warnings),
            _usable(layers.dynamic_broker, warnings),
        )
        values: dict[str, object] = dict(self.defaults)
        for name, text in usable.items():
            setting = BROKER_DECLARED.get(name)
            if setting is not None:
                value = setting.parse(text)
                if name in self.declared:
                    values[setting.attribute] = value
            elif (prefixed := split_prefixed(name)) is not None:
                parse_prefixed(prefixed[2], name, text)
            elif reason(name) is None and _listener_setting(name) is None:
                warnings.append(f"Unknown setting {name} is ignored{_SPELLER.hint(name)}")
        interpret(values, usable, warnings)
        _warn_of_unknown_listeners(values, usable, warnings)
        values["layers"] = layers
        values["_of_listeners"] = _listener_values(usable)
        values["topic_defaults"] = TopicSettings.from_broker(usable)
        values["warnings"] = tuple(warnings)
        values["without_effect"] = _without_effect(usable)
        values["_topics"] = {}
        values["_given"] = usable
        self.__dict__.update(values)
        _check_together(self)

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> Self:
        return cls(Layers(static=dict(properties)))

    def with_id(self, node_id: int) -> "BrokerSettings":
        """Returns the same settings for a broker that has got its id from the store."""
        id_names = {"node.id", *BrokerSettings.node_id.aliases}
        other_settings = {
            name: text for name, text in self.layers.static.items() if name not in id_names
        }
        static = {**other_settings, "node.id": str(node_id)}
        return BrokerSettings(
            Layers(static, self.layers.dynamic_default, self.layers.dynamic_broker)
        )

    def with_dynamic(
        self, cluster_default: Mapping[str, str], this_broker: Mapping[str, str]
    ) -> "BrokerSettings":
        """Returns the same static settings with the dynamic ones that the store holds now."""
        layers = Layers(self.layers.static, dict(cluster_default), dict(this_broker))
        return BrokerSettings(layers)

    @property
    def idle_sentence(self) -> str | None:
        """Returns a line for the operator about settings without effect, if any were set."""
        return sentence(self.without_effect) if self.without_effect else None

    def topic(self, overrides: Mapping[str, str] = _NOTHING) -> TopicSettings:
        """Returns the settings of a topic. Topics with the same overrides get the same object."""
        key = tuple(sorted(overrides.items()))
        settings = self._topics.get(key)
        if settings is None:
            settings = self._topics[key] = self.topic_defaults.with_overrides(overrides)
        return settings

    @property
    def data_directories(self) -> tuple[str, ...]:
        return self.log_dirs or (self.log_dir,)

    @property
    def application_log_directory(self) -> str | None:
        """The directory of the broker's application logs; None if it writes no files.

        The default is the first data directory, not a directory inside it: Kafka ignores files
        there, but not a directory that is not a partition, and Kafka should be able to start on it.
        """
        if self.odradek_logs_directory == NO_FILES:
            return None
        return self.odradek_logs_directory or self.data_directories[0]

    @property
    def effective_advertised_listeners(self) -> tuple[Listener, ...]:
        return self.advertised_listeners or self.listeners

    @property
    def effective_inter_broker_listener_name(self) -> str:
        if self.inter_broker_listener_name is not None:
            return self.inter_broker_listener_name.upper()
        for listener in self.listeners:
            if self.security_protocol(listener.name) == self.security_inter_broker_protocol:
                return listener.name
        return self.listeners[0].name

    def listener(self, name: str) -> ListenerSettings:
        """Returns the settings of a listener: its own, or else those of all listeners."""
        return ListenerSettings(self._given, name)

    def of_listener(self, listener_name: str, setting: Setting[T]) -> T:
        """Returns the value of a setting for one listener alone, as in
        `listener.name.internal.max.connections`, or the setting's default. The value for the whole
        broker is another one, and both apply."""
        value = self._of_listeners.get(f"{LISTENER_PREFIX}{listener_name.lower()}.{setting.name}")
        return setting.default if value is None else cast("T", value)

    def security_protocol(self, listener_name: str) -> str:
        """Returns the security protocol of a listener; PLAINTEXT, SSL and so on name themselves."""
        return self.listener_security_protocol_map[listener_name]


# The settings that a listener may have of its own, by `listener.name.NAME.`.
OF_LISTENERS: Final = ("max.connections", "max.connection.creation.rate")

BROKER_DECLARED: Final[dict[str, Setting[object]]] = BrokerSettings.declared | BROKER_SYNONYMS
_SPELLER: Final = Speller([*BROKER_DECLARED, *UNDECLARED])

# While a broker runs, Kafka changes these for single listeners alone, and other settings of TLS and
# SASL for all of them too.
_KEYS_AND_CERTIFICATES: Final = ("ssl.keystore.", "ssl.key.", "ssl.truststore.")

# Other names of a setting: broker.id is another name of node.id.
_ALIASES: Final = {
    other: setting for setting in BrokerSettings.declared.values() for other in setting.aliases
}


def broker_setting(name: str) -> Setting[object] | None:
    """Returns the declaration of a setting of brokers, which may be written for one listener."""
    found = BROKER_DECLARED.get(name) or _ALIASES.get(name)
    if found is None and name.startswith(LISTENER_PREFIX):
        prefixed = split_prefixed(name)
        return _listener_setting(name) if prefixed is None else prefixed[2]
    return found


def _listener_setting(name: str) -> Setting[object] | None:
    """Returns the setting that `listener.name.X.` limits to one listener, if the name is such."""
    if name.startswith(LISTENER_PREFIX):
        own = name[len(LISTENER_PREFIX) :].partition(".")[2]
        if own in OF_LISTENERS:
            return BROKER_DECLARED[own]
    return None


def _listener_values(given: Mapping[str, str]) -> dict[str, object]:
    """Returns the limits of single listeners, by their full names. Raises `InvalidSetting`."""
    return {
        name.lower(): parse_prefixed(setting, name, text)
        for name, text in given.items()
        if (setting := _listener_setting(name)) is not None
    }


def check_broker_overrides(
    overrides: Mapping[str, str | None], current: BrokerSettings, *, per_broker: bool
) -> None:
    """Raises `InvalidSetting` if these cannot be all the dynamic settings of one broker
    (`per_broker`) or of the cluster. Unknown names are accepted, as in Kafka: a plugin may use
    them."""
    for name, text in overrides.items():
        setting = broker_setting(name)
        if setting is None:
            continue
        if setting.scope is Scope.READ_ONLY:
            raise InvalidSetting(
                name, text, "it cannot change while the broker runs; set it in the file and restart"
            )
        if setting.scope is Scope.PER_BROKER and not per_broker:
            raise InvalidSetting(name, text, "it can only be set for one broker, by its id")
        if name.startswith(_KEYS_AND_CERTIFICATES):
            raise InvalidSetting(
                name,
                setting.shown(text),
                f"while the broker runs it changes for one listener: {LISTENER_PREFIX}NAME.{name}",
            )
        if text is None:
            raise InvalidSetting(name, "null", f"must be {setting.expected}")
        parse_prefixed(setting, name, text)
    given = {name: text for name, text in overrides.items() if text is not None}
    layers = current.layers
    if per_broker:
        BrokerSettings(Layers(layers.static, layers.dynamic_default, given))
    else:
        BrokerSettings(Layers(layers.static, given, layers.dynamic_broker))


def _alias(static: Mapping[str, str]) -> Mapping[str, str]:
    """Returns the properties with every setting under its main name."""
    if not any(name in static for name in _ALIASES):
        return static
    renamed = dict(static)
    for other, setting in _ALIASES.items():
        text = renamed.pop(other, None)
        if text is None:
            continue
        if renamed.setdefault(setting.name, text).strip() != text.strip():
            other_text = setting.shown(renamed[setting.name])
            raise InvalidSetting(
                other, setting.shown(text), f"{setting.name} says {other_text}; they mean the same"
            )
    return renamed


def _without_effect(given: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Returns the settings without effect that are not set to their default, with reasons."""
    reasons = []
    for name, text in sorted(given.items()):
        setting = broker_setting(name)
        why = reason(name, setting)
        if why is not None and not is_default(name, text, setting):
            reasons.append((name, why))
    return tuple(reasons)


def _usable(dynamic: Mapping[str, str], warnings: list[str]) -> Mapping[str, str]:
    """Returns the stored values that can be parsed: a broker must start in spite of the others."""
    usable = {}
    for name, text in dynamic.items():
        setting = broker_setting(name)
        if setting is not None:
            if setting.scope is Scope.READ_ONLY:
                # Brokers refuse to store one. Somebody has written it into the metadata store, and
                # it may name a file or a class.
                warnings.append(
                    f"{name} can only be set in the broker's own file; the stored value is ignored"
                )
                continue
            try:
                parse_prefixed(setting, name, text)
            except InvalidSetting as error:
                warnings.append(f"{error}; the stored value is ignored")
                continue
        usable[name] = text
    return usable


def _warn_of_unknown_listeners(
    values: Mapping[str, object], given: Mapping[str, str], warnings: list[str]
) -> None:
    """Warns of settings for listeners that this broker does not have."""
    prefixed = [name for name in given if name.startswith(LISTENER_PREFIX)]
    if not prefixed:
        return
    listeners = values["listeners"]
    assert isinstance(listeners, tuple)
    known = {listener.name.lower() for listener in listeners}
    for name in prefixed:
        found = split_prefixed(name)
        if found is not None and found[0] not in known:
            warnings.append(f"{name} is ignored: this broker has no listener {found[0].upper()}")


def _check_together(settings: BrokerSettings) -> None:
    _check_listeners(settings)
    _check_inter_broker_protocol(settings)
    for shortest, longest in (
        (BrokerSettings.group_min_session_timeout_ms, BrokerSettings.group_max_session_timeout_ms),
        (
            BrokerSettings.group_consumer_min_session_timeout_ms,
            BrokerSettings.group_consumer_max_session_timeout_ms,
        ),
        (
            BrokerSettings.group_consumer_min_heartbeat_interval_ms,
            BrokerSettings.group_consumer_max_heartbeat_interval_ms,
        ),
    ):
        least = getattr(settings, shortest.attribute)
        most = getattr(settings, longest.attribute)
        if least > most:
            raise InvalidSetting(shortest.name, least, f"it is more than {longest.name}, {most}")
    if not settings.topic_defaults.retention_ms:
        # As in Kafka, a single topic may have this value, but not the default of all topics.
        layers = settings.layers
        given = merge(layers.static, layers.dynamic_default, layers.dynamic_broker)
        name = next(
            synonym.name for synonym in TopicSettings.retention_ms.synonyms if synonym.name in given
        )
        raise InvalidSetting(name, 0, "must be at least 1, or -1 for no limit")
    check_has_key_provider(settings.topic_defaults, settings.odradek_key_provider)
    if settings.log_dirs is not None and len(set(settings.log_dirs)) != len(settings.log_dirs):
        raise InvalidSetting("log.dirs", ",".join(settings.log_dirs), "a directory appears twice")
    if not all(settings.data_directories):
        raise InvalidSetting("log.dirs", "(empty)", "name at least one directory")


def _check_inter_broker_protocol(settings: BrokerSettings) -> None:
    """Checks, as Kafka does, that a listener has the protocol that brokers use between them."""
    name = BrokerSettings.security_inter_broker_protocol.name
    if name not in settings.layers.static:
        return
    protocol = settings.security_inter_broker_protocol
    if settings.inter_broker_listener_name is not None:
        raise InvalidSetting(
            name, protocol, "inter.broker.listener.name is set; choose one of both"
        )
    spoken = [settings.security_protocol(listener.name) for listener in settings.listeners]
    if protocol not in spoken:
        raise InvalidSetting(name, protocol, f"listeners has only {', '.join(spoken)}")


def _check_listeners(settings: BrokerSettings) -> None:
    names = [listener.name for listener in settings.listeners]
    for name in names:
        if name not in settings.listener_security_protocol_map:
            in_map = "add the name to listener.security.protocol.map"
            near = Speller(settings.listener_security_protocol_map).nearest(name)
            advice = f"did you mean {near}? If it is a name of yours, {in_map}" if near else in_map
            raise InvalidSetting("listeners", name, advice)
    for listener in settings.advertised_listeners or ():
        if listener.name not in names:
            raise InvalidSetting(
                "advertised.listeners",
                listener,
                f"listeners has no {listener.name}{Speller(names).hint(listener.name)}",
            )
    inter_broker = settings.inter_broker_listener_name
    if inter_broker is not None and inter_broker.upper() not in names:
        raise InvalidSetting(
            "inter.broker.listener.name", inter_broker, f"listeners has only {', '.join(names)}"
        )
