"""Which transactional batches compaction may drop, read in the order of the log.

Records of an aborted transaction go at once: no reader of committed records sees them, and they
make no other record superfluous. A marker goes when nothing of its transaction is left, and
`delete.retention.ms` after that: a reader who is in the middle of the transaction must find it.
An entry of the aborted-transaction index stays as long as the marker does that ends what it says.
"""

from collections.abc import Sequence

from odradek.protocol.records import (
    BatchHeader,
    Buffer,
    ControlType,
    decode_control_type,
    decode_records,
)

Aborted = tuple[int, int, int, int]


class CleanedTransactions:
    """Follows batches from the first on. Call `data` or `marker` for each transactional one."""

    __slots__ = ("_aborting", "_next", "_seen_committed", "_transactions", "kept")

    def __init__(self, aborted: Sequence[Aborted]) -> None:
        self._transactions = sorted(aborted, key=lambda entry: entry[1])
        self._next = 0
        # Producer id to its aborted transaction under way, and whether records of it were seen.
        self._aborting: dict[int, tuple[Aborted, bool]] = {}
        self._seen_committed: set[int] = set()
        # Entries whose marker stays. Taken by whoever writes the segment.
        self.kept: list[Aborted] = []

    def _advance(self, last_offset: int) -> None:
        transactions = self._transactions
        while self._next < len(transactions) and transactions[self._next][1] <= last_offset:
            entry = transactions[self._next]
            self._aborting[entry[0]] = entry, False
            self._next += 1

    def data(self, header: BatchHeader) -> bool:
        """Whether a batch of records belongs to an aborted transaction."""
        self._advance(header.last_offset)
        if not header.is_transactional:
            return False
        found = self._aborting.get(header.producer_id)
        # Whoever begins in the middle of the log has not seen the markers before it.
        if found is None or header.base_offset > found[0][2]:
            self._seen_committed.add(header.producer_id)
            return False
        self._aborting[header.producer_id] = found[0], True
        return True

    def marker(self, header: BatchHeader, batch: Buffer) -> bool:
        """Whether nothing is left of the transaction that a control batch ends."""
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
