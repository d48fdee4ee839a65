"""The log of one partition: what may be appended, and what is read.

`Log` is what the rest of the broker uses. It validates batches, gives them their offsets, answers
reads and searches, and applies retention. The files and all that is known of them belong to
`LocalLog`, whose parts (offsets, segments, leader epochs, producers, flusher) nothing else changes.

Appends and reads are synchronous and never wait: writes go to the page cache, reads name bytes that
the connection fetches later. A batch is opaque: it gets its offset and leader epoch in the first 16
bytes and is written as it came, with one system call.

Invariant: offsets rise from batch to batch and from segment to segment; a failed write takes
the directory offline before anything else sees the log.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

from odradek.config import TopicSettings
from odradek.invariants import InvariantViolation
from odradek.protocol.records import (
    LENGTH_OVERHEAD,
    PREFIX_SIZE,
    TRANSACTIONAL_FLAG,
    Buffer,
    offset_prefix,
    read_header,
)
from odradek.protocol.types import LeaderEpoch, Offset, TopicId
from odradek.statemachine.watermark import Watermark
from odradek.storage.descriptors import Slice
from odradek.storage.errors import (
    LogClosed,
    LogDirectoryFailed,
    LogDirectoryFull,
    LogFailed,
    OffsetOutOfRange,
    StorageError,
)
from odradek.storage.follower_append import append_from_leader
from odradek.storage.local_log import NO_TIMESTAMP, AppendResult, Compacted, LocalLog
from odradek.storage.producer_entry import RememberedBatch
from odradek.storage.producer_state import ProducerStates, Verification
from odradek.storage.retention import count_expired
from odradek.storage.segment import Segment
from odradek.storage.staged_batch import STAGING_SIZES, StagedBatch
from odradek.storage.timestamp_search import (
    TimestampOffset,
    find_by_timestamp,
    find_max_timestamp_record,
)
from odradek.storage.transaction_index import AbortedTransaction, AbortedTransactions
from odradek.storage.validation import AppendRules, CannotAppendAtOnce, ValidatedBatch
from odradek.world import World

# How many segments are removed in one step: that takes a few milliseconds.
REMOVED_AT_ONCE: Final = 8

# `tuple.__new__` takes half the time of the NamedTuple constructor, for every append.
_new_tuple = tuple.__new__


class Log:
    __slots__ = (
        "_clock",
        "_entries",
        "_local",
        "_offsets",
        "_producers",
        "_segments",
        "_staging_lock",
        "directory",
        "flusher",
        "leader_epochs",
        "path",
        "topic_id",
        "topic_partition",
        "workers",
    )

    def __init__(self, topic_id: TopicId, local: LocalLog, world: World) -> None:
        """`recovery` makes logs, from what is on disk or new."""
        self.topic_id = topic_id
        self.topic_partition = local.topic_partition
        self.directory = local.directory
        self.path = local.path
        self._clock = world.clock
        self.workers = world.workers
        # Held while a large batch is staged.
        self._staging_lock: asyncio.Lock | None = None
        self._local = local
        # The parts that every append and read needs, with one attribute access less.
        self._segments = local.segments
        self._offsets = local.offsets
        self._producers = local.producers
        self.flusher = local.flusher
        self._entries = local.entries
        self.leader_epochs = local.leader_epochs
        self.directory.logs[self] = None
        local.check()

    def __repr__(self) -> str:
        return f"Log({self.path}, {self._offsets})"

    # State

    @property
    def log_start_offset(self) -> Offset:
        return self._offsets.start

    @property
    def durable_start_offset(self) -> Offset:
        """The lowest offset at which the log can start after a crash. It is below
        `log_start_offset` until the checkpoint of DeleteRecords is written."""
        return self._offsets.durable_start

    def set_durable_start(self, offset: Offset) -> None:
        """Notes that `Checkpointer` has written this log start to disk."""
        self._offsets.set_durable_start(offset)

    @property
    def log_end_offset(self) -> Offset:
        return self._offsets.end

    @property
    def high_watermark(self) -> Offset:
        """The high watermark that the replica set last: for checkpoint, retention, compaction."""
        return self._offsets.high_watermark

    @high_watermark.setter
    def high_watermark(self, high_watermark: Offset) -> None:
        self._offsets.move_high_watermark(high_watermark)

    @property
    def first_dirty_offset(self) -> Offset:
        """The first offset that is not compacted yet."""
        return self._offsets.first_dirty

    @first_dirty_offset.setter
    def first_dirty_offset(self, offset: Offset) -> None:
        self._offsets.move_first_dirty(offset)

    @property
    def segments(self) -> Sequence[Segment]:
        return self._segments.all

    @property
    def active_segment(self) -> Segment:
        return self._segments.active

    @property
    def size_bytes(self) -> int:
        return self._segments.size_bytes

    @property
    def producers(self) -> ProducerStates:
        return self._producers.states

    @property
    def aborted(self) -> AbortedTransactions:
        return self._producers.aborted

    @property
    def rules(self) -> AppendRules:
        return self._segments.rules

    @property
    def settings(self) -> TopicSettings:
        return self._segments.rules.settings

    def configure(self, rules: AppendRules) -> None:
        """Applies new settings, from the next append on."""
        self._segments.configure(rules)

    def check(self) -> None:
        """Raises `InvariantViolation` if the parts of the log contradict each other."""
        self._local.check()

    def write_topic_id(self, topic_id: TopicId) -> None:
        """Gives an id to the log of a topic that had none, as older brokers created them."""
        self.topic_id = topic_id
        self._local.write_topic_id(topic_id)

    # Availability

    @property
    def is_usable(self) -> bool:
        return self._local.unusable is None

    def require_usable(self) -> None:
        if self._local.unusable is not None:
            raise self._local.unusable

    @property
    def takes_appends(self) -> bool:
        """False if the log is unusable, and while its disk is full."""
        return self._local.append_error is None

    def refuse_appends(self, reason: LogDirectoryFull | None) -> None:
        self._local.refuse_appends(reason)

    def go_offline(self, failure: LogDirectoryFailed) -> None:
        self._local.end(failure)

    def fail(self, violation: InvariantViolation) -> StorageError:
        """Takes this log offline until the next start, because an invariant of it or of its replica
        does not hold. The code that catches a violation calls this and raises the result."""
        return self._local.fail(violation)

    @property
    def has_failed(self) -> bool:
        """Whether `fail` took this log offline."""
        return isinstance(self._local.unusable, LogFailed)

    def mark_deleted(self) -> None:
        self._local.end(LogClosed(f"{self.topic_partition} was deleted"))
        self.directory.logs.pop(self, None)

    # Flushing

    @property
    def flushed(self) -> Watermark:
        """Below it, every record survives a power cut. Truncation replaces it."""
        return self.flusher.flushed

    @property
    def recovery_point(self) -> Offset:
        """Where recovery starts after a crash: the first segment that is not durable as a whole."""
        return self.flusher.recovery_point

    @property
    def flushes_before_acknowledging(self) -> bool:
        """With `flush.messages=1`, an acknowledgement waits for `flush_to`."""
        return self.rules.flush_messages == 1

    async def flush_to(self, offset: Offset) -> None:
        """Waits until every record below `offset` is durable. One sync serves all callers."""
        self.require_usable()
        await self.flusher.flush_to(offset)

    async def flush(self) -> None:
        await self.flush_to(self._offsets.end)

    @property
    def has_unflushed(self) -> bool:
        return self.flusher.flushed.value < self._offsets.end

    async def close(self) -> None:
        """Makes everything durable, so that the next start need not recover the log."""
        if self.is_usable and not await self._local.close():
            self.directory.must_recover = True
        self._local.end(LogClosed(f"{self.topic_partition} is closed"))

    def begin_epoch(self, leader_epoch: LeaderEpoch) -> None:
        """Notes that this broker leads the partition in a new epoch."""
        self._local.begin_epoch(leader_epoch)

    def follow_epoch(self, leader_epoch: LeaderEpoch) -> None:
        """Removes epochs without records when this broker becomes follower in a new epoch."""
        self._local.drop_unused_epochs(leader_epoch)

    # Appending

    async def validate_in_steps(self, records: Buffer) -> ValidatedBatch:
        """Checks a batch for which `append` would delay other requests, and yields to them."""
        self.require_usable()
        now_ms = self._clock.now_ms()
        return await self.rules.validate_in_steps(
            records, now_ms, self.workers, self.directory.decompression_lock
        )

    def append(
        self,
        records: Buffer,
        *,
        leader_epoch: LeaderEpoch,
        as_follower: bool = False,
        by_coordinator: bool = False,
        verification: Verification | None = None,
        validated: ValidatedBatch | None = None,
    ) -> AppendResult:
        """Appends one batch of a producer, or (`as_follower`) the batches that a leader sent.

        A transactional batch needs a `verification`. A batch of this broker's own coordinators
        (`by_coordinator`: offsets in a transaction, markers) is not checked. Raises
        `CannotAppendAtOnce` for a batch that must be checked by `validate_in_steps` first, or must
        be appended inside `room_for`.
        """
        append_error = self._local.append_error
        if append_error is not None:
            raise append_error
        if as_follower:
            return append_from_leader(self._local, records, leader_epoch, self._clock.now_ms())
        now_ms = self._clock.now_ms()
        segments, offsets = self._segments, self._offsets
        rules = segments.rules
        base_offset = offsets.end
        if by_coordinator:
            header = read_header(records)
        else:
            records, header = validated or rules.validate(records, now_ms)
            if header.producer_id >= 0 or header.attributes & TRANSACTIONAL_FLAG:
                duplicate = self._producers.check_batch(header, verification)
                if duplicate is not None:
                    return self._repeated(duplicate)
        last_offset = base_offset + header.last_offset_delta
        max_timestamp = header.max_timestamp
        size = header.batch_length + LENGTH_OVERHEAD
        segment = segments.active
        is_staged = (segment.stage is not None or size > STAGING_SIZES.large_bytes) and (
            self._is_staged(records, by_coordinator=by_coordinator)
        )
        try:
            if segments.must_roll(size, last_offset, max_timestamp, now_ms):
                segment = self._local.roll(base_offset)
                is_staged = False
            if segment.tail_offsets[-1] > base_offset:
                raise self._local.not_behind(base_offset)
            if not segment.size:
                # The file appears only now, perhaps after the sync that followed the roll.
                self._entries.change()
            view = records if isinstance(records, memoryview) else memoryview(records)
            prefix = offset_prefix(header, base_offset, leader_epoch)
            interval = rules.index_interval_bytes
            segment.write((prefix, view[PREFIX_SIZE:]), size, interval, is_staged=is_staged)
            segment.add_batch(size, last_offset, max_timestamp, interval)
        except OSError as error:
            raise self.directory.fail(error) from error
        if leader_epoch > self.leader_epochs.latest:
            self.leader_epochs.assign(leader_epoch, base_offset)
        if header.producer_id >= 0:
            self._producers.note_batch(header, records, base_offset)
        offsets.advance_end(last_offset + 1)
        self.flusher.appended(header.record_count)
        append_time_ms = now_ms if rules.is_log_append_time else NO_TIMESTAMP
        return _new_tuple(
            AppendResult, (base_offset, last_offset, append_time_ms, offsets.start, False)
        )

    def _is_staged(self, records: Buffer, *, by_coordinator: bool) -> bool:
        """Returns whether all of a batch but its first 16 bytes is written already.

        A batch of a coordinator does not wait. Any other batch that is large, or that comes while
        another one is staged, needs `room_for`.
        """
        stage = self._segments.active.stage
        if stage is not None and stage.holds(records):
            return True
        if not by_coordinator:
            raise CannotAppendAtOnce
        return False

    def _repeated(self, batch: RememberedBatch) -> AppendResult:
        append_time_ms = batch.timestamp if self.rules.is_log_append_time else NO_TIMESTAMP
        return AppendResult(
            batch.first_offset, batch.last_offset, append_time_ms, self._offsets.start, True
        )

    # Staging large batches, for `staging`

    @property
    def staging_lock(self) -> asyncio.Lock:
        if self._staging_lock is None:
            self._staging_lock = asyncio.Lock()
        return self._staging_lock

    def begin_stage(self, records: Buffer) -> StagedBatch:
        with self.directory.disk_errors():
            return self._local.begin_stage(records)

    def drop_stage(self, records: Buffer) -> None:
        self._local.drop_stage(records)

    # Rolling

    def roll(self) -> None:
        """Begins a new segment now, unless the active one is empty."""
        self.require_usable()
        if self._segments.active.size:
            with self.directory.disk_errors():
                self._local.roll(self._offsets.end)

    # Reading

    def read(
        self,
        offset: Offset,
        max_bytes: int,
        *,
        end_offset: Offset | None = None,
        min_one: bool = True,
    ) -> Slice | None:
        """Returns whole batches from the one with `offset` on, all below `end_offset`: at most
        `max_bytes`, or one batch if it is larger and `min_one`. None if there is nothing to read.
        """
        if self._local.unusable is not None:
            raise self._local.unusable
        offsets = self._offsets
        if offset == offsets.end:
            return None
        if not offsets.start <= offset <= offsets.end:
            raise OffsetOutOfRange(offset, offsets.start, offsets.end)
        if end_offset is not None and offset >= end_offset:
            return None
        try:
            return self._segments.read(offset, max_bytes, end_offset, min_one)
        except OSError as error:
            raise self.directory.fail(error) from error

    def aborted_in(
        self, found: Slice, offset: Offset, end_offset: Offset
    ) -> Sequence[AbortedTransaction]:
        """Returns the aborted transactions that a reader of `found` from `offset` on must skip."""
        if not self.aborted:
            return ()
        end = self._segments.end_of(found)
        return self.aborted.overlapping(offset, end_offset if end is None else end)

    # Searching

    def offset_for_timestamp(self, timestamp_ms: int) -> TimestampOffset | None:
        """Returns the first record with this timestamp or a higher one."""
        self.require_usable()
        with self.directory.disk_errors():
            return find_by_timestamp(self.segments, timestamp_ms, self._offsets.start)

    def max_timestamp(self) -> TimestampOffset | None:
        """Returns the record with the highest timestamp, the first if there are several."""
        self.require_usable()
        with self.directory.disk_errors():
            return find_max_timestamp_record(self.segments)

    def offset_for_leader_epoch(self, leader_epoch: LeaderEpoch) -> tuple[LeaderEpoch, Offset]:
        """Returns the largest epoch up to this one and its end offset; (-1, -1) if unknown."""
        return self.leader_epochs.end_offset_for(leader_epoch, self._offsets.end)

    # Truncating and deleting

    def truncate_to(self, offset: Offset) -> None:
        """Removes every batch with an offset at or above `offset`."""
        self.require_usable()
        start = self._offsets.start
        if offset < start:
            self.truncate_fully_and_start_at(offset)
        elif offset < self._offsets.end:
            if self._local.truncate(offset):
                self.directory.on_truncation.notify(self)
            else:
                self.truncate_fully_and_start_at(start)

    def truncate_fully_and_start_at(self, offset: Offset) -> None:
        """Empties the log; the next record gets `offset`."""
        self.require_usable()
        self._local.truncate_fully_and_start_at(offset)
        self.directory.on_truncation.notify(self)
        # An empty log has no record that a crash could lose.
        self.flusher.flushed.advance(offset)

    def advance_log_start(self, offset: Offset) -> None:
        """Advances the log start to `offset`, for DeleteRecords."""
        self.require_usable()
        offsets, directory = self._offsets, self.directory
        if offset > offsets.end:
            raise OffsetOutOfRange(offset, offsets.start, offsets.end)
        if offset <= offsets.start:
            return
        self._local.advance_start(offset)
        directory.moved_starts[self] = None
        passed = self._segments.count_below(offset)
        if passed > REMOVED_AT_ONCE:
            # Housekeeping removes the rest within a second: the event loop waits for five renames
            # a segment.
            directory.shortened[self] = None
        self._local.remove_first(min(passed, REMOVED_AT_ONCE))

    def delete_old_segments(
        self, high_watermark: Offset | None = None, at_most: int | None = None
    ) -> int:
        """Applies `retention.ms` and `retention.bytes`. Returns how many segments were deleted.

        Segments above the high watermark and the active one are kept: if all records of the active
        one have expired, a new one is begun first. If `at_most` were deleted, there may be more.
        """
        self.require_usable()
        with self.directory.disk_errors():
            expired = count_expired(
                self.segments,
                self.settings,
                high_watermark=self._offsets.end if high_watermark is None else high_watermark,
                passed=self._segments.count_below(self._offsets.start),
                size_bytes=self.size_bytes,
                now_ms=self._clock.now_ms(),
                at_most=len(self.segments) if at_most is None else at_most,
            )
            self._local.delete_expired(expired)
        return expired.segments

    def replace_segments(self, old: Sequence[Segment], compacted: Compacted) -> None:
        """Replaces the segments `old` by a compacted one."""
        self._local.replace_segments(old, compacted)
