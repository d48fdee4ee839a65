"""Chooses the partition of a record when the caller names none.

The default partitioner sends a record with a key to partition murmur2(key) modulo the number of
*all* partitions, so a key keeps its partition as long as that number stays the same. It sends
records without a key to one partition that has a leader (to any partition if none has a leader),
and changes to another after `batch.size` bytes: this makes fewer and fuller batches.

Users can give a function `(key, all_partitions, available_partitions)` that returns one of the
partitions; aiokafka and kafka-python use the same signature.
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
    """Chooses by key if the record has one, else the sticky partition of the topic.

    Kafka's default partitioner does the same without `partitioner.adaptive.partitioning.enable`.
    `ignore_keys` is `partitioner.ignore.keys`: records with keys go to the sticky partition too.
    """

    __slots__ = ("_batch_size_bytes", "_ignore_keys", "_randomness", "_sticky")

    def __init__(
        self, randomness: Randomness, *, batch_size_bytes: int, ignore_keys: bool = False
    ) -> None:
        self._randomness = randomness
        self._batch_size_bytes = batch_size_bytes
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
        if sticky.remaining_bytes <= 0 or sticky.partition not in available_partitions:
            sticky.partition = self._choose_other(
                sticky.partition, available_partitions or all_partitions
            )
            sticky.remaining_bytes = self._batch_size_bytes
        sticky.remaining_bytes -= size_bytes
        return sticky.partition

    def _choose_other(self, current: int, partitions: Sequence[int]) -> int:
        others = [partition for partition in partitions if partition != current]
        if not others:
            return partitions[0]
        return others[self._randomness.integer_below(len(others))]


class _Sticky:
    __slots__ = ("partition", "remaining_bytes")

    def __init__(self) -> None:
        self.partition = -1
        self.remaining_bytes = 0


class RoundRobinPartitioner:
    """Uses the partitions in turn and ignores the key."""

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
    """Calls the user's partition function and checks that it returns a partition of the topic."""

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
    batch_size_bytes: int,
    ignore_keys: bool,
) -> Partitioner:
    """Returns the partitioner that a setting names: "default", "round_robin", or a function."""
    if callable(choice):
        return FunctionPartitioner(choice)
    if choice == "round_robin":
        return RoundRobinPartitioner()
    return DefaultPartitioner(
        randomness, batch_size_bytes=batch_size_bytes, ignore_keys=ignore_keys
    )
