"""The settings of the spool directory connectors, with the names of jcustenborder's connectors."""

from pathlib import Path
from typing import Any

from odradek.config.kinds import boolean, integer, long, names, string
from odradek.config.setting import Importance, Setting, without_effect
from odradek.connect.connectors.spool_dir.fields import schema_of
from odradek.connect.connectors.time_zones import time_zone
from odradek.connect.data.schemas import Schema, Type
from odradek.connect.errors import DataError, InvalidConfig
from odradek.connect.settings import REQUIRED, PluginSettings, Problems, invalid
from odradek.connect.transforms.java_dates import JavaDateFormat
from odradek.connect.transforms.java_patterns import java_pattern

_HIGH = Importance.HIGH
_LOW = Importance.LOW
SORTS = ("NameAsc", "NameDesc", "LengthAsc", "LengthDesc", "LastModifiedAsc", "LastModifiedDesc")


class SpoolSettings(PluginSettings):
    topic = string("topic", REQUIRED, "The topic for the records.", may_be_empty=False)
    input_path = string("input.path", REQUIRED, "The directory of the files.", importance=_HIGH)
    input_file_pattern = string(
        "input.file.pattern",
        REQUIRED,
        "A regular expression for the whole name of a file.",
        importance=_HIGH,
    )
    finished_path = string(
        "finished.path",
        "",
        "The directory to which files are moved after reading.",
        importance=_HIGH,
    )
    error_path = string(
        "error.path",
        REQUIRED,
        "The directory to which files are moved that cannot be read.",
        importance=_HIGH,
    )
    halt_on_error = boolean(
        "halt.on.error",
        True,
        "Whether a file that cannot be read fails the task.",
        importance=_HIGH,
    )
    cleanup_policy = string(
        "cleanup.policy",
        "MOVE",
        "What to do with a file after reading. MOVEBYDATE moves it to a directory of its date.",
        choices=("NONE", "DELETE", "MOVE", "MOVEBYDATE"),
    )
    file_minimum_age_ms = long(
        "file.minimum.age.ms", 0, "How long a file must be unchanged before it is read.", at_least=0
    )
    files_sort_attributes = names(
        "files.sort.attributes", ("NameAsc",), "The order in which files are read.", choices=SORTS
    )
    input_path_walk_recursively = boolean(
        "input.path.walk.recursively", False, "Whether subdirectories are read too."
    )
    cleanup_policy_maintain_relative_path = without_effect(
        "files keep their subdirectory of input.path when they are moved",
        boolean(
            "cleanup.policy.maintain.relative.path", False, "Whether files keep their subdirectory."
        ),
    )
    processing_file_extension = without_effect(
        "offsets say which file is being read; files with this ending are skipped",
        string(
            "processing.file.extension", ".PROCESSING", "The ending of a file that is being read."
        ),
    )
    empty_poll_wait_ms = long(
        "empty.poll.wait.ms", 500, "How long to wait after reading all files.", at_least=0
    )
    file_buffer_size_bytes = without_effect(
        "the operating system reads ahead",
        integer("file.buffer.size.bytes", 128 * 1024, "The size of a buffer.", at_least=1),
    )
    batch_size = integer("batch.size", 1000, "The number of records in a batch.", at_least=1)
    timestamp_mode = string(
        "timestamp.mode",
        "PROCESS_TIME",
        "The timestamp of records: when they are written, when the file was changed, or a field.",
        choices=("FIELD", "FILE_TIME", "PROCESS_TIME"),
    )
    # The connector sets these two in the properties of its tasks.
    task_index = integer("task.index", 0, "The number of the task.", at_least=0, importance=_LOW)
    task_count = integer("task.count", 1, "How many tasks there are.", at_least=1, importance=_LOW)
    timestamp_field: str | Setting[str] = ""

    def wrong_together(self) -> Problems:
        problems = super().wrong_together()

        def wrong(name: str, value: Any, reason: str) -> None:
            problems[name] = [invalid(name, value, reason)]

        try:
            java_pattern(self.input_file_pattern)
        except InvalidConfig as error:
            wrong("input.file.pattern", self.input_file_pattern, str(error))
        moves = self.cleanup_policy.startswith("MOVE")
        if moves and not self.finished_path:
            reason = f"cleanup.policy={self.cleanup_policy} needs a directory"
            wrong("finished.path", "", reason)
        if self.timestamp_mode == "FIELD" and not self.timestamp_field:
            wrong("timestamp.field", "", "timestamp.mode=FIELD needs the name of a field")
        return problems

    def wrong_directories(self) -> dict[str, list[str]]:
        """Returns an error for each setting whose directory does not exist."""
        moves = self.cleanup_policy.startswith("MOVE")
        wanted = {"input.path": self.input_path, "error.path": self.error_path}
        if moves:
            wanted["finished.path"] = self.finished_path
        return {
            name: [f"{path} is not a directory: create it, writable for the worker"]
            for name, path in wanted.items()
            if not Path(path).is_dir()
        }


class LineSettings(SpoolSettings):
    charset = string("character.set", "UTF-8", "The encoding of the files.")

    def wrong_together(self) -> Problems:
        return super().wrong_together() | wrong_encoding("character.set", self.charset)


