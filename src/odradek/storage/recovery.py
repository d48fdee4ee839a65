"""Loads the log of a partition from its files. `LogManager.load` calls it for each partition.

After a clean shutdown the files are trusted. After a crash, segments that reach beyond the recovery
point are read batch by batch, and indexes, leader epochs and producer state are rebuilt. Which
batches stay depends on what crashed:

- The process was killed and the operating system was not booted since (`pages_survived`):
  everything that was written is there. Only the last write may be incomplete, so a batch that is
  too short or fails its checksum ends the log. Nothing else ends it.
- The machine went down, or it is not known what happened: pages and directory entries that were not
  synced may be missing, and a truncation that was not synced may be undone. Above the recovery
  point the log also ends at a gap between segments, at an overlap of segments, and where the leader
  epoch falls from one batch to the next. Compaction leaves gaps as well, but only below a recovery
  point that is durable before.

The checkpoint files may be older than the records (docs/storage.md, "Checkpoint files"). For the
segments that are read, the batches decide, never a checkpoint.
"""

import logging
from bisect import bisect_right
from collections.abc import Sequence

from odradek.config import TopicSettings
from odradek.protocol.types import FIRST_OFFSET, NO_TOPIC_ID, Offset, TopicId, TopicPartition
from odradek.storage.errors import CorruptLog, StorageError
from odradek.storage.file_names import (
    CLEANED_SUFFIX,
    COMPACTED_FILES,
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LEADER_EPOCH_CHECKPOINT,
    LOG_SUFFIX,
    PARTITION_METADATA,
    SEGMENT_SUFFIXES,
    SNAPSHOT_SUFFIX,
    SWAP_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    offset_file,
    parse_offset_file,
    partition_directory,
)
from odradek.storage.leader_epochs import LeaderEpochs
from odradek.storage.local_log import LocalLog, write_topic_id
from odradek.storage.log import Log
from odradek.storage.log_directory import LogDirectory
from odradek.storage.producer_state import ProducerStates
from odradek.storage.segment import Segment
from odradek.storage.segment_recovery import RecoveredState, recover_segment
from odradek.storage.segments import MAX_RELATIVE_OFFSET, empty_segment, rename_to_deleted
from odradek.storage.snapshots import (
    drop_snapshots,
    rebuild_producers,
    snapshot_offsets,
    write_snapshot,
)
from odradek.storage.text_files import (
    MalformedCheckpoint,
    decode_partition_metadata,
)
from odradek.storage.transaction_index import AbortedTransactions, CorruptTransactionIndex, rewrite
from odradek.world import World

logger = logging.getLogger("odradek.storage")


def create_log(
    topic_partition: TopicPartition,
    topic_id: TopicId,
    directory: LogDirectory,
    settings: TopicSettings,
    world: World,
) -> Log:
    """Makes a new, empty log: a directory with `partition.metadata`. The first append makes the
    first segment."""
    path = f"{directory.path}/{partition_directory(topic_partition)}"
    directory.disk.make_directories(path)
    write_topic_id(directory.disk, path, topic_id)
    segment = empty_segment(path, FIRST_OFFSET, directory, world.clock.now_ms())
    local = LocalLog(topic_partition, directory, settings, world, segments=[segment])
    local.entries.create_partition(directory.add_name())
    return Log(topic_id, local, world)


