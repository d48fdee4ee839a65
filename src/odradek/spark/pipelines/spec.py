"""The declarative form of a pipeline, read and checked; no pyspark, no brokers.

A TOML file names sources, transforms and a sink:

    [source]
    topic = "clicks"
    value = "json"
    schema = "user string, page string"

    [[transform]]
    sql = "select page, count(*) as clicks from source group by page"

    [sink]
    topic = "clicks-by-page"
    key = "page"
    value = "json"
    mode = "update"

An error in the file raises `BadPipeline` with one line that names the table and the key.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from odradek.config.spelling import did_you_mean
from odradek.config.toml_text import parse_toml
from odradek.config.values import InvalidValue
from odradek.spark.pipelines.column_types import BadSchema, check_schema
from odradek.spark.pipelines.durations import BadDuration, check_duration

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PIPELINE_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_VALUE_KINDS: Final = ("binary", "string", "json")
_MODES: Final = ("append", "update", "complete")
AVAILABLE_NOW: Final = "available-now"
_MEANT_AVAILABLE_NOW: Final = ("availablenow", "available", "now", "once")
DEFAULT_BOOTSTRAP: Final = "localhost:9092"
# Formats of Spark that are files in a directory, which an option names.
_FILES: Final = ("csv", "json", "orc", "parquet", "text")
_OFFSET_WORDS: Final = ("earliest", "latest")


class BadPipeline(ValueError):
    """A pipeline's file is invalid; the message says where and what to do."""


@dataclass(frozen=True, slots=True)
class SourceSpec:
    """A topic to read. `name` is the view that SQL reads."""

    name: str
    format: str
    options: Mapping[str, str]
    value: str = "binary"
    schema: str | None = None
    watermark: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class TransformSpec:
    """One step: SQL over the views before it, or a Python function of the DataFrame before it."""

    name: str
    sql: str | None = None
    python: str | None = None


@dataclass(frozen=True, slots=True)
class SinkSpec:
    format: str
    options: Mapping[str, str]
    key: str | None = None
    value: str | None = None
    mode: str = "append"
    trigger: str | None = None


@dataclass(frozen=True, slots=True)
class PipelineSpec:
    name: str
    sources: tuple[SourceSpec, ...]
    transforms: tuple[TransformSpec, ...]
    sink: SinkSpec
    spark: Mapping[str, str] = field(default_factory=dict)


# The keys that each table of the file may have.
_TOP: Final = ("name", "bootstrap", "spark", "source", "transform", "sink")
_SOURCE: Final = (
    "topic",
    "pattern",
    "starting",
    "max_offsets_per_trigger",
    "bootstrap",
    "value",
    "schema",
    "watermark",
    "format",
    "options",
)
_TRANSFORM: Final = ("name", "sql", "python")
_SINK: Final = ("topic", "key", "value", "mode", "trigger", "bootstrap", "format", "options")


def check_name(name: str) -> str:
    if not _PIPELINE_NAME.fullmatch(name):
        raise BadPipeline(
            f"{name!r} is not a valid pipeline name: letters, digits, '.', '_' and '-', at most 100"
        )
    return name


def read_spec(text: str, default_name: str) -> PipelineSpec:
    """The pipeline that a TOML file declares."""
    try:
        document = parse_toml(text)
    except InvalidValue as error:
        raise BadPipeline(f"it is not TOML: {error}") from None
    top = _Table("the file", document, _TOP)
    bootstrap = top.text("bootstrap", DEFAULT_BOOTSTRAP) or DEFAULT_BOOTSTRAP
    spec = PipelineSpec(
        name=check_name(top.text("name", default_name) or default_name),
        sources=_sources(top, bootstrap),
        transforms=_transforms(top),
        sink=_sink(top, bootstrap),
        spark=top.options("spark"),
    )
    views = [source.name for source in spec.sources] + [
        transform.name for transform in spec.transforms
    ]
    for view in views:
        if views.count(view) > 1:
            raise BadPipeline(f"two steps are named {view}: give one another name")
    if len(spec.sources) > 1 and not spec.transforms:
        raise BadPipeline("several sources need a [[transform]] that joins or unites them")
    return spec


