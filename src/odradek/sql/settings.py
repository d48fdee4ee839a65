"""ksql-server.properties: the settings of the SQL server, with ksqlDB's names.

`security.protocol`, `sasl.*` and `ssl.*`, with `ksql.streams.` before them or without, are the
log-in of the server at the brokers, with which persistent queries run. `ssl.*` without a prefix are
those of an https listener, too, as in ksqlDB. With `authentication.method` callers log in to the
brokers themselves (docs/decisions/0105-log-ins-of-the-sql-server.md).
"""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self
from urllib.parse import urlsplit

from odradek.client.errors import SettingsError
from odradek.client.settings.shared import AdminSettings
from odradek.config.kinds import boolean, integer, string
from odradek.config.program_settings import option
from odradek.config.setting import InvalidSetting
from odradek.config.spelling import did_you_mean
from odradek.schemas.errors import BadSetting
from odradek.schemas.registry_client import RegistryClient
from odradek.services.settings import (
    NO_EFFECT,
    OWN_KEY,
    TLS,
    OwnLogInSettings,
    listeners,
)
from odradek.sql.planning.sources import REGISTERED, WITHOUT_REGISTRY
from odradek.web.serving import Listener

if TYPE_CHECKING:
    from odradek.sql.engine.engine import EngineSettings

PORT: Final = 8088
_STREAMS: Final = "ksql.streams."
_REGISTRY: Final = "ksql.schema.registry."
_SECURITY: Final = ("security.protocol", "sasl.", "ssl.")
_RESETS: Final = ("earliest", "latest")


