"""The state of each idempotent producer of a log: epoch, last five batches, open transaction.

A batch that repeats one of the last five is a duplicate, and is answered with the offset that it
got the first time. Any other batch must continue the sequence numbers (which wrap from 2^31-1 to
0), or begin a newer producer epoch with sequence number 0. A producer that the log does not know
may begin with any sequence number: its records may have been deleted by retention.

`check` decides whether a batch is accepted and changes nothing; `update` notes a batch that was
appended. Followers and recovery call `update` alone, because the leader has accepted the batch. The
states of all producers are written to a `.snapshot` file that is named after the log end offset at
that time.

Transactions: `update` notes which producers have an open transaction and where it began, `complete`
notes that it ended. `last_stable_offset` is the bound for consumers with isolation level
read_committed. A leader lets a transaction begin in its log only if the coordinator knows that the
partition is part of it (`check_verification`, KIP-890): else a late batch would open a transaction
that is never ended.
"""

import struct
from typing import NamedTuple

from odradek.protocol.batch_header import NO_PRODUCER_EPOCH
from odradek.protocol.checksum import crc32c
from odradek.protocol.errors import ErrorCode
from odradek.protocol.records import (
    BatchHeader,
    ControlType,
    EndTransactionMarker,
)
from odradek.protocol.types import FIRST_OFFSET, NO_OFFSET, Offset, ProducerEpoch, ProducerId
from odradek.storage.errors import AppendRejected, StorageError
from odradek.storage.producer_entry import (
    MAX_SEQUENCE,
    REMEMBERED_BATCHES,
    SNAPSHOT_ENTRY,
    EncodedSnapshot,
    ProducerEntry,
    RememberedBatch,
    encode_entry,
)
from odradek.storage.transaction_index import AbortedTransaction
from odradek.wording import counted

# The producers that may wait for the coordinator's answer. If there are more, the oldest entry is
# removed.
_MAX_AWAITING_VERIFICATION = 1000

# Up to this number of producers a snapshot is encoded as a whole every time.
_MAX_PRODUCERS_WITHOUT_CACHE = 1000
# After this number of changes the cached encoding of the producers is updated.
_MAX_CACHED_CHANGES = 1000
_SNAPSHOT_VERSION = 1
_SNAPSHOT_HEAD = struct.Struct(">hIi")
_SNAPSHOT_CRC_END = 6


class CorruptSnapshot(StorageError):
    """A producer snapshot fails its checksum or has another format."""


class CompletedTransaction(NamedTuple):
    producer_id: ProducerId
    first_offset: Offset
    last_offset: Offset
    is_aborted: bool


class Verification(NamedTuple):
    """The coordinator's verification of the transaction that a batch belongs to (KIP-890).

    `marker_offset` is the offset of the producer's last marker when the coordinator was asked; None
    if it was not asked. If a marker was written since, the verification is out of date.
    """

    marker_offset: Offset | None


UNVERIFIED = Verification(None)
"""For a transactional batch about which the coordinator was not asked yet."""


class TransactionNotOpen(AppendRejected):
    """The log has no open transaction of the producer. The batch was not appended: the caller must
    verify the transaction with the coordinator and try the append again."""


