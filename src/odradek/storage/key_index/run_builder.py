"""Makes the runs of a key index: from a range of the log, or from several older runs.

These are long computations that run in a worker process (`world.processes`). A job contains all
that the worker needs, and the worker touches only files. Each job is a generator that yields every
few milliseconds: where there is no worker process (with a disk in memory, in the simulation) other
tasks get their turn.

Memory: eight bytes for each entry, of which a job has a limited number, and a megabyte of log.
"""

from array import array
from bisect import bisect_right
from collections.abc import Generator, Iterator, Mapping
from contextlib import ExitStack
from typing import Any, Final, NamedTuple

from odradek.protocol.batch_header import NO_LEADER_EPOCH
from odradek.protocol.record_keys import decompress_payload, parse_keys
from odradek.protocol.records import (
    HEADER_SIZE,
    BatchHeader,
    MalformedRecords,
    crc_is_valid,
    read_header,
)
from odradek.protocol.types import LeaderEpoch, Offset
from odradek.storage.errors import StorageError
from odradek.storage.file_names import LOG_SUFFIX, offset_file
from odradek.storage.key_index.run import MAX_SPAN, Run, RunHeader, hash_of, merged, write_run
from odradek.storage.worker_disk import ENCRYPTION, disk_for_worker
from odradek.world.clock import Clock
from odradek.world.disk import Disk, File

# Entries are partitioned by the first bits of their hash, and each partition is sorted alone: that
# needs less memory than sorting all of them.
_PARTITION_BITS: Final = 8
_PARTITION_SHIFT: Final = 32 - _PARTITION_BITS
_CHUNK_BYTES: Final = 1 << 20
_PAUSE_BYTES: Final = 256 << 10


class LogChanged(StorageError):
    """The files differ from the job: the log was truncated, compacted or damaged meanwhile."""


class FileRange(NamedTuple):
    """A range of bytes in a segment's file."""

    base_offset: Offset
    position: int
    end: int


class IndexJob(NamedTuple):
    """Make a run of the records between two offsets."""

    directory: str
    first_offset: Offset
    next_offset: Offset
    ranges: tuple[FileRange, ...]
    # The leader epochs of the log and their start offsets.
    epochs: tuple[LeaderEpoch, ...]
    epoch_starts: tuple[Offset, ...]
    max_entries: int


class MergeJob(NamedTuple):
    """Make one run of several neighbouring ones, given in order."""

    directory: str
    paths: tuple[str, ...]


Job = IndexJob | MergeJob
Message = dict[str, object]
Steps = Generator[Message, None, RunHeader]

# A job yields this between two steps: no pause is needed.
_STEP: Final[Message] = {"pause_s": 0.0}


def encode_job(job: Job) -> Message:
    """Encodes a job for the worker process."""
    return {"index" if isinstance(job, IndexJob) else "merge": job._asdict()}


def _decode_job(argument: Mapping[str, Any]) -> Job:
    if "merge" in argument:
        return MergeJob(**argument["merge"])
    fields = argument["index"]
    ranges = tuple(FileRange(*fields_of_range) for fields_of_range in fields["ranges"])
    return IndexJob(**{**fields, "ranges": ranges})


def carry_out(
    disk: Disk, _clock: Clock, argument: Mapping[str, Any]
) -> Generator[Message, None, Message]:
    """Runs in the worker: does a job and returns the header of the run that it has made.

    Raises `LogChanged`, `DamagedRun` or `OSError`.
    """
    job = _decode_job(argument)
    disk = disk_for_worker(disk, argument.get(ENCRYPTION), reads_unsealed=True)
    made = yield from (_index(disk, job) if isinstance(job, IndexJob) else _merge(disk, job))
    return made._asdict()


# From the log


class _Partitions:
    """Entries, partitioned by the first bits of their hash."""

    __slots__ = ("_first_offset", "_partitions", "count")

    def __init__(self, first_offset: Offset) -> None:
        self._first_offset = first_offset
        self._partitions = [array("Q") for _ in range(1 << _PARTITION_BITS)]
        self.count = 0

    def add(self, header: BatchHeader, keys: list[tuple[int, bytes]]) -> None:
        partitions, base = self._partitions, header.base_offset - self._first_offset
        for delta, key in keys:
            key_hash = hash_of(key)
            partitions[key_hash >> _PARTITION_SHIFT].append(key_hash << 32 | base + delta)
        self.count += len(keys)

    def in_order(self) -> Iterator["array[int]"]:
        for number, entries in enumerate(self._partitions):
            self._partitions[number] = array("Q")
            yield array("Q", sorted(entries))


def _index(disk: Disk, job: IndexJob) -> Steps:
    entries = _Partitions(job.first_offset)
    next_offset, log_bytes, paused_at = job.next_offset, 0, 0
    with ExitStack() as files:
        for header, batch in _batches(disk, job, files):
            is_far = header.next_offset - job.first_offset > MAX_SPAN
            if is_far or (entries.count and entries.count + header.record_count > job.max_entries):
                next_offset = header.base_offset
                break
            log_bytes += header.size_bytes
            if log_bytes - paused_at > _PAUSE_BYTES:
                paused_at = log_bytes
                yield _STEP
            if not header.is_control:
                try:
                    entries.add(
                        header, parse_keys(decompress_payload(batch, header), header.record_count)
                    )
                except MalformedRecords:
                    continue  # The checksum is valid: a producer sent records that are malformed.
    epoch = _epoch_of(job, Offset(next_offset - 1))
    made = RunHeader(job.first_offset, next_offset, epoch, entries.count, log_bytes)
    for _ in write_run(disk, job.directory, made, entries.in_order()):
        yield _STEP
    return made


def _epoch_of(job: IndexJob, offset: Offset) -> LeaderEpoch:
    number = bisect_right(job.epoch_starts, offset)
    return job.epochs[number - 1] if number else NO_LEADER_EPOCH


_Batch = tuple[BatchHeader, memoryview]


def _batches(disk: Disk, job: IndexJob, files: ExitStack) -> Iterator[_Batch]:
    expected = job.first_offset
    for file_range in job.ranges:
        path = offset_file(job.directory, file_range.base_offset, LOG_SUFFIX)
        try:
            file = disk.open(path, writable=False)
        except FileNotFoundError:
            raise LogChanged(f"{path} is gone") from None
        files.callback(file.close)
        for header, batch in _batches_of(file, path, file_range):
            if header.base_offset < expected or header.next_offset > job.next_offset:
                raise LogChanged(f"{path}: offset {header.base_offset} was not expected")
            expected = header.next_offset
            yield header, batch


def _batches_of(file: File, path: str, file_range: FileRange) -> Iterator[_Batch]:
    position = file_range.position
    while position < file_range.end:
        chunk = file.read_at(position, min(_CHUNK_BYTES, file_range.end - position))
        start = 0
        try:
            header = read_header(chunk)
            if header.size_bytes > len(chunk):
                if header.size_bytes > file_range.end - position:
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
            sources.append(run.entries(file, shift))
        for _ in write_run(disk, job.directory, made, merged(sources)):
            yield _STEP
    return made
