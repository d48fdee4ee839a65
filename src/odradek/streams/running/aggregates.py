"""Aggregates: of streams and of tables, plain, in windows of time, and in sessions.

The time of a result is the largest timestamp of the records in it; of a session, its end. A record
for a window that is closed is late and dropped: a window is closed when stream time has reached its
end plus the grace period.
"""

from typing import TYPE_CHECKING, Any

from odradek.streams.plan import nodes
from odradek.streams.plan.records import Change, Timestamped, Window, Windowed
from odradek.streams.plan.windows import SessionWindows, TimeWindows
from odradek.streams.running.operators import Operator

if TYPE_CHECKING:
    from odradek.streams.running.executor import PartitionTask


class StreamAggregate(Operator[nodes.Aggregate]):
    def __init__(self, task: "PartitionTask", node: nodes.Aggregate) -> None:
        super().__init__(task, node)
        self._results = task.key_value_store(node.store)

    def process(self, key: Any, value: Any, timestamp_ms: int) -> None:
        if key is None or value is None:
            return
        before: Timestamped | None = self._results.get(key)
        old = self.node.initial() if before is None else before.value
        new = self.node.add(key, value, old)
        latest_ms = timestamp_ms if before is None else max(timestamp_ms, before.timestamp_ms)
        self._results.put(key, None if new is None else Timestamped(new, latest_ms))
        self.forward(key, Change(None if before is None else old, new), latest_ms)


class TableAggregate(StreamAggregate):
    """Undoes the row of before, then adds the new one."""

    def process(self, key: Any, value: Change, timestamp_ms: int) -> None:
        if key is None:
            return
        node = self.node
        before: Timestamped | None = self._results.get(key)
        new = None if before is None else before.value
        latest_ms = timestamp_ms if before is None else max(timestamp_ms, before.timestamp_ms)
        if value.old is not None and before is not None:
            assert node.undo is not None
            new = node.undo(key, value.old, new)
        if value.new is not None:
            new = node.add(key, value.new, node.initial() if new is None else new)
        self._results.put(key, None if new is None else Timestamped(new, latest_ms))
        self.forward(key, Change(None if before is None else before.value, new), latest_ms)


class WindowedAggregate(Operator[nodes.Aggregate]):
    def __init__(self, task: "PartitionTask", node: nodes.Aggregate) -> None:
        super().__init__(task, node)
        assert isinstance(node.windows, TimeWindows)
        self._windows = node.windows
        self._results = task.window_store(node.store, node.windows.kept_ms)
        self._stream_time = task.stream_time(node.store)

    def process(self, key: Any, value: Any, timestamp_ms: int) -> None:
        if key is None or value is None:
            return
        windows, node, results = self._windows, self.node, self._results
        now_ms = self._stream_time.observe(timestamp_ms)
        closed_ms = now_ms - windows.grace_ms
        for start_ms in windows.starts_of(timestamp_ms):
            if start_ms + windows.size_ms <= closed_ms:
                self.task.executor.note_late(node, key, timestamp_ms)
                continue
            before = results.get(key, start_ms)
            old = node.initial() if before is None else before.value
            new = node.add(key, value, old)
            latest_ms = timestamp_ms if before is None else max(timestamp_ms, before.timestamp_ms)
            results.put(key, start_ms, Timestamped(new, latest_ms))
            change = Change(None if before is None else old, new)
            self.forward(Windowed(key, windows.window(start_ms)), change, latest_ms)
        results.expire(now_ms)


class SessionAggregate(Operator[nodes.Aggregate]):
    """Merges the sessions that a record connects; each of them is deleted, then the merged one is
    emitted."""

    def __init__(self, task: "PartitionTask", node: nodes.Aggregate) -> None:
        super().__init__(task, node)
        assert isinstance(node.windows, SessionWindows)
        self._windows = node.windows
        self._sessions = task.session_store(node.store, node.windows.kept_ms)
        self._stream_time = task.stream_time(node.store)

    def process(self, key: Any, value: Any, timestamp_ms: int) -> None:
        if key is None or value is None:
            return
        node, gap_ms = self.node, self._windows.gap_ms
        assert node.merge is not None
        now_ms = self._stream_time.observe(timestamp_ms)
        found = self._sessions.overlapping(key, timestamp_ms - gap_ms, timestamp_ms + gap_ms)
        merged, aggregate = Window(timestamp_ms, timestamp_ms), node.initial()
        for window, earlier in found:
            aggregate = node.merge(key, aggregate, earlier)
            merged = Window(
                min(merged.start_ms, window.start_ms), max(merged.end_ms, window.end_ms)
            )
        if merged.end_ms < now_ms - self._windows.closes_after_ms:
            self.task.executor.note_late(node, key, timestamp_ms)
            return
        old = None
        for window, earlier in found:
            if merged == Window(timestamp_ms, timestamp_ms):
                old = earlier
                continue
            # As Kafka Streams: also the session that stays as long as it is.
            self._sessions.put(key, window, None)
            self.forward(Windowed(key, window), Change(earlier, None), window.end_ms)
        new = node.add(key, value, aggregate)
        self._sessions.put(key, merged, new)
        self.forward(Windowed(key, merged), Change(old, new), merged.end_ms)
        self._sessions.expire(now_ms)
