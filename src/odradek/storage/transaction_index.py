"""The aborted transactions of a log, and the `.txnindex` files that remember them.

There is one entry for each abort marker, in the file of the segment that holds the marker, in
Kafka's layout. A consumer with isolation level read_committed is told which entries overlap the
batches that it reads, and skips the records of those producers.

An entry holds the last stable offset right after its marker. A transaction that was aborted later
began at that offset or above it. So a search for the transactions that overlap a range ends at the
first entry whose last stable offset is not below the end of the range.

Invariant: entries are in the order of their markers.
"""

import struct
from array import array
from bisect import bisect_left
from collections.abc import Iterator
from operator import gt
from typing import NamedTuple

from odradek.protocol.types import Offset, ProducerId
from odradek.storage.errors import StorageError
from odradek.storage.file_names import TRANSACTION_INDEX_SUFFIX, offset_file
from odradek.storage.index import is_rising
from odradek.world.disk import Disk

_VERSION = 0
_ENTRY = struct.Struct(">hqqqq")


class CorruptTransactionIndex(StorageError):
    """A transaction index is cut short or in a version that is not known."""


class AbortedTransaction(NamedTuple):
    producer_id: ProducerId
    first_offset: Offset
    # That of the abort marker.
    last_offset: Offset
    last_stable_offset: Offset


class AbortedTransactions:
    """All aborted transactions of one log. Most logs have none, and then this is a small object."""

    __slots__ = ("_columns",)

    def __init__(self) -> None:
        # One array for each field: a log may have a million aborted transactions.
        self._columns: tuple[array[int], array[int], array[int], array[int]] | None = None

    def __len__(self) -> int:
        return 0 if self._columns is None else len(self._columns[0])

    def __iter__(self) -> Iterator[AbortedTransaction]:
        if self._columns is not None:
            yield from map(AbortedTransaction._make, zip(*self._columns, strict=True))

    def add(self, entry: AbortedTransaction) -> None:
        if self._columns is None:
            self._columns = (array("q"), array("q"), array("q"), array("q"))
        for column, value in zip(self._columns, entry, strict=True):
            column.append(value)

    def clear(self) -> None:
        self._columns = None

    def _position(self, offset: Offset) -> int:
        """How many transactions have their marker below `offset`."""
        return 0 if self._columns is None else bisect_left(self._columns[2], offset)

    def overlapping(self, offset: Offset, end_offset: Offset) -> list[AbortedTransaction]:
        """The transactions with records or a marker from `offset` on, up to `end_offset`."""
        transactions: list[AbortedTransaction] = []
        if self._columns is None:
            return transactions
        for position in range(self._position(offset), len(self)):
            entry = AbortedTransaction._make([column[position] for column in self._columns])
            if entry.first_offset < end_offset:
                transactions.append(entry)
            if entry.last_stable_offset >= end_offset:
                break
        return transactions

    def drop_below(self, offset: Offset) -> None:
        """Forgets transactions that ended below `offset`, because their segments were deleted."""
        count = self._position(offset)
        if count and self._columns is not None:
            for column in self._columns:
                del column[:count]

    def drop_from(self, offset: Offset) -> bool:
        """Forgets transactions whose marker was truncated. Returns whether there were any."""
        position = self._position(offset)
        if self._columns is None or position == len(self):
            return False
        for column in self._columns:
            del column[position:]
        return True

    def replace(
        self, base_offset: Offset, end_offset: Offset, entries: list[AbortedTransaction]
    ) -> None:
        """Replaces the entries whose marker lies between two offsets."""
        if self._columns is None:
            if not entries:
                return
            self._columns = (array("q"), array("q"), array("q"), array("q"))
        first, last = self._position(base_offset), self._position(end_offset)
        for number, column in enumerate(self._columns):
            column[first:last] = array("q", [entry[number] for entry in entries])

    def find_inconsistency(self, log_end_offset: Offset) -> str | None:
        """What is wrong with the entries, if anything. Walks over all of them."""
        if self._columns is None:
            return None
        _, firsts, lasts, _ = self._columns
        if not is_rising(lasts) or any(map(gt, firsts, lasts)):
            return f"aborted transactions are out of order: {list(self)}"
        if lasts and lasts[-1] >= log_end_offset:
            return f"an abort marker is at {lasts[-1]}, but the log ends at {log_end_offset}"
        return None

    # Files

    def encode(self, base_offset: Offset, end_offset: Offset) -> bytes:
        """The index of the segment that holds these offsets."""
        if self._columns is None:
            return b""
        first, last = self._position(base_offset), self._position(end_offset)
        rows = zip(*(column[first:last] for column in self._columns), strict=True)
        return b"".join(_ENTRY.pack(_VERSION, *row) for row in rows)

    def load(self, content: bytes) -> None:
        """Adds the entries of the next segment's index."""
        if len(content) % _ENTRY.size:
            raise CorruptTransactionIndex("the transaction index is cut short")
        last_offset = -1 if self._columns is None else self._columns[2][-1]
        for version, *fields in _ENTRY.iter_unpack(content):
            entry = AbortedTransaction(*fields)
            if version != _VERSION or not last_offset < entry.last_offset >= entry.first_offset:
                raise CorruptTransactionIndex(f"the transaction index has a wrong entry: {entry}")
            last_offset = entry.last_offset
            self.add(entry)


def append_entry(
    disk: Disk, directory: str, base_offset: Offset, entry: AbortedTransaction
) -> bool:
    """Writes an entry at the end of its segment's index. Returns whether it is the first one."""
    file = disk.open(offset_file(directory, base_offset, TRANSACTION_INDEX_SUFFIX), create=True)
    try:
        size = file.size()
        try:
            file.write_at(size, [_ENTRY.pack(_VERSION, *entry)])
        except OSError:
            file.truncate(size)
            raise
        return not size
    finally:
        file.close()


def rewrite(disk: Disk, directory: str, base_offset: Offset, content: bytes) -> None:
    """Replaces the index of a segment. Without entries there is no file."""
    path = offset_file(directory, base_offset, TRANSACTION_INDEX_SUFFIX)
    if not content:
        if disk.exists(path):
            disk.remove(path)
        return
    file = disk.open(path, create=True)
    try:
        if file.read_at(0, len(content) + 1) != content:
            file.truncate(0)
            file.write_at(0, [content])
    finally:
        file.close()
