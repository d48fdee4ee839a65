"""A query as a plan: sources, joins, WHERE, groups or PARTITION BY, SELECT.

The result of a persistent query has key columns and value columns, and its SELECT must name the
keys. The result of a transient one is what its SELECT says, in that order.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlglot import exp

from odradek.sql.errors import Invalid
from odradek.sql.functions.tabular import TABULAR
from odradek.sql.language.dialect import place_of
from odradek.sql.language.statements import Query, Relation
from odradek.sql.planning import grouping, joining
from odradek.sql.planning.calls import compile_arguments, match, no_match, refuse_calls
from odradek.sql.planning.expressions import (
    Compiled,
    compile_expression,
    condition,
)
from odradek.sql.planning.keys import check_key_type
from odradek.sql.planning.parts import Context, Flow, describe
from odradek.sql.planning.placing import PLACED, place_codec
from odradek.sql.planning.scope import Scope, ScopeColumn
from odradek.sql.planning.selecting import Selected, canonical, expand, key_names
from odradek.sql.planning.sources import DataSource, Format, WindowInfo, begin, key_codec, scope_of
from odradek.streams.formats.columns import UnfitColumns
from odradek.streams.formats.hashable import hashable
from odradek.streams.plan import nodes
from odradek.streams.plan.nodes import Node
from odradek.streams.plan.types import STRING, Column, Schema


@dataclass(frozen=True)
class CompiledQuery:
    """What a query computes. The values from `node` are tuples of the value columns; of a transient
    query, all columns are value columns."""

    node: Node
    schema: Schema
    is_table: bool
    window: WindowInfo | None
    key_format: Format
    sources: tuple[DataSource, ...]
    key_names: tuple[str | None, ...] = ()
    """By which column of the result each key column is shown, if it is."""


def compile_query(query: Query, context: Context) -> CompiledQuery:
    """Returns the plan of a query, but for its sink. Raises `SqlError`."""
    try:
        return _compiled(query, context)
    except UnfitColumns as error:
        raise Invalid(str(error), query.place) from None


def _compiled(query: Query, context: Context) -> CompiledQuery:
    sources = [_source(relation, context) for relation in _relations(query)]
    flow = _begin(sources[0], query.source, context)
    if query.joins and len({relation.alias for relation in _relations(query)}) < len(sources):
        raise Invalid("each stream or table of a join needs a name of its own: use AS", query.place)
    for source, clause in zip(sources[1:], query.joins, strict=True):
        flow = joining.join(flow, _begin(source, clause.relation, context), clause, context)
    if query.where is not None:
        refuse_calls(query.where, "WHERE")
        grouping.refuse_bounds([query.where], query, flow)
        flow = filtered(flow, query.where, "WHERE", context)
    selected = expand(query, flow.scope, is_transient=context.is_transient)
    if context.is_transient and query.group_by is None and grouping.has_aggregates(selected):
        # Of a query that is only read, all rows are one group.
        query = replace(query, group_by=(exp.Literal.number(1),))
    if flow.viable and query.group_by is None:
        flow = joining.with_selected_key(flow, _selects(selected, flow))
    flow, selected = _with_table_functions(flow, selected, context)
    if query.group_by is not None:
        if query.partition_by is not None:
            raise Invalid("PARTITION BY and GROUP BY exclude each other", query.place)
        flow, selected = grouping.group(flow, query, selected, context)
    else:
        grouping.refuse_without_group(query, selected)
        if query.emit == "FINAL":
            raise Invalid("EMIT FINAL is only supported for windowed aggregations", query.place)
        if query.partition_by is not None:
            flow = _partitioned(flow, query, selected, context)
    node, schema = _projected(flow, selected, query, context)
    return CompiledQuery(
        node, schema, flow.is_table, flow.window, flow.key_format, tuple(sources),
        _key_names(flow, selected),
    )  # fmt: skip


def _selects(selected: Sequence[Selected], flow: Flow) -> Callable[[int], bool]:
    """Returns whether SELECT has a column of the rows."""
    columns = (one.expression for one in selected if isinstance(one.expression, exp.Column))
    texts = {canonical(column, flow.scope) for column in columns}
    return lambda place: f"#{place}" in texts


def _relations(query: Query) -> list[Relation]:
    return [query.source, *(join.relation for join in query.joins)]


def _source(relation: Relation, context: Context) -> DataSource:
    source = context.find(relation.name)
    if source is None:
        raise Invalid(context.missing(relation.name), relation.place)
    return source


def _begin(source: DataSource, relation: Relation, context: Context) -> Flow:
    scope = scope_of(source, relation.alias)
    places = tuple(range(len(source.schema.key)))
    return Flow(
        begin(source, context.names, context.make_codec, context.reset), scope, source.is_table,
        source.schema.key, places, source.key_format, source.window,
        key_texts=tuple(f"#{place}" for place in places),
        key_codec=key_codec(source, context.make_codec), placed=source.key_format,
    )  # fmt: skip


def filtered(flow: Flow, node: exp.Expr, what: str, context: Context) -> Flow:
    """Returns the flow of the rows for which a condition is true."""
    compiled = condition(node, flow.scope, what)
    evaluate = context.evaluate(compiled, describe(node))

    def predicate(_: Any, row: Any, __: Any) -> bool:
        return row is not None and evaluate(row) is True

    kept = nodes.Filter(
        name=context.names("filter"), parents=(flow.node,), predicate=predicate,
        detail=f"{what} {describe(node)}",
    )  # fmt: skip
    return Flow(**{**vars(flow), "node": kept})


def _with_table_functions(
    flow: Flow, selected: list[Selected], context: Context
) -> tuple[Flow, list[Selected]]:
    """Makes several rows of one, if SELECT has table functions. Several of them go side by side:
    the shorter one is filled up with nulls."""
    calls = [
        call
        for one in selected
        for call in one.expression.find_all(exp.Anonymous)
        if call.this in TABULAR
    ]
    if not calls:
        return flow, selected
    if flow.is_table:
        raise Invalid("Table source is not supported with table functions", place_of(calls[0]))
    columns: list[ScopeColumn] = []
    functions: list[tuple[Any, Any]] = []
    for place, call in enumerate(calls):
        kind, function, argument = _table_function(call, flow.scope, context)
        functions.append((function, argument))
        index = flow.scope.width + place
        columns.append(ScopeColumn("", f"#table {place}", kind, index))

    def explode(key: Any, row: Any, _: Any) -> Any:
        if row is None:
            return
        made = [list(function(argument(row))) for function, argument in functions]
        for place in range(max(map(len, made))):
            added = (one[place] if place < len(one) else None for one in made)
            yield key, (*row, *added)

    node = nodes.FlatMap(
        name=context.names("table-function"), parents=(flow.node,), function=explode,
        detail=", ".join(describe(call) for call in calls),
    )  # fmt: skip
    scope = Scope((*flow.scope.columns, *columns), flow.scope.width + len(columns))
    replaced = [_replace_calls(one, calls) for one in selected]
    return Flow(**{**vars(flow), "node": node, "scope": scope}), replaced


def _table_function(call: exp.Anonymous, scope: Scope, context: Context) -> tuple[Any, Any, Any]:
    function = TABULAR[call.this]
    arguments = compile_arguments(call.expressions, scope)
    for signature in function.signatures:
        matched = match(signature, arguments, scope)
        if matched is not None:
            from odradek.sql.functions.declaring import resolved  # noqa: PLC0415

            argument = arguments[0]
            assert isinstance(argument, Compiled)
            kind = resolved(signature.result, matched[1])
            return kind, function.call, context.evaluate(argument, describe(call))
    raise no_match(function.name, list(function.signatures), call, arguments)


def _replace_calls(one: Selected, calls: Sequence[exp.Anonymous]) -> Selected:
    places = {id(call): place for place, call in enumerate(calls)}

    def replace(node: exp.Expr) -> exp.Expr:
        place = places.get(id(node))
        if place is None:
            return node
        return exp.Column(this=exp.to_identifier(f"#table {place}", quoted=True))

    expression = one.expression.transform(replace, copy=False)
    return Selected(one.name, expression, one.place, one.has_alias)


def _partitioned(flow: Flow, query: Query, selected: Sequence[Selected], context: Context) -> Flow:
    """Returns the flow under new keys."""
    if flow.is_table:
        raise Invalid("PARTITION BY is only supported for streams", query.place)
    if flow.window is not None:
        raise Invalid("PARTITION BY of a windowed stream is not supported", query.place)
    expressions = list(query.partition_by or ())
    is_null = len(expressions) == 1 and isinstance(expressions[0], exp.Null)
    compiled = (
        []
        if is_null
        else [compile_expression(expression, flow.scope) for expression in expressions]
    )
    texts = [] if is_null else [canonical(expression, flow.scope) for expression in expressions]
    by_text = {canonical(one.expression, flow.scope): one.name for one in selected}
    keys: list[Column] = []
    for wanted, one, text in zip(expressions, compiled, texts, strict=False):
        refuse_calls(wanted, "PARTITION BY")
        name = by_text.get(text) or key_names(expressions, flow.scope)[len(keys)]
        check_key_type(name, one.kind, wanted)
        keys.append(Column(name, one.kind or STRING))
    evaluates = [
        context.evaluate(one, describe(wanted))
        for one, wanted in zip(compiled, expressions, strict=False)
    ]

    def rekey(_: Any, row: Any, __: Any) -> Any:
        if row is None:
            return ((None, None),)
        values = tuple(hashable(evaluate(row)) for evaluate in evaluates)
        is_empty = all(value is None for value in values)
        return ((None if is_empty else values, row),)

    form = Format("NONE") if is_null else context.key_format or flow.key_format
    if form.name == "NONE" and not is_null:
        form = context.default_key_format
    codec = place_codec(PLACED, tuple(keys), context.make_codec)
    names = context.names
    node: Node = nodes.FlatMap(
        name=names("partition"), parents=(flow.node,), function=rekey,
        detail=", ".join(describe(expression) for expression in expressions),
    )  # fmt: skip
    node = nodes.Repartition(name=names("repartition"), parents=(node,), key_codec=codec)
    return Flow(
        node, flow.scope, False, tuple(keys), (None,) * len(keys), form, None,
        key_texts=tuple(texts), key_codec=codec,
    )  # fmt: skip


def _projected(
    flow: Flow, selected: Sequence[Selected], query: Query, context: Context
) -> tuple[Node, Schema]:
    keys: dict[int, str] = {}
    values: list[tuple[str, Compiled, Selected]] = []
    for one in selected:
        compiled = compile_expression(one.expression, flow.scope)
        place = _key_place(one, flow)
        if place is not None and not context.is_transient:
            if place in keys:
                raise Invalid(
                    f"The projection contains a key column ({flow.key_columns[place].name}) more"
                    f" than once, aliased as: {keys[place]} and {one.name}. Each key column must"
                    " only be in the projection once: use AS_VALUE to copy it into the value",
                    one.place,
                )
            keys[place] = one.name
        else:
            if compiled.kind is None and not context.is_transient:
                raise Invalid(
                    "Can't infer a type of null. Please explicitly cast it to a required type,"
                    " e.g. CAST(null AS VARCHAR).", one.place,
                )  # fmt: skip
            values.append((one.name, compiled, one))
    if not context.is_transient:
        _check_keys(flow, keys, query)
        if not values:
            raise Invalid("The projection contains no value columns.", query.place)
    evaluates = [context.evaluate(one, describe(where.expression)) for _, one, where in values]

    def project(_: Any, row: Any, __: Any) -> Any:
        return None if row is None else tuple([evaluate(row) for evaluate in evaluates])

    columns = []
    for name, compiled, _ in values:
        columns.append(Column(name, compiled.kind or STRING))
    key_columns = tuple(
        Column(keys[place], column.kind) for place, column in enumerate(flow.key_columns)
        if place in keys
    )  # fmt: skip
    schema = Schema(key_columns, tuple(columns))
    node = nodes.MapValues(
        name=context.names("select"), parents=(flow.node,), function=project, schema=schema,
        detail=", ".join(name for name, _, _ in values),
    )  # fmt: skip
    return node, schema


def _key_place(one: Selected, flow: Flow) -> int | None:
    """Returns which key column an expression is, or None."""
    text = canonical(one.expression, flow.scope)
    if text in flow.key_texts:
        return flow.key_texts.index(text)
    for number, place in enumerate(flow.key_places):
        if place is not None and text == f"#{place}":
            return number
    return None


def _key_names(flow: Flow, selected: Sequence[Selected]) -> tuple[str | None, ...]:
    names: dict[int | None, str] = {}
    for one in selected:
        names.setdefault(_key_place(one, flow), one.name)
    return tuple(names.get(place) for place in range(len(flow.key_columns)))


def _check_keys(flow: Flow, keys: dict[int, str], query: Query) -> None:
    missing = [column.name for place, column in enumerate(flow.key_columns) if place not in keys]
    if not missing:
        return
    what, word = "key column", " and "
    if query.group_by is not None:
        what = "grouping expression"
    elif query.partition_by is not None:
        what = "partitioning expression"
    elif query.joins and flow.viable:
        # Each of these columns is equal to the key, so one of them is enough.
        viable = [column for column in flow.scope.columns if column.index in flow.viable]
        what, word = "join expression", " or "
        missing = [f"{column.source}.{column.name}" for column in viable]
    many = "s" if len(missing) > 1 else ""
    example = missing[0] if word == " or " else ", ".join(missing)
    raise Invalid(
        f"Key{many if word == ' and ' else ''} missing from projection (ie, SELECT). The query must"
        f" include the {what}{many} {word.join(missing)} in its projection (eg, SELECT"
        f" {example}...).", query.items[0].place,
    )  # fmt: skip
