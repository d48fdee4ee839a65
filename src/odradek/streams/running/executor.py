"""Delivers records to the operators of their partition, one at a time, each to its end.

An `Executor` runs all partitions of a plan. A record that changes its partition, or that a topic of
the plan is both written and read in, waits in a queue until the present one is done with; `deliver`
returns when the queue is empty. Nothing here waits or does I/O: an `Output` takes what is written.
"""

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, Protocol

from odradek.client.producer.murmur2 import murmur2
from odradek.streams.plan import nodes
from odradek.streams.plan.nodes import Plan
from odradek.streams.plan.records import Headers, RecordContext, Windowed
from odradek.streams.plan.windows import SessionWindows
from odradek.streams.running import (
    aggregates,
    operators,
    processors,
    stream_joins,
    suppressing,
    table_joins,
)
from odradek.streams.running.operators import Operator
from odradek.streams.running.stores import (
    STREAM_TIMES,
    JoinBuffer,
    KeyValueStore,
    Log,
    SessionStore,
    Store,
    StreamTime,
    WindowStore,
)
from odradek.world.blocking_calls import blocking


class InputRecord(NamedTuple):
    """A record of a source topic, as bytes."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


class OutputRecord(NamedTuple):
    topic: str
    partition: int | None
    """None where there is no key: any partition will do."""
    timestamp_ms: int
    key: bytes | None
    value: bytes | None


class Output(Protocol):
    """Where results go. `changed` is called with every change of a store."""

    def write(self, record: OutputRecord) -> None: ...

    def changed(self, partition: int, store: str, key: Any, value: Any) -> None: ...


class CannotRun(ValueError):
    """The plan cannot run on these topics; the message says why."""


BadRecord = Callable[[InputRecord, Exception], None]
"""Called with a record that cannot be decoded. It raises, or returns to have it skipped."""


BadResult = Callable[[nodes.Sink, Exception], None]
"""Called with a result that cannot be encoded. It raises, or returns to have it left out."""


def raise_for_result(node: nodes.Sink, error: Exception) -> None:
    raise ValueError(f"a result for {node.topic} cannot be written: {error}") from error


def raise_for(record: InputRecord, error: Exception) -> None:
    raise ValueError(
        f"the record at offset {record.offset} of {record.topic}-{record.partition} cannot be"
        f" decoded: {error}"
    ) from error


_OPERATORS: Final[dict[type[nodes.Node], type[Operator[Any]]]] = {
    nodes.Source: operators.PassOn,
    nodes.TableSource: operators.TableSource,
    nodes.FlatMap: operators.FlatMap,
    nodes.Peek: operators.Peek,
    nodes.Merge: operators.PassOn,
    nodes.Repartition: operators.Repartition,
    nodes.ToTable: operators.ToTable,
    nodes.ToStream: operators.ToStream,
    nodes.TableGroup: operators.TableGroup,
    nodes.Suppress: suppressing.Suppress,
    nodes.StreamJoin: stream_joins.StreamJoin,
    nodes.StreamTableJoin: stream_joins.StreamTableJoin,
    nodes.TableJoin: table_joins.TableJoin,
    nodes.ForeignKeyJoin: table_joins.ForeignKeyJoin,
    nodes.Process: processors.Process,
    nodes.Sink: operators.Sink,
    nodes.Collect: operators.Collect,
}


def _operator_of(node: nodes.Node) -> type[Operator[Any]]:
    of_table = bool(node.parents) and node.parents[0].is_table
    if isinstance(node, nodes.Filter):
        return operators.TableFilter if of_table else operators.StreamFilter
    if isinstance(node, nodes.MapValues):
        return operators.TableMapValues if of_table else operators.StreamMapValues
    if isinstance(node, nodes.Aggregate):
        if isinstance(node.windows, SessionWindows):
            return aggregates.SessionAggregate
        if node.windows is not None:
            return aggregates.WindowedAggregate
        return aggregates.TableAggregate if of_table else aggregates.StreamAggregate
    return _OPERATORS[type(node)]


class PartitionTask:
    """The operators and stores of one partition."""

    def __init__(self, executor: "Executor", partition: int) -> None:
        self.executor = executor
        self.partition = partition
        self.stores: dict[str, Store] = {}
        self._operators: dict[nodes.Node, Operator[Any]] = {}
        for node in executor.plan.nodes:
            self._operators[node] = _operator_of(node)(self, node)
        for node in executor.plan.nodes:
            # A parent that is given twice, as in a join of a table with itself, has two handlers.
            for index, parent in enumerate(node.parents):
                handler = self._operators[node].handler(index)
                self._operators[parent].children.append(handler)

    def operator(self, node: nodes.Node) -> Operator[Any]:
        return self._operators[node]

    def advance(self, now_ms: int) -> None:
        for operator in self._operators.values():
            operator.advance(now_ms)

    def close(self) -> None:
        for operator in self._operators.values():
            operator.close()

    # Stores. A store that two operators name is the same one.

    def key_value_store(self, name: str) -> KeyValueStore:
        if name not in self.stores:
            self.stores[name] = KeyValueStore(name, self._log())
        store = self.stores[name]
        assert isinstance(store, KeyValueStore)
        return store

    def window_store(self, name: str, retention_ms: int) -> WindowStore:
        store = self.stores[name] = WindowStore(name, retention_ms, self._log())
        return store

    def session_store(self, name: str, retention_ms: int) -> SessionStore:
        store = self.stores[name] = SessionStore(name, retention_ms, self._log())
        return store

    def join_buffer(self, name: str, retention_ms: int) -> JoinBuffer:
        store = self.stores[name] = JoinBuffer(name, retention_ms, self._log())
        return store

    def stream_time(self, name: str) -> StreamTime:
        return StreamTime(self.key_value_store(STREAM_TIMES), name)

    def _log(self) -> Log:
        output, partition = self.executor.output, self.partition

        def log(store: str, key: Any, value: Any) -> None:
            output.changed(partition, store, key, value)

        return log


class Executor:
    def __init__(
        self,
        plan: Plan,
        partition_counts: Mapping[str, int],
        output: Output,
        *,
        on_bad_record: BadRecord = raise_for,
        on_bad_result: BadResult = raise_for_result,
        now_ms: int = 0,
    ) -> None:
        """`partition_counts` has every source topic, and may have the topics of sinks."""
        self.plan = plan
        self.output = output
        self.context = RecordContext()
        self.context.now_ms = now_ms
        self.late_records = 0
        self._on_bad_record = on_bad_record
        self._on_bad_result = on_bad_result
        self._counts = partition_counts
        self.partition_count = max(
            (partition_counts[source.topic] for source in plan.sources), default=1
        )
        for node in plan.nodes:
            _check_partitions(self, node)
        self._sources: dict[str, list[nodes.Source]] = {}
        for source in plan.sources:
            self._sources.setdefault(source.topic, []).append(source)
        self._queue: deque[tuple[int, nodes.Node, Any, Any, int]] = deque()
        self._tasks: dict[int, PartitionTask] = {}

    def task(self, partition: int) -> PartitionTask:
        task = self._tasks.get(partition)
        if task is None:
            task = self._tasks[partition] = PartitionTask(self, partition)
        return task

    @property
    def tasks(self) -> list[PartitionTask]:
        return list(self._tasks.values())

    def deliver(self, record: InputRecord) -> None:
        """Handles one record of a source topic."""
        context = self.context
        context.topic, context.partition = record.topic, record.partition
        context.offset, context.headers = record.offset, record.headers
        # A codec may have to ask a registry, and raises `MustBlock`. The record is then delivered
        # again: nothing may have been processed until all have read it.
        decoded = [
            (source, self._decoded(source, record))
            for source in self._sources.get(record.topic, ())
        ]
        for source, found in decoded:
            if isinstance(found, Exception):
                self._on_bad_record(record, found)
                continue
            key, value, timestamp_ms = found
            context.timestamp_ms = record.timestamp_ms
            self.task(record.partition).operator(source).process(key, value, timestamp_ms)
        self._drain()

    def _decoded(
        self, source: nodes.Source, record: InputRecord
    ) -> tuple[Any, Any, int] | Exception:
        """Returns key, value and time of a record, or why it cannot be read."""
        self.context.timestamp_ms = record.timestamp_ms
        timestamp_ms: int | None = record.timestamp_ms
        try:
            key = source.key_codec.decode(record.key)
            value = source.value_codec.decode(record.value)
            if source.timestamp_of is not None and value is not None:
                timestamp_ms = source.timestamp_of(key, value, self.context)
        except OSError:
            # A registry does not answer: nothing is wrong with the record.
            raise
        except (ValueError, ArithmeticError, LookupError, TypeError) as error:
            return error
        if timestamp_ms is None or timestamp_ms < 0:
            return ValueError("its timestamp is missing or negative")
        return key, value, timestamp_ms

    def enqueue(
        self, partition: int, node: nodes.Node, key: Any, value: Any, timestamp_ms: int
    ) -> None:
        """Has a record handled by what follows `node`, in another partition, after this one."""
        self._queue.append((partition, node, key, value, timestamp_ms))

    def _drain(self) -> None:
        while self._queue:
            partition, node, key, value, timestamp_ms = self._queue.popleft()
            self.task(partition).operator(node).forward(key, value, timestamp_ms)

    def advance(self, now_ms: int) -> None:
        """Moves the clock, for punctuators."""
        self.context.now_ms = now_ms
        for task in self.tasks:
            task.advance(now_ms)
        self._drain()

    def write(
        self, node: nodes.Sink, partition: int, key: Any, value: Any, timestamp_ms: int
    ) -> None:
        try:
            # Codecs are prepared before. Where one is not, this waits: what was processed cannot be
            # processed again.
            key_bytes = blocking(node.key_codec.encode, key)
            value_bytes = blocking(node.value_codec.encode, value)
        except OSError:
            raise
        except (ValueError, ArithmeticError, LookupError, TypeError) as error:
            self._on_bad_result(node, error)
            return
        count = self._counts.get(node.topic)
        target: int | None = None
        if node.partition_of is not None and count is not None:
            target = node.partition_of(key, value, count)
        elif key_bytes is not None and count is not None:
            # A windowed key goes where its key goes, so that all windows of a key are together.
            inner = getattr(node.key_codec, "inner", None)
            data = key_bytes
            if isinstance(key, Windowed) and inner is not None:
                data = inner.encode(key.key)
            target = self.partition_of(data, count)
        record = OutputRecord(node.topic, target, timestamp_ms, key_bytes, value_bytes)
        self.output.write(record)

    def note_late(self, node: nodes.Node, key: Any, timestamp_ms: int) -> None:
        """Counts a record that is dropped because its window is closed."""
        self.late_records += 1

    @staticmethod
    def partition_of(key: bytes | None, count: int) -> int:
        """Returns the partition that Kafka's producers choose for a key."""
        return 0 if key is None or count == 1 else (murmur2(key) & 0x7FFFFFFF) % count

    def partitions_below(self, node: nodes.Node) -> int:
        """Returns in how many partitions the results of an operator are."""
        if isinstance(node, nodes.Source):
            return self._counts[node.topic]
        if isinstance(node, nodes.Repartition) and node.like is not None:
            return self.partitions_below(node.like)
        if isinstance(node, nodes.Repartition):
            return self.partition_count if node.partitions is None else node.partitions
        if isinstance(node, nodes.ForeignKeyJoin):
            return self.partitions_below(node.parents[0])
        return max(map(self.partitions_below, node.parents), default=1)

    def close(self) -> None:
        for task in self.tasks:
            task.close()


def _check_partitions(executor: Executor, node: nodes.Node) -> None:
    """Raises if a join reads topics whose partitions do not correspond."""
    if not isinstance(node, nodes.StreamJoin | nodes.TableJoin | nodes.StreamTableJoin):
        return
    if isinstance(node, nodes.StreamTableJoin) and node.key_of is not None:
        return
    left, right = map(executor.partitions_below, node.parents)
    if left != right:
        raise CannotRun(
            f"the join {node.name} needs the same number of partitions on both sides, and its left"
            f" side has {left}, its right side {right}: repartition one of them"
        )
