"""Batches of idempotent and transactional producers, on their way into a log and once in it.

`Log` calls these; nobody else does. What a producer may send is said in `producer_state`; here
is what the log adds: the batches that a snapshot left out, and the index of aborted
transactions.
"""

from typing import TYPE_CHECKING

from odradek.protocol.errors import ErrorCode
from odradek.protocol.records import CONTROL_FLAG, TRANSACTIONAL_FLAG, BatchHeader, Buffer
from odradek.storage.aborted import append_entry, rewrite
from odradek.storage.disk_errors import Answer, answer_to
from odradek.storage.errors import AppendRejected
from odradek.storage.producer_state import Membership, RememberedBatch, TransactionNotOpen
from odradek.storage.snapshots import end_in_producers, recall_batches

if TYPE_CHECKING:
    from odradek.storage.log import Log


def check_producer(
    log: "Log", header: BatchHeader, membership: Membership | None
) -> RememberedBatch | None:
    """The batch that this one repeats, or None if it may be appended; else raises."""
    if not header.attributes & TRANSACTIONAL_FLAG:
        log.producers.check_transaction(header)
        return _check_sequence(log, header)
    if header.producer_id < 0:
        raise AppendRejected(ErrorCode.INVALID_RECORD, "a transactional batch names no producer")
    if membership is None:
        raise AppendRejected(
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            "a transactional batch came in a request without a transactional id",
        )
    duplicate = _check_sequence(log, header)
    if duplicate is None:
        try:
            log.producers.check_membership(header, membership)
        except TransactionNotOpen:
            log.producers.note_attempt(header)
            raise
    return duplicate


def _check_sequence(log: "Log", header: BatchHeader) -> RememberedBatch | None:
    try:
        return log.producers.check(header)
    except AppendRejected as refusal:
        if refusal.code is not ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            raise
        try:
            recalled = recall_batches(log.producers, header, log.row.all)
        except OSError as error:
            raise log.directory.fail(error) from error
        if not recalled:
            raise
    return log.producers.check(header)


def note_producer(log: "Log", header: BatchHeader, batch: Buffer, base_offset: int) -> None:
    """Takes account of a producer's batch, or of the end of its transaction, that was written."""
    if not header.attributes & CONTROL_FLAG:
        log.producers.update(header, base_offset, header.max_timestamp)
        return
    ended = end_in_producers(log.producers, header, batch, base_offset)
    if ended is None or not ended.is_aborted:
        return
    entry = log.producers.as_aborted(ended)
    log.aborted.add(entry)
    segment_base = log.row.base_of(base_offset)
    try:
        if log.lacks_aborted:
            write_lacking_aborted(log)
        else:
            append_entry(log.directory.disk, log.path, segment_base, entry)
        log.flusher.has_new_names = True
    except OSError as error:
        if answer_to(error) is not Answer.REFUSE:
            # If the disk is full, no records are taken until there is room.
            reason = log.directory.fail(error)
            if not log.is_usable:
                raise reason from error
        # The marker cannot be taken back. Its entry is written before anybody relies on the file.
        log.lacks_aborted.add(segment_base)


def write_lacking_aborted(log: "Log") -> None:
    """Completes the transaction indexes that lack entries: before a segment is closed, and before
    a clean stop. After a crash recovery makes them from the markers."""
    for base_offset in sorted(log.lacks_aborted):
        behind = log.row.base_behind(base_offset)
        end_offset = log.row.active.next_offset if behind is None else behind
        content = log.aborted.encode(base_offset, end_offset)
        rewrite(log.directory.disk, log.path, base_offset, content)
        log.lacks_aborted.discard(base_offset)
