"""Writes the markers of prepared transactions, and tells the coordinator when all are written.

The transaction machine asks for it with the effect `WriteMarkers`. For each transaction:

1. Wait until the decision is committed. A marker is final, so it must never be written for a
   decision that another coordinator might not find in its log.
2. Write a marker to every partition of the transaction, through the broker that leads it: this one
   (`local_markers`), or another with WriteTxnMarkers (`remote_markers`). A partition that no longer
   exists in the metadata store needs no marker.
3. Retry what failed, at the leader that the image shows by then, for as long as this broker is the
   coordinator.
4. Tell the state machine (`MarkersWritten`), which completes the transaction.
"""

import asyncio
import logging
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Final

from odradek.metadata import MetadataCache, MetadataError
from odradek.metadata.node_values import NO_LEADER
from odradek.metadata.paths import topic_path
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.types import BrokerId, TopicPartition
from odradek.replication.coordinator_partitions import CoordinatorPartitions
from odradek.replication.pending_append import TransactionMarker
from odradek.statemachine.machine import ProducerIdentity
from odradek.transactions.commands import DescribeTransaction, MarkersWritten
from odradek.transactions.local_markers import LocalMarkers
from odradek.transactions.machine import TransactionMachine, WriteMarkers
from odradek.transactions.transaction import PREPARED, Status

if TYPE_CHECKING:
    from odradek.transactions.remote_markers import RemoteMarkers
    from odradek.transactions.request_batcher import PeerDirectory

logger = logging.getLogger("odradek.transactions")

_FIRST_PAUSE_S: Final = 0.02
_MAX_PAUSE_S: Final = 1.0
_COORDINATOR_IS_ANOTHER: Final = frozenset(
    {ErrorCode.NOT_COORDINATOR, ErrorCode.TRANSACTION_COORDINATOR_FENCED}
)
# The producer has a later epoch there already, so there is no transaction to end.
_DONE: Final = frozenset({ErrorCode.NONE, ErrorCode.INVALID_PRODUCER_EPOCH})


