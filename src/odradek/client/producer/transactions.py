"""Transactions of a producer: all of its records and offsets become visible, or none.

    out --init--> ready --begin--> open --commit--> committing --+
                    ^                |                           |
                    |                +--abort--> aborting -------+--> ready
                    |                |              ^
                    |                +--> broken ---+      something failed: abort, then go on
                    +-------------------------------
    any --> fenced                                         another producer has our id: close

The coordinator keeps the producer id and its epoch for each transactional id; bumping the epoch
fences the producer that had it before. In version 1 of the protocol the producer adds partitions to
the transaction (AddPartitionsToTxn) before it writes to them, and the epoch stays the same from one
transaction to the next. In version 2 (KIP-890) the leader of a partition adds it, and every
transaction has an epoch of its own, which the answer to EndTxn brings: so a late request cannot
become part of a later transaction. The coordinator's feature `transaction.version` decides.

The producer calls this object, and the sender asks it whether a batch may be sent. `Outbox` is what
it needs of the sender. Invariant: EndTxn is sent only when no batch is in flight any more.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from enum import Enum
from functools import partial
from typing import Protocol, TypeVar

from odradek.client.cluster import Cluster
from odradek.client.coordinator import Coordinator
from odradek.client.coordinator_lookup import KeyType
from odradek.client.errors import (
    ClientError,
    MustAbort,
    ProducerFenced,
    TransactionAborted,
    TransactionError,
    is_retriable,
)
from odradek.client.group.offsets import GroupMetadata, OffsetAndMetadata
from odradek.client.producer.transaction_requests import (
    Identity,
    add_offsets,
    add_partitions,
    commit_offsets,
    end,
    has_version_2,
    initialise,
)
from odradek.client.producer.transactional_sequences import TransactionalSequences
from odradek.client.retry import deadline
from odradek.client.settings import ProducerSettings
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.types import TopicPartition

_log = logging.getLogger("odradek.client")

T = TypeVar("T")

# The last version of Produce in which the leader does not add its partition to the transaction.
LAST_PRODUCE_OF_VERSION_1 = 11

_FENCED = {ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED}
_ABORTABLE = {
    ErrorCode.TRANSACTION_ABORTABLE,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.OPERATION_NOT_ATTEMPTED,
    ErrorCode.UNKNOWN_PRODUCER_ID,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.STALE_MEMBER_EPOCH,
}
# After these the coordinator does not know our id and epoch any more.
_NEED_NEW_EPOCH = {ErrorCode.UNKNOWN_PRODUCER_ID, ErrorCode.INVALID_PRODUCER_ID_MAPPING}
# Errors of a leader after which an abort does not help. A wrong epoch is not among them: the
# coordinator may have bumped it for a time-out, and it tells itself whether we are fenced.
_FATAL_FOR_BATCHES = {
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.UNSUPPORTED_VERSION,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
}


class State(Enum):
    OUT = "init_transactions() comes first"
    READY = "no transaction is open: begin_transaction() comes first"
    OPEN = "a transaction is open"
    BROKEN = "the transaction can only be aborted"
    COMMITTING = "the transaction is being committed: call commit_transaction() again"
    ABORTING = "the transaction is being aborted: call abort_transaction() again"
    HANDED_OVER = "the transaction was handed over: the producer can only be closed"
    FATAL = "the producer can only be closed"


class Outbox(Protocol):
    """What transactions need of the sender."""

    def wake(self) -> None: ...

    def mark_all_ready(self) -> None: ...

    def drop_unsent(self, error: BaseException) -> None:
        """Fails the batches that no broker has seen."""
        ...

    async def flush(self) -> None: ...


class Transactions:
    def __init__(
        self,
        cluster: Cluster,
        settings: ProducerSettings,
        transactional_id: str,
        sequences: TransactionalSequences,
    ) -> None:
        self.transactional_id = transactional_id
        self.state = State.OUT
        self.has_version_2 = False
        self._outbox: Outbox | None = None
        self._cluster = cluster
        self._settings = settings
        self._sequences = sequences
        self._loop = asyncio.get_running_loop()
        self._coordinator = Coordinator(cluster, KeyType.TRANSACTION, transactional_id)
        self._group_coordinators: dict[str, Coordinator] = {}
        self._fault: BaseException | None = None
        self._is_started = False
        self._added: set[TopicPartition] = set()
        self._to_add: set[TopicPartition] = set()
        self._adding: asyncio.Task[None] | None = None
        self._ending: asyncio.Task[None] | None = None
        self._is_commit = False
        self._must_drop = False

    def attach(self, outbox: Outbox) -> None:
        self._outbox = outbox

    @property
    def outbox(self) -> Outbox:
        assert self._outbox is not None
        return self._outbox

    # Called by the producer

    async def initialise(self) -> None:
        if self.state is not State.OUT:
            raise self._wrong("init_transactions()")
        await self._run_with_deadline("init_transactions()", self._initialise())

    async def _initialise(self) -> None:
        identity = await self._until_done(
            lambda: initialise(self._coordinator, self.transactional_id, self._settings)
        )
        self._sequences.restart(*identity)
        await self._note_version()
        self.state = State.READY

    def begin(self) -> None:
        if self.state is not State.READY or self._ending is not None:
            raise self._wrong("begin_transaction()")
        self.state = State.OPEN
        self._is_started = False
        self._added.clear()
        self._to_add.clear()

    async def commit(self) -> None:
        """Waits for every record, then commits; `MustAbort` if something failed."""
        if self._ending is None:
            self.check_open("commit_transaction()")
            self.state = State.COMMITTING
        elif not self._is_commit:
            raise self._wrong("commit_transaction()")
        await self._run_with_deadline("commit_transaction()", self._wait_for_end(is_commit=True))

    async def abort(self) -> None:
        """Drops what was not sent, waits for what was, then aborts."""
        await self._await_failed_commit()
        if self._ending is None:
            if not self.may_abort:
                raise self._wrong("abort_transaction()")
            self.state = State.ABORTING
        elif self._is_commit:
            raise self._wrong("abort_transaction()")
        await self._run_with_deadline("abort_transaction()", self._wait_for_end(is_commit=False))

    async def _await_failed_commit(self) -> None:
        """Takes note of a commit that has failed after its caller was interrupted, for instance by
        max.block.ms. It may still wait for batches in flight; then the transaction can be aborted.
        """
        if self._ending is not None and self._is_commit and self.state is State.BROKEN:
            with suppress(MustAbort):
                await self._run_with_deadline(
                    "abort_transaction()", self._wait_for_end(is_commit=True)
                )

    async def send_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: GroupMetadata
    ) -> None:
        self.check_open("send_offsets_to_transaction()")
        if not offsets:
            return
        await self._run_with_deadline(
            "send_offsets_to_transaction()", self._send_offsets(dict(offsets), group)
        )

    async def _send_offsets(
        self, offsets: dict[TopicPartition, OffsetAndMetadata], group: GroupMetadata
    ) -> None:
        self._is_started = True
        if not self.has_version_2:
            await self._until_done(lambda: add_offsets(self._coordinator, self._identity, group))
        coordinator = self._group_coordinators.get(group.group_id)
        if coordinator is None:
            coordinator = Coordinator(self._cluster, KeyType.GROUP, group.group_id)
            self._group_coordinators[group.group_id] = coordinator
        await self._until_done(
            lambda: commit_offsets(
                coordinator, self._identity, offsets, group, announces=self.has_version_2
            )
        )

    async def hand_over(self) -> Identity:
        """Waits for the batches in flight and leaves the transaction open, for others to end.

        The holder of the returned identity ends it with `Admin.end_transactions`. After this call
        the producer can only be closed.
        """
        self.check_open("hand_over()")
        await self._run_with_deadline("hand_over()", self.outbox.flush())
        self.check_open("hand_over()")
        who = self._identity
        self.state = State.HANDED_OVER
        return who

    def check_open(self, operation: str) -> None:
        """Raises unless a transaction is open and has not failed."""
        if self.state is not State.OPEN:
            raise self._wrong(operation)

    @property
    def may_abort(self) -> bool:
        return self.state in {State.OPEN, State.BROKEN}

    @property
    def is_open(self) -> bool:
        return self.state in {State.OPEN, State.BROKEN, State.COMMITTING, State.ABORTING}

    def _wrong(self, operation: str) -> TransactionError:
        if self.state is State.FATAL:
            if isinstance(self._fault, ProducerFenced):
                return ProducerFenced(str(self._fault))
            return TransactionError(
                f"{operation}: close this producer, for it failed: {self._fault}"
            )
        if self.state is State.BROKEN:
            fault = MustAbort(
                f"{operation}: abort_transaction() first, for it failed: {self._fault}"
            )
            fault.__cause__ = self._fault
            return fault
        return TransactionError(f"{operation}: {self.state.value}")

    # Called by the sender

    def may_produce(self, partition: TopicPartition) -> bool:
        """Returns whether a batch may be sent. If not, the queue is marked as ready as soon as the
        partition is part of the transaction."""
        if self.has_version_2:
            self._is_started = True
            return True
        if partition in self._added:
            return True
        if self.state in {State.OPEN, State.COMMITTING}:
            self._to_add.add(partition)
            if self._adding is None:
                self._adding = self._loop.create_task(self._add(), name="odradek-transaction")
                self._adding.add_done_callback(self._add_ended)
        return False

    def batch_failed(self, error: BaseException) -> None:
        """Notes that a batch has failed: its transaction can only be aborted."""
        code = error.code if isinstance(error, KafkaError) else None
        if isinstance(error, TransactionAborted | TransactionError) or not self.is_open:
            return
        if code in _FATAL_FOR_BATCHES:
            self._fail(error)
        elif self.state is not State.ABORTING:
            self._break(error)

    def step(self) -> None:
        """Drops unsent batches of a failed transaction. The sender's task calls it between answers,
        because it must not happen while an answer is handled."""
        if self._must_drop:
            self._must_drop = False
            fault = TransactionAborted(f"the transaction failed: {self._fault}")
            self.outbox.drop_unsent(fault)

    async def _add(self) -> None:
        while self._to_add and self.state in {State.OPEN, State.COMMITTING}:
            adding = sorted(self._to_add)
            await self._until_done(partial(self._add_once, adding))
            self._is_started = True
            self._added.update(adding)
            self._to_add.difference_update(adding)
            self.outbox.mark_all_ready()

    async def _add_once(self, partitions: list[TopicPartition]) -> None:
        await add_partitions(self._coordinator, self._identity, partitions)

    def _add_ended(self, task: "asyncio.Task[None]") -> None:
        self._adding = None
        if task.cancelled():
            return
        error = task.exception()
        if error is not None and not isinstance(error, TransactionError | KafkaError):
            self._fail(error)
        elif error is None and self._to_add:
            self.outbox.mark_all_ready()
        self.outbox.wake()

    # Ending

    async def _wait_for_end(self, *, is_commit: bool) -> None:
        """Waits for the end of the transaction, which goes on if the caller is cancelled; a later
        call waits for the same end."""
        if self._ending is None:
            self._is_commit = is_commit
            self._ending = self._loop.create_task(self._end(is_commit=is_commit))
            # A caller that waits gets the exception; later calls learn it from the state.
            self._ending.add_done_callback(_look)
        ending = self._ending
        try:
            await asyncio.shield(ending)
        finally:
            if ending.done():
                self._ending = None

    async def _end(self, *, is_commit: bool) -> None:
        if not is_commit:
            self._must_drop = False
            self.outbox.drop_unsent(TransactionAborted("the transaction was aborted"))
        await self.outbox.flush()
        if self.state in {State.BROKEN, State.FATAL}:
            raise self._wrong("commit_transaction()" if is_commit else "abort_transaction()")
        await self._send_end(is_commit)
        self.state = State.READY
        self._fault = None
        self._added.clear()
        self._to_add.clear()

    async def _send_end(self, is_commit: bool) -> None:
        if self._is_started:
            is_lost = isinstance(self._fault, KafkaError) and self._fault.code in _NEED_NEW_EPOCH
            if not is_lost:
                identity = await self._until_done(
                    lambda: end(
                        self._coordinator, self._identity, is_commit, bumps_epoch=self.has_version_2
                    )
                )
                if identity is not None:
                    self._sequences.restart(*identity)
            if is_lost or (self._sequences.must_restart and not self.has_version_2):
                await self._renew()
        elif self._sequences.must_restart:
            await self._renew()
        await self._note_version()

    async def _renew(self) -> None:
        """Gets a new epoch, because it is unknown whether batches that failed are in the log, so
        their sequence numbers cannot be used again."""
        known = (self._sequences.producer_id, self._sequences.producer_epoch)
        identity = await self._until_done(
            lambda: initialise(self._coordinator, self.transactional_id, self._settings, known)
        )
        self._sequences.restart(*identity)

    # Requests to the coordinator

    @property
    def _identity(self) -> Identity:
        return Identity(
            self.transactional_id, self._sequences.producer_id, self._sequences.producer_epoch
        )

    async def _note_version(self) -> None:
        try:
            connection = await self._coordinator.connection()
        except (ClientError, KafkaError) as error:
            if not is_retriable(error):
                raise
            return
        self.has_version_2 = has_version_2(connection.features)

    async def _run_with_deadline(self, operation: str, work: Coroutine[None, None, None]) -> None:
        limit_ms = self._settings.max_block_ms
        message = f"{operation} was not done within max.block.ms={limit_ms}; call it again to go on"
        async with deadline(limit_ms, lambda: (message, None)):
            await work

    async def _until_done(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Calls `ask` until the coordinator accepts; an error that is not retriable decides what
        becomes of the transaction."""
        try:
            return await self._cluster.retry.run(ask, on_retry=self._log_retry)
        except (ClientError, KafkaError) as error:
            raise self._judge(error) from error

    def _log_retry(self, error: BaseException) -> None:
        _log.info("transaction %s: asking again: %s", self.transactional_id, error)

    def _judge(self, error: ClientError | KafkaError) -> BaseException:
        """Takes over what an error of the coordinator means, and returns the error to raise."""
        code = error.code if isinstance(error, KafkaError) else None
        if code in _FENCED:
            fault = ProducerFenced(
                f"another producer with transactional.id={self.transactional_id} has taken over,"
                " or the transaction took longer than transaction.timeout.ms: close this one"
            )
            self._fail(fault)
            return fault
        if code in _ABORTABLE and self.is_open:
            self._break(error)
            return self._wrong("the transaction")
        if self.state is not State.OUT:
            self._fail(error)
        return error

    def _break(self, error: BaseException) -> None:
        if self.state in {State.BROKEN, State.FATAL}:
            return
        self.state = State.BROKEN
        self._fault = error
        self._must_drop = True
        self.outbox.wake()

    def _fail(self, error: BaseException) -> None:
        if self.state is State.FATAL:
            return
        if isinstance(error, KafkaError) and error.code in _FENCED:
            error = ProducerFenced(
                f"another producer with transactional.id={self.transactional_id} has taken over:"
                " close this one"
            )
        self.state = State.FATAL
        self._fault = error
        self._must_drop = True
        self.outbox.wake()

    def _warn_of_abandoned(self) -> None:
        _log.warning(
            "transaction %s: the producer was closed before commit_transaction(), so the"
            " transaction is aborted",
            self.transactional_id,
        )

    async def abandon(self) -> None:
        """Aborts an open transaction when the producer closes, so that it does not time out.

        A commit or an abort whose caller was interrupted goes on and is waited for, so that its
        outcome is not left to the coordinator's time-out.
        """
        try:
            if self._ending is not None:
                with suppress(MustAbort):
                    await self._run_with_deadline(
                        "close()", self._wait_for_end(is_commit=self._is_commit)
                    )
            if self.may_abort and self._ending is None:
                self._warn_of_abandoned()
                await self.abort()
        except (ClientError, KafkaError) as error:
            _log.warning("transaction %s is left open: %s", self.transactional_id, error)

    async def close(self) -> None:
        tasks = [task for task in (self._adding, self._ending) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for coordinator in (self._coordinator, *self._group_coordinators.values()):
            await coordinator.close()


def _look(task: "asyncio.Task[None]") -> None:
    if not task.cancelled():
        task.exception()
