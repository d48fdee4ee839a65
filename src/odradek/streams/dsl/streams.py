"""A stream: records that do not replace each other. Every method returns a new stream or table."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from odradek.streams.plan import nodes
from odradek.streams.plan.nodes import Codec, JoinKind, Node
from odradek.streams.plan.windows import JoinWindows

if TYPE_CHECKING:
    from odradek.streams.dsl.builder import StreamsBuilder
    from odradek.streams.dsl.grouped import GroupedStream
    from odradek.streams.dsl.tables import Table
    from odradek.streams.running.processors import Processor

K = TypeVar("K")
V = TypeVar("V")
K2 = TypeVar("K2")
V2 = TypeVar("V2")
V3 = TypeVar("V3")


class Stream(Generic[K, V]):
    """Records of a topic, or what was made of them."""

    def __init__(
        self,
        builder: "StreamsBuilder",
        node: Node,
        key: Codec,
        value: Codec,
        *,
        has_new_keys: bool = False,
    ) -> None:
        self.builder = builder
        self.node = node
        self.key_codec = key
        self.value_codec = value
        self._has_new_keys = has_new_keys

    def _with(self, node: Node, **changes: Any) -> "Stream[Any, Any]":
        given = {"has_new_keys": self._has_new_keys, **changes}
        key, value = given.pop("key", None), given.pop("value", None)
        return Stream(
            self.builder, self.builder.add(node),
            key or self.key_codec, value or self.value_codec, **given,
        )  # fmt: skip

    def _flat_map(
        self, kind: str, name: str | None, function: Any, **changes: Any
    ) -> "Stream[Any, Any]":
        name = self.builder.name(kind, name)
        return self._with(
            nodes.FlatMap(name=name, parents=(self.node,), function=function), **changes
        )

    # One record at a time

    def filter(
        self, predicate: Callable[[K, V], bool], *, name: str | None = None
    ) -> "Stream[K, V]":
        """Keeps the records for which the function is true."""
        return self._with(
            nodes.Filter(
                name=self.builder.name("filter", name), parents=(self.node,),
                predicate=lambda key, value, _: predicate(key, value),
            )
        )  # fmt: skip

    def filter_not(
        self, predicate: Callable[[K, V], bool], *, name: str | None = None
    ) -> "Stream[K, V]":
        return self.filter(lambda key, value: not predicate(key, value), name=name)

    def map_values(
        self, function: Callable[[V], V2], *, value: Codec | None = None, name: str | None = None
    ) -> "Stream[K, V2]":
        """Makes a new value of each value; the key stays, so nothing has to be repartitioned."""
        node = nodes.MapValues(
            name=self.builder.name("map-values", name), parents=(self.node,),
            function=lambda _, one, __: function(one),
        )  # fmt: skip
        return self._with(node, value=value)

    def map(
        self,
        function: Callable[[K, V], tuple[K2, V2]],
        *,
        key: Codec | None = None,
        value: Codec | None = None,
        name: str | None = None,
    ) -> "Stream[K2, V2]":
        """Makes a new key and value of each record."""
        return self._flat_map(
            "map", name, lambda old, one, _: (function(old, one),),
            key=key, value=value, has_new_keys=True,
        )  # fmt: skip

    def select_key(
        self, function: Callable[[K, V], K2], *, key: Codec | None = None, name: str | None = None
    ) -> "Stream[K2, V]":
        return self._flat_map(
            "select-key", name, lambda old, value, _: ((function(old, value), value),),
            key=key, has_new_keys=True,
        )  # fmt: skip

    def flat_map(
        self,
        function: Callable[[K, V], Iterable[tuple[K2, V2]]],
        *,
        key: Codec | None = None,
        value: Codec | None = None,
        name: str | None = None,
    ) -> "Stream[K2, V2]":
        """Makes any number of records of each one."""
        return self._flat_map(
            "flat-map", name, lambda old, one, _: function(old, one),
            key=key, value=value, has_new_keys=True,
        )  # fmt: skip

    def flat_map_values(
        self,
        function: Callable[[V], Iterable[V2]],
        *,
        value: Codec | None = None,
        name: str | None = None,
    ) -> "Stream[K, V2]":
        return self._flat_map(
            "flat-map-values", name,
            lambda key, one, _: ((key, made) for made in function(one)), value=value,
        )  # fmt: skip

    def peek(
        self, function: Callable[[K, V], object], *, name: str | None = None
    ) -> "Stream[K, V]":
        """Shows each record to a function."""
        return self._with(
            nodes.Peek(
                name=self.builder.name("peek", name), parents=(self.node,),
                function=lambda key, value, _: function(key, value),
            )
        )  # fmt: skip

    def for_each(self, function: Callable[[K, V], object], *, name: str | None = None) -> None:
        self.peek(function, name=name)

    def branch(self, *predicates: Callable[[K, V], bool]) -> "list[Stream[K, V]]":
        """Returns a stream for each function, and one more for what fits none. A record goes to the
        first that is true."""

        def first_is(wanted: int) -> Callable[[K, V], bool]:
            def is_first(key: K, value: V) -> bool:
                found = (place for place, fits in enumerate(predicates) if fits(key, value))
                return next(found, len(predicates)) == wanted

            return is_first

        return [self.filter(first_is(place)) for place in range(len(predicates) + 1)]

    def merge(self, other: "Stream[K, V]", *, name: str | None = None) -> "Stream[K, V]":
        """Returns the records of both, in no certain order."""
        node = nodes.Merge(name=self.builder.name("merge", name), parents=(self.node, other.node))
        return self._with(node, has_new_keys=self._has_new_keys or other._has_new_keys)

    # Keys

    def repartition(
        self, *, key: Codec | None = None, partitions: int | None = None, name: str | None = None
    ) -> "Stream[K, V]":
        """Moves each record to the partition of its key. Groups and joins do it themselves."""
        node = nodes.Repartition(
            name=self.builder.name("repartition", name), parents=(self.node,),
            key_codec=key or self.key_codec, partitions=partitions,
        )  # fmt: skip
        return self._with(node, key=key, has_new_keys=False)

    def placed(self) -> "Stream[K, V]":
        """Returns the stream with each record in the partition of its key."""
        return self.repartition() if self._has_new_keys else self

    def group_by_key(self) -> "GroupedStream[K, V]":
        from odradek.streams.dsl.grouped import GroupedStream  # noqa: PLC0415 - it imports us

        return GroupedStream(self.placed())

    def group_by(
        self, function: Callable[[K, V], K2], *, key: Codec | None = None, name: str | None = None
    ) -> "GroupedStream[K2, V]":
        return self.select_key(function, key=key, name=name).group_by_key()

    def to_table(self, *, store: str | None = None, name: str | None = None) -> "Table[K, V]":
        """Returns a table in which the newest record of a key is its row."""
        from odradek.streams.dsl.tables import Table  # noqa: PLC0415 - it imports us

        placed = self.placed()
        name = self.builder.name("to-table", name)
        node = nodes.ToTable(name=name, parents=(placed.node,), store=store or f"{name}-rows")
        return Table(self.builder, self.builder.add(node), self.key_codec, self.value_codec)

    # Joins

    def _stream_join(
        self,
        kind: JoinKind,
        other: "Stream[K, V2]",
        joiner: Any,
        *,
        windows: JoinWindows,
        value: Codec | None,
        name: str | None,
    ) -> "Stream[K, Any]":
        left, right = self.placed(), other.placed()
        name = self.builder.name("join", name)
        node = nodes.StreamJoin(
            name=name, parents=(left.node, right.node), kind=kind, windows=windows, store=name,
            joiner=lambda _, one, two: joiner(one, two), detail=f"{kind.value} {windows}",
        )  # fmt: skip
        return left._with(node, value=value)

    def join(
        self, other: "Stream[K, V2]", joiner: Callable[[V, V2], V3], windows: JoinWindows,
        *, value: Codec | None = None, name: str | None = None,
    ) -> "Stream[K, V3]":  # fmt: skip
        """Joins records of two streams with the same key, within a window of time."""
        return self._stream_join(
            JoinKind.INNER, other, joiner, windows=windows, value=value, name=name
        )

    def left_join(
        self, other: "Stream[K, V2]", joiner: Callable[[V, V2 | None], V3], windows: JoinWindows,
        *, value: Codec | None = None, name: str | None = None,
    ) -> "Stream[K, V3]":  # fmt: skip
        return self._stream_join(
            JoinKind.LEFT, other, joiner, windows=windows, value=value, name=name
        )

    def outer_join(
        self, other: "Stream[K, V2]", joiner: Callable[[V | None, V2 | None], V3],
        windows: JoinWindows, *, value: Codec | None = None, name: str | None = None,
    ) -> "Stream[K, V3]":  # fmt: skip
        return self._stream_join(
            JoinKind.OUTER, other, joiner, windows=windows, value=value, name=name
        )

    def join_table(
        self,
        table: "Table[Any, V2]",
        joiner: Callable[[V, V2 | None], V3],
        *,
        is_left: bool = False,
        key_of: Callable[[K, V], Any] | None = None,
        value: Codec | None = None,
        name: str | None = None,
    ) -> "Stream[K, V3]":
        """Looks each record up in a table, as it is at that moment. `is_left` keeps records without
        a row. `key_of(key, value)` gives the key to look up, if it is not the record's own."""
        left = self.placed() if key_of is None else self
        name = self.builder.name("join-table", name)
        kind = JoinKind.LEFT if is_left else JoinKind.INNER
        wanted = None if key_of is None else (lambda key, one, _: key_of(key, one))
        node = nodes.StreamTableJoin(
            name=name, parents=(left.node, table.node), kind=kind, store=name, key_of=wanted,
            table_codec=table.key_codec, joiner=lambda _, one, two: joiner(one, two),
            detail=kind.value,
        )  # fmt: skip
        return left._with(node, value=value)

    # Processors and sinks

    def process(
        self,
        make: "Callable[[], Processor]",
        *stores: str,
        key: Codec | None = None,
        value: Codec | None = None,
        name: str | None = None,
    ) -> "Stream[Any, Any]":
        """Gives each record to a processor, one for each partition, with the stores of these names.
        The stores are found by the record's key, so records are repartitioned first if need be."""
        placed = self.placed() if stores else self
        node = nodes.Process(
            name=self.builder.name("process", name), parents=(placed.node,), make=make,
            store_names=stores,
        )  # fmt: skip
        return placed._with(node, key=key, value=value, has_new_keys=True)

    def to(
        self,
        topic: str,
        *,
        key: Codec | None = None,
        value: Codec | None = None,
        partition_of: Callable[[K, V, int], int] | None = None,
        name: str | None = None,
    ) -> None:
        """Writes to a topic. `partition_of(key, value, count)` chooses the partition."""
        node = nodes.Sink(
            name=self.builder.name("to", name), parents=(self.node,), topic=topic,
            key_codec=key or self.key_codec, value_codec=value or self.value_codec,
            partition_of=partition_of,
        )  # fmt: skip
        self.builder.add(node)
