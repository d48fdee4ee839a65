"""The partition queues that have something to send, grouped by the leader to send it to.

Invariant: `queue.ready_leader` is the leader under which a queue is in here, or None if it is not;
so a queue is in here once. `check` compares the two.
"""

from collections.abc import Callable, Iterator

from odradek import invariants
from odradek.client.producer.accumulator import PartitionQueue
from odradek.invariants import InvariantViolation
from odradek.protocol.types import BrokerId, TopicPartition


class ReadyQueues:
    """Used by `Sender`. A leader of -1 stands for partitions without a known leader."""

    def __init__(self, leader_of: Callable[[TopicPartition], BrokerId]) -> None:
        self._leader_of = leader_of
        self._by_leader: dict[int, dict[PartitionQueue, None]] = {}

    def __bool__(self) -> bool:
        return any(self._by_leader.values())

    def add(self, queue: PartitionQueue) -> None:
        """Adds a queue that is not in here, under the leader that its partition has now."""
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
        """Metadata has changed, so leaders may have."""
        by_leader, self._by_leader = self._by_leader, {}
        for queues in by_leader.values():
            for queue in queues:
                self.add(queue)

    def leaders(self) -> list[int]:
        return list(self._by_leader)

    def of(self, leader: int) -> dict[PartitionQueue, None]:
        """Returns the queues of a leader, in the order in which they became ready.

        A leader without queues is forgotten.
        """
        queues = self._by_leader[leader]
        if not queues:
            del self._by_leader[leader]
        return queues

    def check(self) -> None:
        for leader, queue in self._all():
            if queue.ready_leader != leader:
                raise InvariantViolation(
                    f"queue of {queue.topic_partition}",
                    f"is ready for leader {leader}, but says {queue.ready_leader}",
                )

    def _all(self) -> Iterator[tuple[int, PartitionQueue]]:
        for leader, queues in self._by_leader.items():
            for queue in queues:
                yield leader, queue
