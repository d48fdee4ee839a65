"""Reads partitions for followers: up to the log end offset.

A follower that fetches from an offset has all records below it. So its fetch may advance the high
watermark, or bring the follower back into the ISR. The fetch counts only if it comes from a
replica of the partition, with the broker epoch in the cluster's image or a newer one (KIP-903). A
previous run of the broker, and a client that makes up a replica id, get errors.
"""

import asyncio
from typing import Final

from odradek.broker.fetching.due_partitions import FetchEntry
from odradek.broker.fetching.fetch_sessions import FetchSession
from odradek.broker.services import Services
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.fetch import EpochEndOffset, FetchRequest, PartitionData
from odradek.replication.partition import Partition
from odradek.replication.throttle import is_listed, slice_bytes
from odradek.statemachine.watermark import Watermark

# The maximum in one response for followers outside the ISR. The same response may carry
# records that producers wait for, which a larger response would delay.
_MAX_CATCH_UP_BYTES: Final = 1 << 18


class ReplicaReader:
    """A `PartitionReader` for one fetch of a follower."""

    __slots__ = (
        "_broker_epoch",
        "_catch_up_bytes",
        "_is_same_run",
        "_now_s",
        "_passes",
        "_replica_id",
        "_services",
        "must_answer",
        "partitions",
        "resume_s",
    )

    def __init__(
        self,
        services: Services,
        request: FetchRequest,
        session: FetchSession | None,
        now_s: float,
    ) -> None:
        self._services = services
        self.partitions: dict[FetchEntry, Partition] = {}
        self.must_answer = False
        self.resume_s: float | None = None
        self._now_s = now_s
        replica = request.replica_state
        if replica is None:
            self._replica_id, self._broker_epoch = request.replica_id, -1
        else:
            self._replica_id, self._broker_epoch = replica.replica_id, replica.replica_epoch
        self._catch_up_bytes = 0
        self._passes = 0
        self._is_same_run = session is not None and session.replica_epoch == self._broker_epoch
        if session is not None:
            session.replica_epoch = self._broker_epoch

    @property
    def may_skip_idle(self) -> bool:
        """After a restart of the follower each partition has to see its new broker epoch. Without
        a lease, or with an offline log directory, reading finds an error."""
        services = self._services
        return (
            self._is_same_run
            and not self._is_previous_run
            and services.replicas.is_leased
            and not services.logs.offline_directories
        )

    @property
    def _is_previous_run(self) -> bool:
        """Whether the follower has restarted since it sent this fetch, or names no broker epoch
        although it must have one."""
        known = self._services.images.image.brokers.get(self._replica_id)
        return known is not None and self._broker_epoch < known.epoch

    def begin_pass(self) -> None:
        self._catch_up_bytes = _MAX_CATCH_UP_BYTES
        self._passes += 1

    def read(
        self, entry: FetchEntry, data: PartitionData, max_bytes: int, *, is_first: bool
    ) -> int:
        partition = self._partition(entry)
        offset = entry.fetch_offset
        data.log_start_offset = partition.log.log_start_offset
        diverged = partition.diverging_replica(entry.last_fetched_epoch, offset)
        if diverged is not None:
            data.diverging_epoch = EpochEndOffset(
                epoch=diverged.leader_epoch, end_offset=diverged.offset
            )
            self.must_answer = True
            return 0
        if offset < partition.log.log_start_offset:
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)
        self.partitions[entry] = partition
        # Later passes serve the same request, which says nothing new about the follower.
        if self._passes == 1:
            self._note_progress(partition, entry)
        data.high_watermark = partition.high_watermark.value
        data.last_stable_offset = partition.last_stable.value
        if -1 < entry.last_sent_log_start < data.log_start_offset:
            self.must_answer = True
        if max_bytes <= 0 and not is_first:
            return 0
        is_catching_up = partition.leadership is not None and (
            self._replica_id not in partition.leadership.in_sync
        )
        if is_catching_up:
            max_bytes = min(max_bytes, self._catch_up_bytes)
            if max_bytes <= 0 or self._is_held_back(partition):
                return 0
            if self._is_throttled(partition):
                rate = self._services.settings.broker.leader_replication_throttled_rate
                max_bytes = min(max_bytes, slice_bytes(rate))
        records = partition.read_as_replica(
            offset, min(entry.max_bytes, max(max_bytes, 0)), at_least_one=is_first
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
        """Returns whether a replication throttle forbids to read the partition now. If so, sets
        `resume_s`."""
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
            # The replica may have been assigned just now, in an image that is yet to come.
            raise ApiError(
                ErrorCode.UNKNOWN_LEADER_EPOCH, f"Broker {self._replica_id} is not a replica."
            )
        if self._is_previous_run:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "The broker has restarted since.")
        return partition

    def _note_progress(self, partition: Partition, entry: FetchEntry) -> None:
        may_join_isr = partition.note_fetch(
            self._replica_id,
            entry.fetch_offset,
            entry.log_start_offset,
            broker_epoch=self._broker_epoch,
            now_s=self._now_s,
        )
        if may_join_isr:
            self._services.isr_changes.check_soon(partition)

    def watermark(self, partition: Partition) -> Watermark:
        assert partition.leadership is not None  # The partition was read in this step.
        return partition.leadership.log_end

    def becomes_idle(self, partition: Partition, entry: FetchEntry) -> bool:
        """Returns whether the follower is in sync, holds the whole log and knows that all of it is
        committed: only an append or another ISR changes that."""
        leadership, end = partition.leadership, partition.log.log_end_offset
        if (
            leadership is None
            or self._replica_id not in leadership.in_sync
            or not entry.fetch_offset == end == partition.high_watermark.value
        ):
            return False
        entry.idle_follower = leadership.followers[self._replica_id]
        return True
