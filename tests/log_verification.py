"""Reads a partition's directory and says what is wrong with it, without changing a byte.

Checked: every batch's checksum, that offsets rise within and across segments, that index
entries point at the start of a batch and name its last offset, that time index entries rise
and hold. Users have `odradek dump-log` for this.
"""

from bisect import bisect_right
from dataclasses import dataclass, field

from odradek.protocol.records import MalformedRecords, decode_records
from odradek.protocol.types import Offset
from odradek.storage.file_names import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    offset_file,
    parse_offset_file,
)
from odradek.storage.index import OffsetIndex, TimeIndex
from odradek.storage.producer_state import CorruptSnapshot, ProducerStates
from odradek.storage.segment_recovery import valid_batches
from odradek.storage.snapshots import snapshot_offsets
from odradek.world.disk import Disk


@dataclass(slots=True)
class LogReport:
    """What was found. `problems` is empty for a sound log."""

    directory: str
    segments: int = 0
    batches: int = 0
    records: int = 0
    size_bytes: int = 0
    next_offset: int = 0
    problems: list[str] = field(default_factory=list)

    @property
    def is_sound(self) -> bool:
        return not self.problems


@dataclass(slots=True)
class _Batches:
    """Where the batches of a segment start, what their last offsets are, and how young they are."""

    positions: list[int] = field(default_factory=list)
    last_offsets: list[int] = field(default_factory=list)
    # The highest timestamp up to and including each batch.
    youngest: list[int] = field(default_factory=list)


def verify_log(disk: Disk, directory: str, *, deep: bool = False) -> LogReport:
    """With `deep`, every record is decoded too."""
    report = LogReport(directory)
    names = disk.list_directory(directory)
    for name in names:
        found = parse_offset_file(name)
        if found is not None and found[1] == LOG_SUFFIX:
            _verify_segment(disk, report, found[0], set(names), deep=deep)
    for offset in snapshot_offsets(names):
        path = offset_file(directory, offset, ".snapshot")
        try:
            ProducerStates.decode(disk.read(path), offset)
        except CorruptSnapshot as error:
            report.problems.append(f"{path}: {error}")
    return report


def _verify_segment(
    disk: Disk, report: LogReport, base_offset: Offset, names: set[str], *, deep: bool
) -> None:
    path = offset_file(report.directory, base_offset, LOG_SUFFIX)
    if base_offset < report.next_offset:
        report.problems.append(f"{path}: begins below offset {report.next_offset}")
    report.segments += 1
    report.next_offset = max(report.next_offset, base_offset)
    batches = _verify_batches(disk, report, path, base_offset, deep=deep)
    if f"{base_offset:020d}{INDEX_SUFFIX}" in names:
        _verify_index(disk, report, base_offset, batches)
    if f"{base_offset:020d}{TIME_INDEX_SUFFIX}" in names:
        _verify_time_index(disk, report, base_offset, batches)


def _verify_batches(
    disk: Disk, report: LogReport, path: str, base_offset: Offset, *, deep: bool
) -> _Batches:
    batches = _Batches()
    position, youngest = 0, -1
    handle = disk.open(path, writable=False)
    try:
        size = handle.size()
        for header, batch in valid_batches(handle, base_offset, size):
            if deep and batch:
                try:
                    decode_records(batch)
                except MalformedRecords as error:
                    report.problems.append(f"{path}: records at byte {position}: {error}")
            youngest = max(youngest, header.max_timestamp)
            batches.positions.append(position)
            batches.last_offsets.append(header.last_offset)
            batches.youngest.append(youngest)
            position += header.size_bytes
            report.batches += 1
            report.records += header.record_count
            report.next_offset = header.next_offset
    finally:
        handle.close()
    report.size_bytes += size
    if position != size:
        report.problems.append(f"{path}: no valid batch at byte {position} of {size}")
    return batches


def _verify_index(disk: Disk, report: LogReport, base_offset: Offset, batches: _Batches) -> None:
    path = offset_file(report.directory, base_offset, INDEX_SUFFIX)
    index = OffsetIndex.decode(base_offset, disk.read(path))
    starts = dict(zip(batches.positions, batches.last_offsets, strict=True))
    for relative_offset, position in zip(index.offsets, index.positions, strict=True):
        last_offset = starts.get(position)
        if last_offset is None:
            report.problems.append(f"{path}: no batch starts at byte {position}")
        elif last_offset > base_offset + relative_offset:
            # Kafka's followers wrote one entry for a run of batches, so it may name a later one.
            report.problems.append(
                f"{path}: the batch at byte {position} ends at offset {last_offset}, "
                f"not {base_offset + relative_offset}"
            )


def _verify_time_index(
    disk: Disk, report: LogReport, base_offset: Offset, batches: _Batches
) -> None:
    path = offset_file(report.directory, base_offset, TIME_INDEX_SUFFIX)
    index = TimeIndex.decode(base_offset, disk.read(path))
    for timestamp, relative_offset in zip(index.timestamps, index.offsets, strict=True):
        offset = base_offset + relative_offset
        number = bisect_right(batches.last_offsets, offset)
        if not number:
            if relative_offset or timestamp > 0:
                report.problems.append(f"{path}: no batch ends at or before offset {offset}")
        elif batches.youngest[number - 1] > timestamp:
            report.problems.append(
                f"{path}: something up to offset {offset} is younger than {timestamp}"
            )
