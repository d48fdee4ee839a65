"""Transactions of a producer: all of its records and offsets become visible, or none.

    out --init--> ready --begin--> open --commit--> committing --+
                    ^                |                           |
                    |                +--abort--> aborting -------+--> ready
                    |                |              ^
                    |                +--> broken ---+      something failed: abort, then go on
                    +-------------------------------
    any --> fenced                                         another producer has our id: close

Theory. The coordinator keeps, for a transactional id, the producer id and its epoch; raising the
epoch fences whoever had it before. In version 1 of the protocol partitions are announced to the
coordinator (AddPartitionsToTxn) before anything is written to them, and the epoch stays from
one transaction to the next. In version 2 (KIP-890) the leader of a partition announces it, and
every transaction has an epoch of its own, which the answer to EndTxn brings: so nothing that is
late can end up in a later transaction. The coordinator's `transaction.version` feature decides.

Place: the producer calls it, the sender asks it whether a batch may go out. `Outbox` is what it
needs of the sender. Invariant: EndTxn is sent only when no batch is on its way any more.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from enum import Enum
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

# The last version of Produce that does not announce partitions by itself.
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
# What a leader says that no abort cures. A wrong epoch is not among them: the coordinator may
# have raised it for a time-out, and says itself if it is somebody else's.
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

    # What the user calls

    async def initialise(self) -> None:
        if self.state is not State.OUT:
            raise self._wrong("init_transactions()")
        await self._within("init_transactions()", self._initialise())

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
        await self._within("commit_transaction()", self._ended(is_commit=True))

    async def abort(self) -> None:
        """Drops what was not sent, waits for what was, then aborts."""
        if self._ending is None:
            if not self.may_abort:
                raise self._wrong("abort_transaction()")
            self.state = State.ABORTING
        elif self._is_commit:
            raise self._wrong("abort_transaction()")
        await self._within("abort_transaction()", self._ended(is_commit=False))

    async def send_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: GroupMetadata
    ) -> None:
        self.check_open("send_offsets_to_transaction()")
        if not offsets:
            return
        await self._within(
            "send_offsets_to_transaction()", self._send_offsets(dict(offsets), group)
        )

    async def _send_offsets(
        self, offsets: dict[TopicPartition, OffsetAndMetadata], group: GroupMetadata
    ) -> None:
        self._is_started = True
        if not self.has_version_2:
            await self._until_done(lambda: add_offsets(self._coordinator, self._who, group))
        coordinator = self._group_coordinators.get(group.group_id)
        if coordinator is None:
            coordinator = Coordinator(self._cluster, KeyType.GROUP, group.group_id)
            self._group_coordinators[group.group_id] = coordinator
        await self._until_done(
            lambda: commit_offsets(
                coordinator, self._who, offsets, group, announces=self.has_version_2
            )
        )

    async def hand_over(self) -> Identity:
        """Waits for all that was sent and leaves the transaction open, for somebody else to end.

        Who has the identity ends it with `Admin.end_transactions`; only `close` may follow here.
        """
        self.check_open("hand_over()")
        await self._within("hand_over()", self.outbox.flush())
        self.check_open("hand_over()")
        who = self._who
        self.state = State.HANDED_OVER
        return who

    def check_open(self, what: str) -> None:
        """Raises unless a transaction is open and well."""
        if self.state is not State.OPEN:
            raise self._wrong(what)

    @property
    def may_abort(self) -> bool:
        return self.state in {State.OPEN, State.BROKEN}

    @property
    def is_open(self) -> bool:
        return self.state in {State.OPEN, State.BROKEN, State.COMMITTING, State.ABORTING}

    def _wrong(self, what: str) -> TransactionError:
        if self.state is State.FATAL:
            if isinstance(self._fault, ProducerFenced):
                return ProducerFenced(str(self._fault))
            return TransactionError(f"{what}: close this producer, for it failed: {self._fault}")
        if self.state is State.BROKEN:
            fault = MustAbort(f"{what}: abort_transaction() first, for it failed: {self._fault}")
            fault.__cause__ = self._fault
            return fault
        return TransactionError(f"{what}: {self.state.value}")

    # What the sender asks and tells

    def may_produce(self, partition: TopicPartition) -> bool:
        """Whether a batch may go out; if not, the queue is marked as ready when it may."""
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
        """A batch is lost, so its transaction is."""
        code = error.code if isinstance(error, KafkaError) else None
        if isinstance(error, TransactionAborted | TransactionError) or not self.is_open:
            return
        if code in _FATAL_FOR_BATCHES:
            self._fail(error)
        elif self.state is not State.ABORTING:
            self._break(error)

    def step(self) -> None:
        """Called by the sender's task: what must not happen in the middle of an answer."""
        if self._must_drop:
            self._must_drop = False
            fault = TransactionAborted(f"the transaction failed: {self._fault}")
            self.outbox.drop_unsent(fault)

    async def _add(self) -> None:
        while self._to_add and self.state in {State.OPEN, State.COMMITTING}:
            adding = sorted(self._to_add)
            await self._until_done(lambda: add_partitions(self._coordinator, self._who, adding))  # noqa: B023
            self._is_started = True
            self._added.update(adding)
            self._to_add.difference_update(adding)
            self.outbox.mark_all_ready()

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

    async def _ended(self, *, is_commit: bool) -> None:
        """Goes on in the background when the caller does not wait; who calls again is told."""
        if self._ending is None:
            self._is_commit = is_commit
            self._ending = self._loop.create_task(self._end(is_commit=is_commit))
            # Whoever waits sees its exception; the state shows it to everybody else.
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
                        self._coordinator, self._who, is_commit, raises_epoch=self.has_version_2
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
        """A new epoch, because numbers were lost with records that may or may not be there."""
        known = (self._sequences.producer_id, self._sequences.producer_epoch)
        identity = await self._until_done(
            lambda: initialise(self._coordinator, self.transactional_id, self._settings, known)
        )
        self._sequences.restart(*identity)

    # Small things

    @property
    def _who(self) -> Identity:
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

    async def _within(self, what: str, work: Coroutine[None, None, None]) -> None:
        limit_ms = self._settings.max_block_ms
        message = f"{what} was not done within max.block.ms={limit_ms}; call it again to go on"
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
        """What an error of the coordinator means for the transaction."""
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

    async def abandon(self) -> None:
        """The producer closes: what is open does not wait for its time-out.

        A commit or an abort whose caller was interrupted goes on and is waited for, so that its
        outcome is not left to the coordinator's time-out.
        """
        try:
            if self._ending is not None:
                await self._within("close()", self._ended(is_commit=self._is_commit))
            if self.may_abort and self._ending is None:
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
