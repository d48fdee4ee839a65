"""ksql-server.properties: the settings of the SQL server, with ksqlDB's names."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

from odradek.client.errors import SettingsError
from odradek.config.kinds import boolean, integer, string
from odradek.config.program_settings import option
from odradek.services.settings import NO_EFFECT, ServiceSettings, listeners
from odradek.sql.engine.definitions import Defaults
from odradek.sql.engine.engine import EngineSettings
from odradek.streams.formats.columns import NAMES
from odradek.web.serving import Listener

PORT: Final = 8088
_RESETS: Final = ("earliest", "latest")


@dataclass(frozen=True, kw_only=True)
class SqlSettings(ServiceSettings):
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
    refused: ClassVar[Mapping[str, str]] = {
        "ksql.schema.registry.url": "formats with a schema registry are not read yet",
        "ksql.connect.url": "connectors are made by the REST interface of Connect, not by SQL yet",
        "ksql.extension.dir": "functions in Java cannot be loaded",
        "ksql.queries.file": "a server without a REST interface is not there yet: send the"
        " statements to /ksql",
    }

    listeners: tuple[str, ...] | str = listeners(PORT)
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
    ksql_internal_topic_replicas: int = option(
        integer(
            "ksql.internal.topic.replicas",
            -1,
            "How many replicas topics have that the server makes; -1: as brokers do by default.",
            at_least=-1,
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
            "What runs persistent queries. There is process: this server, record by record.",
        )
    )
    odradek_sql_http2: bool = option(
        boolean(
            "odradek.sql.http2",
            True,
            "Whether HTTP/2 is served beside HTTP/1.1, where the package for it is installed.",
        )
    )

    def _check_together(self) -> None:
        super()._check_together()
        if self.odradek_sql_engine != "process":
            raise SettingsError(
                f"odradek.sql.engine is process, not {self.odradek_sql_engine}: Spark is not an"
                " engine of persistent queries yet"
            )
        if self.ksql_streams_auto_offset_reset.lower() not in ("", *_RESETS):
            raise SettingsError("ksql.streams.auto.offset.reset is earliest or latest")
        for name in (
            self.ksql_persistence_default_format_key, self.ksql_persistence_default_format_value,
        ):  # fmt: skip
            if name and name.upper() not in NAMES:
                raise SettingsError(f"the default formats are of {', '.join(NAMES)}, not {name}")
        if self.uses_sasl:
            raise SettingsError(
                "brokers that want a log-in are refused yet: queries would need one of the server"
                " itself. Leave out client.security.protocol"
            )

    def engine_settings(self) -> EngineSettings:
        shown = {
            "bootstrap.servers": str(self.client_properties()["bootstrap.servers"]),
            "ksql.service.id": self.ksql_service_id,
            "ksql.streams.auto.offset.reset": self.ksql_streams_auto_offset_reset,
            "ksql.persistence.default.format.key": self.ksql_persistence_default_format_key,
            "ksql.persistence.default.format.value": self.ksql_persistence_default_format_value,
            "odradek.sql.engine": self.odradek_sql_engine,
        }
        value_format = self.ksql_persistence_default_format_value.upper() or None
        return EngineSettings(
            self.ksql_service_id,
            self.own_client(),
            self.ksql_streams_auto_offset_reset.lower() or None,
            Defaults(self.ksql_persistence_default_format_key.upper(), value_format),
            self.ksql_internal_topic_replicas,
            shown,
        )

    def own_client(self) -> dict[str, Any]:
        """Returns the properties of the server's own clients."""
        return {**self.client_properties(), "client.id": f"odradek-sql-{self.ksql_service_id}"}

    def listener(self) -> Listener:
        found = super().listener()
        return replace(found, http2=self.odradek_sql_http2 and _has_http2())


def _has_http2() -> bool:
    from importlib.util import find_spec  # noqa: PLC0415 - for this alone

    return find_spec("zttp") is not None