class LogLoader:
    """Loads one log: make an object, and call `load` once."""

    __slots__ = (
        "_aborted",
        "_directory",
        "_disk",
        "_epochs",
        "_gaps_allowed_below",
        "_names",
        "_pages_survived",
        "_path",
        "_recovered",
        "_settings",
        "_topic_partition",
        "_world",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        directory: LogDirectory,
        settings: TopicSettings,
        world: World,
    ) -> None:
        self._topic_partition = topic_partition
        self._directory = directory
        self._disk = directory.disk
        self._settings = settings
        self._world = world
        self._path = f"{directory.path}/{partition_directory(topic_partition)}"
        self._names: set[str] = set()
        self._pages_survived = False
        self._gaps_allowed_below: Offset | None = None
        self._epochs = LeaderEpochs()
        self._aborted = AbortedTransactions()
        # Segments that were read batch by batch and are possibly not durable.
        self._recovered: list[Segment] = []

    def load(
        self,
        *,
        recovery_point: Offset,
        log_start_offset: Offset,
        is_clean: bool,
        pages_survived: bool = False,
        gaps_allowed_below: Offset | None = None,
    ) -> Log:
        """The offsets are those of the checkpoint files, 0 if the partition has no entry there.

        `pages_survived` says that the operating system was not booted since the log was last used,
        so that everything that was written is there. Compaction may have left gaps between segments
        below `gaps_allowed_below`; None if that is not known.
        """
        self._gaps_allowed_below = gaps_allowed_below
        self._names = set(self._disk.list_directory(self._path))
        self._remove_leftovers()
        self._epochs = self._read_epochs()
        segments = self._find_segments()
        snapshots = snapshot_offsets(sorted(self._names))
        if is_clean:
            producers = self._load_clean(segments, snapshots)
        else:
            self._pages_survived = pages_survived
            producers = self._recover(segments, snapshots, recovery_point)
        log_end_offset = segments[-1].next_offset if segments else log_start_offset
        if log_start_offset > log_end_offset and self._pages_survived and segments:
            self._warn_of_log_start(log_start_offset, log_end_offset)
            log_start_offset = FIRST_OFFSET
        if log_start_offset > log_end_offset:
            # DeleteRecords made the start durable before the records were: all that is left lies
            # below the log start.
            self._remove_segments(segments)
            segments, producers = [], ProducerStates(log_start_offset)
            self._aborted.clear()
        if not segments:
            self._epochs.clear()
            segments = [self._empty_segment(log_start_offset)]
            if log_start_offset:
                segments[0].create_file()
        log_start_offset = max(log_start_offset, segments[0].base_offset)
        log_end_offset = max(segments[-1].next_offset, log_start_offset)
        producers.end_offset = log_end_offset
        self._epochs.truncate_from_end(log_end_offset)
        self._epochs.truncate_from_start(log_start_offset)
        self._drop_stray_snapshots(snapshots, segments, log_end_offset)
        local = LocalLog(
            self._topic_partition,
            self._directory,
            self._settings,
            self._world,
            segments=segments,
            log_start_offset=log_start_offset,
            recovery_point=recovery_point if self._recovered else log_end_offset,
            leader_epochs=self._epochs,
            producers=producers,
            aborted=self._aborted,
        )
        if self._recovered:
            local.history.note(
                f"recovered from {recovery_point}: {local.offsets!r} in {len(segments)} segments"
            )
            local.flusher.adopt([segment for segment in self._recovered if not segment.is_active])
            # It is not known what the last process had synced.
            local.entries.write_topic_id()
        return Log(self._read_topic_id(), local, self._world)

    def _warn_of_log_start(self, log_start_offset: Offset, log_end_offset: Offset) -> None:
        """A log never starts above its end, and no record is missing: the checkpoint is wrong."""
        logger.warning(
            "%s: the log start checkpoint says %d, but the log ends at %d; it is not used",
            self._topic_partition,
            log_start_offset,
            log_end_offset,
        )

    # Reading files

    def _read_topic_id(self) -> TopicId:
        if PARTITION_METADATA not in self._names:
            return NO_TOPIC_ID
        try:
            return decode_partition_metadata(self._disk.read(f"{self._path}/{PARTITION_METADATA}"))
        except MalformedCheckpoint:
            return NO_TOPIC_ID

    def _read_epochs(self) -> LeaderEpochs:
        """A damaged checkpoint is treated as missing: recovery reads epochs from the batches."""
        if LEADER_EPOCH_CHECKPOINT not in self._names:
            return LeaderEpochs()
        try:
            return LeaderEpochs.decode(self._disk.read(f"{self._path}/{LEADER_EPOCH_CHECKPOINT}"))
        except (StorageError, ValueError):
            return LeaderEpochs()

    def _find_segments(self) -> list[Segment]:
        segments = []
        now_ms = self._world.clock.now_ms()
        for name in sorted(self._names):
            found = parse_offset_file(name)
            if found is None:
                continue
            offset, suffix = found
            if suffix == LOG_SUFFIX:
                size = self._disk.size(f"{self._path}/{name}")
                stores = self._directory.stores
                segment = Segment(self._path, offset, stores, created_ms=now_ms, size=size)
                segments.append(segment)
            elif suffix in SEGMENT_SUFFIXES and f"{offset:020d}{LOG_SUFFIX}" not in self._names:
                self._remove(name)  # An index without a segment.
        for segment in segments[:-1]:
            segment.is_active = False
        return segments

    def _empty_segment(self, base_offset: Offset) -> Segment:
        now_ms = self._world.clock.now_ms()
        return empty_segment(self._path, base_offset, self._directory, now_ms)

    # After a clean shutdown

    def _load_clean(self, segments: list[Segment], snapshots: Sequence[Offset]) -> ProducerStates:
        for segment in segments:
            if segment.size and f"{segment.base_offset:020d}{INDEX_SUFFIX}" not in self._names:
                return self._recover(segments, snapshots, segment.base_offset)
        if not segments:
            return ProducerStates()
        damaged = self._read_aborted(segments)
        if damaged is not None:
            return self._recover(segments, snapshots, segments[damaged].base_offset)
        active = segments[-1]
        try:
            active.set_end(active.find_next_offset())
        except CorruptLog:
            return self._recover(segments, snapshots, active.base_offset)
        active.file.close()
        return self._producers(segments, snapshots, active.next_offset)

    def _producers(
        self, segments: list[Segment], snapshots: Sequence[Offset], end_offset: Offset
    ) -> ProducerStates:
        return rebuild_producers(self._disk, self._path, segments, end_offset, offsets=snapshots)

    def _read_aborted(self, segments: Sequence[Segment]) -> int | None:
        """Reads the transaction indexes. Returns the number of the first segment whose index is
        damaged, or None."""
        self._aborted.clear()
        for number, segment in enumerate(segments):
            if f"{segment.base_offset:020d}{TRANSACTION_INDEX_SUFFIX}" in self._names:
                path = offset_file(self._path, segment.base_offset, TRANSACTION_INDEX_SUFFIX)
                try:
                    self._aborted.load(self._disk.read(path))
                except CorruptTransactionIndex:
                    self._aborted.drop_from(segment.base_offset)
                    return number
        return None

    # After a crash

    def _recover(
        self, segments: list[Segment], snapshots: Sequence[Offset], recovery_point: Offset
    ) -> ProducerStates:
        """Reads every segment that reaches beyond the recovery point, and always the last one."""
        if not segments:
            return ProducerStates()
        first = self._first_to_read(segments, recovery_point)
        first_base = segments[first].base_offset
        producers = self._producers(segments[:first], snapshots, first_base)
        # A snapshot of a higher offset may contain records that have been truncated since.
        drop_snapshots(self._disk, self._path, above=first_base)
        # The same is true of leader epochs with a higher start offset. The epochs below are
        # durable: their file is synced before the records.
        self._epochs.truncate_from_end(first_base)
        state = RecoveredState(
            self._epochs,
            producers,
            self._aborted,
            epochs_checked_from=None if self._pages_survived else recovery_point,
        )
        for number in range(first, len(segments)):
            segment = segments[number]
            end_offset = self._max_end_offset(segments, number, recovery_point)
            is_whole = recover_segment(segment, state, self._settings, end_offset=end_offset)
            index = self._aborted.encode(segment.base_offset, segment.next_offset)
            rewrite(self._disk, self._path, segment.base_offset, index)
            self._recovered.append(segment)
            if not is_whole or self._lacks_records(segments, number, recovery_point):
                segment.indexes.write()
                self._end_before(
                    segments, number + 1, "the records after it were damaged or incomplete"
                )
                break
            if number + 1 < len(segments):
                write_snapshot(self._disk, self._path, producers, segments[number + 1].base_offset)
        if f"{segments[-1].base_offset:020d}{INDEX_SUFFIX}" in self._names:
            segments[-1].indexes.write()  # The files may have entries of truncated batches.
        for segment in segments[:-1]:
            segment.is_active = False
        for segment in self._recovered:
            if not segment.is_active:
                segment.finish()
                segment.close_for_appends()
            segment.file.close()
        return producers

    def _first_to_read(self, segments: list[Segment], recovery_point: Offset) -> int:
        """The number of the first segment that is possibly not durable or not complete."""
        bases = [segment.base_offset for segment in segments]
        first = min(max(bisect_right(bases, recovery_point) - 1, 0), len(segments) - 1)
        for number, segment in enumerate(segments[:first]):
            if segment.size and f"{segment.base_offset:020d}{INDEX_SUFFIX}" not in self._names:
                first = number
                break
        damaged = self._read_aborted(segments[:first])
        return first if damaged is None else damaged

    def _end_before(self, segments: list[Segment], number: int, reason: str) -> None:
        """Ends the log with the segment before this one, and removes all others."""
        logger.warning(
            "%s: the log ends at offset %d now; %s",
            self._topic_partition,
            segments[number - 1].next_offset,
            reason,
        )
        self._remove_segments(segments[number:])
        del segments[number:]

    def _max_end_offset(
        self, segments: list[Segment], number: int, recovery_point: Offset
    ) -> Offset | None:
        """The offset at which a segment must end because the next one begins there.

        Two segments overlap when a power cut undid a truncation: the truncated end, or a removed
        segment, exists again. No record after that offset was flushed, because a flush makes the
        truncation durable first. So the log may end there, whichever segment is outdated.
        """
        if self._pages_survived or number + 1 == len(segments):
            return None
        next_base = segments[number + 1].base_offset
        return next_base if next_base >= recovery_point else None

    def _lacks_records(self, segments: list[Segment], number: int, recovery_point: Offset) -> bool:
        """Returns whether a power cut removed the end of a segment, or segments after it, and left
        the next one.

        A segment that lost whole batches at its end looks valid, but the next one begins where it
        ended when it was closed. Flushed records are never given up. Below the offset that is given
        to `load`, and if that is unknown anywhere in a compacted log, a gap is no sign of a loss.
        """
        if self._pages_survived or number + 1 == len(segments):
            return False
        if self._gaps_allowed_below is None and self._settings.is_compacted:
            return False
        flushed = max(recovery_point, self._gaps_allowed_below or FIRST_OFFSET)
        end, next_base = segments[number].next_offset, segments[number + 1].base_offset
        # A follower leaves a gap of its own where the leader's next batch is too far for an index.
        return next_base > max(end, flushed) and next_base - end <= MAX_RELATIVE_OFFSET // 2

    # Removing files

    def _remove(self, name: str) -> None:
        self._names.discard(name)
        self._disk.remove(f"{self._path}/{name}")

    def _remove_segments(self, segments: Sequence[Segment]) -> None:
        """Removes the last segment first: a crash in between leaves a log without a gap."""
        for segment in reversed(segments):
            for path in rename_to_deleted(self._disk, segment):
                self._disk.remove(path)

    def _remove_leftovers(self) -> None:
        """Completes deletions, and replacements of segments by compacted ones, that a crash
        interrupted."""
        swaps: list[str] = []
        cleaned: list[str] = []
        for name in sorted(self._names):
            if name.endswith((DELETED_SUFFIX, CLEANED_SUFFIX, ".tmp")):
                self._remove(name)
                if name.endswith(CLEANED_SUFFIX):
                    cleaned.append(name)
            elif name.endswith(SWAP_SUFFIX):
                swaps.append(name)
        committed = [name for name in swaps if self._is_committed(name, swaps, cleaned)]
        for name in swaps:
            if name not in committed:
                self._remove(name)
        for name in committed:
            found = parse_offset_file(name.removesuffix(SWAP_SUFFIX))
            if found is not None and found[1] == LOG_SUFFIX:
                self._remove_replaced(found[0])
        for name in sorted(committed, key=lambda name: LOG_SUFFIX in name):
            final = name.removesuffix(SWAP_SUFFIX)
            self._disk.rename(f"{self._path}/{name}", f"{self._path}/{final}")
            self._names.discard(name)
            self._names.add(final)

    def _is_committed(self, name: str, swaps: Sequence[str], cleaned: Sequence[str]) -> bool:
        """Returns whether a `.swap` file belongs to a compacted segment that replaces others.

        That is so once all its files were renamed to `.swap`, so that no `.cleaned` file is left.
        Then its `.log` is a `.swap` file as well; or, because Kafka renames the `.log` first, the
        `.log` has its final name already and this file has not.
        """
        base = name[:20]
        if any(other[:20] <= base for other in cleaned):
            return False
        if base + LOG_SUFFIX + SWAP_SUFFIX in swaps:
            return True
        final = name.removesuffix(SWAP_SUFFIX)
        return base + LOG_SUFFIX in self._names and final not in self._names

    def _remove_replaced(self, base_offset: Offset) -> None:
        """Removes the segments that a compacted segment, still named `.swap`, replaces."""
        path = offset_file(self._path, base_offset, LOG_SUFFIX) + SWAP_SUFFIX
        swap = self._empty_segment(base_offset)
        swap.file.path = path
        swap.size = self._disk.size(path)
        next_offset = base_offset
        for _, header in swap.headers(0):
            next_offset = header.next_offset
        swap.file.close()
        kept_suffixes = (*COMPACTED_FILES, SNAPSHOT_SUFFIX)
        for name in sorted(self._names):
            found = parse_offset_file(name)
            if found is None or not base_offset <= found[0] < max(next_offset, base_offset + 1):
                continue
            # Files of its own base offset are replaced by name, or have been already.
            if found[0] > base_offset or found[1] not in kept_suffixes:
                self._remove(name)

    def _drop_stray_snapshots(
        self, snapshots: Sequence[Offset], segments: list[Segment], log_end_offset: Offset
    ) -> None:
        """Keeps the snapshots at base offsets of segments, and the newest one within the log."""
        usable = [offset for offset in snapshots if offset <= log_end_offset]
        keep = {segment.base_offset for segment in segments} | set(usable[-1:])
        for offset in snapshots:
            if offset > log_end_offset or offset not in keep:
                path = offset_file(self._path, offset, SNAPSHOT_SUFFIX)
                if self._disk.exists(path):
                    self._disk.remove(path)