class ProducerStates:
    """All producers of one log.

    `snapshot_offset` is the log end offset of the last snapshot. `end_offset` is used while the
    states are rebuilt from batches: they contain every batch below it. Appends do not advance it.
    """

    __slots__ = (
        "_awaiting_verification",
        "_encoded",
        "_unreplicated",
        "end_offset",
        "entries",
        "ongoing",
        "snapshot_offset",
    )

    def __init__(self, end_offset: Offset = FIRST_OFFSET) -> None:
        self.entries: dict[ProducerId, ProducerEntry] = {}
        # Producer id to first offset of its open transaction. Offsets rise in dict order, so the
        # first one is the first unstable offset.
        self.ongoing: dict[ProducerId, Offset] = {}
        # First and last offset of transactions whose marker is not below the high watermark yet.
        self._unreplicated: list[tuple[Offset, Offset]] = []
        # Producer id to producer epoch and lowest sequence number of the batches whose transaction
        # the coordinator is verifying.
        self._awaiting_verification: dict[ProducerId, tuple[ProducerEpoch, int]] = {}
        # The cached encoding of `entries`. None with few producers, and after `expire` removed any.
        self._encoded: EncodedSnapshot | None = None
        self.end_offset = end_offset
        self.snapshot_offset = end_offset

    def check(self, header: BatchHeader) -> RememberedBatch | None:
        """Returns the batch that this one repeats, or None if it may be appended; else raises
        `AppendRejected`."""
        entry = self.entries.get(header.producer_id)
        if entry is None:
            return None
        sequence, epoch = header.base_sequence, header.producer_epoch
        if epoch == entry.epoch:
            batches = entry.batches
            if batches:
                if sequence == (batches[-1].last_sequence + 1) & MAX_SEQUENCE:
                    return None
                for batch in batches:
                    if (
                        batch.first_sequence == sequence
                        and batch.last_sequence == header.last_sequence
                    ):
                        return batch
            elif sequence == 0:
                return None
            raise AppendRejected(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {header.producer_id} sent sequence {sequence}, "
                f"but its last one was {entry.last_sequence}",
            )
        if epoch < entry.epoch:
            raise AppendRejected(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"producer {header.producer_id} has epoch {epoch}, "
                f"but epoch {entry.epoch} was seen already",
            )
        if sequence != 0:
            raise AppendRejected(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {header.producer_id} began epoch {epoch} at sequence {sequence}, not 0",
            )
        return None

    def check_transaction(self, header: BatchHeader) -> None:
        """Raises `AppendRejected` if the producer of a non-transactional batch has an open
        transaction."""
        entry = self.entries.get(header.producer_id)
        if entry is not None and entry.transaction_first_offset != NO_OFFSET:
            raise AppendRejected(
                ErrorCode.INVALID_TXN_STATE,
                f"producer {header.producer_id} has an open transaction "
                "and sent records outside of it",
            )

    def check_verification(self, header: BatchHeader, verification: Verification) -> None:
        """Raises `AppendRejected` unless a transactional batch continues an open transaction, or
        begins one that the coordinator has verified. A transaction must begin with its first batch:
        a later batch whose verification ended earlier is rejected."""
        entry = self.entries.get(header.producer_id)
        if entry is not None and entry.is_in_transaction(header.producer_epoch):
            return
        identity = f"producer {header.producer_id} with epoch {header.producer_epoch}"
        if verification.marker_offset is None:
            raise TransactionNotOpen(
                ErrorCode.INVALID_TXN_STATE, f"{identity} has no open transaction here"
            )
        if verification.marker_offset != self.last_marker_offset(header.producer_id):
            raise AppendRejected(
                ErrorCode.INVALID_TXN_STATE, f"the transaction of {identity} has ended meanwhile"
            )
        epoch, lowest = self._awaiting_verification.get(header.producer_id, (NO_PRODUCER_EPOCH, 0))
        is_first = entry is None or entry.epoch != header.producer_epoch or not entry.batches
        if is_first and epoch == header.producer_epoch and header.base_sequence > lowest:
            raise AppendRejected(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"{identity} sent sequence {header.base_sequence}, but {lowest} is still missing",
            )

    def note_awaiting_verification(self, header: BatchHeader) -> None:
        """Notes that a batch waits for the coordinator, so that no later batch of the producer
        begins the transaction."""
        epoch, lowest = self._awaiting_verification.pop(header.producer_id, (NO_PRODUCER_EPOCH, 0))
        if epoch != header.producer_epoch or header.base_sequence < lowest:
            lowest = header.base_sequence
        self._awaiting_verification[header.producer_id] = header.producer_epoch, lowest
        if len(self._awaiting_verification) > _MAX_AWAITING_VERIFICATION:
            del self._awaiting_verification[next(iter(self._awaiting_verification))]

    def last_marker_offset(self, producer_id: ProducerId) -> Offset:
        entry = self.entries.get(producer_id)
        return NO_OFFSET if entry is None else entry.last_marker_offset

    def check_marker(
        self,
        producer_id: ProducerId,
        producer_epoch: ProducerEpoch,
        coordinator_epoch: int,
        *,
        is_bumped: bool,
    ) -> bool:
        """Returns whether a marker must be written. Raises `AppendRejected` if its producer epoch
        or its coordinator epoch is out of date.

        With `is_bumped` (transaction version 2) the producer epoch of a marker is one above that of
        the records that it ends. So if the marker has the epoch of the producer, it was written
        already (returns False), or the producer has begun the next transaction since and the marker
        is too late (raises).
        """
        entry = self.entries.get(producer_id)
        if entry is None:
            return True
        if coordinator_epoch < entry.coordinator_epoch:
            raise AppendRejected(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"coordinator epoch {coordinator_epoch} is older than {entry.coordinator_epoch}",
            )
        is_open = entry.transaction_first_offset != NO_OFFSET
        repeats = is_bumped and producer_epoch == entry.epoch
        if producer_epoch < entry.epoch or (repeats and is_open):
            raise AppendRejected(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"a marker for producer {producer_id} has epoch {producer_epoch}, "
                f"but epoch {entry.epoch} was seen already",
            )
        return not (repeats and entry.last_marker_offset != NO_OFFSET)

    def update(self, header: BatchHeader, base_offset: Offset, max_timestamp: int) -> None:
        """Notes a data batch of a producer, which was appended at `base_offset`."""
        entry = self.entries.get(header.producer_id)
        if entry is None:
            entry = self.entries[header.producer_id] = ProducerEntry(header.producer_epoch)
        elif entry.epoch != header.producer_epoch:
            entry.epoch = header.producer_epoch
            entry.batches.clear()
            entry.is_partial = False
        if header.base_sequence >= 0:  # Group coordinators write without sequence numbers.
            delta = header.last_offset_delta
            batches = entry.batches
            batches.append(
                RememberedBatch(header.last_sequence, base_offset + delta, delta, max_timestamp)
            )
            if len(batches) > REMEMBERED_BATCHES:
                del batches[0]
        entry.last_timestamp = max_timestamp
        if header.is_transactional and entry.transaction_first_offset == NO_OFFSET:
            entry.transaction_first_offset = base_offset
            self.ongoing[header.producer_id] = base_offset
            self._awaiting_verification.pop(header.producer_id, None)
        if len(self.entries) > _MAX_PRODUCERS_WITHOUT_CACHE:
            self._note_change(header.producer_id)

    def complete(
        self, header: BatchHeader, marker: EndTransactionMarker, offset: Offset, timestamp: int
    ) -> CompletedTransaction | None:
        """Notes a commit or abort marker. Returns the transaction that it ended; None if the
        transaction had no records here."""
        entry = self.entries.get(header.producer_id)
        if entry is None:
            entry = self.entries[header.producer_id] = ProducerEntry(header.producer_epoch)
        elif entry.epoch != header.producer_epoch:
            entry.epoch = header.producer_epoch
            entry.batches.clear()
        first_offset = entry.transaction_first_offset
        entry.transaction_first_offset = NO_OFFSET
        entry.last_marker_offset = offset
        entry.coordinator_epoch = marker.coordinator_epoch
        entry.last_timestamp = timestamp
        self.ongoing.pop(header.producer_id, None)
        if len(self.entries) > _MAX_PRODUCERS_WITHOUT_CACHE:
            self._note_change(header.producer_id)
        if first_offset == NO_OFFSET:
            return None
        self._unreplicated.append((first_offset, offset))
        aborted = marker.control_type is ControlType.ABORT
        return CompletedTransaction(header.producer_id, first_offset, offset, aborted)

    @property
    def first_unstable_offset(self) -> Offset | None:
        """Where the oldest open transaction began; None if no transaction is open."""
        return next(iter(self.ongoing.values()), None)

    def transaction_index_entry(self, ended: CompletedTransaction) -> AbortedTransaction:
        """Returns the entry of the transaction index for a transaction that was just aborted."""
        unstable = self.first_unstable_offset
        stable = ended.last_offset + 1 if unstable is None else unstable
        return AbortedTransaction(ended.producer_id, ended.first_offset, ended.last_offset, stable)

    @property
    def has_unstable(self) -> bool:
        """Whether the last stable offset may be below the high watermark."""
        return bool(self.ongoing or self._unreplicated)

    def last_stable_offset(self, high_watermark: Offset) -> Offset:
        """Returns the offset below which every transaction was committed or aborted by a marker
        that is below the high watermark."""
        if self._unreplicated:
            self._unreplicated = [
                (first_offset, last_offset)
                for first_offset, last_offset in self._unreplicated
                if last_offset >= high_watermark
            ]
        stable = next(iter(self.ongoing.values()), high_watermark)
        for first_offset, _ in self._unreplicated:
            stable = min(stable, first_offset)
        return min(stable, high_watermark)

    def expire(self, now_ms: int, expiration_ms: int) -> None:
        """Removes producers that wrote nothing for `expiration_ms` and have no open transaction."""
        old = [
            producer_id
            for producer_id, entry in self.entries.items()
            if entry.transaction_first_offset == NO_OFFSET
            and now_ms - entry.last_timestamp >= expiration_ms
        ]
        for producer_id in old:
            del self.entries[producer_id]
        if old:
            self._encoded = None

    def clear(self, end_offset: Offset) -> None:
        self.entries.clear()
        self._encoded = None
        self.ongoing.clear()
        self._unreplicated.clear()
        self._awaiting_verification.clear()
        self.end_offset = self.snapshot_offset = end_offset

    def find_inconsistency(self, log_end_offset: Offset) -> str | None:
        """Returns a description of an inconsistency, or None. Walks over all producers."""
        for producer_id, entry in self.entries.items():
            offsets = [batch.last_offset for batch in entry.batches]
            if len(offsets) > REMEMBERED_BATCHES or offsets != sorted(set(offsets)):
                return f"producer {producer_id} remembers batches that end at {offsets}"
            first = entry.transaction_first_offset
            if (offsets and offsets[-1] >= log_end_offset) or first >= log_end_offset:
                return (
                    f"producer {producer_id} is beyond the log end {log_end_offset}: its batches "
                    f"end at {offsets}, its transaction begins at {first}"
                )
            if first != self.ongoing.get(producer_id, NO_OFFSET):
                return (
                    f"producer {producer_id} has a transaction from {first} on, but "
                    f"{self.ongoing.get(producer_id)} is listed as its first unstable offset"
                )
        firsts = list(self.ongoing.values())
        if firsts != sorted(firsts) or not self.ongoing.keys() <= self.entries.keys():
            return f"open transactions are out of order: {self.ongoing}"
        if self._unreplicated and self._unreplicated[-1][1] >= log_end_offset:
            return f"{self._unreplicated[-1]} ended beyond the log end {log_end_offset}"
        return None

    # Snapshots

    def _note_change(self, producer_id: ProducerId) -> None:
        """Notes that a producer's entry was changed, and encodes all changed entries if there are
        more than `_MAX_CACHED_CHANGES`.

        The caller must have changed the entry already: it may be encoded now, and is not encoded
        again before its next change.
        """
        encoded = self._encoded
        if encoded is None:
            body = bytearray().join(map(encode_entry, self.entries.items()))
            self._encoded = EncodedSnapshot(body, self.entries)
            return
        encoded.changed[producer_id] = None
        if len(encoded.changed) > _MAX_CACHED_CHANGES:
            encoded.encode_changes(self.entries)

    def encode(self) -> bytes:
        """Encodes a snapshot. With many producers only those that changed since the cached encoding
        was updated are encoded: a log with a hundred thousand producers would block the event loop
        at every roll."""
        if self._encoded is not None:
            body: bytes | bytearray = self._encoded.encode_changes(self.entries)
        else:
            body = b"".join(map(encode_entry, self.entries.items()))
        count = len(self.entries)
        crc = crc32c(body, crc32c(count.to_bytes(4, "big")))
        return _SNAPSHOT_HEAD.pack(_SNAPSHOT_VERSION, crc, count) + body

    @classmethod
    def decode(cls, content: bytes, end_offset: Offset) -> "ProducerStates":
        if len(content) < _SNAPSHOT_HEAD.size:
            raise CorruptSnapshot("the producer snapshot is cut short")
        version, crc, count = _SNAPSHOT_HEAD.unpack_from(content)
        if version != _SNAPSHOT_VERSION:
            raise CorruptSnapshot(f"the producer snapshot has version {version}, not 1")
        if crc32c(content[_SNAPSHOT_CRC_END:]) != crc:
            raise CorruptSnapshot("the producer snapshot fails its checksum")
        size = _SNAPSHOT_HEAD.size + count * SNAPSHOT_ENTRY.size
        if len(content) != size:
            raise CorruptSnapshot(
                f"the producer snapshot has {len(content)} bytes, but needs {size} for "
                f"{counted(count, 'entry', 'entries')}"
            )
        states = cls(end_offset)
        open_transactions = []
        for fields in SNAPSHOT_ENTRY.iter_unpack(content[_SNAPSHOT_HEAD.size :]):
            producer_id, epoch, sequence, offset, delta, timestamp, coordinator, first = fields
            entry = states.entries[producer_id] = ProducerEntry(epoch)
            entry.coordinator_epoch = coordinator
            entry.last_timestamp = timestamp
            if offset >= 0:
                entry.batches.append(RememberedBatch(sequence, offset, delta, timestamp))
                entry.is_partial = True
            if first >= 0:
                entry.transaction_first_offset = first
                open_transactions.append((first, producer_id))
        if count > _MAX_PRODUCERS_WITHOUT_CACHE:
            body = bytearray(content[_SNAPSHOT_HEAD.size :])
            states._encoded = EncodedSnapshot(body, states.entries)
        states.ongoing = {producer_id: first for first, producer_id in sorted(open_transactions)}
        return states