class _Table:
    """A table of the file. A key that is not `known` is refused before anything else is checked: it
    may be the misspelt name of one that is missing."""

    def __init__(self, where: str, entries: Mapping[str, object], known: tuple[str, ...]) -> None:
        self.where = where
        self._entries = dict(entries)
        for key in entries:
            if key not in known:
                raise BadPipeline(f"{where} knows no {key}{self._hint(key, known)}")

    def _hint(self, key: str, known: tuple[str, ...]) -> str:
        near = did_you_mean(key, known)
        if near:
            return near
        names = f"; it knows {', '.join(sorted(known))}"
        if "options" not in known:
            return names
        return f'{names}; options of the format are written as options = {{ {key} = "..." }}'

    def take(self, key: str) -> object:
        return self._entries.get(key)

    def text(self, key: str, default: str | None = None) -> str | None:
        value = self.take(key)
        if value is None:
            return default
        if not isinstance(value, str) or not value.strip():
            raise BadPipeline(f"{key} in {self.where} must be text in quotes")
        return value

    def choice(self, key: str, choices: tuple[str, ...], default: str | None) -> str | None:
        value = self.text(key, default)
        if value is not None and value not in choices:
            raise BadPipeline(
                f"{key} in {self.where} must be one of {', '.join(choices)}"
                f"{did_you_mean(value, choices)}"
            )
        return value

    def schema(self, key: str) -> str | None:
        value = self.text(key)
        if value is not None:
            try:
                check_schema(value)
            except BadSchema as error:
                raise BadPipeline(f"{key} in {self.where}: {error}") from None
        return value

    def trigger(self, key: str) -> str | None:
        value = self.text(key)
        if value is None or value == AVAILABLE_NOW:
            return value
        if "".join(filter(str.isalpha, value.lower())) in _MEANT_AVAILABLE_NOW:
            raise BadPipeline(f'{key} in {self.where}: write {key} = "{AVAILABLE_NOW}"')
        self.check_duration(key, value, is_trigger=True)
        return value

    def check_duration(self, key: str, value: str, *, is_trigger: bool = False) -> None:
        try:
            check_duration(value, is_trigger=is_trigger)
        except BadDuration as error:
            raise BadPipeline(
                f'{key} = "{value}" in {self.where} is not a duration that Spark knows: {error}'
            ) from None

    def options(self, key: str) -> dict[str, str]:
        """Reads a table of settings. Numbers and booleans become text, as Spark expects."""
        value = self.take(key)
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            raise BadPipeline(
                f'{key} in {self.where} must be a table, like {{ name = "..." }}, not {value!r}'
            )
        return dict(_flattened(f"{key} in {self.where}", value))


def _flattened(where: str, table: Mapping[str, object]) -> list[tuple[str, str]]:
    """`a.b = 1` is a nested table in TOML; Spark's settings have dots in their names."""
    settings = []
    for key, value in table.items():
        if isinstance(value, Mapping):
            settings += [(f"{key}.{rest}", text) for rest, text in _flattened(where, value)]
        elif isinstance(value, bool):
            settings.append((key, str(value).lower()))
        elif isinstance(value, str | int | float):
            settings.append((key, str(value)))
        else:
            raise BadPipeline(f"{key} of {where} must be text, a number, true or false")
    return settings


def _sources(top: _Table, bootstrap: str) -> tuple[SourceSpec, ...]:
    tables = top.take("source")
    if not isinstance(tables, Mapping) or not tables:
        raise BadPipeline("a [source] is needed: [source] with topic = ..., or [source.NAME]")
    if all(isinstance(value, Mapping) for value in tables.values()) and "options" not in tables:
        return tuple(
            _source(name, _Table(f"[source.{name}]", table, _SOURCE), bootstrap)
            for name, table in tables.items()
            if isinstance(table, Mapping)
        )
    return (_source("source", _Table("[source]", tables, _SOURCE), bootstrap),)


