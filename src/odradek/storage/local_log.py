"""The files of one log and what is known of them, changed together and in an order that is safe.

A `LocalLog` is composed of parts, each of which owns its fields and its invariants:

- `LogOffsets`: log start offset, high watermark, log end offset
- `Segments`: the files of batches
- `LeaderEpochs`: which leader epoch began at which offset
- `ProducerHistory`: producers, open and aborted transactions
- `Flusher`: what is durable, and the syncs that make it so
- `DirectoryEntries`: files that were made, renamed or removed since the last sync

Each method here is a change that concerns several parts: rolling, truncating, deleting, closing.
Files change in an order that a crash may interrupt anywhere: recovery then finds a log without a
gap. `Log` is the only user; it checks arguments and validates what is appended.

A truncation that has begun cannot be left halfway: any disk error then takes the directory offline.
"""

import logging
from collections.abc import Sequence
from typing import Final, NamedTuple

from odradek import invariants
from odradek.config import TopicSettings
from odradek.invariants import InvariantViolation
from odradek.protocol.records import BatchHeader, Buffer, read_header
from odradek.protocol.types import FIRST_OFFSET, LeaderEpoch, Offset, TopicId, TopicPartition
from odradek.storage.directory_entries import DirectoryEntries
from odradek.storage.errors import LogFailed, StorageError
from odradek.storage.file_names import PARTITION_METADATA, partition_directory
from odradek.storage.flusher import Flusher
from odradek.storage.leader_epochs import LeaderEpochs
from odradek.storage.log_context import LogContext
from odradek.storage.log_directory import LogDirectory
from odradek.storage.log_history import LogHistory
from odradek.storage.log_offsets import LogOffsets
from odradek.storage.producer_history import ProducerHistory
from odradek.storage.producer_state import ProducerStates
from odradek.storage.retention import Expired
from odradek.storage.segment import Segment
from odradek.storage.segments import Segments
from odradek.storage.staged_batch import StagedBatch
from odradek.storage.text_files import encode_partition_metadata
from odradek.storage.transaction_index import AbortedTransaction, AbortedTransactions
from odradek.storage.validation import AppendRules
from odradek.world import World
from odradek.world.disk import Disk, File

logger = logging.getLogger("odradek.storage")

NO_TIMESTAMP: Final = -1
# A truncation needs so many file descriptors at a time.
_TRUNCATION_DESCRIPTORS: Final = 2


class AppendResult(NamedTuple):
    """Where a batch went. For a duplicate: where it went the first time."""

    base_offset: Offset
    last_offset: Offset
    # The broker's time under LogAppendTime, else -1.
    append_time_ms: int
    log_start_offset: Offset
    duplicate: bool = False


class Compacted(NamedTuple):
    """A segment that compaction made, and what else changes with it."""

    segment: Segment
    # Where the last of the segments that it replaces ended.
    end_offset: Offset
    # The transactions whose abort marker it holds.
    aborted: list[AbortedTransaction]
    # The files of the segments that it replaces, under names that loading ignores.
    replaced_files: Sequence[str]


def write_topic_id(disk: Disk, path: str, topic_id: TopicId) -> None:
    """Writes `partition.metadata`. It is synced with the first records that are flushed."""
    file = disk.open(f"{path}/{PARTITION_METADATA}", create=True)
    try:
        file.write_at(0, [encode_partition_metadata(topic_id)])
    finally:
        file.close()


