"""GROUP BY: groups, aggregates, windows, HAVING.

A row of the result is made of the group's keys, the results of the aggregates, the bounds of the
window and ROWTIME. SELECT and HAVING are compiled over such rows: an expression that is grouped by,
and an aggregate, are columns of them.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlglot import exp

from odradek.sql.errors import Invalid
from odradek.sql.functions.aggregates import AggregateFunction, Aggregator
from odradek.sql.functions.table import AGGREGATES
from odradek.sql.language.dialect import place_of
from odradek.sql.language.statements import Query, WindowClause
from odradek.sql.planning.calls import (
    check_function_names,
    compile_arguments,
    match,
    no_match,
)
from odradek.sql.planning.expressions import ROW_ERRORS, Compiled, coerced, compile_expression
from odradek.sql.planning.keys import check_key_type
from odradek.sql.planning.parts import Context, Flow, describe
from odradek.sql.planning.placing import PLACED, place_codec
from odradek.sql.planning.scope import (
    ROWTIME,
    WINDOW_END,
    WINDOW_START,
    Scope,
    ScopeColumn,
)
from odradek.sql.planning.selecting import Selected, canonical, column_node, key_names
from odradek.sql.planning.sources import Format, WindowInfo
from odradek.streams.formats.hashable import hashable
from odradek.streams.plan import nodes
from odradek.streams.plan.nodes import Node
from odradek.streams.plan.records import RecordContext, Windowed
from odradek.streams.plan.types import BIGINT, Column
from odradek.streams.plan.windows import DAY_MS, SessionWindows, TimeWindows, Windows


@dataclass
class _Call:
    """An aggregate of the query, with its arguments over the rows that are grouped."""

    aggregator: Aggregator
    arguments: list[Any]
    text: str


def group(
    flow: Flow, query: Query, selected: Sequence[Selected], context: Context
) -> tuple[Flow, list[Selected]]:
    """Returns the flow of the groups, and the columns of SELECT over it. HAVING is applied."""
    grouped = list(query.group_by or ())
    if not grouped:
        raise Invalid("GROUP BY needs an expression", query.place)
    refuse_bounds([*grouped, *([] if query.having is None else [query.having])], query, flow)
    keys = _key_columns(grouped, flow, selected)
    windows = _windows(query.window)
    if windows is not None and flow.is_table:
        raise Invalid("WINDOW clause is only supported for streams", query.window.place)  # type: ignore[union-attr]
    texts = [canonical(node, flow.scope) for node in grouped]
    rewriter = _Rewriter(flow, query, texts, keys, context)
    columns = [
        Selected(one.name, rewriter.rewrite(one.expression), one.place, one.has_alias)
        for one in selected
    ]
    having = None if query.having is None else rewriter.rewrite(query.having)
    if not rewriter.calls:
        check_function_names(one.expression for one in selected)
        raise Invalid(
            "GROUP BY requires aggregate functions in either the SELECT or HAVING clause",
            query.place,
        )
    placed, codec, form = _placed(flow, grouped, keys, context)
    aggregated, window = _aggregated(placed, flow, rewriter.calls, windows, context)
    if query.emit == "FINAL":
        aggregated = _suppressed(aggregated, windows, query, context)
    scope, node = _rows(aggregated, keys, rewriter.calls, window, context)
    result = Flow(
        node, scope, True, tuple(keys), tuple(range(len(keys))), form, window,
        key_texts=tuple(f"#{place}" for place in range(len(keys))), key_codec=codec,
    )  # fmt: skip
    if having is not None:
        from odradek.sql.planning.queries import filtered  # noqa: PLC0415 - it calls us

        result = filtered(result, having, "HAVING", context)
    return result, columns


def _key_columns(
    grouped: Sequence[exp.Expr], flow: Flow, selected: Sequence[Selected]
) -> list[Column]:
    texts = {
        canonical(one.expression, flow.scope): one
        for one in selected
        if not _has_aggregate(one.expression)
        and (flow.window is not None or _bound_in(one.expression) is None)
    }
    columns: list[Column] = []
    names = key_names(grouped, flow.scope)
    for node, own_name in zip(grouped, names, strict=True):
        compiled = compile_expression(node, flow.scope)
        if compiled.kind is None:
            raise Invalid("GROUP BY null groups nothing", place_of(node))
        same = texts.get(canonical(node, flow.scope))
        name = same.name if same is not None else own_name
        check_key_type(name, compiled.kind, node)
        columns.append(Column(name, compiled.kind))
    return columns


def has_aggregates(selected: Sequence[Selected]) -> bool:
    return any(_has_aggregate(one.expression) for one in selected)


def _has_aggregate(node: exp.Expr) -> bool:
    return any(call.this in AGGREGATES for call in node.find_all(exp.Anonymous))


_BOUNDS: Final = (WINDOW_START, WINDOW_END)


def _bound_in(node: exp.Expr) -> exp.Column | None:
    """Returns a bound of a window that an expression has, or None."""
    columns = node.find_all(exp.Column)
    return next((column for column in columns if column.this.name in _BOUNDS), None)


def refuse_bounds(nodes: Iterable[exp.Expr], query: Query, flow: Flow) -> None:
    """Raises for a bound of the windows of a query where there are no windows yet."""
    if query.window is None or flow.window is not None:
        return
    for node in nodes:
        column = _bound_in(node)
        if column is not None:
            raise Invalid(
                f"Window bounds column {column.this.name} can only be used in the SELECT clause of"
                " windowed aggregations and can not be passed to aggregate functions.",
                place_of(column),
            )


def _is_variable(column: exp.Column, node: exp.Expr) -> bool:
    """Returns whether a column of an expression is a variable of a lambda around that."""
    if column.args.get("table"):
        return False
    is_around = False
    one: exp.Expr | None = column
    while one is not None:
        if isinstance(one, exp.Lambda):
            variables = [identifier.name for identifier in one.expressions]
            if column.this.name in variables:
                return is_around
        is_around = is_around or one is node
        one = one.parent
    return False


class _Rewriter:
    """Replaces what is grouped by, and aggregates, by columns of the rows of groups."""

    def __init__(
        self, flow: Flow, query: Query, texts: list[str], keys: list[Column], context: Context
    ) -> None:
        self._flow = flow
        self._query = query
        self._texts = texts
        self._keys = keys
        self._context = context
        self._known: dict[str, int] = {}
        self.calls: list[_Call] = []

    def rewrite(self, node: exp.Expr) -> exp.Expr:
        rewritten: exp.Expr = node.copy().transform(self._replace)
        return rewritten

    def _replace(self, node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Anonymous) and node.this in AGGREGATES:
            return _reference(f"#aggregate {self._call(node)}", node)
        if isinstance(node, exp.Identifier | exp.Null | exp.Lambda | exp.Var | exp.Star):
            return node
        if isinstance(node, exp.Column) and (_is_variable(node, node) or self._is_bound(node)):
            return node
        text = self._text(node)
        if text in self._texts:
            return _reference(self._keys[self._texts.index(text)].name, node)
        if isinstance(node, exp.Column):
            raise Invalid(
                f"Non-aggregate SELECT expression(s) not part of GROUP BY: {node.this.name}",
                place_of(node),
            )
        return node

    def _is_bound(self, node: exp.Expr) -> bool:
        """Returns whether a column is a bound of the windows of this query."""
        return self._query.window is not None and node.this.name in _BOUNDS

    def _text(self, node: exp.Expr) -> str | None:
        """Returns the text by which an expression is known, or None for one that cannot be
        grouped by: it has an aggregate, a bound of the windows, or a variable of a lambda."""
        if _has_aggregate(node):
            return None
        for column in node.find_all(exp.Column):
            if _is_variable(column, node) or self._is_bound(column):
                return None
        return canonical(node, self._flow.scope)

    def _call(self, node: exp.Anonymous) -> int:
        refuse_bounds([node], self._query, self._flow)
        text = canonical(node, self._flow.scope)
        if text not in self._known:
            self._known[text] = len(self.calls)
            self.calls.append(_bind(node, self._flow, self._context))
        return self._known[text]


def _reference(name: str, node: exp.Expr) -> exp.Expr:
    column = exp.Column(this=exp.to_identifier(name, quoted=True))
    column.meta.update({key: value for key, value in node.meta.items() if key == "place"})
    return column


def _arguments(node: exp.Anonymous, flow: Flow) -> list[exp.Expr]:
    """Returns the arguments of an aggregate. As in ksqlDB, one of nothing, or of *, is that of
    ROWTIME; COUNT counts all rows."""
    given = [expression for expression in node.expressions if not isinstance(expression, exp.Star)]
    if given or node.this == "COUNT":
        return given
    time = next(column for column in flow.scope.columns if column.name == ROWTIME)
    return [column_node(time, place_of(node))]


def _bind(node: exp.Anonymous, flow: Flow, context: Context) -> _Call:
    function = AGGREGATES[node.this]
    nodes_ = _arguments(node, flow)
    for one in nodes_:
        if _has_aggregate(one):
            raise Invalid("Aggregate functions can not be nested", place_of(one))
    given = compile_arguments(nodes_, flow.scope)
    found = None
    for signature in function.signatures:
        matched = match(signature, given, flow.scope)
        if matched is not None and (found is None or matched[0] < found[0]):
            found = (matched[0], signature)
    if found is None:
        raise no_match(function.name, list(function.signatures), node, given)
    arguments = [one for one in given if isinstance(one, Compiled)]
    constants = _constants(function, arguments, node)
    if function.name in context.limits:
        constants.append(context.limits[function.name])
    arguments = _as_declared(function.name, arguments, nodes_)
    kinds = [argument.kind or BIGINT for argument in arguments]
    try:
        aggregator = function.bind(kinds, constants)
    except ValueError as error:
        raise Invalid(f"{function.name}: {error}", place_of(node)) from None
    if flow.is_table and aggregator.undo is None:
        raise Invalid(
            f"The aggregation function(s) ({function.name}) cannot be applied to a table source,"
            " only to a stream source", place_of(node),
        )  # fmt: skip
    evaluates = [context.evaluate(argument, describe(node)) for argument in arguments]
    return _Call(aggregator, evaluates, describe(node))


def _constants(
    function: AggregateFunction, arguments: list[Compiled], node: exp.Anonymous
) -> list[Any]:
    """Takes the constants off the end of the arguments of an aggregate."""
    constants: list[Any] = []
    while len(arguments) > 1 and len(constants) < function.constants and arguments[-1].is_literal:
        constants.insert(0, arguments.pop().literal)
    if function.name in ("TOPK", "TOPKDISTINCT") and not constants:
        raise Invalid(f"the last argument of {function.name} is a constant number", place_of(node))
    if len(arguments) > 1 and function.constants == 2:
        raise Invalid(f"the last arguments of {function.name} are constants", place_of(node))
    return constants


def _as_declared(name: str, arguments: list[Compiled], given: Sequence[exp.Expr]) -> list[Compiled]:
    from odradek.streams.plan.types import STRING  # noqa: PLC0415 - for one function

    if name == "HISTOGRAM":
        return [coerced(arguments[0], STRING, given[0], name)]
    return arguments


def _windows(clause: WindowClause | None) -> Windows | None:
    if clause is None:
        return None
    grace_ms = clause.grace_ms
    if grace_ms is None:
        # As ksqlDB: without a grace period, a window is closed a day after its beginning.
        grace_ms = max(0, DAY_MS - clause.size_ms)
    try:
        if clause.kind == "SESSION":
            return SessionWindows(
                gap_ms=clause.size_ms, grace_ms=grace_ms, retention_ms=clause.retention_ms
            )
        return TimeWindows(
            size_ms=clause.size_ms, advance_ms=clause.advance_ms, grace_ms=grace_ms,
            retention_ms=_retention(clause, grace_ms),
        )  # fmt: skip
    except ValueError as error:
        raise Invalid(str(error), clause.place) from None


def _retention(clause: WindowClause, grace_ms: int) -> int | None:
    """Returns the retention. One that is shorter than the default grace period shortens that."""
    if clause.retention_ms is None or clause.grace_ms is not None:
        return clause.retention_ms
    return max(clause.retention_ms, clause.size_ms + grace_ms)


def _placed(
    flow: Flow, grouped: Sequence[exp.Expr], keys: list[Column], context: Context
) -> tuple[Node, Any, Format]:
    """Returns the rows under the keys of their groups, in the partitions of those."""
    evaluates = [
        context.evaluate(compile_expression(node, flow.scope), describe(node)) for node in grouped
    ]
    form = context.key_format or flow.key_format
    if form.name == "NONE":
        form = context.default_key_format
    codec = place_codec(PLACED, tuple(keys), context.make_codec)
    names = context.names
    detail = ", ".join(describe(node) for node in grouped)

    def key_of(row: Any) -> Any:
        values = tuple(hashable(evaluate(row)) for evaluate in evaluates)
        return None if any(value is None for value in values) else values

    if flow.is_table:

        def regroup(_: Any, row: Any, __: RecordContext) -> tuple[Any, Any]:
            return key_of(row), row

        node: Node = nodes.TableGroup(
            name=names("group"), parents=(flow.node,), function=regroup, detail=detail
        )
        return (
            nodes.Repartition(name=names("repartition"), parents=(node,), key_codec=codec),
            codec,
            form,
        )

    def rekey(_: Any, row: Any, __: RecordContext) -> Any:
        key = None if row is None else key_of(row)
        return () if key is None else ((key, row),)

    node = nodes.FlatMap(name=names("group"), parents=(flow.node,), function=rekey, detail=detail)
    texts = [canonical(one, flow.scope) for one in grouped]
    is_placed = flow.window is None and texts == [f"#{place}" for place in flow.key_places]
    if not is_placed:
        node = nodes.Repartition(name=names("repartition"), parents=(node,), key_codec=codec)
    return node, codec, form


def _aggregated(
    node: Node, flow: Flow, calls: list[_Call], windows: Windows | None, context: Context
) -> tuple[Node, WindowInfo | None]:
    def changed(row: Any, state: list[Any], change_of: Callable[[Aggregator], Any]) -> list[Any]:
        results = []
        for call, one in zip(calls, state, strict=True):
            values = tuple(evaluate(row) for evaluate in call.arguments)
            try:
                results.append(change_of(call.aggregator)(one, values))
            except ROW_ERRORS as error:
                # The row is left out of this aggregate, as where an argument is null.
                context.note(call.text, error)
                results.append(one)
        return results

    def add(_: Any, row: Any, state: list[Any]) -> list[Any]:
        return changed(row, state, lambda aggregator: aggregator.add)

    def undo(_: Any, row: Any, state: list[Any]) -> list[Any]:
        return changed(row, state, lambda aggregator: aggregator.undo)

    def merge(_: Any, one: list[Any], other: list[Any]) -> list[Any]:
        return [call.aggregator.merge(a, b) for call, a, b in zip(calls, one, other, strict=True)]

    def initial() -> list[Any]:
        return [call.aggregator.initial() for call in calls]

    name = context.names("aggregate")
    aggregate = nodes.Aggregate(
        name=name, parents=(node,), store=name, initial=initial, add=add,
        undo=undo if flow.is_table else None, merge=merge, windows=windows,
        detail="" if windows is None else str(windows),
    )  # fmt: skip
    window = None
    if isinstance(windows, SessionWindows):
        window = WindowInfo("SESSION")
    elif windows is not None:
        is_tumbling = windows.advance_ms == windows.size_ms
        window = WindowInfo("TUMBLING" if is_tumbling else "HOPPING", windows.size_ms)
    return aggregate, window


def _suppressed(node: Node, windows: Windows | None, query: Query, context: Context) -> Node:
    if windows is None:
        raise Invalid("EMIT FINAL is only supported for windowed aggregations", query.place)
    name = context.names("final")
    return nodes.Suppress(
        name=name, parents=(node,), store=name, until_closed=True,
        wait_ms=windows.closes_after_ms, detail="EMIT FINAL",
    )  # fmt: skip


def _rows(
    node: Node, keys: list[Column], calls: list[_Call], window: WindowInfo | None, context: Context
) -> tuple[Scope, Node]:
    """Returns the rows of groups, and their columns."""
    results = [call.aggregator.result for call in calls]

    def flatten(key: Any, state: list[Any], record: RecordContext) -> tuple[Any, ...]:
        bounds: tuple[int, ...] = ()
        if isinstance(key, Windowed):
            key, bounds = key.key, key.window
        values = (result(one) for result, one in zip(results, state, strict=True))
        return (*key, *values, record.timestamp_ms, *bounds)

    columns = [*keys]
    columns += [
        Column(f"#aggregate {place}", call.aggregator.returns) for place, call in enumerate(calls)
    ]
    columns.append(Column(ROWTIME, BIGINT))
    if window is not None:
        columns += [Column(WINDOW_START, BIGINT), Column(WINDOW_END, BIGINT)]
    scope = Scope(
        ScopeColumn("", column.name, column.kind, index, is_key=index < len(keys))
        for index, column in enumerate(columns)
    )
    mapped = nodes.MapValues(name=context.names("rows"), parents=(node,), function=flatten)
    return scope, mapped


def refuse_without_group(query: Query, selected: Sequence[Selected]) -> None:
    """Raises for an aggregate, a window or HAVING in a query without GROUP BY."""
    if query.window is not None:
        raise Invalid("WINDOW clause requires a GROUP BY clause", query.window.place)
    if query.having is not None:
        raise Invalid("HAVING requires a GROUP BY clause", place_of(query.having))
    for one in selected:
        if _has_aggregate(one.expression):
            raise Invalid(
                "Use of aggregate functions requires a GROUP BY clause", place_of(one.expression)
            )