def _source(name: str, table: _Table, bootstrap: str) -> SourceSpec:
    if not _NAME.fullmatch(name):
        raise BadPipeline(f"{table.where}: a source's name must be a word that SQL can use")
    kind = table.text("format", "odradek") or "odradek"
    options = table.options("options")
    topic = table.text("topic")
    pattern = table.text("pattern")
    starting = table.text("starting")
    max_offsets = table.take("max_offsets_per_trigger")
    servers = table.text("bootstrap", bootstrap) or bootstrap
    if kind == "kafka":
        raise BadPipeline(f'{table.where}: leave format = "kafka" out: topics are read without it')
    if starting and starting.isalpha() and starting not in _OFFSET_WORDS:
        raise BadPipeline(
            f'starting in {table.where} must be earliest, latest or {{"topic": {{"0": 23}}}}'
            f"{did_you_mean(starting, _OFFSET_WORDS)}"
        )
    if topic and pattern:
        raise BadPipeline(f"{table.where}: topic and pattern exclude each other: leave one out")
    if kind == "odradek":
        short = {"subscribe": topic, "subscribePattern": pattern, "startingOffsets": starting}
        short["maxOffsetsPerTrigger"] = None if max_offsets is None else str(max_offsets)
        shorthand = {key: value for key, value in short.items() if value is not None}
        options = {"kafka.bootstrap.servers": servers, **shorthand, **options}
        if not {"subscribe", "subscribePattern", "assign"} & set(options):
            raise BadPipeline(f"{table.where} needs topic = ... (or pattern = ...)")
    elif topic or pattern or starting:
        raise BadPipeline(
            f"{table.where}: topic, pattern and starting are for topics, not for {kind}"
        )
    else:
        _require_path(table.where, kind, options)
    value = table.choice("value", _VALUE_KINDS, "binary") or "binary"
    schema = table.schema("schema")
    if (value == "json") != (schema is not None) and kind == "odradek":
        raise BadPipeline(f'{table.where}: value = "json" and schema = "..." go together')
    watermark = table.options("watermark")
    if watermark and set(watermark) != {"column", "delay"}:
        raise BadPipeline(
            f'{table.where}: watermark is {{ column = "timestamp", delay = "10 seconds" }}'
        )
    if watermark:
        table.check_duration("watermark.delay", watermark["delay"])
    late = (watermark["column"], watermark["delay"]) if watermark else None
    return SourceSpec(name, kind, options, value, schema, late)


def _require_path(where: str, kind: str, options: Mapping[str, str]) -> None:
    if kind.lower() in _FILES and "path" not in {name.lower() for name in options}:
        raise BadPipeline(
            f'{where}: format = "{kind}" needs a directory: options = {{ path = "..." }}'
        )


def _transforms(top: _Table) -> tuple[TransformSpec, ...]:
    tables = top.take("transform")
    if tables is None:
        return ()
    if not isinstance(tables, list):
        raise BadPipeline("transforms come in order: write [[transform]] with two brackets")
    steps = []
    for number, entry in enumerate(tables, start=1):
        table = _Table(f"[[transform]] {number}", entry, _TRANSFORM)
        sql, python = table.text("sql"), table.text("python")
        if (sql is None) == (python is None):
            raise BadPipeline(f"{table.where} needs either sql = ... or python = ...")
        if python is not None and python.count(":") != 1:
            raise BadPipeline(f'{table.where}: python is "module:function" or "file.py:function"')
        name = table.text("name", f"step{number}") or ""
        if not _NAME.fullmatch(name):
            raise BadPipeline(f"{table.where}: {name!r} must be a word that SQL can use")
        steps.append(TransformSpec(name, sql, python))
    return tuple(steps)


def _sink(top: _Table, bootstrap: str) -> SinkSpec:
    entries = top.take("sink")
    if isinstance(entries, list):
        raise BadPipeline("there is one sink: write [sink] with one pair of brackets")
    if not isinstance(entries, Mapping):
        raise BadPipeline('a [sink] is needed: topic = ..., or format = "console"')
    table = _Table("[sink]", entries, _SINK)
    topic = table.text("topic")
    kind = table.text("format", "odradek") or "odradek"
    options = table.options("options")
    servers = table.text("bootstrap", bootstrap) or bootstrap
    if kind == "odradek":
        named = {"topic": topic} if topic else {}
        options = {"kafka.bootstrap.servers": servers, **named, **options}
    elif topic:
        raise BadPipeline(f"[sink]: topic is for topics, not for {kind}")
    else:
        _require_path(table.where, kind, options)
    return SinkSpec(
        format=kind,
        options=options,
        key=table.text("key"),
        value=table.text("value", "json" if kind == "odradek" else None),
        mode=table.choice("mode", _MODES, "append") or "append",
        trigger=table.trigger("trigger"),
    )
