"""Processors of users: code that gets each record, with state stores and punctuators.

class Alarm(Processor):
    def init(self, context):
        self.counts = context.store("counts")
        context.schedule(60_000, Punctuation.STREAM_TIME, self.report)

    def process(self, key, value, context): ...
"""

from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Any

from odradek.streams.plan import nodes
from odradek.streams.plan.records import Headers
from odradek.streams.running.operators import Operator
from odradek.streams.running.stores import KeyValueStore

if TYPE_CHECKING:
    from odradek.streams.running.executor import PartitionTask


class Punctuation(Enum):
    STREAM_TIME = "stream time"
    """Moves with the timestamps of the records."""
    WALL_CLOCK_TIME = "wall-clock time"


class Processor:
    """Subclasses override what they need."""

    def init(self, context: "ProcessorContext") -> None:
        """Called once in each partition, before the first record."""

    def process(self, key: Any, value: Any, context: "ProcessorContext") -> None:
        """Called with each record."""

    def close(self) -> None:
        """Called once, at the end."""


class Punctuator:
    """A function that is called whenever a span of time has passed."""

    def __init__(self, every_ms: int, kind: Punctuation, call: Callable[[int], None]) -> None:
        if every_ms <= 0:
            raise ValueError("a punctuator is called every millisecond at most")
        self.every_ms = every_ms
        self.kind = kind
        self._call = call
        self._next_ms: int | None = None
        self._is_cancelled = False

    def cancel(self) -> None:
        self._is_cancelled = True

    def run(self, now_ms: int) -> None:
        """Calls the function if it is due, once: a long pause is not made up for."""
        if self._is_cancelled:
            return
        if self._next_ms is None:
            # By stream time the first call is at once, by the clock after one span, as in Kafka.
            is_clock = self.kind is Punctuation.WALL_CLOCK_TIME
            self._next_ms = now_ms + self.every_ms if is_clock else now_ms
        if now_ms >= self._next_ms:
            self._next_ms += ((now_ms - self._next_ms) // self.every_ms + 1) * self.every_ms
            self._call(now_ms)


class ProcessorContext:
    """What a processor can do, and what it can know of the record that it handles."""

    def __init__(self, operator: "Process") -> None:
        self._operator = operator
        self._record = operator.context
        self.punctuators: list[Punctuator] = []

    def forward(self, key: Any, value: Any, timestamp_ms: int | None = None) -> None:
        """Passes a record on. Its time is that of the present record, if none is given."""
        if timestamp_ms is None:
            timestamp_ms = self._record.timestamp_ms
        self._operator.forward(key, value, timestamp_ms)

    def store(self, name: str) -> KeyValueStore:
        """Returns a store, which must have been named when the processor was added."""
        names = self._operator.node.store_names
        if name not in names:
            raise KeyError(f"the processor was added without the store {name!r}: it has {names}")
        return self._operator.task.key_value_store(name)

    def schedule(self, every_ms: int, kind: Punctuation, call: Callable[[int], None]) -> Punctuator:
        """Has a function called with the time, whenever `every_ms` have passed."""
        punctuator = Punctuator(every_ms, kind, call)
        self.punctuators.append(punctuator)
        if kind is Punctuation.WALL_CLOCK_TIME:
            punctuator.run(self._record.now_ms)
        return punctuator

    @property
    def topic(self) -> str:
        return self._record.topic

    @property
    def partition(self) -> int:
        return self._operator.task.partition

    @property
    def offset(self) -> int:
        return self._record.offset

    @property
    def timestamp_ms(self) -> int:
        return self._record.timestamp_ms

    @property
    def headers(self) -> Headers:
        return self._record.headers

    @property
    def stream_time_ms(self) -> int:
        return self._operator.stream_time_ms

    @property
    def now_ms(self) -> int:
        return self._record.now_ms


class Process(Operator[nodes.Process]):
    def __init__(self, task: "PartitionTask", node: nodes.Process) -> None:
        super().__init__(task, node)
        self._stream_time = task.stream_time(node.name)
        self._processor: Processor = node.make()
        self._own_context = ProcessorContext(self)
        self._processor.init(self._own_context)

    @property
    def stream_time_ms(self) -> int:
        return self._stream_time.ms

    def process(self, key: Any, value: Any, timestamp_ms: int) -> None:
        self._stream_time.observe(timestamp_ms)
        self.context.timestamp_ms = timestamp_ms
        self._processor.process(key, value, self._own_context)
        self._punctuate(Punctuation.STREAM_TIME, self.stream_time_ms)

    def advance(self, now_ms: int) -> None:
        self._punctuate(Punctuation.WALL_CLOCK_TIME, now_ms)

    def _punctuate(self, kind: Punctuation, now_ms: int) -> None:
        for punctuator in self._own_context.punctuators:
            if punctuator.kind is kind:
                self.context.timestamp_ms = now_ms
                punctuator.run(now_ms)

    def close(self) -> None:
        self._processor.close()
