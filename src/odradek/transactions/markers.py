"""Writes the markers of decided transactions, and tells the coordinator when all are written.

A transaction is taken up when its decision is committed, never before: a marker says what will
always be so. Every partition it wrote to gets one. A partition that is gone counts as done; one
that cannot be written to now is tried again, for as long as this broker coordinates.

Markers for partitions that other brokers lead will go there with WriteTxnMarkers; for now all
are here.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from odradek.protocol.errors import ErrorCode
from odradek.protocol.types import TopicPartition
from odradek.replication.partition import TransactionMarker
from odradek.replication.refusal import Refused
from odradek.replication.replicas import Replicas
from odradek.replication.state_partitions import StatePartitions
from odradek.statemachine.machine import Marker, ProducerIdentity
from odradek.transactions.commands import Command, Examine, MarkersWritten
from odradek.transactions.transaction import DECIDED, Status, Transaction
from odradek.world import Clock

logger = logging.getLogger("odradek.transactions")

_FIRST_PAUSE_S: Final = 0.02
_LONGEST_PAUSE_S: Final = 1.0
# The partition has nothing that could be ended, now or ever.
_NOTHING_TO_END: Final = frozenset(
    {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_PRODUCER_EPOCH}
)
_COORDINATOR_IS_ANOTHER: Final = frozenset(
    {ErrorCode.NOT_COORDINATOR, ErrorCode.TRANSACTION_COORDINATOR_FENCED}
)

OnMarker = Callable[[TopicPartition, Marker], None]
"""Told of every marker in an internal topic: offsets in the transaction count from then on."""


class LocalMarkers:
    """Markers in the logs that this broker leads."""

    def __init__(self, replicas: Replicas, clock: Clock, on_marker: OnMarker) -> None:
        self._replicas = replicas
        self._clock = clock
        self._on_marker = on_marker

    async def write(self, partition: TopicPartition, marker: TransactionMarker) -> None:
        """Returns when the marker is committed. Raises `Refused`."""
        replica = self._replicas.leader(*partition)
        appended = replica.append_marker(marker, self._clock.now_ms())
        if appended is None:
            return
        self._on_marker(partition, Marker(marker.producer, committed=marker.committed))
        if not appended.is_acknowledged:
            await appended.acknowledged()


class MarkerWriter:
    """Invariant: at most one task for each transactional id."""

    def __init__(
        self,
        coordinators: StatePartitions[Command, None],
        markers: LocalMarkers,
    ) -> None:
        self._coordinators = coordinators
        self._markers = markers
        self._group: asyncio.TaskGroup | None = None
        self._writing: dict[str, asyncio.Task[None]] = {}
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

    def prepared(self, transactional_id: str) -> None:
        """The fate of a transaction was written down."""
        if self._group is None:
            self._waiting.append(transactional_id)
        elif transactional_id not in self._writing:
            task = self._group.create_task(self._end(transactional_id))
            self._writing[transactional_id] = task

    async def _end(self, transactional_id: str) -> None:
        try:
            while await self._end_one(transactional_id):
                pass  # The next one was decided meanwhile.
        except Refused as refusal:
            # Whoever coordinates now finds the decision in the log and goes on.
            logger.info("leaving the markers of %s to others: %s", transactional_id, refusal)
        finally:
            del self._writing[transactional_id]

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
        left = sorted(transaction.partitions)
        pause_s = _FIRST_PAUSE_S
        while left:
            left = [one for one in left if not await self._is_written(one, marker)]
            if left:
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
        await self._coordinators.ask(
            transactional_id, MarkersWritten(transactional_id, *marker.producer)
        )
        return True

    async def _is_written(self, partition: TopicPartition, marker: TransactionMarker) -> bool:
        try:
            await self._markers.write(partition, marker)
        except Refused as refusal:
            if refusal.code in _COORDINATOR_IS_ANOTHER:
                raise
            if refusal.code not in _NOTHING_TO_END:
                logger.warning("no marker in %s-%d yet: %s", *partition, refusal)
                return False
        return True
