"""The fetch of another broker: it reads up to the log's end, and tells how far it is.

A request for records from an offset on says that its sender holds everything below, so it may
raise the high watermark or bring a follower into the in-sync set. Only brokers that hold a
replica of the partition count, and only in the life that the cluster's image shows or a later
one: whoever makes up a replica id gets errors.
"""

from odradek.broker.fetch_sessions import FetchEntry
from odradek.broker.services import Services
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.fetch import EpochEndOffset, FetchRequest, PartitionData
from odradek.replication.partition import Partition
from odradek.replication.refusal import Refused
from odradek.statemachine.watermark import Waiter
from odradek.storage import Slice


class ReplicaReads:
    """One pass over the partitions of a fetch, within its limits."""

    __slots__ = (
        "_broker_epoch",
        "_is_first_pass",
        "_max_bytes",
        "_min_bytes",
        "_now_s",
        "_replica_id",
        "_services",
        "is_enough",
        "partitions",
        "results",
    )

    def __init__(self, services: Services, request: FetchRequest, now_s: float) -> None:
        self._services = services
        self._min_bytes = request.min_bytes
        self._max_bytes = request.max_bytes
        self._now_s = now_s
        replica = request.replica_state
        if replica is None:
            self._replica_id, self._broker_epoch = request.replica_id, -1
        else:
            self._replica_id, self._broker_epoch = replica.replica_id, replica.replica_epoch
        self._is_first_pass = True
        self.is_enough = False
        self.partitions: list[Partition] = []
        self.results: list[tuple[FetchEntry, PartitionData]] = []

    def read(self, entries: list[FetchEntry]) -> None:
        self.partitions, self.results = [], []
        left = self._max_bytes
        found = 0
        for entry in entries:
            data = PartitionData(
                partition_index=entry.partition,
                high_watermark=-1,
                aborted_transactions=None,
                records=b"",
            )
            self.results.append((entry, data))
            try:
                found += self._read_one(entry, data, left - found, first=not found)
            except Refused as refusal:
                data.error_code = refusal.code
                self.is_enough = True
        self._is_first_pass = False
        if found >= self._min_bytes:
            self.is_enough = True

    def _read_one(self, entry: FetchEntry, data: PartitionData, left: int, *, first: bool) -> int:
        partition = self._partition(entry)
        offset = entry.fetch_offset
        data.log_start_offset = partition.log.log_start_offset
        diverged = partition.diverging_replica(entry.last_fetched_epoch, offset)
        if diverged is not None:
            data.diverging_epoch = EpochEndOffset(
                epoch=diverged.leader_epoch, end_offset=diverged.offset
            )
            self.is_enough = True
            return 0
        if offset < partition.log.log_start_offset:
            raise Refused(ErrorCode.OFFSET_OUT_OF_RANGE)
        self.partitions.append(partition)
        if self._is_first_pass:
            # Later passes serve the same request: it says nothing new.
            self._note_progress(partition, entry)
        data.high_watermark = partition.high_watermark.value
        data.last_stable_offset = partition.last_stable.value
        if -1 < entry.told_log_start < data.log_start_offset:
            self.is_enough = True
        if left <= 0 and not first:
            return 0
        records = partition.read_as_replica(
            offset, min(entry.max_bytes, max(left, 0)), at_least_one=first
        )
        if records is None:
            return 0
        data.records = records
        return len(records)

    def _partition(self, entry: FetchEntry) -> Partition:
        replicas = self._services.replicas
        partition = (
            replicas.leader(entry.topic, entry.partition)
            if entry.topic
            else replicas.leader_by_id(entry.topic_id, entry.partition)
        )
        partition.check_epoch(entry.current_leader_epoch)
        term = partition.term
        if term is None or self._replica_id not in term.followers:
            # Perhaps it was assigned just now, and our image is behind.
            raise Refused(
                ErrorCode.UNKNOWN_LEADER_EPOCH, f"Broker {self._replica_id} is not a replica."
            )
        known = self._services.images.image.brokers.get(self._replica_id)
        if known is not None and self._broker_epoch < known.epoch:
            # A former life of the broker, or somebody who names no life at all.
            raise Refused(ErrorCode.NOT_LEADER_OR_FOLLOWER, "The broker has restarted since.")
        return partition

    def _note_progress(self, partition: Partition, entry: FetchEntry) -> None:
        may_expand = partition.fetched_by(
            self._replica_id,
            entry.fetch_offset,
            entry.log_start_offset,
            broker_epoch=self._broker_epoch,
            now_s=self._now_s,
        )
        if may_expand:
            self._services.replicas.note_expansion(partition)

    def watch(self) -> Waiter:
        """Who is woken by the next append, in the same step as the read that found too little."""
        waiter = Waiter()
        for partition in self.partitions:
            if partition.term is not None:
                waiter.watch(partition.term.appended)
        self.release()
        return waiter

    def release(self) -> None:
        """Lets the slices go that will not be sent."""
        for _, data in self.results:
            if isinstance(data.records, Slice):
                data.records.release()
        self.results = []
