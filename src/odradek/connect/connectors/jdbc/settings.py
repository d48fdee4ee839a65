"""The settings of the JDBC connectors, under Aiven's names; those of Confluent are aliases."""

from typing import Any, TypeVar

from odradek.config.kinds import boolean, integer, long, names, password, string
from odradek.config.setting import Importance, Setting, without_effect
from odradek.connect.connectors.jdbc.dialect import (
    DIALECT_NAMES,
    NumericMapping,
    Session,
)
from odradek.connect.connectors.jdbc.urls import parse_url
from odradek.connect.connectors.time_zones import time_zone
from odradek.connect.errors import InvalidConfig
from odradek.connect.settings import REQUIRED, PluginSettings, Problems, invalid
from odradek.connect.transforms.java_patterns import java_pattern

T = TypeVar("T")
_HIGH = Importance.HIGH
_LOW = Importance.LOW
_RETRIES = "the worker tries again until the database answers"


def _also(setting: Setting[T], *aliases: str) -> Setting[T]:
    setting.aliases = aliases
    return setting


class JdbcSettings(PluginSettings):
    """What source and sink have in common."""

    connection_url = string(
        "connection.url",
        REQUIRED,
        "Where the database is: jdbc:sqlite:PATH, jdbc:postgresql://HOST:PORT/DATABASE,"
        " jdbc:mysql://... or jdbc:mariadb://...",
        importance=_HIGH,
    )
    connection_user = string("connection.user", None, "Who logs in.", importance=_HIGH)
    connection_password = password("connection.password", "The password of the user.")
    connection_attempts = without_effect(
        _RETRIES, integer("connection.attempts", 3, "How often a log-in is tried.", at_least=1)
    )
    connection_backoff_ms = without_effect(
        _RETRIES, long("connection.backoff.ms", 10_000, "The pause between two tries.", at_least=0)
    )
    db_timezone = string("db.timezone", "UTC", "The zone of times that have none in the database.")
    dialect_name = string(
        "dialect.name",
        "",
        "The dialect of SQL; empty, the one that the URL says.",
        choices=DIALECT_NAMES,
        importance=_LOW,
    )
    sql_quote_identifiers = boolean(
        "sql.quote.identifiers", True, "Whether names are in quotes in SQL.", importance=_LOW
    )
    quote_sql_identifiers = string(
        "quote.sql.identifiers",
        "always",
        "The same, as Confluent's connector calls it.",
        choices=("always", "never"),
        folds_case=True,
        importance=_LOW,
    )

    def wrong_together(self) -> Problems:
        problems = super().wrong_together()
        for name, value, parse in (
            ("connection.url", self.connection_url, parse_url),
            ("db.timezone", self.db_timezone, time_zone),
        ):
            try:
                parse(value)
            except InvalidConfig as error:
                shown = "(not shown)" if name == "connection.url" else value
                problems[name] = [invalid(name, shown, str(error))]
        return problems

    def session(self, mapping: NumericMapping = NumericMapping.NONE) -> Session:
        """Raises `InvalidConfig`."""
        return Session(
            parse_url(self.connection_url),
            self.connection_user,
            self.connection_password,
            time_zone(self.db_timezone),
            self.sql_quote_identifiers and self.quote_sql_identifiers == "always",
            mapping,
        )


BULK = "bulk"
INCREMENTING = "incrementing"
TIMESTAMP = "timestamp"
BOTH = "timestamp+incrementing"
TABLE_TYPES = ("TABLE", "PARTITIONED TABLE", "VIEW", "MATERIALIZED VIEW", "FOREIGN TABLE")
MODES = (BULK, INCREMENTING, TIMESTAMP, BOTH)


