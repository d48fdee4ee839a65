"""A stream or table as the catalogue knows it, and how a query begins with it.

Behind its source every record becomes one flat row: key columns, value columns, ROWTIME,
ROWPARTITION, ROWOFFSET and, if it is windowed, WINDOWSTART and WINDOWEND. A table stores such rows,
so that they keep their own ROWTIME.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from odradek.sql.functions.java_times import java_time_format, timestamp_of
from odradek.sql.planning.scope import (
    ROWOFFSET,
    ROWPARTITION,
    ROWTIME,
    SYSTEM_TYPES,
    WINDOW_END,
    WINDOW_START,
    Scope,
)
from odradek.streams.formats import columns
from odradek.streams.formats.columns import NAMES, UnfitColumns
from odradek.streams.formats.windowed import SessionWindowedCodec, TimeWindowedCodec
from odradek.streams.plan import nodes
from odradek.streams.plan.nodes import Codec, Node
from odradek.streams.plan.records import RecordContext, Windowed
from odradek.streams.plan.types import Column, Schema

REGISTERED: Final = ("AVRO", "JSON_SR", "PROTOBUF")
"""The formats with a schema registry."""
WITHOUT_REGISTRY: Final = (*NAMES, "PROTOBUF_NOSR")
UNWRAPPING: Final = ("AVRO", "JSON", "JSON_SR")
"""The formats in which a row of one column may be that column's value."""


@dataclass(frozen=True)
class WindowInfo:
    """How keys are windowed. `size_ms` is None for sessions."""

    kind: str
    size_ms: int | None = None


@dataclass(frozen=True)
class Format:
    """A format with what WITH says about it."""

    name: str
    is_wrapped: bool | None = None
    delimiter: str = ","
    schema_id: int | None = None
    """The schema in the registry that rows are written with."""
    full_name: str | None = None
    """The name of the record in the schema."""
    nullable: str | None = None
    """How Protobuf says that a field is null: OPTIONAL or WRAPPER; by default it does not."""

    @property
    def is_registered(self) -> bool:
        """Whether rows have a schema in the registry, so that equal keys may have other bytes."""
        return self.name in REGISTERED


AVRO_SPACE: Final = "io.confluent.ksql.avro_schemas"


def avro_key_name(source: str) -> str:
    """Returns how ksqlDB calls the records of the keys of a stream or table in Avro."""
    parts = (part.capitalize() for part in source.split("_"))
    return f"{AVRO_SPACE}.{''.join(parts)}Key"


MakeCodec = Callable[[Format, tuple[Column, ...], bool, str], Codec]
"""Makes the codec of a format: its columns, whether they are the key, and the topic."""


@dataclass(frozen=True)
class DataSource:
    name: str
    is_table: bool
    schema: Schema
    topic: str
    key_format: Format
    value_format: Format
    window: WindowInfo | None = None
    timestamp: str | None = None
    """The column that has the time of a record, in place of the record's own."""
    timestamp_format: str | None = None
    is_read_only: bool = False
    text: str = ""
    """The statement that made it."""

    @property
    def kind(self) -> str:
        return "TABLE" if self.is_table else "STREAM"

    @property
    def topic_columns(self) -> tuple[Column, ...]:
        """The value columns that are in the value of a record, and not in its headers."""
        return tuple(column for column in self.schema.value if column.header is None)


def make_codec(form: Format, wanted: tuple[Column, ...], is_key: bool, topic: str) -> Codec:
    """Returns the codec of a format that needs no schema registry. Raises `UnfitColumns`."""
    if form.name not in NAMES:
        raise UnfitColumns(
            f"the format {form.name} needs a schema registry: set ksql.schema.registry.url"
        )
    return columns.make(
        form.name, wanted, is_key=is_key, is_wrapped=form.is_wrapped, delimiter=form.delimiter
    )


def key_codec(source: DataSource, make: MakeCodec) -> Codec:
    codec = make(source.key_format, source.schema.key, True, source.topic)
    return windowed_codec(codec, source.window)


