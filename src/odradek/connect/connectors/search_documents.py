"""What a record becomes in a search index: the document, its id, and its place.

A document's version is the offset of its record, so a record that is read again changes nothing:
the server finds that the version is there already.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from odradek.connect.connectors.search_settings import SearchSinkSettings
from odradek.connect.converters.json_converter import NUMERIC, JsonConverter
from odradek.connect.converters.primitives import java_string
from odradek.connect.data import schemas
from odradek.connect.data.schemas import Schema, Type
from odradek.connect.errors import DataError
from odradek.connect.records import SinkRecord

_MAX_NAME_BYTES: Final = 255
_MAX_ID_BYTES: Final = 512
_TIMESTAMP: Final = "@timestamp"
_TYPES: Final = {
    Type.INT8: "byte",
    Type.INT16: "short",
    Type.INT32: "integer",
    Type.INT64: "long",
    Type.FLOAT32: "float",
    Type.FLOAT64: "double",
    Type.BOOLEAN: "boolean",
    Type.BYTES: "binary",
}
_LOGICAL: Final = {
    schemas.DECIMAL: "double",
    schemas.DATE: "date",
    schemas.TIME: "date",
    schemas.TIMESTAMP: "date",
}


class _DocumentJson(JsonConverter):
    """JSON without schemas, in which maps may be lists of objects with a key and a value."""

    def __init__(self, *, compacts_maps: bool) -> None:
        super().__init__(has_schemas=False, decimal_format=NUMERIC)
        self._compacts = compacts_maps

    def _is_object(self, value: Mapping[Any, Any], key: Schema | None) -> bool:
        return (self._compacts or key is None) and super()._is_object(value, key)

    def _pair(self, key: str, item: str) -> str:
        return f'{{"key":{key},"value":{item}}}'


class Documents:
    def __init__(self, settings: SearchSinkSettings) -> None:
        self._settings = settings
        self._json = _DocumentJson(compacts_maps=settings.compact_map_entries)
        self._places = dict(pair.split(":", 1) for pair in settings.mappings)
        self._ignores_key = frozenset(settings.topic_key_ignore)
        self._ignores_schema = frozenset(settings.topic_schema_ignore)

    def place(self, topic: str) -> str:
        """Returns the index or data stream for a topic."""
        known = self._places.get(topic)
        if known is not None:
            return known
        settings = self._settings
        if settings.data_stream_type != "none":
            namespace = settings.data_stream_namespace.replace("${topic}", topic)
            return _name(f"{settings.data_stream_type}-{settings.data_stream_dataset}-{namespace}")
        if settings.data_stream_enabled and settings.data_stream_prefix:
            return _name(f"{settings.data_stream_prefix}-{topic}")
        return _name(topic)

    def is_external(self, topic: str) -> bool:
        """Whether the place is one that the user has made."""
        return topic in self._places

    def uses_schema(self, topic: str) -> bool:
        return not self._settings.schema_ignore and topic not in self._ignores_schema

    def operation(self, record: SinkRecord) -> list[bytes] | None:
        """Returns the lines of a record for a bulk request; None if it means nothing. Raises
        `DataError`."""
        settings = self._settings
        action: dict[str, Any] = {"_index": self.place(record.topic)}
        identity, is_key = self._identity(record)
        if record.value is None:
            return self._without_value(record, action, identity, is_key)
        text = self._text(record)
        if identity is not None:
            action["_id"] = identity
        routing = self._routing(record, text)
        if routing is not None:
            action["routing"] = routing
        if settings.method == "upsert":
            action["retry_on_conflict"] = 3
            body = f'{{"doc":{text},"doc_as_upsert":true}}'
            return [_line("update", action), body.encode()]
        if settings.is_data_stream:
            return [_line("create", action), text.encode()]
        if is_key:
            self._add_version(record, action)
        return [_line("index", action), text.encode()]

    def _without_value(
        self, record: SinkRecord, action: dict[str, Any], identity: str | None, is_key: bool
    ) -> list[bytes] | None:
        match self._settings.behavior_on_null_values:
            case "fail":
                raise DataError(
                    "the record has no value: set behavior.on.null.values to ignore or delete"
                )
            case "delete" if is_key and identity and not self._settings.is_data_stream:
                action["_id"] = identity
                routing = self._routing(record, None)
                if routing is not None:
                    action["routing"] = routing
                if self._settings.method != "upsert":
                    self._add_version(record, action)
                return [_line("delete", action)]
        return None

    def _add_version(self, record: SinkRecord, action: dict[str, Any]) -> None:
        version: Any = record.offset
        name = self._settings.external_version_header
        if name:
            found = [header.value for header in record.headers if header.name == name]
            try:
                version = int(found[-1])
            except (IndexError, TypeError, ValueError):
                raise DataError(f"the header {name} has no version") from None
        action |= {"version": version, "version_type": "external"}

    def _identity(self, record: SinkRecord) -> tuple[str | None, bool]:
        """Returns the id, and whether it is made of the key."""
        settings = self._settings
        ignores = (
            settings.key_ignore
            or settings.use_autogenerated_ids
            or settings.is_data_stream
            or record.topic in self._ignores_key
        )
        strategy = settings.key_ignore_id_strategy if ignores else "record.key"
        if strategy == "none" or settings.use_autogenerated_ids:
            return None, False
        if strategy == "topic.partition.offset":
            place = f"{record.original_topic}+{record.original_partition}+{record.offset}"
            return place, False
        return self._key(record), True

    def _key(self, record: SinkRecord) -> str:
        key = record.key
        if key is None:
            if record.value is None and self._settings.behavior_on_null_values != "fail":
                return ""  # It names no document, so there is nothing to write or delete.
            raise DataError("the record has no key to be the document's id: set key.ignore=true")
        if isinstance(key, Mapping | list):
            text = self._json_text(record.topic, record.key_schema, key)
        elif isinstance(key, bytes | bytearray | memoryview):
            raise DataError("a key of bytes can be no id: use another key.converter")
        else:
            text = java_string(key, record.key_schema)
        if len(text.encode("utf-8", "surrogatepass")) > _MAX_ID_BYTES:
            raise DataError(f"the key is longer than the {_MAX_ID_BYTES} bytes that an id may have")
        return text

    def _text(self, record: SinkRecord) -> str:
        text = self._json_text(record.topic, record.value_schema, record.value)
        if not text.startswith("{"):
            raise DataError(f"a document is an object, and the value is {text:.60}")
        if not self._settings.is_data_stream:
            return text
        document = json.loads(text)
        names = self._settings.data_stream_timestamp_field
        found = [document[name] for name in names if document.get(name) is not None]
        if found:
            document[_TIMESTAMP] = found[0]
        elif _TIMESTAMP not in document:
            document[_TIMESTAMP] = record.timestamp_ms
        return json.dumps(document, separators=(",", ":"), ensure_ascii=False)

    def _json_text(self, topic: str, schema: Schema | None, value: Any) -> str:
        data = self._json.from_connect(topic, schema, value)
        assert data is not None
        return data.decode("utf-8", "surrogatepass")

    def _routing(self, record: SinkRecord, text: str | None) -> str | None:
        match self._settings.routing_type:
            case "key":
                return self._key(record) or None
            case "value" if text is not None:
                return self._routing_of(json.loads(text))
        return None

    def _routing_of(self, document: Any) -> str:
        path = self._settings.routing_type_record_value_path or ""
        found = document
        for part in path.strip("/").split("/"):
            found = found.get(part) if isinstance(found, dict) else None
        if isinstance(found, bool) or not isinstance(found, str | int | float) or found == "":
            raise DataError(f"the value has no text or number at {path} for the routing")
        return str(found)


def _line(operation: str, action: Mapping[str, Any]) -> bytes:
    return json.dumps({operation: action}, separators=(",", ":"), ensure_ascii=False).encode()


def _name(topic: str) -> str:
    """Returns the name of an index for a topic, as Aiven's and Confluent's connectors make it."""
    name = topic.lower()
    if name in {".", ".."}:
        return name.replace(".", "dot")
    return name.lstrip("-_")[:_MAX_NAME_BYTES] or "index"


def mapping_of(schema: Schema, *, compacts_maps: bool) -> dict[str, Any]:
    """Returns the mapping of an index for documents of the schema."""
    logical = _LOGICAL.get(schema.name or "")
    found: dict[str, Any]
    if logical is not None:
        found = {"type": logical}
    elif schema.type is Type.STRUCT:
        found = {
            "properties": {
                part.name: mapping_of(part.schema, compacts_maps=compacts_maps)
                for part in schema.fields
            }
        }
    elif schema.type is Type.ARRAY:
        found = mapping_of(schema.elements, compacts_maps=compacts_maps)
    elif schema.type is Type.MAP:
        found = {"type": "object"} if compacts_maps else _entries(schema)
    elif schema.type is Type.STRING:
        keyword = {"type": "keyword", "ignore_above": 256}
        found = {"type": "text", "fields": {"keyword": keyword}}
    else:
        found = {"type": _TYPES[schema.type]}
    return found


def _entries(schema: Schema) -> dict[str, Any]:
    assert schema.key is not None
    parts = {"key": schema.key, "value": schema.elements}
    return {
        "type": "nested",
        "properties": {name: mapping_of(part, compacts_maps=False) for name, part in parts.items()},
    }