class JdbcSourceSettings(JdbcSettings):
    mode = string(
        "mode",
        REQUIRED,
        "How new rows are found. bulk: everything is read each time. incrementing: rows whose"
        " number is above the last one. timestamp: rows whose time is after the last one."
        " timestamp+incrementing: by the time, then by the number.",
        choices=MODES,
        importance=_HIGH,
    )
    incrementing_column_name = string(
        "incrementing.column.name", "", "The column that counts up; empty, it is looked for."
    )
    incrementing_initial = long(
        "incrementing.initial", -1, "Rows with a number above this one are read."
    )
    timestamp_column_name = names(
        "timestamp.column.name", (), "Columns of times; the first that is not null counts."
    )
    timestamp_initial_ms = _also(
        long("timestamp.initial.ms", 0, "Rows after this time are read; -1 means now."),
        "timestamp.initial",
    )
    timestamp_delay_interval_ms = long(
        "timestamp.delay.interval.ms",
        0,
        "How old the time of a row must be, so that transactions which began earlier have ended.",
        at_least=0,
        importance=_HIGH,
    )
    table_whitelist = names("table.whitelist", (), "The tables to read; empty, all of them.")
    table_blacklist = names("table.blacklist", (), "Tables that are not read.")
    table_include_list = names(
        "table.include.list", (), "Patterns of tables to read, for names with their schema."
    )
    table_exclude_list = names("table.exclude.list", (), "Patterns of tables that are not read.")
    catalog_pattern = string(
        "catalog.pattern", None, "Only tables of catalogs that are like this, with % and _."
    )
    schema_pattern = string(
        "schema.pattern", None, "Only tables of schemas that are like this, with % and _."
    )
    table_types = names(
        "table.types", ("TABLE",), "The kinds of tables: TABLE, VIEW ...", importance=_LOW
    )
    table_names_qualify = boolean(
        "table.names.qualify", True, "Whether tables are asked for with their schema."
    )
    table_modes = names(
        "odradek.table.modes",
        (),
        "Tables that have a mode of their own, as TABLE:MODE,TABLE:MODE.",
    )
    topic_format = string(
        "odradek.topic.format",
        "${prefix}${table}",
        "The topic of a table; ${schema} and ${catalog} may be used too.",
        may_be_empty=False,
    )
    query = string("query", "", "A query to read instead of tables.")
    topic_prefix = string(
        "topic.prefix",
        REQUIRED,
        "Stands before the table's name in that of the topic; for a query it is the topic.",
        importance=_HIGH,
    )
    validate_non_null = boolean(
        "validate.non.null",
        True,
        "Whether the columns that find new rows must be NOT NULL.",
        importance=_LOW,
    )
    numeric_mapping = string(
        "numeric.mapping",
        None,
        "What NUMERIC becomes. none: Decimal. precision_only: whole numbers become integers."
        " best_fit: others become doubles too.",
        choices=tuple(NumericMapping),
        folds_case=True,
        importance=_LOW,
    )
    numeric_precision_mapping = boolean(
        "numeric.precision.mapping", False, "The same as numeric.mapping=precision_only.",
        importance=_LOW,
    )  # fmt: skip
    poll_interval_ms = integer(
        "poll.interval.ms", 5_000, "How often a table is asked.", at_least=0, importance=_HIGH
    )
    table_poll_interval_ms = long(
        "table.poll.interval.ms", 60_000, "How often new tables are looked for.", at_least=1
    )
    batch_max_rows = integer(
        "batch.max.rows", 5_000, "The number of rows that are read at once, at most.", at_least=1
    )
    wait_for_transactions = boolean(
        "odradek.wait.for.transactions",
        True,
        "Whether rows are read when all transactions have ended that wrote to the table before"
        " them, so that none is missed (PostgreSQL; MySQL with the privilege PROCESS).",
    )
    # The worker gives it to tasks.
    tables = string("tables", None, "The tables of a task.", importance=_LOW)

    @property
    def numbers(self) -> NumericMapping:
        if self.numeric_mapping is not None:
            return NumericMapping(self.numeric_mapping)
        is_old = self.numeric_precision_mapping
        return NumericMapping.PRECISION_ONLY if is_old else NumericMapping.NONE

    def mode_of(self, table: str, full: str) -> str:
        """Returns the mode of a table by its name without and with a schema."""
        modes = dict(entry.rpartition(":")[::2] for entry in self.table_modes)
        return modes.get(full) or modes.get(table) or self.mode

    def wrong_together(self) -> Problems:
        problems = super().wrong_together()
        for entry in self.table_modes:
            if entry.rpartition(":")[2] not in MODES:
                reason = f"{entry} is not TABLE:MODE, with one of {', '.join(MODES)}"
                problems["odradek.table.modes"] = [
                    invalid("odradek.table.modes", ",".join(self.table_modes), reason)
                ]
        for kind in self.table_types:
            if kind.upper() not in TABLE_TYPES:
                reason = f"{kind} is none of {', '.join(TABLE_TYPES)}"
                problems["table.types"] = [
                    invalid("table.types", ",".join(self.table_types), reason)
                ]
        problems.update(self._wrong_choice())
        used = {self.mode, *(entry.rpartition(":")[2] for entry in self.table_modes)}
        if used & {TIMESTAMP, BOTH} and not self.timestamp_column_name:
            reason = f"the mode {TIMESTAMP} needs the name of a column of times"
            problems["timestamp.column.name"] = [invalid("timestamp.column.name", "", reason)]
        if self.query and used & {INCREMENTING, BOTH} and not self.incrementing_column_name:
            reason = "a query needs the name of the column that counts up"
            name = "incrementing.column.name"
            problems[name] = [invalid(name, "", reason)]
        return problems

    def _wrong_choice(self) -> Problems:
        chosen = {
            name: value
            for name, value in (
                ("table.whitelist", self.table_whitelist),
                ("table.blacklist", self.table_blacklist),
                ("table.include.list", self.table_include_list),
                ("table.exclude.list", self.table_exclude_list),
            )
            if value
        }
        problems: Problems = {}
        for name in ("table.include.list", "table.exclude.list"):
            for pattern in chosen.get(name, ()):
                try:
                    java_pattern(pattern)
                except InvalidConfig as error:
                    problems[name] = [invalid(name, pattern, str(error))]
        if self.query and chosen:
            reason = f"query may not be combined with {', '.join(chosen)}"
            problems["query"] = [invalid("query", self.query, reason)]
        elif len(chosen) > 1:
            reason = f"only one of {', '.join(chosen)} may be set"
            first = next(iter(chosen))
            problems[first] = [invalid(first, ",".join(chosen[first]), reason)]
        return problems


