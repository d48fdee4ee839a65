"""One compaction pass over the closed segments of a log. It runs in a worker process.

1. The dirty part of the log is read, and the newest offset of each key is put into the key map,
   until that is full.
2. Every segment up to that offset is rewritten. In the dirty part exactly the records stay whose
   offsets are in the map. So a batch without such an offset is removed without decompressing it,
   and a batch of which all records stay is copied. In the clean part a record stays if its key is
   not in the map.

Tombstones and markers stay for `delete.retention.ms` after the pass that saw them first; that time
is written into their batch (the delete horizon, KIP-534). That time begins, and they are removed,
only in passes in which every replica of the partition has them: see `LogCleaner`. Offsets and their
order never change. The last batch of each producer stays, without records if necessary.

Invariant: the segment of a group is finished and synced before it is reported. Groups are rewritten
in the order of the log, so a value is removed before the tombstone that deleted it.
"""

from array import array
from bisect import bisect_left
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import compress
from typing import Any

from odradek.protocol.batch_rewriting import with_records, without_records
from odradek.protocol.record_scan import ScannedRecord, record_bounds, scan_keys, scan_records
from odradek.protocol.records import BatchHeader, Buffer, MalformedRecords
from odradek.protocol.types import Offset
from odradek.storage.compaction.cleanable import group_segments
from odradek.storage.compaction.cleaned_segment import CleanedSegment
from odradek.storage.compaction.cleaned_transactions import CleanedTransactions
from odradek.storage.compaction.job import Job, Message, Outcome, Replacement, read_job
from odradek.storage.compaction.key_map import KeyMap, make_key_map
from odradek.storage.compaction.segment_reader import Chunk, payload, read_chunks
from odradek.storage.file_names import INDEX_SUFFIX, LOG_SUFFIX, offset_file
from odradek.storage.worker_disk import disk_for_worker
from odradek.world.clock import Clock
from odradek.world.disk import Disk

_MIN_CHUNK_BYTES = 64 * 1024

Steps = Generator[Message, None, None]


def compact(
    disk: Disk, clock: Clock, message: Mapping[str, Any]
) -> Generator[Message, None, Message]:
    """Runs in the worker; `job` describes what it yields and returns."""
    job = read_job(message)
    disk = disk_for_worker(disk, job.encryption)
    compaction = Compaction(disk, clock, job, make_key_map(job.key_map_bytes))
    yield from compaction.run()
    return compaction.outcome.as_message()


