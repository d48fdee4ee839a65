"""Decides what happens to a batch after an attempt to send it, or without one.

A batch is acknowledged, queued again for a retry (`_may_retry`), split because it is too large for
the broker, or failed: refused, expired, or abandoned with its producer. `BatchTimers.take_expired`
finds the batches for which `delivery.timeout.ms` is over, whether they were sent or not.
`Sender` calls this object with each outcome. It keeps the sequence numbers (`Idempotence`) and the
transaction informed, and completes the futures of the records.

Invariant: a batch is finished once, and then its memory is free again (`Accumulator.finish`).
"""

import asyncio
import logging

from odradek.client.cluster import Cluster
from odradek.client.cluster_view import Broker
from odradek.client.errors import DeliveryTimedOut, is_retriable
from odradek.client.metrics.counting import ProducerCounts
from odradek.client.producer.accumulator import Accumulator, ProducerBatch
from odradek.client.producer.batch_timers import BatchTimers
from odradek.client.producer.idempotence import Idempotence
from odradek.client.producer.ready_queues import ReadyQueues
from odradek.client.producer.transactions import Transactions
from odradek.client.retry import needs_metadata
from odradek.client.settings import ProducerSettings
from odradek.protocol.errors import ErrorCode, KafkaError, error_for
from odradek.protocol.messages.produce import PartitionProduceResponse
from odradek.protocol.types import TopicPartition
from odradek.wording import counted

