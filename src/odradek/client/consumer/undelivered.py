"""Records that the consumer's iterator has polled but has not returned to the program yet.

Their offsets are lower than the positions, but they do not count as consumed: a commit commits the
offset of the first of them. Before a seek, a pause or an assignment the positions are moved back to
them, and they are fetched again.
"""

from collections.abc import Iterable

from odradek.client.consumer.fetched_batches import ConsumerRecord
from odradek.client.consumer.positions import Positions
from odradek.client.group.offsets import OffsetAndMetadata
from odradek.protocol.types import Offset, TopicPartition

Polled = dict[TopicPartition, list[ConsumerRecord]]


class Undelivered:
    def __init__(self) -> None:
        # The next record is the last of the list, where it is cheap to remove. The iterator pops it
        # from the list itself, because a method call for each record would take a tenth of the
        # iterator's time.
        self.latest_first: list[ConsumerRecord] = []

    def fill(self, polled: Polled) -> None:
        """Adds the records that `poll` returned. The list must be empty."""
        self.latest_first += [record for records in polled.values() for record in records][::-1]

    def take_all(self) -> list[ConsumerRecord]:
        """Removes the records and returns them, the next one last."""
        records = list(self.latest_first)
        self.latest_first.clear()
        return records

    def first_offset(self, partition: TopicPartition) -> Offset | None:
        """Returns the offset of the next record of a partition, if there is one."""
        for record in reversed(self.latest_first):
            if (record.topic, record.partition) == partition:
                return Offset(record.offset)
        return None

    def offsets_to_commit(self, positions: Positions) -> dict[TopicPartition, OffsetAndMetadata]:
        """Returns for each partition the offset of the next record that the program will get."""
        offsets = {
            partition: OffsetAndMetadata(state.position, "", state.position_epoch)
            for partition, state in positions.assigned.items()
            if state.position is not None
        }
        for record in self.latest_first:
            # The last record of a partition in this list is the one that is returned first.
            partition = TopicPartition(record.topic, record.partition)
            if partition in offsets:
                offsets[partition] = OffsetAndMetadata(record.offset, "", record.leader_epoch)
        return offsets


def move_back(positions: Positions, records: Iterable[ConsumerRecord]) -> bool:
    """Moves each position back to the record of its partition that comes last in `records`.

    Returns whether a position was moved; partitions that are not assigned any more are left out.
    """
    first: dict[TopicPartition, ConsumerRecord] = {}
    for record in records:
        first[TopicPartition(record.topic, record.partition)] = record
    is_moved = False
    for partition, record in first.items():
        state = positions.assigned.get(partition)
        if state is not None and state.position is not None:
            state.seek(record.offset, record.leader_epoch)
            is_moved = True
    return is_moved


def in_reverse(polled: Polled) -> Iterable[ConsumerRecord]:
    """Returns the records of a poll, those of each partition in reverse order."""
    return (record for records in polled.values() for record in reversed(records))
