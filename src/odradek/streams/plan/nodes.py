"""The operators of a plan. SQL and the Python DSL build them; engines run them.

A plan is a graph from sources to sinks: each operator knows its parents, and `Plan` has those that
nothing follows. The functions in it take `(key, value, context)`, where the context says where the
record came from. A stream's values are records; a table's are changes of rows (`records.Change`),
which the engine makes and undoes, so functions see single values.

What an operator means is written in `odradek.streams.running`, one module for each kind.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol, runtime_checkable

from odradek.streams.plan.records import RecordContext
from odradek.streams.plan.types import Schema
from odradek.streams.plan.windows import JoinWindows, SessionWindows, Windows

OnRecord = Callable[[Any, Any, RecordContext], Any]


class Codec(Protocol):
    """Turns a key or a value into bytes and back. None stays None."""

    def encode(self, value: Any) -> bytes | None: ...

    def decode(self, data: bytes | None) -> Any: ...


@runtime_checkable
class Preparable(Protocol):
    """A codec that asks a registry before it can write. `prepare` blocks."""

    def prepare(self) -> None: ...


class JoinKind(Enum):
    INNER = "INNER"
    LEFT = "LEFT"
    OUTER = "OUTER"


@dataclass(frozen=True, eq=False, kw_only=True)
class Node:
    """An operator. Two are equal only if they are the same one."""

    parents: tuple["Node", ...] = ()
    name: str
    schema: Schema | None = None
    """The columns of its results, where SQL or a typed source declares them."""
    detail: str = ""
    """What it does, for pictures."""

    @property
    def is_table(self) -> bool:
        return bool(self.parents) and self.parents[0].is_table

    @property
    def stores(self) -> tuple[str, ...]:
        return ()


@dataclass(frozen=True, eq=False, kw_only=True)
class _Stateful(Node):
    store: str

    @property
    def stores(self) -> tuple[str, ...]:
        return (self.store,)


@dataclass(frozen=True, eq=False, kw_only=True)
class Source(Node):
    """A topic as a stream. `timestamp_of` reads the time of a record from its columns; a record
    for which it returns a negative time is dropped."""

    topic: str
    key_codec: Codec
    value_codec: Codec
    timestamp_of: OnRecord | None = None
    reset: str = "earliest"


@dataclass(frozen=True, eq=False, kw_only=True)
class TableSource(Source):
    """A topic as a table: the newest record of a key is its row, one without a value deletes it."""

    store: str

    @property
    def is_table(self) -> bool:
        return True

    @property
    def stores(self) -> tuple[str, ...]:
        return (self.store,)


@dataclass(frozen=True, eq=False, kw_only=True)
class Filter(Node):
    predicate: OnRecord


@dataclass(frozen=True, eq=False, kw_only=True)
class MapValues(Node):
    function: OnRecord
    store: str | None = None
    """For tables: where results are kept, if the function is not a function of the row alone."""


@dataclass(frozen=True, eq=False, kw_only=True)
class FlatMap(Node):
    """Makes any number of records out of one: `(key, value)` pairs. Keys may change."""

    function: Callable[[Any, Any, RecordContext], Iterable[tuple[Any, Any]]]


@dataclass(frozen=True, eq=False, kw_only=True)
class Peek(Node):
    """Shows each record to a function, and passes it on unchanged."""

    function: OnRecord


@dataclass(frozen=True, eq=False, kw_only=True)
class Merge(Node):
    """All records of several streams."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Repartition(Node):
    """Moves each record to the partition of its key: what follows finds all records of a key."""

    key_codec: Codec
    partitions: int | None = None
    """How many there are; None for as many as the sources have at most."""
    like: Node | None = None
    """An operator that has as many partitions: the other side of a join."""


@dataclass(frozen=True, eq=False, kw_only=True)
class ToTable(_Stateful):
    """A stream as the changes of a table."""

    @property
    def is_table(self) -> bool:
        return True


@dataclass(frozen=True, eq=False, kw_only=True)
class ToStream(Node):
    """The changes of a table as a stream of the new rows. A deletion has no value."""

    @property
    def is_table(self) -> bool:
        return False


@dataclass(frozen=True, eq=False, kw_only=True)
class TableGroup(Node):
    """The rows of a table under another key: `function` gives `(key, value)`. When a row changes
    its group, the old group gets a deletion before the new one gets the row."""

    function: Callable[[Any, Any, RecordContext], tuple[Any, Any]]


@dataclass(frozen=True, eq=False, kw_only=True)
class Aggregate(_Stateful):
    """Folds the records of each key, in each window, into one value.

    `add(key, value, aggregate)` and `undo` return the new aggregate. A table needs `undo`; session
    windows need `merge(key, one, other)`.
    """

    initial: Callable[[], Any]
    add: Callable[[Any, Any, Any], Any]
    undo: Callable[[Any, Any, Any], Any] | None = None
    windows: Windows | None = None
    merge: Callable[[Any, Any, Any], Any] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.windows, SessionWindows) and self.merge is None:
            raise ValueError("an aggregate over sessions needs a function that merges two")
        if self.parents[0].is_table and self.undo is None:
            raise ValueError("an aggregate over a table needs a function that undoes a row")

    @property
    def is_table(self) -> bool:
        return True


