"""Sequence numbers of a transactional producer.

As in `idempotence`, but the producer's epoch belongs to the coordinator of its transactions: a
gap that nobody can fill ends the transaction, and the epoch that comes after it ends the gap.
"""

from odradek.client.producer.accumulator import PartitionQueue, ProducerBatch
from odradek.client.producer.idempotence import Idempotence
from odradek.protocol.errors import ErrorCode, RetriableError, error_for


class TransactionalSequences(Idempotence):
    def __init__(self) -> None:
        super().__init__()
        self.must_restart = False

    def restart(self, producer_id: int, producer_epoch: int) -> None:
        """A new identity: every partition starts again from 0 when it is next written to."""
        self.must_restart = False
        self.new_producer_id(producer_id, producer_epoch)
        for queue in list(self._unresolved):
            queue.sequences.unresolved_sequence = None
        self._unresolved.clear()

    def may_retry(self, batch: ProducerBatch, code: int, log_start_offset: int) -> bool:
        if code == ErrorCode.UNKNOWN_PRODUCER_ID:
            return log_start_offset == -1
        if code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            # Only if one before it has still to arrive.
            state = batch.queue.sequences
            return state.unresolved_sequence is None and state.in_flight[:1] != [batch]
        return isinstance(error_for(code), RetriableError)

    def settle(self) -> None:
        """Nothing ends an epoch here: the transaction fails, and its end brings a new one."""

    def expired(self, batch: ProducerBatch) -> None:
        super().expired(batch)
        self.must_restart = True

    def _leave_gap(self, batch: ProducerBatch) -> None:
        super()._leave_gap(batch)
        self.must_restart = True

    def _request_bump(self, queue: PartitionQueue) -> None:
        self.must_restart = True
