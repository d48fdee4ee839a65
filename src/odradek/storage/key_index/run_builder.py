"""How runs of a key index are made: from a stretch of the log, or from several older runs.

Long computations, for a process of their own (`world.processes`): a job says all that there is
to know, and only files are touched. Each is a generator that pauses every few milliseconds, so
that where there is no other process (a disk in memory, the simulation) the loop gets its turns.

Memory: eight bytes an entry, of which a job takes a limited number, and a megabyte of log.
"""

from array import array
from bisect import bisect_right
from collections.abc import Generator, Iterator, Mapping
from contextlib import ExitStack
from typing import Any, Final, NamedTuple

from odradek.protocol.record_keys import open_payload, parse_keys
from odradek.protocol.records import (
    HEADER_SIZE,
    BatchHeader,
    MalformedRecords,
    crc_is_valid,
    read_header,
)
from odradek.storage.errors import StorageError
from odradek.storage.file_names import LOG_SUFFIX, offset_file
from odradek.storage.key_index.run import MAX_SPAN, Run, RunHeader, hash_of, merged, write_run
from odradek.world.clock import Clock
from odradek.world.disk import Disk, File

# Entries are sorted in so many lots: less memory than sorting all at once.
_LOT_BITS: Final = 8
_LOT_SHIFT: Final = 32 - _LOT_BITS
_CHUNK_BYTES: Final = 1 << 20
_PAUSE_BYTES: Final = 256 << 10


class LogChanged(StorageError):
    """The files are not what the job says: the log was cut, compacted or damaged meanwhile."""


class Stretch(NamedTuple):
    """A part of a segment's file."""

    base_offset: int
    position: int
    end: int


class IndexJob(NamedTuple):
    """Make a run of what lies between two offsets."""

    directory: str
    first_offset: int
    next_offset: int
    stretches: tuple[Stretch, ...]
    # Leader epochs and the offsets at which they begin, as the log knows them.
    epochs: tuple[int, ...]
    epoch_starts: tuple[int, ...]
    max_entries: int


class MergeJob(NamedTuple):
    """Make one run of several that lie side by side, in order."""

    directory: str
    paths: tuple[str, ...]


Job = IndexJob | MergeJob
Message = dict[str, object]
Steps = Generator[Message, None, RunHeader]

# Between two steps: whoever runs them need not wait.
_STEP: Final[Message] = {"pause_s": 0.0}


def encode_job(job: Job) -> Message:
    """A job as it travels to another process."""
    return {"index" if isinstance(job, IndexJob) else "merge": job._asdict()}


def _decode_job(argument: Mapping[str, Any]) -> Job:
    if "merge" in argument:
        return MergeJob(**argument["merge"])
    fields = argument["index"]
    stretches = tuple(Stretch(*one) for one in fields["stretches"])
    return IndexJob(**{**fields, "stretches": stretches})


def carry_out(
    disk: Disk, _clock: Clock, argument: Mapping[str, Any]
) -> Generator[Message, None, Message]:
    """The work of a worker: does a job and says what run it has made.

    Raises `LogChanged`, `DamagedRun` or `OSError`.
    """
    job = _decode_job(argument)
    made = yield from (_index(disk, job) if isinstance(job, IndexJob) else _merge(disk, job))
    return made._asdict()


# From the log


class _Lots:
    """Entries, parted by the first bits of their hash."""

    __slots__ = ("_first_offset", "_lots", "count")

    def __init__(self, first_offset: int) -> None:
        self._first_offset = first_offset
        self._lots = [array("Q") for _ in range(1 << _LOT_BITS)]
        self.count = 0

    def add(self, header: BatchHeader, keys: list[tuple[int, bytes]]) -> None:
        lots, base = self._lots, header.base_offset - self._first_offset
        for delta, key in keys:
            key_hash = hash_of(key)
            lots[key_hash >> _LOT_SHIFT].append(key_hash << 32 | base + delta)
        self.count += len(keys)

    def in_order(self) -> Iterator["array[int]"]:
        for number, lot in enumerate(self._lots):
            self._lots[number] = array("Q")
            yield array("Q", sorted(lot))