@dataclass(frozen=True, kw_only=True)
class SqlSettings(OwnLogInSettings):
    """What the SQL server can be told, beside what every service can."""

    no_effect: ClassVar[Mapping[str, tuple[str, ...]]] = {
        **NO_EFFECT,
        "ksql.streams.num.stream.threads": (),
        "ksql.streams.state.dir": (),
        "ksql.streams.cache.max.bytes.buffering": (),
        "ksql.streams.commit.interval.ms": (),
        "ksql.streams.processing.guarantee": ("exactly_once", "exactly_once_v2"),
        "ksql.fail.on.deserialization.error": ("false",),
        "ksql.logging.processing.topic.auto.create": ("false",),
        "ksql.logging.processing.stream.auto.create": ("false",),
        "ksql.heartbeat.enable": (),
        "ksql.lag.reporting.enable": (),
        "ksql.headers.columns.enabled": ("true",),
        "ksql.suppress.enabled": ("true",),
    }
    refused: ClassVar[Mapping[str, str]] = {}

    registry: Mapping[str, str] = field(default_factory=dict, repr=False)
    """How the registry is reached: settings `ksql.schema.registry.`, passed on to its client."""
    spark: Mapping[str, str] = field(default_factory=dict)
    """Settings `spark.`, passed on to the Sparks that run queries."""

    listeners: tuple[str, ...] | str = listeners(PORT)
    ksql_schema_registry_url: str = option(
        string(
            "ksql.schema.registry.url",
            "",
            "The schema registry for AVRO, PROTOBUF and JSON_SR, as http://127.0.0.1:8081.",
        )
    )
    ksql_service_id: str = option(
        string(
            "ksql.service.id",
            "default_",
            "Servers with one id share their streams, tables and queries.",
        )
    )
    ksql_streams_auto_offset_reset: str = option(
        string(
            "ksql.streams.auto.offset.reset",
            "",
            "Where queries begin to read: earliest or latest. Unset, a stream is read from its end"
            " on, and a table from its beginning. A request may say otherwise.",
        )
    )
    ksql_persistence_default_format_key: str = option(
        string(
            "ksql.persistence.default.format.key",
            "KAFKA",
            "The format of keys where WITH names none.",
        )
    )
    ksql_persistence_default_format_value: str = option(
        string(
            "ksql.persistence.default.format.value",
            "",
            "The format of values where WITH names none; empty: WITH must name one.",
        )
    )
    ksql_persistence_wrap_single_values: bool = option(
        boolean(
            "ksql.persistence.wrap.single.values",
            True,
            "Whether a value of one column is a record, in formats that have both; WITH and SET can"
            " say something else.",
        )
    )
    ksql_functions_collect_list_limit: int = option(
        integer(
            "ksql.functions.collect_list.limit",
            1000,
            "How many values COLLECT_LIST gathers at most; -1: any number. SET can say another.",
            at_least=-1,
        )
    )
    ksql_functions_collect_set_limit: int = option(
        integer(
            "ksql.functions.collect_set.limit",
            1000,
            "How many values COLLECT_SET gathers at most; -1: any number. SET can say another.",
            at_least=-1,
        )
    )
    ksql_query_pull_table_scan_enabled: bool = option(
        boolean(
            "ksql.query.pull.table.scan.enabled",
            True,
            "Whether pull queries of tables may do without keys in WHERE; SET can say something"
            " else.",
        )
    )
    ksql_internal_topic_replicas: int = option(
        integer(
            "ksql.internal.topic.replicas",
            -1,
            "How many replicas topics have that the server makes; -1: as brokers do by default.",
            at_least=-1,
        )
    )
    ksql_connect_url: str = option(
        string(
            "ksql.connect.url",
            "",
            "A worker of Kafka Connect, for CREATE CONNECTOR and its kin, as http://127.0.0.1:8083.",
        )
    )
    ksql_queries_file: str = option(
        string(
            "ksql.queries.file",
            "",
            "A file of statements that the server carries out when it starts; no others change"
            " anything then.",
        )
    )
    ksql_extension_dir: str = option(
        string(
            "ksql.extension.dir",
            "",
            "A directory with functions of your own in Python: docs/sql-functions.md.",
        )
    )
    ksql_max_push_queries: int = option(
        integer(
            "ksql.max.push.queries",
            100,
            "How many push queries run on this server at once; others are refused.",
            at_least=0,
        )
    )
    odradek_sql_engine: str = option(
        string(
            "odradek.sql.engine",
            "process",
            "What runs persistent queries. process: this server; spark: a process for each query,"
            " by the turns of a query of Spark.",
        )
    )
    odradek_sql_http2: bool = option(
        boolean(
            "odradek.sql.http2",
            True,
            "Whether HTTP/2 is served beside HTTP/1.1, where the package for it is installed.",
        )
    )

    @classmethod
    def _pass_on(cls, name: str, value: str, passed: dict[str, Any]) -> bool:
        if name.startswith("spark."):
            passed.setdefault("spark", {})[name] = value.strip()
            return True
        rest = name.removeprefix(_REGISTRY)
        if rest == name or not rest.startswith(("ssl.", "basic.auth.", "bearer.auth.")):
            return super()._pass_on(name, value, passed)
        passed.setdefault("registry", {})[f"schema.registry.{rest}"] = value
        return True

    def registry_client(self) -> RegistryClient | None:
        """Returns the client of the schema registry, if there is one."""
        if not self.ksql_schema_registry_url:
            return None
        try:
            return RegistryClient(
                {"schema.registry.url": self.ksql_schema_registry_url, **self.registry}
            )
        except BadSetting as error:
            raise SettingsError(f"ksql.{error}") from None

    def _check_together(self) -> None:
        super()._check_together()
        if self.spark and self.odradek_sql_engine != "spark":
            raise SettingsError(
                f"{next(iter(self.spark))} has no effect without odradek.sql.engine=spark"
            )
        if self.registry and not self.ksql_schema_registry_url:
            raise SettingsError("ksql.schema.registry.url is missing: write its address")
        self.registry_client()
        if self.ksql_connect_url and urlsplit(self.ksql_connect_url).scheme not in (
            "http",
            "https",
        ):
            raise SettingsError(
                "ksql.connect.url is a URL such as http://127.0.0.1:8083, not"
                f" {self._shown_connect_url()}"
            )
        if self.odradek_sql_engine not in ("process", "spark"):
            raise SettingsError(
                f"odradek.sql.engine is process or spark, not {self.odradek_sql_engine!r}"
                + did_you_mean(self.odradek_sql_engine, ("process", "spark"))
            )
        if self.ksql_streams_auto_offset_reset.lower() not in ("", *_RESETS):
            raise SettingsError("ksql.streams.auto.offset.reset is earliest or latest")
        for name in (
            self.ksql_persistence_default_format_key, self.ksql_persistence_default_format_value,
        ):  # fmt: skip
            known = (*WITHOUT_REGISTRY, *REGISTERED)
            if name and name.upper() not in known:
                raise SettingsError(f"the default formats are of {', '.join(known)}, not {name}")
            if name.upper() in REGISTERED and not self.ksql_schema_registry_url:
                raise SettingsError(
                    f"the default format {name} needs a registry: set ksql.schema.registry.url"
                )

    @classmethod
    def from_file(cls, properties: Mapping[str, str]) -> Self:
        """Returns the settings of a properties file; raises `SettingsError` for what is wrong."""
        known, declared = AdminSettings.declared(), cls.declared()
        given = {"consumer.isolation.level": "read_committed"}
        clients: dict[str, str] = {}
        of_streams: dict[str, str] = {}
        for name, value in properties.items():
            rest = name.removeprefix(_STREAMS)
            is_of_clients = rest in known and rest.startswith(_SECURITY) and name not in declared
            if not is_of_clients:
                given[name] = value
            elif rest != name:
                of_streams[f"client.{rest}"] = value
            else:
                clients[f"client.{rest}"] = value
                if name in TLS:
                    given[name] = value
        return super().from_file({**clients, **of_streams, **given})

    def _check_log_in(self) -> None:
        super()._check_log_in()
        try:
            AdminSettings.from_config(self.own_client())
        except (SettingsError, InvalidSetting) as error:
            raise SettingsError(
                f"the server's log-in, with which persistent queries run: {error}"
            ) from None

    def client_properties(self) -> dict[str, object]:
        """Returns the properties of clients of callers: without the server's own log-in and key."""
        found = super().client_properties()
        return {name: value for name, value in found.items() if name not in OWN_KEY}

    def engine_settings(self) -> "EngineSettings":
        """Returns what the engine is told. It imports the language, which is large."""
        from odradek.sql.engine.definitions import Defaults  # noqa: PLC0415
        from odradek.sql.engine.engine import EngineSettings  # noqa: PLC0415
        from odradek.sql.formats.catalogue import Formats  # noqa: PLC0415

        shown = {
            "bootstrap.servers": str(self._servers()["bootstrap.servers"]),
            "ksql.service.id": self.ksql_service_id,
            "ksql.streams.auto.offset.reset": self.ksql_streams_auto_offset_reset,
            "ksql.persistence.default.format.key": self.ksql_persistence_default_format_key,
            "ksql.persistence.default.format.value": self.ksql_persistence_default_format_value,
            "ksql.persistence.wrap.single.values": _shown(self.ksql_persistence_wrap_single_values),
            "ksql.functions.collect_list.limit": str(self.ksql_functions_collect_list_limit),
            "ksql.functions.collect_set.limit": str(self.ksql_functions_collect_set_limit),
            "ksql.query.pull.table.scan.enabled": _shown(self.ksql_query_pull_table_scan_enabled),
            "ksql.schema.registry.url": self.ksql_schema_registry_url,
            "ksql.connect.url": self._shown_connect_url(),
            "odradek.sql.engine": self.odradek_sql_engine,
        }
        value_format = self.ksql_persistence_default_format_value.upper() or None
        limits = {
            "COLLECT_LIST": self.ksql_functions_collect_list_limit,
            "COLLECT_SET": self.ksql_functions_collect_set_limit,
        }
        return EngineSettings(
            self.ksql_service_id,
            self.own_client(),
            self.ksql_streams_auto_offset_reset.lower() or None,
            Defaults(
                self.ksql_persistence_default_format_key.upper(),
                value_format,
                Formats(self.registry_client()),
                None if self.ksql_persistence_wrap_single_values else False,
                limits,
            ),
            self.ksql_internal_topic_replicas,
            self.spark if self.odradek_sql_engine == "spark" else None,
            self.ksql_connect_url,
            self._trust(),
            self.ksql_query_pull_table_scan_enabled,
            shown,
        )

    def _shown_connect_url(self) -> str:
        scheme, separator, rest = self.ksql_connect_url.partition("://")
        return f"{scheme}{separator}{rest.rpartition('@')[2]}"

    def _trust(self) -> ssl.SSLContext | None:
        """Returns what the certificate of Kafka Connect is checked by: the trust store for brokers.
        None is what the system trusts."""
        given = {name: text for name, text in self.clients.items() if ".truststore." in name}
        if not given or not self.ksql_connect_url.startswith("https:"):
            return None
        from odradek.security.tls.contexts import client_context  # noqa: PLC0415 - with TLS
        from odradek.security.tls.settings import TlsSettings  # noqa: PLC0415
        from odradek.world.disk import OsDisk  # noqa: PLC0415

        try:
            return client_context(TlsSettings.from_properties(given), OsDisk().read)
        except InvalidSetting as error:
            raise SettingsError(str(error)) from None

    def own_client(self) -> dict[str, object]:
        """Returns the properties of the server's own clients."""
        name = f"odradek-sql-{self.ksql_service_id}"
        return {"client.id": name, **self.clients, **self._servers()}

    def listener(self) -> Listener:
        found = super().listener()
        http2 = self.odradek_sql_http2 and _is_installed("zttp")
        return replace(found, http2=http2, web_sockets=_is_installed("wsproto"))


def _shown(value: bool) -> str:
    return "true" if value else "false"


def _is_installed(name: str) -> bool:
    from importlib.util import find_spec  # noqa: PLC0415 - for this alone

    return find_spec(name) is not None
