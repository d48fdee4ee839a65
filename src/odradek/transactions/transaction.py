"""A transactional id and the state of its transaction.

A producer has one transaction at a time. The transaction is open from the first partition that is
added until the producer ends it. The end is decided when PREPARE_COMMIT or PREPARE_ABORT is
written. What remains then is to write a marker to every partition of the transaction.

    state             meaning                                       next states
    EMPTY             a producer id, and no transaction yet         EMPTY, ONGOING, PREPARE_ABORT
    ONGOING           the producer may write records                ONGOING, PREPARE_COMMIT,
                                                                    PREPARE_ABORT
    PREPARE_COMMIT    decided: it will be committed                 COMPLETE_COMMIT
    PREPARE_ABORT     decided: it will be aborted                   COMPLETE_ABORT
    COMPLETE_COMMIT   every partition has its commit marker         EMPTY, ONGOING, PREPARE_ABORT
    COMPLETE_ABORT    every partition has its abort marker          EMPTY, ONGOING, PREPARE_ABORT

EMPTY and the complete states become PREPARE_ABORT when a producer of version 2 aborts without
having written anything, only to get its next epoch. They become EMPTY when a producer starts again.

The producer id and epoch decide whether a producer may act. A new epoch fences every producer that
has the old one. In transactions version 2 (KIP-890) each end bumps the epoch, and the markers carry
the bumped epoch: a delayed request of an ended transaction always has an old epoch, so it cannot
touch a later transaction. `docs/transactions.md` gives the argument.

The last epoch is 32767. No producer ever gets it: it only fences the producer with epoch 32766. A
producer that would get it gets a new producer id with epoch 0 instead. While the markers, which
still carry the old id, are being written, the new id is `next_producer_id`.
"""

from enum import IntEnum
from typing import Final, NamedTuple, NoReturn

from odradek.invariants import InvariantViolation
from odradek.protocol.types import ProducerEpoch, ProducerId, TopicPartition

NO_PRODUCER: Final = ProducerId(-1)
NO_TIME: Final = -1
NO_EPOCH: Final = ProducerEpoch(-1)
FIRST_EPOCH: Final = ProducerEpoch(0)
LAST_EPOCH: Final = ProducerEpoch(2**15 - 1)
# The first version of transactions in which each end bumps the epoch (KIP-890).
VERSION_2: Final = 2
_MAX_STEPS: Final = 8


class Status(IntEnum):
    """Numbered as in Kafka's records."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def kafka_name(self) -> str:
        """The name that Kafka's tools show, such as PrepareCommit."""
        return self.name.title().replace("_", "")


PREPARED: Final = frozenset({Status.PREPARE_COMMIT, Status.PREPARE_ABORT})
# The states of an id without a transaction: it may be forgotten when it is not used for long.
IDLE: Final = frozenset({Status.EMPTY, Status.COMPLETE_COMMIT, Status.COMPLETE_ABORT})

_NEXT_STATES: Final = {
    Status.EMPTY: {Status.EMPTY, Status.ONGOING, Status.PREPARE_ABORT},
    Status.ONGOING: {Status.ONGOING, Status.PREPARE_COMMIT, Status.PREPARE_ABORT},
    Status.PREPARE_COMMIT: {Status.COMPLETE_COMMIT},
    Status.PREPARE_ABORT: {Status.COMPLETE_ABORT},
    Status.COMPLETE_COMMIT: {Status.EMPTY, Status.ONGOING, Status.PREPARE_ABORT},
    Status.COMPLETE_ABORT: {Status.EMPTY, Status.ONGOING, Status.PREPARE_ABORT},
}


class Step(NamedTuple):
    """A state that a transactional id was in, for its history in the log."""

    status: Status
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    updated_ms: int
    client_address: str = ""

    def __str__(self) -> str:
        step = (
            f"{self.status.kafka_name}({self.producer_id}/{self.producer_epoch})@{self.updated_ms}"
        )
        return f"{step} by {self.client_address}" if self.client_address else step


