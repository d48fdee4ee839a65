"""The settings that all connectors for change data capture have, under Debezium's names.

A setting of Debezium that does not mean anything here is in one of two lists: `REFUSED` are those
whose effect would be missed, and a configuration that sets one to more than its default is wrong;
`NOT_NEEDED` are those that tune what is built differently here, and the log names them at the start
of a task.
"""

import logging
import uuid
from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar, Final

from odradek.config.kinds import boolean, integer, long, names, password, string
from odradek.config.setting import Importance
from odradek.config.spelling import did_you_mean
from odradek.connect.connectors.cdc.column_masks import PREFIXES, ColumnMasks, read_masks
from odradek.connect.connectors.cdc.filters import KeyColumns, NameFilter
from odradek.connect.connectors.cdc.topic_naming import topic_name
from odradek.connect.data import schemas
from odradek.connect.errors import InvalidConfig
from odradek.connect.records import Header
from odradek.connect.settings import REQUIRED, PluginSettings, Problems, invalid

_log = logging.getLogger("odradek.connect")
_HIGH: Final = Importance.HIGH
_ALLOWED_IN_TOPICS: Final = frozenset(
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
)
SOURCE_CHANNEL: Final = "source"
KAFKA_CHANNEL: Final = "kafka"

REFUSED: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "converters": ("custom converters are Java classes; use a transform", ("",)),
    "post.processors": ("post processors are Java classes; use a transform", ("",)),
    "transaction.metadata.factory": (
        "only the default form of transaction metadata is supported",
        ("io.debezium.pipeline.txmetadata.DefaultTransactionMetadataFactory",),
    ),
    "topic.naming.strategy": (
        "topics are named PREFIX.SCHEMA.TABLE; the transform RegexRouter renames them",
        (
            "io.debezium.schema.SchemaTopicNamingStrategy",
            "io.debezium.schema.DefaultTopicNamingStrategy",
        ),
    ),
    "sourceinfo.struct.maker": ("it is a Java class", ("",)),
    "snapshot.mode.custom.name": ("custom snapshot modes are Java classes", ("",)),
    "snapshot.query.mode": (
        "rows of a snapshot are selected by filters and signals only",
        ("select_all",),
    ),
    "snapshot.select.statement.overrides": (
        "a signal `execute-snapshot` with additional-conditions reads a part of a table",
        ("",),
    ),
    "notification.enabled.channels": (
        "there are no notifications; the log and the connector's status say what happens",
        ("",),
    ),
    "incremental.snapshot.allow.schema.changes": (
        "a chunk has the columns that the table has when it is read",
        ("false", "true"),
    ),
    "guardrail.collections.max": ("there is no such limit", ("0",)),
    "column.propagate.source.type": ("schemas do not carry the types of the source", ("",)),
    "datatype.propagate.source.type": ("schemas do not carry the types of the source", ("",)),
    "streaming.delay.ms": ("changes stream from the beginning", ("0",)),
    "openlineage.integration.enabled": ("there is no OpenLineage here", ("false",)),
}
"""Why a setting is not supported, and the values that are right nevertheless."""

REFUSED_PREFIXES: Final[Mapping[str, str]] = {
    "snapshot.select.statement.overrides.": (
        "a signal `execute-snapshot` with additional-conditions reads a part of a table"
    ),
}

NOT_NEEDED: Final = frozenset(
    {
        "advanced.metrics.enable",
        "connection.validation.timeout.ms",
        "custom.metric.tags",
        "custom.sanitize.pattern",
        "errors.max.retries",
        "event.converting.failure.handling.mode",
        "executor.shutdown.timeout.ms",
        "guardrail.collections.limit.action",
        "incremental.snapshot.watermarking.strategy",
        "legacy.snapshot.max.threads",
        "max.queue.size",
        "max.queue.size.in.bytes",
        "poll.dispatch.interval.ms",
        "query.fetch.size",
        "queue.provider.type",
        "retriable.restart.connector.wait.ms",
        "signal.emit.failure.backoff.ms",
        "signal.emit.failure.max.retries",
        "signal.kafka.poll.timeout.ms",
        "signal.poll.interval.ms",
        "snapshot.lock.timeout.ms",
        "snapshot.max.threads",
        "snapshot.max.threads.multiplier",
        "snapshot.tables.order.by.row.count",
        "statistics.metrics.enabled",
        "topic.cache.size",
    }
)


