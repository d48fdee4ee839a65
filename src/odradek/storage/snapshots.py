"""Reads and writes producer snapshots, and rebuilds producer state from them and the batches."""

from collections.abc import Sequence

from odradek.protocol.records import (
    BatchHeader,
    Buffer,
    decode_end_transaction_marker,
    decode_records,
)
from odradek.protocol.types import Offset
from odradek.storage.file_names import SNAPSHOT_SUFFIX, offset_file, parse_offset_file
from odradek.storage.producer_entry import REMEMBERED_BATCHES, RememberedBatch
from odradek.storage.producer_state import CompletedTransaction, CorruptSnapshot, ProducerStates
from odradek.storage.segment import Segment
from odradek.world.disk import Disk

# How far back the log is searched for batches that a snapshot does not contain.
_RECALLED_BYTES = 8 << 20


def write_snapshot(
    disk: Disk, directory: str, producers: ProducerStates, end_offset: Offset
) -> None:
    """Writes the producer state of `end_offset`, so that recovery need not read what lies before
    it."""
    path = offset_file(directory, end_offset, SNAPSHOT_SUFFIX)
    file = disk.open(path, create=True)
    try:
        file.truncate(0)
        file.write_at(0, [producers.encode()])
    except OSError:
        disk.remove(path)
        raise
    finally:
        file.close()
    producers.end_offset = producers.snapshot_offset = end_offset


def snapshot_offsets(names: Sequence[str]) -> list[Offset]:
    """The offsets of the snapshots among the files of a directory, in order."""
    parsed = (parse_offset_file(name) for name in names)
    return sorted(found[0] for found in parsed if found is not None and found[1] == SNAPSHOT_SUFFIX)


def drop_snapshots(disk: Disk, directory: str, *, above: int = -1) -> bool:
    """Removes snapshots of offsets that the log does not reach any more. Returns whether there were
    any."""
    offsets = snapshot_offsets(disk.list_directory(directory))
    dropped = [offset for offset in offsets if offset > above]
    for offset in dropped:
        disk.remove(offset_file(directory, offset, SNAPSHOT_SUFFIX))
    return bool(dropped)


def latest_snapshot(
    disk: Disk, directory: str, offsets: Sequence[Offset], end_offset: Offset
) -> ProducerStates | None:
    """The newest snapshot up to `end_offset` with a valid checksum. Removes damaged ones."""
    for offset in reversed(offsets):
        if offset > end_offset:
            continue
        path = offset_file(directory, offset, SNAPSHOT_SUFFIX)
        try:
            return ProducerStates.decode(disk.read(path), offset)
        except CorruptSnapshot:
            disk.remove(path)
        except FileNotFoundError:
            continue
    return None


def rebuild_producers(
    disk: Disk,
    directory: str,
    segments: Sequence[Segment],
    end_offset: Offset,
    *,
    offsets: Sequence[Offset] | None = None,
) -> ProducerStates:
    """Producer state at `end_offset`: the newest snapshot, then every batch after it.

    Batches below the log start are used as well while their segment exists: the more a log
    remembers of a producer, the more duplicates it recognises.
    """
    if offsets is None:
        offsets = snapshot_offsets(disk.list_directory(directory))
    producers = latest_snapshot(disk, directory, offsets, end_offset)
    first_offset = segments[0].base_offset if segments else end_offset
    if producers is None or producers.end_offset < first_offset:
        # Batches between that snapshot and the first segment are gone, so the snapshot may be out
        # of date. A producer that is not known may continue with any sequence number.
        producers = ProducerStates(segments[0].base_offset if segments else end_offset)
    for number, segment in enumerate(segments):
        start = producers.end_offset
        if start >= end_offset:
            break
        is_last = number == len(segments) - 1
        if not segment.size or (not is_last and segments[number + 1].base_offset <= start):
            continue
        for position, header in segment.headers(segment.locate(start)):
            if header.base_offset >= end_offset:
                break
            batch = segment.read_batch(position, header) if header.is_control else b""
            apply_to_producers(producers, header, batch)
    producers.end_offset = end_offset
    return producers


def apply_to_producers(
    producers: ProducerStates, header: BatchHeader, batch: Buffer
) -> CompletedTransaction | None:
    """Takes account of a batch that is in the log. Returns the transaction that it ended."""
    transaction = None
    if header.producer_id >= 0:
        if header.is_control:
            transaction = end_in_producers(producers, header, batch, header.base_offset)
        else:
            producers.update(header, header.base_offset, header.max_timestamp)
    producers.end_offset = header.next_offset
    return transaction


def end_in_producers(
    producers: ProducerStates, header: BatchHeader, batch: Buffer, offset: Offset
) -> CompletedTransaction | None:
    """Takes account of a transaction marker at `offset`. Returns the transaction that it ended."""
    if not header.record_count:
        return None  # Compaction took the record and left the batch.
    record = decode_records(batch)[0]
    marker = decode_end_transaction_marker(record)
    return producers.complete(header, marker, offset, record.timestamp_ms)


def recall_batches(
    producers: ProducerStates, header: BatchHeader, segments: Sequence[Segment]
) -> bool:
    """Finds the batches of a producer that its snapshot does not contain. Returns whether there
    were any.

    A snapshot, as Kafka writes it, contains only the last batch of a producer. A client that had
    several batches in flight when the broker stopped sends the older ones again, and they must be
    recognised. The log is searched once for a producer, only as far back as such a batch can be.
    """
    entry = producers.entries.get(header.producer_id)
    if entry is None or not entry.is_partial or entry.epoch != header.producer_epoch:
        return False
    entry.is_partial = False
    first_known = entry.batches[0].first_offset
    batches: list[RememberedBatch] = []
    for segment, position in _tail(segments, _RECALLED_BYTES):
        for _, older in segment.headers(position):
            if older.base_offset >= first_known:
                break
            is_same = (older.producer_id, older.producer_epoch) == (header.producer_id, entry.epoch)
            if is_same and not older.is_control:
                batches.append(
                    RememberedBatch(
                        older.last_sequence,
                        older.last_offset,
                        older.last_offset_delta,
                        older.max_timestamp,
                    )
                )
    room = REMEMBERED_BATCHES - len(entry.batches)
    entry.batches[:0] = batches[max(len(batches) - room, 0) :]
    return bool(batches)


def _tail(segments: Sequence[Segment], size_bytes: int) -> list[tuple[Segment, int]]:
    """The segments with about the last `size_bytes` of the log, and the position to start at."""
    tail: list[tuple[Segment, int]] = []
    for segment in reversed(segments):
        if size_bytes <= 0:
            break
        if segment.size:
            start = max(segment.size - size_bytes, 0)
            tail.append((segment, segment.index.batch_start_below(start) if start else 0))
        size_bytes -= segment.size
    return tail[::-1]
