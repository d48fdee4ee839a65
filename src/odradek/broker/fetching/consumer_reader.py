"""Reads partitions for consumers: up to the high watermark, or up to the last stable offset.

Consumers may read from followers too, up to the high watermark known there. Only the leader answers
OFFSET_OUT_OF_RANGE, because a consumer resets its position then. A follower that does not have the
offset answers OFFSET_NOT_AVAILABLE, and the consumer asks the leader. If
`replica.selector.class` says so, a leader sends a consumer to the replica on its rack (KIP-392).
"""

from typing import Final

from odradek.broker.fetching.due_partitions import FetchEntry
from odradek.broker.services import RequestContext, Services
from odradek.protocol.acls import Operation, ResourceType
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchRequest,
    PartitionData,
)
from odradek.protocol.types import Offset
from odradek.replication.partition import Partition
from odradek.replication.replica_selector import is_rack_aware, preferred_read_replica
from odradek.statemachine.watermark import Watermark

_READ_COMMITTED: Final = 1
_FIRST_VERSION_WITH_RACKS: Final = FetchRequest.first_version_with("rack_id")


class ConsumerReader:
    """A `PartitionReader` for one fetch of a consumer."""

    __slots__ = (
        "_context",
        "_is_committed_only",
        "_may_read_follower",
        "_rack",
        "_services",
        "must_answer",
        "partitions",
        "resume_s",
    )

    def __init__(self, services: Services, request: FetchRequest, context: RequestContext) -> None:
        settings = services.settings.broker
        self._services = services
        self.partitions: dict[FetchEntry, Partition] = {}
        self.must_answer = False
        self.resume_s: float | None = None
        # Older consumers know leaders only.
        self._may_read_follower = context.version >= _FIRST_VERSION_WITH_RACKS
        is_selecting = request.rack_id and is_rack_aware(settings.replica_selector_class)
        self._rack = request.rack_id if is_selecting else None
        self._is_committed_only = request.isolation_level == _READ_COMMITTED
        # Checks permissions. None if there is no authorizer.
        self._context = None if services.authorizer is None else context

    @property
    def may_skip_idle(self) -> bool:
        """Without a lease, or with an offline log directory, reading finds an error."""
        services = self._services
        return services.replicas.is_leased and not services.logs.offline_directories

    def begin_pass(self) -> None:
        """Every pass is the same for consumers."""

    def read(
        self, entry: FetchEntry, data: PartitionData, max_bytes: int, *, is_first: bool
    ) -> int:
        # Checked at every read, because ACLs may change while a fetch waits or a session lasts.
        context = self._context
        if context is not None:
            name = context.topic_name(entry.topic, entry.topic_id)
            if name is not None and not context.authorize(Operation.READ, ResourceType.TOPIC, name):
                raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        partition = self.partitions[entry] = self._partition(entry)
        partition.check_epoch(entry.current_leader_epoch)
        if not partition.is_leader:
            _check_follower_has(partition, entry.fetch_offset)
        if entry.last_fetched_epoch >= 0:
            diverged = partition.diverging(entry.last_fetched_epoch, entry.fetch_offset)
            if diverged is not None:
                data.diverging_epoch = EpochEndOffset(
                    epoch=diverged.leader_epoch, end_offset=diverged.offset
                )
                self.must_answer = True
        data.log_start_offset = partition.log.log_start_offset
        data.high_watermark = partition.high_watermark.value
        data.last_stable_offset = partition.last_stable.value
        if self._is_committed_only:
            data.aborted_transactions = []
        if self._rack is not None and self._set_preferred_replica(partition, entry, data):
            return 0
        if max_bytes <= 0 and not is_first:
            return 0
        records = partition.read(
            entry.fetch_offset,
            min(entry.max_bytes, max(max_bytes, 0)),
            committed_only=self._is_committed_only,
            at_least_one=is_first,
        )
        if records is None:
            return 0
        data.records = records
        if self._is_committed_only:
            data.aborted_transactions = [
                AbortedTransaction(
                    producer_id=aborted.producer_id, first_offset=aborted.first_offset
                )
                for aborted in partition.aborted_in(records, entry.fetch_offset)
            ]
        return len(records)

    def _partition(self, entry: FetchEntry) -> Partition:
        replicas = self._services.replicas
        if self._may_read_follower:
            return replicas.reader(entry.topic, entry.topic_id, entry.partition)
        return replicas.leader(entry.topic, entry.partition)

    def _set_preferred_replica(
        self, partition: Partition, entry: FetchEntry, data: PartitionData
    ) -> bool:
        """Sets the preferred read replica if one is nearer to the consumer than this broker.
        Returns whether there is one."""
        brokers = self._services.images.image.brokers
        replica = preferred_read_replica(partition, self._rack or "", entry.fetch_offset, brokers)
        if replica is None:
            return False
        data.preferred_read_replica = replica
        self.must_answer = True
        return True

    def watermark(self, partition: Partition) -> Watermark:
        return partition.readable(self._is_committed_only)

    def becomes_idle(self, partition: Partition, entry: FetchEntry) -> bool:
        # While a transaction is open the high watermark moves without the last stable offset. The
        # response has the new high watermark, but a move does not end the wait. The preferred read
        # replica may change with the cluster.
        return (
            entry.fetch_offset == partition.high_watermark.value == partition.last_stable.value
            and self._rack is None
        )


def _check_follower_has(partition: Partition, offset: Offset) -> None:
    """Raises `ApiError` if `offset` is below the start or above the end of the follower's log. That
    log may be shorter than the leader's, as after a power cut, and may start later."""
    log = partition.log
    if not log.log_start_offset <= offset <= log.log_end_offset:
        raise ApiError(ErrorCode.OFFSET_NOT_AVAILABLE)