class LocalLog:
    __slots__ = (
        "_world",
        "append_error",
        "directory",
        "entries",
        "flusher",
        "history",
        "leader_epochs",
        "offsets",
        "path",
        "producers",
        "segments",
        "topic_partition",
        "unusable",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        directory: LogDirectory,
        settings: TopicSettings,
        world: World,
        *,
        segments: Sequence[Segment],
        log_start_offset: Offset = FIRST_OFFSET,
        recovery_point: Offset = FIRST_OFFSET,
        leader_epochs: LeaderEpochs | None = None,
        producers: ProducerStates | None = None,
        aborted: AbortedTransactions | None = None,
    ) -> None:
        """Takes over segments that are valid, in order, at least one."""
        self.topic_partition = topic_partition
        self.directory = directory
        self.path = path = f"{directory.path}/{partition_directory(topic_partition)}"
        self._world = world
        self.unusable: StorageError | None = None
        # Why nothing is appended: the log is unusable, or its disk is full.
        self.append_error: StorageError | None = directory.full
        self.history = LogHistory(path)
        self.entries = DirectoryEntries()
        context = LogContext(path, directory, world, self.entries, self.history)
        self.segments = Segments(context, AppendRules(settings), segments)
        end = max(self.segments.active.next_offset, log_start_offset)
        self.offsets = LogOffsets(log_start_offset, end, self.history)
        self.leader_epochs = leader_epochs or LeaderEpochs()
        self.producers = ProducerHistory(
            context,
            self.segments,
            states=producers or ProducerStates(log_start_offset),
            aborted=aborted or AbortedTransactions(),
        )
        self.flusher = Flusher(self, world, min(recovery_point, end))

    def write_topic_id(self, topic_id: TopicId) -> None:
        write_topic_id(self.directory.disk, self.path, topic_id)
        self.entries.write_topic_id()

    # Availability

    @property
    def is_usable(self) -> bool:
        return self.unusable is None

    def refuse_appends(self, reason: StorageError | None) -> None:
        """The disk is full; or, with None, has room again."""
        if self.unusable is None:
            self.append_error = reason

    def end(self, reason: StorageError) -> None:
        """From now on every call raises `reason`; slices that were handed out still read."""
        if self.unusable is None:
            self.unusable = self.append_error = reason
            self.flusher.fail(reason)
            self.segments.forget_all()

    def fail(self, violation: InvariantViolation) -> StorageError:
        """An invariant does not hold: takes this log offline until the next start, and returns
        the error to raise. The other logs are served on.

        The violation goes to the broker's log with its history. What is in memory may be wrong,
        so none of it is checkpointed, and the next start recovers the log from its segments.
        """
        if self.unusable is None:
            logger.error("%s goes offline: %s", self.path, violation, exc_info=violation)
            self.directory.must_recover = True
            self.end(LogFailed(self.path))
            self.directory.on_log_failure.notify(self.topic_partition)
        return self.unusable or LogFailed(self.path)

    async def close(self) -> bool:
        """Makes everything durable. Returns False if that failed: then the next start has to
        recover the log."""
        try:
            self.check()
        except InvariantViolation as violation:
            self.fail(violation)
            return False
        active = self.segments.active
        was_touched = active.is_dirty or self.flusher.flushed.value < self.offsets.end
        try:
            if active.stage is not None:
                active.drop_stage()
            if was_touched and active.size:
                active.finish()
            was_touched |= self.producers.close(self.offsets.end)
        except OSError as error:
            self.directory.fail(error, is_halfway=True)
            return False
        if was_touched or self.leader_epochs.is_dirty:
            return await self.flusher.close()
        return True

    # Appending

    def begin_epoch(self, leader_epoch: LeaderEpoch) -> None:
        """This broker leads in a new epoch, from the end of the log on."""
        self.history.note(f"leader epoch {leader_epoch} begins at {self.offsets.end}")
        self.leader_epochs.assign(leader_epoch, self.offsets.end)
        self.check()

    def drop_unused_epochs(self, leader_epoch: LeaderEpoch) -> None:
        """This broker follows another one. An epoch in which nothing was written here means
        nothing to the next leader."""
        self.history.note(f"follows in leader epoch {leader_epoch}, ends at {self.offsets.end}")
        self.leader_epochs.truncate_from_end(self.offsets.end)

    def write_run(self, run: memoryview, headers: Sequence[BatchHeader]) -> None:
        """Writes batches that were given their offsets by a leader, with one system call."""
        if not headers:
            return
        segment, interval = self.segments.active, self.segments.rules.index_interval_bytes
        if headers[0].base_offset < segment.next_offset:
            raise self.not_behind(headers[0].base_offset)
        if not segment.size:
            self.entries.change()
        segment.write((run,), len(run), interval)
        for header in headers:
            segment.add_batch(header.size_bytes, header.last_offset, header.max_timestamp, interval)
        self.offsets.advance_end(headers[-1].next_offset)

    def not_behind(self, base_offset: Offset) -> InvariantViolation:
        end = self.segments.active.next_offset
        return self.history.violation(
            f"offset {base_offset} is appended to a segment that ends at {end}"
        )

    # Rolling

    def roll(self, base_offset: Offset, producers_end: Offset | None = None) -> Segment:
        """Closes the active segment and begins the next one, at the log's end or after it.

        The producer state is that of `producers_end`: of the log's end, unless a follower has
        written batches that it has not taken account of yet. Raises `OSError`; then the active
        segment stays the active one.
        """
        old = self.segments.active
        if not old.size and old.base_offset == base_offset:
            return old
        self.check()
        try:
            if old.size:
                old.finish()
                self.producers.write_files(
                    self.offsets.end if producers_end is None else producers_end
                )
            segment = self.segments.begin(base_offset)
            if not old.size:
                self.segments.remove_empty(old)
        except OSError:
            old.is_dirty = True  # It is to be finished again.
            raise
        self.history.note(f"rolled at {base_offset}, the last segment has {old.size} bytes")
        logger.info(
            "%s: new segment at offset %d; the last one has %d bytes",
            self.topic_partition,
            segment.base_offset,
            old.size,
        )
        if old.size:
            # The file is pinned for its sync before it is unpinned for appends: the kernel reports
            # a failed write-back only to descriptors that were open when it happened.
            self.flusher.segment_closed(old)
            old.close_for_appends()
        self.check()
        return segment

    # Staging large batches

    def begin_stage(self, records: Buffer) -> StagedBatch:
        """Reserves the place after the log end where `staging` writes a batch that is not appended
        yet. Raises `StorageError` if the log takes no appends, and `OSError`."""
        if self.append_error is not None:
            raise self.append_error
        header = read_header(records)
        end, now_ms = self.offsets.end, self._world.clock.now_ms()
        last_offset = end + header.last_offset_delta
        if self.segments.must_roll(len(records), last_offset, header.max_timestamp, now_ms):
            self.roll(end)
        return self.segments.active.begin_stage(records)

    def drop_stage(self, records: Buffer) -> None:
        """Removes a staged batch that was not appended: it was refused, is a duplicate, or the
        client is gone."""
        segment = self.segments.active
        if segment.stage is not None and segment.stage.records is records:
            try:
                segment.drop_stage()
            except OSError as error:
                # The file has bytes after its last batch that belong to no batch.
                self.directory.fail(error)

    # Truncating

    def truncate(self, offset: Offset) -> bool:
        """Removes every batch that reaches `offset`, which lies inside the log.

        Returns False if the log has no batch at its start offset any more: a batch that reached
        over the start is gone, and all that is left lies before it. The next record would leave a
        gap, which recovery takes for a loss, so the caller lets the log start over.
        """
        self._require_descriptors()
        self.history.note(f"truncated to {offset}, was {self.offsets!r}")
        try:
            removed = self.segments.segments_above(offset)
            self.flusher.segments_gone(removed)
            self.segments.remove_last(len(removed))
            # Only now: a kill before this line leaves a log that is longer, and without a gap.
            active = self.segments.active
            self.flusher.segments_gone([active])
            self.segments.truncate_active(offset)
            if active.next_offset < self.offsets.start:
                return False
            end = active.next_offset
            self.leader_epochs.truncate_from_end(end)
            self.producers.truncate_end(end)
        except OSError as error:
            raise self.directory.fail(error, is_halfway=True) from error
        self.offsets.truncate_end(end)
        self.flusher.truncated(end)
        self.check()
        return True

    def truncate_fully_and_start_at(self, offset: Offset) -> None:
        """Removes all segments. The log starts and ends at `offset` then."""
        self._require_descriptors()
        self.history.note(f"started over at {offset}, was {self.offsets!r}")
        removed = self.segments.all
        try:
            self.flusher.segments_gone(removed)
            self.segments.remove_last(len(removed))
            self.offsets.reset_to(offset)
            self.segments.begin(offset)
            self.producers.drop_snapshots()
        except OSError as error:
            raise self.directory.fail(error, is_halfway=True) from error
        self.leader_epochs.clear()
        self.producers.clear(offset)
        self.flusher.truncated(offset)
        self.check()

    def _require_descriptors(self) -> None:
        """Refuses a truncation before anything is changed if no file descriptors are left for it.

        No connection is accepted before it is done, so they are still there when it needs them.
        """
        disk, path = self.directory.disk, f"{self.path}/{PARTITION_METADATA}"
        files: list[File] = []
        try:
            for _ in range(_TRUNCATION_DESCRIPTORS):
                files.append(disk.open(path, create=True))
        except OSError as error:
            raise self.directory.fail(error) from error
        finally:
            for file in files:
                file.close()

    # Deleting from the start

    def advance_start(self, offset: Offset) -> None:
        """Consumers cannot ask for what lies below `offset` any more. `remove_first` deletes it."""
        self.offsets.advance_start(offset)
        self.leader_epochs.truncate_from_start(offset)

    def remove_first(self, count: int) -> None:
        """Deletes the first segments; the log start offset is after them already."""
        removed = self.segments.all[:count]
        if not removed:
            return
        self.history.note(f"deleted {count} segments below {self.offsets.start}")
        self.flusher.segments_gone(removed)
        try:
            self.segments.remove_first(count, self.offsets.start)
        except OSError as error:
            raise self.directory.fail(error) from error
        self.producers.drop_below(self.segments.all[0].base_offset)
        self.check()

    def delete_expired(self, expired: Expired) -> None:
        """Retention: deletes segments from the first on, and begins a new one if none is left."""
        if not expired.segments:
            return
        if expired.segments == len(self.segments.all):
            self.roll(self.offsets.end)
        first_kept = self.segments.all[expired.segments].base_offset
        if first_kept > self.offsets.start:
            logger.debug(
                "%s: %s takes what lies below offset %d (segments: %d)",
                self.topic_partition,
                expired.reason,
                first_kept,
                expired.segments,
            )
            # No checkpoint is needed: the name of the first segment is the log start offset.
            self.advance_start(first_kept)
            self.offsets.set_durable_start(first_kept)
        self.remove_first(expired.segments)

    # Compaction

    def replace_segments(self, old: Sequence[Segment], compacted: Compacted) -> None:
        """Takes a compacted segment, whose files are in place, for `old` ones."""
        base_offset, end_offset = compacted.segment.base_offset, compacted.end_offset
        self.history.note(f"compacted {base_offset} to {end_offset}")
        self.segments.replace(old, compacted.segment, compacted.replaced_files)
        self.flusher.segments_gone(old)
        self.producers.replace_aborted(base_offset, end_offset, compacted.aborted)
        self.check()

    # Invariants

    def check(self) -> None:
        """The order of the offsets always, all parts one by one if checks are thorough."""
        offsets, active = self.offsets, self.segments.active
        offsets.check()
        # An empty segment may begin after the log end: a follower rolls to the offset that it gets.
        if offsets.end > active.next_offset or (active.size and offsets.end != active.next_offset):
            raise self.history.violation(
                f"the log ends at {offsets.end}, its active segment at {active.next_offset}"
            )
        if invariants.is_thorough():
            self.segments.check()
            self.leader_epochs.check(offsets.start, offsets.end, self.history)
            self.producers.check(offsets.end)
            self.flusher.check()
