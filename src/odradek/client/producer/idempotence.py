"""Sequence numbers, with which retries write no record twice and keep the order of a partition.

A broker remembers, for each producer id and partition, the epoch and the last five
batches by sequence number. It appends a batch only if its first sequence follows the last one;
it answers a batch it has already with the offset it gave then. So a batch keeps its number
when it is sent again, batches of a partition are sent again one at a time and in order, and a
number is never used twice within an epoch: the broker would take the second use for a duplicate,
acknowledge the record and drop it. Therefore the numbers of a partition are kept for as long as
the epoch lasts, however long the partition is idle and whatever happens to its topic
(`may_forget`).

The broker recognises a batch that is sent again only among the last five. A former leader may keep
a request waiting until it times out, while later batches are acknowledged by the new leader. So no
batch is sent that would be the sixth from the oldest one without a response, over whichever
connection the five before it went (`_has_room`).

A gap that cannot be filled (a batch expired after it was sent, or the broker lost its state) ends
the epoch: the producer bumps its epoch, and the batches of that partition, in order, start again
from 0. Batches of other partitions that are in flight are finished under the old epoch first, and
so are batches of the same partition from before the gap: the broker may have them already, and
would append them again under another epoch. The same goes for the first batch after the gap if an
attempt of it was not answered: a busy broker may append the expired batch late, which fills the
gap, and then this attempt.

A broker that does not know a producer accepts whichever batch comes first (KIP-360). So batches of
one partition overtake each other unless the first is acknowledged before the second is sent. A
broker does not know this producer if the producer is new, if the topic was deleted and created
again, or if the producer was idle for `producer.id.expiration.ms`.

This is pure state without I/O and without a clock; the sender calls it. Invariant, for each
partition: `in_flight` is ordered as the records were sent, and its batches carry the producer id
and epoch of the partition.
"""

from itertools import pairwise

from odradek.client.producer.accumulator import PartitionQueue, ProducerBatch
from odradek.invariants import InvariantViolation
from odradek.protocol.batch_header import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from odradek.protocol.errors import ErrorCode, error_for
from odradek.protocol.errors import RetriableError as _Retriable
from odradek.protocol.types import ProducerEpoch, ProducerId

_LAST_EPOCH = 32_767
_SEQUENCE_MASK = 0x7FFFFFFF
# After this time without a batch a broker may have forgotten the producer. Clients do not know its
# producer.id.expiration.ms, one day by default; a shorter time here costs one round trip.
_REMEMBERED_S = 60.0
# How many batches of a producer a broker remembers for each partition.
_REMEMBERED_BATCHES = 5


