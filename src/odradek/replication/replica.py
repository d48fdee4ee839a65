"""A replica of a partition: its log, how far the log may be read, and copying it from a leader.

The offsets, in the order in which they always stand:

    log start offset     the first offset that can still be read
    last stable offset   below it every transaction is decided; read_committed reads up to here
    high watermark       below it every record is committed; read_uncommitted reads up to here
    log end offset       the offset of the next record

`Partition` adds the role: a leader computes the high watermark, a follower takes the leader's.

A watermark never falls while a request can wait for it. Where a role ends, or a truncation goes
below a watermark, the watermark fails every request that waits and a new one takes its place.
"""

from collections.abc import Callable, Sequence
from typing import Concatenate, Final, NamedTuple, ParamSpec, TypeVar

from odradek.invariants import History, InvariantViolation
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.records import read_header
from odradek.protocol.types import LeaderEpoch, Offset, TopicId, TopicPartition
from odradek.statemachine.watermark import Watermark
from odradek.storage import Log, OffsetOutOfRange, Slice, StorageError, TimestampOffset
from odradek.storage.transaction_index import AbortedTransaction
from odradek.world.disk import Buffer

NO_EPOCH: Final = LeaderEpoch(-1)


class EndOfEpoch(NamedTuple):
    """The last offset of a leader epoch, plus one: where the next epoch begins in this log."""

    leader_epoch: LeaderEpoch
    offset: Offset


P = ParamSpec("P")
ReplicaT = TypeVar("ReplicaT", bound="Replica")


def offline_on_violation(
    method: Callable[Concatenate[ReplicaT, P], None],
) -> Callable[Concatenate[ReplicaT, P], None]:
    """Catches an `InvariantViolation` of a method and takes the replica offline instead. For
    methods whose callers do not expect errors."""

    def guarded(self: ReplicaT, /, *args: P.args, **kwargs: P.kwargs) -> None:
        try:
            method(self, *args, **kwargs)
        except InvariantViolation as violation:
            self.go_offline(violation)

    return guarded


