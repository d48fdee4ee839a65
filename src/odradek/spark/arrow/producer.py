"""A blocking producer of encoded batches, for Spark's tasks.

Producer ids, sequence numbers, retries and transactions are those of the client's producer. Only
whole batches go through it, so there is no work for each record.
"""

from typing import Self

from odradek.client.group.offsets import OffsetAndMetadata
from odradek.client.producer.deliveries import RecordMetadata
from odradek.client.producer.producer import Producer
from odradek.client.producer.transaction_requests import Identity
from odradek.client.settings import ProducerSettings
from odradek.client.sync import LoopThread
from odradek.protocol.types import TopicId, TopicPartition
from odradek.spark.arrow.encoding import EncodedBatch


class _WholeBatchProducer(Producer):
    """The client's producer with a method that takes encoded batches instead of records."""

    def __init__(self, settings: ProducerSettings) -> None:
        super().__init__(settings)
        self.failure: BaseException | None = None

    async def send_batch(self, topic: str, partition: int, records: EncodedBatch) -> None:
        """Appends a batch to the accumulator; waits while the buffer is full. `failure` keeps the
        error of the first batch that failed."""
        accumulator, target = await self._ready(topic, partition, records.size_bytes)
        target.is_used = True
        accumulator.append_batch(target.queues[partition], records, self._delivered)

    async def topic_id(self, topic: str) -> TopicId:
        cluster, _ = self._parts()
        return (await cluster.topic(topic, self.settings.max_block_ms)).id

    def _delivered(self, metadata: RecordMetadata | None, error: BaseException | None) -> None:
        if error is not None and self.failure is None:
            self.failure = error


class BatchProducer:
    """Sends packed batches, in transactions if `transactional.id` is set."""

    def __init__(self, settings: ProducerSettings) -> None:
        self._thread = LoopThread("odradek-batches")
        try:
            self._producer = self._thread.call(_start_producer(settings))
        except BaseException:
            self._thread.stop()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self, timeout_ms: int | None = None) -> None:
        """Waits until the remaining batches are delivered, at most `timeout_ms`, and ends. An open
        transaction is aborted."""
        try:
            self._thread.call(self._producer.close(timeout_ms))
        finally:
            self._thread.stop()

    def partition_count(self, topic: str) -> int:
        return len(self._thread.call(self._producer.partitions_for(topic)))

    def topic_id(self, topic: str) -> TopicId:
        """Returns the topic id that this producer writes to; all zeros if the brokers have no topic
        ids."""
        return self._thread.call(self._producer.topic_id(topic))

    def send(self, topic: str, partition: int, records: EncodedBatch) -> None:
        """Puts a batch into the buffer; waits only while that is full. Raises the error of an
        earlier batch that failed."""
        self._raise_failure()
        self._thread.call(self._producer.send_batch(topic, partition, records))

    def flush(self) -> None:
        """Returns when all batches are acknowledged. Raises the error of the first one that
        failed."""
        self._thread.call(self._producer.flush())
        self._raise_failure()

    def _raise_failure(self) -> None:
        if self._producer.failure is not None:
            raise self._producer.failure

    def begin_transaction(self) -> None:
        self._thread.call(self._producer.begin_transaction())

    def init_transactions(self) -> None:
        """Fences older producers of the same transactional id. A transaction that they left open is
        aborted."""
        self._thread.call(self._producer.init_transactions())

    def send_offsets(self, offsets: dict[TopicPartition, OffsetAndMetadata], group_id: str) -> None:
        """Adds a group's offsets to the transaction."""
        self._thread.call(self._producer.send_offsets_to_transaction(offsets, group_id))

    def commit_transaction(self) -> None:
        self._thread.call(self._producer.commit_transaction())

    def hand_over_transaction(self) -> Identity:
        """Leaves the transaction open for `Admin.end_transactions`; only `close` may follow."""
        return self._thread.call(self._producer.hand_over_transaction())

    def abort_transaction(self) -> None:
        """Aborts the transaction; does nothing if there is none that can be aborted."""
        if self._producer.may_abort:
            self._thread.call(self._producer.abort_transaction())


async def _start_producer(settings: ProducerSettings) -> _WholeBatchProducer:
    producer = _WholeBatchProducer(settings)
    await producer.start()
    return producer