class Compaction:
    __slots__ = (
        "_clock",
        "_disk",
        "_job",
        "_keys",
        "_pace",
        "_path",
        "_producers",
        "_survivors",
        "_transactions",
        "_unreadable",
        "outcome",
    )

    def __init__(self, disk: Disk, clock: Clock, job: Job, keys: KeyMap) -> None:
        self._disk = disk
        self._clock = clock
        self._job = job
        self._keys = keys
        self._pace = _Pace(clock, job.max_bytes_per_second)
        self._transactions = CleanedTransactions(job.aborted)
        self._producers = {entry[0]: (entry[1], entry[2]) for entry in job.producers}
        self._survivors: array[int] = array("q")
        self._path = job.directory
        # Base offsets of batches whose records cannot be read.
        self._unreadable: set[Offset] = set()
        self.outcome = Outcome(end_offset=job.end_offset, key_map=type(keys).__name__)

    def run(self) -> Steps:
        started_s = self._clock.monotonic_s()
        yield from self._note_keys()
        noted_s = self._clock.monotonic_s()
        self.outcome.index_s = noted_s - started_s
        self._survivors = self._keys.values()
        self.outcome.keys = len(self._survivors)
        for group in self._groups():
            yield from self._rewrite(group)
        self.outcome.clean_s = self._clock.monotonic_s() - noted_s
        self.outcome.paused_s = self._pace.paused_s

    def _chunks(self, base_offset: Offset, size: int) -> Iterator[tuple[int, Chunk]]:
        self._path = path = offset_file(self._job.directory, base_offset, LOG_SUFFIX)
        file = self._disk.open(path, writable=False)
        try:
            yield from read_chunks(
                file, path, size, max(self._job.io_buffer_bytes, _MIN_CHUNK_BYTES)
            )
        finally:
            file.close()

    def _keep_unreadable(self, header: BatchHeader) -> None:
        """The records of a batch cannot be read although its checksum is valid: a producer sent it
        like this. The batch stays as it is, and supersedes no other record."""
        if header.base_offset not in self._unreadable:
            self._unreadable.add(header.base_offset)
            self.outcome.unreadable += 1
            if self.outcome.first_unreadable < 0:
                self.outcome.first_unreadable = header.base_offset

    # Noting keys

    def _note_keys(self) -> Steps:
        """Puts the newest offset of each key into the map, up to `end_offset` if it gets full."""
        job, outcome = self._job, self.outcome
        transactions, has_noted = CleanedTransactions(job.aborted), False
        for number, (base_offset, size) in enumerate(job.segments):
            if self._end_after(number) <= job.first_dirty_offset:
                continue
            for used, chunk in self._chunks(base_offset, size):
                for header, batch in chunk:
                    if header.last_offset < job.first_dirty_offset:
                        continue
                    # The first batch is always added: else no pass would make progress.
                    if has_noted and not self._keys.has_room(header.record_count):
                        outcome.end_offset = header.base_offset
                        return
                    if not _supersedes_nothing(transactions, header, batch):
                        self._note_batch(header, batch)
                        has_noted = True
                outcome.bytes_indexed += used
                yield self._pace.step(used, "indexing", outcome)

    def _note_batch(self, header: BatchHeader, batch: memoryview) -> None:
        first, count = header.base_offset, header.record_count
        try:
            data = payload(header, batch)
            if count == header.last_offset_delta + 1 and first >= self._job.first_dirty_offset:
                keys, tombstones = scan_keys(data, count)
                values: Sequence[int] = range(2 * first, 2 * (first + count), 2)
            else:
                records = [
                    record
                    for record in scan_records(data, count)
                    if first + record.offset_delta >= self._job.first_dirty_offset
                ]
                keys = [record.key for record in records]
                tombstones = [i for i, record in enumerate(records) if record.is_tombstone]
                values = [2 * (first + record.offset_delta) for record in records]
        except MalformedRecords:
            self._keep_unreadable(header)
            return
        if tombstones:
            values = list(values)
            for number in tombstones:
                values[number] |= 1
        self._put(keys, values)

    def _put(self, keys: Sequence[bytes | None], values: Sequence[int]) -> None:
        if None in keys:
            # Records without a key were written before the topic was compacted. They are removed.
            has_key = [key is not None for key in keys]
            keys, values = list(compress(keys, has_key)), list(compress(values, has_key))
        if keys:
            self._keys.put(keys, values)  # type: ignore[arg-type]  # None was taken out

    # Rewriting

    def _groups(self) -> list[list[tuple[Offset, int]]]:
        job = self._job
        segments = [segment for segment in job.segments if segment[0] < self.outcome.end_offset]
        index_sizes = [self._index_size(base_offset) for base_offset, _ in segments]
        return group_segments(
            segments,
            index_sizes,
            end_offset=self._end_of(segments) if segments else job.end_offset,
            segment_bytes=job.segment_bytes,
            segment_index_bytes=job.segment_index_bytes,
        )

    def _index_size(self, base_offset: Offset) -> int:
        try:
            return self._disk.size(offset_file(self._job.directory, base_offset, INDEX_SUFFIX))
        except FileNotFoundError:
            return 0

    def _end_of(self, group: Sequence[tuple[Offset, int]]) -> Offset:
        """The base offset of the segment after a group of segments."""
        return self._end_after(bisect_left(self._job.segments, (group[-1][0], 0)))

    def _end_after(self, number: int) -> Offset:
        segments = self._job.segments
        return segments[number + 1][0] if number + 1 < len(segments) else self._job.end_offset

    def _rewrite(self, group: Sequence[tuple[Offset, int]]) -> Steps:
        job, outcome = self._job, self.outcome
        target = CleanedSegment(self._disk, job.directory, group[0][0], job.index_interval_bytes)
        end_offset = self._end_of(group)
        try:
            for base_offset, size in group:
                for used, chunk in self._chunks(base_offset, size):
                    before = target.size
                    self._rewrite_chunk(chunk, target)
                    target.write()
                    outcome.bytes_read += used
                    yield self._pace.step(used + target.size - before, "cleaning", outcome)
            aborted = self._transactions.take_kept() + [
                entry for entry in job.aborted if outcome.end_offset <= entry[2] < end_offset
            ]
            target.finish(aborted)
        finally:
            target.close()
        outcome.bytes_written += target.size
        yield Replacement(
            [base_offset for base_offset, _ in group],
            end_offset,
            target.size,
            target.next_offset,
            target.max_timestamp,
            target.max_timestamp_offset,
            aborted,
        ).as_message()

    def _rewrite_chunk(self, chunk: Chunk, target: CleanedSegment) -> None:
        scanned = self._scan_clean(chunk)
        for header, batch in chunk:
            self.outcome.records_read += header.record_count
            if header.base_offset >= self.outcome.end_offset:
                kept: Buffer | None = batch
            elif header.base_offset in self._unreadable:
                kept = batch
            elif header.is_control:
                kept = self._rewrite_control(header, batch)
            elif self._transactions.data(header):
                kept = None
            else:
                try:
                    kept = self._rewrite_data(header, batch, scanned.get(header.base_offset))
                except MalformedRecords:
                    self._keep_unreadable(header)
                    kept = batch
            if kept is None and self._must_stay(header):
                kept = without_records(header) if header.record_count else batch
            if kept is not None:
                count = header.record_count if kept is batch else _record_count(kept)
                self.outcome.records_kept += count
                max_timestamp = header.max_timestamp if kept is batch else _max_timestamp(kept)
                target.add(kept, header.last_offset, max_timestamp)

    def _must_stay(self, header: BatchHeader) -> bool:
        """Returns whether a batch stays even without records: the last batch of a producer, because
        it has the producer's last sequence number, and the last batch of the pass."""
        if header.next_offset == self._job.end_offset:
            return True
        known = self._producers.get(header.producer_id)
        if known is None:
            return False
        epoch, last_offset = known
        if last_offset >= 0:
            return header.last_offset == last_offset
        return header.is_control and header.producer_epoch == epoch

    def _rewrite_control(self, header: BatchHeader, batch: memoryview) -> Buffer | None:
        try:
            is_over = self._transactions.marker(header, batch)
        except MalformedRecords:
            self._keep_unreadable(header)
            return batch
        if not header.record_count:
            return None
        if not is_over:
            return batch
        if self._is_past_horizon(header):
            return None
        horizon_ms = self._new_horizon(header)
        if horizon_ms is None:
            return batch
        return with_records(header, [payload(header, batch)], horizon_ms)

    def _scan_clean(self, chunk: Chunk) -> dict[Offset, list[tuple[ScannedRecord, bool]]]:
        """The records of batches in the clean part, and whether a later record has the same key.

        For all batches of the chunk together: a look-up of many keys costs little more than of one.
        """
        found: list[tuple[Offset, list[ScannedRecord]]] = []
        for header, batch in chunk:
            if header.base_offset < self._job.first_dirty_offset and not header.is_control:
                try:
                    records = scan_records(payload(header, batch), header.record_count)
                except MalformedRecords:
                    self._keep_unreadable(header)
                    continue
                found.append((header.base_offset, records))
        if not found:
            return {}
        # A record without a key is removed in any case.
        asked = [record.key for _, records in found for record in records if record.key is not None]
        answers = iter(self._keys.contains(asked))
        return {
            base_offset: [(record, record.key is None or next(answers)) for record in records]
            for base_offset, records in found
        }

    def _rewrite_data(
        self,
        header: BatchHeader,
        batch: memoryview,
        scanned: list[tuple[ScannedRecord, bool]] | None,
    ) -> Buffer | None:
        if scanned is not None:
            return self._rewrite_scanned(header, batch, scanned)
        survivors = self._survivors
        first = bisect_left(survivors, 2 * header.base_offset)
        kept = survivors[first : bisect_left(survivors, 2 * header.next_offset)]
        if not kept:
            return None
        has_tombstones = any(value & 1 for value in kept)
        horizon_ms = self._new_horizon(header) if has_tombstones else None
        if has_tombstones and horizon_ms is None and self._is_past_horizon(header):
            kept = array("q", [value for value in kept if not value & 1])
            if not kept:
                return None
        if len(kept) == header.record_count and horizon_ms is None:
            return batch
        data = payload(header, batch)
        deltas = [(value >> 1) - header.base_offset for value in kept]
        if header.record_count == header.last_offset_delta + 1:
            bounds = record_bounds(data, deltas[-1] + 1)
            records = [data[bounds[delta] : bounds[delta + 1]] for delta in deltas]
        else:
            kept_deltas = set(deltas)
            records = [
                data[record.start : record.end]
                for record in scan_records(data, header.record_count)
                if record.offset_delta in kept_deltas
            ]
        return with_records(header, records, horizon_ms)

    def _rewrite_scanned(
        self,
        header: BatchHeader,
        batch: memoryview,
        scanned: list[tuple[ScannedRecord, bool]],
    ) -> Buffer | None:
        survivors, kept = self._survivors, []
        drops_tombstones = self._is_past_horizon(header)
        for record, comes_again in scanned:
            offset = header.base_offset + record.offset_delta
            if offset >= self._job.first_dirty_offset:
                # A batch across the border, as another broker's checkpoint may draw it.
                at = bisect_left(survivors, 2 * offset)
                stays = at < len(survivors) and survivors[at] >> 1 == offset
            else:
                stays = not comes_again
            if stays and not (record.is_tombstone and drops_tombstones):
                kept.append(record)
        if not kept:
            return None
        horizon_ms = None
        if any(record.is_tombstone for record in kept):
            horizon_ms = self._new_horizon(header)
        if len(kept) == header.record_count and horizon_ms is None:
            return batch
        data = payload(header, batch)
        return with_records(
            header, [data[record.start : record.end] for record in kept], horizon_ms
        )

    def _new_horizon(self, header: BatchHeader) -> int | None:
        """The delete horizon of a batch with tombstones or a marker; None if the batch has one
        already, or gets none in this pass."""
        if header.delete_horizon_ms is not None or not self._job.is_on_every_replica:
            return None
        return self._job.now_ms + self._job.delete_retention_ms

    def _is_past_horizon(self, header: BatchHeader) -> bool:
        """Returns whether the tombstones or the marker of a batch are removed now."""
        horizon_ms = header.delete_horizon_ms
        if horizon_ms is None or not self._job.is_on_every_replica:
            return False
        return horizon_ms <= self._job.now_ms


