"""Decides which transactional batches compaction may remove. Kafka: `CleanedTransactionMetadata`.

Records of an aborted transaction are removed at once: consumers with isolation level read_committed
do not see them, and they do not supersede other records. A marker is removed `delete.retention.ms`
after all records of its transaction are gone: a consumer that has read some of the records must
find it. An entry of the transaction index stays as long as its abort marker.
"""

from collections.abc import Sequence

from odradek.protocol.records import (
    BatchHeader,
    Buffer,
    ControlType,
    decode_control_type,
    decode_records,
)
from odradek.protocol.types import Offset, ProducerId
from odradek.storage.compaction.job import Aborted


class CleanedTransactions:
    """Call `data` or `marker` for each batch, in the order of the log."""

    __slots__ = ("_aborting", "_next", "_seen_committed", "_transactions", "kept")

    def __init__(self, aborted: Sequence[Aborted]) -> None:
        self._transactions = sorted(aborted, key=lambda entry: entry[1])
        self._next = 0
        # Producer id to its aborted transaction at this offset, and whether it had records.
        self._aborting: dict[ProducerId, tuple[Aborted, bool]] = {}
        self._seen_committed: set[ProducerId] = set()
        # Index entries whose marker stays, until `take_kept` is called.
        self.kept: list[Aborted] = []

    def _advance(self, last_offset: Offset) -> None:
        transactions = self._transactions
        while self._next < len(transactions) and transactions[self._next][1] <= last_offset:
            entry = transactions[self._next]
            self._aborting[entry[0]] = entry, False
            self._next += 1

    def data(self, header: BatchHeader) -> bool:
        """Returns whether a batch of records belongs to an aborted transaction."""
        self._advance(header.last_offset)
        if not header.is_transactional:
            return False
        found = self._aborting.get(header.producer_id)
        # A pass that begins in the middle of the log has not seen the markers before.
        if found is None or header.base_offset > found[0][2]:
            self._seen_committed.add(header.producer_id)
            return False
        self._aborting[header.producer_id] = found[0], True
        return True

    def marker(self, header: BatchHeader, batch: Buffer) -> bool:
        """Returns whether no records are left of the transaction that a control batch ends."""
        self._advance(header.last_offset)
        if not header.record_count:
            return True  # It was emptied before.
        kind = decode_control_type(decode_records(batch)[0])
        if kind is ControlType.ABORT:
            found = self._aborting.pop(header.producer_id, None)
            if found is None or not found[1]:
                return True
            self.kept.append(found[0])
            return False
        if kind is ControlType.COMMIT:
            was_seen = header.producer_id in self._seen_committed
            self._seen_committed.discard(header.producer_id)
            return not was_seen
        return False

    def take_kept(self) -> list[Aborted]:
        kept, self.kept = self.kept, []
        return sorted(kept, key=lambda entry: entry[2])
