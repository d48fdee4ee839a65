"""A transactional id and the transaction it is in.

A producer has one transaction at a time. It is open from the first partition added until it
is asked to end; from then on its fate is decided and written down, and what remains is to put
a marker into every partition it touched.

    state                 what it means                                    next
    EMPTY                 an identity, and no transaction yet              ONGOING
    ONGOING               records may be written                           PREPARE_COMMIT,
                                                                           PREPARE_ABORT
    PREPARE_COMMIT        decided: it will be committed                    COMPLETE_COMMIT
    PREPARE_ABORT         decided: it will be aborted                      COMPLETE_ABORT
    COMPLETE_COMMIT       every partition has its commit marker            EMPTY, ONGOING
    COMPLETE_ABORT        every partition has its abort marker             EMPTY, ONGOING

EMPTY and the complete states also become PREPARE_ABORT: a producer of version 2 may abort
without having written anything, only to get its next epoch.

Who may act is decided by the producer id and epoch. A new epoch fences every holder of the
old one. Since transactions of version 2 (KIP-890) each end raises the epoch, and the marker
carries the raised one: a delayed request of an ended transaction is always of an old epoch,
so it can never touch a later one. `docs/transactions.md` has the argument.

Epochs end at 32767, which no producer ever holds: it is what fences the last one. A producer
that would get it gets a new id and epoch 0 instead (`next_producer_id` once the markers, which
still carry the old id, are written).
"""

from enum import IntEnum
from typing import Final, NamedTuple

from odradek.protocol.types import TopicPartition

NO_PRODUCER: Final = -1
NO_TIME: Final = -1
NO_EPOCH: Final = -1
LAST_EPOCH: Final = 2**15 - 1
_STEPS_REMEMBERED: Final = 8
_FIRST_VERSION_THAT_RAISES: Final = 2


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
    def title(self) -> str:
        """As tools show it: PrepareCommit."""
        return self.name.title().replace("_", "")


DECIDED: Final = frozenset({Status.PREPARE_COMMIT, Status.PREPARE_ABORT})
AT_REST: Final = frozenset({Status.EMPTY, Status.COMPLETE_COMMIT, Status.COMPLETE_ABORT})

_NEXT: Final = {
    Status.EMPTY: {Status.EMPTY, Status.ONGOING, Status.PREPARE_ABORT},
    Status.ONGOING: {Status.ONGOING, Status.PREPARE_COMMIT, Status.PREPARE_ABORT},
    Status.PREPARE_COMMIT: {Status.COMPLETE_COMMIT},
    Status.PREPARE_ABORT: {Status.COMPLETE_ABORT},
    Status.COMPLETE_COMMIT: {Status.EMPTY, Status.ONGOING, Status.PREPARE_ABORT},
    Status.COMPLETE_ABORT: {Status.EMPTY, Status.ONGOING, Status.PREPARE_ABORT},
}


class InvalidTransition(Exception):
    """A fault in this room: the machine tried what the table does not allow."""


class Step(NamedTuple):
    """Where a transactional id was, for its story."""

    status: Status
    producer_id: int
    producer_epoch: int
    updated_ms: int
    asked_by: str = ""

    def __str__(self) -> str:
        step = f"{self.status.title}({self.producer_id}/{self.producer_epoch})@{self.updated_ms}"
        return f"{step} by {self.asked_by}" if self.asked_by else step


