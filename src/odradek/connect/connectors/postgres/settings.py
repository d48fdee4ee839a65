"""The settings of the PostgreSQL connector, under Debezium's names."""

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from types import MappingProxyType
from typing import ClassVar, Final

from odradek.config.kinds import boolean, integer, names, string
from odradek.config.setting import Importance
from odradek.connect.connectors.cdc.filters import KeyColumns, NameFilter
from odradek.connect.connectors.cdc.notifications import LOG, SINK
from odradek.connect.connectors.cdc.settings import (
    NOT_NEEDED,
    REFUSED,
    SOURCE_CHANNEL,
    DatabaseSettings,
)
from odradek.connect.connectors.cdc.topic_naming import STRATEGIES, TopicNaming, replacement
from odradek.connect.connectors.postgres.database import Address
from odradek.connect.connectors.postgres.types import Modes
from odradek.connect.errors import InvalidConfig
from odradek.connect.settings import REQUIRED, Problems, invalid

_HIGH: Final = Importance.HIGH
_SLOT_NAME: Final = re.compile(r"[a-z0-9_]{1,63}")
_IDENTITY: Final = re.compile(r"\s*(.+):\s*(DEFAULT|FULL|NOTHING|INDEX\s+(\S+))\s*", re.IGNORECASE)
_REPLICATION_NEEDS: Final = "only pgoutput is supported, which every PostgreSQL from version 10 has"

ALWAYS: Final = "always"
INITIAL: Final = "initial"
INITIAL_ONLY: Final = "initial_only"
NO_DATA: Final = "no_data"
WHEN_NEEDED: Final = "when_needed"
CONFIGURED: Final = "configuration_based"
_CONFIGURED: Final = "snapshot.mode.configuration.based."

OVERRIDES: Final = "snapshot.select.statement.overrides"
COLUMN_TYPES: Final = "column.propagate.source.type"
DATA_TYPES: Final = "datatype.propagate.source.type"
TOPIC_NAMING: Final = "topic.naming.strategy"
NOTIFICATIONS: Final = "notification.enabled.channels"
_OBEYED: Final = frozenset({OVERRIDES, COLUMN_TYPES, DATA_TYPES, TOPIC_NAMING, NOTIFICATIONS})

ALL_TABLES: Final = "all_tables"
FILTERED: Final = "filtered"
NO_TABLES: Final = "no_tables"
DISABLED: Final = "disabled"


