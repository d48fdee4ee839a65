"""Ends transactions in the logs that this broker leads.

Invariant: a marker counts as written when the high watermark has passed it, also one that was
found in the log because somebody asks again. Else its coordinator would forget the transaction,
a new leader would not know of its end, and nobody would ever end it there.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.types import TopicPartition
from odradek.replication.appended import TransactionMarker
from odradek.replication.replicas import Replicas
from odradek.statemachine.machine import Marker
from odradek.statemachine.watermark import Watermark
from odradek.storage import StorageError
from odradek.world import Clock
from odradek.world.timeslice import Timeslice

# As long as replicas may take; whoever asked is told to ask again.
_PATIENCE_S: Final = 5.0

OnMarker = Callable[[TopicPartition, Marker, int], None]
"""Told of every marker and of the offset behind it: in an internal topic the offsets of the
transaction count from then on."""

Outcomes = Mapping[TopicPartition, ErrorCode]


class LocalMarkers:
    def __init__(self, replicas: Replicas, clock: Clock, on_marker: OnMarker) -> None:
        self._replicas = replicas
        self._clock = clock
        self._on_marker = on_marker

    async def append(
        self, partitions: Iterable[TopicPartition], marker: TransactionMarker
    ) -> "AppendedMarkers":
        """Appends to all of them, without waiting for replicas; what remains is to wait. A
        transaction may have thousands of partitions, so others have their turn in between."""
        appended = AppendedMarkers()
        timeslice = Timeslice.of_running_loop()
        for partition in partitions:
            if timeslice.is_over():
                await timeslice.next_turn()
            try:
                appended.waiting[partition] = self._append(partition, marker)
            except ApiError as refusal:
                appended.outcomes[partition] = refusal.code
        return appended

    def _append(
        self, partition: TopicPartition, marker: TransactionMarker
    ) -> tuple[Watermark, int]:
        replica = self._replicas.leader(*partition)
        replica.check_in_sync()
        appended = replica.append_marker(marker, self._clock.now_ms())
        if appended is None:
            offset = replica.log.producers.last_marker_offset(marker.producer.producer_id)
            return replica.high_watermark, offset + 1
        ended = Marker(marker.producer, committed=marker.committed)
        self._on_marker(partition, ended, appended.end_offset)
        return appended.watermark, appended.end_offset


class AppendedMarkers:
    """Markers that stand in their logs, and those that were refused."""

    __slots__ = ("outcomes", "waiting")

    def __init__(self) -> None:
        self.outcomes: dict[TopicPartition, ErrorCode] = {}
        self.waiting: dict[TopicPartition, tuple[Watermark, int]] = {}

    async def committed(self, patience_s: float = _PATIENCE_S) -> Outcomes:
        """What became of each, when all are committed or have been waited for long enough."""
        deadline_s = asyncio.get_running_loop().time() + patience_s
        timeslice = Timeslice.of_running_loop()
        for partition, (watermark, offset) in self.waiting.items():
            if timeslice.is_over():
                await timeslice.next_turn()
            error = ErrorCode.NONE
            try:
                if watermark.value < offset:
                    async with asyncio.timeout_at(deadline_s):
                        await watermark.reached(offset)
            except TimeoutError:
                error = ErrorCode.REQUEST_TIMED_OUT
            except (ApiError, StorageError) as refusal:
                error = refusal.code
            self.outcomes[partition] = error
        self.waiting.clear()
        return self.outcomes
