"""The settings of the source for MongoDB, under the names of MongoDB's own connector for Kafka."""

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from bson import json_util
from bson.timestamp import Timestamp

from odradek.config.kinds import boolean, integer, long, string
from odradek.config.setting import Importance
from odradek.connect.connectors.mongodb.event_topics import EventTopics
from odradek.connect.errors import InvalidConfig
from odradek.connect.settings import PluginSettings, Problems, invalid
from odradek.connect.transforms.java_patterns import java_pattern

_HIGH: Final = Importance.HIGH
LATEST: Final = "latest"
AT_A_TIME: Final = "timestamp"
COPY_EXISTING: Final = "copy_existing"
JSON: Final = "json"
BSON: Final = "bson"
_PACKAGE: Final = "com.mongodb.kafka.connect.source."
_FORMATTERS: Final = {
    f"{_PACKAGE}json.formatter.DefaultJson": "strict",
    f"{_PACKAGE}json.formatter.ExtendedJson": "extended",
    f"{_PACKAGE}json.formatter.SimplifiedJson": "simplified",
}
SCHEMA: Final = "schema"
_NO_SCHEMAS: Final = "a schema is inferred (output.schema.infer.value), or that of all events"
_CLASSES: Final = "it is a Java class"
_STORES: Final = (
    "certificates are named in connection.uri: tlsCAFile=FILE&tlsCertificateKeyFile=FILE"
)
_DEFAULTS: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "output.schema.key": (_NO_SCHEMAS, ()),
    "output.schema.value": (_NO_SCHEMAS, ()),
    "topic.mapper": (_CLASSES, (f"{_PACKAGE}topic.mapping.DefaultTopicMapper",)),
    "mongo.errors.tolerance": ("what cannot be read stops the task", ("none",)),
    "mongo.errors.log.enable": ("failures are always in the connector's log", ("true", "false")),
    "mongo.errors.deadletterqueue.topic.name": ("a source has no dead letters here", ()),
    "server.api.version": ("no version of the servers' API is asked for", ()),
    "server.api.deprecation.errors": ("see server.api.version", ("false",)),
    "server.api.strict": ("see server.api.version", ("false",)),
    "connection.ssl.truststore": (_STORES, ()),
    "connection.ssl.truststorePassword": (_STORES, ()),
    "connection.ssl.keystore": (_STORES, ()),
    "connection.ssl.keystorePassword": (_STORES, ()),
    "mongo.custom.auth.mechanism.enable": (_CLASSES, ("false",)),
    "mongo.custom.auth.mechanism.providerClass": (_CLASSES, ()),
}
"""What is not supported, why, and the values that are right nevertheless."""
_NOT_NEEDED: Final = frozenset(
    {
        "provider",
        "startup.mode.copy.existing.max.threads",
        "startup.mode.copy.existing.queue.size",
    }
)
_FULL_DOCUMENTS: Final = ("default", "updateLookup", "whenAvailable", "required")
_DOCUMENTS_BEFORE: Final = ("default", "off", "whenAvailable", "required")
_LONGEST_WAIT_MS: Final = 500
_OLD: Final = "copy.existing."
_NEW: Final = "startup.mode.copy.existing."
_URI: Final = re.compile(r"^(mongodb(?:\+srv)?)://(?:[^@/]*@)?([^/?]*)")


