"""What a producer knows about the sequence numbers of one partition; `idempotence` changes it."""

from typing import TYPE_CHECKING

from odradek.protocol.batch_header import NO_PRODUCER_EPOCH, NO_PRODUCER_ID

if TYPE_CHECKING:
    from odradek.client.producer.accumulator import ProducerBatch


class SequenceState:
    """The sequence numbers of one partition."""

    __slots__ = (
        "acknowledged_early",
        "in_flight",
        "is_known_to_broker",
        "last_acknowledged_s",
        "last_acknowledged_sequence",
        "next_sequence",
        "producer_epoch",
        "producer_id",
        "unresolved_sequence",
    )

    def __init__(self) -> None:
        self.producer_id = NO_PRODUCER_ID
        self.producer_epoch = NO_PRODUCER_EPOCH
        self.next_sequence = 0
        self.last_acknowledged_sequence = -1
        self.last_acknowledged_s = 0.0
        # Whether the leader has acknowledged a batch of this epoch, in this topic as it is now.
        self.is_known_to_broker = False
        # Sent at least once and not done, by sequence: those to be sent again are among them.
        self.in_flight: list[ProducerBatch] = []
        # How many batches of this epoch were acknowledged while an older one was in flight. It is 0
        # again when none is in flight.
        self.acknowledged_early = 0
        # The sequence after a batch of which it is unknown whether the broker has appended it.
        # None when the outcome of all batches before is known.
        self.unresolved_sequence: int | None = None
