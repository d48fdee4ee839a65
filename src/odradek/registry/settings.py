"""The properties file of the schema registry, with the names of Confluent's registry.

Settings that begin with `kafkastore.` are passed on to the Kafka clients that read and write the
topic; with them, the registry logs in to the brokers as itself. `authentication.method` says
whether callers must log in. Then the brokers' ACLs decide what they may do
(docs/decisions/0061-who-may-change-a-subject.md).
"""

import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final, Self
from urllib.parse import urlsplit

from odradek.client.errors import SettingsError
from odradek.config.kinds import boolean, custom, integer, long, string
from odradek.config.program_settings import option
from odradek.registry.decisions import MODES
from odradek.schemas.compatibility import Level
from odradek.services.settings import (
    NO_EFFECT,
    OwnLogInSettings,
    listeners,
)
from odradek.web.guards import LOOPBACK

PORT: Final = 8081
_STORE: Final = "kafkastore."
# Settings that begin with kafkastore. and, in Confluent's registry too, are not those of a client.
_STORE_NO_EFFECT: Final[dict[str, tuple[str, ...]]] = {
    "kafkastore.write.max.retries": (),
    "kafkastore.checkpoint.dir": (),
    "kafkastore.checkpoint.version": (),
    "kafkastore.write.retry.backoff.ms": (),
    "kafkastore.topic.skip.validation": ("false",),
    "kafkastore.update.handlers": ("",),
    "kafkastore.group.id": (),
    "kafkastore.timeout.ms": ("500",),
}
_LEVELS: Final = ", ".join(level.value for level in Level)


def _check_level(value: object) -> str:
    text = str(value).strip().upper()
    if text not in Level.__members__:
        raise SettingsError(f"must be one of {_LEVELS}")
    return text


def _check_mode(value: object) -> str:
    text = str(value).strip().upper()
    if text not in MODES:
        raise SettingsError(f"must be one of {', '.join(MODES)}")
    return text


def _check_protocol(value: object) -> str:
    text = str(value).strip().lower()
    if text not in {"", "http", "https"}:
        raise SettingsError("must be http or https")
    return text


