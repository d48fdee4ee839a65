"""A query that writes a stream or table: its sink as the catalogue has it, and its plan."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from odradek.config.spelling import did_you_mean
from odradek.sql.engine.catalogue import Catalogue
from odradek.sql.engine.definitions import (
    Defaults,
    Properties,
    TopicWish,
    check_formats,
    timestamp_of,
)
from odradek.sql.errors import Invalid, Place
from odradek.sql.formats import inferring
from odradek.sql.language.statements import CreateAsSelect, InsertInto, Query
from odradek.sql.planning import casting
from odradek.sql.planning.parts import Context, Note, ignore
from odradek.sql.planning.queries import CompiledQuery, compile_query
from odradek.sql.planning.sources import (
    DataSource,
    Format,
    MakeCodec,
    Names,
    avro_key_name,
    key_codec,
    timestamp_reader,
    value_codec,
)
from odradek.streams.plan import nodes
from odradek.streams.plan.nodes import Plan
from odradek.streams.plan.types import Schema


@dataclass(frozen=True)
class Prepared:
    """A persistent query, compiled."""

    sink: DataSource
    wish: TopicWish
    compiled: CompiledQuery
    plan: Plan


def prepare(
    statement: CreateAsSelect | InsertInto,
    catalogue: Catalogue,
    defaults: Defaults,
    *,
    reset: str | None,
    note: Note = ignore,
    stores: Mapping[str, str] | None = None,
) -> Prepared:
    """Returns what a statement makes. `reset` says where reading begins: earliest, latest, or as
    is usual for each source; `stores` is as `QueryInfo` has it. Raises `SqlError`."""
    context = Context(
        catalogue.sources.get, defaults.make, reset, note,
        default_key_format=Format(defaults.key_format), names=Names(stores),
        sources=catalogue.sources, limits=defaults.limits,
    )  # fmt: skip
    if isinstance(statement, InsertInto):
        return _prepare_insert(statement, catalogue, defaults, context)
    return _prepare_create(statement, defaults, context)


def _prepare_create(statement: CreateAsSelect, defaults: Defaults, context: Context) -> Prepared:
    place = statement.place
    properties = Properties(statement.properties, place, of_query=True)
    _check_emit(statement.query)
    has_key_format = "KEY_FORMAT" in properties or "FORMAT" in properties
    wanted = None
    if has_key_format or "KEY_SCHEMA_ID" in properties:
        wanted = properties.key_format(defaults.key_format, statement.name)
    context.key_format = wanted
    compiled = compile_query(statement.query, context)
    _check_kind(statement, compiled)
    key_format = _key_format(statement, compiled, wanted, defaults)
    value_format = defaults.wrapped(_value_format(properties, compiled), compiled.schema.value)
    wish = properties.topic(statement.name)
    timestamp, pattern = timestamp_of(properties, compiled.schema)
    sink = DataSource(
        statement.name, statement.is_table, compiled.schema, wish.name, key_format, value_format,
        compiled.window, timestamp, pattern, text=statement.text,
    )  # fmt: skip
    check_formats(sink, properties, defaults.make)
    return Prepared(sink, wish, compiled, _with_sink(compiled, sink, defaults.make))


def _key_format(
    statement: CreateAsSelect, compiled: CompiledQuery, wanted: Format | None, defaults: Defaults
) -> Format:
    """Returns the format of the result's keys: that of the source, if WITH says none. A result
    without keys has a format too, which is that of keys that are made of it later."""
    found = compiled.key_format if wanted is None else wanted
    if not compiled.schema.key:
        return Format("NONE") if found.is_registered else found
    if wanted is not None:
        return wanted
    if found.name == "NONE":
        found = Format(defaults.key_format)
    name = avro_key_name(statement.name) if found.name == "AVRO" else None
    return replace(found, schema_id=None, full_name=name)


def _value_format(properties: Properties, compiled: CompiledQuery) -> Format:
    """Returns the format of the result's values, with what it takes over from that of the
    source."""
    first = compiled.sources[0].value_format
    form = properties.value_format(first.name)
    if form.name == first.name:
        if "VALUE_DELIMITER" not in properties:
            form = replace(form, delimiter=first.delimiter)
        if form.name == "PROTOBUF" and form.full_name is None:
            form = replace(form, full_name=first.full_name)
    return form


def register(prepared: Prepared, defaults: Defaults, place: Place) -> None:
    """Registers the schemas of what a query writes. Blocks. Raises `Invalid`."""
    sink = prepared.sink
    inference = inferring.Inference(defaults.formats, sink.topic, place)
    for form, columns, is_key in (
        (sink.key_format, sink.schema.key, True), (sink.value_format, sink.topic_columns, False),
    ):  # fmt: skip
        inferring.check_columns(form, columns, inference, is_key)
    inferring.register(defaults.formats, sink, place, always=True)


def _prepare_insert(
    statement: InsertInto, catalogue: Catalogue, defaults: Defaults, context: Context
) -> Prepared:
    _check_insert_properties(statement)
    sink = catalogue.source(statement.name, statement.place)
    if sink.is_read_only:
        raise Invalid(f"Cannot insert into read-only stream: {sink.name}", statement.place)
    if sink.is_table:
        raise Invalid(
            "INSERT INTO can only be used to insert into a stream."
            f" {sink.name} is a table.", statement.place,
        )  # fmt: skip
    _check_emit(statement.query)
    compiled = compile_query(statement.query, context)
    if compiled.is_table:
        raise Invalid(
            f"INSERT INTO can only be used to insert into a stream. The query gives a table, and"
            f" {sink.name} is a stream.", statement.place,
        )  # fmt: skip
    compiled = _as_sink(compiled, sink, statement, defaults)
    plan = _with_sink(compiled, sink, defaults.make)
    return Prepared(sink, TopicWish(sink.topic), compiled, plan)


_QUERY_ID: Final = "QUERY_ID"


def _check_insert_properties(statement: InsertInto) -> None:
    for name, value in statement.properties.items():
        if name.upper() != _QUERY_ID:
            near = did_you_mean(name.upper(), [_QUERY_ID])
            raise Invalid(f"WITH has no property {name}{near}", statement.place)
        if not isinstance(value, str) or not re.fullmatch(r"[A-Za-z0-9_]+", value):
            raise Invalid(
                "Query IDs may contain only alphanumeric characters and '_'. Got:"
                f" '{value}'", statement.place,
            )  # fmt: skip


def query_id_of(statement: InsertInto) -> str | None:
    """Returns the id that INSERT INTO gives to its query, in capitals; None if it gives none."""
    found = {name.upper(): value for name, value in statement.properties.items()}.get(_QUERY_ID)
    return None if found is None else str(found).upper()


def _as_sink(
    compiled: CompiledQuery, sink: DataSource, statement: InsertInto, defaults: Defaults
) -> CompiledQuery:
    """Returns a query whose values have the types of the columns that they are inserted into:
    numbers become wider ones. Raises `Invalid` if names differ, or types do not fit."""
    columns = tuple(column for column in sink.schema.value if column.header is None)
    wanted = Schema(sink.schema.key, columns)
    names = [[one.name for one in part] for part in (compiled.schema.key, compiled.schema.value)]
    converts = [
        casting.implicit(given.kind, target.kind)
        for given, target in zip(compiled.schema, wanted, strict=False)
    ]
    if names != [[one.name for one in part] for part in (wanted.key, wanted.value)] or (
        None in converts
    ):
        raise Invalid(
            "Incompatible schema between results and sink. Result schema is"
            f" {compiled.schema}, but the sink schema is {sink.schema}.", statement.place,
        )  # fmt: skip
    if compiled.schema == wanted:
        return compiled
    count = len(wanted.key)
    of_key, of_value = _each(converts[:count]), _each(converts[count:])

    def convert(key: Any, row: Any, _: Any) -> Any:
        return ((of_key(key), of_value(row)),)

    node = nodes.FlatMap(
        name="insert-types", parents=(compiled.node,), function=convert, schema=wanted
    )
    return replace(compiled, node=node, schema=wanted)


def _each(converts: Sequence[casting.Cast | None]) -> Callable[[Any], Any]:
    def convert(values: Any) -> Any:
        if values is None:
            return None
        return tuple(
            None if value is None or one is None else one(value)
            for one, value in zip(converts, values, strict=True)
        )

    return convert


def _check_emit(query: Query) -> None:
    if query.limit is not None:
        raise Invalid(
            "LIMIT ends a query, and a persistent query has no end: leave it out", query.place
        )


def _check_kind(statement: CreateAsSelect, compiled: CompiledQuery) -> None:
    if compiled.is_table != statement.is_table:
        given, other = ("TABLE", "STREAM") if compiled.is_table else ("STREAM", "TABLE")
        hint = "" if compiled.is_table else " A table needs GROUP BY, or a table in FROM."
        raise Invalid(
            f"Invalid result type. Your SELECT query produces a {given}. Please use CREATE {given}"
            f" AS SELECT statement instead of CREATE {other}.{hint}", statement.place,
        )  # fmt: skip


def _with_sink(compiled: CompiledQuery, sink: DataSource, make: MakeCodec) -> Plan:
    reader: Callable[..., Any] | None = timestamp_reader(sink)
    node = nodes.Sink(
        name="sink", parents=(compiled.node,), topic=sink.topic,
        key_codec=key_codec(sink, make), value_codec=value_codec(sink, make),
        timestamp_of=reader, schema=sink.schema,
    )  # fmt: skip
    return Plan((node,))
