"""A partition on this broker: the replica and its role, leader or follower.

A leader advances its high watermark as the replicas in sync fetch (`leadership`). Its own log
counts up to its end, or up to its flushed offset where `flush.messages=1` asks for it. A sole
replica commits what it appends. A follower takes the leader's high watermark, as far as its own log
reaches.

If an invariant does not hold (`Replica.check`, `Leadership.check`, or one of the log), this replica
goes offline until the next start: `Replica.go_offline` is the one place for that. Clients get
KAFKA_STORAGE_ERROR, another replica is elected (`cluster.offline_replicas`), and the other
partitions of this broker are served as before.
"""

import asyncio
from collections.abc import Callable, Container, Mapping
from typing import Concatenate, Final, ParamSpec

from odradek.invariants import InvariantViolation
from odradek.metadata import PartitionImage
from odradek.metadata.node_values import NO_LEADER
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.types import BrokerId, LeaderEpoch, Offset, TopicId, TopicPartition
from odradek.replication.appended import Appended, TransactionMarker
from odradek.replication.leadership import Leadership
from odradek.replication.replica import NO_EPOCH, Replica, not_leader
from odradek.storage import AppendRejected, AppendResult, Log, StorageError
from odradek.storage.producer_state import TransactionNotOpen, Verification
from odradek.storage.staging import room_for
from odradek.storage.validation import Admitted, TakesLong
from odradek.wording import counted
from odradek.world.disk import Buffer

INTERNAL_TOPICS: Final = frozenset({"__consumer_offsets", "__transaction_state"})
"""The coordinators' topics: clients may read them, only brokers write them."""

_ACKS_ALL: Final = -1
# Half the time of a NamedTuple's own constructor, which every produced batch would pay.
_new_tuple: Final = tuple.__new__

P = ParamSpec("P")


def _isolated(
    method: Callable[Concatenate["Partition", P], None],
) -> Callable[Concatenate["Partition", P], None]:
    """For methods that must not raise: a violation takes the partition offline, and that is all."""

    def isolated(self: "Partition", /, *args: P.args, **kwargs: P.kwargs) -> None:
        try:
            method(self, *args, **kwargs)
        except InvariantViolation as violation:
            self.go_offline(violation)

    return isolated


