"""The key index of one log: which offsets may have a key.

It is a list of runs (`run`). Each covers a range of committed offsets. `KeyIndexes` has them made
by a worker (`run_builder`). Between and after the runs are gaps: records that were appended since,
or are not indexed yet. A look-up goes from the newest offset downwards. It searches runs, reads the
log in gaps, and returns the first visible record that has the key.

Only committed records are indexed, so a run stays valid while its records are in the log. If the
log was truncated below the end of a run (after an unclean election or a power cut), the records
that were appended since have a later leader epoch. So a run is valid if and only if its last offset
still has the leader epoch that it had. Replicas compare their logs in the same way. If a run is
valid, all runs before it are.

Appends do not use the index, and it can always be made again from the log.

Invariant: runs do not overlap and are in the order of their offsets.
"""

import asyncio
import logging
from bisect import bisect_left
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from odradek.invariants import InvariantViolation
from odradek.protocol.types import Offset
from odradek.storage.file_names import DELETED_SUFFIX
from odradek.storage.key_index.run import (
    KEYS_SUFFIX,
    MAX_SPAN,
    UNFINISHED_SUFFIX,
    DamagedRun,
    Run,
    RunHeader,
    hash_of,
    parse_run_name,
    run_name,
)
from odradek.storage.key_index.run_builder import FileRange, IndexJob, Job, MergeJob
from odradek.storage.key_index.search import BatchReader, BytesRead, FoundRecord, Search
from odradek.world import World

if TYPE_CHECKING:
    from odradek.storage.log import Log
    from odradek.storage.segment import Segment

_logger = logging.getLogger("odradek.storage")

# Four runs of similar size are merged, up to this number of entries: 128 MB.
_MERGED: Final = 4
_MAX_ENTRIES: Final = 1 << 24
# After so many entries whose records are gone, a look-up yields to other tasks.
_TRIES_A_TURN: Final = 32
# Gaps larger than this are read by one look-up at a time.
_LONG_SCAN_BYTES: Final = 4 << 20


class KeyIndexLimits(NamedTuple):
    # The end of the log is indexed when it has so many bytes; until then every look-up reads it.
    min_bytes: int = 1 << 20
    # The limits of a job: bytes of log, and entries.
    job_bytes: int = 64 << 20
    job_entries: int = 1 << 22


DEFAULT_LIMITS: Final = KeyIndexLimits()


