"""Chooses the partition of a record when the caller names none.

The default partitioner sends a record with a key to partition murmur2(key) modulo the number of
*all* partitions, so a key keeps its partition as long as that number stays the same. It sends
records without a key to one partition that has a leader (to any partition if none has a leader),
and changes to another after `batch.size` bytes: this makes fewer and fuller batches.

Users can give a function of an `UnplacedRecord`, which has the topic, the headers, and key and
value both as objects and as bytes, or a class with such a method `partition`. A function
`(key, all_partitions, available_partitions)` works too: aiokafka and kafka-python have that one.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

from odradek.client.calling import positional_parameters
from odradek.client.errors import SettingsError
from odradek.client.named_classes import instance_of
from odradek.client.producer.murmur2 import murmur2
from odradek.protocol.records import Headers
from odradek.world import Randomness


@dataclass(frozen=True, slots=True)
class UnplacedRecord:
    """A record whose partition is to be chosen."""

    topic: str
    key: Any
    value: Any
    headers: Headers
    key_bytes: bytes | None
    value_bytes: bytes | None
    all_partitions: Sequence[int]
    available_partitions: Sequence[int]
    choose_default: Callable[[], int]
    """Returns the partition that the default partitioner chooses."""


class PartitionerClass(Protocol):
    """A class that chooses partitions; it may have `configure(settings)` and `close()` too."""

    def partition(self, record: UnplacedRecord, /) -> int: ...


PartitionFunction = Callable[[bytes | None, Sequence[int], Sequence[int]], int]
RecordFunction = Callable[[UnplacedRecord], int]
PartitionChoice = (
    str | PartitionFunction | RecordFunction | PartitionerClass | type[PartitionerClass]
)


def checked_partitioner(given: Any) -> PartitionChoice:
    """Returns what was given if records can be placed with it; else raises `SettingsError`."""
    function = getattr(given, "partition", given)
    if not callable(function):
        raise SettingsError(
            "must be default, round_robin, a function, or a class with partition(record)"
        )
    if not isinstance(given, type):
        _takes_record(function)
    choice: PartitionChoice = given
    return choice


def _takes_record(function: Callable[..., Any]) -> bool:
    """Returns whether a function takes an `UnplacedRecord`, or else the three older arguments."""
    parameters = positional_parameters(function)
    has_older = parameters is None or parameters.can_take(3)
    if parameters is not None and parameters.required == 1:
        return not (has_older and parameters.wants(1, "all_partitions"))
    if parameters is None or has_older:
        return False
    raise SettingsError(
        f"a partitioner takes one argument, an UnplacedRecord, or three: key, all_partitions,"
        f" available_partitions; this one takes {len(parameters.names)}"
    )


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


class RecordPartitioner:
    """Calls the user's function of the whole record; `Producer.send` has a slower path for it."""

    __slots__ = ("_default", "_function", "owner")

    def __init__(
        self, function: RecordFunction, default: DefaultPartitioner, owner: object = None
    ) -> None:
        self._function = function
        self._default = default
        self.owner = owner

    def choose(
        self,
        topic: str,
        key: bytes | None,
        size_bytes: int,
        all_partitions: Sequence[int],
        available_partitions: Sequence[int],
    ) -> int:
        """The default for a record of which only the key's bytes are known."""
        return self._default.choose(topic, key, size_bytes, all_partitions, available_partitions)

    def place(self, record: UnplacedRecord) -> int:
        """Returns the partition of a record."""
        return _check(self._function(record), record.topic, record.all_partitions)


def _check(partition: int, topic: str, all_partitions: Sequence[int]) -> int:
    if partition not in all_partitions:
        raise ValueError(
            f"the partitioner chose partition {partition} of topic {topic}, which has"
            f" partitions {all_partitions[0]} to {all_partitions[-1]}"
        )
    return partition


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
        return _check(
            self._function(key, all_partitions, available_partitions), topic, all_partitions
        )


Partitioner = DefaultPartitioner | RoundRobinPartitioner | FunctionPartitioner | RecordPartitioner


def partitioner_for(
    choice: PartitionChoice,
    randomness: Randomness,
    *,
    batch_size_bytes: int,
    ignore_keys: bool,
    settings: Mapping[str, Any] | None = None,
) -> Partitioner:
    """Returns the partitioner that a setting names: "default", "round_robin", or the user's own.

    `settings` are what `configure` of a class gets.
    """
    default = DefaultPartitioner(
        randomness, batch_size_bytes=batch_size_bytes, ignore_keys=ignore_keys
    )
    if isinstance(choice, str):
        return RoundRobinPartitioner() if choice == "round_robin" else default
    if hasattr(choice, "partition"):
        owner = instance_of(choice, settings or {})
        return RecordPartitioner(owner.partition, default, owner)
    function: Callable[..., int] = choice
    if _takes_record(function):
        return RecordPartitioner(function, default)
    return FunctionPartitioner(function)
