"""Decides about the transactions of one partition of `__transaction_state`.

Whatever is decided is one record: the transaction as it will be. `prepared` names the decided
ones whose markers are still to be written, after a replay too, so that a new coordinator goes
on where the old one was.

What follows from a request whose id and epoch are right:

    state        init                    add            end, version 2           end, version 1
    EMPTY        next epoch              ONGOING        abort: PREPARE_ABORT     invalid
    ONGOING      fence, PREPARE_ABORT,   ONGOING        PREPARE_*, next epoch    PREPARE_*
                 ask again
    PREPARE_*    ask again               ask again      repeated: ask again      ask again
    COMPLETE_*   next epoch              ONGOING        repeated: same answer    same answer
                                                        else as EMPTY

An end of version 1 that finds ONGOING is asked to come again while the newest record about its id
is not committed, as in Kafka. Its producer waits for the answer to that record, so this may well be
a late end of the transaction before. If the producer gave up waiting and aborts, it comes again.

Version 2 tells a repetition from the next request by the epoch: the first raised it. So what is
repeated finds its own epoch + 1, and finds it in a decided or complete state, or is fenced. An init
that fences a stranger in ONGOING raises the epoch by two, so that nothing of the stranger's counts
as repeated. A new producer id is the producer's own as soon as it was told; until the markers are
written, requests that name it are asked to come again.
"""

import logging
from collections.abc import Callable, Hashable
from enum import Enum
from itertools import islice
from typing import Final

from odradek.protocol.errors import ErrorCode
from odradek.statemachine.machine import (
    Caller,
    Deadline,
    LogRecord,
    Marker,
    Now,
    Outcome,
    Reply,
    Written,
)
from odradek.transactions.commands import (
    Added,
    AddPartitions,
    Command,
    EndTransaction,
    Examine,
    Identity,
    InitProducer,
    MarkersWritten,
)
from odradek.transactions.records import key_of, read_key, read_value, record_of
from odradek.transactions.refusals import asker_of, tell_refusal
from odradek.transactions.transaction import (
    AT_REST,
    DECIDED,
    LAST_EPOCH,
    NO_EPOCH,
    NO_PRODUCER,
    Status,
    Transaction,
)

logger = logging.getLogger("odradek.transactions")

_SWEEP: Final = ("sweep",)
_FORGOTTEN_AT_ONCE: Final = 1000
_FIRST_VERSION_THAT_RAISES: Final = 2
_COMMITTED: Final = frozenset({Status.PREPARE_COMMIT, Status.COMPLETE_COMMIT})


