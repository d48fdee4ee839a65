"""A table: rows by key, and their changes. Every method returns a new table or stream."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from odradek.streams.dsl.streams import Stream
from odradek.streams.plan import nodes
from odradek.streams.plan.nodes import Codec, JoinKind, Node
from odradek.streams.plan.windows import Windows

if TYPE_CHECKING:
    from odradek.streams.dsl.builder import StreamsBuilder
    from odradek.streams.dsl.grouped import GroupedTable

K = TypeVar("K")
V = TypeVar("V")
K2 = TypeVar("K2")
V2 = TypeVar("V2")
V3 = TypeVar("V3")


class Table(Generic[K, V]):
    def __init__(
        self,
        builder: "StreamsBuilder",
        node: Node,
        key: Codec,
        value: Codec,
        windows: Windows | None = None,
    ) -> None:
        self.builder = builder
        self.node = node
        self.key_codec = key
        self.value_codec = value
        self._windows = windows

    def _with(self, node: Node, value: Codec | None = None) -> "Table[K, Any]":
        return Table(
            self.builder, self.builder.add(node), self.key_codec, value or self.value_codec,
            self._windows,
        )  # fmt: skip

    def filter(
        self, predicate: Callable[[K, V], bool], *, name: str | None = None
    ) -> "Table[K, V]":
        """Keeps the rows for which the function is true; one that no longer is, is deleted."""
        return self._with(
            nodes.Filter(
                name=self.builder.name("filter", name), parents=(self.node,),
                predicate=lambda key, value, _: predicate(key, value),
            )
        )  # fmt: skip

    def map_values(
        self, function: Callable[[V], V2], *, value: Codec | None = None, name: str | None = None
    ) -> "Table[K, V2]":
        """Makes a new row of each row. The function must depend on the row alone."""
        node = nodes.MapValues(
            name=self.builder.name("map-values", name), parents=(self.node,),
            function=lambda _, row, __: function(row),
        )  # fmt: skip
        return self._with(node, value)

    def to_stream(self, *, name: str | None = None) -> Stream[K, V]:
        """Returns the changes as records; a deletion has the value None."""
        node = nodes.ToStream(name=self.builder.name("to-stream", name), parents=(self.node,))
        return Stream(self.builder, self.builder.add(node), self.key_codec, self.value_codec)

    def to(self, topic: str, *, key: Codec | None = None, value: Codec | None = None) -> None:
        """Writes the changes to a topic."""
        self.to_stream().to(topic, key=key, value=value)

    def group_by(
        self,
        function: Callable[[K, V], tuple[K2, V2]],
        *,
        key: Codec | None = None,
        value: Codec | None = None,
        name: str | None = None,
    ) -> "GroupedTable[K2, V2]":
        """Puts each row in a group: the function gives the group's key and a value."""
        from odradek.streams.dsl.grouped import GroupedTable  # noqa: PLC0415 - it imports us

        builder = self.builder
        group = nodes.TableGroup(
            name=builder.name("group-by", name), parents=(self.node,),
            function=lambda old, row, _: function(old, row),
        )  # fmt: skip
        placed = nodes.Repartition(
            name=builder.name("repartition"), parents=(builder.add(group),),
            key_codec=key or self.key_codec,
        )  # fmt: skip
        return GroupedTable(
            builder, builder.add(placed), key or self.key_codec, value or self.value_codec
        )

    def suppress(
        self,
        *,
        until_window_closes: bool = False,
        wait_ms: int | None = None,
        name: str | None = None,
    ) -> "Table[K, V]":
        """Holds results back: until the window of the key is closed, or for `wait_ms` of stream
        time, after which the newest is passed on."""
        if until_window_closes == (wait_ms is not None):
            raise ValueError("suppress() takes until_window_closes=True or wait_ms")
        if until_window_closes:
            if self._windows is None:
                raise ValueError("only a windowed table has windows that close: give wait_ms")
            wait_ms = self._windows.closes_after_ms
        name = self.builder.name("suppress", name)
        node = nodes.Suppress(
            name=name, parents=(self.node,), store=name, until_closed=until_window_closes,
            wait_ms=wait_ms or 0,
        )  # fmt: skip
        return self._with(node)

    # Joins

    def _join(
        self, kind: JoinKind, other: "Table[K, V2]", joiner: Any,
        value: Codec | None, name: str | None,
    ) -> "Table[K, Any]":  # fmt: skip
        name = self.builder.name("join", name)
        node = nodes.TableJoin(
            name=name, parents=(self.node, other.node), kind=kind, store=name,
            joiner=lambda _, left, right: joiner(left, right), detail=kind.value,
        )  # fmt: skip
        return self._with(node, value)

    def join(
        self, other: "Table[K, V2]", joiner: Callable[[V, V2], V3],
        *, value: Codec | None = None, name: str | None = None,
    ) -> "Table[K, V3]":  # fmt: skip
        """Joins the rows of two tables with the same key."""
        return self._join(JoinKind.INNER, other, joiner, value, name)

    def left_join(
        self, other: "Table[K, V2]", joiner: Callable[[V, V2 | None], V3],
        *, value: Codec | None = None, name: str | None = None,
    ) -> "Table[K, V3]":  # fmt: skip
        return self._join(JoinKind.LEFT, other, joiner, value, name)

    def outer_join(
        self, other: "Table[K, V2]", joiner: Callable[[V | None, V2 | None], V3],
        *, value: Codec | None = None, name: str | None = None,
    ) -> "Table[K, V3]":  # fmt: skip
        return self._join(JoinKind.OUTER, other, joiner, value, name)

    def join_foreign(
        self,
        other: "Table[K2, V2]",
        foreign_key: Callable[[V], K2 | None],
        joiner: Callable[[V, V2 | None], V3],
        *,
        is_left: bool = False,
        value: Codec | None = None,
        name: str | None = None,
    ) -> "Table[K, V3]":
        """Joins each row with the row of another table that it names. `is_left` keeps rows that
        name none."""
        name = self.builder.name("join-foreign", name)
        kind = JoinKind.LEFT if is_left else JoinKind.INNER
        node = nodes.ForeignKeyJoin(
            name=name, parents=(self.node, other.node), kind=kind, store=name,
            foreign_key=lambda _, row: foreign_key(row), left_codec=self.key_codec,
            right_codec=other.key_codec, detail=kind.value,
            joiner=lambda _, left, right: joiner(left, right),
        )  # fmt: skip
        return self._with(node, value)
