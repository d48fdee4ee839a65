"""What a log knows of its producers: their last batches, open and aborted transactions.

`ProducerHistory` is the part of a `Log` that checks batches of idempotent and transactional
producers before they are appended and takes account of them afterwards. What a producer may send
is decided in `producer_state`; added here is what needs the log's files: batches that a snapshot
left out, producer snapshots, and the transaction index.
"""

from typing import Final

from odradek.protocol.errors import ErrorCode
from odradek.protocol.records import CONTROL_FLAG, TRANSACTIONAL_FLAG, BatchHeader, Buffer
from odradek.protocol.types import Offset
from odradek.storage.disk_errors import Answer, answer_to
from odradek.storage.errors import AppendRejected
from odradek.storage.log_context import LogContext
from odradek.storage.producer_entry import RememberedBatch
from odradek.storage.producer_state import ProducerStates, TransactionNotOpen, Verification
from odradek.storage.segments import Segments
from odradek.storage.snapshots import (
    drop_snapshots,
    end_in_producers,
    rebuild_producers,
    recall_batches,
    write_snapshot,
)
from odradek.storage.transaction_index import (
    AbortedTransaction,
    AbortedTransactions,
    append_entry,
    rewrite,
)

# Shared by all logs without incomplete indexes: an empty set of its own takes 216 bytes a log.
_NO_SEGMENTS: Final[frozenset[Offset]] = frozenset()


class ProducerHistory:
    """`states` are the producers as of the log end, `aborted` the transactions whose abort marker
    is in the log."""

    __slots__ = (
        "_context",
        "_incomplete_indexes",
        "_segments",
        "aborted",
        "states",
    )

    def __init__(
        self,
        context: LogContext,
        segments: Segments,
        *,
        states: ProducerStates,
        aborted: AbortedTransactions,
    ) -> None:
        self._context = context
        self._segments = segments
        self.states = states
        self.aborted = aborted
        # Base offsets of the segments whose transaction index lacks entries, because there was no
        # file descriptor or no room when they were to be written.
        self._incomplete_indexes = _NO_SEGMENTS

    # Appending

    def check_batch(
        self, header: BatchHeader, verification: Verification | None
    ) -> RememberedBatch | None:
        """Returns the batch that this one repeats, or None if it may be appended.

        Raises `AppendRejected`, or a `StorageError` if the log cannot be read.
        """
        if not header.attributes & TRANSACTIONAL_FLAG:
            self.states.check_transaction(header)
            return self._check_sequence(header)
        if header.producer_id < 0:
            raise AppendRejected(
                ErrorCode.INVALID_RECORD, "a transactional batch names no producer"
            )
        if verification is None:
            raise AppendRejected(
                ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
                "a transactional batch came in a request without a transactional id",
            )
        duplicate = self._check_sequence(header)
        if duplicate is None:
            try:
                self.states.check_verification(header, verification)
            except TransactionNotOpen:
                self.states.note_awaiting_verification(header)
                raise
        return duplicate

    def _check_sequence(self, header: BatchHeader) -> RememberedBatch | None:
        try:
            return self.states.check(header)
        except AppendRejected as rejection:
            if rejection.code is not ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
                raise
            try:
                recalled = recall_batches(self.states, header, self._segments.all)
            except OSError as error:
                raise self._context.log_directory.fail(error) from error
            if not recalled:
                raise
        return self.states.check(header)

    def note_batch(self, header: BatchHeader, batch: Buffer, base_offset: Offset) -> None:
        """Takes account of a producer's batch, or of the end of its transaction, that was written
        at `base_offset`."""
        if not header.attributes & CONTROL_FLAG:
            self.states.update(header, base_offset, header.max_timestamp)
            return
        transaction = end_in_producers(self.states, header, batch, base_offset)
        if transaction is None or not transaction.is_aborted:
            return
        entry = self.states.transaction_index_entry(transaction)
        self.aborted.add(entry)
        segment_base = self._segments.base_of(base_offset)
        try:
            if self._incomplete_indexes:
                self._complete_indexes()
            else:
                append_entry(self._context.disk, self._context.partition_path, segment_base, entry)
            self._context.directory_entries.change()
        except OSError as error:
            if answer_to(error) is not Answer.REFUSE:
                # If the disk is full, no records are taken until there is room.
                reason = self._context.log_directory.fail(error)
                if not self._context.log_directory.is_online:
                    raise reason from error
            # The marker cannot be taken back. Its entry is written before the file is relied on.
            self._incomplete_indexes |= {segment_base}

    def _complete_indexes(self) -> None:
        """Writes the transaction indexes that lack entries. After a crash recovery makes them from
        the markers."""
        for base_offset in sorted(self._incomplete_indexes):
            end_offset = self._segments.end_offset_of(base_offset)
            content = self.aborted.encode(base_offset, end_offset)
            rewrite(self._context.disk, self._context.partition_path, base_offset, content)
            self._incomplete_indexes -= {base_offset}

    # Files

    def write_files(self, end_offset: Offset) -> None:
        """A segment is about to be closed: the transaction indexes are complete afterwards, and
        there is a producer snapshot for `end_offset`, so that recovery need not read what lies
        before it. The states must be those of `end_offset`."""
        self._complete_indexes()
        write_snapshot(self._context.disk, self._context.partition_path, self.states, end_offset)

    def close(self, end_offset: Offset) -> bool:
        """The broker stops cleanly. Returns whether a snapshot had to be written."""
        self._complete_indexes()
        if end_offset <= self.states.snapshot_offset:
            return False
        write_snapshot(self._context.disk, self._context.partition_path, self.states, end_offset)
        return True

    # Truncation, retention and compaction

    def truncate_end(self, end_offset: Offset) -> None:
        """The log ends at `end_offset` now: producers are rebuilt from the newest snapshot and the
        batches after it, and transactions whose marker is gone are forgotten."""
        disk, active = self._context.disk, self._segments.active
        if drop_snapshots(disk, self._context.partition_path, above=end_offset):
            self._context.directory_entries.change()
        self.states = rebuild_producers(
            disk, self._context.partition_path, self._segments.all, end_offset
        )
        if self.aborted.drop_from(end_offset):
            index = self.aborted.encode(active.base_offset, end_offset)
            rewrite(disk, self._context.partition_path, active.base_offset, index)
        self._incomplete_indexes = frozenset(
            base for base in self._incomplete_indexes if base < end_offset
        )

    def drop_snapshots(self) -> None:
        """The log was emptied. A snapshot that a power cut brought back would tell of producers
        that are not in the log, so their removal is made durable at once."""
        drop_snapshots(self._context.disk, self._context.partition_path)
        self._context.disk.sync_directory(self._context.partition_path)

    def clear(self, end_offset: Offset) -> None:
        self.states.clear(end_offset)
        self.aborted.clear()
        self._incomplete_indexes = _NO_SEGMENTS

    def drop_below(self, base_offset: Offset) -> None:
        """The first segment begins here now: the transaction indexes before it are gone."""
        self.aborted.drop_below(base_offset)

    def replace_aborted(
        self, base_offset: Offset, end_offset: Offset, entries: list[AbortedTransaction]
    ) -> None:
        """Compaction kept these of the aborted transactions between two offsets."""
        self.aborted.replace(base_offset, end_offset, entries)

    # Invariants

    def check(self, end_offset: Offset) -> None:
        """Walks over all producers and aborted transactions."""
        reason = self.states.find_inconsistency(end_offset) or self.aborted.find_inconsistency(
            end_offset
        )
        if reason is not None:
            raise self._context.history.violation(reason)