@dataclass(frozen=True, kw_only=True)
class SchemaRegistrySettings(OwnLogInSettings):
    protocol_setting: ClassVar[str] = f"{_STORE}security.protocol"
    prefixes: ClassVar[tuple[str, ...]] = (_STORE,)
    no_effect: ClassVar[Mapping[str, tuple[str, ...]]] = {
        **NO_EFFECT,
        **_STORE_NO_EFFECT,
        "avro.compatibility.level": (),
        "schema.registry.zk.namespace": (),
        "inter.instance.headers.whitelist": ("",),
        "response.mediatype.preferred": (),
        "response.mediatype.default": ("application/vnd.schemaregistry.v1+json",),
        "schema.providers": ("",),
        "schema.registry.resource.extension.class": ("",),
        "schema.cache.size": (),
        "schema.cache.expiry.secs": (),
        "schema.canonicalize.on.consume": ("",),
        "schema.search.default.limit": (),
        "schema.search.max.limit": (),
        "subject.search.default.limit": (),
        "subject.search.max.limit": (),
        "leader.connect.timeout.ms": (),
        "leader.election.delay": ("false",),
        "leader.election.sticky": (),
    }
    refused: ClassVar[Mapping[str, str]] = {
        "kafkastore.connection.url": "the registry does not use ZooKeeper; name brokers with"
        " kafkastore.bootstrap.servers",
        "authentication.realm": "callers are users of the brokers, not of a file; leave it out",
        "authentication.roles": "what callers may do follows from the brokers' ACLs; leave it out",
        "confluent.license": "there is no license; leave it out",
        "metadata.encoder.secret": "metadata is not encrypted here",
        "kafkastore.ssl.engine.factory.class": "keys come from ssl.keystore.location",
    }

    listeners: tuple[str, ...] | str = listeners(PORT)
    odradek_max_body_bytes: int = option(
        long(
            "odradek.max.body.bytes",
            4_000_000,
            "The maximum size of a request's body. A schema may have a million characters, because"
            " it has to fit into a record.",
            at_least=1,
        )
    )
    kafkastore_topic: str = option(
        string("kafkastore.topic", "_schemas", "The compacted topic in which the schemas are.")
    )
    kafkastore_topic_replication_factor: int = option(
        integer(
            "kafkastore.topic.replication.factor",
            3,
            "The replication factor of the topic when the registry creates it. With fewer brokers,"
            " it is the number of brokers.",
            at_least=1,
        )
    )
    odradek_change_timeout_ms: int = option(
        integer(
            "odradek.change.timeout.ms",
            30_000,
            "How long a request that changes something may wait for a primary and for the brokers.",
            at_least=1,
        )
    )
    kafkastore_init_timeout_ms: int = option(
        integer(
            "kafkastore.init.timeout.ms",
            60_000,
            "How long the registry may take at its start to reach the brokers and read the topic.",
            at_least=1,
        )
    )
    schema_registry_group_id: str = option(
        string(
            "schema.registry.group.id",
            "schema-registry",
            "The consumer group in which the instances of a registry elect their primary.",
        )
    )
    leader_eligibility: bool = option(
        boolean("leader.eligibility", True, "Whether this instance may become the primary.")
    )
    master_eligibility: bool = option(
        boolean("master.eligibility", True, "The older name of leader.eligibility.")
    )
    schema_compatibility_level: str = option(
        custom(
            "schema.compatibility.level",
            "BACKWARD",
            "The global compatibility level until another one is set by the API.",
            accept=_check_level,
            expected=f"one of {_LEVELS}",
        )
    )
    schema_validate_fields: bool = option(
        boolean(
            "schema.validate.fields",
            False,
            "Whether schemas are refused that have a field which their metadata reserve"
            " (confluent:reserved) or, in JSON Schema, one that begins with $$. A subject's"
            " validateFields wins over it.",
        )
    )
    schema_validate_new_schemas: bool = option(
        boolean(
            "schema.validate.new.schemas",
            True,
            "Whether the defaults of new Avro schemas are checked. A subject's validateNewSchemas"
            " wins over it.",
        )
    )
    mode: str = option(
        custom(
            "mode",
            "READWRITE",
            "The global mode until another one is set by the API.",
            accept=_check_mode,
            expected=f"one of {', '.join(MODES)}",
        )
    )
    mode_mutability: bool = option(
        boolean("mode.mutability", True, "Whether the mode can be changed.")
    )
    inter_instance_protocol: str = option(
        custom(
            "inter.instance.protocol",
            "",
            "How other instances reach this one: http or https. Unset: as in listeners.",
            accept=_check_protocol,
            expected="http or https",
        )
    )
    host_port: int = option(
        integer(
            "host.port",
            0,
            "The port at which other instances reach this one. 0: the port in listeners.",
            at_least=0,
        )
    )

    @classmethod
    def from_file(cls, properties: Mapping[str, str]) -> Self:
        named = dict(properties)
        if (servers := named.pop("kafkastore.bootstrap.servers", None)) is not None:
            named["bootstrap.servers"] = servers
        for name in list(named):
            # They begin like settings that are passed on to Kafka's clients, but are none.
            if name in cls.refused or (name in cls.no_effect and name.startswith(_STORE)):
                value = named.pop(name)
                notes: list[str] = []
                cls._undeclared(name, value.strip(), notes)
        return super().from_file(named)

    @property
    def may_lead(self) -> bool:
        return bool(self.leader_eligibility and self.master_eligibility)

    def own_client(self) -> dict[str, object]:
        """Returns the properties of the clients that read and write the topic."""
        return {"client.id": "schema-registry", **self.clients, **self._servers()}

    def advertised_host(self) -> str:
        """Returns the host by which other instances reach this one."""
        if self.host_name:
            return str(self.host_name)
        host = urlsplit(self.url).hostname or ""
        if host in LOOPBACK or host not in {"0.0.0.0", "::"}:  # noqa: S104 - compared, not bound
            return host
        return socket.gethostname()