def _index(disk: Disk, job: IndexJob) -> Steps:
    lots = _Lots(job.first_offset)
    next_offset, log_bytes, paused_at = job.next_offset, 0, 0
    with ExitStack() as files:
        for header, batch in _batches(disk, job, files):
            is_far = header.next_offset - job.first_offset > MAX_SPAN
            if is_far or (lots.count and lots.count + header.record_count > job.max_entries):
                next_offset = header.base_offset
                break
            log_bytes += header.size_bytes
            if log_bytes - paused_at > _PAUSE_BYTES:
                paused_at = log_bytes
                yield _STEP
            if not header.is_control:
                try:
                    lots.add(header, parse_keys(open_payload(batch, header), header.record_count))
                except MalformedRecords:
                    continue  # The checksum holds, so it came like this: nobody can read it.
    epoch = _epoch_of(job, next_offset - 1)
    made = RunHeader(job.first_offset, next_offset, epoch, lots.count, log_bytes)
    for _ in write_run(disk, job.directory, made, lots.in_order()):
        yield _STEP
    return made


def _epoch_of(job: IndexJob, offset: int) -> int:
    number = bisect_right(job.epoch_starts, offset)
    return job.epochs[number - 1] if number else -1


_Batch = tuple[BatchHeader, memoryview]


def _batches(disk: Disk, job: IndexJob, files: ExitStack) -> Iterator[_Batch]:
    expected = job.first_offset
    for stretch in job.stretches:
        path = offset_file(job.directory, stretch.base_offset, LOG_SUFFIX)
        try:
            file = disk.open(path, writable=False)
        except FileNotFoundError:
            raise LogChanged(f"{path} is gone") from None
        files.callback(file.close)
        for header, batch in _batches_of(file, path, stretch):
            if header.base_offset < expected or header.next_offset > job.next_offset:
                raise LogChanged(f"{path}: offset {header.base_offset} was not expected")
            expected = header.next_offset
            yield header, batch


def _batches_of(file: File, path: str, stretch: Stretch) -> Iterator[_Batch]:
    position = stretch.position
    while position < stretch.end:
        chunk = file.read_at(position, min(_CHUNK_BYTES, stretch.end - position))
        start = 0
        try:
            header = read_header(chunk)
            if header.size_bytes > len(chunk):
                if header.size_bytes > stretch.end - position:
                    raise LogChanged(f"{path}: a batch is cut short at byte {position}")
                chunk = file.read_at(position, header.size_bytes)
            while len(chunk) - start >= HEADER_SIZE:
                header = read_header(chunk, start)
                end = start + header.size_bytes
                if end > len(chunk):
                    break
                if not crc_is_valid(chunk, start, header):
                    raise LogChanged(f"{path}: the batch at byte {position + start} is damaged")
                yield header, memoryview(chunk)[start:end]
                start = end
        except MalformedRecords as error:
            raise LogChanged(f"{path} at byte {position + start}: {error}") from None
        position += start


# From older runs


def _merge(disk: Disk, job: MergeJob) -> Steps:
    runs = [Run.open(disk, path) for path in job.paths]
    first, last = runs[0].header, runs[-1].header
    made = RunHeader(
        first.first_offset,
        last.next_offset,
        last.leader_epoch,
        sum(run.header.entries for run in runs),
        sum(run.header.log_bytes for run in runs),
    )
    with ExitStack() as files:
        sources = []
        for run in runs:
            file = disk.open(run.path, writable=False)
            files.callback(file.close)
            shift = run.header.first_offset - first.first_offset
            sources.append(run.stretches(file, shift))
        for _ in write_run(disk, job.directory, made, merged(sources)):
            yield _STEP
    return made
