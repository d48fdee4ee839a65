"""What a log remembers of one idempotent producer, and how a snapshot encodes it.

`ProducerStates` decides by these entries which batches are accepted.
"""

import struct
from collections.abc import Iterable
from typing import NamedTuple

from odradek.protocol.types import NO_OFFSET, Offset, ProducerEpoch, ProducerId

REMEMBERED_BATCHES = 5
MAX_SEQUENCE = (1 << 31) - 1
SNAPSHOT_ENTRY = struct.Struct(">qhiqiqiq")


class RememberedBatch(NamedTuple):
    last_sequence: int
    last_offset: Offset
    offset_delta: int
    timestamp: int

    @property
    def first_sequence(self) -> int:
        return (self.last_sequence - self.offset_delta) & MAX_SEQUENCE

    @property
    def first_offset(self) -> Offset:
        return Offset(self.last_offset - self.offset_delta)


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

    def __init__(self, epoch: ProducerEpoch) -> None:
        self.epoch = epoch
        # Whether the entry was read from a snapshot, which has only the last batch. The earlier
        # ones of the last five batches can be read from the log (`snapshots.recall_batches`).
        self.is_partial = False
        self.coordinator_epoch = -1
        self.last_timestamp = -1
        self.transaction_first_offset = NO_OFFSET
        self.last_marker_offset = NO_OFFSET
        self.batches: list[RememberedBatch] = []

    def is_in_transaction(self, epoch: ProducerEpoch) -> bool:
        return self.transaction_first_offset != NO_OFFSET and self.epoch == epoch

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else -1


def encode_entry(known: "tuple[ProducerId, ProducerEntry]") -> bytes:
    producer_id, entry = known
    last = entry.batches[-1] if entry.batches else None
    return SNAPSHOT_ENTRY.pack(
        producer_id,
        entry.epoch,
        entry.last_sequence,
        NO_OFFSET if last is None else last.last_offset,
        0 if last is None else last.offset_delta,
        entry.last_timestamp,
        entry.coordinator_epoch,
        entry.transaction_first_offset,
    )


class EncodedSnapshot:
    """The cached encoding of many producers, as it is in a snapshot: 46 bytes for each.

    Invariant: every producer that is not in `changed` is encoded as it is now.
    """

    __slots__ = ("_body", "_places", "changed")

    def __init__(self, body: bytearray, producer_ids: Iterable[ProducerId]) -> None:
        self._body = body
        self._places = {producer_id: place for place, producer_id in enumerate(producer_ids)}
        self.changed: dict[ProducerId, None] = {}

    def encode_changes(self, entries: "dict[ProducerId, ProducerEntry]") -> bytearray:
        """Encodes the changed producers again and returns the encoding of all of them."""
        body, places, size = self._body, self._places, SNAPSHOT_ENTRY.size
        for producer_id in self.changed:
            encoded = encode_entry((producer_id, entries[producer_id]))
            place = places.get(producer_id)
            if place is None:
                places[producer_id] = len(places)
                body += encoded
            else:
                body[place * size : (place + 1) * size] = encoded
        self.changed.clear()
        assert len(body) == len(entries) * size
        return body