class StepHistory(NamedTuple):
    """The last steps of a transactional id, formatted only when they are logged."""

    steps: tuple[Step, ...]

    def __str__(self) -> str:
        return " > ".join(map(str, self.steps)) or "none"


class Transaction(NamedTuple):
    """A value that is never changed: every step makes another one."""

    transactional_id: str
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    timeout_ms: int
    status: Status = Status.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    started_ms: int = NO_TIME
    updated_ms: int = NO_TIME
    previous_producer_id: ProducerId = NO_PRODUCER
    next_producer_id: ProducerId = NO_PRODUCER
    # The epoch before this one, if the same producer had it. The producer may ask again for the
    # current epoch, because the reply may have been lost.
    last_producer_epoch: ProducerEpoch = NO_EPOCH
    # VERSION_2 if the markers carry a bumped epoch.
    client_transaction_version: int = 0
    # Only in memory: the connection that asked for this step, and the steps before it.
    client_address: str = ""
    previous_steps: tuple[Step, ...] = ()

    def become(self, status: Status, now_ms: int) -> "Transaction":
        if status not in _NEXT_STATES.get(self.status, set()):
            self._violate(f"{self.status.kafka_name} cannot become {status.kafka_name}")
        return self._replace(status=status, updated_ms=now_ms)

    def check(self) -> None:
        """Raises `InvariantViolation` unless the last step is one that the table above allows. The
        machine calls it for each step that it takes, but not during a replay, because a compacted
        log lacks steps."""
        if self.partitions and self.status in IDLE:
            self._violate(f"it has partitions while it is {self.status.kafka_name}")
        if not self.previous_steps:
            return
        before = self.previous_steps[-1]
        if self.status not in _NEXT_STATES.get(before.status, set()):
            self._violate(f"{before.status.kafka_name} became {self.status.kafka_name}")
        if before.producer_id == self.producer_id and before.producer_epoch > self.producer_epoch:
            self._violate(f"its epoch fell from {before.producer_epoch} to {self.producer_epoch}")

    def _violate(self, rule: str) -> NoReturn:
        subject = f"transactional id {self.transactional_id}"
        raise InvariantViolation(subject, rule, map(str, self.history.steps))

    @property
    def step(self) -> Step:
        return Step(
            self.status,
            self.producer_id,
            self.producer_epoch,
            self.updated_ms,
            self.client_address,
        )

    @property
    def history(self) -> StepHistory:
        return StepHistory((*self.previous_steps, self.step))

    def with_history_of(self, previous: "Transaction") -> "Transaction":
        """Returns this transaction with the history of its state before."""
        steps = (*previous.previous_steps[1 - _MAX_STEPS :], previous.step)
        return self._replace(previous_steps=steps)

    @property
    def is_exhausted(self) -> bool:
        """Whether the next epoch would be the last one, which no producer gets."""
        return self.producer_epoch >= LAST_EPOCH - 1

    @property
    def has_bumped_epoch(self) -> bool:
        """Whether the markers of a prepared transaction carry a higher epoch than its records."""
        return self.client_transaction_version >= VERSION_2

    # Steps

    def resumed(self, timeout_ms: int, now_ms: int) -> "Transaction":
        """Keeps the identity, for a producer that possibly did not receive the reply with it."""
        return self.become(Status.EMPTY, now_ms)._replace(
            timeout_ms=timeout_ms,
            partitions=frozenset(),
            started_ms=NO_TIME,
            client_transaction_version=0,
        )

    def renewed(
        self,
        timeout_ms: int,
        fresh_producer_id: ProducerId,
        now_ms: int,
        *,
        held_epoch: ProducerEpoch,
    ) -> "Transaction":
        """Gives a producer that starts again a new identity, which fences all before it.

        `held_epoch` is the epoch that the producer sent. It may send it again and get the same
        reply.
        """
        renewed = self.resumed(timeout_ms, now_ms)._replace(
            previous_producer_id=self.producer_id, last_producer_epoch=held_epoch
        )
        if self.is_exhausted:
            return renewed._replace(producer_id=fresh_producer_id, producer_epoch=FIRST_EPOCH)
        return renewed._replace(producer_epoch=ProducerEpoch(self.producer_epoch + 1))

    def with_partitions(
        self, added: frozenset[TopicPartition], client_transaction_version: int, now_ms: int
    ) -> "Transaction":
        begins = self.status is not Status.ONGOING
        return self.become(Status.ONGOING, now_ms)._replace(
            partitions=added if begins else self.partitions | added,
            started_ms=now_ms if begins else self.started_ms,
            last_producer_epoch=NO_EPOCH,
            client_transaction_version=client_transaction_version,
        )

    def prepared(self, *, committed: bool, now_ms: int) -> "Transaction":
        """Decides the end of the transaction, which is prepared from then on."""
        status = Status.PREPARE_COMMIT if committed else Status.PREPARE_ABORT
        prepared = self.become(status, now_ms)
        if self.status is Status.ONGOING:
            return prepared
        return prepared._replace(partitions=frozenset(), started_ms=now_ms)

    def bumped(self, fresh_producer_id: ProducerId) -> "Transaction":
        """Bumps the epoch of a prepared transaction. Its markers carry the new epoch, and its
        producer continues with it."""
        bumped = self._replace(
            producer_epoch=ProducerEpoch(self.producer_epoch + 1),
            last_producer_epoch=self.producer_epoch,
            client_transaction_version=VERSION_2,
        )
        if not self.is_exhausted:
            return bumped
        # The markers still carry the old id, with the epoch that no producer gets.
        return bumped._replace(producer_epoch=LAST_EPOCH, next_producer_id=fresh_producer_id)

    def fenced(self, now_ms: int, *, by_holder: bool) -> "Transaction":
        """Aborts the transaction and bumps the epoch, which fences its producer. No producer has
        the new epoch yet.

        `by_holder` says that the fenced producer may ask for the next epoch: it started again
        itself, or its transaction timed out.

        Otherwise another producer takes its place, and the epoch is bumped twice, as in Kafka. The
        epoch in between is the one that the fenced producer would have got for an EndTxn of its
        own. If that were the current epoch, an EndTxn of the fenced producer would look like a
        repetition of an earlier one, and the reply would give it an identity.
        """
        aborted = self.prepared(committed=False, now_ms=now_ms)
        bumped = ProducerEpoch(self.producer_epoch + (1 if by_holder else 2))
        return aborted._replace(
            producer_epoch=min(bumped, LAST_EPOCH),
            last_producer_epoch=self.producer_epoch if by_holder else NO_EPOCH,
            client_transaction_version=VERSION_2,
        )

    def completed(self, now_ms: int) -> "Transaction":
        """Completes the transaction: every marker is written."""
        committed = self.status is Status.PREPARE_COMMIT
        status = Status.COMPLETE_COMMIT if committed else Status.COMPLETE_ABORT
        completed = self.become(status, now_ms)._replace(
            partitions=frozenset(), previous_producer_id=self.producer_id
        )
        if self.next_producer_id == NO_PRODUCER:
            return completed
        return completed._replace(
            producer_id=self.next_producer_id,
            producer_epoch=FIRST_EPOCH,
            next_producer_id=NO_PRODUCER,
        )

    @property
    def identity(self) -> tuple[int, int]:
        return self.producer_id, self.producer_epoch

    @property
    def next_identity(self) -> tuple[ProducerId, ProducerEpoch]:
        """The identity that the producer continues with when the transaction is complete."""
        if self.next_producer_id != NO_PRODUCER:
            return self.next_producer_id, FIRST_EPOCH
        return self.producer_id, self.producer_epoch
