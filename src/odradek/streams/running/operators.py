"""Operators without state, and what all operators are: a node of the plan, in one partition.

An operator gets records one by one, `process(key, value, timestamp_ms)`, and forwards what it makes
of them to the operators after it before it returns. The value in a table is a `Change`.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from odradek.streams.plan import nodes
from odradek.streams.plan.records import Change, Timestamped

if TYPE_CHECKING:
    from odradek.streams.running.executor import PartitionTask

Handler = Callable[[Any, Any, int], None]
N = TypeVar("N", bound=nodes.Node)


class Operator(Generic[N]):
    def __init__(self, task: "PartitionTask", node: N) -> None:
        self.task = task
        self.node = node
        self.context = task.executor.context
        self.children: list[Handler] = []

    def handler(self, parent: int) -> Handler:
        """Returns what takes the records of a parent, given by its place among the parents."""
        return self.process

    def process(self, key: Any, value: Any, timestamp_ms: int) -> None:
        raise NotImplementedError

    def forward(self, key: Any, value: Any, timestamp_ms: int) -> None:
        for child in self.children:
            child(key, value, timestamp_ms)

    def advance(self, now_ms: int) -> None:
        """Called when the clock has moved, for what waits by the clock."""

    def close(self) -> None:
        """Called once, when the executor ends."""


class PassOn(Operator[nodes.Node]):
    """A source of a stream, and the merging of streams: records go on as they are."""

    def process(self, key: Any, value: Any, timestamp_ms: int) -> None:
        self.forward(key, value, timestamp_ms)


class TableSource(Operator[nodes.TableSource]):
    """Turns records into changes. Records without a key belong to no row and are dropped."""

    def __init__(self, task: "PartitionTask", node: nodes.TableSource) -> None:
        super().__init__(task, node)
        self._rows = task.key_value_store(node.store)

    def process(self, key: Any, value: Any, timestamp_ms: int) -> None:
        if key is None:
            return
        before: Timestamped | None = self._rows.get(key)
        self._rows.put(key, None if value is None else Timestamped(value, timestamp_ms))
        self.forward(key, Change(before and before.value, value), timestamp_ms)


class ToTable(TableSource):
    pass


class StreamFilter(Operator[nodes.Filter]):
    def process(self, key: Any, value: Any, timestamp_ms: int) -> None:
        self.context.timestamp_ms = timestamp_ms
        if self.node.predicate(key, value, self.context):
            self.forward(key, value, timestamp_ms)


class TableFilter(Operator[nodes.Filter]):
    """Lets rows pass that fit. A row that fitted before and no longer does is deleted."""

    def process(self, key: Any, value: Change, timestamp_ms: int) -> None:
        self.context.timestamp_ms = timestamp_ms
        old, new = self._passed(key, value.old), self._passed(key, value.new)
        if old is not None or new is not None:
            self.forward(key, Change(old, new), timestamp_ms)

    def _passed(self, key: Any, row: Any) -> Any:
        return row if row is not None and self.node.predicate(key, row, self.context) else None


class StreamMapValues(Operator[nodes.MapValues]):
    def process(self, key: Any, value: Any, timestamp_ms: int) -> None:
        self.context.timestamp_ms = timestamp_ms
        self.forward(key, self.node.function(key, value, self.context), timestamp_ms)


class TableMapValues(Operator[nodes.MapValues]):
    """Maps the rows of a table. With a store, what a row was mapped to before is remembered: it may
    have depended on the time. Without one, it is computed again."""

    def __init__(self, task: "PartitionTask", node: nodes.MapValues) -> None:
        super().__init__(task, node)
        self._rows = None if node.store is None else task.key_value_store(node.store)

    def process(self, key: Any, value: Change, timestamp_ms: int) -> None:
        self.context.timestamp_ms = timestamp_ms
        new = self._mapped(key, value.new)
        if self._rows is None:
            old = self._mapped(key, value.old)
        else:
            old = self._rows.get(key)
            self._rows.put(key, new)
        self.forward(key, Change(old, new), timestamp_ms)

    def _mapped(self, key: Any, row: Any) -> Any:
        return None if row is None else self.node.function(key, row, self.context)


class FlatMap(Operator[nodes.FlatMap]):
    def process(self, key: Any, value: Any, timestamp_ms: int) -> None:
        self.context.timestamp_ms = timestamp_ms
        for new_key, new_value in self.node.function(key, value, self.context):
            self.forward(new_key, new_value, timestamp_ms)


class Peek(Operator[nodes.Peek]):
    def process(self, key: Any, value: Any, timestamp_ms: int) -> None:
        self.context.timestamp_ms = timestamp_ms
        self.node.function(key, value, self.context)
        self.forward(key, value, timestamp_ms)


class ToStream(Operator[nodes.ToStream]):
    def process(self, key: Any, value: Change, timestamp_ms: int) -> None:
        self.forward(key, value.new, timestamp_ms)


class TableGroup(Operator[nodes.TableGroup]):
    """Gives each row the key of its group. A row whose group has no key is in none."""

    def process(self, key: Any, value: Change, timestamp_ms: int) -> None:
        self.context.timestamp_ms = timestamp_ms
        old_key, old = self._grouped(key, value.old)
        new_key, new = self._grouped(key, value.new)
        if old_key == new_key:
            if new_key is not None:
                self.forward(new_key, Change(old, new), timestamp_ms)
            return
        if old_key is not None:
            self.forward(old_key, Change(old, None), timestamp_ms)
        if new_key is not None:
            self.forward(new_key, Change(None, new), timestamp_ms)

    def _grouped(self, key: Any, row: Any) -> tuple[Any, Any]:
        return (None, None) if row is None else self.node.function(key, row, self.context)


class Repartition(Operator[nodes.Repartition]):
    """Sends each record to the instance of this operator in the partition of its key. It is handled
    there when the present record is done with, as if a topic were between."""

    def process(self, key: Any, value: Any, timestamp_ms: int) -> None:
        executor = self.task.executor
        if key is None:
            partition = self.task.partition
        else:
            data = self.node.key_codec.encode(key)
            count = executor.partitions_below(self.node)
            partition = executor.partition_of(data, count)
        executor.enqueue(partition, self.node, key, value, timestamp_ms)


class Sink(Operator[nodes.Sink]):
    def process(self, key: Any, value: Any, timestamp_ms: int) -> None:
        node, context = self.node, self.context
        if isinstance(value, Change):
            value = value.new
        context.timestamp_ms = timestamp_ms
        if node.timestamp_of is not None and value is not None:
            event_ms: int | None = node.timestamp_of(key, value, context)
            if event_ms is None or event_ms < 0:
                return
            timestamp_ms = event_ms
        self.task.executor.write(node, self.task.partition, key, value, timestamp_ms)


class Collect(Operator[nodes.Collect]):
    def process(self, key: Any, value: Any, timestamp_ms: int) -> None:
        if isinstance(value, Change):
            value = value.new
        self.context.timestamp_ms = timestamp_ms
        self.node.function(key, value, timestamp_ms, self.context)
