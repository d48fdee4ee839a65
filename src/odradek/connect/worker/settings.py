"""The worker's properties file, with Kafka Connect's names and defaults.

What the file says without a prefix for Kafka's clients (`security.protocol`, `sasl.jaas.config`,
`ssl.truststore.location`) is the log-in of the worker, and of all connectors unless `producer.`,
`consumer.` or `admin.` says otherwise. What is not known is announced with the name that was
probably meant, and not refused: Kafka Connect does not refuse it either, and plug-ins may have
settings of their own.
"""

import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Self
from urllib.parse import urlsplit

from odradek.client.errors import SettingsError
from odradek.client.settings.shared import AdminSettings
from odradek.client.settings.undeclared import NO_EFFECT as OF_CLIENTS
from odradek.config.kinds import boolean, custom, integer, long, string
from odradek.config.program_settings import option
from odradek.config.setting import InvalidSetting, Kind
from odradek.config.spelling import did_you_mean
from odradek.config.values import parse_list
from odradek.connect.engine.clients import POLICIES, ConnectorClients
from odradek.services.client_pool import CLIENT_KINDS
from odradek.services.settings import (
    TLS,
    OwnLogInSettings,
    listeners,
)
from odradek.web.guards import LOOPBACK

PORT: Final = 8083
_REPLICATION: Final = (
    "The replication factor of the topic for {} when the worker creates it. With fewer brokers, it"
    " is the number of brokers."
)
_PARTITIONS: Final = "The number of partitions of the topic for {} when the worker creates it."
JSON_CONVERTER: Final = "org.apache.kafka.connect.json.JsonConverter"
_CONVERTERS: Final = ("key.converter", "value.converter", "header.converter")
_STORAGES: Final = ("config.storage.", "offset.storage.", "status.storage.")
_HTTPS: Final = "listeners.https."
_ADDITIONAL_TOPICS: Final = ("cleanup.policy",)

# Settings of Kafka Connect that have no effect here, and the values for which no line in the log
# says so.
NO_EFFECT: Final[dict[str, tuple[str, ...]]] = {
    "access.control.allow.methods": ("",),
    "access.control.allow.origin": ("",),
    "admin.listeners": (),
    "auto.include.jmx.reporter": ("true", "false"),
    "client.dns.lookup": ("use_all_dns_ips",),
    "config.topic": (),
    "connect.protocol": ("sessioned", "compatible"),
    "connections.max.idle.ms": (),
    "exactly.once.source.support": ("enabled",),
    "heartbeat.interval.ms": ("3000",),
    "inter.worker.key.generation.algorithm": ("HmacSHA256",),
    "inter.worker.key.size": (),
    "inter.worker.key.ttl.ms": (),
    "inter.worker.signature.algorithm": ("HmacSHA256",),
    "inter.worker.verification.algorithms": ("HmacSHA256",),
    "internal.key.converter": (),
    "internal.key.converter.schemas.enable": ("false",),
    "internal.value.converter": (),
    "internal.value.converter.schemas.enable": ("false",),
    "metadata.recovery.rebootstrap.trigger.ms": (),
    "metadata.recovery.strategy": (),
    "metric.reporters": ("",),
    "metrics.num.samples": ("2",),
    "metrics.recording.level": ("INFO",),
    "metrics.sample.window.ms": ("30000",),
    "offset.flush.interval.ms": ("60000", "10000"),
    "offset.flush.timeout.ms": ("5000",),
    "offset.storage.file.filename": ("/tmp/connect.offsets", ""),  # noqa: S108 - Kafka's default
    "plugin.discovery": ("hybrid_warn", "hybrid_fail", "only_scan", "service_load"),
    "plugin.path": ("",),
    "receive.buffer.bytes": (),
    "reconnect.backoff.max.ms": (),
    "reconnect.backoff.ms": (),
    "response.http.headers.config": ("",),
    "retry.backoff.max.ms": (),
    "retry.backoff.ms": (),
    "scheduled.rebalance.max.delay.ms": ("0", "300000"),
    "send.buffer.bytes": (),
    "socket.connection.setup.timeout.max.ms": (),
    "socket.connection.setup.timeout.ms": (),
    "worker.sync.timeout.ms": ("3000",),
    "worker.unsync.backoff.ms": ("300000",),
}
_WHY: Final = {
    "admin.listeners": "all endpoints are at `listeners`",
    "access.control.allow.origin": "pages of other sites may not call a worker",
    "plugin.path": "connectors are Python packages: `pip install` them beside the worker, and allow"
    " them with odradek.plugins",
    "offset.storage.file.filename": "offsets are in the topic offset.storage.topic, so that a"
    " source's offset is committed together with its records",
    "exactly.once.source.support": "sources always write exactly once",
    "scheduled.rebalance.max.delay.ms": "the tasks of a worker that is gone move at once",
}


