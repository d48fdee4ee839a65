"""The key index of one log: which offsets may hold a key, without reading the log.

It is a row of runs (`run`), each for a stretch of committed offsets, made by jobs
(`run_builder`) that somebody else carries out. Between and behind the runs are holes:
what was appended since, or is not indexed yet. A look-up goes from the newest offset downwards,
asks runs, reads holes, and takes the first visible record that really has the key.

Only committed records are indexed, so a run is true for as long as the log keeps them. A log
that was cut below one (an unclean election, a power cut) has written what follows in a later
leader epoch: a run is true if, and only if, its last offset still has the epoch that it had.
That is how replicas compare their logs too, and it holds for the runs before it as well.

Nothing here is on the way of a producer, and nothing is lost with the files.

Invariant: runs do not overlap, and rise.
"""

import asyncio
import logging
from bisect import bisect_left
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from odradek.invariants import InvariantViolation
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
from odradek.storage.key_index.run_builder import IndexJob, Job, MergeJob, Stretch
from odradek.storage.key_index.search import BesideTheLoop, BytesRead, FoundRecord, Search
from odradek.world import World

if TYPE_CHECKING:
    from odradek.storage.log import Log
    from odradek.storage.segment import Segment

_logger = logging.getLogger("odradek.storage")

# Four runs of like size become one, but none larger than this: 128 MB.
_MERGED: Final = 4
_MAX_ENTRIES: Final = 1 << 24
# Entries whose records are gone are tried before the requests of others get their turn.
_TRIES_A_TURN: Final = 32
# Beyond this, look-ups read holes one after the other.
_LONG_SCAN_BYTES: Final = 4 << 20


class KeyIndexLimits(NamedTuple):
    # So much of the newest may be read at each look-up before it is worth a run.
    min_bytes: int = 1 << 20
    # A job reads no more of the log than this, and takes no more entries than that.
    job_bytes: int = 64 << 20
    job_entries: int = 1 << 22


DEFAULT_LIMITS: Final = KeyIndexLimits()


