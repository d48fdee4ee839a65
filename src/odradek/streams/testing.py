"""Runs a topology in virtual time, without a broker: for tests.

    driver = TopologyTestDriver(builder.build())
    clicks = driver.input_topic("clicks")
    clicks.send("alice", {"page": "/"}, timestamp_ms=0)
    assert driver.output_topic("counts", value=LONG).read_key_values() == [("alice", 1)]

Every record is handled to its end before `send` returns. A topic that the topology both writes and
reads is read at once.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from odradek.streams.formats import primitives
from odradek.streams.plan.nodes import Codec, Plan
from odradek.streams.plan.records import Headers
from odradek.streams.running.executor import (
    BadRecord,
    Executor,
    InputRecord,
    OutputRecord,
    raise_for,
)
from odradek.streams.running.stores import Store


class OutputValue(NamedTuple):
    """A record of an output topic."""

    key: Any
    value: Any
    timestamp_ms: int


class TopologyTestDriver:
    __test__ = False

    def __init__(
        self,
        plan: Plan,
        *,
        partitions: Mapping[str, int] | int = 1,
        now_ms: int = 0,
        on_bad_record: BadRecord = raise_for,
    ) -> None:
        """`partitions` says how many partitions topics have: one number, or one for each topic."""
        self.plan = plan
        topics = {*plan.source_topics, *(sink.topic for sink in plan.sinks)}
        default = partitions if isinstance(partitions, int) else 1
        given = {} if isinstance(partitions, int) else partitions
        self.partitions = {topic: given.get(topic, default) for topic in topics}
        self.outputs: dict[str, deque[OutputRecord]] = {}
        self.changelog: list[tuple[int, str, Any, Any]] = []
        self._offsets: dict[tuple[str, int], int] = {}
        self._pending: deque[InputRecord] = deque()
        self._executor = Executor(
            plan, self.partitions, self, on_bad_record=on_bad_record, now_ms=now_ms
        )

    def __enter__(self) -> "TopologyTestDriver":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._executor.close()

    def input_topic(
        self, topic: str, *, key: Codec = primitives.STRING, value: Codec = primitives.JSON
    ) -> "TestInputTopic":
        if topic not in self.plan.source_topics:
            read = ", ".join(self.plan.source_topics)
            raise ValueError(f"the topology does not read {topic!r}: it reads {read}")
        return TestInputTopic(self, topic, key, value)

    def output_topic(
        self, topic: str, *, key: Codec = primitives.STRING, value: Codec = primitives.JSON
    ) -> "TestOutputTopic":
        written = {sink.topic for sink in self.plan.sinks}
        if topic not in written:
            raise ValueError(
                f"the topology does not write {topic!r}: it writes {', '.join(sorted(written))}"
            )
        return TestOutputTopic(self, topic, key, value)

    def advance_wall_clock_time(self, by_ms: int) -> None:
        """Moves the clock, which calls the punctuators that are due."""
        self._executor.advance(self._executor.context.now_ms + by_ms)
        self._feed_back()

    def store(self, name: str, partition: int = 0) -> Store:
        stores = self._executor.task(partition).stores
        if name not in stores:
            known = ", ".join(sorted(stores)) or "none"
            raise ValueError(f"there is no store {name!r}: there are {known}")
        return stores[name]

    @property
    def late_records(self) -> int:
        """How many records were dropped because their windows were closed."""
        return self._executor.late_records

    # What the topics above, and the executor, call

    def pipe(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        timestamp_ms: int,
        *,
        partition: int | None = None,
        headers: Headers = (),
    ) -> None:
        """Delivers a record as bytes."""
        if partition is None:
            partition = Executor.partition_of(key, self.partitions[topic])
        offset = self._offsets.get((topic, partition), 0)
        self._offsets[topic, partition] = offset + 1
        self._executor.deliver(
            InputRecord(topic, partition, offset, timestamp_ms, key, value, headers)
        )
        self._feed_back()

    def write(self, record: OutputRecord) -> None:
        self.outputs.setdefault(record.topic, deque()).append(record)
        if record.topic in self.plan.source_topics:
            partition = record.partition or 0
            offset = self._offsets.get((record.topic, partition), 0)
            self._offsets[record.topic, partition] = offset + 1
            self._pending.append(
                InputRecord(
                    record.topic, partition, offset, record.timestamp_ms, record.key, record.value
                )
            )

    def changed(self, partition: int, store: str, key: Any, value: Any) -> None:
        self.changelog.append((partition, store, key, value))

    def restore(self, changes: Iterable[tuple[int, str, Any, Any]]) -> None:
        """Makes the stores of another driver out of its `changelog`."""
        for partition, name, key, value in changes:
            task = self._executor.task(partition)
            store = task.stores[name] if name in task.stores else task.key_value_store(name)
            store.restore(key, value)

    def _feed_back(self) -> None:
        while self._pending:
            self._executor.deliver(self._pending.popleft())


class TestInputTopic:
    __test__ = False

    def __init__(self, driver: TopologyTestDriver, topic: str, key: Codec, value: Codec) -> None:
        self._driver = driver
        self._topic = topic
        self._key = key
        self._value = value

    def send(
        self,
        key: Any,
        value: Any,
        *,
        timestamp_ms: int = 0,
        partition: int | None = None,
        headers: Headers = (),
    ) -> None:
        """Delivers a record, and returns when it has been handled."""
        self._driver.pipe(
            self._topic, self._key.encode(key), self._value.encode(value), timestamp_ms,
            partition=partition, headers=headers,
        )  # fmt: skip


class TestOutputTopic:
    __test__ = False

    def __init__(self, driver: TopologyTestDriver, topic: str, key: Codec, value: Codec) -> None:
        self._driver = driver
        self._topic = topic
        self._key = key
        self._value = value

    def read(self) -> list[OutputValue]:
        """Returns the records that were written since the last call."""
        queue = self._driver.outputs.get(self._topic, deque())
        records = [
            OutputValue(self._key.decode(one.key), self._value.decode(one.value), one.timestamp_ms)
            for one in queue
        ]
        queue.clear()
        return records

    def read_key_values(self) -> list[tuple[Any, Any]]:
        return [(record.key, record.value) for record in self.read()]