def _policy(value: object) -> str:
    text = str(value).strip().rpartition(".")[2]
    text = text.removesuffix("ConnectorClientConfigOverridePolicy")
    if text not in POLICIES:
        raise SettingsError(f"must be one of {', '.join(POLICIES)}")
    return text


def _engine(value: object) -> str:
    text = str(value).strip().lower()
    if text not in {"", "spark", "process"}:
        raise SettingsError("must be spark or process")
    return text


def _read_list(value: object) -> tuple[str, ...]:
    given = parse_list(value) if isinstance(value, str) else value
    if not isinstance(given, list | tuple):
        raise SettingsError("must be names separated by commas")
    return tuple(map(str, given))


def _list(name: str, doc: str) -> Any:
    return custom(
        name, (), doc, accept=_read_list, expected="names separated by commas", kind=Kind.LIST
    )


def _converter(name: str) -> Any:
    doc = f"The converter of {name.partition('.')[0]}s for connectors that do not set one."
    return option(string(name, JSON_CONVERTER, doc))


@dataclass(frozen=True, kw_only=True)
class WorkerSettings(OwnLogInSettings):
    """The settings of a worker. `converters` are those of the three converters, `spark` those of
    Spark, `topics` those of the internal topics by their prefix, and `providers` the
    `config.providers` settings."""

    no_effect: ClassVar[Mapping[str, tuple[str, ...]]] = NO_EFFECT
    refused: ClassVar[Mapping[str, str]] = {
        "rest.extension.classes": "extensions are Java classes; callers log in to the brokers with"
        " authentication.method=BASIC",
    }
    keystore_setting: ClassVar[str] = f"{_HTTPS}ssl.keystore.location"

    converters: Mapping[str, str] = field(default_factory=dict)
    spark: Mapping[str, str] = field(default_factory=dict, repr=False)
    topics: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    providers: Mapping[str, str] = field(default_factory=dict, repr=False)

    listeners: tuple[str, ...] | str = listeners(PORT)
    odradek_max_body_bytes: int = option(
        long(
            "odradek.max.body.bytes",
            2_000_000,
            "The maximum size of a request's body. A configuration has to fit into a record.",
            at_least=1,
        )
    )
    key_converter: str = _converter("key.converter")
    value_converter: str = _converter("value.converter")
    header_converter: str = option(
        string(
            "header.converter",
            "org.apache.kafka.connect.storage.SimpleHeaderConverter",
            "The converter of headers for connectors that do not set one.",
        )
    )
    rest_advertised_host_name: str = option(
        string("rest.advertised.host.name", "", "The host by which other workers reach this one.")
    )
    rest_advertised_port: int = option(
        integer(
            "rest.advertised.port",
            0,
            "The port at which other workers reach this one. 0: the port in listeners.",
            at_least=0,
        )
    )
    rest_advertised_listener: str = option(
        string("rest.advertised.listener", "", "http or https. Unset: as in listeners.")
    )
    connector_client_config_override_policy: str = option(
        custom(
            "connector.client.config.override.policy",
            "All",
            "Which settings of Kafka clients connectors may change: All, None, Principal (the"
            " log-in) or Allowlist. Kafka's class names are accepted too.",
            accept=_policy,
            expected=f"one of {', '.join(POLICIES)}",
        )
    )
    connector_client_config_override_allowlist: tuple[str, ...] | str = option(
        _list(
            "connector.client.config.override.allowlist",
            "With the policy Allowlist: the names of settings that connectors may change.",
        )
    )
    topic_creation_enable: bool = option(
        boolean(
            "topic.creation.enable", True, "Whether source connectors may set topic.creation rules."
        )
    )
    topic_tracking_enable: bool = option(
        boolean(
            "topic.tracking.enable",
            True,
            "Whether the worker records which topics a connector uses.",
        )
    )
    topic_tracking_allow_reset: bool = option(
        boolean(
            "topic.tracking.allow.reset",
            True,
            "Whether the API can reset the recorded topics of a connector.",
        )
    )
    task_shutdown_graceful_timeout_ms: int = option(
        long(
            "task.shutdown.graceful.timeout.ms",
            5_000,
            "How long the worker waits for a task to end.",
            at_least=0,
        )
    )
    offset_storage_topic: str = option(
        string(
            "offset.storage.topic",
            "connect-offsets",
            "The topic for the offsets of source connectors.",
            may_be_empty=False,
        )
    )
    offset_storage_replication_factor: int = option(
        integer(
            "offset.storage.replication.factor",
            3,
            _REPLICATION.format("offsets"),
        )
    )
    offset_storage_partitions: int = option(
        integer("offset.storage.partitions", 25, _PARTITIONS.format("offsets"), at_least=1)
    )
    odradek_plugins: tuple[str, ...] | str = option(
        _list(
            "odradek.plugins",
            "Distributions whose connectors, transforms and converters may be used, beside those"
            " of Odradek: names as in `pip install`; `*` means all that are installed.",
        )
    )
    odradek_singer_taps: tuple[str, ...] | str = option(
        _list(
            "odradek.singer.taps",
            "Singer taps that may be used as connectors, as in"
            " tap-github=/opt/taps/github/bin/tap-github: a name and a program.",
        )
    )
    odradek_engine: str = option(
        custom(
            "odradek.engine",
            "",
            "What runs the tasks: spark, or process, which is the worker's own process. Unset:"
            " spark if Java and PySpark are installed.",
            accept=_engine,
            expected="spark or process",
        )
    )
    odradek_connector_logs_dir: str = option(
        string(
            "odradek.connector.logs.dir",
            "",
            "A directory with a log file for each connector, NAME.log, with rotation. Unset: the"
            " last 1,000 lines of each are kept in memory for `odradek connect logs`.",
        )
    )
    odradek_restart_failed_tasks: bool = option(
        boolean(
            "odradek.restart.failed.tasks",
            True,
            "Whether failed tasks are restarted, after 1 s, 2 s, 4 s and so on up to 60 s.",
        )
    )
    odradek_hang_timeout_ms: int = option(
        long(
            "odradek.hang.timeout.ms",
            60_000,
            "How long a call of a connector may take before its task is regarded as hanging.",
            at_least=100,
        )
    )

    @classmethod
    def from_file(cls, properties: Mapping[str, str]) -> Self:
        """Returns the settings of a file whose own secrets are resolved. Raises `SettingsError`."""
        own: dict[str, str] = {}
        passed: dict[str, Any] = {
            "tls": {}, "clients": {}, "client_kinds": {}, "token_client": {}, "notes": [],
            "converters": {}, "topics": {prefix: {} for prefix in _STORAGES}, "providers": {},
            "spark": {},
        }  # fmt: skip
        for name, value in properties.items():
            if name in cls.declared():
                own[name] = value
            else:
                cls._sort(name, value, passed)
        passed["tls"] = {
            **{name: text for name, text in properties.items() if name in TLS},
            **passed["tls"],
        }
        for name in _CONVERTERS:
            if name in properties:
                passed["converters"][name] = properties[name]
        passed["notes"] = tuple(passed["notes"])
        options: dict[str, Any] = {**cls.read_properties(own), **passed}
        return cls(**options)

    @classmethod
    def _sort(cls, name: str, value: str, passed: dict[str, Any]) -> None:
        """Puts a setting that is not declared into its group in `passed`. A setting that has no
        effect is put into the notes."""
        if name == "config.providers" or name.startswith("config.providers."):
            passed["providers"][name] = value
        elif name.startswith(tuple(f"{converter}." for converter in _CONVERTERS)):
            passed["converters"][name] = value
        elif name.startswith(_HTTPS) and name.removeprefix(_HTTPS) in TLS:
            passed["tls"][name.removeprefix(_HTTPS)] = value
        elif name in cls.no_effect or name in cls.refused:
            cls._announce(name, value.strip(), passed["notes"])
        elif name.startswith(_STORAGES):
            prefix = next(storage for storage in _STORAGES if name.startswith(storage))
            passed["topics"][prefix][name.removeprefix(prefix)] = value
        elif name.partition(".")[0] in CLIENT_KINDS:
            cls._for_kind(name, value, passed)
        elif name in AdminSettings.declared() or name in OF_CLIENTS:
            passed["clients"][name] = value
        elif name.startswith("spark."):
            passed["spark"][name] = value
        elif name.startswith("odradek.tokens.") and cls._pass_on(name, value, passed):
            pass
        else:
            cls._announce(name, value.strip(), passed["notes"])

    @classmethod
    def _for_kind(cls, name: str, value: str, passed: dict[str, Any]) -> None:
        kind, _, rest = name.partition(".")
        known = CLIENT_KINDS[kind].declared()
        if rest in known:
            passed["client_kinds"].setdefault(kind, {})[rest] = value
        elif rest not in OF_CLIENTS and rest not in _SERIALIZERS:
            near = did_you_mean(rest, known)
            passed["notes"].append(f"{name} has no effect: Kafka's clients have no {rest}{near}")

    @classmethod
    def _announce(cls, name: str, value: str, notes: list[str]) -> None:
        if name in cls.refused:
            if value:
                raise SettingsError(f"{name}={value}: {cls.refused[name]}")
            return
        if name in cls.no_effect:
            harmless = cls.no_effect[name]
            if value not in harmless and (harmless or name in _WHY):
                why = f": {_WHY[name]}" if name in _WHY else ""
                notes.append(f"{name}={value} has no effect here{why}")
            return
        near = did_you_mean(name, [*cls.declared(), *AdminSettings.declared()])
        notes.append(f"{name} has no effect: there is no such setting{near}")

    def _check_log_in(self) -> None:
        super()._check_log_in()
        try:
            AdminSettings.from_config(self.own_client())
        except (SettingsError, InvalidSetting) as error:
            raise SettingsError(f"the worker's log-in: {error}") from None

    def own_client(self) -> dict[str, object]:
        """Returns the properties of the worker's own clients."""
        return {"client.id": "odradek-connect", **self.clients, **self._servers()}

    def connector_clients(self) -> ConnectorClients:
        allowed = self.connector_client_config_override_allowlist
        return ConnectorClients(
            self.own_client(),
            self.client_kinds,
            str(self.connector_client_config_override_policy),
            tuple(allowed),
        )

    def converter_properties(self) -> dict[str, str]:
        """Returns the worker's converters and their settings, which are defaults for connectors."""
        return {
            "key.converter": self.key_converter,
            "value.converter": self.value_converter,
            "header.converter": self.header_converter,
            **self.converters,
        }

    def advertised_url(self, served_url: str) -> str:
        """Returns the URL at which other workers reach this one, which listens at `served_url`."""
        served = urlsplit(served_url)
        host = self.rest_advertised_host_name or self.host_name or served.hostname or ""
        if host in {"0.0.0.0", "::"}:  # noqa: S104 - compared, not bound
            host = socket.gethostname()
        shown = f"[{host}]" if ":" in host else host
        port = self.rest_advertised_port or served.port
        return f"{self.rest_advertised_listener or served.scheme}://{shown}:{port}"

    @property
    def is_open_to_others(self) -> bool:
        return (urlsplit(self.url).hostname or "") not in LOOPBACK


