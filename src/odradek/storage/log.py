"""The log of one partition: an ordered row of segments, of which the last takes appends.

    log_start_offset <= ... <= flushed <= log_end_offset

- `log_start_offset`: the first offset a consumer may ask for; retention and DeleteRecords raise it.
- `flushed`: below it every record survives a power cut (see `flushing`).
- `log_end_offset`: the offset the next record gets. It falls when the log is truncated.

Appends and reads are synchronous and never wait: writes go to the page cache, reads name
bytes that the connection fetches later. A batch is opaque: it gets its offset and leader
epoch in the first 16 bytes and is written as it came, with one system call.

Invariant: offsets rise from batch to batch and from segment to segment; a failed write takes
the directory offline before anything else sees the log.
"""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from odradek.config import TopicSettings
from odradek.protocol.records import (
    LENGTH_OVERHEAD,
    PREFIX_SIZE,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    Buffer,
    offset_prefix,
    read_header,
)
from odradek.protocol.types import TopicId, TopicPartition
from odradek.statemachine.watermark import Watermark
from odradek.storage import cutting, rolling
from odradek.storage.aborted import AbortedTransaction, AbortedTransactions
from odradek.storage.descriptors import Slice
from odradek.storage.directory import LogDirectory
from odradek.storage.errors import (
    LogClosed,
    LogDirectoryFailed,
    LogDirectoryFull,
    OffsetOutOfRange,
    StorageError,
)
from odradek.storage.flushing import Flusher
from odradek.storage.leader_epochs import LeaderEpochs
from odradek.storage.names import partition_directory
from odradek.storage.producer_state import Membership, ProducerStates, RememberedBatch
from odradek.storage.producing import check_producer, note_producer, write_lacking_aborted
from odradek.storage.retention import apply_retention
from odradek.storage.rolling import MAX_RELATIVE_OFFSET, must_roll
from odradek.storage.searching import TimestampOffset, find_by_timestamp, find_youngest
from odradek.storage.segment import Segment
from odradek.storage.segments import Segments
from odradek.storage.snapshots import write_snapshot
from odradek.storage.stage import SIZES
from odradek.storage.validation import Admitted, AppendRules, TakesLong, check_from_leader
from odradek.world import World

_NO_TIMESTAMP = -1
# Half the time of a NamedTuple's own constructor, on the way of every batch.
_new_tuple = tuple.__new__


class AppendResult(NamedTuple):
    """Where a batch went. For a duplicate: where it went the first time."""

    base_offset: int
    last_offset: int
    # The broker's time under LogAppendTime, else -1.
    append_time_ms: int
    log_start_offset: int
    duplicate: bool = False


