"""Appends what a leader sent to the log of a follower: many batches, offsets and epochs given.

`Log.append` calls `append_from_leader`. Batches are taken as they are, in runs: all that fit into
one segment are written with one system call.
"""

from odradek.protocol.records import BatchHeader, Buffer
from odradek.protocol.types import LeaderEpoch
from odradek.storage.local_log import NO_TIMESTAMP, AppendResult, LocalLog
from odradek.storage.segments import MAX_RELATIVE_OFFSET
from odradek.storage.validation import check_from_leader


def append_from_leader(
    log: LocalLog, records: Buffer, leader_epoch: LeaderEpoch, now_ms: int
) -> AppendResult:
    """Raises `AppendRejected` for batches that do not continue the log, and `StorageError`."""
    end_before = log.offsets.end
    batches = check_from_leader(records, end_before, leader_epoch)
    first, last = batches[0][1], batches[-1][1]
    view = memoryview(records)
    written = 0  # Up to where in `records` segments have taken it.
    run: list[BatchHeader] = []
    try:
        for position, header in batches:
            if log.segments.must_roll(
                header.size_bytes,
                header.last_offset,
                header.max_timestamp,
                now_ms,
                unwritten=position - written,
            ):
                log.write_run(view[written:position], run)
                run, written = [], position
                end = log.offsets.end
                if header.last_offset - end > MAX_RELATIVE_OFFSET:
                    end = header.base_offset
                log.roll(end, producers_end=end_before)
            run.append(header)
        log.write_run(view[written : batches[-1][0] + last.size_bytes], run)
    except OSError as error:
        failure = log.directory.fail(error)
        # What fitted into full segments is there to stay.
        batches = [batch for batch in batches if batch[1].next_offset <= log.offsets.end]
        if log.is_usable and batches:
            _note_batches(log, view, batches)
        raise failure from error
    _note_batches(log, view, batches)
    return AppendResult(first.base_offset, last.last_offset, NO_TIMESTAMP, log.offsets.start)


def _note_batches(log: LocalLog, view: memoryview, batches: list[tuple[int, BatchHeader]]) -> None:
    """Takes account of batches that were written."""
    for position, header in batches:
        if header.leader_epoch > log.leader_epochs.latest:
            log.leader_epochs.assign(header.leader_epoch, header.base_offset)
        if header.producer_id >= 0:
            batch = view[position : position + header.size_bytes]
            log.producers.note_batch(header, batch, header.base_offset)
    log.flusher.appended(sum(header.record_count for _, header in batches))
