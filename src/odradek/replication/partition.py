"""The replica of one partition on this broker.

Offsets, by their guarantee, always in this order:

    log start         the first offset that can still be read
    last stable       below it every transaction is decided; read_committed reads up to here
    high watermark    below it every record survives the loss of the leader; others read up to here
    log end           the offset of the next record

A leader raises its high watermark as the in-sync replicas confirm (`term`); its own log counts
up to its end, or to what is flushed where `flush.messages=1` asks for it. A lone replica is all
the in-sync replicas there are. A follower takes the leader's word, as far as its log reaches.

Invariant: watermarks never fall while they can be waited for. Where a role ends, or truncation
cuts below one, it fails everyone who waits and another takes its place.
"""

import asyncio
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Final, NamedTuple

from odradek.metadata import PartitionImage
from odradek.metadata.node_values import NO_LEADER
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.records import (
    ControlType,
    EndTransactionMarker,
    encode_end_transaction_marker,
    read_header,
)
from odradek.protocol.types import BrokerId, LeaderEpoch, Offset, TopicId, TopicPartition
from odradek.replication.leadership import Leadership
from odradek.statemachine.machine import ProducerIdentity
from odradek.statemachine.watermark import Watermark
from odradek.storage import (
    AppendRejected,
    AppendResult,
    Log,
    OffsetOutOfRange,
    Slice,
    StorageError,
    TimestampOffset,
)
from odradek.storage.aborted import AbortedTransaction
from odradek.storage.producer_state import Membership, TransactionNotOpen
from odradek.storage.staging import room_for
from odradek.storage.validation import Admitted, TakesLong
from odradek.wording import counted
from odradek.world.disk import Buffer

INTERNAL_TOPICS: Final = frozenset({"__consumer_offsets", "__transaction_state"})
"""The memory of coordinators: clients read them, brokers alone write."""

_ACKS_ALL: Final = -1
_NO_EPOCH: Final = -1
# Half the time of a NamedTuple's own constructor, on the way of every batch.
_new_tuple: Final = tuple.__new__


class Appended(NamedTuple):
    """A batch that is in the log, and the watermark that acknowledges it.

    `awaiting` is the partition whose in-sync set must still be large enough at that time.
    """

    base_offset: int
    end_offset: int
    append_time_ms: int
    log_start_offset: int
    watermark: Watermark
    awaiting: "Partition | None" = None

    @property
    def is_acknowledged(self) -> bool:
        return self.watermark.value >= self.end_offset

    async def acknowledged(self) -> None:
        try:
            await self.watermark.reached(self.end_offset)
        except StorageError as error:
            raise ApiError(error.code, str(error)) from error
        if self.awaiting is not None:
            self.awaiting.check_in_sync(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)


class TransactionMarker(NamedTuple):
    """The end of a producer's transaction, as the coordinator decided it.

    `is_bumped` says that the epoch is above that of the records it ends (KIP-890).
    """

    producer: ProducerIdentity
    committed: bool
    coordinator_epoch: int
    is_bumped: bool


class EndOfEpoch(NamedTuple):
    leader_epoch: int
    offset: int


