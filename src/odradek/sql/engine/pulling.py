"""Pull queries: they answer with what there is, and end.

They are answered from a view. For the keys of a table that is too large for one, brokers are asked:
their look-up by key reads no topic. Both see all that was committed before the query was asked.
"""

from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from itertools import product
from typing import Any, Final

from sqlglot import exp

from odradek.client.consumer.consumer import Consumer
from odradek.client.errors import UnsupportedVersion
from odradek.sql.engine.answering import Answer, ResultRow
from odradek.sql.engine.inserting import constant_value
from odradek.sql.engine.views import UNREADABLE, Rows, Views
from odradek.sql.errors import Invalid, Place, SqlError
from odradek.sql.language.dialect import place_of
from odradek.sql.language.statements import Query
from odradek.sql.planning.calls import refuse_calls
from odradek.sql.planning.expressions import compile_expression, condition
from odradek.sql.planning.parts import Context, describe
from odradek.sql.planning.selecting import expand
from odradek.sql.planning.sources import DataSource, MakeCodec, scope_of
from odradek.streams.plan.types import STRING, Column
from odradek.world.blocking_calls import without_blocking

_BATCH: Final = 500
_MOST_KEYS: Final = 100
"""How many keys are looked up; for more of them the table is read."""

Select = Callable[[Any], ResultRow | None]


async def pull(
    query: Query, context: Context, views: Views, reader: Consumer, *, may_scan: bool = True
) -> Answer:
    """Returns the rows of a pull query. `reader` asks brokers in the name of the caller. Raises
    `SqlError`, or what Kafka says."""
    check_pull(query)
    source = context.find(query.source.name)
    if source is None:
        raise Invalid(context.missing(query.source.name), query.source.place)
    columns, select = _compiled(query, source, context)
    if source.is_table and not may_scan:
        check_keys(query, source)
    found: Iterable[Any] | None = None
    keys = wanted_keys(query, source)
    # A key has to be written in one way only: JSON may have spaces.
    has_one_form = source.key_format.name == "KAFKA"
    if keys is not None and has_one_form and await views.is_large(source, reader):
        found = await _looked_up(source, keys, reader, context.make_codec)
    if found is None:
        rows = (await views.of(source)).rows
        found = list(rows.values()) if keys is None else [rows[key] for key in keys if key in rows]
    return Answer(columns, _rows(found, select, query.limit), is_push=False)


def _compiled(
    query: Query, source: DataSource, context: Context
) -> tuple[tuple[Column, ...], Select]:
    """Returns the columns of the result, and what makes a row of it of a flat row of the source;
    None for one that the condition leaves out."""
    scope = scope_of(source, query.source.alias)
    where: Callable[[Any], Any] = lambda row: True  # noqa: E731 - a condition that always holds
    if query.where is not None:
        refuse_calls(query.where, "WHERE")
        where = context.evaluate(condition(query.where, scope, "WHERE"), describe(query.where))
    selected = expand(query, scope, is_transient=True)
    for item in selected:
        refuse_calls(item.expression, "a pull query")
    compiled = [compile_expression(item.expression, scope) for item in selected]
    evaluates = [
        context.evaluate(one, describe(item.expression))
        for one, item in zip(compiled, selected, strict=True)
    ]
    columns = tuple(
        Column(item.name, one.kind or STRING) for one, item in zip(compiled, selected, strict=True)
    )

    def select(row: Any) -> ResultRow | None:
        if where(row) is not True:
            return None
        return ResultRow(tuple([evaluate(row) for evaluate in evaluates]))

    return columns, select


async def _rows(
    found: Iterable[Any], select: Select, limit: int | None
) -> AsyncGenerator[list[ResultRow]]:
    given = 0
    batch: list[ResultRow] = []
    for row in found:
        if limit is not None and given >= limit:
            break
        selected = select(row)
        if selected is not None:
            given += 1
            batch.append(selected)
        if len(batch) == _BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


