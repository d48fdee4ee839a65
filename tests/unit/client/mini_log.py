"""The log of a partition in `mini_cluster`: it checks sequence numbers as Kafka does."""

from collections import deque
from collections.abc import Callable

from odradek.protocol.errors import ErrorCode
from odradek.protocol.records import Record, decode_records, offset_prefix, read_header
from odradek.protocol.types import LeaderEpoch, Offset


class PartitionLog:
    """The log of one partition, which all brokers of a `MiniCluster` share."""

    def __init__(self, leader: int, on_change: Callable[[], None]) -> None:
        self.leader = leader
        self._on_change = on_change
        self.leader_epoch = 0
        self.start_offset = 0
        self.max_message_bytes: int | None = None
        self.batches: list[bytes] = []
        self.end_offset = 0
        self.epoch_ends: dict[int, int] = {}
        # Followers whose logs are empty. They serve consumers that know the leader epoch (KIP-392).
        self.empty_followers: set[int] = set()
        # By producer id: epoch, next sequence, and the last five (base sequence, base offset).
        self.producers: dict[int, tuple[int, int, deque[tuple[int, int]]]] = {}

    def append(self, batch: bytes) -> tuple[int, int]:
        """Error code and base offset, as a broker decides them."""
        header = read_header(batch)
        if self.max_message_bytes is not None and len(batch) > self.max_message_bytes:
            return ErrorCode.MESSAGE_TOO_LARGE, -1
        if header.producer_id >= 0:
            # A producer that the broker has never heard of may begin anywhere (KIP-360).
            epoch, expected, recent = self.producers.get(
                header.producer_id,
                (header.producer_epoch, header.base_sequence, deque(maxlen=5)),
            )
            if header.producer_epoch < epoch:
                return ErrorCode.INVALID_PRODUCER_EPOCH, -1
            if header.producer_epoch > epoch:
                epoch, expected, recent = header.producer_epoch, 0, deque(maxlen=5)
            for sequence, offset in recent:
                if sequence == header.base_sequence:
                    return 0, offset
            if header.base_sequence != expected:
                return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
            recent.append((header.base_sequence, self.end_offset))
            following = (header.last_sequence + 1) & 0x7FFFFFFF
            self.producers[header.producer_id] = (epoch, following, recent)
        base = self.end_offset
        self.batches.append(
            offset_prefix(header, Offset(base), LeaderEpoch(self.leader_epoch)) + batch[16:]
        )
        self.end_offset += header.record_count
        self._on_change()
        return 0, base

    def records(self) -> list[Record]:
        return [record for batch in self.batches for record in decode_records(batch)]

    def read(self, offset: int, max_bytes: int) -> bytes:
        found = b""
        for batch in self.batches:
            if read_header(batch).next_offset > offset and len(found) < max_bytes:
                found += batch
        return found

    def elect(self, leader: int) -> None:
        self.epoch_ends[self.leader_epoch] = self.end_offset
        self.leader = leader
        self.leader_epoch += 1
        self._on_change()

    def truncate(self, end_offset: int) -> None:
        """Loses what lies from here on, as an unclean election does."""
        self.batches = [one for one in self.batches if read_header(one).next_offset <= end_offset]
        self.end_offset = end_offset
