"""A run: the keys of a range of offsets, sorted by their hash, in one immutable file.

    <first offset>-<next offset>.keys

    blocks      4096 bytes each: up to 511 entries, their number, their checksum
    directory   the hash that each block begins with, 4 bytes each
    header      64 bytes: magic, first and next offset, leader epoch of the last offset, entries,
                blocks, bytes of log, checksum of the directory, checksum of the header

The header is at the end, so that a file is only appended to, as encrypted files are
(`odradek.storage.encryption`). Earlier versions had it at the beginning: their files count as
damaged, and are made again.

An entry has the hash in its upper 32 bits and the distance from the first offset in its lower 32
bits, so that entries sort by hash and then by offset. All numbers are little-endian. The directory
is kept in memory, and a look-up reads one block. Hashes collide, so a look-up compares the key with
that in the log (`search`).

Compaction and retention do not change offsets, so a run stays valid; it only has entries of records
that are gone. A run is invalid if the log was truncated and other records were appended. Then its
last offset has another leader epoch (see `index`).

Invariant: a file with this name is complete: it was synced before it was renamed. `KeyIndex.adopt`
renames it, because a new file may replace an old one.
"""

import struct
import sys
import zlib
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from odradek.protocol.checksum import crc32c
from odradek.protocol.types import LeaderEpoch, Offset
from odradek.storage.descriptors import seal_file
from odradek.storage.errors import CorruptLog, StorageError
from odradek.storage.key_index.search import BytesRead
from odradek.world.disk import Disk, File

KEYS_SUFFIX: Final = ".keys"
# Recovery removes files with this suffix.
UNFINISHED_SUFFIX: Final = ".tmp"
MAX_SPAN: Final = 1 << 32

_MAGIC: Final = b"odrkeys2"
_HEADER: Final = struct.Struct("<8sqqiqiqI8xI")
_CHECKED: Final = _HEADER.size - 4
_TRAILER: Final = struct.Struct("<II")
_BLOCK_BYTES: Final = 4096
_ENTRIES_A_BLOCK: Final = (_BLOCK_BYTES - _TRAILER.size) // 8
# Written with one call.
_BLOCKS_A_WRITE: Final = 64
_IS_BIG_ENDIAN: Final = sys.byteorder == "big"
_NAME_DIGITS: Final = 20


class DamagedRun(StorageError):
    """The file of a run is damaged. It can be made again from the log."""


class RunHeader(NamedTuple):
    first_offset: Offset
    next_offset: Offset
    # The leader epoch of the last offset.
    leader_epoch: LeaderEpoch
    entries: int
    # The bytes of log that were indexed. Compaction may have removed much of them since.
    log_bytes: int


def hash_of(key: bytes) -> int:
    return zlib.crc32(key)


def run_name(first_offset: Offset, next_offset: Offset) -> str:
    return f"{first_offset:020d}-{next_offset:020d}{KEYS_SUFFIX}"


def parse_run_name(name: str) -> tuple[Offset, Offset] | None:
    """Returns first and next offset; None for any other file."""
    first, dash, rest = name.partition("-")
    upto = rest.removesuffix(KEYS_SUFFIX)
    if not dash or upto == rest or not (first.isdecimal() and upto.isdecimal()):
        return None
    return (
        (Offset(int(first)), Offset(int(upto))) if len(first) == len(upto) == _NAME_DIGITS else None
    )


class Run:
    __slots__ = ("_starts", "header", "path")

    def __init__(self, path: str, header: RunHeader, starts: "array[int]") -> None:
        self.path = path
        self.header = header
        self._starts = starts

    def __repr__(self) -> str:
        return f"Run({self.path}, {self.header.entries} entries)"

    @classmethod
    def open(cls, disk: Disk, path: str) -> "Run":
        """Reads header and directory; raises `DamagedRun`."""
        file = disk.open(path, writable=False)
        try:
            return cls._read(file, path)
        finally:
            file.close()

    @classmethod
    def _read(cls, file: File, path: str) -> "Run":
        start = file.size() - _HEADER.size
        encoded = _read_at(file, path, max(start, 0), _HEADER.size)
        if len(encoded) < _HEADER.size or crc32c(encoded[:_CHECKED]) != _HEADER.unpack(encoded)[-1]:
            raise DamagedRun(f"{path}: the header is damaged")
        magic, first, upto, epoch, entries, blocks, log_bytes, checksum, _ = _HEADER.unpack(encoded)
        if magic != _MAGIC:
            raise DamagedRun(f"{path}: the format is not known")
        directory = _read_at(file, path, max(start - 4 * blocks, 0), 4 * blocks)
        if crc32c(directory) != checksum or start != blocks * (_BLOCK_BYTES + 4):
            raise DamagedRun(f"{path}: the file is cut short or damaged")
        header = RunHeader(first, upto, epoch, entries, log_bytes)
        return cls(path, header, _decoded("I", directory))

    @property
    def size_bytes(self) -> int:
        return len(self._starts) * (_BLOCK_BYTES + 4) + _HEADER.size

    def offsets(self, file: File, key_hash: int, read: BytesRead) -> Iterator[Offset]:
        """The offsets that may have a key of this hash, the newest first; raises `DamagedRun`."""
        starts, first_offset = self._starts, self.header.first_offset
        least, most = key_hash << 32, key_hash << 32 | (MAX_SPAN - 1)
        block = bisect_right(starts, key_hash) - 1
        while block >= 0:
            entries = self._block(file, block, read)
            below = bisect_left(entries, least)
            for number in range(bisect_right(entries, most) - 1, below - 1, -1):
                yield first_offset + (entries[number] - least)
            if below:
                return
            block -= 1

    def _block(self, file: File, number: int, read: BytesRead) -> "array[int]":
        data = _read_at(file, self.path, number * _BLOCK_BYTES, _BLOCK_BYTES)
        read.total += len(data)
        return self._entries(data)

    def _entries(self, data: bytes) -> "array[int]":
        if len(data) < _BLOCK_BYTES:
            raise DamagedRun(f"{self.path}: a block is cut short")
        content = data[: -_TRAILER.size]
        count, checksum = _TRAILER.unpack_from(data, len(content))
        if count > _ENTRIES_A_BLOCK or crc32c(content) != checksum:
            raise DamagedRun(f"{self.path}: a block is damaged")
        return _decoded("Q", content[: 8 * count])

    def entries(self, file: File, shift: int) -> Iterator["array[int]"]:
        """Yields all entries in order, some thousands at a time, with `shift` added to each."""
        for block in range(0, len(self._starts), _BLOCKS_A_WRITE):
            most = min(_BLOCKS_A_WRITE, len(self._starts) - block)
            data = _read_at(file, self.path, block * _BLOCK_BYTES, most * _BLOCK_BYTES)
            entries = array("Q")
            for start in range(0, most * _BLOCK_BYTES, _BLOCK_BYTES):
                entries += self._entries(data[start : start + _BLOCK_BYTES])
            yield array("Q", [entry + shift for entry in entries]) if shift else entries


