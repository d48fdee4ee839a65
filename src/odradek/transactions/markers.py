"""Writes the markers of decided transactions, and tells the coordinator when all are written.

A transaction is taken up when its decision is committed, never before: a marker says what will
always be so. Every partition it wrote to gets one, from the broker that leads it: this one, or
another with WriteTxnMarkers, all that wait for the same broker together. A partition that the
metadata store does not have any more counts as done. Anything else is tried again, wherever the
image says the leader is by then, for as long as this broker coordinates.
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
from odradek.replication.appended import TransactionMarker
from odradek.replication.state_partitions import StatePartitions
from odradek.statemachine.machine import ProducerIdentity
from odradek.transactions.commands import Command, Examine, MarkersWritten
from odradek.transactions.local_markers import LocalMarkers
from odradek.transactions.transaction import DECIDED, Status, Transaction

if TYPE_CHECKING:
    from odradek.transactions.batching import PeerDirectory
    from odradek.transactions.remote_markers import RemoteMarkers

logger = logging.getLogger("odradek.transactions")

_FIRST_PAUSE_S: Final = 0.02
_MAX_PAUSE_S: Final = 1.0
_COORDINATOR_IS_ANOTHER: Final = frozenset(
    {ErrorCode.NOT_COORDINATOR, ErrorCode.TRANSACTION_COORDINATOR_FENCED}
)
# The producer went on already, so there is nothing to end, now or ever.
_DONE: Final = frozenset({ErrorCode.NONE, ErrorCode.INVALID_PRODUCER_EPOCH})


class MarkerWriter:
    """Invariants: at most one task for each transactional id; while there is none, every decision
    that was written down here has been looked at since."""

    def __init__(
        self,
        broker_id: BrokerId,
        coordinators: StatePartitions[Command, None],
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
        # Ids, as an ordered set, whose fate was written down while their task ran.
        self._called_again: dict[str, None] = {}
        self._waiting: list[str] = []

    async def run(self) -> None:
        """Writes markers until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                for transactional_id in self._waiting:
                    self.prepared(transactional_id)
                self._waiting.clear()
                await asyncio.get_running_loop().create_future()
        finally:
            self._group = None
            if self._remote is not None:
                self._remote.close()

    def prepared(self, transactional_id: str) -> None:
        """The fate of a transaction was written down."""
        if self._group is None:
            self._waiting.append(transactional_id)
        elif transactional_id in self._writing:
            # What the task has just been told may be older than this.
            self._called_again[transactional_id] = None
        else:
            task = self._group.create_task(self._end(transactional_id))
            self._writing[transactional_id] = task

    async def _end(self, transactional_id: str) -> None:
        try:
            while True:
                self._called_again.pop(transactional_id, None)
                try:
                    has_ended_one = await self._end_one(transactional_id)
                except ApiError as refusal:
                    logger.info("leaving the markers of %s: %s", transactional_id, refusal)
                    # Whoever coordinates now finds the decision in the log and goes on; that may
                    # be this broker, if it had only lost its lease.
                    has_ended_one = await self._may_go_on(transactional_id, refusal)
                if not has_ended_one and transactional_id not in self._called_again:
                    return
        finally:
            del self._writing[transactional_id]

    async def _may_go_on(self, transactional_id: str, refusal: ApiError) -> bool:
        """Returns whether this broker coordinates the id as before, after it was refused."""
        if refusal.code is not ErrorCode.NOT_COORDINATOR:
            return False
        try:
            return await self._coordinators.regains(transactional_id)
        except ApiError:
            return False  # The internal topic itself is gone.

    async def _end_one(self, transactional_id: str) -> bool:
        """Ends what is decided; False if nothing is."""
        transaction = await self._coordinators.ask(transactional_id, Examine(transactional_id))
        if not isinstance(transaction, Transaction) or transaction.status not in DECIDED:
            return False
        marker = TransactionMarker(
            ProducerIdentity(transaction.producer_id, transaction.producer_epoch),
            transaction.status is Status.PREPARE_COMMIT,
            self._coordinators.leader_epoch(transactional_id),
            transaction.has_raised_epoch,
        )
        left: Collection[TopicPartition] = sorted(transaction.partitions)
        pause_s = _FIRST_PAUSE_S
        while left := await self._write(left, marker):
            pause_s = await self._pause(transactional_id, marker, pause_s)
        pause_s = _FIRST_PAUSE_S
        while not await self._complete(transactional_id, marker):
            pause_s = await self._pause(transactional_id, marker, pause_s)
        return True

    async def _complete(self, transactional_id: str, marker: TransactionMarker) -> bool:
        """Says that all markers are written; False if the coordinator's log takes nothing now.

        Then the coordinator stays, and is not loaded again: nobody else would come back to it.
        """
        try:
            await self._coordinators.ask(
                transactional_id, MarkersWritten(transactional_id, *marker.producer)
            )
        except ApiError as refusal:
            if refusal.code is not ErrorCode.COORDINATOR_NOT_AVAILABLE:
                raise
            logger.info("the end of %s is not written down yet: %s", transactional_id, refusal)
            return False
        return True

    async def _pause(
        self, transactional_id: str, marker: TransactionMarker, pause_s: float
    ) -> float:
        """Waits while this broker still coordinates as it did; returns how long to wait next."""
        await self._image_or_time(pause_s)
        if self._coordinators.leader_epoch(transactional_id) != marker.coordinator_epoch:
            raise ApiError(ErrorCode.NOT_COORDINATOR)
        return min(2 * pause_s, _MAX_PAUSE_S)

    async def _write(
        self, partitions: Iterable[TopicPartition], marker: TransactionMarker
    ) -> list[TopicPartition]:
        """Writes to every partition whose leader is known; returns those still to be written."""
        by_leader: dict[BrokerId, list[TopicPartition]] = {}
        for partition in partitions:
            state = self._images.image.partition(*partition)
            leader = NO_LEADER if state is None else state.leader
            by_leader.setdefault(leader, []).append(partition)
        outcomes = dict.fromkeys(by_leader.pop(NO_LEADER, ()), ErrorCode.LEADER_NOT_AVAILABLE)
        appended = await self._markers.append(by_leader.pop(self._broker_id, ()), marker)
        if by_leader:
            outcomes |= await self._remotely().write(by_leader, marker)
        outcomes |= await appended.committed()
        left = []
        for partition, error in outcomes.items():
            if error in _COORDINATOR_IS_ANOTHER:
                raise ApiError(ErrorCode.TRANSACTION_COORDINATOR_FENCED)
            if error not in _DONE and not await self._is_gone(partition):
                logger.info("no marker in %s-%d yet: %s", *partition, error.name)
                left.append(partition)
        return left

    def _remotely(self) -> "RemoteMarkers":
        """Imported when another broker leads something, which a lone broker never sees."""
        if self._remote is None:
            from odradek.transactions.remote_markers import RemoteMarkers  # noqa: PLC0415

            self._remote = RemoteMarkers(self._peers)
        return self._remote

    async def _is_gone(self, partition: TopicPartition) -> bool:
        """An image that shows no such partition may be late, so the store is asked."""
        if self._images.image.partition(*partition) is not None:
            return False
        try:
            image = await self._images.caught_up(topic_path(partition.topic))
        except MetadataError:
            return False
        return image.partition(*partition) is None

    async def _image_or_time(self, pause_s: float) -> None:
        """A leader that moved is followed as soon as the image shows it."""
        number = self._images.image.number
        await asyncio.sleep(_FIRST_PAUSE_S)
        try:
            async with asyncio.timeout(pause_s - _FIRST_PAUSE_S):
                await self._images.newer_than(number)
        except TimeoutError:
            pass
