"""Chooses the partition of a record when the caller names none.

A key decides by its murmur2 hash over *all* partitions, so a key keeps its partition as long as the
number of partitions stays the same. Records without a key go to one partition that has a leader,
until `batch.size` bytes have gone there, and then to another: that makes fewer and fuller batches.

A partitioner of the user's own is a function `(key, all_partitions, available_partitions)`
that returns one of the partitions; the signature is the one aiokafka and kafka-python use.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache

from odradek.client.producer.murmur2 import murmur2
from odradek.world import Randomness

PartitionFunction = Callable[[bytes | None, Sequence[int], Sequence[int]], int]


@lru_cache(maxsize=16384)
def hash_of_key(key: bytes) -> int:
    """Returns the murmur2 hash without its sign bit, as Kafka uses it; cached, as keys repeat."""
    return murmur2(key) & 0x7FFFFFFF


class DefaultPartitioner:
    """By key if there is one, else sticky: the default of Kafka's producer."""

    __slots__ = ("_ignore_keys", "_randomness", "_sticky", "_switch_bytes")

    def __init__(
        self, randomness: Randomness, *, switch_bytes: int, ignore_keys: bool = False
    ) -> None:
        self._randomness = randomness
        self._switch_bytes = switch_bytes
        self._ignore_keys = ignore_keys
        self._sticky: dict[str, _Sticky] = {}

    def choose(
        self,
        topic: str,
        key: bytes | None,
        size_bytes: int,
        all_partitions: Sequence[int],
        available_partitions: Sequence[int],
    ) -> int:
        if key is not None and not self._ignore_keys:
            return all_partitions[hash_of_key(key) % len(all_partitions)]
        sticky = self._sticky.get(topic)
        if sticky is None:
            sticky = self._sticky[topic] = _Sticky()
        if sticky.room_bytes <= 0 or sticky.partition not in available_partitions:
            sticky.partition = self._another(
                sticky.partition, available_partitions or all_partitions
            )
            sticky.room_bytes = self._switch_bytes
        sticky.room_bytes -= size_bytes
        return sticky.partition

    def _another(self, current: int, partitions: Sequence[int]) -> int:
        others = [partition for partition in partitions if partition != current]
        if not others:
            return partitions[0]
        return others[self._randomness.below(len(others))]


class _Sticky:
    __slots__ = ("partition", "room_bytes")

    def __init__(self) -> None:
        self.partition = -1
        self.room_bytes = 0


class RoundRobinPartitioner:
    """One after the other, whatever the key."""

    __slots__ = ("_next",)

    def __init__(self) -> None:
        self._next: dict[str, int] = {}

    def choose(
        self,
        topic: str,
        key: bytes | None,
        size_bytes: int,
        all_partitions: Sequence[int],
        available_partitions: Sequence[int],
    ) -> int:
        turn = self._next.get(topic, 0)
        self._next[topic] = turn + 1
        partitions = available_partitions or all_partitions
        return partitions[turn % len(partitions)]


class FunctionPartitioner:
    """A function of the user's own."""

    __slots__ = ("_function",)

    def __init__(self, function: PartitionFunction) -> None:
        self._function = function

    def choose(
        self,
        topic: str,
        key: bytes | None,
        size_bytes: int,
        all_partitions: Sequence[int],
        available_partitions: Sequence[int],
    ) -> int:
        partition = self._function(key, all_partitions, available_partitions)
        if partition not in all_partitions:
            raise ValueError(
                f"the partitioner chose partition {partition} of topic {topic}, which has"
                f" partitions {all_partitions[0]} to {all_partitions[-1]}"
            )
        return partition


Partitioner = DefaultPartitioner | RoundRobinPartitioner | FunctionPartitioner


def partitioner_for(
    choice: str | PartitionFunction,
    randomness: Randomness,
    *,
    switch_bytes: int,
    ignore_keys: bool,
) -> Partitioner:
    """The partitioner that a setting names: "default", "round_robin", or a function."""
    if callable(choice):
        return FunctionPartitioner(choice)
    if choice == "round_robin":
        return RoundRobinPartitioner()
    return DefaultPartitioner(randomness, switch_bytes=switch_bytes, ignore_keys=ignore_keys)