def _supersedes_nothing(
    transactions: CleanedTransactions, header: BatchHeader, batch: memoryview
) -> bool:
    """Returns whether a batch is a marker or belongs to an aborted transaction."""
    if header.is_control:
        with suppress(MalformedRecords):  # Then it stays.
            transactions.marker(header, batch)
        return True
    return transactions.data(header)


def _record_count(batch: Buffer) -> int:
    return int.from_bytes(batch[57:61], "big")


def _max_timestamp(batch: Buffer) -> int:
    return int.from_bytes(batch[35:43], "big", signed=True)


class _Pace:
    """Computes pauses that keep the whole pass below a number of bytes a second."""

    __slots__ = ("_bytes", "_clock", "_limit", "_started_s", "paused_s")

    def __init__(self, clock: Clock, bytes_per_second: float) -> None:
        self._clock = clock
        self._limit = bytes_per_second
        self._bytes = 0
        self._started_s = clock.monotonic_s()
        self.paused_s = 0.0

    def step(self, size: int, phase: str, outcome: Outcome) -> Message:
        self._bytes += size
        elapsed_s = self._clock.monotonic_s() - self._started_s
        pause_s = max(self._bytes / self._limit - elapsed_s, 0.0) if self._limit > 0 else 0.0
        self.paused_s += pause_s
        return {
            "phase": phase,
            "bytes": outcome.bytes_indexed + outcome.bytes_read,
            "pause_s": pause_s,
        }
