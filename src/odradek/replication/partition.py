"""A partition on this broker: the replica and its role, leader or follower.

A leader advances its high watermark as the in-sync replicas (ISR) fetch (`leadership`).
For its own log it uses the log end offset, or with `flush.messages=1` the flushed offset. A sole
replica commits what it appends. A follower takes the leader's high watermark, up to its log end.

If an invariant does not hold (`Replica.check`, `Leadership.check`, or one of the log), this replica
goes offline until the next start (by `Replica.go_offline`). Clients get KAFKA_STORAGE_ERROR,
another replica is elected (`cluster.offline_replicas`), and the other partitions of this broker are
served as before.
"""

import asyncio
from collections.abc import Callable, Container, Mapping
from typing import Final

from odradek.invariants import InvariantViolation
from odradek.metadata import PartitionImage
from odradek.metadata.node_values import NO_LEADER
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.internal_topics import INTERNAL_TOPICS
from odradek.protocol.types import BrokerId, LeaderEpoch, Offset, TopicId, TopicPartition
from odradek.replication.leadership import LagLimits, Leadership
from odradek.replication.pending_append import PendingAppend, TransactionMarker
from odradek.replication.replica import NO_EPOCH, Replica, not_leader, offline_on_violation
from odradek.storage import AppendRejected, AppendResult, Log, StorageError
from odradek.storage.producer_state import TransactionNotOpen, Verification
from odradek.storage.staging import room_for
from odradek.storage.validation import CannotAppendAtOnce, ValidatedBatch
from odradek.wording import counted
from odradek.world.disk import Buffer

_ACKS_ALL: Final = -1
# `tuple.__new__` takes half the time of the NamedTuple constructor, for every produced batch.
_new_tuple: Final = tuple.__new__


