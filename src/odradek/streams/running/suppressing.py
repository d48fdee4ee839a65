"""Holding the changes of a table back: until a window is closed, or for a time."""

from typing import TYPE_CHECKING, Any

from odradek.streams.plan import nodes
from odradek.streams.plan.records import Change, Timestamped
from odradek.streams.running.operators import Operator

if TYPE_CHECKING:
    from odradek.streams.running.executor import PartitionTask


class Suppress(Operator[nodes.Suppress]):
    """Keeps the newest change of each key, and forwards it when stream time has passed its due
    time: the window's end, or the time of the first change that is held, plus the wait."""

    def __init__(self, task: "PartitionTask", node: nodes.Suppress) -> None:
        super().__init__(task, node)
        self._held = task.key_value_store(node.store)
        self._due: dict[Any, int] | None = None
        self._earliest_ms: int | None = None
        self._stream_time = task.stream_time(node.store)

    def process(self, key: Any, value: Change, timestamp_ms: int) -> None:
        due = self._dues()
        node = self.node
        self._stream_time.observe(timestamp_ms)
        if node.until_closed:
            due[key] = key.window.end_ms
        else:
            due.setdefault(key, timestamp_ms)
        if self._earliest_ms is None or due[key] < self._earliest_ms:
            self._earliest_ms = due[key]
        held = self._held.get(key)
        old = value.old if held is None else held.value[0]
        self._held.put(key, Timestamped((old, value.new, due[key]), timestamp_ms))
        self._release(due)

    def _dues(self) -> dict[Any, int]:
        """Returns when each key is due; worked out again after a restart."""
        if self._due is None:
            self._due = {key: held.value[2] for key, held in self._held.items()}
            self._earliest_ms = min(self._due.values(), default=None)
        return self._due

    def _release(self, due: dict[Any, int]) -> None:
        passed_ms = self._stream_time.ms - self.node.wait_ms
        if self._earliest_ms is None or self._earliest_ms > passed_ms:
            return
        ready = [key for key, due_ms in due.items() if due_ms <= passed_ms]
        try:
            # As Kafka Streams: by time, then by key.
            ready.sort(key=lambda key: (due[key], getattr(key, "key", key)))
        except TypeError:
            # Keys without an order, such as structs and nulls.
            ready.sort(key=lambda key: (due[key], repr(key)))
        for key in ready:
            del due[key]
            held = self._held.delete(key)
            old, new, _ = held.value
            # A final result is never a deletion: nothing was emitted before it.
            if new is not None or (not self.node.until_closed and old is not None):
                self.forward(key, Change(old, new), held.timestamp_ms)
        self._earliest_ms = min(due.values(), default=None)