def windowed_codec(codec: Codec, window: WindowInfo | None) -> Codec:
    if window is None:
        return codec
    if window.size_ms is None:
        return SessionWindowedCodec(codec)
    return TimeWindowedCodec(codec, window.size_ms)


def value_codec(source: DataSource, make: MakeCodec) -> Codec:
    return make(source.value_format, source.topic_columns, False, source.topic)


class Names:
    """Gives operators names that are the same whenever the same statement is compiled: state is
    found by them after a restart. `kept` has other names for some of them: those of the statement
    that this one has replaced, whose state goes on."""

    def __init__(self, kept: Mapping[str, str] | None = None) -> None:
        self._count = 0
        self._kept = kept or {}

    def __call__(self, kind: str) -> str:
        self._count += 1
        name = f"{kind}-{self._count}"
        return self._kept.get(name, name)


_SYSTEM: Final = (ROWTIME, ROWPARTITION, ROWOFFSET)


def scope_of(source: DataSource, alias: str) -> Scope:
    """Returns the columns of the flat rows of a source."""
    system = _SYSTEM if source.window is None else (*_SYSTEM, WINDOW_START, WINDOW_END)
    others = [Column(column.name, column.kind) for column in source.schema.value]
    others += [Column(name, SYSTEM_TYPES[name]) for name in system]
    return Scope.of(alias, source.schema.key, others)


def flat_row(source: DataSource) -> Callable[[Any, Any, RecordContext], Any]:
    """Returns the function that makes a flat row of a key and a value."""
    no_keys = (None,) * len(source.schema.key)
    is_windowed = source.window is not None
    headers = [column.header for column in source.schema.value]
    has_headers = any(header is not None for header in headers)

    def flatten(key: Any, value: Any, context: RecordContext) -> Any:
        if value is None:
            return None
        window: tuple[int | None, ...] = ()
        if is_windowed:
            window = tuple(key.window) if isinstance(key, Windowed) else (None, None)
            key = key.key if isinstance(key, Windowed) else key
        if has_headers:
            value = _with_headers(value, headers, context)
        keys = no_keys if key is None else key
        system = (context.timestamp_ms, context.partition, context.offset)
        return (*keys, *value, *system, *window)

    return flatten


def _with_headers(
    value: tuple[Any, ...], headers: list[str | None], context: RecordContext
) -> tuple[Any, ...]:
    given = iter(value)
    row: list[Any] = []
    for header in headers:
        if header is None:
            row.append(next(given))
        elif not header:
            row.append([{"KEY": name, "VALUE": data} for name, data in context.headers])
        else:
            found = (data for name, data in reversed(context.headers) if name == header)
            row.append(next(found, None))
    return tuple(row)


def timestamp_reader(source: DataSource) -> Callable[[Any, Any, RecordContext], Any] | None:
    """Returns what reads the time of a record from the column that WITH (timestamp) names."""
    if source.timestamp is None:
        return None
    names = [column.name for column in source.schema.key]
    is_key = source.timestamp in names
    if not is_key:
        names = [column.name for column in source.topic_columns]
    place = names.index(source.timestamp)
    pattern = source.timestamp_format

    def read(key: Any, value: Any, _: RecordContext) -> Any:
        row = key if is_key else value
        found = None if row is None else row[place]
        if found is None or pattern is None:
            return found
        return timestamp_of(java_time_format(pattern).parse(found))

    return read


def begin(source: DataSource, names: Names, make: MakeCodec, reset: str | None) -> Node:
    """Returns the operators that a query begins with: their results are flat rows. Where nobody
    has said where reading begins (`reset`), a stream is read from its end on, and a table from the
    beginning, as it has rows from before."""
    if reset is None:
        reset = "earliest" if source.is_table else "latest"
    node: Node = nodes.Source(
        name=names("source"), topic=source.topic, key_codec=key_codec(source, make),
        value_codec=value_codec(source, make), timestamp_of=timestamp_reader(source), reset=reset,
        schema=source.schema, detail=source.name,
    )  # fmt: skip
    node = nodes.MapValues(name=names("rows"), parents=(node,), function=flat_row(source))
    if source.is_table:
        name = names("table")
        node = nodes.ToTable(name=name, parents=(node,), store=name)
    return node
