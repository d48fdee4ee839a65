"""Decides about the transactions of one partition of `__transaction_state`.

Every decision is one record: the transaction as it will be. The reply depends on the state of the
transactional id. For a request whose producer id and epoch are current:

    state        InitProducerId          AddPartitions  EndTxn, version 2        EndTxn, version 1
    EMPTY        next epoch              ONGOING        abort: PREPARE_ABORT     invalid
    ONGOING      fence, PREPARE_ABORT,   ONGOING        PREPARE_*, next epoch    PREPARE_*
                 retry
    PREPARE_*    retry                   retry          repeated: retry          retry
    COMPLETE_*   next epoch              ONGOING        repeated: same reply     same reply
                                                        else as EMPTY

"retry" is CONCURRENT_TRANSACTIONS.

An EndTxn of version 1 that finds ONGOING is also told to retry while the newest record about its id
is not committed, as in Kafka. Its producer still waits for the reply to that record, so the request
may be a delayed EndTxn of the transaction before. If the producer gave up waiting and aborts, its
next attempt succeeds.

In version 2 the epoch tells a repeated EndTxn from the next one, because the first one bumped it. A
repeated EndTxn finds its own epoch + 1 in a prepared or complete state, or it is fenced. An
InitProducerId that fences another producer in ONGOING bumps the epoch by two, so that no request of
the fenced producer is taken for a repeated one. A new producer id belongs to the producer as soon
as a reply gave it; until the markers are written, requests with it are told to retry.

`prepared` holds the transactions whose markers are still to be written. After a replay they are
found there again, so that a new coordinator continues where the old one stopped.
"""

from collections.abc import Hashable
from itertools import islice
from typing import Final, NamedTuple

from odradek import invariants
from odradek.invariants import InvariantViolation
from odradek.metadata import ClusterImage
from odradek.protocol.errors import ErrorCode
from odradek.statemachine.machine import (
    Caller,
    Command,
    Deadline,
    DecisionContext,
    Decisions,
    LogLine,
    LogRecord,
    Marker,
    Outcome,
    R,
    Written,
    reply_to,
)
from odradek.transactions.commands import (
    Added,
    AddPartitions,
    ClientCommand,
    DescribeTransaction,
    EndTransaction,
    InitProducer,
    MarkersWritten,
    ProducerIdResult,
)
from odradek.transactions.identity_checks import (
    Claim,
    check_end,
    check_identity,
    claim_of,
    repeated_reply,
    repeats_end,
)
from odradek.transactions.records import key_of, read_key, read_value, record_of
from odradek.transactions.refusal_lines import LOGGER, refusal_line
from odradek.transactions.transaction import (
    FIRST_EPOCH,
    IDLE,
    LAST_EPOCH,
    PREPARED,
    VERSION_2,
    Status,
    Transaction,
)

_SWEEP: Final = ("sweep",)
_MAX_FORGOTTEN_AT_ONCE: Final = 1000


class StepTaken(NamedTuple):
    """The event that follows each record about a transaction: the client that asked for the step,
    or "" if the broker took it by itself."""

    transactional_id: str
    client_address: str


class WriteMarkers(NamedTuple):
    """The effect of a decision to end a transaction: its markers have to be written."""

    transactional_id: str


TransactionOutcome = Outcome[StepTaken, WriteMarkers]


