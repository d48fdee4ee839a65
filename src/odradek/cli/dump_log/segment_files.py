"""Reads the files of a log directory for `dump-log`.

It does not use the code of `odradek.storage`, so that the tool shows what is on disk and not how a
broker would interpret it. Nothing here writes.
"""

import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from odradek.protocol.checksum import crc32c
from odradek.protocol.records import (
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    BatchHeader,
    MalformedRecords,
    read_header,
)
from odradek.tools.failures import CommandFailed

if TYPE_CHECKING:
    from odradek.world.disk import Disk

_OFFSET_ENTRY = struct.Struct(">ii")
_TIME_ENTRY = struct.Struct(">qi")
_ABORTED_TRANSACTION = struct.Struct(">hqqqq")
_ABORTED_TRANSACTION_VERSION = 0
_SNAPSHOT_HEAD = struct.Struct(">hI")
_SNAPSHOT_COUNT = struct.Struct(">i")
_SNAPSHOT_ENTRY = struct.Struct(">qhiqiqiq")
_SNAPSHOT_VERSION = 1
_LENGTH = struct.Struct(">i")

# The first bytes of a batch, up to its magic byte, tell its format.
_RECOGNISABLE_BYTES = 17
_MIN_LENGTH = 14


class CorruptFile(Exception):
    """The content of a file is corrupt."""


class StoredBatch(NamedTuple):
    position: int
    header: BatchHeader
    data: bytes


class OffsetEntry(NamedTuple):
    offset: int
    position: int


class TimeEntry(NamedTuple):
    timestamp: int
    offset: int


class AbortedTransaction(NamedTuple):
    version: int
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class ProducerEntry(NamedTuple):
    producer_id: int
    epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int
    coordinator_epoch: int
    transaction_first_offset: int


def base_offset_of(path: str) -> int:
    stem = path.rpartition("/")[2].partition(".")[0]
    if not stem.isdecimal():
        raise CommandFailed(
            f"{path}: the name of a segment's file begins with its first offset; name it as in a"
            " log directory, such as 00000000000000000000.log"
        )
    return int(stem)


def sibling(path: str, suffix: str) -> str:
    """Returns the path of another file of the same segment."""
    directory, slash, name = path.rpartition("/")
    return directory + slash + name.partition(".")[0] + suffix


class LogFile:
    """A `.log` file; only one batch is in memory at a time."""

    def __init__(self, disk: "Disk", path: str, max_bytes: int | None = None) -> None:
        self._file = disk.open(path, writable=False)
        size = self._file.size()
        self.size_bytes = size if max_bytes is None else min(size, max_bytes)

    def close(self) -> None:
        self._file.close()

    def batches(self, position: int = 0) -> Iterator[StoredBatch]:
        """Yields complete batches up to the end, or up to bytes that are too few for a batch."""
        while (header := self.header_at(position)) is not None:
            yield StoredBatch(position, header, self._file.read_at(position, header.size_bytes))
            position += header.size_bytes

    def header_at(self, position: int) -> BatchHeader | None:
        """Returns the header of the batch at a position; None if the file ends before the batch
        does."""
        end = self.size_bytes
        if end - position < _RECOGNISABLE_BYTES:
            return None
        head = self._file.read_at(position, min(HEADER_SIZE, end - position))
        (length,) = _LENGTH.unpack_from(head, 8)
        if length < _MIN_LENGTH:
            raise CorruptFile(f"a batch of {length} bytes at position {position}")
        if position + LENGTH_OVERHEAD + length > end:
            return None
        try:
            return read_header(head)
        except MalformedRecords as error:
            raise CorruptFile(f"{error}, at position {position}") from None


def read_offset_index(disk: "Disk", path: str) -> list[OffsetEntry]:
    base_offset, content = base_offset_of(path), disk.read(path)
    whole = content[: len(content) // _OFFSET_ENTRY.size * _OFFSET_ENTRY.size]
    return [
        OffsetEntry(base_offset + relative, position)
        for relative, position in _OFFSET_ENTRY.iter_unpack(whole)
    ]


def read_time_index(disk: "Disk", path: str) -> list[TimeEntry]:
    base_offset, content = base_offset_of(path), disk.read(path)
    whole = content[: len(content) // _TIME_ENTRY.size * _TIME_ENTRY.size]
    return [
        TimeEntry(timestamp, base_offset + relative)
        for timestamp, relative in _TIME_ENTRY.iter_unpack(whole)
    ]


def check_offset_index(disk: "Disk", path: str, entries: list[OffsetEntry]) -> None:
    """Makes the checks by which a broker decides at start whether to rebuild the index."""
    if entries and entries[-1].offset < base_offset_of(path):
        raise CorruptFile("the last offset lies before the segment")
    if disk.size(path) % _OFFSET_ENTRY.size:
        raise CorruptFile("the size is not a multiple of the size of an entry")


def check_time_index(disk: "Disk", path: str, entries: list[TimeEntry]) -> None:
    if entries and entries[-1].timestamp < entries[0].timestamp:
        raise CorruptFile("the last timestamp lies before the first")
    if entries and entries[-1].offset < base_offset_of(path):
        raise CorruptFile("the last offset lies before the segment")
    if disk.size(path) % _TIME_ENTRY.size:
        raise CorruptFile("the size is not a multiple of the size of an entry")


def read_transaction_index(disk: "Disk", path: str) -> list[AbortedTransaction]:
    content = disk.read(path)
    if len(content) % _ABORTED_TRANSACTION.size:
        raise CorruptFile("the size is not a multiple of the size of an entry")
    entries = [
        AbortedTransaction._make(entry) for entry in _ABORTED_TRANSACTION.iter_unpack(content)
    ]
    for entry in entries:
        if entry.version != _ABORTED_TRANSACTION_VERSION:
            raise CorruptFile(f"an entry has the unknown version {entry.version}")
    return entries


def read_producer_snapshot(disk: "Disk", path: str) -> list[ProducerEntry]:
    content = disk.read(path)
    if len(content) < _SNAPSHOT_HEAD.size + _SNAPSHOT_COUNT.size:
        raise CorruptFile("the snapshot is cut short")
    version, crc = _SNAPSHOT_HEAD.unpack_from(content)
    if version != _SNAPSHOT_VERSION:
        raise CorruptFile(f"the snapshot has the unknown version {version}")
    body = memoryview(content)[_SNAPSHOT_HEAD.size :]
    if (computed := crc32c(body)) != crc:
        raise CorruptFile(f"the snapshot's checksum is {crc}, its content's {computed}")
    (count,) = _SNAPSHOT_COUNT.unpack_from(body)
    entries = body[_SNAPSHOT_COUNT.size :]
    if count < 0 or len(entries) != count * _SNAPSHOT_ENTRY.size:
        raise CorruptFile(f"the snapshot does not hold the {count} producers it declares")
    return [ProducerEntry._make(entry) for entry in _SNAPSHOT_ENTRY.iter_unpack(entries)]
