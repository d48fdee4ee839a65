"""Writes transaction markers to the partitions that this broker leads.

The marker writer of this broker uses it, and the handler of WriteTxnMarkers for other coordinators.

Invariant: a marker is reported as written only when the high watermark has passed it. This is also
true of a marker that is found in the log because a coordinator asks again. Otherwise the
coordinator would forget the transaction, a new leader of the partition might lack the marker, and
the transaction would stay open there for ever.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.types import Offset, TopicPartition
from odradek.replication.pending_append import TransactionMarker
from odradek.replication.replicas import Replicas
from odradek.statemachine.machine import Marker
from odradek.statemachine.watermark import Watermark
from odradek.storage import StorageError
from odradek.world import Clock
from odradek.world.timeslice import Timeslice

# How long replicas may take. After that the coordinator is told to ask again.
_TIMEOUT_S: Final = 5.0

OnMarker = Callable[[TopicPartition, Marker, Offset], None]
"""Called for every marker that was appended, with the offset after it: in `__consumer_offsets` it
makes the offsets of the transaction count."""

MarkerErrors = Mapping[TopicPartition, ErrorCode]
"""The result of writing a marker: an error code, perhaps NONE, for each partition."""


class LocalMarkers:
    """Appends markers to the partitions of this broker."""

    def __init__(self, replicas: Replicas, clock: Clock, on_marker: OnMarker) -> None:
        self._replicas = replicas
        self._clock = clock
        self._on_marker = on_marker

    async def append(
        self, partitions: Iterable[TopicPartition], marker: TransactionMarker
    ) -> "AppendedMarkers":
        """Appends the marker to the partitions. `AppendedMarkers.committed` waits for the replicas.
        A transaction may have thousands of partitions, so this yields to other tasks in between."""
        appended = AppendedMarkers()
        timeslice = Timeslice.of_running_loop()
        for partition in partitions:
            if timeslice.is_over():
                await timeslice.next_turn()
            try:
                appended.waiting[partition] = self._append(partition, marker)
            except ApiError as error:
                appended.errors[partition] = error.code
        return appended

    def _append(
        self, partition: TopicPartition, marker: TransactionMarker
    ) -> tuple[Watermark, Offset]:
        replica = self._replicas.leader(*partition)
        replica.check_in_sync()
        appended = replica.append_marker(marker, self._clock.now_ms())
        if appended is None:
            offset = replica.log.producers.last_marker_offset(marker.producer.producer_id)
            return replica.high_watermark, offset + 1
        end_marker = Marker(marker.producer, committed=marker.committed)
        self._on_marker(partition, end_marker, appended.end_offset)
        return appended.watermark, appended.end_offset


class AppendedMarkers:
    """The markers that were appended and wait for replicas, and the errors of those that were
    not."""

    __slots__ = ("errors", "waiting")

    def __init__(self) -> None:
        self.errors: dict[TopicPartition, ErrorCode] = {}
        self.waiting: dict[TopicPartition, tuple[Watermark, Offset]] = {}

    async def committed(self, timeout_s: float = _TIMEOUT_S) -> MarkerErrors:
        """Returns the error codes when all markers are committed or the time is up."""
        deadline_s = asyncio.get_running_loop().time() + timeout_s
        timeslice = Timeslice.of_running_loop()
        for partition, (watermark, offset) in self.waiting.items():
            if timeslice.is_over():
                await timeslice.next_turn()
            code = ErrorCode.NONE
            try:
                if watermark.value < offset:
                    async with asyncio.timeout_at(deadline_s):
                        await watermark.wait_for(offset)
            except TimeoutError:
                code = ErrorCode.REQUEST_TIMED_OUT
            except (ApiError, StorageError) as error:
                code = error.code
            self.errors[partition] = code
        self.waiting.clear()
        return self.errors
