"""The queues that can be sent are grouped by leader, each once."""

import pytest

from odradek.client.producer.accumulator import PartitionQueue
from odradek.client.producer.ready_queues import ReadyQueues
from odradek.invariants import InvariantViolation
from odradek.protocol.types import BrokerId, TopicPartition


def queue(partition: int) -> PartitionQueue:
    return PartitionQueue(TopicPartition("t", partition))


def test_queues_follow_their_leaders() -> None:
    leaders = {0: BrokerId(1), 1: BrokerId(2)}
    ready = ReadyQueues(lambda partition: leaders[partition.partition])
    first, second = queue(0), queue(1)
    ready.add(first)
    ready.add(second)
    assert list(ready.queues_of(1)) == [first]
    leaders[0] = BrokerId(2)
    ready.regroup()
    assert set(ready.queues_of(2)) == {first, second}
    ready.discard(first)
    ready.discard(second)
    ready.discard(second)
    assert first.ready_leader is None
    assert not ready
    assert ready.leaders() == []


def test_a_queue_that_was_added_twice_is_a_violation() -> None:
    leaders = {0: BrokerId(1)}
    ready = ReadyQueues(lambda partition: leaders[partition.partition])
    twice = queue(0)
    ready.add(twice)
    leaders[0] = BrokerId(2)
    with pytest.raises(InvariantViolation, match="group of leader 1, but its ready_leader is 2"):
        ready.add(twice)
