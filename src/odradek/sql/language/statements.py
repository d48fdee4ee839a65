"""The statements of the SQL language, after parsing: a class for each kind.

`sql.language.parser` makes them, and `sql.engine` executes them. Names are as in the catalogue: in
capitals, unless they were quoted.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp

from odradek.sql.errors import Place
from odradek.streams.plan.nodes import JoinKind
from odradek.streams.plan.types import SqlType

Properties = Mapping[str, Any]
_BEGIN = Place(1, 1)


class GivenProperties(dict[str, Any]):
    """The properties of WITH as they are written, with the place of each in the statement."""

    def __init__(self) -> None:
        super().__init__()
        self.places: dict[str, Place] = {}


@dataclass(frozen=True, kw_only=True)
class Statement:
    text: str = ""
    """The statement as the user wrote it, without the semicolon."""
    place: Place = _BEGIN


# Queries


@dataclass(frozen=True, slots=True)
class SelectItem:
    """One item of a SELECT list.

    `expression` is what a column is computed from. `star` means `*`, all columns; in `s.*`,
    `source` is `s`. `struct_star` means `expression->*`, all fields of a struct.
    """

    expression: exp.Expr | None
    alias: str | None
    place: Place
    star: bool = False
    source: str | None = None
    struct_star: bool = False


@dataclass(frozen=True, slots=True)
class Relation:
    """A stream or table after FROM or JOIN. Without AS, `alias` is the name."""

    name: str
    alias: str
    place: Place


@dataclass(frozen=True, slots=True)
class Within:
    """The WITHIN clause of a join of two streams: how far apart the times of two rows may be."""

    before_ms: int
    after_ms: int
    grace_ms: int | None
    place: Place


@dataclass(frozen=True, slots=True)
class Join:
    kind: JoinKind
    is_right: bool
    """Whether it is a RIGHT join; `kind` is LEFT then, and the planner exchanges the sides."""
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
    """What follows EMIT: CHANGES or FINAL. None without EMIT."""
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
    """The record header that the column is read from; "" for an array of all headers."""


@dataclass(frozen=True, kw_only=True)
class CreateSource(Statement):
    name: str
    is_table: bool
    columns: tuple[ColumnDefinition, ...] | None = None
    properties: Properties = field(default_factory=dict)
    or_replace: bool = False
    if_not_exists: bool = False
    is_read_only: bool = False
    """Whether it is CREATE SOURCE STREAM or TABLE: one that cannot be inserted into."""


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


# Listings and descriptions


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
    """EXPLAIN of a running query, whose name is `query`, or of `statement`."""

    query: str | None = None
    statement: Statement | None = None


@dataclass(frozen=True, kw_only=True)
class PrintTopic(Statement):
    topic: str
    from_beginning: bool = False
    interval: int | None = None
    """Every how many records one is printed; None is every record."""
    limit: int | None = None


# Running queries, and properties and variables of the session


@dataclass(frozen=True, kw_only=True)
class ControlQuery(Statement):
    """TERMINATE, PAUSE or RESUME, which `action` says. `query` is None for ALL queries."""

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
    """ASSERT VALUES, used in tests: the next row of a stream or table has these values. ASSERT NULL
    VALUES expects a tombstone; `values` are only those of the key then."""

    name: str
    columns: tuple[str, ...]
    values: tuple[exp.Expr, ...]
    is_tombstone: bool = False


@dataclass(frozen=True, kw_only=True)
class AssertSource(Statement):
    """ASSERT STREAM or TABLE, used in tests: the stream or table has this definition."""

    name: str
    is_table: bool
    columns: tuple[ColumnDefinition, ...] | None
    properties: Properties
