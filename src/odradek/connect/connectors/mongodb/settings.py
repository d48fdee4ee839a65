"""The settings of the connector for MongoDB, under Debezium's names."""

import json
from collections.abc import Mapping
from typing import Any, ClassVar, Final

from odradek.config.kinds import boolean, integer, password, string
from odradek.config.setting import Importance
from odradek.connect.connectors.cdc.settings import (
    NOT_NEEDED,
    REFUSED,
    REFUSED_PREFIXES,
    CdcSettings,
)
from odradek.connect.settings import REQUIRED, Problems, invalid

_TABLES: Final = "collections are named by collection.include.list and collection.exclude.list"
_SIGNALS: Final = "there are no signals for MongoDB here"
_REFUSED: Final = {
    "capture.start.op.time": ("changes are read from now on, or from the stored position", ("-1",)),
    "column.include.list": ("documents are written whole; use a transform", ("",)),
    "column.exclude.list": ("documents are written whole; use a transform", ("",)),
    "cursor.oversize.handling.mode": ("a change that is too large stops the task", ("fail",)),
    "field.exclude.list": ("documents are written whole; use a transform", ("",)),
    "field.renames": ("documents are written whole; use a transform", ("",)),
    "message.key.columns": ("the key of a document is its _id", ("",)),
    "mongodb.authentication.class": (
        "it is a Java class",
        ("io.debezium.connector.mongodb.connection.DefaultMongoDbAuthProvider",),
    ),
    "mongodb.hosts": ("use mongodb.connection.string=mongodb://HOST:PORT/?replicaSet=NAME", ("",)),
    "provide.transaction.metadata": ("transactions are not announced for MongoDB", ("false",)),
    "signal.data.collection": (_SIGNALS, ("",)),
    "signal.enabled.channels": (_SIGNALS, ("source",)),
    "snapshot.collection.filter.overrides": ("collections are read whole", ("",)),
    "table.include.list": (_TABLES, ("",)),
    "table.exclude.list": (_TABLES, ("",)),
}
_TUNED: Final = frozenset(
    {
        "mongodb.heartbeat.frequency.ms",
        "mongodb.poll.interval.ms",
        "mongodb.socket.timeout.ms",
        "mongodb.task.id",
        "cursor.oversize.skip.threshold",
    }
)
_JKS: Final = (".jks", ".p12", ".pfx")


