"""What a statement says. Names are as the catalogue has them: in capitals, unless quoted."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp

from odradek.sql.errors import Place
from odradek.streams.plan.nodes import JoinKind
from odradek.streams.plan.types import SqlType

Properties = Mapping[str, Any]
_BEGIN = Place(1, 1)


@dataclass(frozen=True, kw_only=True)
class Statement:
    text: str = ""
    """As it was written, without the semicolon."""
    place: Place = _BEGIN


# Queries


@dataclass(frozen=True, slots=True)
class SelectItem:
    """A column of a result. `star` is for `*`, whose `source` is that of `s.*`; `struct_star` for
    `s->*`, whose struct is the expression."""

    expression: exp.Expr | None
    alias: str | None
    place: Place
    star: bool = False
    source: str | None = None
    struct_star: bool = False


@dataclass(frozen=True, slots=True)
class Relation:
    name: str
    alias: str
    place: Place


@dataclass(frozen=True, slots=True)
class Within:
    before_ms: int
    after_ms: int
    grace_ms: int | None
    place: Place


@dataclass(frozen=True, slots=True)
class Join:
    kind: JoinKind
    is_right: bool
    """Whether it is a RIGHT join, which is a LEFT join with the sides exchanged."""
    relation: Relation
    within: Within | None
    on: exp.Expr
    place: Place


@dataclass(frozen=True, slots=True)
class WindowClause:
    kind: str
    """TUMBLING, HOPPING or SESSION."""
    size_ms: int
    advance_ms: int
    retention_ms: int | None
    grace_ms: int | None
    place: Place


@dataclass(frozen=True, kw_only=True)
class Query(Statement):
    items: tuple[SelectItem, ...]
    source: Relation
    joins: tuple[Join, ...] = ()
    window: WindowClause | None = None
    where: exp.Expr | None = None
    group_by: tuple[exp.Expr, ...] | None = None
    partition_by: tuple[exp.Expr, ...] | None = None
    having: exp.Expr | None = None
    emit: str | None = None
    """CHANGES, FINAL, or None for a pull query."""
    limit: int | None = None


# Definitions


@dataclass(frozen=True, slots=True)
class ColumnDefinition:
    name: str
    kind: SqlType
    place: Place
    is_key: bool = False
    is_primary: bool = False
    header: str | None = None
    """The header that it is read from; "" for all headers."""


@dataclass(frozen=True, kw_only=True)
class CreateSource(Statement):
    name: str
    is_table: bool
    columns: tuple[ColumnDefinition, ...] | None = None
    properties: Properties = field(default_factory=dict)
    or_replace: bool = False
    if_not_exists: bool = False
    is_read_only: bool = False
    """CREATE SOURCE STREAM or TABLE: it cannot be inserted into."""


@dataclass(frozen=True, kw_only=True)
class CreateAsSelect(Statement):
    name: str
    is_table: bool
    query: Query
    properties: Properties = field(default_factory=dict)
    or_replace: bool = False
    if_not_exists: bool = False


@dataclass(frozen=True, kw_only=True)
class InsertInto(Statement):
    name: str
    query: Query
    properties: Properties = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class InsertValues(Statement):
    name: str
    columns: tuple[str, ...]
    values: tuple[exp.Expr, ...]


@dataclass(frozen=True, kw_only=True)
class DropSource(Statement):
    name: str
    is_table: bool
    if_exists: bool = False
    delete_topic: bool = False


@dataclass(frozen=True, kw_only=True)
class AlterSource(Statement):
    name: str
    is_table: bool
    columns: tuple[ColumnDefinition, ...]


@dataclass(frozen=True, kw_only=True)
class CreateType(Statement):
    name: str
    kind: SqlType
    if_not_exists: bool = False


@dataclass(frozen=True, kw_only=True)
class DropType(Statement):
    name: str
    if_exists: bool = False


@dataclass(frozen=True, kw_only=True)
class CreateConnector(Statement):
    name: str
    kind: str
    """SOURCE or SINK."""
    properties: Properties
    if_not_exists: bool = False


@dataclass(frozen=True, kw_only=True)
class DropConnector(Statement):
    name: str
    if_exists: bool = False


# What there is


@dataclass(frozen=True, kw_only=True)
class Show(Statement):
    """SHOW or LIST. `what` is PROPERTIES, TOPICS, STREAMS, TABLES, FUNCTIONS, CONNECTORS,
    CONNECTOR PLUGINS, TYPES, VARIABLES or QUERIES."""

    what: str
    is_extended: bool = False
    includes_all: bool = False
    connector_kind: str | None = None


@dataclass(frozen=True, kw_only=True)
class DescribeSource(Statement):
    name: str
    is_extended: bool = False


@dataclass(frozen=True, kw_only=True)
class DescribeStreams(Statement):
    is_extended: bool = False
    is_table: bool = False


@dataclass(frozen=True, kw_only=True)
class DescribeFunction(Statement):
    name: str


@dataclass(frozen=True, kw_only=True)
class DescribeConnector(Statement):
    name: str


@dataclass(frozen=True, kw_only=True)
class Explain(Statement):
    """`query` is the name of a running query, or else `statement` is explained."""

    query: str | None = None
    statement: Statement | None = None


@dataclass(frozen=True, kw_only=True)
class PrintTopic(Statement):
    topic: str
    from_beginning: bool = False
    interval: int | None = None
    limit: int | None = None


# Queries that run, and the session


@dataclass(frozen=True, kw_only=True)
class ControlQuery(Statement):
    """TERMINATE, PAUSE or RESUME; `query` is None for ALL."""

    action: str
    query: str | None


@dataclass(frozen=True, kw_only=True)
class SetProperty(Statement):
    name: str
    value: str


@dataclass(frozen=True, kw_only=True)
class AlterSystem(Statement):
    name: str
    value: str


@dataclass(frozen=True, kw_only=True)
class UnsetProperty(Statement):
    name: str


@dataclass(frozen=True, kw_only=True)
class Define(Statement):
    name: str
    value: str


@dataclass(frozen=True, kw_only=True)
class Undefine(Statement):
    name: str


@dataclass(frozen=True, kw_only=True)
class RunScript(Statement):
    path: str


# Assertions


@dataclass(frozen=True, kw_only=True)
class AssertTopic(Statement):
    topic: str
    exists: bool
    properties: Properties
    timeout_ms: int | None


@dataclass(frozen=True, kw_only=True)
class AssertSchema(Statement):
    subject: str | None
    schema_id: int | None
    exists: bool
    timeout_ms: int | None


@dataclass(frozen=True, kw_only=True)
class AssertValues(Statement):
    """In tests: the next row of a stream or table. `values` are those of the key alone for ASSERT
    NULL VALUES, which is a tombstone."""

    name: str
    columns: tuple[str, ...]
    values: tuple[exp.Expr, ...]
    is_tombstone: bool = False


@dataclass(frozen=True, kw_only=True)
class AssertSource(Statement):
    """In tests: how a stream or table is defined."""

    name: str
    is_table: bool
    columns: tuple[ColumnDefinition, ...] | None
    properties: Properties
