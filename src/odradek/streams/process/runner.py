"""Runs a plan on topics: reads, delivers to the reference executor, and writes exactly once.

One transaction has the results of some records, the changes of the stores that they made, and the
offsets after them. So a result is in its topic if and only if the records that made it count as
read, and the stores say the same. After a failure or a restart

1. the producer initialises the transactional id, which is the application's. An older instance is
   fenced from here on, and a transaction that it left open is aborted;
2. the stores are read from the changelog, committed records only;
3. reading goes on at the offsets that the application's group has committed.

One process runs all partitions of a plan: a record that changes its key is handled at once, without
a topic between (docs/decisions/0097-sql-and-streams.md). Which process, others decide: the one that
starts last wins.

What would break it: a changelog topic that is deleted or not compacted by key alone; offsets of the
group that expire, as after a week in which nothing ran, or are changed by hand; a plan whose
operators have other names than before.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

from odradek.client.admin.admin import Admin
from odradek.client.admin.topic_types import NewTopic
from odradek.client.consumer.consumer import Consumer
from odradek.client.errors import ClientError, ProducerFenced
from odradek.client.group.offsets import OffsetAndMetadata
from odradek.client.producer.producer import Producer
from odradek.protocol.errors import ErrorCode, KafkaError, error_for
from odradek.protocol.types import TopicPartition
from odradek.spark.turns.turns import Turns
from odradek.streams.formats.hashable import hashable
from odradek.streams.plan.nodes import Plan, Preparable
from odradek.streams.process import changelog
from odradek.streams.process.reading import InOrder, assign_all
from odradek.streams.running.executor import (
    BadRecord,
    BadResult,
    Executor,
    InputRecord,
    OutputRecord,
    raise_for,
    raise_for_result,
)
from odradek.streams.running.stores import Store
from odradek.world.blocking_calls import without_blocking
from odradek.world.clock import SystemClock

_log = logging.getLogger("odradek.streams")

_POLL_MS: Final = 200
_RETRY_S: Final = (0.2, 5.0)
_RESTORE_POLL_MS: Final = 500
_RENEW_MS: Final = 3_600_000
"""How often the offsets of topics without new records are committed again."""
_OF_RECORDS: Final = (ValueError, ArithmeticError, LookupError, TypeError, AttributeError)
"""What a record can make the functions of a plan raise."""


class State(Enum):
    STARTING = "STARTING"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    ERROR = "ERROR"
    STOPPED = "STOPPED"


@dataclass
class Figures:
    """What a runner has done, for whoever watches it."""

    records: int = 0
    results: int = 0
    transactions: int = 0
    bad_records: int = 0
    restarts: int = 0
    offsets: dict[TopicPartition, int] = field(default_factory=dict)


class _Transaction:
    """What one transaction will write. Of several changes to one place the last one counts."""

    def __init__(self) -> None:
        self.records: list[OutputRecord] = []
        self.changes: dict[tuple[int, bytes], Any] = {}

    def write(self, record: OutputRecord) -> None:
        self.records.append(record)

    def changed(self, partition: int, store: str, key: Any, value: Any) -> None:
        self.changes[partition, changelog.place(store, key)] = value

    def clear(self) -> None:
        self.records.clear()
        self.changes.clear()


class Runner:
    """Runs one plan until it is stopped. `run` is the task; the rest may be called at any time."""

    def __init__(
        self,
        plan: Plan,
        application_id: str,
        client: Mapping[str, Any],
        *,
        start: Mapping[str, Sequence[int]] | None = None,
        replication_factor: int = -1,
        on_bad_record: BadRecord = raise_for,
        on_bad_result: BadResult = raise_for_result,
        on_committed: Callable[[list[OutputRecord]], None] | None = None,
        turns: Turns | None = None,
    ) -> None:
        """`client` has the settings of all clients: `bootstrap.servers`, security. Where nothing is
        committed, reading begins at `start`, which has an offset for each partition of a topic; a
        topic that is not in it is read as its source says (`nodes.Source.reset`). `turns` says when
        it may work, if not always."""
        self.plan = plan
        self.application_id = application_id
        self.state = State.STARTING
        self.error: str | None = None
        self.failed_ms = 0
        self.figures = Figures()
        self._client = dict(client)
        self._start = start or {}
        self._replication_factor = replication_factor
        self._on_bad_record = on_bad_record
        self._on_bad_result = on_bad_result
        self._on_committed = on_committed
        self._turns = turns or Turns()
        self._resumed = asyncio.Event()
        self._resumed.set()
        self._is_stateful = any(node.stores for node in plan.nodes)
        self._executor: Executor | None = None
        self._committed_ms = 0

    @property
    def changelog_topic(self) -> str:
        return f"{self.application_id}-changelog"

    def pause(self) -> None:
        self._resumed.clear()
        if self.state is State.RUNNING:
            self.state = State.PAUSED

    def resume(self) -> None:
        self._resumed.set()
        if self.state is State.PAUSED:
            self.state = State.RUNNING

    def stores(self, name: str) -> list[Store]:
        """Returns a store of each partition."""
        tasks = [] if self._executor is None else self._executor.tasks
        return [task.stores[name] for task in tasks if name in task.stores]

    async def run(self) -> None:
        """Runs until it is cancelled, or another instance takes over. A failure starts again from
        what is committed."""
        delay_s = _RETRY_S[0]
        try:
            while True:
                begun = self.figures.transactions
                try:
                    await self._run_once()
                except ProducerFenced:
                    self.error = "another instance of it runs now"
                    return
                except (ClientError, KafkaError, OSError, TimeoutError) as error:
                    self._note(error)
                except _OF_RECORDS as error:
                    self._note(error)
                    if self.figures.transactions == begun:
                        # It is not the network: the same records will fail again.
                        delay_s = _RETRY_S[1]
                self.figures.restarts += 1
                await asyncio.sleep(delay_s)
                is_new = self.figures.transactions > begun
                delay_s = _RETRY_S[0] if is_new else min(delay_s * 2, _RETRY_S[1])
        finally:
            self.state = State.STOPPED

    def _note(self, error: Exception) -> None:
        text = " ".join(str(error).split()) or type(error).__name__
        self.state, self.error, self.failed_ms = State.ERROR, text, SystemClock().now_ms()
        _log.warning("%s starts again: %s", self.application_id, self.error)

    async def _run_once(self) -> None:
        counts = await self._prepare()
        transaction = _Transaction()
        executor = self._executor = Executor(
            self.plan, counts, transaction, on_bad_record=self._skip_or_raise,
            on_bad_result=self._on_bad_result, now_ms=SystemClock().now_ms(),
        )  # fmt: skip
        settings = {**self._client, "transactional.id": self.application_id, "linger.ms": 0}
        async with Producer(settings) as producer:
            await producer.init_transactions()
            if self._is_stateful:
                await self._restore(executor, counts)
            transaction.clear()
            async with Consumer(self._consumer_settings()) as consumer:
                first = await assign_all(consumer, self.plan, counts, self._start)
                records = InOrder(consumer, self.plan)
                self._committed_ms = 0
                self.state = State.RUNNING if self._resumed.is_set() else State.PAUSED
                self.error = None
                try:
                    while True:
                        await self._step(records, consumer, producer, executor, transaction)
                        if records.is_empty:
                            await first.look()
                finally:
                    executor.close()

    def _skip_or_raise(self, record: InputRecord, error: Exception) -> None:
        self.figures.bad_records += 1
        self._on_bad_record(record, error)

    def _consumer_settings(self) -> dict[str, Any]:
        return {
            **self._client,
            "group.id": self.application_id,
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            # An offset whose records are gone: what is left of them is read.
            "auto.offset.reset": "earliest",
        }

    async def _prepare(self) -> dict[str, int]:
        """Returns the partitions of all topics; makes the changelog topic."""
        topics = {*self.plan.source_topics, *(sink.topic for sink in self.plan.sinks)}
        async with Admin(self._client) as admin:
            counts = await partition_counts(admin, topics)
            if self._is_stateful:
                count = max(counts[topic] for topic in self.plan.source_topics)
                config = {"cleanup.policy": "compact"}
                wanted = NewTopic(
                    self.changelog_topic, count, self._replication_factor, configs=config
                )
                await create_topic(admin, wanted)
        await asyncio.to_thread(self._prepare_codecs)
        return counts

    def _prepare_codecs(self) -> None:
        """Has results' codecs ask what they need: a result cannot wait for that."""
        for sink in self.plan.sinks:
            for codec in (sink.key_codec, sink.value_codec):
                inner = getattr(codec, "inner", codec)
                if isinstance(inner, Preparable):
                    inner.prepare()

    async def _restore(self, executor: Executor, counts: Mapping[str, int]) -> None:
        """Reads the stores from the changelog."""
        settings = {**self._client, "isolation.level": "read_committed"}
        settings["auto.offset.reset"] = "earliest"
        async with Consumer(settings) as consumer:
            partitions = [
                TopicPartition(self.changelog_topic, number)
                for number in await consumer.partitions_for(self.changelog_topic)
            ]
            consumer.assign(partitions)
            consumer.seek_to_beginning()
            ends = await consumer.end_offsets(partitions)
            open_ones = {one for one, end in ends.items() if end > 0}
            while open_ones:
                found = await consumer.poll(_RESTORE_POLL_MS)
                for partition, records in found.items():
                    for record in records:
                        _restore_record(executor, partition.partition, record)
                for one in list(open_ones):
                    if await consumer.position(one) >= ends[one]:
                        open_ones.discard(one)

    async def _step(
        self, records: InOrder, consumer: Consumer, producer: Producer, executor: Executor,
        transaction: _Transaction,
    ) -> None:  # fmt: skip
        await self._resumed.wait()
        await self._turns.begin()
        polled = await records.poll(_POLL_MS)
        now_ms = SystemClock().now_ms()
        next_offsets: dict[TopicPartition, OffsetAndMetadata] = {}
        for record in polled:
            executor.context.now_ms = now_ms
            await without_blocking(executor.deliver, record)
            partition = TopicPartition(record.topic, record.partition)
            next_offsets[partition] = OffsetAndMetadata(record.offset + 1)
        executor.advance(now_ms)
        if now_ms - self._committed_ms >= _RENEW_MS:
            # At the start, so that what was the end of a topic then stays the beginning; and again,
            # as brokers forget the offsets of a group without members after days (KIP-211).
            for partition in consumer.assignment():
                next_offsets[partition] = OffsetAndMetadata(await records.position(partition))
            self._committed_ms = now_ms
        if not next_offsets and not transaction.records and not transaction.changes:
            return
        async with producer.transaction():
            for result in transaction.records:
                await producer.send(
                    result.topic, result.value, result.key, partition=result.partition,
                    timestamp_ms=result.timestamp_ms,
                )  # fmt: skip
            for (number, key), value in transaction.changes.items():
                data = None if value is None else changelog.encode(value)
                await producer.send(self.changelog_topic, data, key, partition=number)
            if next_offsets:
                await producer.send_offsets_to_transaction(next_offsets, self.application_id)
        self._count(polled, next_offsets, transaction)
        transaction.clear()

    def _count(self, polled: Any, offsets: Any, transaction: _Transaction) -> None:
        figures = self.figures
        figures.records += len(polled)
        figures.results += len(transaction.records)
        figures.transactions += 1
        figures.offsets.update({one: int(known.offset) for one, known in offsets.items()})
        if self._on_committed is not None:
            self._on_committed(list(transaction.records))


def _restore_record(executor: Executor, partition: int, record: Any) -> None:
    name, key = changelog.decode(record.key)
    store = executor.task(partition).stores.get(name)
    if store is None:
        # The store is made when its operator first needs it.
        store = executor.task(partition).key_value_store(name)
    store.restore(hashable(key), None if record.value is None else changelog.decode(record.value))


async def partition_counts(admin: Admin, topics: Iterable[str]) -> dict[str, int]:
    """Returns how many partitions topics have. Raises `KafkaError` if there is no such topic."""
    found = await admin.describe_metadata(sorted(topics))
    counts: dict[str, int] = {}
    for topic in found.topics:
        if topic.error_code != ErrorCode.NONE:
            raise error_for(topic.error_code, f"topic {topic.name}")
        counts[str(topic.name)] = len(topic.partitions)
    return counts


async def create_topic(admin: Admin, topic: NewTopic) -> bool:
    """Creates a topic, if there is none of its name; returns whether it did."""
    results = await admin.create_topics([topic])
    for outcome in results.values():
        if isinstance(outcome, KafkaError):
            if outcome.code == ErrorCode.TOPIC_ALREADY_EXISTS:
                return False
            raise outcome
    return True
