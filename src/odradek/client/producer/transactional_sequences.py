"""Sequence numbers of a transactional producer.

They work as in `idempotence`, but only the transaction coordinator bumps the producer's epoch. So a
gap in the sequence that cannot be filled fails the transaction, and the epoch that follows it
starts from 0 again.
"""

from odradek.client.producer.accumulator import PartitionQueue, ProducerBatch
from odradek.client.producer.idempotence import Idempotence
from odradek.protocol.errors import ErrorCode, RetriableError, error_for
from odradek.protocol.types import ProducerEpoch, ProducerId


class TransactionalSequences(Idempotence):
    def __init__(self) -> None:
        super().__init__()
        self.must_restart = False

    def restart(self, producer_id: ProducerId, producer_epoch: ProducerEpoch) -> None:
        """Takes a new identity: every partition starts again from 0 at its next batch."""
        self.must_restart = False
        self.new_producer_id(producer_id, producer_epoch)
        for queue in list(self._unresolved):
            queue.sequences.unresolved_sequence = None
        self._unresolved.clear()

    def may_retry(self, batch: ProducerBatch, code: int, log_start_offset: int) -> bool:
        if code == ErrorCode.UNKNOWN_PRODUCER_ID:
            return log_start_offset == -1
        if code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            # Only if a batch before it has still to arrive.
            state = batch.queue.sequences
            return state.unresolved_sequence is None and state.in_flight[:1] != [batch]
        return isinstance(error_for(code), RetriableError)

    def settle(self) -> None:
        """Does nothing: the end of the failed transaction brings the new epoch."""

    def note_unknown_result(self, batch: ProducerBatch) -> None:
        super().note_unknown_result(batch)
        self.must_restart = True

    def _leave_gap(self, batch: ProducerBatch) -> None:
        super()._leave_gap(batch)
        self.must_restart = True

    def _request_bump(self, queue: PartitionQueue) -> None:
        self.must_restart = True