async def _looked_up(
    source: DataSource, keys: list[tuple[Any, ...]], reader: Consumer, make: MakeCodec
) -> list[Any] | None:
    """Returns the rows of keys, or None if the brokers have no look-up by key."""
    rows = Rows(source, make)
    encoded = [data for key in keys if (data := rows.encode_key(key)) is not None]
    try:
        # Whoever writes the topic chose the partitions of the keys: all are asked.
        records = [await reader.get(source.topic, key, all_partitions=True) for key in encoded]
    except UnsupportedVersion:
        return None
    found = []
    for record in records:
        if record is None:
            continue
        try:
            _, row = await without_blocking(rows.of, record)
        except UNREADABLE:
            continue
        if row is not None:
            found.append(row)
    return found


def wanted_keys(query: Query, source: DataSource) -> list[tuple[Any, ...]] | None:
    """Returns the keys that a condition asks for, or None if other rows may fulfil it too."""
    simple = source.is_table and source.window is None
    return _keys_of(query, source) if simple else None


def check_keys(query: Query, source: DataSource) -> None:
    """Raises for a query that does not say the keys whose rows it wants."""
    if query.where is None:
        raise Invalid(f"Missing WHERE clause. {_SCANS}", query.place)
    if _keys_of(query, source) is None:
        names = " and ".join(column.name for column in source.schema.key)
        raise Invalid(
            f"WHERE clause missing key column: it does not say with = or IN which {names} is meant."
            f" {_SCANS}", place_of(query.where),
        )  # fmt: skip


_SCANS: Final = (
    "If more flexible queries are needed, table scans can be enabled by setting"
    " ksql.query.pull.table.scan.enabled=true."
)


def _keys_of(query: Query, source: DataSource) -> list[tuple[Any, ...]] | None:
    """Returns the keys that a condition compares with constants; None if it does not say all."""
    if query.where is None:
        return None
    values: dict[str, list[Any]] = {}
    kinds = {column.name: column.kind for column in source.schema.key}
    for part in _conjuncts(query.where):
        column, constants = _equality(part)
        if column not in kinds or column in values:
            continue
        try:
            values[column] = [
                constant_value(constant, kinds[column], column) for constant in constants
            ]
        except SqlError:
            return None
    if set(values) != set(kinds):
        return None
    keys = list(dict.fromkeys(product(*(values[name] for name in kinds))))
    return keys if len(keys) <= _MOST_KEYS else None


def _conjuncts(node: exp.Expr) -> Iterator[exp.Expr]:
    while isinstance(node, exp.Paren):
        node = node.this
    if isinstance(node, exp.And):
        yield from _conjuncts(node.left)
        yield from _conjuncts(node.right)
    else:
        yield node


def _equality(node: exp.Expr) -> tuple[str | None, list[exp.Expr]]:
    """Returns the column that a condition compares with constants, and these."""
    sides: tuple[exp.Expr, list[exp.Expr]]
    if isinstance(node, exp.EQ):
        left, right = node.left, node.right
        sides = (left, [right]) if isinstance(left, exp.Column) else (right, [left])
    elif isinstance(node, exp.In) and node.expressions:
        sides = node.this, list(node.expressions)
    else:
        return None, []
    column, constants = sides
    if not isinstance(column, exp.Column) or any(
        constant.find(exp.Column) for constant in constants
    ):
        return None, []
    return column.name, constants


def check_pull(query: Query) -> None:
    """Raises for what only a query that goes on can have, in ksqlDB's words."""
    clauses: dict[str, Place | None] = {}
    if query.joins:
        clauses["JOIN"] = query.joins[0].place
    if query.window is not None:
        clauses["WINDOW"] = query.window.place
    for name, nodes in (
        ("GROUP BY", query.group_by), ("PARTITION BY", query.partition_by),
        ("HAVING", None if query.having is None else (query.having,)),
    ):  # fmt: skip
        if nodes is not None:
            clauses[name] = place_of(nodes[0]) if nodes else query.place
    for name, place in clauses.items():
        raise Invalid(
            f"Pull queries don't support {name} clauses. Add EMIT CHANGES if you intended to issue"
            " a push query, or create a table of it", place,
        )  # fmt: skip
