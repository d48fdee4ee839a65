"""The round-robin assignor: partitions of all topics in order, to one member after the other."""

from collections.abc import Sequence

from odradek.client.group.assignors import Assigned, Member, Partitions, all_partitions, in_order
from odradek.protocol.types import TopicPartition


class RoundRobinAssignor:
    name = "roundrobin"
    is_cooperative = False

    def assign(self, partitions: Partitions, members: Sequence[Member]) -> Assigned:
        ordered = in_order(members)
        assigned: dict[str, list[TopicPartition]] = {member.member_id: [] for member in ordered}
        subscribed_topics = {topic for member in ordered for topic in member.topics}
        turn = 0
        for partition in all_partitions(partitions):
            if partition.topic not in subscribed_topics:
                continue
            # A member that does not read this topic is passed over.
            while partition.topic not in ordered[turn % len(ordered)].topics:
                turn += 1
            assigned[ordered[turn % len(ordered)].member_id].append(partition)
            turn += 1
        return assigned
