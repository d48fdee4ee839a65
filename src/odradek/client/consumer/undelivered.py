"""Records that `poll` has taken and that the program has not got from the iterator yet.

Their offsets lie before the positions, but they do not count as consumed: a commit commits the
offset of the first of them, and a change of positions gives them back.
"""

from collections.abc import Iterable

from odradek.client.consumer.fetched import ConsumerRecord
from odradek.client.consumer.positions import Positions
from odradek.client.group.offsets import OffsetAndMetadata
from odradek.protocol.types import Offset, TopicPartition

Polled = dict[TopicPartition, list[ConsumerRecord]]


class Undelivered:
    def __init__(self) -> None:
        # The next record is the last of the list, so that it is cheap to take; the iterator takes
        # it from the list itself, because a call would cost a tenth of its time.
        self.latest_first: list[ConsumerRecord] = []

    def fill(self, polled: Polled) -> None:
        """Takes what `poll` returned, when there is nothing left."""
        self.latest_first += [record for records in polled.values() for record in records][::-1]

    def take_all(self) -> list[ConsumerRecord]:
        """Returns the records that are left, latest first, and forgets them."""
        records = list(self.latest_first)
        self.latest_first.clear()
        return records

    def first_offset(self, partition: TopicPartition) -> Offset | None:
        """Returns the offset of the next record of a partition, if there is one."""
        for record in reversed(self.latest_first):
            if (record.topic, record.partition) == partition:
                return Offset(record.offset)
        return None

    def consumed(self, positions: Positions) -> dict[TopicPartition, OffsetAndMetadata]:
        """Returns for each partition the offset of the next record that the program will get."""
        offsets = {
            partition: OffsetAndMetadata(state.position, "", state.position_epoch)
            for partition, state in positions.assigned.items()
            if state.position is not None
        }
        for record in self.latest_first:
            # The record that is seen last is the first one to be handed out.
            partition = TopicPartition(record.topic, record.partition)
            if partition in offsets:
                offsets[partition] = OffsetAndMetadata(record.offset, "", record.leader_epoch)
        return offsets


def move_back(positions: Positions, latest_first: Iterable[ConsumerRecord]) -> bool:
    """Moves the positions back to the first of these records in each partition.

    Returns whether a position was moved; partitions that are not assigned any more are left out.
    """
    first: dict[TopicPartition, ConsumerRecord] = {}
    for record in latest_first:
        first[TopicPartition(record.topic, record.partition)] = record
    is_moved = False
    for partition, record in first.items():
        state = positions.assigned.get(partition)
        if state is not None and state.position is not None:
            state.seek(record.offset, record.leader_epoch)
            is_moved = True
    return is_moved


def latest_first(polled: Polled) -> Iterable[ConsumerRecord]:
    """The records of a poll in an order in which the first of a partition comes last."""
    return (record for records in polled.values() for record in reversed(records))
