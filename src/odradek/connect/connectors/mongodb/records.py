"""The records of documents, in the form that Debezium gives them: documents are texts of JSON."""

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

from bson.timestamp import Timestamp

from odradek.connect.connectors.cdc import envelope, logical_types
from odradek.connect.connectors.cdc.envelope import TRANSACTION_BLOCK
from odradek.connect.connectors.cdc.names import adjusted_name
from odradek.connect.connectors.cdc.settings import context_headers
from odradek.connect.connectors.mongodb.documents import (
    document_json,
    key_json,
    updated_fields_json,
)
from odradek.connect.connectors.mongodb.settings import MongoDbSettings
from odradek.connect.connectors.positions import SourceOffset, SourcePartition
from odradek.connect.data import schemas
from odradek.connect.data.schemas import INT32, OPTIONAL_STRING, STRING, Field, Schema, struct
from odradek.connect.records import SourceRecord

_INT64: Final = schemas.INT64.optional()
_JSON: Final = logical_types.JSON.optional()
_STREAM: Final = "io.debezium.connector.mongodb.changestream."
_TRUNCATED: Final = replace(
    struct(Field("field", STRING), Field("size", INT32), name=f"{_STREAM}truncatedarray"), version=1
)
_DESCRIPTION: Final = replace(
    struct(
        Field("removedFields", schemas.array(STRING, is_optional=True)),
        Field("updatedFields", _JSON),
        Field("truncatedArrays", schemas.array(_TRUNCATED, is_optional=True)),
        name=f"{_STREAM}updatedescription",
        is_optional=True,
    ),
    version=1,
)
_SOURCE: Final = envelope.source_schema(
    "io.debezium.connector.mongo.Source",
    Field("collection", STRING),
    Field("ord", INT32),
    Field("lsid", OPTIONAL_STRING),
    Field("txnNumber", _INT64),
    Field("wallTime", _INT64),
)
OPERATIONS: Final = {
    "insert": envelope.CREATE,
    "update": envelope.UPDATE,
    "replace": envelope.UPDATE,
    "delete": envelope.DELETE,
}


class Collection(NamedTuple):
    database: str
    name: str

    @property
    def full_name(self) -> str:
        return f"{self.database}.{self.name}"


class MongoRecords:
    """Makes the records of all collections."""

    def __init__(self, settings: MongoDbSettings, partition: SourcePartition) -> None:
        self._settings = settings
        self._partition = partition
        self._mode = settings.json_serialization_mode
        self._headers = context_headers(settings, "mongodb")
        self._schemas: dict[Collection, tuple[str, Schema, Schema]] = {}

    def read(
        self,
        collection: Collection,
        document: Mapping[str, Any],
        marker: str,
        at: Timestamp,
        offset: SourceOffset,
    ) -> list[SourceRecord]:
        """Returns the record of a document of a snapshot."""
        source = self._source(collection, at, marker, time.time_ns() // 1000)
        after = document_json(document, self._mode)
        return [
            self._record(collection, document["_id"], envelope.READ, source, offset, after=after)
        ]

    def changed(
        self, collection: Collection, change: Mapping[str, Any], offset: SourceOffset
    ) -> list[SourceRecord]:
        """Returns the records of a change; none if its kind is not written."""
        op = OPERATIONS.get(change["operationType"])
        if op is None or self._settings.skips(op):
            return []
        source = self._source_of(collection, change)
        key = change["documentKey"]["_id"]
        found = self._record(
            collection,
            key,
            op,
            source,
            offset,
            before=self._document(change.get("fullDocumentBeforeChange")),
            after=None if op == envelope.DELETE else self._document(change.get("fullDocument")),
            description=self._description(change.get("updateDescription")),
        )
        if op != envelope.DELETE or not self._settings.tombstones_on_delete:
            return [found]
        return [found, replace(found, value=None, value_schema=None)]

    def _document(self, document: Any) -> str | None:
        return None if document is None else document_json(document, self._mode)

    def _description(self, found: Mapping[str, Any] | None) -> dict[str, Any] | None:
        if found is None:
            return None
        updated = found.get("updatedFields")
        arrays = [
            {"field": array["field"], "size": array["newSize"]}
            for array in found.get("truncatedArrays") or ()
        ]
        return {
            "removedFields": list(found.get("removedFields") or ()) or None,
            "updatedFields": None if updated is None else updated_fields_json(updated, self._mode),
            "truncatedArrays": arrays or None,
        }

    def _source_of(self, collection: Collection, change: Mapping[str, Any]) -> dict[str, Any]:
        at = change["clusterTime"]
        wall = change.get("wallTime")
        wall_ms = None if wall is None else int(wall)
        microseconds = at.time * 1_000_000 if wall_ms is None else wall_ms * 1000
        found = self._source(collection, at, envelope.SNAPSHOT_FALSE, microseconds)
        session = change.get("lsid")
        return {
            **found,
            "lsid": None if session is None else document_json(session, "relaxed"),
            "txnNumber": change.get("txnNumber"),
            "wallTime": wall_ms,
        }

    def _source(
        self, collection: Collection, at: Timestamp, marker: str, microseconds: int
    ) -> dict[str, Any]:
        return {
            "version": envelope.VERSION,
            "connector": "mongodb",
            "name": self._settings.topic_prefix,
            **envelope.source_times(microseconds),
            "snapshot": marker,
            "db": collection.database,
            "sequence": None,
            "collection": collection.name,
            "ord": at.inc,
            "lsid": None,
            "txnNumber": None,
            "wallTime": None,
        }

    def _record(
        self,
        collection: Collection,
        key: Any,
        op: str,
        source: dict[str, Any],
        offset: SourceOffset,
        *,
        before: str | None = None,
        after: str | None = None,
        description: dict[str, Any] | None = None,
    ) -> SourceRecord:
        topic, key_schema, value_schema = self._of(collection)
        value = {
            "before": before,
            "after": after,
            "updateDescription": description,
            "source": source,
            "op": op,
            "ts_ms": time.time_ns() // 1_000_000,
            "transaction": None,
        }
        return SourceRecord(
            topic,
            {"id": key_json(key)},
            value,
            key_schema,
            value_schema,
            headers=self._headers,
            source_partition=self._partition,
            source_offset=offset,
        )

    def _of(self, collection: Collection) -> tuple[str, Schema, Schema]:
        if collection not in self._schemas:
            topic = self._settings.topic_of(collection.database, collection.name)
            name = adjusted_name(topic, self._settings.schema_name_adjustment_mode)
            value = struct(
                Field("before", _JSON),
                Field("after", _JSON),
                Field("updateDescription", _DESCRIPTION),
                Field("source", _SOURCE),
                Field("op", OPTIONAL_STRING),
                Field("ts_ms", _INT64),
                Field("transaction", TRANSACTION_BLOCK),
                name=f"{name}.Envelope",
            )
            key = struct(Field("id", STRING), name=f"{name}.Key")
            self._schemas[collection] = topic, key, value
        return self._schemas[collection]
