"""A custom assignor: members share the partitions of a group by your own rule.

    python examples/custom_assignor.py localhost:9092 orders

`FairAssignor` gives each partition to the member with the fewest, over all topics together. The
range assignor shares each topic for itself, so with many topics of one partition the first member
gets all of them. In properties it is named
`partition.assignment.strategy=custom_assignor:FairAssignor`; every member must offer it.
"""

import asyncio
import sys
from collections.abc import Sequence

from odradek.client import Consumer, TopicPartition
from odradek.client.group.assignors import Assigned, Member, Partitions, all_partitions


class FairAssignor:
    """Runs in one member, the leader of the group, for all of them."""

    name = "fair"
    is_cooperative = False

    def assign(self, partitions: Partitions, members: Sequence[Member]) -> Assigned:
        shares: dict[str, list[TopicPartition]] = {member.member_id: [] for member in members}
        for partition in all_partitions(partitions):
            readers = [member.member_id for member in members if partition.topic in member.topics]
            if readers:
                shares[min(readers, key=lambda reader: (len(shares[reader]), reader))].append(
                    partition
                )
        return shares


async def main(servers: str, topics: Sequence[str]) -> None:
    async with Consumer(
        *topics,
        bootstrap_servers=servers,
        group_id="fair-readers",
        auto_offset_reset="earliest",
        partition_assignment_strategy=[FairAssignor()],
    ) as consumer:
        async for record in consumer:
            print(record.topic, record.partition, record.offset, record.value)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)  # which shows how to call it
    asyncio.run(main(sys.argv[1], sys.argv[2:]))
