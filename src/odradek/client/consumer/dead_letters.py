"""Retries with a delay, and dead letters, for ordinary consumers.

    worker = Retrying(consumer, producer, handle, ["orders"], delays=["5s", "1m"])
    await worker.run()

`handle` is called for every record. A record whose handler raises goes to `orders.retry.5s`,
then to `orders.retry.1m`, and at last to `orders.dead`; its headers say what happened.
Records after it do not wait. The worker reads the delay topics too: it pauses a partition until
its first record is due. All records of a delay topic wait equally long, so the first is due first.

Invariant: an offset is committed only when every record before it was handled or has been written
to the next topic. So after a crash a record may be handled or forwarded twice, but none is lost.
With a transactional producer, forwarding and committing are one transaction and happen once.
"""

import asyncio
import inspect
import logging
import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass

from odradek.client import arguments
from odradek.client.admin.admin import Admin
from odradek.client.admin.topic_types import NewTopic
from odradek.client.consumer.consumer import Consumer
from odradek.client.consumer.fetched_batches import ConsumerRecord
from odradek.client.errors import CommitFailed, MustAbort
from odradek.client.habits import explain
from odradek.client.producer.deliveries import RecordMetadata
from odradek.client.producer.producer import Producer
from odradek.config.values import parse_duration_ms
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.types import TopicPartition
from odradek.world import World

_log = logging.getLogger("odradek.client")

Handler = Callable[[ConsumerRecord], Awaitable[object] | object]
Headers = list[tuple[str, bytes | None]]

PREFIX = "odradek.retry."
ATTEMPTS = PREFIX + "attempts"
ERROR = PREFIX + "error"
FIRST_FAILURE = PREFIX + "first.failure.ms"
LAST_FAILURE = PREFIX + "last.failure.ms"
DUE = PREFIX + "due.ms"
ORIGINAL_TOPIC = PREFIX + "topic"
ORIGINAL_PARTITION = PREFIX + "partition"
ORIGINAL_OFFSET = PREFIX + "offset"
ORIGINAL_TIMESTAMP = PREFIX + "timestamp.ms"

# The delay becomes part of a topic's name, so it is written in one way only.
_DELAY = re.compile(r"\d+(ms|s|m|h|d)")
_MAX_ERROR_LENGTH = 1_000
_MAX_POLL_MS = 500
# The group has rebalanced: the next poll shows whether this consumer still has the partition.
_REBALANCED = {
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.STALE_MEMBER_EPOCH,
}


class Reject(Exception):
    """A handler raises it for a record that needs no retry: it becomes a dead letter at once."""


@dataclass(frozen=True, slots=True)
class Delay:
    """How long a record waits, and how the name of the topic says so."""

    name: str
    delay_ms: int

    @classmethod
    def parse(cls, text: str) -> "Delay":
        if not _DELAY.fullmatch(text):
            raise ValueError(f"{text!r} is not a delay: write it like 500ms, 5s, 1m, 2h or 1d")
        return cls(text, parse_duration_ms(text))


def retry_topic(topic: str, delay: Delay) -> str:
    return f"{topic}.retry.{delay.name}"


def dead_topic(topic: str) -> str:
    return f"{topic}.dead"


