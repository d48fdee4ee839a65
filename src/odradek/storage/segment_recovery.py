"""Reads one segment batch by batch after a crash and rebuilds the state derived from its batches.

`recovery.LogLoader` calls `recover_segment` for every segment of which some bytes possibly did not
reach the disk.

Index entries, leader epochs, producers and aborted transactions are rebuilt from the batches alone.
The checkpoint files may be older than the last truncation or the last change of leader, so they are
never used to decide which batches stay.
"""

from collections.abc import Iterator

from odradek.config import TopicSettings
from odradek.protocol.checksum import crc32c
from odradek.protocol.records import (
    CHECKSUM_START,
    HEADER_SIZE,
    BatchHeader,
    Buffer,
    MalformedRecords,
    crc_is_valid,
    read_header,
)
from odradek.protocol.types import Offset
from odradek.storage.descriptors import seal_file
from odradek.storage.errors import StorageError
from odradek.storage.file_names import ENCRYPTED_FILE
from odradek.storage.leader_epochs import UNKNOWN_EPOCH, LeaderEpochs
from odradek.storage.producer_state import ProducerStates
from odradek.storage.segment import Segment
from odradek.storage.snapshots import apply_to_producers
from odradek.storage.transaction_index import AbortedTransactions
from odradek.world.disk import File

_CHUNK_BYTES = 1 << 20


class RecoveredState:
    """The state that recovery has rebuilt from the batches that it has read so far.

    `epochs` begins with the entries of the checkpoint file below the first segment that is read.
    `epochs_checked_from` is the offset from which leader epochs must not decrease: recovery
    truncates the log at the first batch where they do. It is None after a process crash without a
    power cut: the page cache survived, so no write is missing.
    """

    __slots__ = ("aborted", "epochs", "epochs_checked_from", "last_epoch", "producers")

    def __init__(
        self,
        epochs: LeaderEpochs,
        producers: ProducerStates,
        aborted: AbortedTransactions,
        *,
        epochs_checked_from: Offset | None,
    ) -> None:
        self.epochs = epochs
        self.producers = producers
        self.aborted = aborted
        self.epochs_checked_from = epochs_checked_from
        # The leader epoch of the last batch that was read.
        self.last_epoch = UNKNOWN_EPOCH

    def is_outdated(self, header: BatchHeader) -> bool:
        """Returns whether this batch is a leftover: it was truncated, but a power cut lost the
        truncation.

        Leader epochs never decrease from one batch of a log to the next. If they do, batches of a
        later leader had replaced this one, and only some of their pages reached the disk.
        """
        return (
            self.epochs_checked_from is not None
            and header.base_offset >= self.epochs_checked_from
            and 0 <= header.leader_epoch < self.last_epoch
        )

    def add_batch(self, header: BatchHeader, batch: Buffer) -> None:
        """Updates the state by a valid batch."""
        if header.leader_epoch >= 0 and header.leader_epoch != self.last_epoch:
            self.last_epoch = header.leader_epoch
            if header.leader_epoch != self.epochs.latest:
                self.epochs.assign(header.leader_epoch, header.base_offset)
        if header.next_offset > self.producers.end_offset:
            transaction = apply_to_producers(self.producers, header, batch)
            if transaction is not None and transaction.is_aborted:
                self.aborted.add(self.producers.transaction_index_entry(transaction))


def recover_segment(
    segment: Segment,
    state: RecoveredState,
    settings: TopicSettings,
    *,
    end_offset: Offset | None = None,
) -> bool:
    """Truncates the segment at its first invalid batch, and adds the valid batches to `state`.

    Batches that end after `end_offset` are dropped too. Returns False if the segment had to be
    truncated.
    """
    size, interval = segment.size, settings.index_interval_bytes
    segment.is_active = True
    segment.reset()
    handle = segment.file.pin()
    try:
        readable = size
        begin_recovery = getattr(handle, "begin_recovery", None)
        if begin_recovery is not None:  # The file is encrypted.
            readable = min(size, begin_recovery())
        for header, batch in valid_batches(handle, segment.base_offset, readable):
            if end_offset is not None and header.next_offset > end_offset:
                break
            if state.is_outdated(header):
                break
            segment.add_batch(header.size_bytes, header.last_offset, header.max_timestamp, interval)
            state.add_batch(header, batch)
        if segment.size < size:
            if not segment.size:
                _refuse_encrypted(handle, segment.file.path)
            handle.truncate(segment.size)
            return False
        seal_file(handle, size)
        return True
    finally:
        segment.file.unpin()


def _refuse_encrypted(handle: File, path: str) -> None:
    """A broker without a key provider must not take an encrypted segment for a damaged one."""
    if handle.read_at(0, len(ENCRYPTED_FILE)) == ENCRYPTED_FILE:
        raise StorageError(
            f"{path} is encrypted, and this broker has no key provider: set odradek.key.provider "
            "as it was, and start the broker again"
        )


def valid_batches(
    handle: File, base_offset: Offset, size: int
) -> Iterator[tuple[BatchHeader, Buffer]]:
    """Yields header and bytes of every batch up to the first invalid one. For batches above a
    megabyte the bytes are empty."""
    position, expected = 0, base_offset
    start, buffer = 0, b""
    while position < size:
        if position + HEADER_SIZE > start + len(buffer):
            start, buffer = position, handle.read_at(position, _CHUNK_BYTES)
        try:
            header = read_header(buffer, position - start)
        except MalformedRecords:
            return
        end = position + header.size_bytes
        if header.base_offset < expected or end > size:
            return
        if end > start + len(buffer) and header.size_bytes <= _CHUNK_BYTES:
            start, buffer = position, handle.read_at(position, _CHUNK_BYTES)
        if end <= start + len(buffer):
            if not crc_is_valid(buffer, position - start, header):
                return
            yield header, memoryview(buffer)[position - start : end - start]
        elif _checksum(handle, position + CHECKSUM_START, end) == header.crc:
            yield header, b""
        else:
            return
        position, expected = end, header.next_offset


def _checksum(handle: File, position: int, end: int) -> int:
    """Returns the checksum of a range of bytes. They are read in chunks, because the length in a
    damaged header may be very large."""
    checksum = 0
    while position < end:
        data = handle.read_at(position, min(_CHUNK_BYTES, end - position))
        if not data:
            break
        checksum = crc32c(data, checksum)
        position += len(data)
    return checksum