class KeyIndex:
    """Invariant: every run in `runs` has a complete file of its name."""

    __slots__ = (
        "_batch_reader",
        "_disk",
        "_limits",
        "_scanning",
        "_workers",
        "asked_s",
        "log",
        "runs",
    )

    def __init__(self, log: "Log", world: World, limits: KeyIndexLimits = DEFAULT_LIMITS) -> None:
        self.log = log
        self._limits = limits
        self._disk = log.directory.disk
        self._workers = world.workers
        self._batch_reader = BatchReader(world.workers)
        self._scanning = asyncio.Lock()
        # When it was last asked, by the monotonic clock.
        self.asked_s = 0.0
        self.runs: list[Run] = []
        self._load()

    def __repr__(self) -> str:
        return f"KeyIndex({self.log.path}, {len(self.runs)} runs)"

    def _load(self) -> None:
        """Loads the runs of a previous run of the broker. Of two that overlap, the wider one."""
        found: list[tuple[int, int, str]] = []
        for name in self._disk.list_directory(self.log.path):
            span = parse_run_name(name)
            if span is not None:
                found.append((span[0], -span[1], name))
            elif name.endswith((KEYS_SUFFIX + UNFINISHED_SUFFIX, KEYS_SUFFIX + DELETED_SUFFIX)):
                self._disk.remove(f"{self.log.path}/{name}")
        for first_offset, _, name in sorted(found):
            path = f"{self.log.path}/{name}"
            try:
                run = Run.open(self._disk, path)
            except DamagedRun:
                self._disk.remove(path)
                continue
            if self.runs and first_offset < self.runs[-1].header.next_offset:
                self._disk.remove(path)
            else:
                self.runs.append(run)

    # Validity

    def drop_invalid(self) -> None:
        """Drops runs of records that were truncated, and runs below the log start."""
        log, runs = self.log, self.runs
        while runs and not self._is_valid(runs[-1].header):
            _logger.info("%s: the log was truncated below it", runs[-1].path)
            self._discard(runs.pop())
        while runs and runs[0].header.next_offset <= log.log_start_offset:
            self._discard(runs.pop(0))

    def _is_valid(self, header: RunHeader) -> bool:
        return (
            header.next_offset <= self.log.log_end_offset
            and self.log.leader_epochs.epoch_for(Offset(header.next_offset - 1))
            == header.leader_epoch
        )

    def _discard(self, run: Run) -> None:
        """Deletes the file of a run later. It is renamed first: a new run may get the same name."""
        gone = run.path + DELETED_SUFFIX
        try:
            self._disk.rename(run.path, gone)
        except FileNotFoundError:
            return
        self.log.directory.delete_later(0.0, partial(self._disk.remove, gone))

    def _run_below(self, offset: Offset) -> Run | None:
        """The last run that begins below an offset."""
        number = bisect_left(self.runs, offset, key=lambda run: run.header.first_offset)
        return self.runs[number - 1] if number else None

    # Looking up

    async def look_up(
        self, key: bytes, *, end_offset: Offset, committed_only: bool, read: BytesRead
    ) -> FoundRecord | None:
        """The newest record of a key below an offset; raises `StorageError`."""
        search = Search(
            self.log,
            key,
            end_offset=end_offset,
            committed_only=committed_only,
            read=read,
            batch_reader=self._batch_reader,
        )
        try:
            self.drop_invalid()
            return await self._search_below(end_offset, search, key)
        except OSError as error:
            raise self.log.directory.fail(error) from error

    async def _search_below(self, upper: Offset, search: Search, key: bytes) -> FoundRecord | None:
        log = self.log
        while upper > log.log_start_offset:
            log.require_usable()
            run = self._run_below(upper)
            if run is not None and run.header.next_offset >= upper:
                found = await self._ask(run, search, key, upper)
                if run in self.runs:
                    upper = run.header.first_offset
            else:
                lower = log.log_start_offset if run is None else run.header.next_offset
                lower = max(lower, log.log_start_offset)
                found, upper = await self._read_gap(search, lower, upper)
            if found is not None:
                return found
        return None

    async def _ask(self, run: Run, search: Search, key: bytes, upper: Offset) -> FoundRecord | None:
        try:
            file = self._disk.open(run.path, writable=False)
        except FileNotFoundError:
            self._forget(run)
            return None
        try:
            tries = 0
            for offset in run.offsets(file, hash_of(key), search.read):
                if offset >= upper:
                    continue
                if offset < self.log.log_start_offset:
                    break
                found = await search.find_at(offset)
                if found is not None:
                    return found
                tries += 1
                if tries % _TRIES_A_TURN == 0:
                    await asyncio.sleep(0)
        except DamagedRun as error:
            _logger.warning("%s; it will be made anew", error)
            self._forget(run)
        finally:
            file.close()
        return None

    def _forget(self, run: Run) -> None:
        if run in self.runs:
            self.runs.remove(run)
            self._discard(run)

    async def _read_gap(
        self, search: Search, lower: Offset, upper: Offset
    ) -> tuple[FoundRecord | None, Offset]:
        """Reads the log downwards from `upper`, at least one chunk. Returns the record, if it was
        found, and the offset that was reached."""
        if self._bytes_between(lower, upper) <= _LONG_SCAN_BYTES:
            while upper > lower:
                found, upper = await self._read_chunk(search, lower, upper)
                if found is not None:
                    return found, upper
            return None, upper
        # One look-up at a time: when the next one gets the lock there may be an index.
        async with self._scanning:
            for _ in range(64):
                chunk = search.chunk_below(upper, lower)
                if isinstance(chunk, int):
                    upper = chunk
                else:
                    batches = chunk.batches
                    try:
                        content = await self._workers.run_blocking(
                            partial(batches.read, 0, len(batches))
                        )
                    finally:
                        batches.release()
                    found = await search.among(chunk, content)
                    upper = chunk.first_offset
                    if found is not None:
                        return found, upper
                if upper <= lower:
                    break
        return None, upper

    @staticmethod
    async def _read_chunk(
        search: Search, lower: Offset, upper: Offset
    ) -> tuple[FoundRecord | None, Offset]:
        chunk = search.chunk_below(upper, lower)
        if isinstance(chunk, int):
            return None, chunk
        try:
            content = chunk.batches.read(0, len(chunk.batches))
        finally:
            chunk.batches.release()
        return await search.among(chunk, content), chunk.first_offset

    # Jobs

    def gaps(self, end_offset: Offset) -> list[tuple[Offset, Offset]]:
        """The ranges of offsets below `end_offset` that no run covers."""
        edges = [self.log.log_start_offset]
        for run in self.runs:
            edges += (run.header.first_offset, run.header.next_offset)
        edges.append(end_offset)
        pairs = zip(edges[0::2], edges[1::2], strict=True)
        return [(lower, min(upper, end_offset)) for lower, upper in pairs if lower < upper]

    def unindexed_bytes(self) -> int:
        return sum(
            self._bytes_between(lower, upper) for lower, upper in self.gaps(self.log.high_watermark)
        )

    def next_job(self) -> Job | None:
        """The next job that would make look-ups faster; None if there is none."""
        self.log.require_usable()
        self.drop_invalid()
        return self._merge_job() or self._index_job() or self._shrink_job()

    def _merge_job(self) -> MergeJob | None:
        group: list[Run] = []
        largest = total = 0
        for run in reversed(self.runs):
            header = run.header
            if group and (
                header.entries > 2 * largest
                or total + header.entries > _MAX_ENTRIES
                or header.next_offset != group[-1].header.first_offset
                or group[0].header.next_offset - header.first_offset > MAX_SPAN
            ):
                break
            group.append(run)
            largest = max(largest, header.entries)
            total += header.entries
        if len(group) < _MERGED:
            return None
        return MergeJob(self.log.path, tuple(run.path for run in reversed(group)))

    def _index_job(self) -> IndexJob | None:
        end_offset = self.log.high_watermark
        for lower, upper in self.gaps(end_offset):
            is_tail = upper == end_offset
            if not is_tail or self._bytes_between(lower, upper) >= self._limits.min_bytes:
                return self._job(lower, upper, self._limits.job_bytes, self._limits.job_entries)
        return None

    def _shrink_job(self) -> IndexJob | None:
        """Makes a run again if compaction has removed most of its records: look-ups would try many
        entries in vain."""
        for run in self.runs:
            first, upto = run.header.first_offset, run.header.next_offset
            if run.header.log_bytes < self._limits.min_bytes:
                continue
            if 2 * self._bytes_between(first, upto) < run.header.log_bytes:
                return self._job(first, upto, run.header.log_bytes, _MAX_ENTRIES)
        return None

    def _job(self, lower: Offset, upper: Offset, max_bytes: int, max_entries: int) -> IndexJob:
        """A job that indexes a range of offsets, or the beginning of it."""
        ranges: list[FileRange] = []
        first_offset, left = lower, max_bytes
        for segment in self._segments_between(lower, upper):
            start, end = segment.locate(lower), segment.locate(upper)
            if not ranges and start < end:
                # The log may start within a batch.
                first_offset = min(lower, _offset_at(segment.offset_at(start), lower))
            if end - start > left:
                cut = segment.index.batch_start_below(start + left)
                if cut > start or ranges:
                    end = max(cut, start)
                    upper = _offset_at(segment.offset_at(end), upper)
            elif end < segment.size:
                # A batch that reaches beyond is only partly committed.
                upper = min(upper, _offset_at(segment.offset_at(end), upper))
            if end > start:
                ranges.append(FileRange(segment.base_offset, start, end))
            left -= end - start
            if end < segment.size:
                break
        epochs = self.log.leader_epochs
        return IndexJob(
            self.log.path,
            first_offset,
            upper,
            tuple(ranges),
            tuple(epochs.epochs),
            tuple(epochs.start_offsets),
            max_entries,
        )

    def adopt(self, header: RunHeader) -> None:
        """Adds the run that a job has made, and drops the runs that it covers."""
        name = run_name(header.first_offset, header.next_offset)
        path = f"{self.log.path}/{name}"
        made = Run.open(self._disk, path + UNFINISHED_SUFFIX)
        covered = [
            run
            for run in self.runs
            if header.first_offset < run.header.next_offset
            and run.header.first_offset < header.next_offset
        ]
        for run in covered:
            self.runs.remove(run)
            self._discard(run)
        self._disk.rename(path + UNFINISHED_SUFFIX, path)
        made.path = path
        self.runs.append(made)
        self.runs.sort(key=lambda run: run.header.first_offset)
        self.check()
        self.drop_invalid()

    def check(self) -> None:
        """Raises `InvariantViolation` if runs overlap."""
        for run, following in pairwise(self.runs):
            if run.header.next_offset > following.header.first_offset:
                raise InvariantViolation(
                    self.log.path, f"{run.path} and {following.path} overlap in the key index"
                )

    def distrust(self, job: Job) -> None:
        """A job has found a damaged run: the runs that it was to merge are made again."""
        if isinstance(job, MergeJob):
            for run in [run for run in self.runs if run.path in job.paths]:
                self._forget(run)

    # The log

    def _segments_between(self, lower: Offset, upper: Offset) -> Sequence["Segment"]:
        segments = self.log.segments
        first = bisect_left(segments, lower, key=lambda segment: segment.base_offset)
        if first == len(segments) or segments[first].base_offset > lower:
            first = max(first - 1, 0)
        last = bisect_left(segments, upper, key=lambda segment: segment.base_offset)
        return segments[first:last]

    def _bytes_between(self, lower: Offset, upper: Offset) -> int:
        """How much of the log two offsets enclose."""
        segments = self._segments_between(lower, upper)
        if not segments:
            return 0
        total = sum(segment.size for segment in segments[:-1]) + segments[-1].locate(upper)
        return total - segments[0].locate(lower)


def _offset_at(found: Offset | None, otherwise: Offset) -> Offset:
    return otherwise if found is None else found