class Partition:
    """Invariant: log start <= high watermark <= log end, and the high watermark only rises."""

    __slots__ = (
        "_broker_id",
        "_flush_follower",
        "_is_internal",
        "_last_stable",
        "_replica_count",
        "high_watermark",
        "is_leader",
        "leader",
        "leader_epoch",
        "leadership",
        "log",
        "topic_id",
        "topic_partition",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        topic_id: TopicId,
        log: Log,
        broker_id: BrokerId,
    ) -> None:
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.log = log
        self.is_leader = False
        self.leader = NO_LEADER
        self._broker_id = broker_id
        self._is_internal = topic_partition.topic in INTERNAL_TOPICS
        self.leader_epoch = LeaderEpoch(_NO_EPOCH)
        # There while it leads.
        self.leadership: Leadership | None = None
        self._replica_count = 0
        self.high_watermark = Watermark(log.high_watermark)
        # Made with the first transaction: until then it is the high watermark.
        self._last_stable: Watermark | None = None
        self._flush_follower: asyncio.Task[None] | None = None

    # Roles

    def lead(self, state: PartitionImage, now_s: float) -> None:
        """Leads the partition as the metadata store says, from the log as it is."""
        self._replica_count = len(state.replicas)
        leadership = self.leadership
        if leadership is not None and state.leader_epoch == leadership.leader_epoch:
            leadership.update(state.replicas, state.isr, state.version, state.eligible)
            if self._is_held_back(leadership):
                # Nothing is committed as long as this lasts: whoever waits is told so.
                self._renew_watermarks(ApiError(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND))
            self._advance()
            return
        self._end_role(_not_leader())
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
        self.log.leader_epochs.assign(state.leader_epoch, end)
        if self.log.flushes_before_acknowledging and self.log.has_unflushed:
            self._follow_flush()
        self._advance()

    def follow(self, leader: BrokerId, leader_epoch: LeaderEpoch) -> None:
        """Copies another replica from now on; -1 if nobody leads."""
        if not self.is_leader and (leader, leader_epoch) == (self.leader, self.leader_epoch):
            return
        self._end_role(_not_leader())
        self.leader = leader
        self.leader_epoch = leader_epoch
        # An epoch in which nothing was written here means nothing to the next leader.
        self.log.leader_epochs.truncate_from_end(self.log.log_end_offset)

    def resign(self, reason: ApiError) -> None:
        """Serves nobody any more; everyone who waits is told so at once."""
        self._end_role(reason)
        self.leader = NO_LEADER
        self.leader_epoch = LeaderEpoch(_NO_EPOCH)
        self.high_watermark.fail(reason)

    def send_away(self, reason: ApiError) -> None:
        """Tells everyone who waits now that this broker cannot answer, without ending its role: it
        lost its lease, and does not know whether it still leads."""
        self.high_watermark.send_away(reason)
        if self._last_stable is not None:
            self._last_stable.nudge()
        if self.leadership is not None:
            self.leadership.appended.nudge()

    def _end_role(self, reason: ApiError) -> None:
        self.is_leader = False
        if self.leadership is not None:
            self.leadership.appended.fail(reason)
            self.leadership.starts_moved.fail(reason)
            self.leadership = None
        self._renew_watermarks(reason)
        if self._flush_follower is not None:
            self._flush_follower.cancel()
            self._flush_follower = None

    def _renew_watermarks(self, reason: Exception) -> None:
        """Whoever waited is told `reason`; whoever comes now waits on marks that can be reached."""
        old, old_stable = self.high_watermark, self._last_stable
        log = self.log
        known = max(min(old.value, log.log_end_offset), log.log_start_offset)
        self.high_watermark = Watermark(known)
        log.high_watermark = known
        self._last_stable = None
        self._watch_transactions()
        old.fail(reason)
        if old_stable is not None:
            old_stable.fail(reason)

    @property
    def is_served(self) -> bool:
        """Whether it has a role at all: a follower serves consumers too (KIP-392)."""
        return self.leader_epoch != _NO_EPOCH

    def check_epoch(self, believed: int) -> None:
        """Refuses a client whose idea of the leader epoch is older or newer than ours."""
        if believed in (_NO_EPOCH, self.leader_epoch):
            return
        older = believed < self.leader_epoch
        raise ApiError(
            ErrorCode.FENCED_LEADER_EPOCH if older else ErrorCode.UNKNOWN_LEADER_EPOCH,
            f"The leader epoch is {self.leader_epoch}, not {believed}.",
        )

    # Writing

    def check_in_sync(self, refusal: ErrorCode = ErrorCode.NOT_ENOUGH_REPLICAS) -> None:
        wanted = self.min_in_sync
        if wanted > 1 and self.leadership is not None and len(self.leadership.in_sync) < wanted:
            raise ApiError(
                refusal,
                f"{counted(len(self.leadership.in_sync), 'replica is', 'replicas are')} in sync, "
                f"min.insync.replicas asks for {wanted}.",
            )

    @property
    def min_in_sync(self) -> int:
        """Like Kafka since 4.0, asks for no more replicas than the partition has."""
        return min(self.log.settings.min_insync_replicas, self._replica_count)

    def _is_held_back(self, leadership: Leadership) -> bool:
        """Fewer are in sync than what is committed must be on, or others who left the set may
        still be elected (KIP-966): the high watermark stays where it is."""
        return bool(leadership.followers) and (
            bool(leadership.eligible) or len(leadership.in_sync) < self.min_in_sync
        )

    async def admit(self, records: Buffer) -> Admitted:
        """Looks at a batch that takes long, so that it can be appended at once."""
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
        membership: Membership | None = None,
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
                records, leader_epoch=self.leader_epoch, membership=membership, admitted=admitted
            )
        except TransactionNotOpen:
            raise
        except AppendRejected as error:
            raise ApiError(error.code, error.message, error.record_errors) from error
        except StorageError as error:
            raise ApiError(error.code, str(error)) from error
        return self._appended(result, acks)

    async def append_patiently(
        self, admitted: Admitted, append: Callable[[], Appended]
    ) -> Appended:
        """Calls `append` when the log has room for a batch that takes long to write, or that
        came while another one was written. Nobody else's batch gets between the two."""
        try:
            async with room_for(self.log, admitted.records):
                return append()
        except TakesLong:
            raise _not_leader() from None  # Another log has taken the place of this one.
        except TransactionNotOpen:
            raise
        except StorageError as error:
            raise ApiError(error.code, str(error)) from error

    def append_as_coordinator(self, records: Buffer) -> Appended:
        """Writes a batch that this broker made itself."""
        try:
            result = self.log.append(records, leader_epoch=self.leader_epoch, by_coordinator=True)
        except StorageError as error:
            raise ApiError(error.code, str(error)) from error
        return self._appended(result)

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
        kind = ControlType.COMMIT if marker.committed else ControlType.ABORT
        batch = encode_end_transaction_marker(
            EndTransactionMarker(kind, marker.coordinator_epoch),
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            timestamp_ms=now_ms,
        )
        return self.append_as_coordinator(batch)

    def _appended(self, result: AppendResult, acks: int = _ACKS_ALL) -> Appended:
        log, leadership = self.log, self.leadership
        if self._last_stable is None and log.producers.ongoing:
            self._watch_transactions()
        assert leadership is not None  # only leaders append
        flushes_first = log.flushes_before_acknowledging
        if flushes_first:
            self._follow_flush()
        elif leadership.is_alone and not self._is_held_back(leadership):
            self._raise_high_watermark(log.log_end_offset)
        if not leadership.followers:
            watermark, awaiting = self.high_watermark, None
        else:
            leadership.appended.advance(log.log_end_offset)
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
        """Raises the leader's high watermark to what every replica that counts has confirmed."""
        log, leadership = self.log, self.leadership
        assert leadership is not None
        if self._is_held_back(leadership):
            return
        own_end = log.flushed.value if log.flushes_before_acknowledging else log.log_end_offset
        self._raise_high_watermark(leadership.committed(own_end))

    def _raise_high_watermark(self, offset: int) -> None:
        self.high_watermark.advance(offset)
        self.log.high_watermark = self.high_watermark.value
        if self._last_stable is not None:
            self._last_stable.advance(self._decided_offset())

    def _watch_transactions(self) -> None:
        """From the first transaction on, the last stable offset goes its own way."""
        if self._last_stable is None and self.log.producers.has_undecided:
            self._last_stable = Watermark(self._decided_offset())

    def _decided_offset(self) -> int:
        """Never below the log's start: what DeleteRecords took need not be decided."""
        stable = self.log.producers.last_stable_offset(self.high_watermark.value)
        return max(stable, self.log.log_start_offset)

    def _follow_flush(self) -> None:
        if self._flush_follower is None or self._flush_follower.done():
            self._flush_follower = asyncio.get_running_loop().create_task(self._flush())

    async def _flush(self) -> None:
        """One task for all appends: each round makes durable whatever came during the last."""
        log = self.log
        try:
            while self.is_leader and log.has_unflushed:
                await log.flush_to(log.log_end_offset)
                if self.is_leader:
                    self._advance()
        except StorageError as error:
            self._renew_watermarks(ApiError(error.code, str(error)))

    # Following and being followed

    def fetched_by(
        self, replica: int, offset: int, log_start: int, *, broker_epoch: int, now_s: float
    ) -> bool:
        """A replica asks for records from `offset` on, so it holds what lies below.

        True if it might now enter the in-sync set.
        """
        leadership = self.leadership
        assert leadership is not None  # only leaders are asked
        leadership.fetched(
            replica,
            offset,
            log_start,
            broker_epoch=broker_epoch,
            leader_end=self.log.log_end_offset,
            now_s=now_s,
        )
        self._advance()
        return leadership.may_expand(replica, self.high_watermark.value)

    def forget_follower(self, replica: int) -> None:
        """Its broker is gone: progress begins anew when it is back, and nobody waits for it who
        is not in the in-sync set."""
        if self.leadership is not None:
            self.leadership.forget(replica)
            self._advance()

    def wanted_in_sync(
        self, alive: Mapping[int, int], *, now_s: float, longest_lag_s: float
    ) -> tuple[int, ...]:
        """The in-sync set as it should be; `alive` holds the epochs of live brokers."""
        leadership, end = self.leadership, self.log.log_end_offset
        assert leadership is not None  # only leaders are asked
        leadership.drop_laggards(end, now_s, longest_lag_s)
        self._advance()
        return leadership.wanted_in_sync(
            self.high_watermark.value, end, alive, now_s=now_s, longest_lag_s=longest_lag_s
        )

    def settle(self, leadership: Leadership) -> None:
        """The outcome of what was proposed in that leadership is known."""
        leadership.settle()
        if self.leadership is leadership:
            self._advance()

    def append_as_follower(self, records: Buffer) -> None:
        """Takes what the leader sent as it is; raises `StorageError`."""
        end = self.log.log_end_offset
        if end == self.log.log_start_offset:
            first = read_header(records)
            if first.base_offset < end < first.next_offset:
                # DeleteRecords moved the leader's start into the middle of this batch. An empty
                # log takes the batch from its beginning, and `learn` moves the start again.
                self.start_over(first.base_offset)
        self.log.append(records, leader_epoch=self.leader_epoch, as_follower=True)
        if self._last_stable is None and self.log.producers.ongoing:
            self._watch_transactions()

    def learn(self, high_watermark: int, log_start: int) -> None:
        """What the leader says of its own log; raises `StorageError`."""
        log = self.log
        self._raise_high_watermark(min(high_watermark, log.log_end_offset))
        if log_start > log.log_start_offset:
            self._start_at(min(log_start, log.log_end_offset))

    def reconcile(self, leaders: EndOfEpoch) -> int:
        """Cuts what the leader's history lacks, given where it parts from ours at the latest.

        Where we lack that epoch as well, the next fetch finds the place before it. Returns the
        end of the log; raises `StorageError`.
        """
        log_end = self.log.log_end_offset
        ours = self.end_of_epoch(leaders.leader_epoch)
        target = log_end if ours.offset < 0 else ours.offset
        if ours.offset < 0 or ours.leader_epoch == leaders.leader_epoch:
            target = min(target, leaders.offset)
        self._truncate(min(target, log_end))
        return self.log.log_end_offset

    def _truncate(self, offset: int) -> None:
        log = self.log
        if offset < log.log_end_offset:
            log.truncate_to(offset)
        log.leader_epochs.truncate_from_end(log.log_end_offset)
        if log.log_end_offset < self.high_watermark.value:
            self._renew_watermarks(_not_leader())

    def start_over(self, offset: int) -> None:
        """Empties the log: the leader no longer has what comes next. Raises `StorageError`."""
        self.log.truncate_fully_and_start_at(offset)
        self._renew_watermarks(_not_leader())
        self._raise_high_watermark(offset)

    def _start_at(self, offset: int) -> None:
        self.log.advance_log_start(offset)
        self._raise_high_watermark(offset)

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
        self.start_moved()
        return self.log.log_start_offset

    def start_moved(self) -> None:
        """The log begins later than before: followers hear of it in the answers to their long
        polls, consumers in their next."""
        self._raise_high_watermark(self.log.log_start_offset)
        if self.leadership is not None:
            self.leadership.appended.nudge()
        self.high_watermark.nudge()
        self.last_stable.nudge()

    def low_watermark(self, alive: Container[int]) -> int:
        """The least log start over this replica and those of live brokers."""
        if self.leadership is None:
            raise _not_leader()
        return self.leadership.low_watermark(self.log.log_start_offset, alive)

    # Reading

    @property
    def knows_its_end(self) -> bool:
        """Whether everything that was committed before this term began is known to be so."""
        return self.leadership is None or self.high_watermark.value >= self.leadership.start_offset

    @property
    def last_stable(self) -> Watermark:
        """Without transactions everything committed is decided."""
        return self._last_stable or self.high_watermark

    def aborted_in(self, found: Slice, offset: int) -> Sequence[AbortedTransaction]:
        """The aborted transactions in what was read from `offset` on for committed records."""
        return self.log.aborted_in(found, offset, self.last_stable.value)

    def readable(self, committed_only: bool) -> Watermark:
        """How far a consumer may read, by its isolation level."""
        return self.last_stable if committed_only else self.high_watermark

    def read(
        self, offset: int, max_bytes: int, *, committed_only: bool, at_least_one: bool
    ) -> Slice | None:
        end_offset = self.readable(committed_only).value
        try:
            return self.log.read(offset, max_bytes, end_offset=end_offset, min_one=at_least_one)
        except OffsetOutOfRange as error:
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE, str(error)) from error
        except StorageError as error:
            raise ApiError(error.code, str(error)) from error

    def find_time(
        self, timestamp_ms: int | None, *, committed_only: bool
    ) -> TimestampOffset | None:
        """The first record not older than this, or the youngest of all; only readable ones."""
        try:
            found = (
                self.log.max_timestamp()
                if timestamp_ms is None
                else self.log.offset_for_timestamp(timestamp_ms)
            )
        except StorageError as error:
            raise ApiError(error.code, str(error)) from error
        if found is None or found.offset >= self.readable(committed_only).value:
            return None
        return found

    def end_of_epoch(self, leader_epoch: int) -> EndOfEpoch:
        return EndOfEpoch(*self.log.offset_for_leader_epoch(leader_epoch))

    def diverging(self, last_fetched_epoch: int, fetch_offset: int) -> EndOfEpoch | None:
        """Where a reader's history parts from ours, if it does."""
        end = self.end_of_epoch(last_fetched_epoch)
        if end.offset < 0:
            raise ApiError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"Leader epoch {last_fetched_epoch} is not in the log.",
            )
        if end.leader_epoch < last_fetched_epoch or end.offset < fetch_offset:
            return end
        return None

    # Read by replicas

    def read_as_replica(self, offset: int, max_bytes: int, *, at_least_one: bool) -> Slice | None:
        """Everything the leader holds, committed or not."""
        try:
            return self.log.read(offset, max_bytes, min_one=at_least_one)
        except StorageError as error:
            raise ApiError(error.code, str(error)) from error

    def diverging_replica(self, last_fetched_epoch: int, fetch_offset: int) -> EndOfEpoch | None:
        """Where a follower's log parts from ours, if it does: also when ours is the shorter one,
        or knows nothing of the follower's epoch, as after an unclean election."""
        log = self.log
        if fetch_offset <= log.log_end_offset:
            if last_fetched_epoch < 0:
                return None
            end = self.end_of_epoch(last_fetched_epoch)
            if end.offset >= 0:
                is_ours = end.leader_epoch == last_fetched_epoch and fetch_offset <= end.offset
                return None if is_ours else end
        return EndOfEpoch(log.leader_epochs.latest, log.log_end_offset)


def _not_leader() -> ApiError:
    return ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