class MarkerWriter:
    """Writes the markers of all transactions that this broker coordinates.

    Invariants: there is at most one task for each transactional id. While there is none, every
    prepared transaction of the id was looked at after it was written."""

    def __init__(
        self,
        broker_id: BrokerId,
        coordinators: CoordinatorPartitions[TransactionMachine, WriteMarkers],
        markers: LocalMarkers,
        images: MetadataCache,
        peers: "PeerDirectory",
    ) -> None:
        self._broker_id = broker_id
        self._coordinators = coordinators
        self._markers = markers
        self._images = images
        self._peers = peers
        self._remote: RemoteMarkers | None = None
        self._group: asyncio.TaskGroup | None = None
        self._writing: dict[str, asyncio.Task[None]] = {}
        # An ordered set of the ids that became prepared again while their task ran.
        self._prepared_again: dict[str, None] = {}
        # Effects that came before `run` was called.
        self._waiting: list[WriteMarkers] = []

    async def run(self) -> None:
        """Writes markers until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                for effect in self._waiting:
                    self.write(effect)
                self._waiting.clear()
                await asyncio.get_running_loop().create_future()
        finally:
            self._group = None
            if self._remote is not None:
                self._remote.close()

    def write(self, effect: WriteMarkers) -> None:
        """Performs the effect of the transaction machine, in the background."""
        transactional_id = effect.transactional_id
        if self._group is None:
            self._waiting.append(effect)
        elif transactional_id in self._writing:
            # The state that the task works on may be older than this.
            self._prepared_again[transactional_id] = None
        else:
            task = self._group.create_task(self._end(transactional_id))
            self._writing[transactional_id] = task

    async def _end(self, transactional_id: str) -> None:
        """Ends transactions of the id until none is prepared or this broker does not coordinate."""
        try:
            while True:
                self._prepared_again.pop(transactional_id, None)
                try:
                    may_be_more = await self._end_one(transactional_id)
                except ApiError as error:
                    logger.info("leaving the markers of %s: %s", transactional_id, error)
                    # The coordinator finds the decision in its log and writes the markers. It may
                    # be this broker, if it had only lost its lease.
                    may_be_more = await self._is_coordinator_again(transactional_id, error)
                if not may_be_more and transactional_id not in self._prepared_again:
                    return
        finally:
            del self._writing[transactional_id]

    async def _is_coordinator_again(self, transactional_id: str, error: ApiError) -> bool:
        """Waits for the lease; returns whether this broker coordinates the id as before."""
        if error.code is not ErrorCode.NOT_COORDINATOR:
            return False
        try:
            return await self._coordinators.regains(transactional_id)
        except ApiError:
            return False  # The internal topic itself is gone.

    async def _end_one(self, transactional_id: str) -> bool:
        """Ends the prepared transaction of the id; returns False if there is none."""
        describe = DescribeTransaction(transactional_id)
        transaction = await self._coordinators.ask(transactional_id, describe)
        if transaction is None or transaction.status not in PREPARED:
            return False
        marker = TransactionMarker(
            ProducerIdentity(transaction.producer_id, transaction.producer_epoch),
            transaction.status is Status.PREPARE_COMMIT,
            self._coordinators.leader_epoch(transactional_id),
            transaction.has_bumped_epoch,
        )
        pending: Collection[TopicPartition] = sorted(transaction.partitions)
        pause_s = _FIRST_PAUSE_S
        while pending := await self._write(pending, marker):
            pause_s = await self._pause(transactional_id, marker, pause_s)
        pause_s = _FIRST_PAUSE_S
        while not await self._complete(transactional_id, marker):
            pause_s = await self._pause(transactional_id, marker, pause_s)
        return True

    async def _complete(self, transactional_id: str, marker: TransactionMarker) -> bool:
        """Tells the coordinator that all markers are written. Returns False if its log takes no
        records now: then the coordinator is not loaded again, so this has to be retried here."""
        try:
            await self._coordinators.ask(
                transactional_id, MarkersWritten(transactional_id, *marker.producer)
            )
        except ApiError as error:
            if error.code is not ErrorCode.COORDINATOR_NOT_AVAILABLE:
                raise
            logger.info("the completion of %s is not written yet: %s", transactional_id, error)
            return False
        return True

    async def _pause(
        self, transactional_id: str, marker: TransactionMarker, pause_s: float
    ) -> float:
        """Waits, and returns how long to wait next time. Raises `ApiError` if this broker is no
        longer the coordinator of the same epoch."""
        await self._image_or_time(pause_s)
        if self._coordinators.leader_epoch(transactional_id) != marker.coordinator_epoch:
            raise ApiError(ErrorCode.NOT_COORDINATOR)
        return min(2 * pause_s, _MAX_PAUSE_S)

    async def _write(
        self, partitions: Iterable[TopicPartition], marker: TransactionMarker
    ) -> list[TopicPartition]:
        """Writes to every partition that has a leader; returns those without a marker."""
        by_leader: dict[BrokerId, list[TopicPartition]] = {}
        for partition in partitions:
            state = self._images.image.partition(*partition)
            leader = NO_LEADER if state is None else state.leader
            by_leader.setdefault(leader, []).append(partition)
        errors = dict.fromkeys(by_leader.pop(NO_LEADER, ()), ErrorCode.LEADER_NOT_AVAILABLE)
        appended = await self._markers.append(by_leader.pop(self._broker_id, ()), marker)
        if by_leader:
            errors |= await self._remotely().write(by_leader, marker)
        errors |= await appended.committed()
        pending = []
        for partition, error in errors.items():
            if error in _COORDINATOR_IS_ANOTHER:
                raise ApiError(ErrorCode.TRANSACTION_COORDINATOR_FENCED)
            if error not in _DONE and not await self._is_gone(partition):
                logger.info("no marker in %s-%d yet: %s", *partition, error.name)
                pending.append(partition)
        return pending

    def _remotely(self) -> "RemoteMarkers":
        """Imports the module when another broker leads a partition: a lone broker needs none of
        it."""
        if self._remote is None:
            from odradek.transactions.remote_markers import RemoteMarkers  # noqa: PLC0415

            self._remote = RemoteMarkers(self._peers)
        return self._remote

    async def _is_gone(self, partition: TopicPartition) -> bool:
        """Returns whether the partition was deleted. The image may be behind, so the metadata store
        is asked."""
        if self._images.image.partition(*partition) is not None:
            return False
        try:
            image = await self._images.catch_up(topic_path(partition.topic))
        except MetadataError:
            return False
        return image.partition(*partition) is None

    async def _image_or_time(self, pause_s: float) -> None:
        """Waits for the time or for a newer image, which may show another leader."""
        number = self._images.image.number
        await asyncio.sleep(_FIRST_PAUSE_S)
        try:
            async with asyncio.timeout(pause_s - _FIRST_PAUSE_S):
                await self._images.newer_than(number)
        except TimeoutError:
            pass