class Partition(Replica):
    """Invariant: while this replica leads, `leadership` is there, its high watermark only rises
    and its leader epoch is that of the partition."""

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

    @_isolated
    def lead(self, state: PartitionImage, now_s: float) -> None:
        """Leads the partition as the metadata store says, with the log as it is."""
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
        self._advance()
        self.check()

    def _update_leadership(self, leadership: Leadership, state: PartitionImage) -> None:
        """Takes over another in-sync set or other replicas in the same leader epoch."""
        if leadership.in_sync != state.isr:
            self.note(f"in-sync set {leadership.in_sync} -> {state.isr}, version {state.version}")
        leadership.update(state.replicas, state.isr, state.version, state.eligible)
        if self._is_held_back(leadership):
            # Nothing is committed while this lasts: the producers that wait are told so.
            self._renew_watermarks(ApiError(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND))
        self._advance()
        self.check()

    @_isolated
    def follow(self, leader: BrokerId, leader_epoch: LeaderEpoch) -> None:
        """Copies another replica from now on; `leader` is -1 if the partition has no leader."""
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
        """Fails every request that waits now, but keeps the role: the broker has lost its lease and
        does not know whether it still leads."""
        self.high_watermark.fail_waiters(reason)
        if self._last_stable is not None:
            self._last_stable.nudge()
        if self.leadership is not None:
            self.leadership.appended.nudge()

    def _end_role(self, reason: ApiError) -> None:
        if self.is_served:
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
    def is_served(self) -> bool:
        """Whether it has a role at all: consumers may read from a follower too (KIP-392)."""
        return self.leader_epoch != NO_EPOCH

    def check_epoch(self, believed: int) -> None:
        """Refuses a client that believes in an older or newer leader epoch than this broker."""
        if believed in (NO_EPOCH, self.leader_epoch):
            return
        older = believed < self.leader_epoch
        raise ApiError(
            ErrorCode.FENCED_LEADER_EPOCH if older else ErrorCode.UNKNOWN_LEADER_EPOCH,
            f"The leader epoch is {self.leader_epoch}, not {believed}.",
        )

    # Writing

    def check_in_sync(self, refusal: ErrorCode = ErrorCode.NOT_ENOUGH_REPLICAS) -> None:
        """Refuses a write with acks=all while fewer than `min.insync.replicas` are in sync."""
        required = self.min_in_sync
        leadership = self.leadership
        if required > 1 and leadership is not None and len(leadership.in_sync) < required:
            raise ApiError(
                refusal,
                f"{counted(len(leadership.in_sync), 'replica is', 'replicas are')} in sync, "
                f"min.insync.replicas asks for {required}.",
            )

    @property
    def min_in_sync(self) -> int:
        """Like Kafka since 4.0, asks for no more replicas than the partition has."""
        return min(self.log.settings.min_insync_replicas, self._replica_count)

    def _is_held_back(self, leadership: Leadership) -> bool:
        """Whether the high watermark must not advance: fewer than `min.insync.replicas` are in
        sync, or replicas that left the set may still be elected (KIP-966)."""
        return bool(leadership.followers) and (
            bool(leadership.eligible) or len(leadership.in_sync) < self.min_in_sync
        )

    async def admit(self, records: Buffer) -> Admitted:
        """Validates a batch that takes long, in several turns of the event loop."""
        try:
            return await self.log.admit(records)
        except AppendRejected as error:
            raise ApiError(error.code, error.message, error.record_errors) from error
        except StorageError as error:
            raise ApiError(error.code, str(error)) from error

    def append(
        self,
        records: Buffer,
        acks: int,
        verification: Verification | None = None,
        admitted: Admitted | None = None,
    ) -> Appended:
        """Writes a batch. `acks` decides which watermark acknowledges it.

        Raises `TransactionNotOpen` if the coordinator must be asked first, and `TakesLong` if
        the batch must be admitted first.
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
                admitted=admitted,
            )
            return self._appended(result, acks)
        except TransactionNotOpen:
            raise
        except AppendRejected as error:
            raise ApiError(error.code, error.message, error.record_errors) from error
        except StorageError as error:
            raise ApiError(error.code, str(error)) from error
        except InvariantViolation as violation:
            raise self._refuse_and_go_offline(violation) from violation

    async def append_patiently(
        self, admitted: Admitted, append: Callable[[], Appended]
    ) -> Appended:
        """Calls `append` when the log has room for a batch that takes long to write, or that
        came while another one was written. No other batch is appended between the two."""
        try:
            async with room_for(self.log, admitted.records):
                return append()
        except TakesLong:
            raise not_leader() from None  # Another log has taken the place of this one.
        except TransactionNotOpen:
            raise
        except StorageError as error:
            raise ApiError(error.code, str(error)) from error
        except InvariantViolation as violation:
            raise self._refuse_and_go_offline(violation) from violation

    def append_as_coordinator(self, records: Buffer) -> Appended:
        """Writes a batch that this broker made itself."""
        try:
            result = self.log.append(records, leader_epoch=self.leader_epoch, by_coordinator=True)
            return self._appended(result)
        except StorageError as error:
            raise ApiError(error.code, str(error)) from error
        except InvariantViolation as violation:
            raise self._refuse_and_go_offline(violation) from violation

    def append_marker(self, marker: TransactionMarker, now_ms: int) -> Appended | None:
        """Ends a producer's transaction here; None if that was done already."""
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

    def _appended(self, result: AppendResult, acks: int = _ACKS_ALL) -> Appended:
        log, leadership = self.log, self.leadership
        if self._last_stable is None and log.producers.ongoing:
            self._track_transactions()
        assert leadership is not None  # only leaders append
        flushes_first = log.flushes_before_acknowledging
        if flushes_first:
            self._start_flushing()
        elif leadership.is_alone and not self._is_held_back(leadership):
            self._advance_high_watermark(log.log_end_offset)
        if not leadership.followers:
            watermark, awaiting = self.high_watermark, None
        else:
            end = log.log_end_offset
            leadership.appended.advance(end)
            if self.high_watermark.value > end:
                # It would acknowledge this batch at once.
                raise self.violation(
                    f"the high watermark {self.high_watermark.value} is beyond the log end {end}"
                )
            if acks == _ACKS_ALL:
                watermark, awaiting = self.high_watermark, self
            elif flushes_first:
                watermark, awaiting = log.flushed, None
            else:
                watermark, awaiting = leadership.appended, None
        base_offset, last_offset, append_time_ms, log_start, _ = result
        return _new_tuple(
            Appended, (base_offset, last_offset + 1, append_time_ms, log_start, watermark, awaiting)
        )

    def _advance(self) -> None:
        """Advances the leader's high watermark to what every replica that counts has fetched."""
        log, leadership = self.log, self.leadership
        assert leadership is not None
        if self._is_held_back(leadership):
            return
        own_end = log.flushed.value if log.flushes_before_acknowledging else log.log_end_offset
        self._advance_high_watermark(leadership.committed(own_end))

    def _start_flushing(self) -> None:
        if self._flushing is None or self._flushing.done():
            self._flushing = asyncio.get_running_loop().create_task(self._flush())

    async def _flush(self) -> None:
        """One task for all appends: each round flushes what was appended during the last one."""
        log = self.log
        try:
            while self.is_leader and log.has_unflushed:
                await log.flush_to(log.log_end_offset)
                if self.is_leader:
                    self._advance()
        except StorageError as error:
            self._renew_watermarks(ApiError(error.code, str(error)))
        except InvariantViolation as violation:
            self._flushing = None  # This very task, which `resign` would cancel.
            self.go_offline(violation)

    # Followers, as their leader sees them

    def fetched_by(
        self, replica: int, offset: int, log_start: int, *, broker_epoch: int, now_s: float
    ) -> bool:
        """A replica fetches from `offset` on, so it holds every record below. Returns whether it
        may enter the in-sync set now."""
        leadership = self.leadership
        assert leadership is not None  # only leaders are asked
        try:
            leadership.fetched(
                replica,
                offset,
                log_start,
                broker_epoch=broker_epoch,
                leader_end=self.log.log_end_offset,
                now_s=now_s,
            )
            self._advance()
        except InvariantViolation as violation:
            raise self._refuse_and_go_offline(violation) from violation
        return leadership.may_expand(replica, self.high_watermark.value)

    @_isolated
    def forget_follower(self, replica: int) -> None:
        """The follower's broker is gone. The high watermark no longer waits for it unless it is in
        the in-sync set, and its progress is counted anew when it is back."""
        if self.leadership is not None:
            self.leadership.forget(replica)
            self._advance()

    def next_in_sync(
        self, live: Mapping[int, int], *, now_s: float, max_lag_s: float
    ) -> tuple[int, ...]:
        """Returns the in-sync set as it should be; `live` holds the epochs of live brokers.
        Raises `StorageError` if that cannot be said because an invariant does not hold."""
        leadership, end = self.leadership, self.log.log_end_offset
        assert leadership is not None  # only leaders are asked
        try:
            leadership.drop_laggards(end, now_s, max_lag_s)
            self._advance()
            self.check()
        except InvariantViolation as violation:
            raise self.go_offline(violation) from violation
        return leadership.next_in_sync(
            self.high_watermark.value, end, live, now_s=now_s, max_lag_s=max_lag_s
        )

    @_isolated
    def propose(self, leadership: Leadership, in_sync: tuple[int, ...]) -> None:
        """This in-sync set is on its way to the store."""
        if self.leadership is leadership:
            self.note(f"in-sync set {in_sync} proposed")
            leadership.propose(in_sync)

    @_isolated
    def settle(self, leadership: Leadership) -> None:
        """The outcome of what was proposed in that leadership is known."""
        leadership.settle()
        if self.leadership is leadership:
            self._advance()

    def low_watermark(self, live: Container[int]) -> int:
        """Returns the lowest log start of this replica and those of live brokers."""
        if self.leadership is None:
            raise not_leader()
        return self.leadership.low_watermark(self.log.log_start_offset, live)

    @property
    def knows_its_end(self) -> bool:
        """Whether every record that was committed before this leadership is known to be so
        (KIP-207)."""
        leadership = self.leadership
        return leadership is None or self.high_watermark.value >= leadership.start_offset

    # The log start

    def delete_records(self, upto: Offset | None) -> int:
        """Moves the log start up to an offset, or to the high watermark; returns where it is."""
        if self._is_internal:
            raise ApiError(
                ErrorCode.INVALID_TOPIC_EXCEPTION, "Records of internal topics cannot be deleted."
            )
        if not self.log.settings.removes_old_segments:
            raise ApiError(
                ErrorCode.POLICY_VIOLATION,
                f"The cleanup.policy of {self.topic_partition.topic} has no delete.",
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

    @_isolated
    def start_moved(self) -> None:
        """The log start is higher than before. Wakes the fetches that wait here: their answers
        tell followers and consumers of it."""
        self._advance_high_watermark(self.log.log_start_offset)
        if self.leadership is not None:
            self.leadership.appended.nudge()
        self.high_watermark.nudge()
        self.last_stable.nudge()
        self.check()
