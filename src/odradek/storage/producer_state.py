"""The state of each idempotent producer of a log: epoch, last five batches, open transaction.

A batch that repeats one of the last five is a duplicate, and is answered with the offset that it
got the first time. Any other batch must continue the sequence numbers (which wrap from 2^31-1 to
0), or begin a newer producer epoch with sequence number 0. A producer that the log does not know
may begin with any sequence number: its records may have been deleted by retention.

`check` decides and changes nothing; `update` takes account of a batch that was appended. Followers
and recovery call `update` alone, because the leader has decided. The states of all producers are
written to a `.snapshot` file that is named after the log end offset at that time.

Transactions: `update` notes which producers have an open transaction and where it began, `complete`
that it ended. `last_stable_offset` is the bound for consumers with isolation level read_committed.
A leader lets a transaction begin in its log only if the coordinator knows that the partition is
part of it (`check_verification`, KIP-890): else a late batch would open a transaction that is never
ended.
"""

import struct
from collections.abc import Iterable
from typing import NamedTuple

from odradek.protocol.checksum import crc32c
from odradek.protocol.errors import ErrorCode
from odradek.protocol.records import BatchHeader, ControlType, EndTransactionMarker
from odradek.storage.errors import AppendRejected, StorageError
from odradek.storage.transaction_index import AbortedTransaction

REMEMBERED_BATCHES = 5
MAX_SEQUENCE = (1 << 31) - 1
NO_OFFSET = -1
# How many producers may wait for the coordinator's answer; beyond, the oldest is forgotten.
_MAX_ATTEMPTS = 1000

# Up to so many producers a snapshot is encoded as a whole every time.
_FEW_PRODUCERS = 1000
_SNAPSHOT_VERSION = 1
_SNAPSHOT_HEAD = struct.Struct(">hIi")
_SNAPSHOT_CRC_END = 6
_SNAPSHOT_ENTRY = struct.Struct(">qhiqiqiq")


class CorruptSnapshot(StorageError):
    """A producer snapshot fails its checksum or has another format."""


class RememberedBatch(NamedTuple):
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_sequence(self) -> int:
        return (self.last_sequence - self.offset_delta) & MAX_SEQUENCE

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta


class CompletedTransaction(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int
    is_aborted: bool


class Verification(NamedTuple):
    """Whether the coordinator was asked about the transaction that a batch belongs to (KIP-890).

    `verified_after` is the offset of the producer's last marker when the coordinator was asked;
    None if it was not asked. If a marker was written since, the answer is out of date.
    """

    verified_after: int | None


UNVERIFIED = Verification(None)
"""The request names a transactional id; the coordinator was not asked."""


class TransactionNotOpen(AppendRejected):
    """The log has no open transaction of the producer: the caller asks the coordinator and appends
    the batch again."""


class ProducerEntry:
    """The state of one producer. Invariant: `batches` have `epoch`, are in order, five at most."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "epoch",
        "is_partial",
        "last_marker_offset",
        "last_timestamp",
        "transaction_first_offset",
    )

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        # Whether it was read from a snapshot, which has only the last batch: the others can be read
        # from the log (`snapshots.recall_batches`).
        self.is_partial = False
        self.coordinator_epoch = -1
        self.last_timestamp = -1
        self.transaction_first_offset = NO_OFFSET
        self.last_marker_offset = NO_OFFSET
        self.batches: list[RememberedBatch] = []

    def is_in_transaction(self, epoch: int) -> bool:
        return self.transaction_first_offset != NO_OFFSET and self.epoch == epoch

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else -1


def _encode_entry(known: "tuple[int, ProducerEntry]") -> bytes:
    producer_id, entry = known
    last = entry.batches[-1] if entry.batches else None
    return _SNAPSHOT_ENTRY.pack(
        producer_id,
        entry.epoch,
        entry.last_sequence,
        NO_OFFSET if last is None else last.last_offset,
        0 if last is None else last.offset_delta,
        entry.last_timestamp,
        entry.coordinator_epoch,
        entry.transaction_first_offset,
    )


class SnapshotImage:
    """The encoded entries of a snapshot of many producers, 46 bytes each.

    Invariant: every producer that is not in `changed` is encoded as it is now.
    """

    __slots__ = ("_body", "_places", "changed")

    def __init__(self, body: bytearray, producer_ids: Iterable[int]) -> None:
        self._body = body
        self._places = {producer_id: place for place, producer_id in enumerate(producer_ids)}
        self.changed: dict[int, None] = {}

    def updated(self, entries: "dict[int, ProducerEntry]") -> bytearray:
        body, places, size = self._body, self._places, _SNAPSHOT_ENTRY.size
        for producer_id in self.changed:
            encoded = _encode_entry((producer_id, entries[producer_id]))
            place = places.get(producer_id)
            if place is None:
                places[producer_id] = len(places)
                body += encoded
            else:
                body[place * size : (place + 1) * size] = encoded
        self.changed.clear()
        assert len(body) == len(entries) * size
        return body


class ProducerStates:
    """All producers of one log. `end_offset` is the log end offset when they were last rebuilt from
    batches or written to a snapshot."""

    __slots__ = (
        "_attempts",
        "_image",
        "_unreplicated",
        "end_offset",
        "entries",
        "ongoing",
        "snapshot_offset",
    )

    def __init__(self, end_offset: int = 0) -> None:
        self.entries: dict[int, ProducerEntry] = {}
        # Producer id to first offset of its open transaction. Offsets rise in dict order, so the
        # first one is the first unstable offset.
        self.ongoing: dict[int, int] = {}
        # First and last offset of transactions whose marker is not below the high watermark yet.
        self._unreplicated: list[tuple[int, int]] = []
        # Producer id to epoch and lowest sequence number of batches that wait for the coordinator.
        self._attempts: dict[int, tuple[int, int]] = {}
        # Of the last snapshot, if there were many producers.
        self._image: SnapshotImage | None = None
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
        """Raises `AppendRejected` if the producer has an open transaction: then it may not write
        batches that do not belong to it."""
        entry = self.entries.get(header.producer_id)
        if entry is not None and entry.transaction_first_offset != NO_OFFSET:
            raise AppendRejected(
                ErrorCode.INVALID_TXN_STATE,
                f"producer {header.producer_id} has an open transaction "
                "and sent records outside of it",
            )

    def check_verification(self, header: BatchHeader, verification: Verification) -> None:
        """Raises `AppendRejected` unless a transactional batch continues an open transaction, or
        begins one that the coordinator has verified. It must begin with the first batch, not with
        a later one that was processed earlier."""
        entry = self.entries.get(header.producer_id)
        if entry is not None and entry.is_in_transaction(header.producer_epoch):
            return
        identity = f"producer {header.producer_id} with epoch {header.producer_epoch}"
        if verification.verified_after is None:
            raise TransactionNotOpen(
                ErrorCode.INVALID_TXN_STATE, f"{identity} has no open transaction here"
            )
        if verification.verified_after != self.last_marker_offset(header.producer_id):
            raise AppendRejected(
                ErrorCode.INVALID_TXN_STATE, f"the transaction of {identity} has ended meanwhile"
            )
        epoch, lowest = self._attempts.get(header.producer_id, (NO_OFFSET, 0))
        is_first = entry is None or entry.epoch != header.producer_epoch or not entry.batches
        if is_first and epoch == header.producer_epoch and header.base_sequence > lowest:
            raise AppendRejected(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"{identity} sent sequence {header.base_sequence}, but {lowest} is still missing",
            )

    def note_attempt(self, header: BatchHeader) -> None:
        """A batch waits for the coordinator: no later batch may begin the transaction."""
        epoch, lowest = self._attempts.pop(header.producer_id, (NO_OFFSET, 0))
        if epoch != header.producer_epoch or header.base_sequence < lowest:
            lowest = header.base_sequence
        self._attempts[header.producer_id] = header.producer_epoch, lowest
        if len(self._attempts) > _MAX_ATTEMPTS:
            del self._attempts[next(iter(self._attempts))]

    def last_marker_offset(self, producer_id: int) -> int:
        entry = self.entries.get(producer_id)
        return NO_OFFSET if entry is None else entry.last_marker_offset

    def check_marker(
        self,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        *,
        is_bumped: bool,
    ) -> bool:
        """Returns whether a marker is to be written. Raises `AppendRejected` if its producer epoch
        or its coordinator epoch is out of date.

        With `is_bumped` (transaction version 2) the producer epoch of a marker is one above that of
        the records that it ends. Then a marker with the known epoch was written already, and if the
        producer has an open transaction in that epoch, the marker is late.
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

    def update(self, header: BatchHeader, base_offset: int, max_timestamp: int) -> None:
        """Takes account of a data batch of a producer, appended at `base_offset`."""
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
            self._attempts.pop(header.producer_id, None)
        if len(self.entries) > _FEW_PRODUCERS:
            self._note_change(header.producer_id)

    def complete(
        self, header: BatchHeader, marker: EndTransactionMarker, offset: int, timestamp: int
    ) -> CompletedTransaction | None:
        """Takes account of a commit or abort marker. Returns None if the transaction was empty."""
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
        if len(self.entries) > _FEW_PRODUCERS:
            self._note_change(header.producer_id)
        if first_offset == NO_OFFSET:
            return None
        self._unreplicated.append((first_offset, offset))
        aborted = marker.control_type is ControlType.ABORT
        return CompletedTransaction(header.producer_id, first_offset, offset, aborted)

    @property
    def first_unstable_offset(self) -> int | None:
        """Where the oldest open transaction began; None if no transaction is open."""
        return next(iter(self.ongoing.values()), None)

    def as_aborted(self, ended: CompletedTransaction) -> AbortedTransaction:
        """The entry of the transaction index for a transaction that was just aborted."""
        unstable = self.first_unstable_offset
        stable = ended.last_offset + 1 if unstable is None else unstable
        return AbortedTransaction(ended.producer_id, ended.first_offset, ended.last_offset, stable)

    @property
    def has_unstable(self) -> bool:
        """Whether the last stable offset may be below the high watermark."""
        return bool(self.ongoing or self._unreplicated)

    def last_stable_offset(self, high_watermark: int) -> int:
        """The offset below which every transaction was committed or aborted by a marker that is
        replicated."""
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
        """Forgets producers that wrote nothing for `expiration_ms` and have no open transaction."""
        old = [
            producer_id
            for producer_id, entry in self.entries.items()
            if entry.transaction_first_offset == NO_OFFSET
            and now_ms - entry.last_timestamp >= expiration_ms
        ]
        for producer_id in old:
            del self.entries[producer_id]
        if old:
            self._image = None

    def clear(self, end_offset: int) -> None:
        self.entries.clear()
        self._image = None
        self.ongoing.clear()
        self._unreplicated.clear()
        self._attempts.clear()
        self.end_offset = self.snapshot_offset = end_offset

    def find_inconsistency(self, log_end_offset: int) -> str | None:
        """What is wrong with the states, if anything. Walks over all producers."""
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
                    f"{self.ongoing.get(producer_id)} counts as its first unstable offset"
                )
        firsts = list(self.ongoing.values())
        if firsts != sorted(firsts) or not self.ongoing.keys() <= self.entries.keys():
            return f"open transactions are out of order: {self.ongoing}"
        if self._unreplicated and self._unreplicated[-1][1] >= log_end_offset:
            return f"{self._unreplicated[-1]} ended beyond the log end {log_end_offset}"
        return None

    # Snapshots

    def _note_change(self, producer_id: int) -> None:
        """Keeps the image of many producers at most a thousand changes behind.

        To be called after the entry was changed: it may be encoded at once, and is not encoded
        again before its next change.
        """
        image = self._image
        if image is None:
            body = bytearray().join(map(_encode_entry, self.entries.items()))
            self._image = SnapshotImage(body, self.entries)
            return
        image.changed[producer_id] = None
        if len(image.changed) > _FEW_PRODUCERS:
            image.updated(self.entries)

    def encode(self) -> bytes:
        """Encodes a snapshot. With many producers only those that changed since the last snapshot
        are encoded: a log with a hundred thousand would block the event loop at every roll."""

        if self._image is not None:
            body: bytes | bytearray = self._image.updated(self.entries)
        else:
            body = b"".join(map(_encode_entry, self.entries.items()))
        count = len(self.entries)
        crc = crc32c(body, crc32c(count.to_bytes(4, "big")))
        return _SNAPSHOT_HEAD.pack(_SNAPSHOT_VERSION, crc, count) + body

    @classmethod
    def decode(cls, content: bytes, end_offset: int) -> "ProducerStates":
        if len(content) < _SNAPSHOT_HEAD.size:
            raise CorruptSnapshot("the producer snapshot is cut short")
        version, crc, count = _SNAPSHOT_HEAD.unpack_from(content)
        if version != _SNAPSHOT_VERSION:
            raise CorruptSnapshot(f"the producer snapshot has version {version}, not 1")
        if crc32c(content[_SNAPSHOT_CRC_END:]) != crc:
            raise CorruptSnapshot("the producer snapshot fails its checksum")
        if len(content) != _SNAPSHOT_HEAD.size + count * _SNAPSHOT_ENTRY.size:
            raise CorruptSnapshot("the producer snapshot has another length than it says")
        states = cls(end_offset)
        open_transactions = []
        for fields in _SNAPSHOT_ENTRY.iter_unpack(content[_SNAPSHOT_HEAD.size :]):
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
        if count > _FEW_PRODUCERS:
            body = bytearray(content[_SNAPSHOT_HEAD.size :])
            states._image = SnapshotImage(body, states.entries)
        states.ongoing = {producer_id: first for first, producer_id in sorted(open_transactions)}
        return states