class MongoDbSettings(CdcSettings):
    connection_string = string(
        "mongodb.connection.string",
        REQUIRED,
        "The servers, as mongodb://HOST:PORT,HOST:PORT/?replicaSet=NAME, or mongodb+srv://.",
        importance=Importance.HIGH,
    )
    user = string("mongodb.user", "", "The user that the connector logs in as.")
    password = password("mongodb.password", "The password of that user.")
    auth_source = string("mongodb.authsource", "admin", "The database that knows the user.")
    ssl_enabled = boolean("mongodb.ssl.enabled", False, "Encrypt connections.")
    ssl_invalid_hostname_allowed = boolean(
        "mongodb.ssl.invalid.hostname.allowed", False, "Do not compare names in certificates."
    )
    ssl_truststore = string(
        "mongodb.ssl.truststore", "", "A PEM file with the certificates of authorities."
    )
    ssl_keystore = string(
        "mongodb.ssl.keystore", "", "A PEM file with the client's certificate and its key."
    )
    connect_timeout_ms = integer(
        "mongodb.connect.timeout.ms", 10_000, "How long a connection may take.", at_least=1
    )
    server_selection_timeout_ms = integer(
        "mongodb.server.selection.timeout.ms", 30_000, "How long to look for a server.", at_least=1
    )
    database_include_list = string(
        "database.include.list", "", "Patterns of the databases to capture; empty, all."
    )
    database_exclude_list = string(
        "database.exclude.list", "", "Patterns of databases not to capture."
    )
    collection_include_list = string(
        "collection.include.list",
        "",
        "Patterns of the collections to capture, as DATABASE.COLLECTION; empty, all.",
        importance=Importance.HIGH,
    )
    collection_exclude_list = string(
        "collection.exclude.list", "", "Patterns of collections not to capture."
    )
    filters_match_mode = string(
        "filters.match.mode",
        "regex",
        "Whether the lists of databases and collections are patterns or names.",
        choices=("regex", "literal"),
        folds_case=True,
    )
    capture_mode = string(
        "capture.mode",
        "change_streams_update_full",
        "Which documents are in a record: `update_full` has the one after an update, and"
        " `with_pre_image` the one before a change (the collection must keep those).",
        choices=(
            "change_streams", "change_streams_update_full", "change_streams_with_pre_image",
            "change_streams_update_full_with_pre_image",
        ),
        folds_case=True,
    )  # fmt: skip
    capture_mode_full_update_type = string(
        "capture.mode.full.update.type",
        "lookup",
        "`lookup` reads the document when the change is read, so it may be newer than the change;"
        " `post_image` has it as it was (the collection must keep those).",
        choices=("lookup", "post_image"),
        folds_case=True,
    )
    capture_scope = string(
        "capture.scope",
        "deployment",
        "What the change stream is opened on.",
        choices=("deployment", "database", "collection"),
        folds_case=True,
    )
    capture_target = string(
        "capture.target", "", "The database, or DATABASE.COLLECTION, for the other scopes."
    )
    json_serialization_mode = string(
        "json.serialization.mode",
        "legacy",
        "How documents are written as JSON.",
        choices=("legacy", "strict", "extended", "relaxed"),
        folds_case=True,
    )
    cursor_max_await_time_ms = integer(
        "cursor.max.await.time.ms", 0, "How long a server waits for a change; 0: as long as we do."
    )
    cursor_pipeline = string(
        "cursor.pipeline", "", "Stages for the change stream, as a JSON array.", may_be_empty=True
    )
    snapshot_mode = string(
        "snapshot.mode",
        "initial",
        "Whether the documents that are there are read before the changes.",
        choices=("initial", "initial_only", "no_data", "never", "when_needed", "always"),
        folds_case=True,
    )

    refused: ClassVar[Mapping[str, tuple[str, tuple[str, ...]]]] = {
        **REFUSED,
        **_REFUSED,
    }
    refused_prefixes: ClassVar[Mapping[str, str]] = {
        **REFUSED_PREFIXES,
        "column.mask.": "documents have no columns; use the transform MaskField",
        "column.truncate.": "documents have no columns; use a transform",
    }
    not_needed: ClassVar[frozenset[str]] = NOT_NEEDED | _TUNED

    def wrong_together(self) -> Problems:
        problems = super().wrong_together()
        if not self.connection_string.startswith(("mongodb://", "mongodb+srv://")):
            name = "mongodb.connection.string"
            reason = "it begins with mongodb:// or mongodb+srv://"
            problems[name] = [invalid(name, self.connection_string, reason)]
        parts = len([part for part in self.capture_target.split(".", 1) if part])
        wanted = {"deployment": 0, "database": 1, "collection": 2}[self.capture_scope]
        if wanted and parts < wanted:
            name = "capture.target"
            reason = f"capture.scope={self.capture_scope} needs {_TARGETS[self.capture_scope]}"
            problems[name] = [invalid(name, self.capture_target, reason)]
        for name, path in (
            ("mongodb.ssl.truststore", self.ssl_truststore),
            ("mongodb.ssl.keystore", self.ssl_keystore),
        ):
            if path.lower().endswith(_JKS):
                reason = "a PEM file is needed: openssl pkcs12 -in STORE.p12 -out FILE.pem -nodes"
                problems[name] = [invalid(name, path, reason)]
        try:
            self.pipeline()
        except ValueError:
            name = "cursor.pipeline"
            problems[name] = [
                invalid(name, self.cursor_pipeline, "it must be a JSON array of stages")
            ]
        return problems

    def pipeline(self) -> list[Any]:
        """Returns the stages of `cursor.pipeline`. Raises ValueError."""
        found = json.loads(self.cursor_pipeline or "[]")
        if not isinstance(found, list) or not all(isinstance(stage, dict) for stage in found):
            raise ValueError(found)
        return found

    def _texts_with_patterns(self) -> list[tuple[str, str]]:
        lists = [
            ("snapshot.include.collection.list", self.snapshot_include_collection_list),
        ]
        if self.filters_match_mode == "regex":
            lists += [
                ("database.include.list", self.database_include_list),
                ("database.exclude.list", self.database_exclude_list),
                ("collection.include.list", self.collection_include_list),
                ("collection.exclude.list", self.collection_exclude_list),
            ]
        return lists

    def _exclusive(self) -> list[tuple[str, str]]:
        return [
            ("database_include_list", "database_exclude_list"),
            ("collection_include_list", "collection_exclude_list"),
        ]


_TARGETS: Final = {"database": "a database", "collection": "DATABASE.COLLECTION"}