class PostgresSettings(DatabaseSettings):
    database_port = integer("database.port", 5432, "Its port.", at_least=1, at_most=65_535)
    database_dbname = string(
        "database.dbname", REQUIRED, "The database to capture.", importance=_HIGH
    )
    database_sslmode = string(
        "database.sslmode",
        "prefer",
        "Whether the connection is encrypted, and what is checked.",
        choices=("disable", "allow", "prefer", "require", "verify-ca", "verify-full"),
        folds_case=True,
    )
    database_sslcert = string("database.sslcert", "", "A file with the client's certificate.")
    database_sslkey = string("database.sslkey", "", "A file with the client's key.")
    database_sslpassword = string("database.sslpassword", "", "The password of that key.")
    database_sslrootcert = string("database.sslrootcert", "", "A file with the authorities.")
    database_tcp_keep_alive = boolean(
        "database.tcpKeepAlive", True, "Let the system find out that the server is gone."
    )
    database_query_timeout_ms = integer(
        "database.query.timeout.ms", 600_000, "How long a query may take; 0: for ever.", at_least=0
    )
    database_initial_statements = string(
        "database.initial.statements", "", "SQL for new connections; ;; stands for a semicolon."
    )
    plugin_name = string("plugin.name", "pgoutput", "The plug-in that decodes the log.")
    slot_name = string("slot.name", "debezium", "The replication slot; one for each connector.")
    slot_drop_on_stop = boolean(
        "slot.drop.on.stop", False, "Drop the slot when the task stops: for tests only."
    )
    slot_stream_params = string(
        "slot.stream.params", "", "More parameters of the plug-in: name=value;name=value"
    )
    publication_name = string("publication.name", "dbz_publication", "The publication to read.")
    publication_autocreate_mode = string(
        "publication.autocreate.mode",
        ALL_TABLES,
        "Which tables the publication gets, if the connector makes it.",
        choices=(ALL_TABLES, DISABLED, FILTERED, NO_TABLES),
        folds_case=True,
    )
    publish_via_partition_root = boolean(
        "publish.via.partition.root", False, "Give changes of partitions the name of their table."
    )
    replica_identity_autoset_values = string(
        "replica.identity.autoset.values", "", "Replica identities to set: table:FULL,..."
    )
    schema_include_list = string("schema.include.list", "", "Patterns of the schemas to capture.")
    schema_exclude_list = string("schema.exclude.list", "", "Patterns of schemas not to capture.")
    snapshot_mode = string(
        "snapshot.mode",
        INITIAL,
        "When the tables are read besides their changes.",
        choices=(ALWAYS, CONFIGURED, INITIAL, INITIAL_ONLY, NO_DATA, "never", WHEN_NEEDED),
        folds_case=True,
        importance=_HIGH,
    )
    configured_data = boolean(
        f"{_CONFIGURED}snapshot.data", False, "configuration_based: read the tables at each start."
    )
    configured_schema = boolean(
        f"{_CONFIGURED}snapshot.schema", False, "It changes nothing: schemas are always read."
    )
    configured_stream = boolean(
        f"{_CONFIGURED}start.stream", False, "configuration_based: read the changes."
    )
    configured_on_data_error = boolean(
        f"{_CONFIGURED}snapshot.on.data.error",
        False,
        "configuration_based: read the tables if the slot is gone, which snapshot.data includes.",
    )
    configured_on_schema_error = boolean(
        f"{_CONFIGURED}snapshot.on.schema.error", False, "It changes nothing here."
    )
    interval_handling_mode = string(
        "interval.handling.mode",
        "numeric",
        "Intervals as microseconds or as text.",
        choices=("numeric", "string"),
        folds_case=True,
    )
    hstore_handling_mode = string(
        "hstore.handling.mode",
        "json",
        "Values of hstore as JSON or as maps.",
        choices=("json", "map"),
        folds_case=True,
    )
    money_fraction_digits = integer(
        "money.fraction.digits", 2, "The decimal places of money.", at_least=0, at_most=20
    )
    include_unknown_datatypes = boolean(
        "include.unknown.datatypes", False, "Write columns of other types as bytes."
    )
    message_prefix_include_list = string(
        "message.prefix.include.list", "", "Patterns of the prefixes of messages to capture."
    )
    message_prefix_exclude_list = string(
        "message.prefix.exclude.list", "", "Patterns of prefixes of messages not to capture."
    )
    status_update_interval_ms = integer(
        "status.update.interval.ms",
        10_000,
        "How often the server is told how far the log is stored.",
        at_least=1,
    )
    lsn_flush_mode = string(
        "lsn.flush.mode",
        "connector",
        "Who lets the slot advance: the connector, or you (manual).",
        choices=("connector", "connector_and_driver", "manual"),
        folds_case=True,
    )

    notification_enabled_channels = names(
        NOTIFICATIONS, (), "Where notifications of snapshots go.", choices=(LOG, SINK)
    )
    notification_sink_topic_name = string(
        "notification.sink.topic.name", "", "The topic of notifications, for the channel sink."
    )
    topic_naming_strategy = string(
        TOPIC_NAMING, STRATEGIES[0], "How the topics of tables are named.", choices=STRATEGIES
    )
    topic_regex = string("topic.regex", "", "What a *RegexTopicNamingStrategy changes.")
    topic_replacement = string("topic.replacement", "", "What it makes of that.")
    topic_key_enforce_uniqueness = boolean(
        "topic.key.enforce.uniqueness", True, "Then keys say which table they are from."
    )
    topic_key_field_name = string(
        "topic.key.field.name", "__dbz__physicalTableIdentifier", "The field that says so."
    )
    topic_key_field_regex = string(
        "topic.key.field.regex", "", "What is changed in the name that stands there."
    )
    topic_key_field_replacement = string("topic.key.field.replacement", "", "What is made of that.")
    column_propagate_source_type = string(
        COLUMN_TYPES, "", "Patterns of columns whose schemas say their type in the database."
    )
    datatype_propagate_source_type = string(
        DATA_TYPES, "", "The same for SCHEMA.TABLE.TYPE, as in .+\\.varchar."
    )
    snapshot_select_statement_overrides = names(
        OVERRIDES, (), "Tables whose rows the first snapshot selects by a statement of yours."
    )

    snapshot_statements: Mapping[str, str] = MappingProxyType({})
    """Those statements, by `SCHEMA.TABLE`: `snapshot.select.statement.overrides.SCHEMA.TABLE`."""

    refused: ClassVar[Mapping[str, tuple[str, tuple[str, ...]]]] = {
        **{name: why for name, why in REFUSED.items() if name not in _OBEYED},
        "slot.failover": ("the slot is made without failover", ("false",)),
        "database.sslfactory": ("it is a Java class", ("",)),
        "snapshot.locking.mode": ("a snapshot takes no locks", ("none", "no_locks")),
        "offset.mismatch.strategy": ("offsets are not compared", ("no_validation",)),
        "flush.lsn.source": ("use lsn.flush.mode=manual", ("true",)),
        "xmin.fetch.interval.ms": ("source.xmin is never set", ("0",)),
        "database.include.list": ("a connector captures one database: database.dbname", ("",)),
        "database.exclude.list": ("a connector captures one database: database.dbname", ("",)),
    }  # fmt: skip
    not_needed: ClassVar[frozenset[str]] = NOT_NEEDED | {
        "include.schema.changes",
        "lsn.flush.timeout.action",
        "lsn.flush.timeout.ms",
        "read.only",
        "schema.refresh.mode",
        "slot.max.retries",
        "slot.retry.delay.ms",
        "snapshot.isolation.mode",
        "table.ignore.builtin",
    }

    refused_prefixes: ClassVar[Mapping[str, str]] = {}

    @classmethod
    def _parsed(cls, properties: Mapping[str, str | None]) -> tuple[dict[str, object], Problems]:
        values, problems = super()._parsed(properties)
        statements: dict[str, str] = {}
        listed = values.get("snapshot_select_statement_overrides", ())
        for table in listed if isinstance(listed, tuple) else ():
            name = f"{OVERRIDES}.{table}"
            text = (properties.get(name) or "").strip().rstrip(";")
            if text:
                statements[table] = text
            else:
                reason = f"{OVERRIDES} lists {table}, so its statement is needed"
                problems[name] = [invalid(name, "", reason)]
        values["snapshot_statements"] = statements
        return values, problems

    @classmethod
    def takes(cls, name: str) -> bool:
        return super().takes(name) or name.startswith(f"{OVERRIDES}.")

    def wrong_together(self) -> Problems:
        problems = super().wrong_together()
        if self.plugin_name != "pgoutput":
            problems["plugin.name"] = [invalid("plugin.name", self.plugin_name, _REPLICATION_NEEDS)]
        if not _SLOT_NAME.fullmatch(self.slot_name):
            reason = "a slot has up to 63 lower-case letters, digits and underscores"
            problems["slot.name"] = [invalid("slot.name", self.slot_name, reason)]
        problems.update(self._wrong_snapshot())
        problems.update(self._wrong_notifications())
        try:
            _ = self.modes.placeholder_data
        except ValueError:
            name = "unavailable.value.placeholder"
            reason = "hexadecimal digits are due behind hex:"
            problems[name] = [invalid(name, self.unavailable_value_placeholder, reason)]
        for name, text, replacement_ in (
            ("topic.regex", self.topic_regex, self.topic_replacement),
            ("topic.key.field.regex", self.topic_key_field_regex, self.topic_key_field_replacement),
        ):
            try:
                is_missing = "Regex" in self.topic_naming_strategy and name == "topic.regex"
                if is_missing and not (text and replacement_):
                    raise InvalidConfig("this strategy needs topic.regex and topic.replacement")
                replacement(text, replacement_)
            except InvalidConfig as error:
                problems[name] = [invalid(name, text, str(error))]
        try:
            self.replica_identities()
        except InvalidConfig as error:
            name = "replica.identity.autoset.values"
            problems[name] = [invalid(name, self.replica_identity_autoset_values, str(error))]
        return problems

    def _wrong_notifications(self) -> Problems:
        if SINK not in self.notification_enabled_channels or self.notification_sink_topic_name:
            return {}
        name = "notification.sink.topic.name"
        return {name: [invalid(name, "", "the channel sink needs a topic")]}

    def _wrong_snapshot(self) -> Problems:
        if self.snapshot_mode != CONFIGURED or self.configured_data:
            return {}
        if not self.configured_stream:
            reason = f"it reads nothing: set {_CONFIGURED}snapshot.data or start.stream to true"
            return {"snapshot.mode": [invalid("snapshot.mode", CONFIGURED, reason)]}
        if self.configured_on_data_error:
            name = f"{_CONFIGURED}snapshot.on.data.error"
            reason = "use snapshot.mode=when_needed, or snapshot.data=true, which reads tables too"
            return {name: [invalid(name, "true", reason)]}
        return {}

    def _texts_with_patterns(self) -> list[tuple[str, str]]:
        return [
            *super()._texts_with_patterns(),
            (COLUMN_TYPES, self.column_propagate_source_type),
            (DATA_TYPES, self.datatype_propagate_source_type),
            ("schema.include.list", self.schema_include_list),
            ("schema.exclude.list", self.schema_exclude_list),
            ("message.prefix.include.list", self.message_prefix_include_list),
            ("message.prefix.exclude.list", self.message_prefix_exclude_list),
        ]

    def _exclusive(self) -> list[tuple[str, str]]:
        return [
            *super()._exclusive(),
            ("schema_include_list", "schema_exclude_list"),
            ("message_prefix_include_list", "message_prefix_exclude_list"),
        ]

    # What follows from them

    @property
    def address(self) -> Address:
        parameters = [("sslmode", self.database_sslmode)]
        for name in ("sslcert", "sslkey", "sslpassword", "sslrootcert"):
            if value := getattr(self, f"database_{name}"):
                parameters.append((name, value))
        parameters.append(("keepalives", "1" if self.database_tcp_keep_alive else "0"))
        return Address(
            self.database_hostname,
            self.database_port,
            self.database_user,
            self.database_password,
            self.database_dbname,
            tuple(parameters),
        )

    @cached_property
    def schemas(self) -> NameFilter:
        return NameFilter(self.schema_include_list, self.schema_exclude_list)

    @cached_property
    def tables(self) -> NameFilter:
        return NameFilter(self.table_include_list, self.table_exclude_list)

    @cached_property
    def columns(self) -> NameFilter:
        return NameFilter(self.column_include_list, self.column_exclude_list)

    @cached_property
    def message_prefixes(self) -> NameFilter:
        return NameFilter(self.message_prefix_include_list, self.message_prefix_exclude_list)

    @cached_property
    def keys(self) -> KeyColumns:
        return KeyColumns(self.message_key_columns)

    @cached_property
    def modes(self) -> Modes:
        return Modes(
            self.decimal_handling_mode,
            self.time_precision_mode,
            self.interval_handling_mode,
            self.hstore_handling_mode,
            self.binary_handling_mode,
            self.money_fraction_digits,
            self.unavailable_value_placeholder,
            self.include_unknown_datatypes,
        )

    @property
    def snapshots(self) -> str:
        """When tables are read: `snapshot.mode`, or what configuration_based comes to."""
        if self.snapshot_mode != CONFIGURED:
            return self.snapshot_mode
        if self.configured_data:
            return ALWAYS if self.configured_stream else INITIAL_ONLY
        return NO_DATA

    @cached_property
    def topic_naming(self) -> TopicNaming:
        naming = TopicNaming(self.topic_prefix, self.topic_delimiter, self.topic_naming_strategy)
        if "Regex" not in self.topic_naming_strategy:
            return naming
        regex = self.topic_key_field_regex
        return replace(
            naming,
            routes=replacement(self.topic_regex, self.topic_replacement),
            key_field=self.topic_key_field_name if self.topic_key_enforce_uniqueness else None,
            identifies=replacement(regex, self.topic_key_field_replacement) if regex else None,
        )

    def captures(self, schema: str, table: str) -> bool:
        return self.schemas.selects(schema) and self.tables.selects(f"{schema}.{table}")

    def replica_identities(self) -> list[tuple[NameFilter, str, str | None]]:
        """Returns patterns of tables with the identity to set, and its index. Raises
        `InvalidConfig`."""
        found = []
        for part in filter(str.strip, self.replica_identity_autoset_values.split(",")):
            match = _IDENTITY.fullmatch(part)
            if match is None:
                raise InvalidConfig(f"{part.strip()!r} is not like schema.table:FULL")
            kind = match[2].split()[0].upper()
            found.append((NameFilter(match[1].strip(), None), kind, match[3]))
        return found

    @property
    def signal_table(self) -> tuple[str, str] | None:
        """Schema and name of the table for signals, if they come by one."""
        if not self.signal_data_collection or SOURCE_CHANNEL not in self.signal_enabled_channels:
            return None
        schema, _, table = self.signal_data_collection.rpartition(".")
        return schema or "public", table