@dataclass(frozen=True, eq=False, kw_only=True)
class Suppress(_Stateful):
    """Holds changes of a table back. With `until_closed`, until the window of the key is closed;
    else for `wait_ms` after the first change, and then passes on the newest."""

    until_closed: bool
    wait_ms: int


@dataclass(frozen=True, eq=False, kw_only=True)
class StreamJoin(Node):
    """Joins two streams within a window. `joiner(key, left, right)`."""

    kind: JoinKind
    windows: JoinWindows
    joiner: Callable[[Any, Any, Any], Any]
    store: str

    @property
    def stores(self) -> tuple[str, ...]:
        return (f"{self.store}-left", f"{self.store}-right", f"{self.store}-waiting")


@dataclass(frozen=True, eq=False, kw_only=True)
class StreamTableJoin(Node):
    """Looks each record up in a table. `key_of` gives the key to look up, if it is not the
    record's own: the table is then asked in the partition of that key (a global table)."""

    kind: JoinKind
    joiner: Callable[[Any, Any, Any], Any]
    store: str
    key_of: OnRecord | None = None
    table_codec: Codec | None = None
    """How keys of the table are encoded, where `key_of` is given."""

    @property
    def is_table(self) -> bool:
        return False

    @property
    def stores(self) -> tuple[str, ...]:
        return (f"{self.store}-table",)


@dataclass(frozen=True, eq=False, kw_only=True)
class TableJoin(Node):
    """Joins two tables by their keys. Either may be materialised by its own store only."""

    kind: JoinKind
    joiner: Callable[[Any, Any, Any], Any]
    store: str

    @property
    def stores(self) -> tuple[str, ...]:
        return (f"{self.store}-left", f"{self.store}-right")


@dataclass(frozen=True, eq=False, kw_only=True)
class ForeignKeyJoin(Node):
    """Joins a table with the row of another that `foreign_key(key, value)` names. The result has
    the keys of the left table."""

    kind: JoinKind
    foreign_key: Callable[[Any, Any], Any]
    joiner: Callable[[Any, Any, Any], Any]
    left_codec: Codec
    right_codec: Codec
    store: str

    @property
    def stores(self) -> tuple[str, ...]:
        return (f"{self.store}-left", f"{self.store}-right", f"{self.store}-subscriptions")


@dataclass(frozen=True, eq=False, kw_only=True)
class Process(Node):
    """A processor of the user's, with state stores and punctuators (`running.processors`)."""

    make: Callable[[], Any]
    store_names: tuple[str, ...] = ()

    @property
    def is_table(self) -> bool:
        return False

    @property
    def stores(self) -> tuple[str, ...]:
        return self.store_names


@dataclass(frozen=True, eq=False, kw_only=True)
class Sink(Node):
    """Writes records to a topic. `partition_of` chooses the partition; without it, the bytes of the
    key do."""

    topic: str
    key_codec: Codec
    value_codec: Codec
    timestamp_of: OnRecord | None = None
    partition_of: Callable[[Any, Any, int], int] | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class Collect(Node):
    """Gives each result to a function instead of a topic: a query whose rows someone waits for."""

    function: Callable[[Any, Any, int, RecordContext], None]


@dataclass(frozen=True, eq=False)
class Plan:
    """Everything that runs together. `ends` are the operators that nothing follows."""

    ends: tuple[Node, ...]
    nodes: tuple[Node, ...] = field(init=False)
    """All operators, parents before children."""

    def __post_init__(self) -> None:
        found: dict[Node, None] = {}

        def visit(node: Node) -> None:
            if node not in found:
                for parent in node.parents:
                    visit(parent)
                found[node] = None

        for end in self.ends:
            visit(end)
        object.__setattr__(self, "nodes", tuple(found))

    @property
    def sources(self) -> tuple[Source, ...]:
        return tuple(node for node in self.nodes if isinstance(node, Source))

    @property
    def sinks(self) -> tuple[Sink, ...]:
        return tuple(node for node in self.nodes if isinstance(node, Sink))

    @property
    def source_topics(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(source.topic for source in self.sources))

    @property
    def latest_topics(self) -> frozenset[str]:
        """The topics whose reading begins at their end. A topic that is two sources, of which one
        begins at its beginning, is read from there."""
        resets: dict[str, set[str]] = {}
        for source in self.sources:
            resets.setdefault(source.topic, set()).add(source.reset)
        return frozenset(topic for topic, found in resets.items() if found == {"latest"})
