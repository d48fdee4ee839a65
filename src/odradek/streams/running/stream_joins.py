"""Joins of a stream: with another one, within a window of time, and with a table.

Both sides of a stream-stream join share a stream time. A record of an outer side that finds no
partner waits until its window is closed, and is then emitted without one; an eager join (see
`plan.windows.JoinWindows`) emits it at once.
"""

from functools import partial
from typing import TYPE_CHECKING, Any

from odradek.streams.plan import nodes
from odradek.streams.plan.nodes import JoinKind
from odradek.streams.plan.records import Change
from odradek.streams.running.operators import Handler, Operator
from odradek.streams.running.table_joins import rows_of_parent

if TYPE_CHECKING:
    from odradek.streams.running.executor import PartitionTask


class StreamJoin(Operator[nodes.StreamJoin]):
    def __init__(self, task: "PartitionTask", node: nodes.StreamJoin) -> None:
        super().__init__(task, node)
        windows = node.windows
        self._sides = (
            task.join_buffer(f"{node.store}-left", windows.kept_ms),
            task.join_buffer(f"{node.store}-right", windows.kept_ms),
        )
        # Who waits for a partner: keys are (timestamp, side, key), so that time orders them.
        self._waiting = task.key_value_store(f"{node.store}-waiting")
        self._is_outer = (node.kind is not JoinKind.INNER, node.kind is JoinKind.OUTER)
        self._stream_time = task.stream_time(node.store)
        self._earliest_ms: int | None = None

    def handler(self, parent: int) -> Handler:
        return partial(self._take, parent)

    def _take(self, side: int, key: Any, value: Any, timestamp_ms: int) -> None:
        if value is None or (key is None and not self._is_outer[side]):
            return
        if key is None:
            self._emit(side, key, value, None, timestamp_ms)
            return
        windows = self.node.windows
        now_ms = self._stream_time.observe(timestamp_ms)
        other = 1 - side
        earlier_ms, later_ms = (
            (windows.before_ms, windows.after_ms) if side == 0
            else (windows.after_ms, windows.before_ms)
        )  # fmt: skip
        if timestamp_ms >= now_ms - windows.kept_ms:
            self._sides[side].add(key, timestamp_ms, value)
        if timestamp_ms == now_ms:
            self._release(now_ms)
        first_ms = max(timestamp_ms - earlier_ms, now_ms - windows.kept_ms)
        partners = self._sides[other].fetch(key, first_ms, timestamp_ms + later_ms)
        for partner_ms, partner in partners:
            if self._is_outer[other]:
                self._waiting.delete((partner_ms, other, key))
            self._emit(side, key, value, partner, max(timestamp_ms, partner_ms))
        if not partners and self._is_outer[side]:
            if windows.is_eager or timestamp_ms + later_ms < now_ms:
                self._emit(side, key, value, None, timestamp_ms)
            else:
                self._wait(side, key, value, timestamp_ms)
        for buffer in self._sides:
            buffer.expire(now_ms)

    def _emit(self, side: int, key: Any, value: Any, partner: Any, timestamp_ms: int) -> None:
        left, right = (value, partner) if side == 0 else (partner, value)
        self.forward(key, self.node.joiner(key, left, right), timestamp_ms)

    def _wait(self, side: int, key: Any, value: Any, timestamp_ms: int) -> None:
        place = (timestamp_ms, side, key)
        self._waiting.put(place, [*(self._waiting.get(place) or ()), value])
        if self._earliest_ms is None or timestamp_ms < self._earliest_ms:
            self._earliest_ms = timestamp_ms

    def _release(self, now_ms: int) -> None:
        """Emits the records that waited, and whose window is closed, without a partner."""
        windows = self.node.windows
        if self._earliest_ms is None:
            times = (place[0] for place, _ in self._waiting.items())
            self._earliest_ms = min(times, default=None)
        shortest_ms = min(windows.before_ms, windows.after_ms) + windows.grace_ms
        if self._earliest_ms is None or self._earliest_ms + shortest_ms >= now_ms:
            return
        for place, values in sorted(self._waiting.items(), key=lambda pair: pair[0][:2]):
            timestamp_ms, side, key = place
            later_ms = windows.after_ms if side == 0 else windows.before_ms
            if timestamp_ms + later_ms + windows.grace_ms < now_ms:
                self._waiting.delete(place)
                for value in values:
                    self._emit(side, key, value, None, timestamp_ms)
        times = (place[0] for place, _ in self._waiting.items())
        self._earliest_ms = min(times, default=None)


class StreamTableJoin(Operator[nodes.StreamTableJoin]):
    """Looks each record of the stream up in the table as it is when the record comes."""

    def __init__(self, task: "PartitionTask", node: nodes.StreamTableJoin) -> None:
        super().__init__(task, node)
        self._table = rows_of_parent(task, node, 1, f"{node.store}-table")

    def handler(self, parent: int) -> Handler:
        return self.process if parent == 0 else self._change

    def _change(self, key: Any, value: Change, timestamp_ms: int) -> None:
        self._table.note(key, value.new, timestamp_ms)

    def process(self, key: Any, value: Any, timestamp_ms: int) -> None:
        node = self.node
        if value is None:
            return
        self.context.timestamp_ms = timestamp_ms
        row = self._row(key, value)
        if row is None and node.kind is JoinKind.INNER:
            return
        self.forward(key, node.joiner(key, value, row), timestamp_ms)

    def _row(self, key: Any, value: Any) -> Any:
        node = self.node
        if node.key_of is None:
            return None if key is None else self._table.get(key)
        wanted = node.key_of(key, value, self.context)
        if wanted is None:
            return None
        assert node.table_codec is not None
        executor = self.task.executor
        count = executor.partitions_below(node.parents[1])
        partition = executor.partition_of(node.table_codec.encode(wanted), count)
        owner = executor.task(partition).operator(node)
        assert isinstance(owner, StreamTableJoin)
        return owner.look_up(wanted)

    def look_up(self, key: Any) -> Any:
        """Returns the table's row for a key of this partition, or None."""
        return self._table.get(key)