class Idempotence:
    """The producer's id and epoch, and the rules for sequence numbers."""

    def __init__(self) -> None:
        self.producer_id = NO_PRODUCER_ID
        self.producer_epoch = NO_PRODUCER_EPOCH
        self._bump_required = False
        self._to_rewrite: dict[PartitionQueue, None] = {}
        self._unresolved: dict[PartitionQueue, None] = {}

    @property
    def has_producer_id(self) -> bool:
        return self.producer_id >= 0

    def set_producer_id(self, producer_id: ProducerId, producer_epoch: ProducerEpoch) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch

    def may_forget(self, queue: PartitionQueue) -> bool:
        """Returns whether the sequence numbers of an idle partition are not needed any more.

        They are needed while the epoch lasts in which they were used. In a later epoch, or under
        another producer id, the partition starts from 0 in any case.
        """
        state = queue.sequences
        if state.in_flight or queue in self._unresolved or queue in self._to_rewrite:
            return False
        return state.producer_id < 0 or self._is_stale(queue)

    @staticmethod
    def topic_recreated(queue: PartitionQueue) -> None:
        """Notes that the topic was deleted and created again: its leader knows no producer.

        The sequence numbers continue, because the broker accepts any number from a producer that it
        does not know, and because batches in flight keep their numbers.
        """
        queue.sequences.is_known_to_broker = False

    def may_send(self, queue: PartitionQueue, batch: ProducerBatch, now_s: float) -> bool:
        """Returns whether the oldest waiting batch of a partition may be sent now."""
        state = queue.sequences
        if batch.has_sequence:
            # The batch is sent again: only the oldest in flight may be, one at a time.
            return not state.in_flight or state.in_flight[0] is batch
        if state.unresolved_sequence is not None:
            return False
        if not state.in_flight:
            return True
        if not self._has_room(queue):
            return False
        # The second batch must not overtake the first when that one has to be sent again.
        is_known = state.is_known_to_broker and now_s - state.last_acknowledged_s < _REMEMBERED_S
        return is_known and not self._is_stale(queue)

    @staticmethod
    def _has_room(queue: PartitionQueue) -> bool:
        """Returns whether the broker will remember the oldest batch in flight after one more."""
        state = queue.sequences
        return len(state.in_flight) + state.acknowledged_early < _REMEMBERED_BATCHES

    def assign(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        """Gives a batch that is about to be sent its numbers, unless it has them already."""
        if not batch.has_sequence:
            state = queue.sequences
            if self._is_stale(queue):
                self._start_at_beginning(queue)
            elif not self._has_room(queue):
                raise InvariantViolation(
                    f"sequences of {queue.topic_partition}",
                    "the broker would forget the oldest batch in flight",
                )
            batch.set_producer(state.producer_id, state.producer_epoch, state.next_sequence)
            state.next_sequence = (state.next_sequence + batch.record_count) & _SEQUENCE_MASK
            state.in_flight.append(batch)
            self.check(queue)
        batch.sent_epoch = batch.producer_epoch

    def check(self, queue: PartitionQueue) -> None:
        """Raises `InvariantViolation` unless the batches in flight are in order, and all of them
        carry the producer id and epoch of the partition."""
        state = queue.sequences
        orders = [batch.order for batch in state.in_flight]
        if any(first >= second for first, second in pairwise(orders)):
            raise InvariantViolation(
                f"sequences of {queue.topic_partition}", f"in flight out of order: {orders}"
            )
        identity = (state.producer_id, state.producer_epoch)
        if any((batch.producer_id, batch.producer_epoch) != identity for batch in state.in_flight):
            raise InvariantViolation(
                f"sequences of {queue.topic_partition}",
                f"a batch in flight has another producer id or epoch than {identity}",
            )

    def note_acknowledgement(self, batch: ProducerBatch, now_s: float) -> None:
        """Notes that the broker has acknowledged the batch."""
        state = batch.queue.sequences
        if batch in state.in_flight[1:]:
            state.acknowledged_early += 1
        if batch.producer_epoch == state.producer_epoch and not batch.was_renumbered:
            state.last_acknowledged_sequence = batch.last_sequence
            state.is_known_to_broker = True
            state.last_acknowledged_s = now_s
        self._forget(batch)

    def note_failure(self, batch: ProducerBatch, *, sequence_unused: bool) -> None:
        """Notes that a batch has failed; with `sequence_unused` the broker has not appended it in
        this attempt."""
        is_oldest = batch.queue.sequences.in_flight[:1] == [batch]
        self._forget(batch)
        if not batch.has_sequence:
            return
        if is_oldest and sequence_unused and not batch.is_in_doubt:
            self._request_bump(batch.queue)
        else:
            self._leave_gap(batch)

    @staticmethod
    def split(batch: ProducerBatch, parts: list[ProducerBatch]) -> None:
        """Divides the sequence numbers of a batch that was too large among its parts."""
        if not batch.has_sequence:
            return
        sequence = batch.base_sequence
        for part in parts:
            part.set_producer(batch.producer_id, batch.producer_epoch, sequence)
            sequence = (sequence + part.record_count) & _SEQUENCE_MASK
        in_flight = batch.queue.sequences.in_flight
        position = in_flight.index(batch)
        in_flight[position : position + 1] = parts

    def note_unknown_result(self, batch: ProducerBatch) -> None:
        """Notes that a batch failed after it was sent: it is unknown whether the broker has it."""
        self._forget(batch)
        if batch.has_sequence:
            self._leave_gap(batch)

    def _leave_gap(self, batch: ProducerBatch) -> None:
        """Leaves the sequence numbers of the batch unused: batches that were sent before it end in
        this epoch, later ones in the next."""
        state = batch.queue.sequences
        follower = (batch.last_sequence + 1) & _SEQUENCE_MASK
        state.unresolved_sequence = max(state.unresolved_sequence or 0, follower)
        self._unresolved[batch.queue] = None

    def may_retry(self, batch: ProducerBatch, code: int, log_start_offset: int) -> bool:
        """Returns whether a batch that the broker refused may be sent again, and requests another
        epoch if the broker would refuse its sequence numbers again."""
        if code == ErrorCode.UNKNOWN_PRODUCER_ID:
            if log_start_offset != -1 and not batch.was_renumbered:
                self._request_bump(batch.queue)
            return True
        if code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            self._bump_if_gap_is_real(batch)
            return True
        return isinstance(error_for(code), _Retriable)

    def _bump_if_gap_is_real(self, batch: ProducerBatch) -> None:
        """Requests another epoch if no batch that is still in flight can fill the gap.

        If a later batch was acknowledged, this one may be in the log too, and the broker has
        forgotten it: after a restart, Kafka's brokers know only the last batch of each producer.
        Under another epoch it would be there twice, or behind the later one. So it is sent again as
        it is until `delivery.timeout.ms`, as by Kafka's own producer.
        """
        state = batch.queue.sequences
        if state.acknowledged_early:
            return
        if state.unresolved_sequence is not None and batch.is_in_doubt:
            # The batch that left the gap may still be appended, and then this one.
            return
        if state.in_flight[:1] == [batch] and (
            state.unresolved_sequence is not None or not batch.was_renumbered
        ):
            self._request_bump(batch.queue)

    def settle(self) -> None:
        """Bumps the epoch if a gap requires it. The sender calls it before it takes batches out."""
        for queue in list(self._unresolved):
            state = queue.sequences
            if state.in_flight:
                continue
            del self._unresolved[queue]
            state.unresolved_sequence = None
            follows = (state.last_acknowledged_sequence + 1) & _SEQUENCE_MASK
            if state.next_sequence != follows:
                self._request_bump(queue)
        if self._bump_required:
            self._bump()

    def _bump(self) -> None:
        if not self.has_producer_id:
            # A new producer id was requested; the partitions start again with it.
            return
        self._bump_required = False
        if self.producer_epoch >= _LAST_EPOCH:
            # This producer id has no more epochs: the sender requests a new one.
            self.set_producer_id(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)
            return
        self.producer_epoch = ProducerEpoch(self.producer_epoch + 1)
        for queue in self._to_rewrite:
            self._start_at_beginning(queue)
            queue.sequences.unresolved_sequence = None
            self._unresolved.pop(queue, None)
        self._to_rewrite.clear()

    def new_producer_id(self, producer_id: ProducerId, producer_epoch: ProducerEpoch) -> None:
        """Takes a producer id; partitions that waited for a new epoch start again with it."""
        self._bump_required = False
        self.set_producer_id(producer_id, producer_epoch)
        for queue in self._to_rewrite:
            self._start_at_beginning(queue)
            queue.sequences.unresolved_sequence = None
            self._unresolved.pop(queue, None)
        self._to_rewrite.clear()

    def _start_at_beginning(self, queue: PartitionQueue) -> None:
        state = queue.sequences
        state.producer_id, state.producer_epoch = self.producer_id, self.producer_epoch
        sequence = 0
        for batch in state.in_flight:
            batch.set_producer(self.producer_id, self.producer_epoch, sequence)
            sequence += batch.record_count
        state.next_sequence = sequence
        state.acknowledged_early = 0
        state.last_acknowledged_sequence = -1
        state.is_known_to_broker = False

    def _is_stale(self, queue: PartitionQueue) -> bool:
        state = queue.sequences
        return (state.producer_id, state.producer_epoch) != (self.producer_id, self.producer_epoch)

    def _request_bump(self, queue: PartitionQueue) -> None:
        self._bump_required = True
        self._to_rewrite[queue] = None

    @staticmethod
    def _forget(batch: ProducerBatch) -> None:
        state = batch.queue.sequences
        if batch in state.in_flight:
            state.in_flight.remove(batch)
        if not state.in_flight:
            state.acknowledged_early = 0