def wrong_encoding(name: str, value: str) -> Problems:
    try:
        "".encode(value)
    except LookupError:
        return {name: [invalid(name, value, "there is no such encoding")]}
    return {}


class FieldSettings(SpoolSettings):
    """The settings of CSV and JSON, whose records have fields."""

    key_schema = string(
        "key.schema", "", "The schema of keys, as JSON. Empty: records have no key."
    )
    value_schema = string("value.schema", "", "The schema of values, as JSON.")
    schema_generation_enabled = boolean(
        "schema.generation.enabled", False, "Whether schemas are derived from the files."
    )
    schema_generation_key_fields = names(
        "schema.generation.key.fields", (), "The fields of a generated key."
    )
    schema_generation_key_name = string(
        "schema.generation.key.name",
        "com.github.jcustenborder.kafka.connect.model.Key",
        "The name of a generated key schema.",
    )
    schema_generation_value_name = string(
        "schema.generation.value.name",
        "com.github.jcustenborder.kafka.connect.model.Value",
        "The name of a generated value schema.",
    )
    parser_timestamp_date_formats = names(
        "parser.timestamp.date.formats",
        ("yyyy-MM-dd'T'HH:mm:ss", "yyyy-MM-dd' 'HH:mm:ss"),
        "The formats of times, as patterns of Java's SimpleDateFormat.",
    )
    parser_timestamp_timezone = string(
        "parser.timestamp.timezone", "UTC", "The time zone of times without one."
    )
    timestamp_field = string(
        "timestamp.field", "", "The field with the timestamp, for timestamp.mode=FIELD."
    )

    def schemas(self) -> tuple[Schema | None, Schema | None]:
        """Returns the schemas of keys and values. Raises `DataError`."""
        return (
            schema_of(self.key_schema) if self.key_schema else None,
            schema_of(self.value_schema) if self.value_schema else None,
        )

    def wrong_together(self) -> Problems:
        problems = super().wrong_together()
        if not self.value_schema and not self.schema_generation_enabled:
            reason = "give the schema, or set schema.generation.enabled=true"
            problems["value.schema"] = [invalid("value.schema", "", reason)]
        for name, text in (("key.schema", self.key_schema), ("value.schema", self.value_schema)):
            try:
                if text and schema_of(text).type is not Type.STRUCT:
                    problems[name] = [invalid(name, text, "it must be a STRUCT")]
            except DataError as error:
                problems[name] = [invalid(name, text, str(error))]
        for pattern in self.parser_timestamp_date_formats:
            try:
                JavaDateFormat(pattern)
            except InvalidConfig as error:
                name = "parser.timestamp.date.formats"
                problems[name] = [invalid(name, pattern, str(error))]
        try:
            time_zone(self.parser_timestamp_timezone)
        except InvalidConfig as error:
            name = "parser.timestamp.timezone"
            problems[name] = [invalid(name, self.parser_timestamp_timezone, str(error))]
        return problems


class CsvSettings(FieldSettings):
    skip_lines = integer("csv.skip.lines", 0, "How many lines to skip at the start.", at_least=0)
    separator = integer(
        "csv.separator.char", 44, "The code of the separator; 44 is a comma.", at_least=0
    )
    quote = integer("csv.quote.char", 34, "The code of the quote character.", at_least=0)
    escape = integer("csv.escape.char", 92, "The code of the escape character.", at_least=0)
    is_strict = boolean("csv.strict.quotes", False, "Whether a wrongly quoted field is an error.")
    ignores_space = boolean(
        "csv.ignore.leading.whitespace", True, "Whether spaces before a field are ignored."
    )
    ignores_quotes = boolean(
        "csv.ignore.quotations", False, "Whether quotes have no special meaning."
    )
    keeps_returns = without_effect(
        "a carriage return at the end of a line is always removed",
        boolean("csv.keep.carriage.return", False, "Whether carriage returns are kept."),
    )
    verifies = without_effect(
        "an error is noticed when the file is read",
        boolean("csv.verify.reader", True, "Whether a file is checked before it is read."),
    )
    null_fields = string(
        "csv.null.field.indicator",
        "NEITHER",
        "Which empty fields are null. Quoted and unquoted fields are treated alike.",
        choices=("NEITHER", "EMPTY_SEPARATORS", "BOTH"),
    )
    has_header = boolean(
        "csv.first.row.as.header", False, "Whether the first row has the names of the columns."
    )
    charset = string("csv.file.charset", "UTF-8", "The encoding of the files.")
    is_case_sensitive = boolean(
        "csv.case.sensitive.field.names",
        False,
        "Whether the case of names in the first row matters.",
    )
    is_rfc4180 = boolean(
        "csv.rfc.4180.parser.enabled", False, "Whether there is no escape character (RFC 4180)."
    )

    def wrong_together(self) -> Problems:
        problems = super().wrong_together() | wrong_encoding("csv.file.charset", self.charset)
        if self.schema_generation_enabled and not self.value_schema and not self.has_header:
            reason = "schema.generation.enabled needs the names in the first row"
            name = "csv.first.row.as.header"
            problems[name] = [invalid(name, "false", reason)]
        return problems


class JsonSettings(FieldSettings):
    pass