class Replica:
    """Invariant: log start <= last stable <= high watermark <= log end (`check`)."""

    __slots__ = (
        "_history",
        "_last_stable",
        "high_watermark",
        "leader_epoch",
        "log",
        "topic_id",
        "topic_partition",
    )

    def __init__(self, topic_partition: TopicPartition, topic_id: TopicId, log: Log) -> None:
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.log = log
        # The leader epoch of the role that this replica has; -1 while it has no role.
        self.leader_epoch = NO_EPOCH
        self.high_watermark = Watermark(log.high_watermark)
        # None until the first transaction: the last stable offset is the high watermark till then.
        self._last_stable: Watermark | None = None
        # None until the first event: most partitions of an idle broker never have one.
        self._history: History | None = None

    # Invariants

    def check(self) -> None:
        """Raises `InvariantViolation` if the offsets are out of order.

        While retention removes segments, in steps, the last stable offset may be below the log
        start until `Partition.start_moved` is called.
        """
        log, high = self.log, self.high_watermark.value
        stable = high if self._last_stable is None else self._last_stable.value
        if not log.log_start_offset <= high <= log.log_end_offset or stable > high:
            raise self.violation(
                f"the offsets are out of order: log start {log.log_start_offset}, last stable "
                f"{stable}, high watermark {high}, log end {log.log_end_offset}"
            )

    def note(self, event: str) -> None:
        """Notes a rare event (a new role, a truncation) for the message of a violation."""
        if self._history is None:
            self._history = History()
        self._history.note(event)

    def violation(self, rule: str) -> InvariantViolation:
        history = () if self._history is None else self._history.events()
        return InvariantViolation(str(self), rule, history)

    def go_offline(self, violation: InvariantViolation) -> StorageError:
        """Takes this replica offline until the next start, because an invariant does not hold.

        The violation is written to the broker's log (`Log.fail`). Requests that wait for a
        watermark fail at once. Returns the error for the caller to raise.
        """
        failure = self.log.fail(violation)
        self.resign(ApiError(failure.code, str(failure)))
        return failure

    def resign(self, reason: ApiError) -> None:
        """Gives up the role. Requests that wait for a watermark fail with `reason` at once."""
        self._renew_watermarks(reason)
        self.leader_epoch = NO_EPOCH
        self.high_watermark.fail(reason)

    def __str__(self) -> str:
        return f"{self.topic_partition.topic}-{self.topic_partition.partition}"

    # Moving the watermarks

    def _advance_high_watermark(self, offset: Offset) -> None:
        """Advances the high watermark to `offset`, if that is higher. Checks the offsets first,
        because an advance acknowledges records, which cannot be undone."""
        log, high_watermark = self.log, self.high_watermark
        end, value = log.log_end_offset, high_watermark.value
        if offset > end or value > end:
            raise self.violation(
                f"the high watermark moves from {value} to {offset}, beyond the log end {end}"
            )
        if offset > value:
            high_watermark.advance(offset)
            log.high_watermark = offset
        if self._last_stable is not None:
            self._advance_last_stable(self._last_stable)

    def _advance_last_stable(self, last_stable: Watermark) -> None:
        offset = self._undecided_offset()
        if offset > self.high_watermark.value:
            raise self.violation(
                f"the last stable offset would pass the high watermark "
                f"{self.high_watermark.value}: {offset}"
            )
        last_stable.advance(offset)

    def _track_transactions(self) -> None:
        """Gives the last stable offset a watermark of its own. From the first transaction on it may
        be below the high watermark."""
        if self._last_stable is None and self.log.producers.has_unstable:
            self._last_stable = Watermark(self._undecided_offset())

    def _undecided_offset(self) -> Offset:
        """Returns the first offset of the oldest undecided transaction, or the high watermark; not
        below the log start, because DeleteRecords may have removed undecided transactions."""
        undecided = self.log.producers.last_stable_offset(self.high_watermark.value)
        return max(undecided, self.log.log_start_offset)

    def _renew_watermarks(self, reason: Exception) -> None:
        """Fails the waiting requests with `reason`. Later requests wait on new watermarks, which
        have the values of the old ones, but not beyond the log end."""
        old, old_stable = self.high_watermark, self._last_stable
        log = self.log
        known = max(min(old.value, log.log_end_offset), log.log_start_offset)
        self.high_watermark = Watermark(known)
        log.high_watermark = known
        self._last_stable = None
        self._track_transactions()
        old.fail(reason)
        if old_stable is not None:
            old_stable.fail(reason)

    # Copying from the leader

    def append_as_follower(self, records: Buffer) -> None:
        """Appends the batches that the leader sent, unchanged. Raises `StorageError`."""
        try:
            end = self.log.log_end_offset
            if end == self.log.log_start_offset:
                first = read_header(records)
                if first.base_offset < end < first.next_offset:
                    # DeleteRecords moved the leader's start into the middle of this batch. An empty
                    # log takes the batch from its beginning, and `update_from_leader` moves the
                    # start again.
                    self.truncate_fully_and_start_at(first.base_offset)
            self.log.append(records, leader_epoch=self.leader_epoch, as_follower=True)
        except InvariantViolation as violation:
            raise self.go_offline(violation) from violation
        if self._last_stable is None and self.log.producers.ongoing:
            self._track_transactions()

    def update_from_leader(self, high_watermark: Offset, log_start: Offset) -> None:
        """Takes over the leader's high watermark and log start; raises `StorageError`."""
        log = self.log
        try:
            end = log.log_end_offset
            self._advance_high_watermark(high_watermark if high_watermark < end else end)
            if log_start > log.log_start_offset:
                self._start_at(min(log_start, log.log_end_offset))
        except InvariantViolation as violation:
            raise self.go_offline(violation) from violation

    def truncate_to_leader(self, leaders: EndOfEpoch) -> Offset:
        """Removes the records that the leader does not have, given where its log diverges from
        this one. Returns the new log end; raises `StorageError`."""
        log, offset = self.log, self._truncation_offset(leaders)
        self.note(f"truncates from {log.log_end_offset} to {offset}: the leader's is {leaders}")
        try:
            if offset < log.log_end_offset:
                log.truncate_to(offset)
            log.leader_epochs.truncate_from_end(log.log_end_offset)
            if log.log_end_offset < self.high_watermark.value:
                self._renew_watermarks(not_leader())
            self.check()
        except InvariantViolation as violation:
            raise self.go_offline(violation) from violation
        return log.log_end_offset

    def truncate_fully_and_start_at(self, offset: Offset) -> None:
        """Empties the log, which starts and ends at `offset` then: the leader no longer has the
        records in between. Raises `StorageError`."""
        self.note(f"starts over at {offset}, log end {self.log.log_end_offset}")
        try:
            self.log.truncate_fully_and_start_at(offset)
            self._renew_watermarks(not_leader())
            self._advance_high_watermark(offset)
            self.check()
        except InvariantViolation as violation:
            raise self.go_offline(violation) from violation

    def _start_at(self, offset: Offset) -> None:
        self.log.advance_log_start(offset)
        self._advance_high_watermark(offset)

    # Reading

    @property
    def last_stable(self) -> Watermark:
        """The last stable offset. Without transactions it is the high watermark."""
        return self._last_stable or self.high_watermark

    def readable(self, committed_only: bool) -> Watermark:
        """Returns the watermark up to which a consumer with this isolation level may read."""
        return self.last_stable if committed_only else self.high_watermark

    def read(
        self, offset: Offset, max_bytes: int, *, committed_only: bool, at_least_one: bool
    ) -> Slice | None:
        """Reads for a consumer. Returns None if there is nothing to read yet."""
        end_offset = self.readable(committed_only).value
        try:
            return self.log.read(offset, max_bytes, end_offset=end_offset, min_one=at_least_one)
        except OffsetOutOfRange as error:
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE, str(error)) from error
        except StorageError as error:
            raise ApiError(error.code, str(error)) from error

    def read_as_replica(
        self, offset: Offset, max_bytes: int, *, at_least_one: bool
    ) -> Slice | None:
        """Reads for a follower: up to the log end, committed or not."""
        try:
            return self.log.read(offset, max_bytes, min_one=at_least_one)
        except StorageError as error:
            raise ApiError(error.code, str(error)) from error

    def aborted_in(self, found: Slice, offset: Offset) -> Sequence[AbortedTransaction]:
        """Returns the aborted transactions in what was read from `offset` on (read_committed)."""
        return self.log.aborted_in(found, offset, self.last_stable.value)

    def find_time(
        self, timestamp_ms: int | None, *, committed_only: bool
    ) -> TimestampOffset | None:
        """Returns the first record that is not older than `timestamp_ms`, or with None the record
        with the largest timestamp; None if a consumer may not read it yet."""
        try:
            result = (
                self.log.max_timestamp()
                if timestamp_ms is None
                else self.log.offset_for_timestamp(timestamp_ms)
            )
        except StorageError as error:
            raise ApiError(error.code, str(error)) from error
        if result is None or result.offset >= self.readable(committed_only).value:
            return None
        return result

    # Where this log and another one diverge (KIP-101, KIP-320, KIP-595)

    def end_of_epoch(self, leader_epoch: LeaderEpoch) -> EndOfEpoch:
        return EndOfEpoch(*self.log.offset_for_leader_epoch(leader_epoch))

    def diverging(self, last_fetched_epoch: LeaderEpoch, fetch_offset: Offset) -> EndOfEpoch | None:
        """Returns where the records that a consumer has read diverge from this log, or None."""
        end = self.end_of_epoch(last_fetched_epoch)
        if end.offset < 0:
            raise ApiError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"Leader epoch {last_fetched_epoch} is not in the log.",
            )
        if end.leader_epoch < last_fetched_epoch or end.offset < fetch_offset:
            return end
        return None

    def diverging_replica(
        self, last_fetched_epoch: LeaderEpoch, fetch_offset: Offset
    ) -> EndOfEpoch | None:
        """Returns where a follower's log diverges from this one, or None. It diverges too if this
        log is shorter or lacks the follower's epoch, as after an unclean election."""
        log = self.log
        if fetch_offset <= log.log_end_offset:
            if last_fetched_epoch < 0:
                return None
            end = self.end_of_epoch(last_fetched_epoch)
            if end.offset >= 0:
                is_ours = end.leader_epoch == last_fetched_epoch and fetch_offset <= end.offset
                return None if is_ours else end
        return EndOfEpoch(log.leader_epochs.latest, log.log_end_offset)

    def _truncation_offset(self, leaders: EndOfEpoch) -> Offset:
        """Returns where a follower truncates its log, given that it diverges from the leader's at
        `leaders` at the latest. If this log lacks that epoch too, the next fetch finds an earlier
        offset."""
        log_end = self.log.log_end_offset
        ours = self.end_of_epoch(leaders.leader_epoch)
        target = log_end if ours.offset < 0 else ours.offset
        if ours.offset < 0 or ours.leader_epoch == leaders.leader_epoch:
            target = min(target, leaders.offset)
        return min(target, log_end)


def not_leader() -> ApiError:
    return ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
