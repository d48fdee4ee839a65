"""Records in groups, by key: what can be counted, reduced and aggregated."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from odradek.streams.dsl.streams import Stream
from odradek.streams.dsl.tables import Table
from odradek.streams.formats import primitives
from odradek.streams.formats.windowed import SessionWindowedCodec, TimeWindowedCodec
from odradek.streams.plan import nodes
from odradek.streams.plan.nodes import Codec, Node
from odradek.streams.plan.records import Windowed
from odradek.streams.plan.windows import SessionWindows, Windows

if TYPE_CHECKING:
    from odradek.streams.dsl.builder import StreamsBuilder

K = TypeVar("K")
V = TypeVar("V")
A = TypeVar("A")


class GroupedStream(Generic[K, V]):
    """A stream in groups. `windowed_by` divides each group further, by time."""

    def __init__(self, stream: Stream[K, V], windows: Windows | None = None) -> None:
        self._stream = stream
        self._windows = windows

    def windowed_by(self, windows: Windows) -> "GroupedStream[Windowed, V]":
        """Divides each group by time: the keys of results are `Windowed`."""
        return GroupedStream(cast(Stream[Any, V], self._stream), windows)

    def count(self, *, store: str | None = None, name: str | None = None) -> Table[K, int]:
        return self._aggregate(
            "count", (lambda: 0, lambda _, __, count: count + 1, lambda _, one, two: one + two),
            primitives.LONG, store, name,
        )  # fmt: skip

    def reduce(
        self, function: Callable[[V, V], V], *, store: str | None = None, name: str | None = None
    ) -> Table[K, V]:
        """Combines the values of a group: the first is the result, until there is a second."""

        def add(_: Any, value: Any, result: Any) -> Any:
            return value if result is None else function(result, value)

        def merge(_: Any, one: Any, two: Any) -> Any:
            return two if one is None else one if two is None else function(one, two)

        return self._aggregate(
            "reduce", (lambda: None, add, merge), self._stream.value_codec, store, name
        )  # fmt: skip

    def aggregate(
        self,
        initial: Callable[[], A],
        add: Callable[[K, V, A], A],
        *,
        merge: Callable[[K, A, A], A] | None = None,
        value: Codec = primitives.JSON,
        store: str | None = None,
        name: str | None = None,
    ) -> Table[K, A]:
        """Folds the values of a group: `add(key, value, aggregate)` returns the new aggregate.
        Sessions need `merge(key, one, other)`."""
        return self._aggregate("aggregate", (initial, add, merge), value, store, name)

    def _aggregate(
        self,
        kind: str,
        functions: tuple[Any, Any, Any],
        value: Codec,
        store: str | None,
        name: str | None,
    ) -> Table[Any, Any]:
        builder, windows = self._stream.builder, self._windows
        initial, add, merge = functions
        name = builder.name(kind, name)
        node = nodes.Aggregate(
            name=name, parents=(self._stream.node,), store=store or name, initial=initial,
            add=add, merge=merge, windows=windows, detail="" if windows is None else str(windows),
        )  # fmt: skip
        key = self._stream.key_codec
        if isinstance(windows, SessionWindows):
            key = SessionWindowedCodec(key)
        elif windows is not None:
            key = TimeWindowedCodec(key, windows.size_ms)
        return Table(builder, builder.add(node), key, value, windows)


class GroupedTable(Generic[K, V]):
    """A table in groups. A row that changes is undone in its old group and added to its new one."""

    def __init__(self, builder: "StreamsBuilder", node: Node, key: Codec, value: Codec) -> None:
        self._builder = builder
        self._node = node
        self._key_codec = key
        self._value_codec = value

    def count(self, *, store: str | None = None, name: str | None = None) -> Table[K, int]:
        return self.aggregate(
            lambda: 0, lambda _, __, count: count + 1, lambda _, __, count: count - 1,
            value=primitives.LONG, store=store, name=name,
        )  # fmt: skip

    def reduce(
        self,
        add: Callable[[V, V], V],
        undo: Callable[[V, V], V],
        *,
        store: str | None = None,
        name: str | None = None,
    ) -> Table[K, V]:
        """Combines the rows of a group; `undo(result, row)` takes a row out again."""
        return self.aggregate(
            lambda: None,
            lambda _, row, result: row if result is None else add(result, row),
            lambda _, row, result: undo(result, row),
            value=self._value_codec, store=store, name=name,
        )  # fmt: skip

    def aggregate(
        self,
        initial: Callable[[], Any],
        add: Callable[[K, V, Any], Any],
        undo: Callable[[K, V, Any], Any],
        *,
        value: Codec = primitives.JSON,
        store: str | None = None,
        name: str | None = None,
    ) -> Table[K, Any]:
        """Folds the rows of a group; `undo(key, row, aggregate)` takes a row out again."""
        name = self._builder.name("aggregate", name)
        node = nodes.Aggregate(
            name=name, parents=(self._node,), store=store or name, initial=initial, add=add,
            undo=undo,
        )  # fmt: skip
        return Table(self._builder, self._builder.add(node), self._key_codec, value)
