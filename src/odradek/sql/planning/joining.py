"""Joins: which side has which key, what has to be repartitioned, and what the rows then are.

    stream and stream   WITHIN is needed; both sides move to the partition of the join key
    stream and table    the table is joined by its key
    table and table     by the keys of both, or by a foreign key of the left one

The row of a join is the row of the left side, that of the right side, and the join key at the end.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from sqlglot import exp

from odradek.sql.errors import Invalid, Refused
from odradek.sql.language.dialect import place_of
from odradek.sql.language.statements import Join
from odradek.sql.planning.calls import refuse_calls
from odradek.sql.planning.expressions import Compiled, compile_expression
from odradek.sql.planning.parts import Context, Flow, describe
from odradek.sql.planning.placing import PLACED, place_codec, stays
from odradek.sql.planning.scope import Scope, ScopeColumn
from odradek.sql.planning.sources import Format
from odradek.streams.formats.hashable import hashable
from odradek.streams.plan import nodes
from odradek.streams.plan.nodes import JoinKind, Node
from odradek.streams.plan.types import Column, SqlType
from odradek.streams.plan.windows import DAY_MS, JoinWindows


def join(left: Flow, right: Flow, clause: Join, context: Context) -> Flow:
    """Returns the flow of two that are joined."""
    refuse_calls(clause.on, "the condition of a join")
    left_node, right_node = _sides(clause, left, right)
    left_key, right_key = compile_expression(left_node, left.scope), None
    right_key = compile_expression(right_node, right.scope)
    if left_key.kind != right_key.kind:
        given = f"{describe(left_node)}{{{left_key.kind}}}"
        given += f" = {describe(right_node)}{{{right_key.kind}}}"
        raise Invalid(
            f"Invalid join condition: types don't match. Got {given}.", place_of(clause.on)
        )
    kind = left_key.kind
    assert kind is not None
    _check_order(left, right, clause)
    _check_within(left, right, clause)
    _check_windows(left, right, clause)
    if right.is_table and not _is_key(right_node, right):
        kinds = "table-table joins require to join on the primary key of the right input table"
        if not left.is_table:
            kinds = "stream-table joins require to join on the table's primary key"
        raise Invalid(
            f"Invalid join condition: {kinds}. Got {describe(left_node)} = {describe(right_node)}.",
            place_of(right_node),
        )
    if left.is_table and not _is_key(left_node, left):
        return _foreign_key_join(left, right, clause, left_key, context)
    viable = _viable(left, right, clause, (left_node, right_node))
    column, place = _key_column(left, right, kind, viable)
    left, right = _side_by_side(
        (left, left_node, left_key), (right, right_node, right_key), kind, context
    )
    node = _join_node(left, right, clause, context)
    scope = _joined_scope(left, right)
    if place is None:
        # The key is of neither side: it is a column of its own.
        place = scope.width - 1
        synthetic = ScopeColumn("", column.name, kind, place, is_key=True)
        scope = Scope((synthetic, *scope.columns), scope.width)
    return Flow(
        node, scope, left.is_table, (column,), (place,), left.key_format, left.window,
        key_codec=left.key_codec, viable=viable, placed=left.placed,
    )  # fmt: skip


def _joined_scope(left: Flow, right: Flow) -> Scope:
    """Returns the columns of joined rows. They have the join key at the end."""
    both = left.scope + right.scope
    return Scope(both.columns, both.width + 1)


def _check_within(left: Flow, right: Flow, clause: Join) -> None:
    is_streams = not left.is_table and not right.is_table
    if is_streams and clause.within is None:
        raise Invalid(
            "Stream-Stream joins must have a WITHIN clause specified. None was provided. Write"
            " WITHIN 1 HOUR: streams have no end", clause.place,
        )  # fmt: skip
    if not is_streams and clause.within is not None:
        sides = "Table-Table" if left.is_table else "Stream-Table"
        raise Invalid(
            f"A window definition was provided for a {sides} join. These joins are not windowed."
            " Please drop the window definition (ie. the WITHIN clause) and try to execute your"
            " join again.", clause.within.place,
        )  # fmt: skip


def _check_order(left: Flow, right: Flow, clause: Join) -> None:
    """Raises for a table on the left of a stream, and for rows of a table alone."""
    names = f"{', '.join(left.scope.sources)} {_join_name(clause)} {clause.relation.name}"
    if left.is_table and not right.is_table:
        raise Invalid(
            "Invalid join order: table-stream joins are not supported; only stream-table joins."
            f" Got {names}.", clause.place,
        )  # fmt: skip
    if right.is_table and not left.is_table and (clause.kind is JoinKind.OUTER or clause.is_right):
        kind = "right-outer" if clause.is_right else "full-outer"
        raise Invalid(
            f"Invalid join type: {kind} join not supported for stream-table join. Got {names}.",
            clause.place,
        )


def _join_name(clause: Join) -> str:
    return "RIGHT" if clause.is_right else clause.kind.value


def _check_windows(left: Flow, right: Flow, clause: Join) -> None:
    """Raises if the keys of only one side are windowed, or those of both by other windows."""
    kinds = [None if flow.window is None else flow.window.kind for flow in (left, right)]
    if (kinds[0] is None) != (kinds[1] is None):
        shown = ["not" if kind is None else kind for kind in kinds]
        raise Invalid(
            f"Can not join windowed source to non-windowed source. The left side is {shown[0]}"
            f" windowed, {clause.relation.name} is {shown[1]} windowed.", clause.place,
        )  # fmt: skip
    if kinds[0] != kinds[1] and "SESSION" in kinds:
        raise Invalid(
            f"Incompatible windowed sources. Left source: {kinds[0]}. Right source: {kinds[1]}."
            " Session windowed sources can only be joined to other session windowed sources.",
            clause.place,
        )


def _sides(clause: Join, left: Flow, right: Flow) -> tuple[exp.Expr, exp.Expr]:
    """Returns the two sides of the condition, each over one side of the join."""
    condition = clause.on
    while isinstance(condition, exp.Paren):
        condition = condition.this
    if isinstance(condition, exp.And | exp.Or):
        raise Invalid(
            "Invalid join condition: joins on multiple conditions are not yet supported. Got"
            f" {describe(condition)}. Join by a STRUCT or a text of both", place_of(condition),
        )  # fmt: skip
    if isinstance(condition, exp.NEQ | exp.LT | exp.LTE | exp.GT | exp.GTE):
        raise Invalid("Only equality join criteria is supported.", place_of(condition))
    if not isinstance(condition, exp.EQ):
        raise Invalid(f"Unsupported join expression: {describe(condition)}", place_of(condition))
    both = left.scope + right.scope
    sides = [
        _side(operand, left, right, both) for operand in (condition.this, condition.expression)
    ]
    if sides == ["left", "right"]:
        return condition.this, condition.expression
    if sides == ["right", "left"]:
        return condition.expression, condition.this
    raise Invalid(
        f"Invalid comparison expression in join '{describe(condition)}'. Each side of the join"
        " comparision must contain references from exactly one source.", place_of(condition),
    )  # fmt: skip


def _side(node: exp.Expr, left: Flow, right: Flow, both: Scope) -> str:
    found = set()
    for column in node.find_all(exp.Column):
        source = column.args.get("table")
        resolved = both.find(column.this.name, source.name if source else None, place_of(column))
        found.add("left" if resolved.index < left.scope.width else "right")
    return found.pop() if len(found) == 1 else "both"


def _is_key(node: exp.Expr, flow: Flow) -> bool:
    """Returns whether an expression is the whole key of a flow."""
    while isinstance(node, exp.Paren):
        node = node.this
    if not isinstance(node, exp.Column) or len(flow.key_places) != 1:
        return False
    source = node.args.get("table")
    column = flow.scope.find(node.this.name, source.name if source else None, place_of(node))
    return column.index == flow.key_places[0] or column.index in flow.viable


def _viable(left: Flow, right: Flow, clause: Join, sides: tuple[Any, Any]) -> tuple[int, ...]:
    """Returns the columns of joined rows that are equal to the join key."""
    if clause.kind is JoinKind.OUTER:
        return ()
    found: list[int] = []
    for node, flow, offset in ((sides[0], left, 0), (sides[1], right, left.scope.width)):
        inner = node.unnest()
        place = None
        if isinstance(inner, exp.Column):
            source = inner.args.get("table")
            name = source.name if source else None
            place = flow.scope.find(inner.this.name, name, place_of(inner)).index
        if place in flow.viable:
            found += [one + offset for one in flow.viable]
        elif place is not None:
            found.append(place + offset)
    return tuple(dict.fromkeys(found))


def with_selected_key(flow: Flow, selects: Callable[[int], bool]) -> Flow:
    """Returns a flow whose key is the first of the columns that may stand for it and are
    selected."""
    place = next((one for one in flow.viable if selects(one)), None)
    if place is None or place == flow.key_places[0]:
        return flow
    column = next(one for one in flow.scope.columns if one.index == place)
    return replace(flow, key_columns=(column.column,), key_places=(place,))


def _key_column(
    left: Flow, right: Flow, kind: SqlType, viable: tuple[int, ...]
) -> tuple[Column, int | None]:
    """Returns the key column of the result and its place in a row; None for a synthetic one."""
    names = {column.name for column in (*left.scope.columns, *right.scope.columns)}
    if viable:
        both = (left.scope + right.scope).columns
        found = next(column for column in both if column.index == viable[0])
        return Column(found.name, kind), viable[0]
    name, number = "ROWKEY", 0
    while name in names:
        number += 1
        name = f"ROWKEY_{number}"
    return Column(name, kind), None


_Side = tuple[Flow, exp.Expr, Compiled]


def _side_by_side(left: _Side, right: _Side, kind: SqlType, context: Context) -> tuple[Flow, Flow]:
    """Returns both sides in partitions that correspond. A side that has the join key in its topic
    stays there, if it can."""
    forms = [
        flow.placed
        if _is_key(node, flow) and (flow.placed == PLACED or stays(flow.placed))
        else None
        for flow, node, _ in (left, right)
    ]
    if forms[0] is not None and forms[0] == forms[1]:
        return left[0], right[0]
    # Two that would stay in different places cannot both.
    target = next((form for form in forms if form is not None), PLACED)
    if forms[0] == target:
        return left[0], _placed(right, kind, target, context, left[0].node)
    if forms[1] == target:
        return _placed(left, kind, target, context, right[0].node), right[0]
    return _placed(left, kind, target, context), _placed(right, kind, target, context)


def _placed(
    side: _Side, kind: SqlType, target: Format, context: Context, like: Node | None = None
) -> Flow:
    """Returns a flow whose records are in the partition of the join key, among as many partitions
    as the other side has, which is `like`."""
    flow, node, key = side
    column = Column("KEY", kind)
    codec = place_codec(target, (column,), context.make_codec)
    names = context.names
    if _is_key(node, flow):
        moved: Node = nodes.Repartition(
            name=names("repartition"), parents=(flow.node,), key_codec=codec, like=like
        )
        return replace(flow, node=moved, placed=target)
    evaluate = context.evaluate(key, describe(node))

    def rekey(_: Any, row: Any, __: Any) -> Any:
        if row is None:
            return ()
        value = evaluate(row)
        return ((None if value is None else (hashable(value),), row),)

    mapped = nodes.FlatMap(
        name=names("join-key"), parents=(flow.node,), function=rekey, detail=describe(node)
    )
    moved = nodes.Repartition(
        name=names("repartition"), parents=(mapped,), key_codec=codec, like=like
    )
    return Flow(
        moved, flow.scope, False, (column,), (None,), _key_format(flow, context), None,
        key_codec=codec, placed=target,
    )  # fmt: skip


def _key_format(flow: Flow, context: Context) -> Any:
    return context.default_key_format if flow.key_format.name == "NONE" else flow.key_format


def _join_node(left: Flow, right: Flow, clause: Join, context: Context) -> Node:
    no_left, no_right = (None,) * left.scope.width, (None,) * right.scope.width

    def joined(key: Any, one: Any, other: Any) -> Any:
        plain = getattr(key, "key", key)
        value = plain[0] if plain else None
        return (*(one or no_left), *(other or no_right), value)

    name = context.names("join")
    kind, parents, joiner = clause.kind, (left.node, right.node), joined
    if clause.is_right:
        parents = (right.node, left.node)
        joiner = lambda key, one, other: joined(key, other, one)  # noqa: E731 - the sides change
    if left.is_table:
        return nodes.TableJoin(
            name=name, parents=parents, kind=kind, joiner=joiner, store=name, detail=kind.value
        )
    if right.is_table:
        return nodes.StreamTableJoin(
            name=name, parents=parents, kind=kind, joiner=joiner, store=name, detail=kind.value
        )
    windows = _windows(clause)
    return nodes.StreamJoin(
        name=name, parents=parents, kind=kind, joiner=joiner, store=name, windows=windows,
        detail=f"{kind.value} {windows}",
    )  # fmt: skip


def _windows(clause: Join) -> JoinWindows:
    within = clause.within
    assert within is not None
    before_ms, after_ms = within.before_ms, within.after_ms
    if clause.is_right:
        before_ms, after_ms = after_ms, before_ms
    if within.grace_ms is None:
        # As ksqlDB: without a grace period a join waits a day, and an outer side does not wait.
        grace_ms = max(0, DAY_MS - before_ms - after_ms)
        return JoinWindows(before_ms=before_ms, after_ms=after_ms, grace_ms=grace_ms, is_eager=True)
    return JoinWindows(before_ms=before_ms, after_ms=after_ms, grace_ms=within.grace_ms)


def _foreign_key_join(
    left: Flow, right: Flow, clause: Join, left_key: Compiled, context: Context
) -> Flow:
    if clause.kind is JoinKind.OUTER or clause.is_right:
        raise Invalid("Full outer and right joins are not supported by a foreign key", clause.place)
    if left.window is not None or right.window is not None:
        raise Refused("a foreign-key join of windowed tables is refused", clause.place)
    evaluate = context.evaluate(left_key, describe(clause.on))
    no_right = (None,) * right.scope.width

    def foreign_key(_: Any, row: Any) -> Any:
        value = evaluate(row)
        return None if value is None else (hashable(value),)

    def joined(key: Any, one: Any, other: Any) -> Any:
        return (*one, *(other or no_right), key[0])

    name = context.names("foreign-key-join")
    right_node, right_codec = right.node, right.key_codec
    if right.placed == PLACED or not stays(right.placed):
        right_codec = place_codec(PLACED, right.key_columns, context.make_codec)
        right_node = nodes.Repartition(
            name=context.names("repartition"), parents=(right_node,), key_codec=right_codec
        )
    left_codec = left.key_codec
    if left.key_format.is_registered:
        left_codec = place_codec(PLACED, left.key_columns, context.make_codec)
    assert left_codec is not None
    assert right_codec is not None
    node = nodes.ForeignKeyJoin(
        name=name, parents=(left.node, right_node), kind=clause.kind, foreign_key=foreign_key,
        joiner=joined, left_codec=left_codec, right_codec=right_codec, store=name,
        detail=clause.kind.value,
    )  # fmt: skip
    return Flow(
        node, _joined_scope(left, right), True, left.key_columns, left.key_places, left.key_format,
        key_codec=left.key_codec, placed=left.placed,
    )  # fmt: skip