class CdcSettings(PluginSettings):
    topic_prefix = string(
        "topic.prefix",
        REQUIRED,
        "What the names of the topics begin with; it also names the offsets.",
        importance=_HIGH,
    )
    topic_delimiter = string("topic.delimiter", ".", "What stands between the parts of a name.")
    topic_heartbeat_prefix = string(
        "topic.heartbeat.prefix",
        "__debezium-heartbeat",
        "What the topic of heartbeats begins with; topic.prefix follows.",
    )
    topic_heartbeat_name = string(
        "topic.heartbeat.name", "", "The whole name of the topic of heartbeats."
    )
    topic_transaction = string(
        "topic.transaction", "transaction", "The topic of transactions, after topic.prefix."
    )
    table_include_list = string(
        "table.include.list", "", "Patterns of the tables to capture; empty, all.", importance=_HIGH
    )
    table_exclude_list = string(
        "table.exclude.list", "", "Patterns of tables not to capture.", importance=_HIGH
    )
    column_include_list = string("column.include.list", "", "Patterns of columns to capture.")
    column_exclude_list = string("column.exclude.list", "", "Patterns of columns to leave out.")
    message_key_columns = string(
        "message.key.columns", "", "Keys other than primary keys: table:column,column;..."
    )
    tombstones_on_delete = boolean(
        "tombstones.on.delete", True, "Write a record without a value after each delete."
    )
    skipped_operations = names(
        "skipped.operations",
        ("t",),
        "Operations without records: c, u, d, t, or none.",
        choices=("c", "u", "d", "t", "none"),
    )
    skip_messages_without_change = boolean(
        "skip.messages.without.change",
        False,
        "Leave out updates that change no captured column (if the source says what it was).",
    )
    decimal_handling_mode = string(
        "decimal.handling.mode",
        "precise",
        "How decimal numbers are written.",
        choices=("precise", "double", "string"),
        folds_case=True,
    )
    time_precision_mode = string(
        "time.precision.mode",
        "adaptive",
        "How times are written.",
        choices=(
            "adaptive",
            "adaptive_time_microseconds",
            "connect",
            "isostring",
            "microseconds",
            "nanoseconds",
        ),
        folds_case=True,
    )
    binary_handling_mode = string(
        "binary.handling.mode",
        "bytes",
        "How binary columns are written.",
        choices=("bytes", "base64", "base64-url-safe", "hex"),
        folds_case=True,
    )
    unavailable_value_placeholder = string(
        "unavailable.value.placeholder",
        "__debezium_unavailable_value",
        "What stands for a large value that the source did not send because it is unchanged.",
    )
    include_schema_comments = boolean(
        "include.schema.comments", False, "Put the comments of columns into schemas."
    )
    schema_name_adjustment_mode = string(
        "schema.name.adjustment.mode",
        "none",
        "What becomes of letters in names of schemas that Avro does not allow.",
        choices=("none", "avro", "avro_unicode"),
        folds_case=True,
    )
    field_name_adjustment_mode = string(
        "field.name.adjustment.mode",
        "none",
        "What becomes of letters in names of fields that Avro does not allow.",
        choices=("none", "avro", "avro_unicode"),
        folds_case=True,
    )
    provide_transaction_metadata = boolean(
        "provide.transaction.metadata", False, "Write where transactions begin and end."
    )
    extended_headers_enabled = boolean(
        "extended.headers.enabled",
        True,
        "Put headers __debezium.context.* with the connector's names on every record.",
    )
    max_batch_size = integer(
        "max.batch.size",
        10_000,
        "The number of changes that are read at once, and written in one transaction.",
        at_least=1,
    )
    poll_interval_ms = long(
        "poll.interval.ms", 500, "How long a read waits for a change.", at_least=1
    )
    heartbeat_interval_ms = integer(
        "heartbeat.interval.ms", 0, "How often a heartbeat is written; 0: never.", at_least=0
    )
    heartbeat_action_query = string(
        "heartbeat.action.query", "", "A statement that the source runs with each heartbeat."
    )
    snapshot_delay_ms = long(
        "snapshot.delay.ms", 0, "How long to wait before a snapshot.", at_least=0
    )
    snapshot_fetch_size = integer(
        "snapshot.fetch.size", 10_240, "The rows of a chunk of the first snapshot.", at_least=1
    )
    snapshot_include_collection_list = string(
        "snapshot.include.collection.list", "", "Patterns of the tables of the first snapshot."
    )
    incremental_snapshot_chunk_size = integer(
        "incremental.snapshot.chunk.size", 1024, "The rows of a chunk of other ones.", at_least=1
    )
    signal_data_collection = string(
        "signal.data.collection", "", "The table with columns id, type, data for signals."
    )
    signal_enabled_channels = names(
        "signal.enabled.channels",
        (SOURCE_CHANNEL,),
        "Where signals come from.",
        choices=(SOURCE_CHANNEL, KAFKA_CHANNEL),
    )
    signal_kafka_topic = string(
        "signal.kafka.topic", "", "The topic of signals; by default PREFIX-signal."
    )
    signal_kafka_bootstrap_servers = string(
        "signal.kafka.bootstrap.servers", "", "The brokers of that topic."
    )
    signal_kafka_group_id = string(
        "signal.kafka.groupId", "kafka-signal", "The group that reads that topic."
    )
    event_processing_failure_handling_mode = string(
        "event.processing.failure.handling.mode",
        "fail",
        "What becomes of a change that cannot be converted.",
        choices=("fail", "warn", "skip", "ignore"),
        folds_case=True,
    )

    signal_consumer: Mapping[str, str] = MappingProxyType({})
    """`signal.consumer.*`: settings of the client that reads the topic of signals."""

    column_masks: ColumnMasks = ColumnMasks()
    """Those of `column.mask.*` and `column.truncate.*`."""

    refused: ClassVar[Mapping[str, tuple[str, tuple[str, ...]]]] = REFUSED
    refused_prefixes: ClassVar[Mapping[str, str]] = REFUSED_PREFIXES
    not_needed: ClassVar[frozenset[str]] = NOT_NEEDED

    @classmethod
    def _parsed(cls, properties: Mapping[str, str | None]) -> tuple[dict[str, object], Problems]:
        values, problems = super()._parsed(properties)
        prefix = "signal.consumer."
        values["signal_consumer"] = {
            name.removeprefix(prefix): text
            for name, text in properties.items()
            if name.startswith(prefix) and text is not None
        }
        values["column_masks"], wrong = read_masks(properties)
        problems.update(wrong)
        for name, text in properties.items():
            reason = cls._why_refused(name, text or "")
            if reason is not None:
                problems[name] = [invalid(name, text, reason)]
        return values, problems

    @classmethod
    def _why_refused(cls, name: str, text: str) -> str | None:
        if name in cls.refused:
            reason, allowed = cls.refused[name]
            is_right = text.strip().lower() in {value.lower() for value in (*allowed, "")}
            return None if is_right else f"it has no effect here: {reason}"
        for prefix, why in cls.refused_prefixes.items():
            if name.startswith(prefix):
                return f"it has no effect here: {why}"
        return None

    @classmethod
    def takes(cls, name: str) -> bool:
        return name.startswith((*PREFIXES, "signal.consumer."))

    @classmethod
    def announce(cls, connector: str, properties: Mapping[str, str]) -> None:
        """Writes to the log which properties have no effect, and which look like misspelt ones."""
        for name in sorted(properties):
            if name in cls.not_needed:
                _log.warning("%s: %s has no effect here", connector, name)
        known = {setting.name for setting in cls.declared.values()}
        roots = {name.partition(".")[0] for name in known}
        for name in sorted(properties):
            root = name.partition(".")[0]
            is_foreign = name in known | cls.not_needed | cls.refused.keys() or root not in roots
            if not is_foreign and (hint := did_you_mean(name, known)):
                _log.warning("%s: %s is not a setting%s", connector, name, hint)

    def wrong_together(self) -> Problems:
        problems: Problems = {}
        for name, text in self._texts_with_patterns():
            try:
                NameFilter(text, None)
            except InvalidConfig as error:
                problems[name] = [invalid(name, text, str(error))]
        for include, exclude in self._exclusive():
            if getattr(self, include) and getattr(self, exclude):
                name = exclude.replace("_", ".")
                other = include.replace("_", ".")
                problems[name] = [
                    invalid(name, getattr(self, exclude), f"{other} is set too; use one of them")
                ]
        try:
            KeyColumns(self.message_key_columns)
        except InvalidConfig as error:
            problems["message.key.columns"] = [
                invalid("message.key.columns", self.message_key_columns, str(error))
            ]
        if not set(self.topic_prefix) <= _ALLOWED_IN_TOPICS:
            reason = "a topic has letters, digits, points, hyphens and underscores only"
            problems["topic.prefix"] = [invalid("topic.prefix", self.topic_prefix, reason)]
        self._check_signals(problems)
        return problems

    def _check_signals(self, problems: Problems) -> None:
        has_topic = KAFKA_CHANNEL in self.signal_enabled_channels
        if has_topic and not self.signal_kafka_bootstrap_servers:
            name = "signal.kafka.bootstrap.servers"
            problems[name] = [invalid(name, "", "signals by kafka need brokers, as host:port")]
        if "none" in self.skipped_operations and len(self.skipped_operations) > 1:
            name = "skipped.operations"
            given = ",".join(self.skipped_operations)
            problems[name] = [invalid(name, given, "none stands alone")]

    def _texts_with_patterns(self) -> list[tuple[str, str]]:
        return [
            ("table.include.list", self.table_include_list),
            ("table.exclude.list", self.table_exclude_list),
            ("column.include.list", self.column_include_list),
            ("column.exclude.list", self.column_exclude_list),
            ("snapshot.include.collection.list", self.snapshot_include_collection_list),
        ]

    def _exclusive(self) -> list[tuple[str, str]]:
        """The attributes of settings that exclude each other."""
        return [
            ("table_include_list", "table_exclude_list"),
            ("column_include_list", "column_exclude_list"),
        ]

    # What follows from them

    def topic_of(self, *parts: str) -> str:
        """Returns the topic of a table: the parts after the prefix, with everything that a topic
        cannot have replaced by an underscore."""
        return topic_name(self.topic_delimiter.join((self.topic_prefix, *parts)))

    @property
    def heartbeat_topic(self) -> str:
        return self.topic_heartbeat_name or self.topic_delimiter.join(
            (self.topic_heartbeat_prefix, self.topic_prefix)
        )

    @property
    def transaction_topic(self) -> str:
        return self.topic_delimiter.join((self.topic_prefix, self.topic_transaction))

    @property
    def signal_topic(self) -> str:
        return self.signal_kafka_topic or f"{self.topic_prefix}-signal"

    def skips(self, operation: str) -> bool:
        return operation in self.skipped_operations


def context_headers(settings: CdcSettings, connector: str) -> tuple[Header, ...]:
    """Returns the headers that name the connector and this run of it on every record. `connector`
    is the name that stands in `source.connector`."""
    if not settings.extended_headers_enabled:
        return ()
    found = {
        "connectorLogicalName": settings.topic_prefix,
        "taskId": "0",
        "connectorName": connector,
        "runId": str(uuid.uuid4()),
    }
    return tuple(
        Header(f"__debezium.context.{name}", schemas.STRING, value) for name, value in found.items()
    )


class DatabaseSettings(CdcSettings):
    """Those of a database that is reached by host and port."""

    database_hostname = string(
        "database.hostname", REQUIRED, "The host of the database.", importance=_HIGH
    )
    database_user = string(
        "database.user", REQUIRED, "The user that the connector logs in as.", importance=_HIGH
    )
    database_password = password("database.password", "The password of that user.")