class Log:
    __slots__ = (
        "_clock",
        "_flusher",
        "_refusal",
        "_unflushed_records",
        "_unusable",
        "aborted",
        "active_segment",
        "directory",
        "first_dirty_offset",
        "high_watermark",
        "kept_start_offset",
        "lacks_aborted",
        "leader_epochs",
        "log_end_offset",
        "log_start_offset",
        "path",
        "producers",
        "row",
        "rules",
        "staging",
        "topic_id",
        "topic_partition",
        "unflushed_since_s",
        "world",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        topic_id: TopicId,
        directory: LogDirectory,
        settings: TopicSettings,
        world: World,
        *,
        segments: Segments,
        log_start_offset: int = 0,
        recovery_point: int = 0,
        leader_epochs: LeaderEpochs | None = None,
        producers: ProducerStates | None = None,
        aborted: AbortedTransactions | None = None,
    ) -> None:
        """Takes over segments that are valid, in order, at least one. `recovery` makes logs."""
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.directory = directory
        self.path = f"{directory.path}/{partition_directory(topic_partition)}"
        self.log_start_offset = log_start_offset
        # Where the log starts, at the least, after a crash: behind `log_start_offset` until the
        # checkpoint of DeleteRecords is written.
        self.kept_start_offset = log_start_offset
        # What the replica last said it was; kept for the checkpoint, never used here.
        self.high_watermark = log_start_offset
        # How far the log is compacted. The cleaner raises it, a truncation lowers it.
        self.first_dirty_offset = log_start_offset
        self.leader_epochs = leader_epochs or LeaderEpochs()
        self.producers = producers or ProducerStates(log_start_offset)
        self.aborted = aborted or AbortedTransactions()
        # Segments, by base offset, whose transaction index lacks entries for want of a descriptor.
        self.lacks_aborted: set[int] = set()
        self.unflushed_since_s = 0.0
        self.world = world
        self._clock = world.clock
        self.row = segments
        self.active_segment = segments.active
        self.log_end_offset = max(self.active_segment.next_offset, log_start_offset)
        self._unflushed_records = 0
        self._unusable: StorageError | None = None
        # Why nothing is appended: it is unusable, or its disk is full.
        self._refusal: StorageError | None = directory.full
        # Held by whoever stages a large batch; made with the first one.
        self.staging: asyncio.Lock | None = None
        self.rules = AppendRules(settings)
        self.active_segment.index_bytes = self.rules.index_bytes
        self._flusher = Flusher(self, world.workers, min(recovery_point, self.log_end_offset))
        directory.logs[self] = None

    def __repr__(self) -> str:
        return f"Log({self.path}, {self.log_start_offset}..{self.log_end_offset})"

    # State

    @property
    def settings(self) -> TopicSettings:
        return self.rules.settings

    def configure(self, rules: AppendRules) -> None:
        """New settings, from the next append on."""
        self.rules = rules
        self.active_segment.index_bytes = rules.index_bytes

    @property
    def is_usable(self) -> bool:
        return self._unusable is None

    def require_usable(self) -> None:
        if self._unusable is not None:
            raise self._unusable

    def require_room(self) -> None:
        """Raises if nothing is appended: it is unusable, or its disk is full."""
        if self._refusal is not None:
            raise self._refusal

    def go_offline(self, failure: LogDirectoryFailed) -> None:
        self._end(failure)

    @property
    def takes_appends(self) -> bool:
        """Not if it is unusable, nor while its disk is full."""
        return self._refusal is None

    def refuse_appends(self, reason: LogDirectoryFull | None) -> None:
        if self._unusable is None:
            self._refusal = reason

    def _end(self, reason: StorageError) -> None:
        """From now on every call raises `reason`; slices that were handed out still read."""
        if self._unusable is None:
            self._unusable = self._refusal = reason
            self._flusher.fail(reason)
            self.row.forget_all()

    def mark_deleted(self) -> None:
        self._end(LogClosed(f"{self.topic_partition} was deleted"))
        self.directory.logs.pop(self, None)

    @property
    def size_bytes(self) -> int:
        return self.row.size_bytes

    @property
    def segments(self) -> Sequence[Segment]:
        return self.row.all

    @contextmanager
    def disk_errors(self) -> Iterator[None]:
        """Turns an error of the disk into what is to be raised. Too slow for every append."""
        try:
            yield
        except OSError as error:
            raise self.directory.fail(error) from error

    # Flushing

    @property
    def flushed(self) -> Watermark:
        """Below it, every record survives a power cut. Truncation replaces it."""
        return self._flusher.flushed

    @property
    def recovery_point(self) -> int:
        """Where recovery starts after a crash: the first segment that is not durable as a whole."""
        return self._flusher.recovery_point

    @property
    def flushes_before_acknowledging(self) -> bool:
        """With `flush.messages=1`, an acknowledgement waits for `flush_to`."""
        return self.rules.flush_messages == 1

    async def flush_to(self, offset: int) -> None:
        """Returns when all below `offset` is durable; one sync serves everyone who waits."""
        self.require_usable()
        await self._flusher.flush_to(offset)

    async def flush(self) -> None:
        await self.flush_to(self.log_end_offset)

    def flush_started(self) -> None:
        self._unflushed_records = 0

    @property
    def has_unflushed(self) -> bool:
        return self._flusher.flushed.value < self.log_end_offset

    @property
    def flusher(self) -> Flusher:
        return self._flusher

    async def close(self) -> None:
        """Makes everything durable, so that the next start can take it at its word."""
        if self._unusable is not None:
            return
        producers = self.producers
        was_touched = self.active_segment.is_dirty or self.has_unflushed
        try:
            if self.active_segment.stage is not None:
                self.active_segment.drop_stage()
            if was_touched and self.active_segment.size:
                self.active_segment.finish()
            if self.lacks_aborted:
                write_lacking_aborted(self)
            if producers.end_offset > producers.snapshot_offset:
                write_snapshot(self.directory.disk, self.path, producers)
                was_touched = True
        except OSError as error:
            # Without its indexes the next start must not take the log at its word.
            self.directory.fail(error, is_halfway=True)
            return
        if was_touched or self.leader_epochs.is_dirty:
            self.directory.must_recover |= not await self._flusher.close()
        if self._unusable is None:
            self._end(LogClosed(f"{self.topic_partition} is closed"))

    # Appending

    async def admit(self, records: Buffer) -> Admitted:
        """Looks at a batch for which `append` would hold up others, and lets them have turns."""
        self.require_usable()
        now_ms = self._clock.now_ms()
        return await self.rules.admit_patiently(
            records, now_ms, self.world.workers, self.directory.opening
        )

    def append(
        self,
        records: Buffer,
        *,
        leader_epoch: int,
        as_follower: bool = False,
        by_coordinator: bool = False,
        membership: Membership | None = None,
        admitted: Admitted | None = None,
    ) -> AppendResult:
        """Writes one batch of a producer, or what a leader sent, at the end of the log.

        A transactional batch needs a `membership`. One that this broker made itself
        (`by_coordinator`: offsets in a transaction, markers) is taken as it is. Raises
        `TakesLong` for a batch that is to be `admitted` first, or that needs `room_for` it.
        """
        if self._refusal is not None:
            raise self._refusal
        if as_follower:
            return self._append_as_follower(records, leader_epoch)
        now_ms = self._clock.now_ms()
        rules = self.rules
        base_offset = self.log_end_offset
        if by_coordinator:
            header = read_header(records)
        else:
            records, header = admitted or rules.admit(records, now_ms)
            if header.producer_id >= 0 or header.attributes & TRANSACTIONAL_FLAG:
                duplicate = check_producer(self, header, membership)
                if duplicate is not None:
                    return self._repeated(duplicate)
        last_offset = base_offset + header.last_offset_delta
        max_timestamp = header.max_timestamp
        size = header.batch_length + LENGTH_OVERHEAD
        segment = self.active_segment
        is_staged = (segment.stage is not None or size > SIZES.large_bytes) and (
            self._is_staged(records, by_coordinator=by_coordinator)
        )
        try:
            if must_roll(self, size, last_offset, max_timestamp, now_ms):
                segment = rolling.roll(self, base_offset)
                is_staged = False
            if not segment.size:
                # The file appears only now, perhaps after the sync that followed the roll.
                self._flusher.has_new_names = True
            view = records if isinstance(records, memoryview) else memoryview(records)
            prefix = offset_prefix(header, base_offset, leader_epoch)
            segment.write((prefix, view[PREFIX_SIZE:]), is_staged=is_staged)
            segment.note(size, last_offset, max_timestamp, rules.index_interval_bytes)
        except OSError as error:
            raise self.directory.fail(error) from error
        if leader_epoch > self.leader_epochs.latest:
            self.leader_epochs.assign(leader_epoch, base_offset)
        if header.producer_id >= 0:
            note_producer(self, header, records, base_offset)
        self._moved_end(last_offset + 1, header.record_count)
        append_time_ms = now_ms if rules.is_log_append_time else _NO_TIMESTAMP
        return _new_tuple(
            AppendResult, (base_offset, last_offset, append_time_ms, self.log_start_offset, False)
        )

    def _is_staged(self, records: Buffer, *, by_coordinator: bool) -> bool:
        """Whether a batch is written already but for its head. What this broker makes itself does
        not wait; any other that is large, or meets a stage of another one, needs `room_for`."""
        stage = self.active_segment.stage
        if stage is not None and stage.holds(records):
            return True
        if not by_coordinator:
            raise TakesLong
        return False

    def _repeated(self, batch: RememberedBatch) -> AppendResult:
        append_time_ms = batch.timestamp if self.rules.is_log_append_time else _NO_TIMESTAMP
        return AppendResult(
            batch.first_offset, batch.last_offset, append_time_ms, self.log_start_offset, True
        )

    def _moved_end(self, log_end_offset: int, record_count: int) -> None:
        self.log_end_offset = self.producers.end_offset = log_end_offset
        if not self._unflushed_records:
            self.unflushed_since_s = self._clock.monotonic_s()
        self._unflushed_records += record_count
        if self._unflushed_records >= self.rules.flush_messages:
            self._flusher.request(log_end_offset)

    def _append_as_follower(self, records: Buffer, leader_epoch: int) -> AppendResult:
        """Takes what the leader sent as it is: many batches, offsets and epochs given."""
        batches = check_from_leader(records, self.log_end_offset, leader_epoch)
        first, last = batches[0][1], batches[-1][1]
        view = memoryview(records)
        now_ms = self._clock.now_ms()
        written = 0  # Up to where in `records` segments have taken it.
        run: list[BatchHeader] = []
        try:
            for position, header in batches:
                if must_roll(
                    self,
                    header.size_bytes,
                    header.last_offset,
                    header.max_timestamp,
                    now_ms,
                    unwritten=position - written,
                ):
                    self._write_run(view[written:position], run)
                    run, written = [], position
                    rolling.roll(self, self.log_end_offset)
                    if header.last_offset - self.log_end_offset > MAX_RELATIVE_OFFSET:
                        rolling.roll(self, header.base_offset)
                run.append(header)
            self._write_run(view[written : batches[-1][0] + last.size_bytes], run)
        except OSError as error:
            failure = self.directory.fail(error)
            # What fitted into full segments is there to stay.
            batches = [one for one in batches if one[1].next_offset <= self.log_end_offset]
            if self.is_usable and batches:
                self._note_from_leader(view, batches)
            raise failure from error
        self._note_from_leader(view, batches)
        return AppendResult(
            first.base_offset, last.last_offset, _NO_TIMESTAMP, self.log_start_offset
        )

    def _note_from_leader(self, view: memoryview, batches: list[tuple[int, BatchHeader]]) -> None:
        for position, header in batches:
            if header.leader_epoch > self.leader_epochs.latest:
                self.leader_epochs.assign(header.leader_epoch, header.base_offset)
            if header.producer_id >= 0:
                batch = view[position : position + header.size_bytes]
                note_producer(self, header, batch, header.base_offset)
        self._moved_end(batches[-1][1].next_offset, sum(one.record_count for _, one in batches))

    def _write_run(self, run: memoryview, headers: list[BatchHeader]) -> None:
        """Writes a run of batches with one call."""
        if not headers:
            return
        segment, interval = self.active_segment, self.rules.index_interval_bytes
        if not segment.size:
            self._flusher.has_new_names = True
        segment.write((run,))
        for header in headers:
            segment.note(header.size_bytes, header.last_offset, header.max_timestamp, interval)
        self.log_end_offset = headers[-1].next_offset

    # Rolling

    def roll(self) -> None:
        """Begins a new segment now, unless the active one is empty."""
        self.require_usable()
        if self.active_segment.size:
            with self.disk_errors():
                rolling.roll(self, self.log_end_offset)

    # Reading

    def read(
        self, offset: int, max_bytes: int, *, end_offset: int | None = None, min_one: bool = True
    ) -> Slice | None:
        """Whole batches from the one that holds `offset`, all below `end_offset`.

        At most `max_bytes`, or one batch if it is larger and `min_one`. None if there is
        nothing to read yet.
        """
        if self._unusable is not None:
            raise self._unusable
        if offset < self.log_start_offset or offset > self.log_end_offset:
            raise OffsetOutOfRange(offset, self.log_start_offset, self.log_end_offset)
        if offset == self.log_end_offset or (end_offset is not None and offset >= end_offset):
            return None
        try:
            return self.row.read(offset, max_bytes, end_offset, min_one)
        except OSError as error:
            raise self.directory.fail(error) from error

    def aborted_in(
        self, found: Slice, offset: int, end_offset: int
    ) -> Sequence[AbortedTransaction]:
        """The aborted transactions that a reader of `found`, from `offset` on, has to skip."""
        if not self.aborted:
            return ()
        end = self.row.end_of(found)
        return self.aborted.overlapping(offset, end_offset if end is None else end)

    # Searching

    def offset_for_timestamp(self, timestamp_ms: int) -> TimestampOffset | None:
        """The first record that is not older than this."""
        self.require_usable()
        with self.disk_errors():
            return find_by_timestamp(self.row.all, timestamp_ms, self.log_start_offset)

    def max_timestamp(self) -> TimestampOffset | None:
        """The youngest record, the first if there are several."""
        self.require_usable()
        with self.disk_errors():
            return find_youngest(self.row.all)

    def earliest(self) -> TimestampOffset:
        epoch = self.leader_epochs.epoch_for(self.log_start_offset)
        return TimestampOffset(_NO_TIMESTAMP, self.log_start_offset, epoch)

    def latest(self) -> TimestampOffset:
        return TimestampOffset(_NO_TIMESTAMP, self.log_end_offset, self.leader_epochs.latest)

    def offset_for_leader_epoch(self, leader_epoch: int) -> tuple[int, int]:
        """The largest epoch up to this one and the offset where it ends; (-1, -1) if unknown."""
        return self.leader_epochs.end_offset_for(leader_epoch, self.log_end_offset)

    # Cutting

    def truncate_to(self, offset: int) -> None:
        """Removes every batch that reaches `offset` or lies behind it."""
        self.require_usable()
        if offset < self.log_start_offset:
            cutting.start_over(self, offset)
        elif offset < self.log_end_offset:
            cutting.truncate(self, offset)

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Empties the log; the next record gets `offset`."""
        self.require_usable()
        cutting.start_over(self, offset)

    def advance_log_start(self, offset: int) -> None:
        """Lets go of everything below `offset`: consumers cannot ask for it any more."""
        self.require_usable()
        if offset > self.log_end_offset:
            raise OffsetOutOfRange(offset, self.log_start_offset, self.log_end_offset)
        if offset > self.log_start_offset:
            cutting.advance_start(self, offset)

    def delete_old_segments(
        self, high_watermark: int | None = None, at_most: int | None = None
    ) -> int:
        """Applies `retention.ms` and `retention.bytes`; returns how many segments went.

        Only what lies below the high watermark goes, and never the active segment: if its
        records have all expired a new one is begun. If `at_most` went, there may be more.
        """
        self.require_usable()
        limit = self.log_end_offset if high_watermark is None else high_watermark
        with self.disk_errors():
            at_most = len(self.segments) if at_most is None else at_most
            return apply_retention(self, limit, self._clock.now_ms(), at_most)

    def remove(self, segments: Sequence[Segment], *, from_end: bool) -> None:
        """Takes segments out of the log: its first ones, or its last ones (`from_end`). Their files
        go after `file.delete.delay.ms`."""
        self.row.remove(segments)
        in_order = reversed(segments) if from_end else segments
        cutting.delete_files(self.directory, in_order, self.delete_files_at_s())

    def delete_files_at_s(self) -> float:
        """When files that leave the log now are to be deleted, by the monotonic clock."""
        return self._clock.monotonic_s() + self.rules.settings.file_delete_delay_ms / 1000
