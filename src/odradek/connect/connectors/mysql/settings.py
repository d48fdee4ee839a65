"""The settings of the connectors for MySQL and MariaDB, under Debezium's names."""

import logging
from collections.abc import Mapping
from typing import ClassVar, Final

from odradek.config.kinds import boolean, integer, string
from odradek.config.setting import Importance
from odradek.connect.connectors.cdc.settings import (
    NOT_NEEDED,
    REFUSED,
    DatabaseSettings,
)
from odradek.connect.settings import Problems, invalid

_log = logging.getLogger("odradek.connect")
_TUNED: Final = frozenset(
    {
        "binlog.net.read.timeout",
        "binlog.net.write.timeout",
        "connect.keep.alive",
        "connect.keep.alive.interval.ms",
        "database.connectionTimeZone",
        "database.jdbc.driver",
        "database.protocol",
        "database.query.timeout.ms",
        "database.server.id.offset",
        "enable.time.adjuster",
        "gtid.ignore.on.recovery",
        "inconsistent.schema.handling.mode",
        "min.row.count.to.stream.results",
        "read.only",
        "resolve.create.table.like.schema",
        "snapshot.locking.mode",
        "use.nongraceful.disconnect",
    }
)
_REFUSED: Final = {
    "binlog.buffer.size": (
        "a transaction is not held back until its end: rows that are rolled back are not logged",
        ("0",),
    ),
    "event.deserialization.failure.handling.mode": (
        "a log that cannot be read stops the task",
        ("fail",),
    ),
    "gtid.source.excludes": ("all transactions of the server are captured", ("",)),
    "gtid.source.includes": ("all transactions of the server are captured", ("",)),
    "gtid.source.filter.dml.events": (
        "all transactions of the server are captured",
        ("true", "false"),
    ),
}
_HISTORY: Final = "schema.history.internal"


class MySqlSettings(DatabaseSettings):
    database_port = integer(
        "database.port", 3306, "The port of the database.", at_least=1, at_most=65535
    )
    database_server_id = integer(
        "database.server.id",
        0,
        "The number by which the server knows this reader of its log. Every reader of a server and"
        " every replica needs one of its own; 0 derives one from topic.prefix.",
        at_least=0,
        importance=Importance.HIGH,
    )
    database_include_list = string(
        "database.include.list", "", "Patterns of the databases to capture; empty, all."
    )
    database_exclude_list = string(
        "database.exclude.list", "", "Patterns of databases not to capture."
    )
    database_initial_statements = string(
        "database.initial.statements",
        "",
        "Statements for each connection, with ; between them; ;; is one in a statement.",
    )
    database_ssl_mode = string(
        "database.ssl.mode",
        "preferred",
        "Whether the connection is encrypted, and what of the server's certificate is checked.",
        choices=(
            "disabled", "preferred", "required", "verify_ca", "verify_identity",
            "disable", "trust", "verify-ca", "verify-full",
        ),
        folds_case=True,
    )  # fmt: skip
    database_ssl_truststore = string(
        "database.ssl.truststore", "", "A PEM file with the certificates of authorities."
    )
    database_ssl_keystore = string(
        "database.ssl.keystore", "", "A PEM file with the client's certificate and its key."
    )
    connect_timeout_ms = integer(
        "connect.timeout.ms", 30_000, "How long a connection may take.", at_least=1
    )
    table_ignore_builtin = boolean(
        "table.ignore.builtin", True, "Leave out the tables of the server itself."
    )
    snapshot_mode = string(
        "snapshot.mode",
        "initial",
        "Whether the rows that are there are read before the changes.",
        choices=(
            "initial", "initial_only", "no_data", "when_needed", "always", "recovery",
            "schema_only", "schema_only_recovery", "never",
        ),
        folds_case=True,
    )  # fmt: skip
    include_schema_changes = boolean(
        "include.schema.changes",
        True,
        "Write changes of the definitions of tables to the topic named topic.prefix.",
    )
    include_query = boolean(
        "include.query",
        False,
        "Put the statement that made a change into `source.query`. The server must log it:"
        " binlog_rows_query_log_events=ON (MySQL), binlog_annotate_row_events=ON (MariaDB).",
    )
    bigint_unsigned_handling_mode = string(
        "bigint.unsigned.handling.mode",
        "long",
        "How BIGINT UNSIGNED is written: `long` wraps around above 9223372036854775807.",
        choices=("long", "precise"),
        folds_case=True,
    )
    time_precision_mode = string(
        "time.precision.mode",
        "adaptive_time_microseconds",
        "How times are written.",
        choices=(
            "adaptive_time_microseconds", "connect", "isostring", "microseconds", "nanoseconds",
        ),
        folds_case=True,
    )  # fmt: skip

    refused: ClassVar[Mapping[str, tuple[str, tuple[str, ...]]]] = {
        **REFUSED,
        **_REFUSED,
    }
    not_needed: ClassVar[frozenset[str]] = NOT_NEEDED | _TUNED

    def wrong_together(self) -> Problems:
        problems = super().wrong_together()
        for name, path in (
            ("database.ssl.truststore", self.database_ssl_truststore),
            ("database.ssl.keystore", self.database_ssl_keystore),
        ):
            if path.lower().endswith((".jks", ".p12", ".pfx")):
                reason = "a PEM file is needed: openssl pkcs12 -in STORE.p12 -out FILE.pem -nodes"
                problems[name] = [invalid(name, path, reason)]
        return problems

    @classmethod
    def announce(cls, connector: str, properties: Mapping[str, str]) -> None:
        """Also says, once, that there is no history of schemas."""
        super().announce(
            connector,
            {name: text for name, text in properties.items() if not name.startswith(_HISTORY)},
        )
        if any(name.startswith(_HISTORY) for name in properties):
            _log.warning(
                "%s: %s.* has no effect here: the binary log itself says what columns a row has",
                connector,
                _HISTORY,
            )

    def _texts_with_patterns(self) -> list[tuple[str, str]]:
        return [
            *super()._texts_with_patterns(),
            ("database.include.list", self.database_include_list),
            ("database.exclude.list", self.database_exclude_list),
        ]

    def _exclusive(self) -> list[tuple[str, str]]:
        return [*super()._exclusive(), ("database_include_list", "database_exclude_list")]
