"""The fetch of a consumer: up to the high watermark, or to the last stable offset.

Consumers may read from followers too, up to the high watermark known there; a leader sends them
to the replica on their rack where it is told to (KIP-392).
"""

from typing import Final

from odradek.broker.fetching.fetch_reads import FetchReads
from odradek.broker.fetching.interest import FetchEntry
from odradek.broker.services import RequestContext, Services
from odradek.protocol.acls import Operation
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.fetch import (
    API,
    AbortedTransaction,
    EpochEndOffset,
    FetchRequest,
    PartitionData,
)
from odradek.replication.partition import Partition
from odradek.replication.replica_selector import is_rack_aware, nearest
from odradek.statemachine.watermark import Watermark

_READ_COMMITTED: Final = 1
_FIRST_VERSION_WITH_RACKS: Final = 11


class ConsumerReads(FetchReads):
    __slots__ = ("_access", "_committed_only", "_may_follow", "_rack")

    def __init__(self, services: Services, request: FetchRequest, context: RequestContext) -> None:
        settings = services.settings.broker
        super().__init__(services, request, min(request.max_bytes, settings.fetch_max_bytes))
        # Older consumers know leaders only.
        self._may_follow = context.version >= _FIRST_VERSION_WITH_RACKS
        is_selecting = request.rack_id and is_rack_aware(settings.replica_selector_class)
        self._rack = request.rack_id if is_selecting else None
        self._committed_only = request.isolation_level == _READ_COMMITTED
        self._access = None
        if services.authorizer is not None:
            from odradek.broker.guards.access import Access  # noqa: PLC0415 - if there are guards

            self._access = Access(services, context, API)

    def _read_one(self, entry: FetchEntry, data: PartitionData, left: int, *, first: bool) -> int:
        # Asked at every read, because rules may change while a fetch waits or a session lasts.
        if self._access is not None:
            name = self._access.topic_name(entry.topic, entry.topic_id)
            if name is not None and not self._access.may_on_topic(Operation.READ, name):
                raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        partition = self.partitions[entry] = self._partition(entry)
        partition.check_epoch(entry.current_leader_epoch)
        if entry.last_fetched_epoch >= 0:
            diverged = partition.diverging(entry.last_fetched_epoch, entry.fetch_offset)
            if diverged is not None:
                data.diverging_epoch = EpochEndOffset(
                    epoch=diverged.leader_epoch, end_offset=diverged.offset
                )
                self.is_enough = True
        data.log_start_offset = partition.log.log_start_offset
        data.high_watermark = partition.high_watermark.value
        data.last_stable_offset = partition.last_stable.value
        if self._committed_only:
            data.aborted_transactions = []
        if self._rack is not None and self._send_away(partition, entry, data):
            return 0
        if left <= 0 and not first:
            return 0
        records = partition.read(
            entry.fetch_offset,
            min(entry.max_bytes, max(left, 0)),
            committed_only=self._committed_only,
            at_least_one=first,
        )
        if records is None:
            return 0
        data.records = records
        if self._committed_only:
            data.aborted_transactions = [
                AbortedTransaction(producer_id=one.producer_id, first_offset=one.first_offset)
                for one in partition.aborted_in(records, entry.fetch_offset)
            ]
        return len(records)

    def _partition(self, entry: FetchEntry) -> Partition:
        replicas = self._services.replicas
        if self._may_follow:
            return replicas.reader(entry.topic, entry.topic_id, entry.partition)
        return replicas.leader(entry.topic, entry.partition)

    def _send_away(self, partition: Partition, entry: FetchEntry, data: PartitionData) -> bool:
        """Names the replica that is nearer to the consumer, if there is one."""
        brokers = self._services.images.image.brokers
        replica = nearest(partition, self._rack or "", entry.fetch_offset, brokers)
        if replica is None:
            return False
        data.preferred_read_replica = replica
        self.is_enough = True
        return True

    def _watermark(self, partition: Partition) -> Watermark:
        return partition.readable(self._committed_only)

    def _is_silent(self, partition: Partition, entry: FetchEntry) -> bool:
        # An open transaction lets the high watermark move, of which the consumer is told, but
        # wakes nobody; who is nearest may change with the cluster.
        return (
            entry.fetch_offset == partition.high_watermark.value == partition.last_stable.value
            and self._rack is None
        )