def _read_at(file: File, path: str, position: int, length: int) -> bytes:
    try:
        return file.read_at(position, length)
    except CorruptLog as error:  # An encrypted file.
        raise DamagedRun(str(error)) from None


def write_run(
    disk: Disk, directory: str, header: RunHeader, sorted_entries: Iterable["array[int]"]
) -> Iterator[None]:
    """Writes the file of a run, in steps, under its name with `UNFINISHED_SUFFIX`."""
    path = f"{directory}/{run_name(header.first_offset, header.next_offset)}{UNFINISHED_SUFFIX}"
    blocks = -(-header.entries // _ENTRIES_A_BLOCK)
    position = 0
    starts = array("I")
    file = disk.open(path, create=True)
    try:
        file.truncate(0)
        waiting = array("Q")
        for entries in sorted_entries:
            waiting += entries
            while len(waiting) >= _ENTRIES_A_BLOCK * _BLOCKS_A_WRITE:
                position = _write_blocks(file, position, waiting, starts)
                yield
        while waiting:
            position = _write_blocks(file, position, waiting, starts)
        if len(starts) != blocks:
            raise DamagedRun(f"{path}: the number of entries is not {header.entries}")
        end = _encode_end(header, starts)
        file.write_at(position, end)
        seal_file(file, position + sum(map(len, end)))
        file.sync()
    finally:
        file.close()


def _write_blocks(file: File, position: int, waiting: "array[int]", starts: "array[int]") -> int:
    """Writes blocks of waiting entries, up to a limit. Returns the position of the next block."""
    parts: list[bytes] = []
    for start in range(0, min(len(waiting), _ENTRIES_A_BLOCK * _BLOCKS_A_WRITE), _ENTRIES_A_BLOCK):
        entries = waiting[start : start + _ENTRIES_A_BLOCK]
        starts.append(entries[0] >> 32)
        content = _encoded(entries).ljust(_BLOCK_BYTES - _TRAILER.size, b"\0")
        parts += (content, _TRAILER.pack(len(entries), crc32c(content)))
    del waiting[: _ENTRIES_A_BLOCK * _BLOCKS_A_WRITE]
    data = b"".join(parts)
    file.write_at(position, [data])
    return position + len(data)


def _encode_end(header: RunHeader, starts: "array[int]") -> list[bytes]:
    directory = _encoded(starts)
    first, upto, epoch, entries, log_bytes = header
    without = _HEADER.pack(
        _MAGIC, first, upto, epoch, entries, len(starts), log_bytes, crc32c(directory), 0
    )[:_CHECKED]
    return [directory, without, crc32c(without).to_bytes(4, "little")]


def merged(sources: Sequence[Iterator["array[int]"]]) -> Iterator["array[int]"]:
    """Merges the sorted entries of several runs, with only a part of each in memory."""
    waiting = [array("Q") for _ in sources]
    ended = [False] * len(sources)
    while True:
        for number, source in enumerate(sources):
            while not waiting[number] and not ended[number]:
                taken = next(source, None)
                ended[number] = taken is None
                waiting[number] = taken if taken is not None else array("Q")
        present = [number for number, entries in enumerate(waiting) if entries]
        if not present:
            return
        # Entries that are not read yet are above the smallest of the last entries in memory.
        limit = min(waiting[number][-1] for number in present)
        ready: list[int] = []
        for number in present:
            below = bisect_right(waiting[number], limit)
            ready += waiting[number][:below]
            del waiting[number][:below]
        ready.sort()
        yield array("Q", ready)


def _decoded(kind: str, data: bytes) -> "array[int]":
    numbers = array(kind, data)
    if _IS_BIG_ENDIAN:
        numbers.byteswap()
    return numbers


def _encoded(numbers: "array[int]") -> bytes:
    if _IS_BIG_ENDIAN:
        numbers = numbers[:]
        numbers.byteswap()
    return numbers.tobytes()
