"""The settings of the object sink in Confluent's words, for directories too."""

from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from odradek.config.kinds import integer, long, names, password, string
from odradek.config.setting import Importance, without_effect
from odradek.connect.connectors.object_sink.formats import Compressed, ObjectFormat
from odradek.connect.connectors.object_sink.layout import (
    DAY_MS,
    HOUR_MS,
    ByField,
    ByPartition,
    ByTime,
    DirectoryLayout,
    Partitioner,
    RecordTime,
)
from odradek.connect.connectors.object_sink.settings import (
    Plan,
    StoreSettings,
    make_format,
    s3_store,
)
from odradek.connect.connectors.object_sink.stores import DirectoryStore, Store
from odradek.connect.connectors.object_sink.task import Rotation
from odradek.connect.connectors.time_zones import time_zone
from odradek.connect.data.schemas import Schema
from odradek.connect.errors import DataError, InvalidConfig
from odradek.connect.records import SinkRecord
from odradek.connect.settings import REQUIRED, Problems, invalid

_HIGH = Importance.HIGH
_CONFLUENT_FORMATS: Final = {"json": "Json", "avro": "Avro", "parquet": "Parquet",
                             "bytearray": "ByteArray", "orc": "Orc", "csv": "Csv"}  # fmt: skip


class ConfluentSettings(StoreSettings):
    store_url = string(
        "store.url",
        None,
        "Where objects are put: file:/DIRECTORY, or the URL of a store with the protocol of S3;"
        " unset, S3 itself.",
        importance=_HIGH,
    )
    bucket = string("s3.bucket.name", "", "The bucket; none for a directory.", importance=_HIGH)
    region = string("s3.region", "us-west-2", "The region of the bucket.")
    access_key = string("aws.access.key.id", None, "Who logs in; unset, as the environment says.")
    secret_key = password("aws.secret.access.key", "The secret of the access key.")
    topics_dir = string("topics.dir", "topics", "The directory above all topics.")
    format_class = string(
        "format.class",
        "json",
        "What is in an object: json, csv, avro, parquet, orc or bytearray, or Confluent's class.",
        importance=_HIGH,
    )
    flush_size = integer(
        "flush.size",
        REQUIRED,
        "Objects are written when there are so many records of a partition.",
        at_least=1,
        importance=_HIGH,
    )
    rotate_interval_ms = long(
        "rotate.interval.ms", -1, "Objects are written after so long; -1: it does not matter."
    )
    rotate_schedule_ms = long(
        "rotate.schedule.interval.ms", -1, "Objects are written at multiples of this on the clock."
    )
    partitioner_class = string(
        "partitioner.class",
        "DefaultPartitioner",
        "Directories: DefaultPartitioner (by partition), FieldPartitioner, TimeBasedPartitioner,"
        " DailyPartitioner or HourlyPartitioner.",
    )
    partition_fields = names("partition.field.name", (), "The fields of FieldPartitioner.")
    partition_duration_ms = long(
        "partition.duration.ms", HOUR_MS, "How long a directory of time is.", at_least=1
    )
    path_format = string(
        "path.format", "", "How a directory of time is written, as 'dt'=yyyy-MM-dd/'hour'=HH."
    )
    timezone = string("timezone", "UTC", "The zone of the times in directories.")
    locale = without_effect(
        "names of months are English", string("locale", "en", "The language of the times.")
    )
    timestamp_extractor = string(
        "timestamp.extractor",
        "record",
        "The time of a record: Record (its timestamp), RecordField, or Wallclock, with which"
        " objects may be doubled by a failure.",
        choices=("record", "recordfield", "wallclock"),
        folds_case=True,
    )
    timestamp_field = string("timestamp.field", "timestamp", "The field of RecordField.")
    directory_delimiter = string("directory.delim", "/", "What stands between directories.")
    file_delimiter = string("file.delim", "+", "What stands between the parts of a name.")
    pad_width = integer(
        "filename.offset.zero.pad.width", 10, "How long offsets in names are.", at_least=0
    )
    compression = string(
        "s3.compression.type",
        "none",
        "How objects of JSON, CSV and bytes are compressed.",
        choices=("none", "gzip", "zstd", "snappy"),
    )
    parquet_codec = string(
        "parquet.codec",
        "snappy",
        "How objects of Parquet and ORC are compressed.",
        choices=("none", "snappy", "gzip", "zstd", "lz4"),
    )
    avro_codec = string(
        "avro.codec",
        "null",
        "How objects of Avro are compressed.",
        choices=("null", "deflate", "bzip2", "snappy"),
    )
    null_values = string(
        "behavior.on.null.values",
        "fail",
        "What becomes of a record without a value.",
        choices=("fail", "ignore"),
        folds_case=True,
    )
    separator = string(
        "format.bytearray.separator", None, "What stands after each value; unset, a new line."
    )
    storage_class = without_effect(
        "store.url says it",
        string("storage.class", "io.confluent.connect.s3.storage.S3Storage", "The store."),
    )
    schema_compatibility = without_effect(
        "records with another schema go to an object of their own",
        string("schema.compatibility", "NONE", "What becomes of records with another schema."),
    )

    @property
    def directory(self) -> Path | None:
        """The directory of `store.url`, if it is one."""
        url = self.store_url or ""
        if url.startswith("file:"):
            return Path(urlsplit(url).path)
        return Path(url) if url.startswith("/") else None

    def wrong_together(self) -> Problems:
        problems = super().wrong_together()
        if self.directory is None and not self.bucket:
            reason = "name the bucket, or set store.url=file:/DIRECTORY"
            problems["s3.bucket.name"] = [invalid("s3.bucket.name", "", reason)]
        for name, value, make in (
            ("format.class", self.format_class, self._format),
            ("partitioner.class", self.partitioner_class, self._partitioner),
            ("timezone", self.timezone, lambda: time_zone(self.timezone)),
        ):
            try:
                make()
            except InvalidConfig as error:
                problems[name] = [invalid(name, value, str(error))]
        return problems

    def plan(self) -> Plan:
        format_ = self._format()
        layout = DirectoryLayout(
            self.topics_dir,
            self._partitioner(),
            self.file_delimiter,
            self.pad_width,
            format_.extension,
        )
        age, schedule = self.rotate_interval_ms, self.rotate_schedule_ms
        return Plan(
            layout,
            format_,
            Rotation(
                self.flush_size,
                self.rotate_bytes,
                age / 1000 if age > 0 else None,
                schedule / 1000 if schedule > 0 else None,
            ),
            self._shape,
        )

    def store(self) -> Store:
        if self.directory is not None:
            return DirectoryStore(self.directory)
        return s3_store(
            self.bucket,
            region=self.region,
            endpoint=self.store_url,
            access_key=self.access_key,
            secret_key=self.secret_key,
        )

    def _shape(self, record: SinkRecord) -> tuple[Schema | None, Any] | None:
        if record.value is None:
            if self.null_values == "ignore":
                return None
            raise DataError("the value is null: set behavior.on.null.values=ignore to pass it over")
        return record.value_schema, record.value

    def _format(self) -> ObjectFormat:
        last = self.format_class.rpartition(".")[2].removesuffix("Format").lower()
        if last not in _CONFLUENT_FORMATS:
            raise InvalidConfig(f"there is no such format: use {', '.join(_CONFLUENT_FORMATS)}")
        separator = "\n" if self.separator is None else self.separator
        codec = {"avro": self.avro_codec}.get(last, self.parquet_codec)
        found = make_format(last, codec, separator.encode())
        is_compressed = self.compression != "none" and last in {"json", "csv", "bytearray"}
        return Compressed(found, self.compression) if is_compressed else found

    def _partitioner(self) -> Partitioner:
        clock = RecordTime(self.timestamp_extractor, self.timestamp_field)
        zone = time_zone(self.timezone)
        pattern, duration_ms = self.path_format, self.partition_duration_ms
        match self.partitioner_class.rpartition(".")[2]:
            case "DefaultPartitioner":
                return ByPartition()
            case "FieldPartitioner":
                if not self.partition_fields:
                    raise InvalidConfig("FieldPartitioner needs partition.field.name")
                return ByField(self.partition_fields, self.directory_delimiter)
            case "HourlyPartitioner":
                pattern = "'year'=yyyy/'month'=MM/'day'=dd/'hour'=HH"
                return ByTime(pattern, HOUR_MS, zone, clock)
            case "DailyPartitioner":
                return ByTime("'year'=yyyy/'month'=MM/'day'=dd", DAY_MS, zone, clock)
            case "TimeBasedPartitioner":
                if not pattern:
                    raise InvalidConfig("TimeBasedPartitioner needs path.format")
                return ByTime(pattern, duration_ms, zone, clock)
        raise InvalidConfig(
            "there is no such partitioner: use DefaultPartitioner, FieldPartitioner,"
            " TimeBasedPartitioner, DailyPartitioner or HourlyPartitioner"
        )
