"""Gathers the records of a producer into batches, one queue of batches for each partition.

The producer calls `append` for every record, a hundred thousand times a second: it puts the record
into the open batch of its partition and returns the future of its delivery. The sender takes
batches out.

Invariants, which `check` compares where state moves:
- A batch is in its partition's queue, or in flight, or done, and is done exactly once.
- The batches of a queue are in the order in which their records were sent (`ProducerBatch.order`),
  also after batches were put back or split.
- `free_bytes` is `buffer.memory` less what all batches that are not done hold, so it is
  `buffer.memory` again when no batch is left.
- Sequence numbers of a partition are kept for as long as the producer's epoch lasts: a number
  that is used a second time within an epoch makes a broker drop the record as a duplicate.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from itertools import pairwise, repeat

from odradek import invariants
from odradek.client.errors import BufferFull, ClientClosed
from odradek.client.producer.backlog import Backlog
from odradek.client.producer.deliveries import (
    OnDelivery,
    RecordMetadata,
    call_back,
    future_factory,
)
from odradek.client.producer.sequence_state import SequenceState
from odradek.client.settings import ProducerSettings
from odradek.invariants import InvariantViolation
from odradek.protocol.batch_header import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from odradek.protocol.records import HEADER_SIZE, BatchBuilder, Headers, decode_records
from odradek.protocol.types import NO_TOPIC_ID, ProducerEpoch, ProducerId, TopicPartition

# The most bytes that a record takes beside its key, value and headers: its length, attributes,
# timestamp, offset and header count, and the lengths of key and value.
RECORD_OVERHEAD = 5 + 1 + 10 + 5 + 5 + 5 + 5


class ProducerBatch:
    """A batch from its first record to its acknowledgement."""

    __slots__ = (
        "attempts",
        "base_sequence",
        "builder",
        "callbacks",
        "created_s",
        "done",
        "done_waiter",
        "futures",
        "held_bytes",
        "is_in_doubt",
        "number",
        "order",
        "producer_epoch",
        "producer_id",
        "queue",
        "retry_at_s",
        "sent_epoch",
        "timestamps_ms",
    )

    def __init__(
        self,
        queue: "PartitionQueue",
        builder: BatchBuilder,
        order: tuple[int, ...],
        created_s: float,
    ) -> None:
        self.queue = queue
        # Batches are numbered as they are opened. The parts of batch (7,) are (7, 0) and (7, 1),
        # the parts of the first of these (7, 0, 0) and (7, 0, 1): tuples compare in the order in
        # which the records were sent.
        self.order = order
        self.number = order[0]
        self.builder = builder
        self.created_s = created_s
        # What each record is owed. Lists in place of a tuple for each record, because the time that
        # the garbage collector takes grows with the number of tuples.
        self.futures: list[asyncio.Future[RecordMetadata]] = []
        self.timestamps_ms: list[int] = []
        self.callbacks: dict[int, OnDelivery] = {}
        self.held_bytes = 0
        self.attempts = 0
        self.retry_at_s = 0.0
        self.producer_id = NO_PRODUCER_ID
        self.producer_epoch = NO_PRODUCER_EPOCH
        self.base_sequence = -1
        self.sent_epoch = -1
        # Whether an attempt under this epoch was sent and not answered: the request may wait at the
        # broker, which may append the batch at any time.
        self.is_in_doubt = False
        self.done = False
        self.done_waiter: asyncio.Future[None] | None = None

    @property
    def record_count(self) -> int:
        return self.builder.record_count

    @property
    def has_sequence(self) -> bool:
        return self.base_sequence >= 0

    @property
    def was_renumbered(self) -> bool:
        """Returns whether the batch got a new epoch after it was sent.

        Then a response to the old one is not evidence about its sequence numbers."""
        return self.sent_epoch != self.producer_epoch

    @property
    def last_sequence(self) -> int:
        return (self.base_sequence + self.builder.record_count - 1) & 0x7FFFFFFF

    def set_producer(
        self, producer_id: ProducerId, producer_epoch: ProducerEpoch, base_sequence: int
    ) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.base_sequence = base_sequence
        self.is_in_doubt = False

    def build(self, *, is_transactional: bool = False) -> bytes:
        return self.builder.build(
            0,
            self.producer_id,
            self.producer_epoch,
            self.base_sequence,
            is_transactional=is_transactional,
        )

    def complete(self, base_offset: int, log_append_time_ms: int) -> None:
        """Completes the future of every record with its offset."""
        topic, partition = self.queue.topic_partition
        count = len(self.futures)
        # Without a loop in Python over the fields: this is called with every record.
        fields = zip(
            repeat(topic),
            repeat(partition),
            repeat(-1) if base_offset < 0 else range(base_offset, base_offset + count),
            self.timestamps_ms if log_append_time_ms < 0 else repeat(log_append_time_ms, count),
            strict=False,  # some of them have no end
        )
        deliveries = list(map(tuple.__new__, repeat(RecordMetadata), fields))
        for future, metadata in zip(self.futures, deliveries, strict=True):
            if not future.done():
                future.set_result(metadata)
        for index, on_delivery in self.callbacks.items():
            call_back(self.futures[index], on_delivery, deliveries[index], None)

    def fail(self, error: BaseException, record_errors: dict[int, BaseException]) -> None:
        """Fails the future of every record; single records may have an error of their own."""
        for index, future in enumerate(self.futures):
            if not future.done():
                future.set_exception(record_errors.get(index, error))
                # The sender has logged the error, so asyncio need not if the future is not awaited.
                future.exception()
        for index, on_delivery in self.callbacks.items():
            call_back(self.futures[index], on_delivery, None, record_errors.get(index, error))

    def owe(self, batch: "ProducerBatch", begin: int, end: int) -> None:
        """Takes over what another batch owes for a range of its records.

        A batch that was appended as a whole owes one delivery, which each of its parts makes.
        """
        if len(batch.futures) < batch.record_count:
            begin, end = 0, 1
        self.futures = batch.futures[begin:end]
        self.timestamps_ms = batch.timestamps_ms[begin:end]
        self.callbacks = {
            index - begin: on_delivery
            for index, on_delivery in batch.callbacks.items()
            if begin <= index < end
        }


class PartitionQueue:
    """The batches of one partition that wait to be sent, oldest first."""

    __slots__ = (
        "batches",
        "open_batch",
        "ready_leader",
        "sending",
        "sequences",
        "topic_id",
        "topic_partition",
    )

    def __init__(self, topic_partition: TopicPartition) -> None:
        self.topic_partition = topic_partition
        # The id that the topic had in the last metadata.
        self.topic_id = NO_TOPIC_ID
        self.batches: deque[ProducerBatch] = deque()
        self.open_batch: ProducerBatch | None = None
        self.sequences = SequenceState()
        self.sending = 0
        # The leader whose group in `ReadyQueues` contains this queue, if one does.
        self.ready_leader: int | None = None

    def put_back(self, batch: ProducerBatch) -> None:
        """Puts a batch that was taken out, or a part of it, back at its place in the order."""
        position = 0
        for queued in self.batches:
            if queued.order >= batch.order:
                break
            position += 1
        self.batches.insert(position, batch)
        self.check()

    def check(self) -> None:
        """Raises `InvariantViolation` unless the batches are in the order of their records."""
        orders = [batch.order for batch in self.batches]
        if any(first >= second for first, second in pairwise(orders)):
            raise InvariantViolation(
                f"queue of {self.topic_partition}", f"batches are not in order: {orders}"
            )


class Accumulator:
    """All batches of a producer."""

    def __init__(
        self,
        settings: ProducerSettings,
        *,
        on_ready: Callable[[PartitionQueue], None],
        on_opened: Callable[[ProducerBatch], None],
        on_full: Callable[[], None],
    ) -> None:
        self.incomplete: dict[ProducerBatch, None] = {}
        self.free_bytes = settings.buffer_memory
        # Callers that wait for room, in order: the bytes that they need, and their futures.
        self.waiters: deque[tuple[int, asyncio.Future[None]]] = deque()
        # Whether a record must wait although it fits: others wait, or a pause is due. It stays true
        # when nothing more is accepted. One attribute, because `send` looks at it for every record.
        self.must_wait = False
        self._backlog = Backlog(self._pause_ended)
        self._queues: dict[TopicPartition, PartitionQueue] = {}
        self._batch_bytes = max(settings.batch_size, 1)
        self.buffer_bytes = settings.buffer_memory
        self._codec = settings.codec
        self._level = settings.compression_level
        self._on_ready = on_ready
        self._on_opened = on_opened
        self._on_full = on_full
        self._loop = asyncio.get_running_loop()
        self._new_future = future_factory(self._loop)
        self._opened = 0
        self._closed_because: str | None = None

    def queue(self, topic_partition: TopicPartition) -> PartitionQueue:
        queue = self._queues.get(topic_partition)
        if queue is None:
            queue = self._queues[topic_partition] = PartitionQueue(topic_partition)
        return queue

    def forget(self, topic: str, may_drop: Callable[[PartitionQueue], bool]) -> bool:
        """Forgets an idle topic; returns False if it has batches that are not done.

        A queue is dropped only if `may_drop` agrees: the sequence numbers of the producer's
        current epoch must survive, because a broker takes the first number used again for a
        duplicate, acknowledges the record and drops it.
        """
        queues = [queue for queue in self._queues.values() if queue.topic_partition.topic == topic]
        if any(queue.batches or queue.sending or queue.sequences.in_flight for queue in queues):
            return False
        for queue in queues:
            if may_drop(queue):
                del self._queues[queue.topic_partition]
        return True

    @property
    def record_count(self) -> int:
        """Returns how many records are neither acknowledged nor failed."""
        return sum(batch.record_count for batch in self.incomplete)

    def has_room(self, size_bytes: int) -> bool:
        return size_bytes <= self.free_bytes and not self.must_wait

    @property
    def is_full(self) -> bool:
        """Returns whether somebody waits for memory, and not only for the end of a pause."""
        return bool(self.waiters) and self.waiters[0][0] > self.free_bytes

    async def room(self, size_bytes: int, deadline_s: float) -> None:
        """Returns when a record may be appended: there is memory for it, and no pause is due.

        Callers are served in the order of their calls, so that concurrent sends keep their order.
        The caller must append at once, without awaiting anything. If it does not (it was cancelled,
        or something raised), the room goes to the next caller.
        """
        while not self.has_room(size_bytes):
            if self._closed_because is not None:
                raise ClientClosed(self._closed_because)
            waiter: asyncio.Future[None] = self._loop.create_future()
            self.waiters.append((size_bytes, waiter))
            self.must_wait = True
            if self._backlog.is_pause_due:
                self._backlog.begin_pause()
            if self.is_full:
                self._on_full()
            try:
                async with asyncio.timeout_at(deadline_s):
                    await waiter
            except TimeoutError:
                if self.is_full or size_bytes > self.free_bytes:
                    raise BufferFull(
                        f"buffer.memory ({self.buffer_bytes} bytes) stayed full for max.block.ms:"
                        " the brokers take records more slowly than they are sent"
                    ) from None
            finally:
                self.waiters = deque(entry for entry in self.waiters if entry[1] is not waiter)
                self._update_must_wait()
                # Called after the caller's turn, when it has used the room or has not.
                self._loop.call_soon(self._wake_waiters)
            if size_bytes <= self.free_bytes and self._closed_because is None:
                return

    def _update_must_wait(self) -> None:
        is_closed = self._closed_because is not None
        self.must_wait = bool(self.waiters) or self._backlog.is_pause_due or is_closed

    def _pause_ended(self) -> None:
        self._update_must_wait()
        self._wake_waiters()

    def _wake_waiters(self) -> None:
        """Wakes the callers for which there is room now, in the order of their calls."""
        if self._backlog.is_pausing:
            return
        if self.is_full:
            self._on_full()
        free = self.free_bytes
        for size_bytes, waiter in self.waiters:
            if size_bytes > free:
                break
            free -= size_bytes
            if not waiter.done():
                waiter.set_result(None)

    def append(  # noqa: PLR0917 - called for every record, and keywords cost time
        self,
        queue: PartitionQueue,
        key: bytes | None,
        value: bytes | None,
        headers: Headers,
        timestamp_ms: int,
        size_bytes: int,
        on_delivery: OnDelivery | None,
    ) -> "asyncio.Future[RecordMetadata]":
        """Adds a record of at most `size_bytes`, for which the caller found room."""
        batch = queue.open_batch
        if batch is None or batch.builder.size_bytes + size_bytes > self._batch_bytes:
            # A record that cannot be encoded raises here, before its batch is queued.
            builder = BatchBuilder(self._codec, self._level)
            builder.append(key, value, headers, timestamp_ms)
            batch = self._open(queue, builder)
        else:
            builder = batch.builder
            builder.append(key, value, headers, timestamp_ms)
        future: asyncio.Future[RecordMetadata] = self._new_future()
        if on_delivery is not None:
            batch.callbacks[len(batch.futures)] = on_delivery
        batch.futures.append(future)
        batch.timestamps_ms.append(timestamp_ms)
        batch.held_bytes += size_bytes
        self.free_bytes -= size_bytes
        if builder.size_bytes >= self._batch_bytes:
            queue.open_batch = None
            self._on_ready(queue)
        return future

    def append_batch(
        self, queue: PartitionQueue, builder: BatchBuilder, on_delivery: OnDelivery
    ) -> None:
        """Adds a batch that is full already, for which the caller found room.

        `on_delivery` is called once with the metadata of its first record, or with the error;
        if the batch has to be split, once for each part.
        """
        queue.open_batch = None
        batch = self._enqueue(queue, builder)
        batch.futures, batch.timestamps_ms = [self._loop.create_future()], [-1]
        batch.callbacks = {0: on_delivery}
        batch.held_bytes = builder.size_bytes
        self.free_bytes -= builder.size_bytes
        self._on_opened(batch)

    def _open(self, queue: PartitionQueue, builder: BatchBuilder) -> ProducerBatch:
        batch = self._enqueue(queue, builder)
        queue.open_batch = batch
        self._on_opened(batch)
        return batch

    def _enqueue(self, queue: PartitionQueue, builder: BatchBuilder) -> ProducerBatch:
        self._opened += 1
        batch = ProducerBatch(queue, builder, (self._opened,), self._loop.time())
        if queue.batches:
            self._on_ready(queue)
        queue.batches.append(batch)
        self._backlog.note_queued(queue)
        if self._backlog.is_pause_due:
            self.must_wait = True
        self.incomplete[batch] = None
        if invariants.is_thorough():
            queue.check()
            self.check()
        return batch

    def take(self, queue: PartitionQueue) -> ProducerBatch:
        """Removes and returns the oldest batch, which takes no more records from now on."""
        batch = queue.batches.popleft()
        if queue.open_batch is batch:
            queue.open_batch = None
        self._backlog.note_taken(queue)
        return batch

    def split(self, batch: ProducerBatch) -> list[ProducerBatch]:
        """Splits a batch that is too large for the broker into two, and queues both."""
        records = decode_records(batch.build())
        half = max(1, len(records) // 2)
        parts = []
        for index, (begin, end) in enumerate(((0, half), (half, len(records)))):
            builder = BatchBuilder(self._codec, self._level)
            part = ProducerBatch(batch.queue, builder, (*batch.order, index), batch.created_s)
            for record in records[begin:end]:
                part.builder.append(record.key, record.value, record.headers, record.timestamp_ms)
            part.owe(batch, begin, end)
            part.held_bytes = part.builder.size_bytes - HEADER_SIZE
            part.attempts = batch.attempts
            self.free_bytes -= part.held_bytes
            self.incomplete[part] = None
            parts.append(part)
            batch.queue.put_back(part)
        batch.futures, batch.timestamps_ms, batch.callbacks = [], [], {}
        self.finish(batch)
        return parts

    def finish(self, batch: ProducerBatch) -> None:
        """Frees the memory of a batch that is acknowledged or has failed."""
        if batch.done:
            raise InvariantViolation(
                f"batch {batch.order} of {batch.queue.topic_partition}", "is finished twice"
            )
        batch.done = True
        del self.incomplete[batch]
        self.free_bytes += batch.held_bytes
        if batch.done_waiter is not None and not batch.done_waiter.done():
            batch.done_waiter.set_result(None)
        self.check()
        self._wake_waiters()

    def check(self) -> None:
        """Raises `InvariantViolation` unless memory is free exactly where no batch holds it."""
        if self.incomplete and not invariants.is_thorough():
            return
        held_bytes = sum(batch.held_bytes for batch in self.incomplete)
        if self.free_bytes != self.buffer_bytes - held_bytes:
            raise InvariantViolation(
                "accumulator",
                f"{self.free_bytes} bytes are free of {self.buffer_bytes}, and batches hold"
                f" {held_bytes}",
            )

    async def wait_until_flushed(self) -> None:
        """Returns when every batch that exists now is done."""
        last = self._opened
        while batch := next(
            (unfinished for unfinished in self.incomplete if unfinished.number <= last), None
        ):
            if batch.done_waiter is None:
                batch.done_waiter = self._loop.create_future()
            await asyncio.shield(batch.done_waiter)

    def close(self, because: str = "the producer is closed") -> None:
        """Accepts no more records: `room` raises `ClientClosed` with the reason."""
        self._closed_because = because
        self.must_wait = True
        for _, waiter in self.waiters:
            if not waiter.done():
                waiter.set_result(None)