_SERIALIZERS: Final = (
    "key.serializer", "value.serializer", "key.deserializer", "value.deserializer",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class StandaloneSettings(WorkerSettings):
    """The settings of a worker that has its connectors in memory, and their offsets in a topic."""

    group_id: str = option(
        string(
            "group.id",
            "connect-standalone",
            "A part of the transactional ids of source connectors. Two standalone workers that run"
            " connectors with the same name on one cluster need different values.",
        )
    )
    offset_storage_partitions: int = option(
        integer("offset.storage.partitions", 1, _PARTITIONS.format("offsets"), at_least=1)
    )


@dataclass(frozen=True, kw_only=True)
class DistributedSettings(WorkerSettings):
    """The settings of a worker that shares connectors with the other workers of its `group.id`."""

    group_id: str = option(
        string("group.id", "connect-cluster", "The group of workers that share connectors.")
    )
    config_storage_topic: str = option(
        string(
            "config.storage.topic",
            "connect-configs",
            "The topic for the configurations of connectors and tasks.",
            may_be_empty=False,
        )
    )
    config_storage_replication_factor: int = option(
        integer("config.storage.replication.factor", 3, _REPLICATION.format("configurations"))
    )
    status_storage_topic: str = option(
        string(
            "status.storage.topic",
            "connect-status",
            "The topic for the states of connectors and tasks.",
            may_be_empty=False,
        )
    )
    status_storage_replication_factor: int = option(
        integer("status.storage.replication.factor", 3, _REPLICATION.format("states"))
    )
    status_storage_partitions: int = option(
        integer("status.storage.partitions", 5, _PARTITIONS.format("states"), at_least=1)
    )
    session_timeout_ms: int = option(
        integer(
            "session.timeout.ms",
            10_000,
            "How long a worker may send no heartbeat before the group removes it. The end of its"
            " process is noticed sooner.",
            at_least=1_000,
        )
    )
    rebalance_timeout_ms: int = option(
        integer(
            "rebalance.timeout.ms",
            60_000,
            "How long a rebalance waits for a worker.",
            at_least=1_000,
        )
    )