class Partition(Replica):
    """Invariant: while this replica leads, `leadership` is not None, the high watermark only rises,
    and `leadership.leader_epoch` is the partition's `leader_epoch`."""

    __slots__ = (
        "_broker_id",
        "_flushing",
        "_is_internal",
        "_replica_count",
        "is_leader",
        "leader",
        "leadership",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        topic_id: TopicId,
        log: Log,
        broker_id: BrokerId,
    ) -> None:
        super().__init__(topic_partition, topic_id, log)
        self.is_leader = False
        self.leader = NO_LEADER
        # None unless this replica leads.
        self.leadership: Leadership | None = None
        self._broker_id = broker_id
        self._is_internal = topic_partition.topic in INTERNAL_TOPICS
        self._replica_count = 0
        self._flushing: asyncio.Task[None] | None = None

    # Invariants

    def check(self) -> None:
        super().check()
        leadership = self.leadership
        if (leadership is not None) != self.is_leader:
            raise self.violation("is_leader and leadership contradict each other")
        if leadership is None:
            return
        if leadership.leader_epoch != self.leader_epoch or self.leader != self._broker_id:
            raise self.violation(
                f"broker {self._broker_id} leads in epoch {leadership.leader_epoch}, but the "
                f"partition's leader is {self.leader} in epoch {self.leader_epoch}"
            )
        leadership.check()
        leadership.check_high_watermark(self.high_watermark.value)

    def _refuse_and_go_offline(self, violation: InvariantViolation) -> ApiError:
        failure = self.go_offline(violation)
        return ApiError(failure.code, str(failure))

    # Roles

    @offline_on_violation
    def lead(self, state: PartitionImage, now_s: float) -> None:
        """Becomes leader in the epoch of `state`, or takes over a new ISR or new replicas
        in the same epoch. The log is not truncated."""
        self._check_epoch_rises(state.leader_epoch)
        self._replica_count = len(state.replicas)
        leadership = self.leadership
        if leadership is not None and state.leader_epoch == leadership.leader_epoch:
            self._update_leadership(leadership, state)
            return
        self.check()
        self._end_role(not_leader())
        end = self.log.log_end_offset
        self.is_leader = True
        self.leader = self._broker_id
        self.leader_epoch = state.leader_epoch
        self.leadership = Leadership(
            self._broker_id,
            state.leader_epoch,
            end,
            state.replicas,
            state.isr,
            version=state.version,
            now_s=now_s,
            eligible=state.eligible,
        )
        self.log.begin_epoch(state.leader_epoch)
        if self.log.flushes_before_acknowledging and self.log.has_unflushed:
            self._start_flushing()
        self._recompute_high_watermark()
        self.check()

    def _update_leadership(self, leadership: Leadership, state: PartitionImage) -> None:
        """Takes over another ISR or other replicas in the same leader epoch."""
        if leadership.in_sync != state.isr:
            self.note(f"ISR {leadership.in_sync} -> {state.isr}, version {state.version}")
        leadership.update(state.replicas, state.isr, state.version, state.eligible)
        if self._is_held_back(leadership):
            # The high watermark does not advance meanwhile: waiting requests with acks=all fail.
            self._renew_watermarks(ApiError(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND))
        self._recompute_high_watermark()
        self.check()

    @offline_on_violation
    def follow(self, leader: BrokerId, leader_epoch: LeaderEpoch) -> None:
        """Becomes follower of `leader`, which is -1 if the partition has no leader. The replica
        fetchers copy the leader's log."""
        if not self.is_leader and (leader, leader_epoch) == (self.leader, self.leader_epoch):
            return
        self._check_epoch_rises(leader_epoch)
        self.check()
        self._end_role(not_leader())
        self.leader = leader
        self.leader_epoch = leader_epoch
        self.log.follow_epoch(leader_epoch)
        self.check()

    def resign(self, reason: ApiError) -> None:
        self._end_role(reason)
        self.leader = NO_LEADER
        super().resign(reason)

    def fail_waiters(self, reason: ApiError) -> None:
        """Fails the requests that wait for the high watermark and wakes the waiting fetches, but
        keeps the role: the broker has lost its lease and does not know whether it still leads."""
        self.high_watermark.fail_waiters(reason)
        if self._last_stable is not None:
            self._last_stable.nudge()
        if self.leadership is not None:
            self.leadership.log_end.nudge()

    def _end_role(self, reason: ApiError) -> None:
        if self.has_role:
            role = "led" if self.is_leader else f"followed {self.leader}"
            self.note(
                f"{role} in epoch {self.leader_epoch} up to high watermark "
                f"{self.high_watermark.value}, log end {self.log.log_end_offset}"
            )
        self.is_leader = False
        if self.leadership is not None:
            self.leadership.end(reason)
            self.leadership = None
        self._renew_watermarks(reason)
        if self._flushing is not None:
            self._flushing.cancel()
            self._flushing = None

    def _check_epoch_rises(self, leader_epoch: LeaderEpoch) -> None:
        # A partition without a node has no epoch: a large topic is deleted in parts.
        if NO_EPOCH < leader_epoch < self.leader_epoch:
            raise self.violation(
                f"the leader epoch falls from {self.leader_epoch} to {leader_epoch}"
            )

    @property
    def has_role(self) -> bool:
        """Whether this replica is leader or follower: consumers may read from both (KIP-392)."""
        return self.leader_epoch != NO_EPOCH

    def check_epoch(self, current_leader_epoch: LeaderEpoch) -> None:
        """Refuses a request whose `current_leader_epoch` differs from this replica's (KIP-320)."""
        if current_leader_epoch in (NO_EPOCH, self.leader_epoch):
            return
        older = current_leader_epoch < self.leader_epoch
        raise ApiError(
            ErrorCode.FENCED_LEADER_EPOCH if older else ErrorCode.UNKNOWN_LEADER_EPOCH,
            f"The leader epoch is {self.leader_epoch}, not {current_leader_epoch}.",
        )

    # Writing

    def check_in_sync(self, error: ErrorCode = ErrorCode.NOT_ENOUGH_REPLICAS) -> None:
        """Refuses a write with acks=all while fewer than `min.insync.replicas` are in sync."""
        required = self.min_in_sync
        leadership = self.leadership
        if required > 1 and leadership is not None and len(leadership.in_sync) < required:
            raise ApiError(
                error,
                f"{counted(len(leadership.in_sync), 'replica is', 'replicas are')} in sync, "
                f"min.insync.replicas asks for {required}.",
            )

    @property
    def min_in_sync(self) -> int:
        """`min.insync.replicas`, but not more than the replicas of the partition, as in Kafka since
        4.0."""
        return min(self.log.settings.min_insync_replicas, self._replica_count)

    def _is_held_back(self, leadership: Leadership) -> bool:
        """Whether the high watermark must not advance: fewer than `min.insync.replicas` are in
        sync, or there are eligible leader replicas (KIP-966)."""
        return bool(leadership.followers) and (
            bool(leadership.eligible) or len(leadership.in_sync) < self.min_in_sync
        )

    async def validate_in_steps(self, records: Buffer) -> ValidatedBatch:
        """Validates a batch in small steps, and yields to other tasks in between."""
        try:
            return await self.log.validate_in_steps(records)
        except AppendRejected as error:
            raise ApiError(error.code, error.message, error.record_errors) from error
        except StorageError as error:
            raise ApiError(error.code, str(error)) from error

    def append(
        self,
        records: Buffer,
        acks: int,
        verification: Verification | None = None,
        validated: ValidatedBatch | None = None,
    ) -> PendingAppend:
        """Appends a batch of a client. `acks` decides which watermark acknowledges it.

        Raises `TransactionNotOpen` if the coordinator must verify the transaction first, and
        `CannotAppendAtOnce` if the batch needs `validate_in_steps` or `append_when_ready`.
        """
        if self._is_internal:
            raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, "Clients cannot write to this topic.")
        if acks == _ACKS_ALL:
            self.check_in_sync()
        try:
            result = self.log.append(
                records,
                leader_epoch=self.leader_epoch,
                verification=verification,
                validated=validated,
            )
            return self._finish_append(result, acks)
        except TransactionNotOpen:
            raise
        except AppendRejected as error:
            raise ApiError(error.code, error.message, error.record_errors) from error
        except StorageError as error:
            raise ApiError(error.code, str(error)) from error
        except InvariantViolation as violation:
            raise self._refuse_and_go_offline(violation) from violation

    async def append_when_ready(
        self, validated: ValidatedBatch, append: Callable[[], PendingAppend]
    ) -> PendingAppend:
        """Stages a large batch, or waits until the batch before is staged and appended. Then calls
        `append`, before any other batch can be appended."""
        try:
            async with room_for(self.log, validated.records):
                return append()
        except CannotAppendAtOnce:
            # `append` looks the partition up again, and found another log than the one in which
            # the batch is staged.
            raise not_leader() from None
        except TransactionNotOpen:
            raise
        except StorageError as error:
            raise ApiError(error.code, str(error)) from error
        except InvariantViolation as violation:
            raise self._refuse_and_go_offline(violation) from violation

    def append_as_coordinator(self, records: Buffer) -> PendingAppend:
        """Appends a batch of a coordinator, or a transaction marker."""
        try:
            result = self.log.append(records, leader_epoch=self.leader_epoch, by_coordinator=True)
            return self._finish_append(result)
        except StorageError as error:
            raise ApiError(error.code, str(error)) from error
        except InvariantViolation as violation:
            raise self._refuse_and_go_offline(violation) from violation

    def append_marker(self, marker: TransactionMarker, now_ms: int) -> PendingAppend | None:
        """Appends the marker that ends a producer's transaction. Returns None if the log has the
        marker already."""
        producer_id, producer_epoch = marker.producer
        try:
            if not self.log.producers.check_marker(
                producer_id,
                producer_epoch,
                marker.coordinator_epoch,
                is_bumped=marker.is_bumped,
            ):
                return None
        except StorageError as error:
            raise ApiError(error.code, str(error)) from error
        return self.append_as_coordinator(marker.encode(now_ms))

    def _finish_append(self, result: AppendResult, acks: int = _ACKS_ALL) -> PendingAppend:
        log, leadership = self.log, self.leadership
        if self._last_stable is None and log.producers.ongoing:
            self._track_transactions()
        assert leadership is not None  # Callers check `is_leader` first.
        flushes_first = log.flushes_before_acknowledging
        if flushes_first:
            self._start_flushing()
        elif leadership.waits_for_no_follower and not self._is_held_back(leadership):
            self._advance_high_watermark(log.log_end_offset)
        if not leadership.followers:
            watermark, recheck_isr_in = self.high_watermark, None
        else:
            end = log.log_end_offset
            leadership.log_end.advance(end)
            if self.high_watermark.value > end:
                # A high watermark beyond the log end would acknowledge the batch before it is
                # replicated.
                raise self.violation(
                    f"the high watermark {self.high_watermark.value} is beyond the log end {end}"
                )
            if acks == _ACKS_ALL:
                watermark, recheck_isr_in = self.high_watermark, self
            elif flushes_first:
                watermark, recheck_isr_in = log.flushed, None
            else:
                watermark, recheck_isr_in = leadership.log_end, None
        base_offset, last_offset, append_time_ms, log_start, _ = result
        return _new_tuple(
            PendingAppend,
            (base_offset, last_offset + 1, append_time_ms, log_start, watermark, recheck_isr_in),
        )

    def _recompute_high_watermark(self) -> None:
        """Advances the high watermark of a leader to the offset up to which the leader and its
        followers have every record (`Leadership.committed_offset`)."""
        log, leadership = self.log, self.leadership
        assert leadership is not None
        if self._is_held_back(leadership):
            return
        own_end = log.flushed.value if log.flushes_before_acknowledging else log.log_end_offset
        self._advance_high_watermark(leadership.committed_offset(own_end))

    def _start_flushing(self) -> None:
        if self._flushing is None or self._flushing.done():
            self._flushing = asyncio.get_running_loop().create_task(self._flush())

    async def _flush(self) -> None:
        """Flushes until nothing is unflushed. One task serves all appends: each round flushes the
        batches that were appended during the round before."""
        log = self.log
        try:
            while self.is_leader and log.has_unflushed:
                await log.flush_to(log.log_end_offset)
                if self.is_leader:
                    self._recompute_high_watermark()
        except StorageError as error:
            self._renew_watermarks(ApiError(error.code, str(error)))
        except InvariantViolation as violation:
            self._flushing = None  # `go_offline` cancels `_flushing`, which is this task.
            self.go_offline(violation)

    # Followers, as their leader sees them

    def note_fetch(
        self,
        replica: BrokerId,
        offset: Offset,
        log_start: Offset,
        *,
        broker_epoch: int,
        now_s: float,
    ) -> bool:
        """Notes that a follower fetches from `offset` on, so it has every record below. Returns
        whether it may be added to the ISR now."""
        leadership = self.leadership
        assert leadership is not None  # Callers check `is_leader` first.
        try:
            leadership.note_fetch(
                replica,
                offset,
                log_start,
                broker_epoch=broker_epoch,
                leader_end=self.log.log_end_offset,
                now_s=now_s,
            )
            self._recompute_high_watermark()
        except InvariantViolation as violation:
            raise self._refuse_and_go_offline(violation) from violation
        return leadership.may_join_isr(replica, self.high_watermark.value)

    @offline_on_violation
    def forget_follower(self, replica: BrokerId) -> None:
        """Forgets the progress of a follower whose broker is gone. The high watermark waits for the
        follower only while it is in the ISR."""
        if self.leadership is not None:
            self.leadership.forget(replica)
            self._recompute_high_watermark()

    def next_in_sync(
        self, live: Mapping[BrokerId, int], *, now_s: float, limits: LagLimits
    ) -> tuple[BrokerId, ...]:
        """Returns the ISR as it should be; `live` holds the epochs of live brokers.
        Raises `StorageError` if an invariant does not hold."""
        leadership, end = self.leadership, self.log.log_end_offset
        assert leadership is not None  # Callers check `is_leader` first.
        try:
            leadership.drop_laggards(end, now_s, limits)
            self._recompute_high_watermark()
            self.check()
        except InvariantViolation as violation:
            raise self.go_offline(violation) from violation
        return leadership.next_in_sync(
            self.high_watermark.value, end, live, now_s=now_s, limits=limits
        )

    @offline_on_violation
    def propose(self, leadership: Leadership, in_sync: tuple[BrokerId, ...]) -> None:
        """Notes an ISR that is being written to the store."""
        if self.leadership is leadership:
            self.note(f"ISR {in_sync} proposed")
            leadership.propose(in_sync)

    @offline_on_violation
    def settle(self, leadership: Leadership) -> None:
        """Ends the proposal of that leadership, because its outcome is known."""
        leadership.settle()
        if self.leadership is leadership:
            self._recompute_high_watermark()

    def low_watermark(self, live: Container[BrokerId]) -> Offset:
        """Returns the lowest log start of this replica, of those on live brokers, and of those
        that may lead next."""
        if self.leadership is None:
            raise not_leader()
        return self.leadership.low_watermark(self.log.log_start_offset, live)

    @property
    def has_reached_epoch_start(self) -> bool:
        """Whether the high watermark has reached the offset at which this leader epoch began.
        Before that, ListOffsets must not answer (KIP-207). True for a follower."""
        leadership = self.leadership
        return leadership is None or self.high_watermark.value >= leadership.start_offset

    # The log start

    def delete_records(self, upto: Offset | None) -> int:
        """Advances the log start offset to `upto`, or to the high watermark if that is None.
        Returns the log start offset."""
        if self._is_internal:
            raise ApiError(
                ErrorCode.INVALID_TOPIC_EXCEPTION, "Records of internal topics cannot be deleted."
            )
        if not self.log.settings.removes_old_segments:
            raise ApiError(
                ErrorCode.POLICY_VIOLATION,
                f"Records of {self.topic_partition.topic} cannot be deleted: its cleanup.policy "
                "does not contain delete.",
            )
        high_watermark = self.high_watermark.value
        offset = high_watermark if upto is None else upto
        if not 0 <= offset <= high_watermark:
            raise ApiError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"Records can be deleted up to {high_watermark}, not {offset}.",
            )
        try:
            self._start_at(offset)
        except StorageError as error:
            raise ApiError(error.code, str(error)) from error
        except InvariantViolation as violation:
            raise self._refuse_and_go_offline(violation) from violation
        self.start_moved()
        return self.log.log_start_offset

    @offline_on_violation
    def start_moved(self) -> None:
        """Wakes the waiting fetches after the log start has risen: their responses have the new log
        start for followers and consumers."""
        self._advance_high_watermark(self.log.log_start_offset)
        if self.leadership is not None:
            self.leadership.log_end.nudge()
        self.high_watermark.nudge()
        self.last_stable.nudge()
        self.check()