class KeyIndex:
    """Invariant: every run in the row has a whole file of its name."""

    __slots__ = ("_beside", "_disk", "_limits", "_scanning", "_workers", "asked_s", "log", "runs")

    def __init__(self, log: "Log", world: World, limits: KeyIndexLimits = DEFAULT_LIMITS) -> None:
        self.log = log
        self._limits = limits
        self._disk = log.directory.disk
        self._workers = world.workers
        self._beside = BesideTheLoop(world.workers)
        self._scanning = asyncio.Lock()
        # When it was last asked, by the monotonic clock.
        self.asked_s = 0.0
        self.runs: list[Run] = []
        self._load()

    def __repr__(self) -> str:
        return f"KeyIndex({self.log.path}, {len(self.runs)} runs)"

    def _load(self) -> None:
        """Finds the runs of an earlier life; of two for the same offsets the wider one."""
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

    # Which runs are true

    def drop_untrue(self) -> None:
        """Lets go of runs that the log has parted from, and of those below its start."""
        log, runs = self.log, self.runs
        while runs and not self._is_true(runs[-1].header):
            _logger.info("%s: the log was cut below it", runs[-1].path)
            self._discard(runs.pop())
        while runs and runs[0].header.next_offset <= log.log_start_offset:
            self._discard(runs.pop(0))

    def _is_true(self, header: RunHeader) -> bool:
        return (
            header.next_offset <= self.log.log_end_offset
            and self.log.leader_epochs.epoch_for(header.next_offset - 1) == header.leader_epoch
        )

    def _discard(self, run: Run) -> None:
        """Its file goes when others do. Under another name: a new run may want its own."""
        gone = run.path + DELETED_SUFFIX
        try:
            self._disk.rename(run.path, gone)
        except FileNotFoundError:
            return
        self.log.directory.delete_later(0.0, partial(self._disk.remove, gone))

    def _run_below(self, offset: int) -> Run | None:
        """The last run that begins below an offset."""
        number = bisect_left(self.runs, offset, key=lambda run: run.header.first_offset)
        return self.runs[number - 1] if number else None

    # Looking up

    async def look_up(
        self, key: bytes, *, end_offset: int, committed_only: bool, read: BytesRead
    ) -> FoundRecord | None:
        """The newest record of a key below an offset; raises `StorageError`."""
        search = Search(
            self.log,
            key,
            end_offset=end_offset,
            committed_only=committed_only,
            read=read,
            beside=self._beside,
        )
        try:
            self.drop_untrue()
            return await self._search_below(end_offset, search, key)
        except OSError as error:
            raise self.log.directory.fail(error) from error

    async def _search_below(self, upper: int, search: Search, key: bytes) -> FoundRecord | None:
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
                found, upper = await self._read_hole(search, lower, upper)
            if found is not None:
                return found
        return None

    async def _ask(self, run: Run, search: Search, key: bytes, upper: int) -> FoundRecord | None:
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
                found = await search.at(offset)
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

    async def _read_hole(
        self, search: Search, lower: int, upper: int
    ) -> tuple[FoundRecord | None, int]:
        """Reads downwards from `upper`, at least a chunk; where it came to."""
        if self._bytes_between(lower, upper) <= _LONG_SCAN_BYTES:
            while upper > lower:
                found, upper = await self._read_chunk(search, lower, upper)
                if found is not None:
                    return found, upper
            return None, upper
        # One such reader is enough: by the time others get their turn there may be an index.
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
    async def _read_chunk(search: Search, lower: int, upper: int) -> tuple[FoundRecord | None, int]:
        chunk = search.chunk_below(upper, lower)
        if isinstance(chunk, int):
            return None, chunk
        try:
            content = chunk.batches.read(0, len(chunk.batches))
        finally:
            chunk.batches.release()
        return await search.among(chunk, content), chunk.first_offset

    # Jobs

    def holes(self, end_offset: int) -> list[tuple[int, int]]:
        """The stretches of offsets below `end_offset` that no run covers."""
        edges = [self.log.log_start_offset]
        for run in self.runs:
            edges += (run.header.first_offset, run.header.next_offset)
        edges.append(end_offset)
        pairs = zip(edges[0::2], edges[1::2], strict=True)
        return [(lower, min(upper, end_offset)) for lower, upper in pairs if lower < upper]

    def unindexed_bytes(self) -> int:
        return sum(
            self._bytes_between(lower, upper)
            for lower, upper in self.holes(self.log.high_watermark)
        )

    def next_job(self) -> Job | None:
        """What would make look-ups quicker, if anything."""
        self.log.require_usable()
        self.drop_untrue()
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
        for lower, upper in self.holes(end_offset):
            is_tail = upper == end_offset
            if not is_tail or self._bytes_between(lower, upper) >= self._limits.min_bytes:
                return self._job(lower, upper, self._limits.job_bytes, self._limits.job_entries)
        return None

    def _shrink_job(self) -> IndexJob | None:
        """Compaction has taken most of what a run names: it would be tried in vain."""
        for run in self.runs:
            first, upto = run.header.first_offset, run.header.next_offset
            if run.header.log_bytes < self._limits.min_bytes:
                continue
            if 2 * self._bytes_between(first, upto) < run.header.log_bytes:
                return self._job(first, upto, run.header.log_bytes, _MAX_ENTRIES)
        return None

    def _job(self, lower: int, upper: int, max_bytes: int, max_entries: int) -> IndexJob:
        """Indexes a stretch, or the beginning of it."""
        stretches: list[Stretch] = []
        first_offset, left = lower, max_bytes
        for segment in self._segments_between(lower, upper):
            start, end = segment.locate(lower), segment.locate(upper)
            if not stretches and start < end:
                # The log may start within a batch.
                first_offset = min(lower, _offset_at(segment.offset_at(start), lower))
            if end - start > left:
                cut = segment.index.batch_start_below(start + left)
                if cut > start or stretches:
                    end = max(cut, start)
                    upper = _offset_at(segment.offset_at(end), upper)
            elif end < segment.size:
                # A batch that reaches beyond is not committed as a whole.
                upper = min(upper, _offset_at(segment.offset_at(end), upper))
            if end > start:
                stretches.append(Stretch(segment.base_offset, start, end))
            left -= end - start
            if end < segment.size:
                break
        epochs = self.log.leader_epochs
        return IndexJob(
            self.log.path,
            first_offset,
            upper,
            tuple(stretches),
            tuple(epochs.epochs),
            tuple(epochs.start_offsets),
            max_entries,
        )

    def adopt(self, header: RunHeader) -> None:
        """Takes in the run that a job has made, in place of those that it covers."""
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
        self.drop_untrue()

    def check(self) -> None:
        """Raises `InvariantViolation` if runs overlap."""
        for run, following in pairwise(self.runs):
            if run.header.next_offset > following.header.first_offset:
                raise InvariantViolation(
                    self.log.path, f"{run.path} and {following.path} overlap in the key index"
                )

    def distrust(self, job: Job) -> None:
        """A job has found a run damaged: those that it was to merge are made anew."""
        if isinstance(job, MergeJob):
            for run in [run for run in self.runs if run.path in job.paths]:
                self._forget(run)

    # The log

    def _segments_between(self, lower: int, upper: int) -> Sequence["Segment"]:
        segments = self.log.segments
        first = bisect_left(segments, lower, key=lambda one: one.base_offset)
        if first == len(segments) or segments[first].base_offset > lower:
            first = max(first - 1, 0)
        last = bisect_left(segments, upper, key=lambda one: one.base_offset)
        return segments[first:last]

    def _bytes_between(self, lower: int, upper: int) -> int:
        """How much of the log two offsets enclose."""
        segments = self._segments_between(lower, upper)
        if not segments:
            return 0
        total = sum(segment.size for segment in segments[:-1]) + segments[-1].locate(upper)
        return total - segments[0].locate(lower)


def _offset_at(found: int | None, otherwise: int) -> int:
    return otherwise if found is None else found
