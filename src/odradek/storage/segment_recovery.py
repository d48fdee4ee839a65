"""Reads one segment batch by batch after a crash and rebuilds what follows from its batches.

`recovery.LogLoader` calls `recover_segment` for every segment that may not be durable as a whole.

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
    From the offset `checked_from` on, a batch with an older leader epoch than the batch before it
    ends the log. It is None if the process was only killed: then nothing can be missing.
    """

    __slots__ = ("aborted", "checked_from", "epochs", "last_epoch", "producers")

    def __init__(
        self,
        epochs: LeaderEpochs,
        producers: ProducerStates,
        aborted: AbortedTransactions,
        *,
        checked_from: int | None,
    ) -> None:
        self.epochs = epochs
        self.producers = producers
        self.aborted = aborted
        self.checked_from = checked_from
        # The leader epoch of the last batch that was read.
        self.last_epoch = UNKNOWN_EPOCH

    def is_outdated(self, header: BatchHeader) -> bool:
        """Returns whether a batch was truncated once, and the truncation was undone by a power cut.

        Leader epochs never fall from one batch of a log to the next. If they do, batches of a later
        leader had replaced this one, and only some of their pages reached the disk.
        """
        return (
            self.checked_from is not None
            and header.base_offset >= self.checked_from
            and 0 <= header.leader_epoch < self.last_epoch
        )

    def note(self, header: BatchHeader, batch: Buffer) -> None:
        """Takes account of a batch that stays."""
        if header.leader_epoch >= 0 and header.leader_epoch != self.last_epoch:
            self.last_epoch = header.leader_epoch
            if header.leader_epoch != self.epochs.latest:
                self.epochs.assign(header.leader_epoch, header.base_offset)
        if header.next_offset > self.producers.end_offset:
            ended = apply_to_producers(self.producers, header, batch)
            if ended is not None and ended.is_aborted:
                self.aborted.add(self.producers.transaction_index_entry(ended))


def recover_segment(
    segment: Segment, state: RecoveredState, settings: TopicSettings, *, limit: int | None = None
) -> bool:
    """Keeps the valid batches from the start on and rebuilds the state that follows from them.

    None of them reaches beyond `limit`. Returns False if the segment had to be truncated.
    """
    size, interval = segment.size, settings.index_interval_bytes
    segment.is_active = True
    segment.start_empty()
    segment.load_tail(segment.base_offset)
    handle = segment.file.pin()
    try:
        for header, batch in valid_batches(handle, segment.base_offset, size):
            if limit is not None and header.next_offset > limit:
                break
            if state.is_outdated(header):
                break
            segment.note(header.size_bytes, header.last_offset, header.max_timestamp, interval)
            state.note(header, batch)
        if segment.size < size:
            handle.truncate(segment.size)
            return False
        return True
    finally:
        segment.file.unpin()


def valid_batches(
    handle: File, base_offset: int, size: int
) -> Iterator[tuple[BatchHeader, Buffer]]:
    """Yields every batch up to the first invalid one. Batches above a megabyte come without their
    bytes."""
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
    """The checksum of a range of bytes, read in chunks: a damaged length may be very large."""
    checksum = 0
    while position < end:
        data = handle.read_at(position, min(_CHUNK_BYTES, end - position))
        if not data:
            break
        checksum = crc32c(data, checksum)
        position += len(data)
    return checksum