_log = logging.getLogger("odradek.client")
# Errors that may pass, but usually stay until somebody does something.
_LASTING = frozenset(
    {
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
# Failed records, which a program may report itself.
_failures_log = logging.getLogger("odradek.client.deliveries")


class BatchOutcomes:
    def __init__(
        self,
        cluster: Cluster,
        settings: ProducerSettings,
        *,
        accumulator: Accumulator,
        timers: BatchTimers,
        ready: ReadyQueues,
        idempotence: Idempotence | None,
        transactions: Transactions | None,
    ) -> None:
        self._cluster = cluster
        self._settings = settings
        self._accumulator = accumulator
        self._timers = timers
        self._ready = ready
        self._idempotence = idempotence
        self._transactions = transactions
        # Why the last attempt for a partition failed, until a batch of it is acknowledged.
        self._last_errors: dict[TopicPartition, BaseException] = {}
        self._loop = asyncio.get_running_loop()
        self.counts = ProducerCounts()

    # After an attempt

    def complete_without_acks(self, batch: ProducerBatch) -> None:
        """Completes a batch that was written to the socket: with acks=0 there is no response."""
        batch.queue.sending -= 1
        batch.complete(-1, -1)
        self._accumulator.finish(batch)

    def handle_response(
        self, batch: ProducerBatch, response: PartitionProduceResponse, endpoints: list[Broker]
    ) -> None:
        """Handles the leader's response; `endpoints` are brokers that it names as leaders."""
        batch.queue.sending -= 1
        if batch.done:
            # The batch expired before the response came, and its future has that error.
            if not response.error_code and self._idempotence is not None:
                self._idempotence.note_acknowledgement(batch, self._loop.time())
        elif response.error_code in (0, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            self._acknowledge(batch, response)
        else:
            hint = response.current_leader
            if hint is not None:
                self._cluster.view.leader_moved(
                    batch.queue.topic_partition, hint.leader_id, hint.leader_epoch, endpoints
                )
            self._handle_error(batch, response)

    def handle_no_response(
        self, batch: ProducerBatch, error: BaseException, *, was_sent: bool
    ) -> None:
        """Retries or fails a batch without a response. If it was sent, it may or may not be in the
        log."""
        batch.queue.sending -= 1
        if was_sent:
            batch.is_in_doubt = True
        if batch.done:
            return
        if is_retriable(error) and self._has_attempts_left(batch):
            self._put_back(batch, error)
        else:
            if self._idempotence is not None:
                self._idempotence.note_unknown_result(batch)
            self._fail(batch, error)

    def _acknowledge(self, batch: ProducerBatch, response: PartitionProduceResponse) -> None:
        if self._last_errors:
            self._last_errors.pop(batch.queue.topic_partition, None)
        if self._idempotence is not None:
            self._idempotence.note_acknowledgement(batch, self._loop.time())
        if response.error_code:
            batch.complete(-1, -1)
        else:
            batch.complete(response.base_offset, response.log_append_time_ms)
        self._accumulator.finish(batch)

    def _handle_error(self, batch: ProducerBatch, response: PartitionProduceResponse) -> None:
        code = response.error_code
        error = error_for(code, response.error_message)
        if needs_metadata(error):
            self._cluster.refresh_soon()
        if code == ErrorCode.MESSAGE_TOO_LARGE and batch.record_count > 1:
            self.counts.splits += 1
            parts = self._accumulator.split(batch)
            if self._idempotence is not None:
                self._idempotence.split(batch, parts)
            self._timers.add_parts(parts)
        elif self._may_retry(batch, error, response.log_start_offset):
            self._put_back(batch, error)
        else:
            if self._idempotence is not None:
                self._idempotence.note_failure(
                    batch, sequence_unused=self._has_attempts_left(batch)
                )
            record_errors: dict[int, BaseException] = {
                record_error.batch_index: error_for(
                    code if len(response.record_errors) == 1 else ErrorCode.INVALID_RECORD,
                    record_error.batch_index_error_message or response.error_message,
                )
                for record_error in response.record_errors
            }
            if record_errors:
                others = "another record of its batch was refused, so the whole batch was"
                error = error_for(code, others)
            self._fail(batch, error, record_errors)

    def _may_retry(self, batch: ProducerBatch, error: KafkaError, log_start_offset: int) -> bool:
        """Returns whether a refused batch is sent again: it has attempts left (`retries`), and the
        error may pass. An idempotent producer also retries errors of sequence numbers."""
        if not self._has_attempts_left(batch):
            return False
        if self._idempotence is None:
            return is_retriable(error)
        return self._idempotence.may_retry(batch, error.code, log_start_offset)

    def _has_attempts_left(self, batch: ProducerBatch) -> bool:
        return batch.attempts <= self._settings.retries

    def _put_back(self, batch: ProducerBatch, error: BaseException) -> None:
        partition = batch.queue.topic_partition
        self.counts.topic(partition.topic).retries += batch.record_count
        is_lasting = isinstance(error, KafkaError) and error.code in _LASTING
        # Only the first failure is a warning: the others would repeat it with every attempt.
        level = (
            logging.WARNING if is_lasting and partition not in self._last_errors else logging.INFO
        )
        self._last_errors[partition] = error
        _log.log(
            level,
            "%s: attempt %d failed, trying again: %s",
            partition,
            batch.attempts,
            error,
        )
        delay_s = self._cluster.retry.request_backoff.delay_s(batch.attempts)
        batch.retry_at_s = self._loop.time() + delay_s
        batch.queue.put_back(batch)

    def _fail(
        self,
        batch: ProducerBatch,
        error: BaseException,
        record_errors: dict[int, BaseException] | None = None,
    ) -> None:
        if isinstance(error, DeliveryTimedOut):
            _failures_log.warning("%s", error)
        else:
            _failures_log.warning(
                "%s for %s failed: %s",
                counted(batch.record_count, "record"),
                batch.queue.topic_partition,
                error,
            )
        self.counts.topic(batch.queue.topic_partition.topic).errors += batch.record_count
        batch.fail(error, record_errors or {})
        self._accumulator.finish(batch)
        if self._transactions is not None:
            self._transactions.batch_failed(error)

    # Without an attempt

    def expire(self, batch: ProducerBatch) -> None:
        """Fails a batch that was not acknowledged within `delivery.timeout.ms`."""
        self._drop(
            batch,
            DeliveryTimedOut(
                f"{counted(batch.record_count, 'record')} for {batch.queue.topic_partition}"
                f" {'was' if batch.record_count == 1 else 'were'} not acknowledged within"
                f" delivery.timeout.ms={self._settings.delivery_timeout_ms}{self._why(batch)}"
            ),
        )

    def _why(self, batch: ProducerBatch) -> str:
        partition = batch.queue.topic_partition
        if self._cluster.view.leader(partition) < 0:
            return ": the partition has no leader"
        last_error = self._last_errors.get(partition)
        return "" if last_error is None else f": the last attempt failed: {last_error}"

    def drop_unsent(self, error: BaseException) -> None:
        """Fails the batches that no broker has seen: their transaction ends without them."""
        for batch in list(self._accumulator.incomplete):
            if not batch.has_sequence and batch in batch.queue.batches:
                self._remove_from_queue(batch)
                self._fail(batch, error)

    def abandon(self, error: BaseException) -> None:
        """Fails every record that is not acknowledged, because nothing more will be sent."""
        for batch in list(self._accumulator.incomplete):
            self._drop(batch, error)

    def _drop(self, batch: ProducerBatch, error: BaseException) -> None:
        if batch in batch.queue.batches:
            self._remove_from_queue(batch)
        if batch.attempts and self._idempotence is not None:
            self._idempotence.note_unknown_result(batch)
        self._fail(batch, error)

    def _remove_from_queue(self, batch: ProducerBatch) -> None:
        queue = batch.queue
        queue.batches.remove(batch)
        if queue.open_batch is batch:
            queue.open_batch = None
        if not queue.batches:
            self._ready.discard(queue)