class JdbcSinkSettings(JdbcSettings):
    insert_mode = string(
        "insert.mode",
        "insert",
        "How rows are written. multi is insert with several rows in a statement.",
        choices=("insert", "multi", "upsert", "update"),
        folds_case=True,
        importance=_HIGH,
    )
    batch_size = integer(
        "batch.size", 3_000, "The number of rows that are written at once, at most.", at_least=0
    )
    delete_enabled = _also(
        boolean("delete.enabled", False, "Whether a null value deletes the row of its key."),
        "deletion.enabled",
    )
    table_name_format = string(
        "table.name.format", "${topic}", "The table of a topic.", may_be_empty=False
    )
    table_name_normalize = boolean(
        "table.name.normalize",
        False,
        "Whether each sign of the table's name that is no letter, digit or _ becomes _.",
    )
    topics_to_tables = names(
        "topics.to.tables.mapping", (), "Tables of topics, as TOPIC:TABLE,TOPIC:TABLE."
    )
    pk_mode = string(
        "pk.mode",
        "none",
        "Where the primary key comes from.",
        choices=("none", "kafka", "record_key", "record_value"),
        folds_case=True,
        importance=_HIGH,
    )
    pk_fields = names("pk.fields", (), "The fields of the primary key; empty, all that there are.")
    fields_whitelist = names(
        "fields.whitelist", (), "The fields of the value to write; empty, all of them."
    )
    auto_create = boolean("auto.create", False, "Whether a missing table is made.")
    auto_evolve = boolean("auto.evolve", False, "Whether missing columns are added.")
    max_retries = integer(
        "max.retries",
        10,
        "How often a batch is tried again while the database does not answer.",
        at_least=0,
    )
    retry_backoff_ms = integer(
        "retry.backoff.ms", 3_000, "The pause before a batch is tried again.", at_least=0
    )

    @property
    def tables_of_topics(self) -> dict[str, str]:
        return dict(entry.partition(":")[::2] for entry in self.topics_to_tables)

    def wrong_together(self) -> Problems:
        problems = super().wrong_together()

        def wrong(name: str, value: Any, reason: str) -> None:
            problems[name] = [invalid(name, value, reason)]

        if self.delete_enabled and self.pk_mode != "record_key":
            wrong("delete.enabled", "true", "it needs pk.mode=record_key, to know which row")
        if self.insert_mode in {"upsert", "update"} and self.pk_mode == "none":
            wrong("pk.mode", "none", f"insert.mode={self.insert_mode} needs a primary key")
        if self.pk_mode == "kafka" and len(self.pk_fields) not in {0, 3}:
            reason = "pk.mode=kafka takes three names, for the topic, the partition and the offset"
            wrong("pk.fields", ",".join(self.pk_fields), reason)
        for entry in self.topics_to_tables:
            topic, _, table = entry.partition(":")
            if not topic or not table:
                wrong("topics.to.tables.mapping", entry, "write TOPIC:TABLE")
        return problems