class MongoEventSettings(PluginSettings):
    connection_uri = string(
        "connection.uri",
        "mongodb://localhost:27017,localhost:27018,localhost:27019",
        "The servers, as mongodb://USER:PASSWORD@HOST:PORT/?replicaSet=NAME, or mongodb+srv://.",
        importance=_HIGH,
    )
    database = string("database", "", "The database to watch; empty, all.", importance=_HIGH)
    collection = string(
        "collection", "", "The collection to watch; empty, all of the database.", importance=_HIGH
    )
    pipeline_text = string(
        "pipeline", "[]", "Stages for the change stream, as a JSON array.", may_be_empty=True
    )
    batch_size = integer(
        "batch.size", 0, "How many changes a server sends at once; 0: as it likes.", at_least=0
    )
    full_document_only = boolean(
        "publish.full.document.only",
        False,
        "Write the document instead of the change; of updates, the document as it is now.",
    )
    tombstone_on_delete = boolean(
        "publish.full.document.only.tombstone.on.delete",
        False,
        "Write a record without a value for a delete. It needs publish.full.document.only.",
    )
    document_key_as_key = boolean(
        "change.stream.document.key.as.key",
        True,
        "The key is that of the document, if the change has one; else the token of the change.",
    )
    full_document = string(
        "change.stream.full.document",
        "",
        "Which document an update has besides what changed.",
        choices=("", *_FULL_DOCUMENTS),
    )
    full_document_before = string(
        "change.stream.full.document.before.change",
        "",
        "Which document a change has as it was before.",
        choices=("", *_DOCUMENTS_BEFORE),
    )
    expanded_events = boolean(
        "change.stream.show.expanded.events", False, "Write changes of indexes and the like too."
    )
    collation_text = string("collation", "", "The collation of the change stream, as JSON.")
    poll_max_batch_size = integer(
        "poll.max.batch.size",
        1000,
        "The number of changes that are read at once, and written in one transaction.",
        at_least=1,
    )
    poll_await_time_ms = long(
        "poll.await.time.ms", 5000, "How long a server waits for a change.", at_least=1
    )
    startup_mode = string(
        "startup.mode",
        "",
        "Where to begin without a stored offset: with what changes from now on, at a time, or with"
        " all documents that are there.",
        choices=("", LATEST, AT_A_TIME, COPY_EXISTING),
        folds_case=True,
        importance=_HIGH,
    )
    start_time_text = string(
        "startup.mode.timestamp.start.at.operation.time",
        "",
        "Where startup.mode=timestamp begins: seconds since 1970, ISO 8601, or a timestamp as"
        " Extended JSON.",
    )
    copy_pipeline_text = string(
        "startup.mode.copy.existing.pipeline",
        "",
        "Stages that select the documents of copy_existing, as a JSON array.",
    )
    copy_namespace_regex = string(
        "startup.mode.copy.existing.namespace.regex",
        "",
        "A pattern in DATABASE.COLLECTION of what copy_existing reads.",
    )
    copy_allow_disk_use = boolean(
        "startup.mode.copy.existing.allow.disk.use",
        True,
        "A server may use its disk to select documents.",
    )
    copy_existing = boolean("copy.existing", False, "The old name of startup.mode=copy_existing.")
    topic_prefix = string("topic.prefix", "", "What stands before the names of topics.")
    topic_suffix = string("topic.suffix", "", "What stands after the names of topics.")
    topic_separator = string("topic.separator", ".", "What stands between their parts.")
    topic_namespace_map = string(
        "topic.namespace.map",
        "",
        "Topics of databases and collections as a JSON object: names, /PATTERN, or *.",
    )
    output_format_key = string(
        "output.format.key", JSON, "How keys are written.", choices=(JSON, BSON, SCHEMA),
        folds_case=True,
    )  # fmt: skip
    output_format_value = string(
        "output.format.value", JSON, "How values are written.", choices=(JSON, BSON, SCHEMA),
        folds_case=True,
    )  # fmt: skip
    infers_schema = boolean(
        "output.schema.infer.value",
        False,
        "With output.format.value=schema: each value has the schema of its own document.",
    )
    json_formatter = string(
        "output.json.formatter",
        f"{_PACKAGE}json.formatter.DefaultJson",
        "How JSON is written: DefaultJson, ExtendedJson or SimplifiedJson.",
        choices=tuple(_FORMATTERS),
    )
    heartbeat_interval_ms = long(
        "heartbeat.interval.ms", 0, "How often a heartbeat is written; 0: never.", at_least=0
    )
    heartbeat_topic = string(
        "heartbeat.topic.name", "__mongodb_heartbeats", "The topic of heartbeats."
    )
    partition_name = string(
        "offset.partition.name", "", "The name of the offset; empty, that of the servers."
    )
    server_selection_timeout_ms = integer(
        "odradek.server.selection.timeout.ms", 30_000, "How long to look for a server.", at_least=1
    )

    @classmethod
    def takes(cls, name: str) -> bool:
        return name in _DEFAULTS or name in _NOT_NEEDED or name.startswith(_OLD)

    @classmethod
    def _parsed(cls, properties: Mapping[str, str | None]) -> tuple[dict[str, object], Problems]:
        renamed = {
            name.replace(_OLD, _NEW, 1): text
            for name, text in properties.items()
            if name.startswith(_OLD)
        }
        values, problems = super()._parsed({**renamed, **properties})
        for name, text in properties.items():
            if name in _DEFAULTS and text:
                reason, allowed = _DEFAULTS[name]
                if text not in allowed:
                    problems[name] = [invalid(name, text, f"it has no effect here: {reason}")]
        return values, problems

    def wrong_together(self) -> Problems:
        problems: Problems = {}
        for name, text, check in (
            ("pipeline", self.pipeline_text, self.pipeline),
            ("startup.mode.copy.existing.pipeline", self.copy_pipeline_text, self.copy_pipeline),
            ("collation", self.collation_text, self.collation),
            ("topic.namespace.map", self.topic_namespace_map, self.topics),
            (
                "startup.mode.timestamp.start.at.operation.time",
                self.start_time_text,
                self.start_time,
            ),
            (
                "startup.mode.copy.existing.namespace.regex",
                self.copy_namespace_regex,
                self.copies,
            ),
        ):
            try:
                check()
            except (ValueError, TypeError, OverflowError, InvalidConfig) as error:
                problems[name] = [invalid(name, text, str(error))]
        if not _URI.match(self.connection_uri):
            reason = "it begins with mongodb:// or mongodb+srv://"
            problems["connection.uri"] = [invalid("connection.uri", "[hidden]", reason)]
        if self.collection and not self.database:
            reason = "a collection needs its database"
            problems["collection"] = [invalid("collection", self.collection, reason)]
        return problems

    # What follows from them

    @property
    def copies_existing(self) -> bool:
        return (self.startup_mode or (COPY_EXISTING if self.copy_existing else "")) == COPY_EXISTING

    @property
    def json_mode(self) -> str:
        return _FORMATTERS[self.json_formatter]

    @property
    def await_ms(self) -> int:
        """How long a server is waited for at once: a task must notice soon that it is stopped."""
        return min(self.poll_await_time_ms, _LONGEST_WAIT_MS)

    def pipeline(self) -> list[dict[str, Any]]:
        """Raises ValueError."""
        return _stages(self.pipeline_text)

    def copy_pipeline(self) -> list[dict[str, Any]]:
        """Raises ValueError."""
        return _stages(self.copy_pipeline_text)

    def collation(self) -> dict[str, Any] | None:
        """Raises ValueError."""
        if not self.collation_text.strip():
            return None
        found = json.loads(self.collation_text)
        if not isinstance(found, dict):
            raise ValueError("it must be a JSON object")
        return found

    def copies(self) -> re.Pattern[str] | None:
        """Returns what names of collections contain that are copied. Raises `InvalidConfig`."""
        text = self.copy_namespace_regex
        return java_pattern(text) if text else None

    def start_time(self) -> Timestamp | None:
        """Returns where `startup.mode=timestamp` begins. Raises ValueError."""
        text = self.start_time_text.strip()
        if not text:
            return None
        if text.startswith("{"):
            found = json_util.loads(text)
            if isinstance(found, Timestamp):
                return found
            raise ValueError('a timestamp is {"$timestamp": {"t": SECONDS, "i": NUMBER}}')
        if text.isdecimal():
            return Timestamp(int(text), 0)
        at = datetime.fromisoformat(text)
        return Timestamp(int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()), 0)

    def topics(self) -> EventTopics:
        """Raises ValueError or `InvalidConfig`."""
        return EventTopics(
            self.topic_prefix, self.topic_suffix, self.topic_separator, self.topic_namespace_map
        )

    @property
    def offset_name(self) -> str:
        """The name of the offset: the servers and what is watched, without the user."""
        if self.partition_name:
            return self.partition_name
        match = _URI.match(self.connection_uri)
        assert match is not None
        hosts = ",".join(sorted(match[2].split(",")))
        watched = ".".join(filter(None, (self.database, self.collection)))
        return f"{match[1]}://{hosts}/{watched}"


def _stages(text: str) -> list[dict[str, Any]]:
    found = json_util.loads(text) if text.strip() else []
    if not isinstance(found, list) or not all(isinstance(stage, dict) for stage in found):
        raise ValueError("it must be a JSON array of stages")
    return found
