"""The columns of a SELECT: what `*` means, how columns are called, and which are keys."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from odradek.sql.errors import Invalid, Place
from odradek.sql.language.dialect import place_of
from odradek.sql.language.statements import Query, SelectItem
from odradek.sql.planning.expressions import compile_expression
from odradek.sql.planning.scope import SYSTEM, Scope, ScopeColumn
from odradek.streams.plan.types import StructType


@dataclass(frozen=True)
class Selected:
    """A column of the result."""

    name: str
    expression: exp.Expr
    place: Place
    has_alias: bool = False


def column_node(column: ScopeColumn, place: Place | None = None) -> exp.Expr:
    source = exp.to_identifier(column.source, quoted=True) if column.source else None
    node = exp.Column(this=exp.to_identifier(column.name, quoted=True), table=source)
    if place is not None:
        node.meta["place"] = place
    return node


def canonical(node: exp.Expr, scope: Scope) -> str:
    """Returns a text that two expressions share if they mean the same."""

    def simplify(one: exp.Expr) -> Any:
        if isinstance(one, exp.Column):
            source = one.args.get("table")
            found = scope.find(one.this.name, source.name if source else None, place_of(one))
            return exp.Var(this=f"#{found.index}")
        if isinstance(one, exp.Cast):
            inner = one.this.transform(simplify)
            return exp.Anonymous(this=f"CAST {one.meta['kind']}", expressions=[inner])
        if isinstance(one, exp.Paren):
            return one.this.transform(simplify)
        if isinstance(one, exp.Lambda):
            # Names in it are variables, which no column is to be found for.
            return exp.Var(this=one.sql())
        return one

    return str(node.copy().transform(simplify).sql())


def expand(query: Query, scope: Scope, *, is_transient: bool) -> list[Selected]:
    """Returns the columns of a SELECT. Raises `Invalid` if two have one name."""
    namer = _Namer(query, scope)
    selected: list[Selected] = []
    for item in query.items:
        if item.star and item.source is None and query.partition_by is not None:
            selected += _partitioned_star(query, item, scope)
        elif item.star:
            selected += _star(item, scope, is_transient=is_transient)
        elif item.struct_star:
            selected += _struct_star(item, scope)
        else:
            assert item.expression is not None
            name = item.alias or namer.name(item.expression)
            selected.append(Selected(name, item.expression, item.place, item.alias is not None))
    _check_names(selected, is_transient=is_transient)
    return selected


def _check_names(selected: Iterable[Selected], *, is_transient: bool) -> None:
    seen: set[str] = set()
    for one in selected:
        if one.name in seen:
            raise Invalid(
                f"The projection contains two columns {one.name}: give one of them an alias",
                one.place,
            )
        if not is_transient and one.name in SYSTEM:
            if one.has_alias:
                raise Invalid(
                    f"`{one.name}` is a reserved column name. You cannot use it as an alias for a"
                    " column.", one.place,
                )  # fmt: skip
            raise Invalid(
                f"Reserved column name in select: `{one.name}`. Please remove or alias the column"
                " (it is a reserved column name).", one.place,
            )  # fmt: skip
        seen.add(one.name)


def _star(item: SelectItem, scope: Scope, *, is_transient: bool) -> list[Selected]:
    if item.source is not None and item.source not in scope.sources:
        scope.find("", item.source, item.place)  # raises
    selected = []
    is_join = len(scope.sources) > 1
    windows = SYSTEM[-2:] if is_transient and not is_join else ()
    for column in _keys_then_windows(scope.columns, windows):
        if item.source not in (None, column.source) or (
            column.is_system and column.name not in windows
        ):
            continue
        name = f"{column.source}_{column.name}" if is_join and column.source else column.name
        selected.append(Selected(name, column_node(column, item.place), item.place))
    return selected


def _partitioned_star(query: Query, item: SelectItem, scope: Scope) -> list[Selected]:
    """Returns the columns of `*` with PARTITION BY: the new keys, the other columns, and the old
    keys, which are values now."""
    columns = _star(item, scope, is_transient=False)
    wanted = [node for node in query.partition_by or () if not isinstance(node, exp.Null)]
    texts = [canonical(node, scope) for node in wanted]
    known = {canonical(column.expression, scope): column for column in columns}
    aliased = {
        canonical(one.expression, scope)
        for one in query.items
        if one.expression is not None and one.alias is not None
    }
    names = key_names(wanted, scope)
    keys = [
        known.get(text) or Selected(name, node, item.place)
        for node, text, name in zip(wanted, texts, names, strict=True)
        if text in known or text not in aliased
    ]
    others = {text: one for text, one in known.items() if text not in texts}
    is_join = len(scope.sources) > 1
    old = {f"#{column.index}" for column in scope.columns if column.is_key and not is_join}
    return [*keys, *(others[text] for text in sorted(others, key=lambda text: text in old))]


def key_names(nodes: Sequence[exp.Expr], scope: Scope) -> list[str]:
    """Returns the names of key columns that have no alias: a column and a field by its own name,
    anything else KSQL_COL_0, KSQL_COL_1 and so on."""
    taken = {column.name for column in scope.columns}
    names: list[str] = []
    number = 0
    for node in nodes:
        inner = node.unnest()
        if isinstance(inner, exp.Column):
            names.append(str(inner.this.name))
        elif isinstance(inner, exp.Dot):
            names.append(str(inner.expression.name))
        else:
            while f"KSQL_COL_{number}" in taken:
                number += 1
            names.append(f"KSQL_COL_{number}")
            number += 1
    return names


def _keys_then_windows(columns: Sequence[ScopeColumn], windows: Sequence[str]) -> list[ScopeColumn]:
    if not windows:
        return list(columns)
    return [
        *(column for column in columns if column.is_key),
        *(column for column in columns if column.name in windows),
        *(column for column in columns if not column.is_key and column.name not in windows),
    ]


def _struct_star(item: SelectItem, scope: Scope) -> list[Selected]:
    assert item.expression is not None
    kind = compile_expression(item.expression, scope).kind
    if not isinstance(kind, StructType):
        raise Invalid(f"'->*' needs a STRUCT, and this is {kind}", item.place)
    selected = []
    for name, _ in kind.fields:
        node = exp.Dot(this=item.expression.copy(), expression=exp.to_identifier(name, quoted=True))
        node.meta["place"] = item.place
        selected.append(Selected(name, node, item.place))
    return selected


class _Namer:
    """Names columns without an alias as ksqlDB does: a column and a field by its own name, anything
    else KSQL_COL_0, KSQL_COL_1 and so on."""

    def __init__(self, query: Query, scope: Scope) -> None:
        self._scope = scope
        self._taken = {item.alias for item in query.items if item.alias}
        self._taken |= {column.name for column in scope.columns}
        self._fields: set[str] = set()
        self._next = 0

    def name(self, node: exp.Expr) -> str:
        while isinstance(node, exp.Paren):
            node = node.this
        if isinstance(node, exp.Column):
            source = node.args.get("table")
            if source and self._scope.is_clashing(node.this.name):
                return f"{source.name}_{node.this.name}"
            return str(node.this.name)
        if isinstance(node, exp.Dot):
            return self._field(node.expression.name)
        return self.generated()

    def _field(self, name: str) -> str:
        chosen, number = name, 0
        while chosen in self._fields or chosen in self._taken:
            number += 1
            chosen = f"{name}_{number}"
        self._fields.add(chosen)
        return chosen

    def generated(self) -> str:
        while f"KSQL_COL_{self._next}" in self._taken:
            self._next += 1
        name = f"KSQL_COL_{self._next}"
        self._taken.add(name)
        self._next += 1
        return name
