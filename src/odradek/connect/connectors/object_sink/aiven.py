"""The settings of the object sink in Aiven's words."""

import base64
import json
from collections.abc import Callable
from typing import Any, Final

from odradek.config.kinds import integer, long, names, password, string
from odradek.config.setting import Importance
from odradek.connect.connectors.object_sink.formats import (
    Compressed,
    JsonLines,
    ObjectFormat,
    PlainCsv,
)
from odradek.connect.connectors.object_sink.layout import RecordTime, TemplateLayout
from odradek.connect.connectors.object_sink.settings import (
    Plan,
    StoreSettings,
    make_format,
    s3_store,
)
from odradek.connect.connectors.object_sink.stores import Store
from odradek.connect.connectors.object_sink.task import Rotation
from odradek.connect.connectors.time_zones import time_zone
from odradek.connect.data import schemas, values
from odradek.connect.data.schemas import Field, Schema
from odradek.connect.errors import DataError, InvalidConfig
from odradek.connect.records import SinkRecord
from odradek.connect.settings import REQUIRED, Problems, invalid

_HIGH = Importance.HIGH
_LINES: Final = JsonLines()
_PARTS: Final = ("key", "value", "offset", "timestamp", "headers")


class AivenSettings(StoreSettings):
    bucket = string("aws.s3.bucket.name", REQUIRED, "The bucket.", importance=_HIGH)
    region = string("aws.s3.region", "us-east-1", "The region of the bucket.")
    endpoint = string("aws.s3.endpoint", None, "The URL of a store with the protocol of S3.")
    prefix = string("aws.s3.prefix", "", "Stands before the names of all objects.")
    access_key = string("aws.access.key.id", None, "Who logs in; unset, as the environment says.")
    secret_key = password("aws.secret.access.key", "The secret of the access key.")
    template = string(
        "file.name.template",
        None,
        "The names of objects; unset, {{topic}}-{{partition}}-{{start_offset}} and the ending of"
        " the compression.",
        importance=_HIGH,
    )
    compression = string(
        "file.compression.type",
        "gzip",
        "How objects are compressed.",
        choices=("none", "gzip", "snappy", "zstd"),
        folds_case=True,
    )
    max_records = integer(
        "file.max.records", 0, "Objects are written when there are so many records; 0: never."
    )
    flush_interval_ms = long(
        "offset.flush.interval.ms", 60_000, "Objects are written after so long.", at_least=1
    )
    timezone = string("file.name.timestamp.timezone", "Z", "The zone of times in names.")
    timestamp_source = string(
        "file.name.timestamp.source",
        "event",
        "The time in a name: event, the timestamp of the record, or wallclock, with which objects"
        " may be doubled by a failure.",
        choices=("event", "wallclock"),
        folds_case=True,
    )
    output_type = string(
        "format.output.type",
        "csv",
        "What is in an object.",
        choices=("csv", "json", "jsonl", "parquet", "avro"),
        folds_case=True,
        importance=_HIGH,
    )
    output_fields = names(
        "format.output.fields", ("value",), "What of a record is written.", choices=_PARTS
    )
    encoding = string(
        "format.output.fields.value.encoding",
        "base64",
        "How csv writes values.",
        choices=("none", "base64"),
        folds_case=True,
    )
    envelope = string(
        "format.output.envelope",
        "true",
        "Whether the parts of a record are fields of an object; false writes the value alone.",
        choices=("true", "false"),
        folds_case=True,
    )

    def wrong_together(self) -> Problems:
        problems = super().wrong_together()
        try:
            self.plan()
        except InvalidConfig as error:
            name = "file.name.template"
            problems[name] = [invalid(name, self.template, str(error))]
        if self.envelope == "false" and self.output_fields != ("value",):
            name = "format.output.envelope"
            problems[name] = [invalid(name, "false", "it needs format.output.fields=value")]
        return problems

    def plan(self) -> Plan:
        format_ = self._format()
        is_plain = self.compression == "none" or self.output_type in {"parquet", "avro"}
        compressed = format_ if is_plain else Compressed(format_, self.compression)
        ending = compressed.extension.removeprefix(format_.extension)
        template = self.template or f"{{{{topic}}}}-{{{{partition}}}}-{{{{start_offset}}}}{ending}"
        extractor = "record" if self.timestamp_source == "event" else "wallclock"
        layout = TemplateLayout(
            self.prefix, template, RecordTime(extractor), time_zone(self.timezone)
        )
        rotation = Rotation(
            self.max_records or None, self.rotate_bytes, self.flush_interval_ms / 1000
        )
        return Plan(layout, compressed, rotation, self._shape)

    def store(self) -> Store:
        return s3_store(
            self.bucket,
            region=self.region,
            endpoint=self.endpoint,
            access_key=self.access_key,
            secret_key=self.secret_key,
        )

    def _format(self) -> ObjectFormat:
        codec = self.compression
        match self.output_type:
            case "csv":
                return PlainCsv(self.encoding)
            case "json" | "jsonl":
                return JsonLines(is_array=self.output_type == "json")
            case "avro":
                codec = {"none": "null", "gzip": "deflate", "zstd": "zstandard"}.get(codec, codec)
        return make_format(self.output_type, codec)

    def _shape(self, record: SinkRecord) -> tuple[Schema | None, Any] | None:
        if self.envelope == "false":
            return record.value_schema, record.value
        if self.output_type in {"parquet", "avro"}:
            return self._struct(record)
        parts: dict[str, Callable[[], Any]] = {
            "key": lambda: self._part(record.key_schema, record.key),
            "value": lambda: self._part(record.value_schema, record.value),
            "offset": lambda: record.offset,
            "timestamp": lambda: self._time(record),
            "headers": lambda: self._headers(record),
        }
        return None, {name: parts[name]() for name in self.output_fields}

    def _part(self, schema: Schema | None, value: Any) -> Any:
        """Returns a value without its schema, as JSON shows it."""
        if self.output_type == "csv" or schema is None:
            return value
        return json.loads(_LINES.item(schema, value).data)

    def _time(self, record: SinkRecord) -> Any:
        if record.timestamp_ms is None or self.output_type == "csv":
            return record.timestamp_ms
        moment = values.ms_to_timestamp(record.timestamp_ms)
        return moment.isoformat("T", "milliseconds").replace("+00:00", "Z")

    def _headers(self, record: SinkRecord) -> Any:
        found = [
            {"key": name, "value": base64.b64encode(data or b"").decode()}
            for name, data in record.raw_headers
        ]
        if self.output_type == "csv":
            return ";".join(f"{header['key']}:{header['value']}" for header in found)
        return found

    def _struct(self, record: SinkRecord) -> tuple[Schema, Any]:
        if record.value_schema is None or ("key" in self.output_fields and not record.key_schema):
            raise DataError(
                f"{self.output_type} needs schemas: set value.converter and key.converter to ones"
                " with schemas"
            )
        key_schema = record.key_schema or schemas.OPTIONAL_STRING
        parts: dict[str, tuple[Schema, Any]] = {
            "key": (key_schema.optional(), record.key),
            "value": (record.value_schema.optional(), record.value),
            "offset": (schemas.INT64, record.offset),
            "timestamp": (schemas.INT64.optional(), record.timestamp_ms),
            "headers": (
                schemas.map_of(schemas.STRING, schemas.BYTES, is_optional=True),
                dict(record.raw_headers),
            ),
        }
        fields = tuple(Field(name, parts[name][0]) for name in self.output_fields)
        value = {name: parts[name][1] for name in self.output_fields}
        return schemas.struct(*fields), value
