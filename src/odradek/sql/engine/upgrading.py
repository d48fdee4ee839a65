"""CREATE OR REPLACE: whether a stream or table may become another one.

Queries that read it go on, and rows that were written stay: columns can be added at the end, and
nothing else can change. The query that writes it may be another one as long as its state is of the
same kind: conditions and what is computed of the results of aggregates can change.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from sqlglot import exp

from odradek.sql.engine.catalogue import Catalogue
from odradek.sql.engine.persistent import Prepared
from odradek.sql.errors import Invalid, Place, Refused
from odradek.sql.functions.table import AGGREGATES
from odradek.sql.language.statements import AlterSource, Query
from odradek.sql.planning.scope import SYSTEM
from odradek.sql.planning.sources import DataSource
from odradek.streams.plan.types import Column, Schema


def check_upgrade(old: DataSource, new: DataSource, place: Place) -> None:
    """Raises `Invalid` if a definition cannot take the place of another one."""
    issues = []
    properties = {
        "type": (old.kind, new.kind), "topic": (old.topic, new.topic),
        "key format": (old.key_format.name, new.key_format.name),
        "value format": (old.value_format.name, new.value_format.name),
        "timestampColumn": (old.timestamp, new.timestamp),
    }  # fmt: skip
    for name, (before, after) in properties.items():
        if before != after:
            issues.append(f"has {name} = {before} which cannot be upgraded to {name} = {after}")
    keys = _changed(old.schema.key, new.schema.key)
    if keys or len(old.schema.key) != len(new.schema.key):
        issues.append(
            "has another key. Key columns must be identical. The following key columns are"
            f" changed, missing or reordered: [{keys}]"
        )
    values = _changed(old.schema.value, new.schema.value)
    if values:
        issues.append(
            "has other columns. The following columns are changed, missing or reordered:"
            f" [{values}]"
        )
    if issues:
        raise Invalid(
            f"Cannot upgrade data source: DataSource '`{old.name}`' {' AND '.join(issues)}", place
        )


def altered(statement: AlterSource, catalogue: Catalogue) -> DataSource:
    """Returns a stream or table with the columns that ALTER adds. Raises `Invalid`."""
    source = catalogue.source(statement.name, statement.place)
    if source.is_table != statement.is_table:
        kind = "TABLE" if statement.is_table else "STREAM"
        raise Invalid(
            f"Incompatible data source type is {source.kind}, but statement was ALTER {kind}",
            statement.place,
        )
    if any(catalogue.queries[query_id].creates_sink for query_id in catalogue.writers(source.name)):
        raise Invalid(
            f"ALTER command is not supported for CREATE ... AS statements: {source.name}",
            statement.place,
        )
    schema = source.schema
    for column in statement.columns:
        if column.name in SYSTEM:
            raise Invalid(
                f"'{column.name}' is a reserved column name. You cannot use it as a column name.",
                column.place,
            )
        if schema.find(column.name) is not None:
            raise Invalid(f"Cannot add column {column.name}: it is there", column.place)
        schema = Schema(schema.key, (*schema.value, Column(column.name, column.kind)))
    return replace(source, schema=schema)


class Version(NamedTuple):
    """One of the two queries that write a stream or table."""

    query: Query
    prepared: Prepared

    @property
    def stores(self) -> list[str]:
        return [node.name for node in self.prepared.plan.nodes if node.stores]


def kept_stores(old: Version, new: Version, place: Place) -> dict[str, str]:
    """Returns the names of the old version's stores by those that the new version would give them.
    Raises `Refused` if the new one cannot go on with their state."""
    if not old.stores and not new.stores:
        return {}
    reason = _other_state(old, new)
    if reason is not None:
        raise Refused(
            f"CREATE OR REPLACE keeps the state of a query, and {reason}: create another one beside"
            " it, and drop this one when the other has caught up", place,
        )  # fmt: skip
    return dict(zip(new.stores, old.stores, strict=True))


def _other_state(old: Version, new: Version) -> str | None:
    """Returns why the state of one version is none of the other, or None if it is."""
    if old.query.joins or new.query.joins:
        return "that of a join cannot be kept"
    before, after = old.prepared.compiled.sources[0], new.prepared.compiled.sources[0]
    if before.is_table and (old.query.group_by is not None or new.query.group_by is not None):
        return "that of groups of a table cannot be kept"
    if before.is_table and before.schema != after.schema:
        return f"the columns of {before.name} are not those of when it was made"
    parts = zip(_state_of(old.query), _state_of(new.query), strict=True)
    for name, (old_part, new_part) in zip(_STATE, parts, strict=True):
        if old_part != new_part:
            return f"this one has {name}"
    kinds = [[name.rpartition("-")[0] for name in one.stores] for one in (old, new)]
    return None if kinds[0] == kinds[1] else "this one has another"


_STATE = ("another source", "other windows", "other groups", "other aggregates", "another EMIT")


def _state_of(query: Query) -> tuple[Any, ...]:
    """Returns what decides over the state of a query, in the order of `_STATE`."""
    window = query.window
    nodes = [item.expression for item in query.items if item.expression is not None]
    nodes += [] if query.having is None else [query.having]
    return (
        query.source.name,
        None if window is None else replace(window, place=_NOWHERE),
        [node.sql() for node in query.group_by or ()],
        list(dict.fromkeys(_aggregates(nodes))),
        query.emit == "FINAL",
    )


_NOWHERE = Place(0, 0)


def _aggregates(nodes: list[exp.Expr]) -> Iterator[str]:
    for node in nodes:
        for call in node.find_all(exp.Anonymous):
            if call.this in AGGREGATES:
                yield call.sql()


def _changed(old: tuple[Column, ...], new: tuple[Column, ...]) -> str:
    return ", ".join(
        str(column)
        for number, column in enumerate(old)
        if number >= len(new) or new[number] != column
    )
