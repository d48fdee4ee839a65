"""The partition queues that have something to send, grouped by the leader to send it to.

Invariant: `queue.ready_leader` is the leader whose group contains the queue, or None if no group
does. So a queue is in at most one group. `check` verifies that the queues of a group name its
leader.
"""

from collections.abc import Callable, Iterator

from odradek import invariants
from odradek.client.producer.accumulator import PartitionQueue
from odradek.invariants import InvariantViolation
from odradek.protocol.types import BrokerId, TopicPartition


class ReadyQueues:
    """`Sender` has one. The leader -1 is the key of partitions without a known leader."""

    def __init__(self, leader_of: Callable[[TopicPartition], BrokerId]) -> None:
        self._leader_of = leader_of
        self._by_leader: dict[int, dict[PartitionQueue, None]] = {}

    def __bool__(self) -> bool:
        return any(self._by_leader.values())

    def add(self, queue: PartitionQueue) -> None:
        """Adds a queue, which must be in no group, to the group of its partition's leader."""
        leader = self._leader_of(queue.topic_partition)
        queue.ready_leader = leader
        self._by_leader.setdefault(leader, {})[queue] = None
        if invariants.is_thorough():
            self.check()

    def discard(self, queue: PartitionQueue) -> None:
        if queue.ready_leader is not None:
            del self._by_leader[queue.ready_leader][queue]
            queue.ready_leader = None

    def regroup(self) -> None:
        """Groups all queues by their current leaders. Called when metadata has changed."""
        by_leader, self._by_leader = self._by_leader, {}
        for queues in by_leader.values():
            for queue in queues:
                self.add(queue)

    def leaders(self) -> list[int]:
        """Returns the leaders that have queues, and removes the groups of the others."""
        self._by_leader = {leader: queues for leader, queues in self._by_leader.items() if queues}
        return list(self._by_leader)

    def queues_of(self, leader: int) -> dict[PartitionQueue, None]:
        """Returns the queues of a leader, in the order in which they were added to its group."""
        return self._by_leader[leader]

    def check(self) -> None:
        for leader, queue in self._all():
            if queue.ready_leader != leader:
                raise InvariantViolation(
                    f"queue of {queue.topic_partition}",
                    f"is in the group of leader {leader},"
                    f" but its ready_leader is {queue.ready_leader}",
                )

    def _all(self) -> Iterator[tuple[int, PartitionQueue]]:
        for leader, queues in self._by_leader.items():
            for queue in queues:
                yield leader, queue
