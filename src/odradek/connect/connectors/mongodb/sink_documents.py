"""Records as documents of MongoDB, and what is asked of the server for each."""

import uuid
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any, Final

import bson
from bson import Decimal128, Int64, ObjectId, json_util
from bson.errors import BSONError, InvalidDocument
from pymongo import DeleteOne, InsertOne, ReplaceOne, UpdateOne

from odradek.connect.connectors.mongodb.sink_settings import MongoSinkSettings
from odradek.connect.data.schemas import Schema, Type
from odradek.connect.errors import DataError
from odradek.connect.records import SinkRecord

_EPOCH: Final = date(1970, 1, 1)
Document = dict[str, Any]
Write = InsertOne[Document] | ReplaceOne[Document] | UpdateOne | DeleteOne


class Documents:
    """Makes a write of each record. The strategies have the names of MongoDB's connector."""

    def __init__(self, settings: MongoSinkSettings) -> None:
        self._settings = settings

    def write(self, record: SinkRecord) -> Write | None:
        """Returns what is to be written; None if the record asks for nothing. Raises
        `DataError`."""
        settings = self._settings
        value = document_of(record.value, record.value_schema, "the value")
        if settings.writes == "DeleteOneDefaultStrategy" or value is None:
            is_wanted = value is not None or settings.delete_on_null_values
            return DeleteOne({"_id": self._id(record, {})}) if is_wanted else None
        if "_id" not in value or settings.id_overwrites:
            value = {"_id": self._id(record, value), **_without_id(value)}
        return self._of(value)

    def _of(self, value: Document) -> Write:
        rest = _without_id(value)
        same = {"_id": value["_id"]}
        match self._settings.writes:
            case "InsertOneDefaultStrategy":
                return InsertOne(value)
            case "UpdateOneDefaultStrategy":
                return UpdateOne(same, {"$set": rest}, upsert=True)
            case "UpdateOneTimestampsStrategy":
                return UpdateOne(same, _with_times(rest), upsert=True)
            case "ReplaceOneBusinessKeyStrategy":
                return ReplaceOne(_business_key(value), rest, upsert=True)
            case "UpdateOneBusinessKeyTimestampStrategy":
                return UpdateOne(_business_key(value), _with_times(rest), upsert=True)
        return ReplaceOne(same, value, upsert=True)

    def _id(self, record: SinkRecord, value: Document) -> Any:
        make = _IDS.get(self._settings.ids)
        return ObjectId() if make is None else make(self, record, value)

    def _of_metadata(self, record: SinkRecord, value: Document) -> str:
        return f"{record.original_topic}#{record.original_partition}#{record.offset}"

    def _of_key(self, record: SinkRecord, value: Document) -> Document:
        return self._key(record)

    def _in_key(self, record: SinkRecord, value: Document) -> Any:
        return _provided(self._key(record), "the key")

    def _in_value(self, record: SinkRecord, value: Document) -> Any:
        return _provided(value, "the value")

    def _part_of_key(self, record: SinkRecord, value: Document) -> Document:
        settings = self._settings
        is_allowed = settings.key_projection_type == "allowlist"
        return _projected(self._key(record), settings.key_projection_list, is_allowed)

    def _part_of_value(self, record: SinkRecord, value: Document) -> Document:
        settings = self._settings
        is_allowed = settings.value_projection_type == "allowlist"
        return _projected(value, settings.value_projection_list, is_allowed)

    def _key(self, record: SinkRecord) -> Document:
        found = document_of(record.key, record.key_schema, "the key")
        if found is None:
            raise DataError(f"the record has no key, which {self._settings.ids} needs")
        return found


_IDS: Final[Mapping[str, Callable[[Documents, SinkRecord, Document], Any]]] = {
    "KafkaMetaDataStrategy": Documents._of_metadata,
    "UuidStrategy": lambda documents, record, value: str(uuid.uuid4()),
    "FullKeyStrategy": Documents._of_key,
    "ProvidedInKeyStrategy": Documents._in_key,
    "ProvidedInValueStrategy": Documents._in_value,
    "PartialKeyStrategy": Documents._part_of_key,
    "PartialValueStrategy": Documents._part_of_value,
}


def document_of(value: Any, schema: Schema | None, where: str) -> Document | None:
    """Returns a struct, a map, JSON text or BSON bytes as a document. Raises `DataError`."""
    if value is None:
        return None
    if isinstance(value, str):
        try:
            found = json_util.loads(value)
        except (ValueError, TypeError, BSONError) as error:
            raise DataError(f"{where} is text, and no JSON: {error}") from None
    elif isinstance(value, bytes | bytearray | memoryview):
        try:
            found = bson.decode(bytes(value))
        except BSONError as error:
            raise DataError(f"{where} is bytes, and no BSON: {error}") from None
    else:
        found = _converted(value, schema)
    if not isinstance(found, dict):
        raise DataError(f"{where} is not a document: it is {type(value).__name__}")
    try:
        bson.encode(found)
    except (InvalidDocument, OverflowError, BSONError) as error:
        raise DataError(f"{where} cannot be a document: {error}") from None
    return found


def _converted(value: Any, schema: Schema | None) -> Any:
    if isinstance(value, Mapping):
        parts = {} if schema is None else {part.name: part.schema for part in schema.fields}
        of_all = schema.elements if schema is not None and schema.type is Type.MAP else None
        return {
            str(name): _converted(one, parts.get(str(name), of_all)) for name, one in value.items()
        }
    if isinstance(value, list | tuple):
        of_each = schema.elements if schema is not None and schema.type is Type.ARRAY else None
        return [_converted(one, of_each) for one in value]
    if schema is not None and schema.type is Type.INT64 and isinstance(value, int):
        return Int64(value)
    return _plain(value)


def _plain(value: Any) -> Any:
    """Returns a single value in the type that MongoDB has for it."""
    if isinstance(value, Decimal):
        return Decimal128(str(value))
    if isinstance(value, time):
        return datetime.combine(_EPOCH, value, UTC)
    if isinstance(value, date) and not isinstance(value, datetime):
        return datetime.combine(value, time(), UTC)
    return bytes(value) if isinstance(value, bytearray | memoryview) else value


def _without_id(value: Document) -> Document:
    return {name: one for name, one in value.items() if name != "_id"}


def _with_times(rest: Document) -> Document:
    now = datetime.now(UTC)
    return {"$set": {**rest, "_modifiedTS": now}, "$setOnInsert": {"_insertedTS": now}}


def _business_key(value: Document) -> Document:
    found = value["_id"]
    if not isinstance(found, dict):
        raise DataError("the value has an _id already, so there is no business key")
    return found


def _provided(found: Document, where: str) -> Any:
    if found.get("_id") is None:
        raise DataError(f"{where} has no _id")
    return found["_id"]


def _projected(found: Document, listed: tuple[str, ...], is_allowed: bool) -> Document:
    return {name: one for name, one in found.items() if (name in listed) == is_allowed}