@dataclass(frozen=True, slots=True)
class Story:
    """What has happened to a record so far, read from its headers."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    attempts: int = 0
    first_failure_ms: int = 0
    due_ms: int = 0

    @classmethod
    def from_record(cls, record: ConsumerRecord) -> "Story":
        story_headers = {name: value for name, value in record.headers if name.startswith(PREFIX)}
        if ATTEMPTS not in story_headers:
            return cls(record.topic, record.partition, record.offset, record.timestamp_ms)
        return cls(
            (story_headers.get(ORIGINAL_TOPIC) or b"").decode(),
            _number(story_headers.get(ORIGINAL_PARTITION)),
            _number(story_headers.get(ORIGINAL_OFFSET)),
            _number(story_headers.get(ORIGINAL_TIMESTAMP)),
            _number(story_headers.get(ATTEMPTS)),
            _number(story_headers.get(FIRST_FAILURE)),
            _number(story_headers.get(DUE)),
        )

    def headers_after(self, error: BaseException, now_ms: int, delay_ms: int) -> Headers:
        """Returns the headers after the handler has failed again."""
        reason = f"{type(error).__name__}: {error}"[:_MAX_ERROR_LENGTH]
        numbers = {
            ATTEMPTS: self.attempts + 1,
            FIRST_FAILURE: self.first_failure_ms or now_ms,
            LAST_FAILURE: now_ms,
            DUE: now_ms + delay_ms,
            ORIGINAL_PARTITION: self.partition,
            ORIGINAL_OFFSET: self.offset,
            ORIGINAL_TIMESTAMP: self.timestamp_ms,
        }
        return [
            (ORIGINAL_TOPIC, self.topic.encode()),
            (ERROR, reason.encode()),
            *((name, b"%d" % number) for name, number in numbers.items()),
        ]


def _number(value: bytes | None) -> int:
    return int(value) if value else 0


@dataclass(frozen=True, slots=True)
class _Forward:
    """A record that is to be written to the next topic."""

    topic: str
    record: ConsumerRecord
    headers: Headers


class Retrying:
    """Runs a handler for every record of some topics, and again later for those that fail."""

    def __init__(
        self,
        consumer: Consumer,
        producer: Producer,
        handler: Handler,
        topics: Iterable[str],
        *,
        delays: Sequence[str] = ("5s", "1m", "10m"),
        world: World | None = None,
    ) -> None:
        """`delays` are the times after which a record whose handler failed is tried again.

        The consumer needs a group, `enable_auto_commit=False` and no deserializers (the
        handler gets bytes, as they are forwarded). A producer with a `transactional_id`
        must have called `init_transactions`.
        """
        settings = consumer.settings
        if settings.group_id is None or settings.enable_auto_commit:
            raise ValueError("Retrying needs a consumer with group_id, enable_auto_commit=False")
        if settings.key_deserializer is not None or settings.value_deserializer is not None:
            raise ValueError("Retrying forwards bytes: deserialize in the handler")
        self.topics = arguments.names(topics, "Retrying()")
        self.delays = [
            Delay.parse(delay) for delay in arguments.names(delays, "Retrying()", "delays")
        ]
        self._consumer = consumer
        self._producer = producer
        self._handler = handler
        self._clock = (world or World()).clock
        # When the first record of a partition is due.
        self._waiting: dict[TopicPartition, int] = {}

    def all_topics(self) -> list[str]:
        """Returns the topics that the worker reads: those of the user and the delay topics."""
        return [
            name
            for topic in self.topics
            for name in (topic, *(retry_topic(topic, delay) for delay in self.delays))
        ]

    async def create_topics(self, admin: Admin, *, replication_factor: int = -1) -> None:
        """Creates the delay and dead-letter topics that are missing, with as many partitions."""
        described = await admin.describe_topics(self.topics)
        new_topics: list[NewTopic] = []
        for topic in self.topics:
            found = described[topic]
            if isinstance(found, KafkaError):
                raise found
            names = [*(retry_topic(topic, delay) for delay in self.delays), dead_topic(topic)]
            new_topics += [
                NewTopic(
                    name,
                    partitions=len(found.partitions),
                    replication_factor=replication_factor,
                )
                for name in names
            ]
        for answer in (await admin.create_topics(new_topics)).values():
            if isinstance(answer, KafkaError) and answer.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                raise answer

    async def run(self) -> None:
        """Works until it is cancelled, or until records cannot be forwarded."""
        self._consumer.subscribe(self.all_topics())
        while True:
            polled = await self._consumer.poll(timeout_ms=self._resume_and_wait_ms())
            for partition, records in polled.items():
                await self._work_through(partition, records)

    def _resume_and_wait_ms(self) -> int:
        """Resumes partitions whose first record is due; returns the time until the next one is."""
        now_ms = self._clock.now_ms()
        assigned = set(self._consumer.assignment())
        paused = set(self._consumer.paused())
        for partition, due_ms in list(self._waiting.items()):
            if partition not in assigned or partition not in paused:
                # The partition was assigned to another consumer, and perhaps came back.
                del self._waiting[partition]
            elif due_ms <= now_ms:
                del self._waiting[partition]
                self._consumer.resume(partition)
        waits_ms = [first_due_ms - now_ms for first_due_ms in self._waiting.values()]
        return max(1, min([_MAX_POLL_MS, *waits_ms]))

    async def _work_through(self, partition: TopicPartition, records: list[ConsumerRecord]) -> None:
        forwards: list[_Forward] = []
        next_offset: int = records[0].offset
        for record in records:
            story = Story.from_record(record)
            if story.due_ms > self._clock.now_ms():
                self._consumer.pause(partition)
                self._consumer.seek(partition, record.offset, record.leader_epoch)
                self._waiting[partition] = story.due_ms
                break
            try:
                answer = self._handler(record)
                if inspect.isawaitable(answer):
                    await answer
            except Exception as error:  # noqa: BLE001 - whatever the handler raises is its failure
                forwards.append(self._forward(record, story, error))
            next_offset = record.offset + 1
        if next_offset > records[0].offset:
            await self._settle(records[0], next_offset, forwards)

    def _forward(self, record: ConsumerRecord, story: Story, error: Exception) -> _Forward:
        is_dead = isinstance(error, Reject) or story.attempts >= len(self.delays)
        delay = None if is_dead else self.delays[story.attempts]
        topic = dead_topic(story.topic) if delay is None else retry_topic(story.topic, delay)
        explain(error)
        _log.warning(
            "%s/%d at offset %d failed (try %d) and goes to %s: %s",
            story.topic,
            story.partition,
            story.offset,
            story.attempts + 1,
            topic,
            "; ".join([repr(error), *getattr(error, "__notes__", ())]),
        )
        kept: Headers = [header for header in record.headers if not header[0].startswith(PREFIX)]
        delay_ms = 0 if delay is None else delay.delay_ms
        story_headers = story.headers_after(error, self._clock.now_ms(), delay_ms)
        return _Forward(topic, record, kept + story_headers)

    async def _settle(
        self, first: ConsumerRecord, next_offset: int, forwards: list[_Forward]
    ) -> None:
        """Forwards records that failed, then commits; in a transaction if the producer has one."""
        partition = TopicPartition(first.topic, first.partition)
        offsets = {partition: next_offset}
        if forwards and self._producer.settings.transactional_id is not None:
            await self._settle_at_once(first, offsets, forwards)
            return
        await asyncio.gather(*await self._send(forwards))
        try:
            await self._consumer.commit(offsets)
        except CommitFailed as error:
            _log.warning("%s: %s; others handle its records again", partition, error)
        except KafkaError as error:
            if error.code != ErrorCode.REBALANCE_IN_PROGRESS:
                raise
            # The next commit covers these records, or the next owner handles them again.
            _log.info("%s: not committed, the group is rebalancing", partition)

    async def _settle_at_once(
        self, first: ConsumerRecord, offsets: dict[TopicPartition, int], forwards: list[_Forward]
    ) -> None:
        (partition,) = offsets
        try:
            async with self._producer.transaction():
                await self._send(forwards)
                await self._producer.send_offsets_to_transaction(
                    offsets, self._consumer.group_metadata()
                )
        except MustAbort as error:
            cause = error.__cause__
            if not isinstance(cause, KafkaError) or cause.code not in _REBALANCED:
                raise
            _log.warning("%s: %s; its records are handled again", partition, cause)
            if partition in self._consumer.assignment():
                self._consumer.seek(partition, first.offset, first.leader_epoch)

    async def _send(self, forwards: list[_Forward]) -> "list[asyncio.Future[RecordMetadata]]":
        return [
            await self._producer.send(
                forward.topic, forward.record.value, forward.record.key, headers=forward.headers
            )
            for forward in forwards
        ]


__all__ = ["Delay", "Reject", "Retrying", "Story", "dead_topic", "retry_topic"]