class TransactionMachine:
    """A `Machine` without volatile state: everything it knows is in its log."""

    def __init__(
        self,
        *,
        max_timeout_ms: int,
        expiration_ms: int,
        sweep_ms: int,
        on_prepared: Callable[[str], None],
        grace_ms: int = 0,
    ) -> None:
        """`on_prepared` is told of every transaction whose markers are due. `grace_ms` is how
        long an overdue transaction is left alone at most."""
        self.transactions: dict[str, Transaction] = {}
        self.prepared: dict[str, Transaction] = {}
        self._max_timeout_ms = max_timeout_ms
        self._expiration_ms = expiration_ms
        self._sweep_ms = sweep_ms
        self._grace_ms = grace_ms
        self._on_prepared = on_prepared
        self._is_loaded = False
        # Of the command whose records are applied next: the runner awaits nothing in between.
        self._asked_by = ""

    # Applying

    def apply(self, entry: Written | Marker | None) -> None:
        if not isinstance(entry, Written):
            return
        transactional_id = read_key(entry.record.key)
        if transactional_id is None:
            return
        self.prepared.pop(transactional_id, None)
        if entry.record.value is None:
            self.transactions.pop(transactional_id, None)
            return
        transaction = read_value(transactional_id, entry.record.value)
        if transaction is None:
            return
        before = self.transactions.get(transactional_id)
        if before is not None:
            transaction = transaction.after(before, self._asked_by)
        self.transactions[transactional_id] = transaction
        if transaction.status in DECIDED:
            self.prepared[transactional_id] = transaction
            if self._is_loaded:
                self._on_prepared(transactional_id)

    def loaded(self, now: Now) -> Outcome[None]:
        self._is_loaded = True
        for transactional_id in self.prepared:
            self._on_prepared(transactional_id)
        deadlines = [
            self._time_out_at(transaction, now.wall_ms)
            for transaction in self.transactions.values()
            if transaction.status is Status.ONGOING
        ]
        return Outcome(deadlines=[*deadlines, Deadline(_SWEEP, self._sweep_ms)])

    # Deciding

    def decide(self, command: Command, caller: Caller | None, now: Now) -> Outcome[None]:
        """Every command is about its transactional id, and every answer rests on that alone."""
        self._asked_by = asker_of(command)
        outcome = self._decide(command, caller, now)
        if not outcome.records and outcome.replies:
            current = self.transactions.get(command.transactional_id)
            tell_refusal(command, outcome.replies[0].response, current)
        return outcome._replace(subjects=(command.transactional_id,))

    def subjects_of(self, marker: Marker) -> tuple[str, ...]:
        return ()  # Nobody writes transactions to `__transaction_state`.

    def _decide(self, command: Command, caller: Caller | None, now: Now) -> Outcome[None]:
        match command:
            case InitProducer():
                return self._init(command, caller, now.wall_ms)
            case AddPartitions():
                return self._add(command, caller, now.wall_ms)
            case EndTransaction():
                return self._end(command, caller, now.wall_ms)
            case MarkersWritten():
                return self._complete(command, caller, now.wall_ms)
            case Examine():
                return _answer(caller, self.transactions.get(command.transactional_id))

    # Starting

    def _init(self, command: InitProducer, caller: Caller | None, now_ms: int) -> Outcome[None]:
        if not 0 < command.timeout_ms <= self._max_timeout_ms:
            return _answer(caller, Identity(ErrorCode.INVALID_TRANSACTION_TIMEOUT))
        current = self.transactions.get(command.transactional_id)
        if current is None:
            new = Transaction(
                command.transactional_id,
                command.fresh_producer_id,
                0,
                command.timeout_ms,
                updated_ms=now_ms,
            )
            return _write(new, caller, Identity(ErrorCode.NONE, new.producer_id, 0))
        standing = _standing(current, command)
        if standing is _Standing.FENCED:
            return _answer(caller, Identity(ErrorCode.PRODUCER_FENCED))
        if current.status in DECIDED:
            return _answer(caller, Identity(ErrorCode.CONCURRENT_TRANSACTIONS))
        if current.status is Status.ONGOING:
            # Whoever is in it is fenced and the transaction aborted; the client asks again.
            return _write(
                current.fenced(now_ms, by_holder=standing is _Standing.HOLDER),
                caller,
                Identity(ErrorCode.CONCURRENT_TRANSACTIONS),
                Deadline(current.transactional_id, None),
            )
        if standing is _Standing.REPEATS and current.producer_epoch != LAST_EPOCH:
            started = current.resumed(command.timeout_ms, now_ms)
        else:
            started = current.renewed(
                command.timeout_ms,
                command.fresh_producer_id,
                now_ms,
                held_epoch=command.producer_epoch,
            )
        return _write(started, caller, Identity(ErrorCode.NONE, *started.next_identity))

    # Adding

    def _add(self, command: AddPartitions, caller: Caller | None, now_ms: int) -> Outcome[None]:
        current = self.transactions.get(command.transactional_id)
        error = _check(current, command.producer_id, command.producer_epoch)
        if error is not ErrorCode.NONE or current is None:
            return _answer(caller, Added(error))
        if current.status in DECIDED:
            return _answer(caller, Added(ErrorCode.CONCURRENT_TRANSACTIONS))
        if command.verify_only:
            return _answer(caller, Added(ErrorCode.NONE, command.partitions - current.partitions))
        if current.status is Status.ONGOING and command.partitions <= current.partitions:
            return _answer(caller, Added(ErrorCode.NONE))
        added = current.with_partitions(command.partitions, command.client_version, now_ms)
        if current.status is Status.ONGOING:
            # Its deadline runs. A clock that was stepped since it began would end it at once.
            return _write(added, caller, Added(ErrorCode.NONE))
        return _write(added, caller, Added(ErrorCode.NONE), self._time_out_at(added, now_ms))

    # Ending

    def _end(self, command: EndTransaction, caller: Caller | None, now_ms: int) -> Outcome[None]:
        current = self.transactions.get(command.transactional_id)
        if current is None:
            return _answer(caller, Identity(ErrorCode.INVALID_PRODUCER_ID_MAPPING))
        if command.client_version >= _FIRST_VERSION_THAT_RAISES:
            return self._end_and_raise(current, command, caller, now_ms)
        error = _check(current, command.producer_id, command.producer_epoch)
        if error is not ErrorCode.NONE:
            return _answer(caller, Identity(error))
        if current.status is Status.ONGOING and not command.on_committed:
            # Its producer has not heard that it began: this may be a late end of the one before.
            return _answer(caller, Identity(ErrorCode.CONCURRENT_TRANSACTIONS))
        if current.status is Status.ONGOING:
            decided = current.decided(committed=command.committed, now_ms=now_ms)
            return _write_decision(decided._replace(client_version=0), caller)
        return _answer(caller, _told_again(current, command))

    def _end_and_raise(
        self,
        current: Transaction,
        command: EndTransaction,
        caller: Caller | None,
        now_ms: int,
    ) -> Outcome[None]:
        """Version 2. A repeated request must find its own decision, or nothing at all."""
        if _repeats_end(current, command):
            if current.status in (Status.EMPTY, Status.ONGOING):
                return _answer(caller, Identity(ErrorCode.PRODUCER_FENCED))
            return _answer(caller, _told_again(current, command))
        error = _check_end(current, command)
        if error is not ErrorCode.NONE:
            return _answer(caller, Identity(error))
        decided = current.decided(committed=command.committed, now_ms=now_ms)
        return _write_decision(decided.raised(command.fresh_producer_id), caller)

    def _complete(
        self, command: MarkersWritten, caller: Caller | None, now_ms: int
    ) -> Outcome[None]:
        current = self.transactions.get(command.transactional_id)
        if (
            current is None
            or current.status not in DECIDED
            or current.identity != (command.producer_id, command.producer_epoch)
        ):
            return _answer(caller, ErrorCode.INVALID_TXN_STATE)
        return _write(current.completed(now_ms), caller, ErrorCode.NONE)

    # Deadlines

    def expire(self, key: Hashable, now: Now) -> Outcome[None]:
        self._asked_by = ""
        if key == _SWEEP:
            return self._sweep(now.wall_ms)
        current = self.transactions.get(str(key))
        if current is None or current.status is not Status.ONGOING:
            return Outcome()
        deadline = self._time_out_at(current, now.wall_ms)
        if deadline.after_ms:
            return Outcome(deadlines=[deadline])
        logger.info(
            "transaction %s of producer %d: aborted, it was open for longer than %d ms",
            current.transactional_id,
            current.producer_id,
            current.timeout_ms,
        )
        aborted = record_of(current.fenced(now.wall_ms, by_holder=True))
        return Outcome([aborted], subjects=(current.transactional_id,))

    def _time_out_at(self, transaction: Transaction, now_ms: int) -> Deadline:
        """A little after the timeout: producers give up by the same timeout and abort themselves,
        and one that comes too late with that is fenced for good."""
        grace_ms = min(self._grace_ms, transaction.timeout_ms // 10)
        left_ms = transaction.started_ms + transaction.timeout_ms + grace_ms - now_ms
        return Deadline(transaction.transactional_id, max(left_ms, 0))

    def _sweep(self, now_ms: int) -> Outcome[None]:
        idle = (
            one.transactional_id
            for one in self.transactions.values()
            if one.status in AT_REST and now_ms - one.updated_ms >= self._expiration_ms
        )
        forgotten = list(islice(idle, _FORGOTTEN_AT_ONCE))
        again_ms = 0 if len(forgotten) == _FORGOTTEN_AT_ONCE else self._sweep_ms
        return Outcome(
            [LogRecord(key_of(transactional_id), None) for transactional_id in forgotten],
            deadlines=[Deadline(_SWEEP, again_ms)],
            subjects=forgotten,
        )


class _Standing(Enum):
    """Who asks to start."""

    STRANGER = "names no identity: whoever had it is fenced"
    HOLDER = "has the newest identity"
    REPEATS = "had the one before, and may not have heard of the newest"
    FENCED = "has lost it to another"


def _standing(current: Transaction, command: InitProducer) -> _Standing:
    producer_id, epoch = command.producer_id, command.producer_epoch
    if producer_id == NO_PRODUCER:
        return _Standing.STRANGER
    if (producer_id, epoch) in (current.identity, current.next_identity):
        return _Standing.HOLDER
    is_rotated = current.previous_producer_id == producer_id and current.producer_epoch == 0
    held_id = producer_id == current.producer_id or (is_rotated and epoch >= LAST_EPOCH - 1)
    if held_id and epoch == current.last_producer_epoch != NO_EPOCH:
        return _Standing.REPEATS
    return _Standing.FENCED


def _check(current: Transaction | None, producer_id: int, producer_epoch: int) -> ErrorCode:
    """Whether the identity is the current one. Of a decided transaction it may also be the one that
    the producer was told to go on with: if that is a new producer id, the transaction gets it only
    when the markers, which carry the old one, are written."""
    if current is not None and (producer_id, producer_epoch) == current.next_identity:
        return ErrorCode.NONE
    if current is None or current.producer_id != producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if current.producer_epoch != producer_epoch:
        return ErrorCode.PRODUCER_FENCED
    return ErrorCode.NONE


def _check_end(current: Transaction, command: EndTransaction) -> ErrorCode:
    """Of version 2, and not repeated."""
    error = _check(current, command.producer_id, command.producer_epoch)
    if error is not ErrorCode.NONE:
        return error
    if current.status in DECIDED:
        # The producer goes on already, while the markers are being written.
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if current.status is not Status.ONGOING and command.committed:
        return ErrorCode.INVALID_TXN_STATE
    if current.is_exhausted and command.fresh_producer_id == NO_PRODUCER:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return ErrorCode.NONE


def _repeats_end(current: Transaction, command: EndTransaction) -> bool:
    """Whether the epoch was bumped by one from that of the request, when a transaction ended: then
    the request may be a repetition. Where it was bumped to fence whoever names that epoch, it was
    bumped by two (`Transaction.fenced`), or ended at the last one without a new producer id."""
    if not current.has_raised_epoch:
        return False
    if current.producer_id == command.producer_id:
        was_fenced = (
            current.producer_epoch == LAST_EPOCH and current.next_producer_id == NO_PRODUCER
        )
        return current.producer_epoch == command.producer_epoch + 1 and not was_fenced
    return (
        current.previous_producer_id == command.producer_id
        and command.producer_epoch == LAST_EPOCH - 1
        and current.producer_epoch == 0
    )


def _told_again(current: Transaction, command: EndTransaction) -> Identity:
    """The answer to a request whose transaction is decided, or over."""
    decided_so = current.status is not Status.EMPTY and command.committed == (
        current.status in _COMMITTED
    )
    if not decided_so:
        return Identity(ErrorCode.INVALID_TXN_STATE)
    if current.status in DECIDED:
        return Identity(ErrorCode.CONCURRENT_TRANSACTIONS)
    if current.producer_epoch == LAST_EPOCH:
        return Identity(ErrorCode.PRODUCER_FENCED)  # It has to start again, with another id.
    return Identity(ErrorCode.NONE, *current.next_identity)


def _answer(caller: Caller | None, response: object) -> Outcome[None]:
    return Outcome(replies=[Reply(caller, response)] if caller is not None else ())


def _write_decision(decided: Transaction, caller: Caller | None) -> Outcome[None]:
    identity = Identity(ErrorCode.NONE, *decided.next_identity)
    return _write(decided, caller, identity, Deadline(decided.transactional_id, None))


def _write(
    transaction: Transaction, caller: Caller | None, response: object, *deadlines: Deadline
) -> Outcome[None]:
    replies = [Reply(caller, response)] if caller is not None else []
    return Outcome([record_of(transaction)], replies=replies, deadlines=deadlines)