class TransactionMachine:
    """A `Machine`. Invariants: each step of a transaction is one that the table in `transaction`
    allows; `prepared` holds exactly the transactions in a prepared state."""

    def __init__(
        self, *, max_timeout_ms: int, expiration_ms: int, sweep_ms: int, grace_ms: int = 0
    ) -> None:
        """`expiration_ms` is how long an unused id is kept, `sweep_ms` how often unused ids are
        looked for, `grace_ms` how long a transaction may exceed its timeout at most."""
        self.transactions: dict[str, Transaction] = {}
        self.prepared: dict[str, Transaction] = {}
        self._max_timeout_ms = max_timeout_ms
        self._expiration_ms = expiration_ms
        self._sweep_ms = sweep_ms
        self._grace_ms = grace_ms
        self.decisions: Decisions[StepTaken, WriteMarkers, ClusterImage] = Decisions()
        self.decisions.on(InitProducer, self._init)
        self.decisions.on(AddPartitions, self._add)
        self.decisions.on(EndTransaction, self._end)
        self.decisions.on(MarkersWritten, self._complete)
        self.decisions.on(DescribeTransaction, self._describe)

    def decide(
        self, command: Command[R], caller: Caller[R] | None, now: DecisionContext[ClusterImage]
    ) -> TransactionOutcome:
        return self.decisions.decide(command, caller, now)

    # Applying

    def apply(self, entry: Written | Marker | StepTaken) -> None:
        if isinstance(entry, Written):
            self._apply_record(entry.record)
        elif isinstance(entry, StepTaken):
            self._apply_step(entry)

    def _apply_record(self, record: LogRecord) -> None:
        transactional_id = read_key(record.key)
        if transactional_id is None:
            return
        self.prepared.pop(transactional_id, None)
        if record.value is None:
            self.transactions.pop(transactional_id, None)
            return
        transaction = read_value(transactional_id, record.value)
        if transaction is None:
            return
        before = self.transactions.get(transactional_id)
        if before is not None:
            transaction = transaction.with_history_of(before)
        self._put(transaction)

    def _apply_step(self, step: StepTaken) -> None:
        transaction = self.transactions[step.transactional_id]
        transaction.check()
        if step.client_address:
            self._put(transaction._replace(client_address=step.client_address))
        if invariants.is_thorough():
            self.check()

    def _put(self, transaction: Transaction) -> None:
        self.transactions[transaction.transactional_id] = transaction
        if transaction.status in PREPARED:
            self.prepared[transaction.transactional_id] = transaction

    def check(self) -> None:
        """Raises `InvariantViolation` unless `prepared` is what the transactions say."""
        prepared = {
            transactional_id: transaction
            for transactional_id, transaction in self.transactions.items()
            if transaction.status in PREPARED
        }
        if prepared != self.prepared:
            raise InvariantViolation(
                "the transaction coordinator",
                f"it will write the markers of {sorted(self.prepared)},"
                f" but the prepared transactions are {sorted(prepared)}",
            )

    def subjects_of(self, marker: Marker) -> tuple[str, ...]:
        return ()  # `__transaction_state` has no transactions in it.

    def after_load(self, now: DecisionContext[ClusterImage]) -> TransactionOutcome:
        deadlines = [
            self._timeout_deadline(transaction, now.wall_ms)
            for transaction in self.transactions.values()
            if transaction.status is Status.ONGOING
        ]
        return Outcome(
            deadlines=[*deadlines, Deadline(_SWEEP, self._sweep_ms)],
            effects=[WriteMarkers(transactional_id) for transactional_id in self.prepared],
        )

    # InitProducerId

    def _init(
        self,
        command: InitProducer,
        caller: Caller[ProducerIdResult] | None,
        now: DecisionContext[ClusterImage],
    ) -> TransactionOutcome:
        if not 0 < command.timeout_ms <= self._max_timeout_ms:
            error = ErrorCode.INVALID_TRANSACTION_TIMEOUT
            return self._answer(command, caller, ProducerIdResult(error))
        now_ms = now.wall_ms
        current = self.transactions.get(command.transactional_id)
        if current is None:
            new = Transaction(
                command.transactional_id,
                command.fresh_producer_id,
                FIRST_EPOCH,
                command.timeout_ms,
                updated_ms=now_ms,
            )
            return _write(
                new, command, caller, ProducerIdResult(ErrorCode.NONE, new.producer_id, FIRST_EPOCH)
            )
        claim = claim_of(current, command)
        if claim is Claim.FENCED:
            return self._answer(command, caller, ProducerIdResult(ErrorCode.PRODUCER_FENCED))
        if current.status in PREPARED:
            return self._answer(
                command, caller, ProducerIdResult(ErrorCode.CONCURRENT_TRANSACTIONS)
            )
        if current.status is Status.ONGOING:
            # Its producer is fenced and the transaction aborted. The client retries.
            return _write(
                current.fenced(now_ms, by_holder=claim is Claim.HOLDER),
                command,
                caller,
                ProducerIdResult(ErrorCode.CONCURRENT_TRANSACTIONS),
                Deadline(current.transactional_id, None),
            )
        if claim is Claim.REPEATED and current.producer_epoch != LAST_EPOCH:
            started = current.resumed(command.timeout_ms, now_ms)
        else:
            started = current.renewed(
                command.timeout_ms,
                command.fresh_producer_id,
                now_ms,
                held_epoch=command.producer_epoch,
            )
        return _write(
            started, command, caller, ProducerIdResult(ErrorCode.NONE, *started.next_identity)
        )

    # AddPartitionsToTxn

    def _add(
        self,
        command: AddPartitions,
        caller: Caller[Added] | None,
        now: DecisionContext[ClusterImage],
    ) -> TransactionOutcome:
        current = self.transactions.get(command.transactional_id)
        error = check_identity(current, command.producer_id, command.producer_epoch)
        if error is not ErrorCode.NONE or current is None:
            return self._answer(command, caller, Added(error))
        if current.status in PREPARED:
            return self._answer(command, caller, Added(ErrorCode.CONCURRENT_TRANSACTIONS))
        if command.verify_only:
            missing = command.partitions - current.partitions
            return self._answer(command, caller, Added(ErrorCode.NONE, missing))
        if current.status is Status.ONGOING and command.partitions <= current.partitions:
            return self._answer(command, caller, Added(ErrorCode.NONE))
        added = current.with_partitions(
            command.partitions, command.client_transaction_version, now.wall_ms
        )
        if current.status is Status.ONGOING:
            # Its deadline is set already. Setting it again from the time of day would end the
            # transaction at once if the clock was stepped since it began.
            return _write(added, command, caller, Added(ErrorCode.NONE))
        deadline = self._timeout_deadline(added, now.wall_ms)
        return _write(added, command, caller, Added(ErrorCode.NONE), deadline)

    # EndTxn

    def _end(
        self,
        command: EndTransaction,
        caller: Caller[ProducerIdResult] | None,
        now: DecisionContext[ClusterImage],
    ) -> TransactionOutcome:
        current = self.transactions.get(command.transactional_id)
        if current is None:
            error = ErrorCode.INVALID_PRODUCER_ID_MAPPING
            return self._answer(command, caller, ProducerIdResult(error))
        if command.client_transaction_version >= VERSION_2:
            return self._end_and_bump(current, command, caller, now.wall_ms)
        error = check_identity(current, command.producer_id, command.producer_epoch)
        if error is not ErrorCode.NONE:
            return self._answer(command, caller, ProducerIdResult(error))
        if current.status is not Status.ONGOING:
            return self._answer(command, caller, repeated_reply(current, command))
        if not now.is_committed(command.transactional_id):
            # The producer does not know yet that this transaction began, so the request may be a
            # delayed EndTxn of the transaction before.
            return self._answer(
                command, caller, ProducerIdResult(ErrorCode.CONCURRENT_TRANSACTIONS)
            )
        prepared = current.prepared(committed=command.committed, now_ms=now.wall_ms)
        return _write_end(prepared._replace(client_transaction_version=0), command, caller)

    def _end_and_bump(
        self,
        current: Transaction,
        command: EndTransaction,
        caller: Caller[ProducerIdResult] | None,
        now_ms: int,
    ) -> TransactionOutcome:
        """Decides about an EndTxn of version 2. A repeated one must find its own decision, or no
        transaction of this producer at all."""
        if repeats_end(current, command):
            if current.status in (Status.EMPTY, Status.ONGOING):
                return self._answer(command, caller, ProducerIdResult(ErrorCode.PRODUCER_FENCED))
            return self._answer(command, caller, repeated_reply(current, command))
        error = check_end(current, command)
        if error is not ErrorCode.NONE:
            return self._answer(command, caller, ProducerIdResult(error))
        prepared = current.prepared(committed=command.committed, now_ms=now_ms)
        return _write_end(prepared.bumped(command.fresh_producer_id), command, caller)

    def _complete(
        self,
        command: MarkersWritten,
        caller: Caller[ErrorCode] | None,
        now: DecisionContext[ClusterImage],
    ) -> TransactionOutcome:
        current = self.transactions.get(command.transactional_id)
        if (
            current is None
            or current.status not in PREPARED
            or current.identity != (command.producer_id, command.producer_epoch)
        ):
            return Outcome(
                replies=reply_to(caller, ErrorCode.INVALID_TXN_STATE),
                subjects=(command.transactional_id,),
            )
        return _write(current.completed(now.wall_ms), command, caller, ErrorCode.NONE)

    def _describe(
        self,
        command: DescribeTransaction,
        caller: Caller[Transaction | None] | None,
        now: DecisionContext[ClusterImage],
    ) -> TransactionOutcome:
        transaction = self.transactions.get(command.transactional_id)
        return Outcome(replies=reply_to(caller, transaction), subjects=(command.transactional_id,))

    def _answer(
        self, command: ClientCommand, caller: Caller[R] | None, response: R
    ) -> TransactionOutcome:
        """Answers without writing anything. An error is logged."""
        line = refusal_line(command, response, self.transactions.get(command.transactional_id))
        return Outcome(
            replies=reply_to(caller, response),
            subjects=(command.transactional_id,),
            log_lines=() if line is None else (line,),
        )

    # Deadlines

    def expire(self, key: Hashable, now: DecisionContext[ClusterImage]) -> TransactionOutcome:
        if key == _SWEEP:
            return self._sweep(now.wall_ms)
        current = self.transactions.get(str(key))
        if current is None or current.status is not Status.ONGOING:
            return Outcome()
        deadline = self._timeout_deadline(current, now.wall_ms)
        if deadline.after_ms:
            return Outcome(deadlines=[deadline])
        line = LogLine(
            LOGGER,
            "transaction %s of producer %d: aborted, it was open for longer than %d ms",
            (current.transactional_id, current.producer_id, current.timeout_ms),
        )
        return Outcome(
            [record_of(current.fenced(now.wall_ms, by_holder=True))],
            [StepTaken(current.transactional_id, "")],
            subjects=(current.transactional_id,),
            effects=(WriteMarkers(current.transactional_id),),
            log_lines=(line,),
        )

    def _timeout_deadline(self, transaction: Transaction, now_ms: int) -> Deadline:
        """Returns a deadline a little after the timeout. Producers give up and abort by the same
        timeout, and a producer whose abort comes too late is fenced for good."""
        grace_ms = min(self._grace_ms, transaction.timeout_ms // 10)
        left_ms = transaction.started_ms + transaction.timeout_ms + grace_ms - now_ms
        return Deadline(transaction.transactional_id, max(left_ms, 0))

    def _sweep(self, now_ms: int) -> TransactionOutcome:
        """Forgets ids that were not used for `transactional.id.expiration.ms`."""
        unused = (
            transaction.transactional_id
            for transaction in self.transactions.values()
            if transaction.status in IDLE and now_ms - transaction.updated_ms >= self._expiration_ms
        )
        forgotten = list(islice(unused, _MAX_FORGOTTEN_AT_ONCE))
        again_ms = 0 if len(forgotten) == _MAX_FORGOTTEN_AT_ONCE else self._sweep_ms
        return Outcome(
            [LogRecord(key_of(transactional_id), None) for transactional_id in forgotten],
            deadlines=[Deadline(_SWEEP, again_ms)],
            subjects=forgotten,
        )


def _write_end(
    prepared: Transaction, command: EndTransaction, caller: Caller[ProducerIdResult] | None
) -> TransactionOutcome:
    identity = ProducerIdResult(ErrorCode.NONE, *prepared.next_identity)
    no_deadline = Deadline(prepared.transactional_id, None)
    return _write(prepared, command, caller, identity, no_deadline)


def _write(
    transaction: Transaction,
    command: ClientCommand | MarkersWritten,
    caller: Caller[R] | None,
    response: R,
    *deadlines: Deadline,
) -> TransactionOutcome:
    transactional_id = transaction.transactional_id
    client_address = "" if isinstance(command, MarkersWritten) else command.client_address
    return Outcome(
        [record_of(transaction)],
        (StepTaken(transactional_id, client_address),),
        reply_to(caller, response),
        deadlines,
        subjects=(transactional_id,),
        effects=(WriteMarkers(transactional_id),) if transaction.status in PREPARED else (),
    )
