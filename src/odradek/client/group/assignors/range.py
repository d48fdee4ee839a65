"""The range assignor: of each topic, every member gets consecutive partitions.

If the number does not divide evenly, the first members get one more. Topics with the same number of
partitions are divided in the same way, so records with the same key are read by the same member.
"""

from collections.abc import Sequence

from odradek.client.group.assignors import Assigned, Member, Partitions, in_order
from odradek.protocol.types import TopicPartition


class RangeAssignor:
    name = "range"
    is_cooperative = False

    def assign(self, partitions: Partitions, members: Sequence[Member]) -> Assigned:
        ordered = in_order(members)
        assigned: dict[str, list[TopicPartition]] = {member.member_id: [] for member in ordered}
        for topic in sorted(partitions):
            readers = [member for member in ordered if topic in member.topics]
            if not readers:
                continue
            indexes = sorted(partitions[topic])
            share, more = divmod(len(indexes), len(readers))
            start = 0
            for number, reader in enumerate(readers):
                end = start + share + (number < more)
                assigned[reader.member_id] += [
                    TopicPartition(topic, index) for index in indexes[start:end]
                ]
                start = end
        return assigned
