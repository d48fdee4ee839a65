"""The fetch of another broker: it reads up to the log's end, and tells how far it is.

A request for records from an offset on says that its sender holds everything below, so it may
raise the high watermark or bring a follower into the in-sync set. Only brokers that hold a
replica of the partition count, and only in the life that the cluster's image shows or a later
one: whoever makes up a replica id gets errors.
"""

import asyncio
from typing import Final

from odradek.broker.fetching.fetch_reads import FetchReads
from odradek.broker.fetching.fetch_sessions import FetchSession
from odradek.broker.fetching.interest import FetchEntry
from odradek.broker.services import Services
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.fetch import EpochEndOffset, FetchRequest, PartitionData
from odradek.replication.partition import Partition
from odradek.replication.throttle import is_listed
from odradek.statemachine.watermark import Watermark

_CATCH_UP_BYTES: Final = 1 << 18
"""In one answer, for replicas outside the in-sync set: records that are to be acknowledged travel
in the same answers, and wait for what comes with them."""


class ReplicaReads(FetchReads):
    __slots__ = (
        "_broker_epoch",
        "_catch_up_bytes",
        "_is_same_life",
        "_now_s",
        "_passes",
        "_replica_id",
    )

    def __init__(
        self,
        services: Services,
        request: FetchRequest,
        session: FetchSession | None,
        now_s: float,
    ) -> None:
        super().__init__(services, request, request.max_bytes)
        self._now_s = now_s
        replica = request.replica_state
        if replica is None:
            self._replica_id, self._broker_epoch = request.replica_id, -1
        else:
            self._replica_id, self._broker_epoch = replica.replica_id, replica.replica_epoch
        self._catch_up_bytes = 0
        self._passes = 0
        self._is_same_life = session is not None and session.replica_epoch == self._broker_epoch
        if session is not None:
            session.replica_epoch = self._broker_epoch

    @property
    def trusts_silence(self) -> bool:
        """Not in another life of the broker that fetches: each partition must hear of that."""
        return self._is_same_life and not self._is_outdated and super().trusts_silence

    @property
    def _is_outdated(self) -> bool:
        """A former life of the broker, or somebody who names no life at all."""
        known = self._services.images.image.brokers.get(self._replica_id)
        return known is not None and self._broker_epoch < known.epoch

    def read(self, entries: list[FetchEntry], *, goes_on: bool = False) -> None:
        if not goes_on:
            self._catch_up_bytes = _CATCH_UP_BYTES
            self._passes += 1
        super().read(entries, goes_on=goes_on)

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
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)
        self.partitions[entry] = partition
        # Later passes serve the same request: it says nothing new.
        if self._passes == 1:
            self._note_progress(partition, entry)
        data.high_watermark = partition.high_watermark.value
        data.last_stable_offset = partition.last_stable.value
        if -1 < entry.told_log_start < data.log_start_offset:
            self.is_enough = True
        if left <= 0 and not first:
            return 0
        is_catching_up = partition.leadership is not None and (
            self._replica_id not in partition.leadership.in_sync
        )
        if is_catching_up:
            left = min(left, self._catch_up_bytes)
            if left <= 0 or self._is_held_back(partition):
                return 0
        records = partition.read_as_replica(
            offset, min(entry.max_bytes, max(left, 0)), at_least_one=first
        )
        if records is None:
            return 0
        if is_catching_up:
            self._count_catch_up(partition, len(records))
        data.records = records
        return len(records)

    def _is_throttled(self, partition: Partition) -> bool:
        return is_listed(
            partition.log.settings.leader_replication_throttled_replicas,
            partition.topic_partition.partition,
            self._services.broker_id,
        )

    def _is_held_back(self, partition: Partition) -> bool:
        """Whether a throttle says that this is for later; then it says when."""
        opens_s = self._services.replicas.leader_throttle.opens_s
        if opens_s <= asyncio.get_running_loop().time() or not self._is_throttled(partition):
            return False
        self.resume_s = opens_s
        return True

    def _count_catch_up(self, partition: Partition, size_bytes: int) -> None:
        self._catch_up_bytes -= size_bytes
        if self._is_throttled(partition):
            rate = self._services.settings.broker.leader_replication_throttled_rate
            now_s = asyncio.get_running_loop().time()
            self._services.replicas.leader_throttle.spend(size_bytes, rate, now_s)

    def _partition(self, entry: FetchEntry) -> Partition:
        replicas = self._services.replicas
        partition = (
            replicas.leader(entry.topic, entry.partition)
            if entry.topic
            else replicas.leader_by_id(entry.topic_id, entry.partition)
        )
        partition.check_epoch(entry.current_leader_epoch)
        leadership = partition.leadership
        if leadership is None or self._replica_id not in leadership.followers:
            # Perhaps it was assigned just now, and our image is behind.
            raise ApiError(
                ErrorCode.UNKNOWN_LEADER_EPOCH, f"Broker {self._replica_id} is not a replica."
            )
        if self._is_outdated:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "The broker has restarted since.")
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

    def _watermark(self, partition: Partition) -> Watermark:
        assert partition.leadership is not None  # it was read, in this very step
        return partition.leadership.appended

    def _is_silent(self, partition: Partition, entry: FetchEntry) -> bool:
        """In sync, at the end, and knows that all of it is committed: only an append, or another
        in-sync set, changes that."""
        leadership, end = partition.leadership, partition.log.log_end_offset
        if (
            leadership is None
            or self._replica_id not in leadership.in_sync
            or not entry.fetch_offset == end == partition.high_watermark.value
        ):
            return False
        entry.follower = leadership.followers[self._replica_id]
        return True
