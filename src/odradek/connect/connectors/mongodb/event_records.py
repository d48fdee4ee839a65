"""The records of change events: the events, or the documents in them, as JSON or BSON."""

import base64
from collections.abc import Callable, Mapping
from typing import Any, Final

import bson
from bson.binary import Binary
from bson.datetime_ms import DatetimeMS
from bson.decimal128 import Decimal128
from bson.objectid import ObjectId

from odradek.connect.connectors.mongodb.documents import spaced_json
from odradek.connect.connectors.mongodb.event_schemas import (
    EVENT,
    KEY,
    AsText,
    fitted,
    inferred,
)
from odradek.connect.connectors.mongodb.event_settings import BSON, SCHEMA, MongoEventSettings
from odradek.connect.connectors.positions import SourceOffset, SourcePartition
from odradek.connect.data import schemas
from odradek.connect.data.schemas import Schema
from odradek.connect.errors import DataError
from odradek.connect.records import SourceRecord

Document = Mapping[str, Any]
_FULL: Final = "fullDocument"


class EventRecords:
    def __init__(self, settings: MongoEventSettings, partition: SourcePartition) -> None:
        self._settings = settings
        self._partition = partition
        self._topics = settings.topics()
        as_text = text_writer(settings.json_mode)
        self._key = _writer(settings.output_format_key, as_text, KEY)
        schema = None if settings.infers_schema else EVENT
        self._value = _writer(settings.output_format_value, as_text, schema)

    def of(self, event: Document, offset: SourceOffset) -> list[SourceRecord]:
        """Returns the record of a change: none if it has no database, or no document where only
        documents are wanted. Raises `DataError`."""
        database, collection = self._place(event)
        if not database:
            return []
        value: Document | None = event
        if self._settings.full_document_only:
            found = event.get(_FULL)
            value = found if isinstance(found, Mapping) else None
            is_tombstone = self._settings.tombstone_on_delete and _FULL not in event
            if value is None and not is_tombstone:
                return []
        topic = self._topics.of(database, collection)
        try:
            key_schema, key = self._key(self._key_of(event))
            value_schema, written = (None, None) if value is None else self._value(value)
        except (bson.errors.BSONError, TypeError, ValueError, OverflowError) as error:
            raise DataError(f"a change of {database} cannot be written: {error}") from error
        return [
            SourceRecord(
                topic,
                key,
                written,
                key_schema,
                value_schema,
                source_partition=self._partition,
                source_offset=offset,
            )
        ]

    def _place(self, event: Document) -> tuple[str, str]:
        """Returns database and collection of a change. Where the pipeline has removed them, those
        that are watched count; the end of a stream has none."""
        space = event.get("ns")
        if isinstance(space, Mapping):
            database, collection = space.get("db"), space.get("coll")
            return (
                database if isinstance(database, str) else "",
                collection if isinstance(collection, str) else "",
            )
        if event.get("operationType") == "invalidate":
            return "", ""
        return self._settings.database, self._settings.collection

    def _key_of(self, event: Document) -> Document:
        if self._settings.output_format_key == SCHEMA:
            return event
        found = event.get("documentKey")
        if self._settings.document_key_as_key and isinstance(found, Mapping):
            return found
        return {"_id": event.get("_id")}

    def heartbeat(self, token: Document, offset: SourceOffset) -> SourceRecord:
        return SourceRecord(
            self._settings.heartbeat_topic,
            spaced_json(token, "relaxed"),
            None,
            schemas.STRING,
            schemas.BYTES.optional(),
            source_partition=self._partition,
            source_offset=offset,
        )


def _writer(
    output: str, as_text: AsText, schema: Schema | None
) -> "Callable[[Document], tuple[Schema, Any]]":
    """`schema` is that of all values; None if each document shows its own."""
    if output == BSON:
        return lambda document: (schemas.BYTES, bson.encode(document))
    if output != SCHEMA:
        return lambda document: (schemas.STRING, as_text(document))

    def written(document: Document) -> tuple[Schema, Any]:
        own = inferred(document) if schema is None else schema
        return own, fitted(own, document, as_text)

    return written


def text_writer(mode: str) -> AsText:
    """Returns what writes documents as JSON."""
    if mode == "simplified":
        return lambda document: spaced_json(_simple(document), "relaxed")
    return lambda document: spaced_json(document, mode)


def _simple(value: Any) -> Any:
    """Returns a value in which ids, dates, decimal numbers and bytes are texts."""
    if isinstance(value, Mapping):
        return {name: _simple(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_simple(part) for part in value]
    if isinstance(value, ObjectId | Decimal128):
        return str(value)
    if isinstance(value, bytes | Binary):
        return base64.b64encode(value).decode()
    if isinstance(value, DatetimeMS):
        return _date(value)
    return value


def _date(value: DatetimeMS) -> str:
    at = value.as_datetime()
    fraction = f".{int(value) % 1000:03}".rstrip("0").rstrip(".")
    return f"{at:%Y-%m-%dT%H:%M:%S}{fraction}Z"