class Transaction(NamedTuple):
    """Never changed: every step makes another one."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    status: Status = Status.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    started_ms: int = NO_TIME
    updated_ms: int = NO_TIME
    previous_producer_id: int = NO_PRODUCER
    next_producer_id: int = NO_PRODUCER
    # The epoch before this one, if the same producer held it: it may ask again for its
    # successor, because the answer may have been lost.
    last_producer_epoch: int = NO_EPOCH
    # 2 if the markers carry a raised epoch.
    client_version: int = 0
    # Not written down: the connection that asked for this step, and the steps before it.
    asked_by: str = ""
    story: tuple[Step, ...] = ()

    def become(self, status: Status, now_ms: int) -> "Transaction":
        if status not in _NEXT[self.status]:
            raise InvalidTransition(
                f"{self.transactional_id} is {self.status.title} and cannot become "
                f"{status.title}; its story: {self.told}"
            )
        return self._replace(status=status, updated_ms=now_ms)

    @property
    def step(self) -> Step:
        return Step(
            self.status, self.producer_id, self.producer_epoch, self.updated_ms, self.asked_by
        )

    @property
    def told(self) -> str:
        """Its last steps and where it is, for people."""
        return " > ".join(map(str, (*self.story, self.step)))

    def after(self, before: "Transaction", asked_by: str = "") -> "Transaction":
        """With the story of what it was before, and who asked for the step from there."""
        story = (*before.story[1 - _STEPS_REMEMBERED :], before.step)
        return self._replace(asked_by=asked_by, story=story)

    @property
    def is_exhausted(self) -> bool:
        """Whether the next epoch would be the last, which is never given to a producer."""
        return self.producer_epoch >= LAST_EPOCH - 1

    @property
    def has_raised_epoch(self) -> bool:
        """Of a decided one: whether its markers carry a higher epoch than its records."""
        return self.client_version >= _FIRST_VERSION_THAT_RAISES

    # Steps

    def resumed(self, timeout_ms: int, now_ms: int) -> "Transaction":
        """The identity as it is, for a producer that did not hear that it has it."""
        return self.become(Status.EMPTY, now_ms)._replace(
            timeout_ms=timeout_ms,
            partitions=frozenset(),
            started_ms=NO_TIME,
            client_version=0,
        )

    def renewed(
        self, timeout_ms: int, fresh_producer_id: int, now_ms: int, *, held_epoch: int
    ) -> "Transaction":
        """The identity of a producer that starts again: everyone before it is fenced.

        If it said which epoch it held, it may say it again and get the same answer.
        """
        renewed = self.resumed(timeout_ms, now_ms)._replace(
            previous_producer_id=self.producer_id, last_producer_epoch=held_epoch
        )
        if self.is_exhausted:
            return renewed._replace(producer_id=fresh_producer_id, producer_epoch=0)
        return renewed._replace(producer_epoch=self.producer_epoch + 1)

    def with_partitions(
        self, added: frozenset[TopicPartition], client_version: int, now_ms: int
    ) -> "Transaction":
        begins = self.status is not Status.ONGOING
        return self.become(Status.ONGOING, now_ms)._replace(
            partitions=added if begins else self.partitions | added,
            started_ms=now_ms if begins else self.started_ms,
            last_producer_epoch=NO_EPOCH,
            client_version=client_version,
        )

    def decided(self, *, committed: bool, now_ms: int) -> "Transaction":
        """Its fate is written down."""
        status = Status.PREPARE_COMMIT if committed else Status.PREPARE_ABORT
        decided = self.become(status, now_ms)
        if self.status is Status.ONGOING:
            return decided
        return decided._replace(partitions=frozenset(), started_ms=now_ms)

    def raised(self, fresh_producer_id: int) -> "Transaction":
        """A decided one whose markers carry the next epoch, which its producer goes on with."""
        raised = self._replace(
            producer_epoch=self.producer_epoch + 1,
            last_producer_epoch=self.producer_epoch,
            client_version=_FIRST_VERSION_THAT_RAISES,
        )
        if not self.is_exhausted:
            return raised
        # The markers still carry the old id, with the epoch that no producer can have.
        return raised._replace(producer_epoch=LAST_EPOCH, next_producer_id=fresh_producer_id)

    def fenced(self, now_ms: int, *, by_holder: bool) -> "Transaction":
        """Aborted by us. A higher epoch fences whoever wrote; nobody is given it yet.

        `by_holder` says that the one who had the epoch before is not to be shut out: it started
        again itself, or its transaction took too long. It may ask for the next epoch.

        Otherwise a stranger takes its place, and the epoch is bumped twice, as in Kafka. The one in
        between is what the producer would have got for an EndTxn of its own. If that were the
        current epoch, an EndTxn of the producer that is fenced would look like a repetition of an
        earlier one, and would be answered with an identity.
        """
        aborted = self.decided(committed=False, now_ms=now_ms)
        bumped = self.producer_epoch + (1 if by_holder else 2)
        return aborted._replace(
            producer_epoch=min(bumped, LAST_EPOCH),
            last_producer_epoch=self.producer_epoch if by_holder else NO_EPOCH,
            client_version=_FIRST_VERSION_THAT_RAISES,
        )

    def completed(self, now_ms: int) -> "Transaction":
        """Every marker is written."""
        committed = self.status is Status.PREPARE_COMMIT
        status = Status.COMPLETE_COMMIT if committed else Status.COMPLETE_ABORT
        completed = self.become(status, now_ms)._replace(
            partitions=frozenset(), previous_producer_id=self.producer_id
        )
        if self.next_producer_id == NO_PRODUCER:
            return completed
        return completed._replace(
            producer_id=self.next_producer_id, producer_epoch=0, next_producer_id=NO_PRODUCER
        )

    @property
    def identity(self) -> tuple[int, int]:
        return self.producer_id, self.producer_epoch

    @property
    def next_identity(self) -> tuple[int, int]:
        """What the producer goes on with: of a decided transaction, the identity it will have."""
        if self.next_producer_id != NO_PRODUCER:
            return self.next_producer_id, 0
        return self.producer_id, self.producer_epoch
