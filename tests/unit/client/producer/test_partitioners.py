from collections import Counter

import pytest

from odradek.client.producer.partitioners import (
    DefaultPartitioner,
    FunctionPartitioner,
    RoundRobinPartitioner,
    partitioner_for,
)
from odradek.world import Randomness

FIVE = (0, 1, 2, 3, 4)


def default(**options: bool) -> DefaultPartitioner:
    return DefaultPartitioner(Randomness(7), batch_size_bytes=1000, **options)


def test_a_key_goes_where_java_sends_it() -> None:
    partitioner = default()
    # kafka-clients 4.3.1: (murmur2(key) & 0x7fffffff) % 5
    for key, hashed in ((b"21", -973932308), (b"foobar", -790332482), (b"abc", 479470107)):
        assert partitioner.choose("t", key, 10, FIVE, FIVE) == (hashed & 0x7FFFFFFF) % 5


def test_a_key_stays_where_it_is_while_its_partition_has_no_leader() -> None:
    partitioner = default()
    home = partitioner.choose("t", b"key", 10, FIVE, FIVE)
    others = tuple(partition for partition in FIVE if partition != home)
    assert partitioner.choose("t", b"key", 10, FIVE, others) == home


def test_without_a_key_records_stick_until_a_batch_is_full() -> None:
    partitioner = default()
    chosen = [partitioner.choose("t", None, 100, FIVE, FIVE) for _ in range(30)]
    assert chosen == [chosen[0]] * 10 + [chosen[10]] * 10 + [chosen[20]] * 10
    assert chosen[0] != chosen[10] != chosen[20]


def test_topics_stick_apart() -> None:
    partitioner = default()
    first = partitioner.choose("one", None, 100, FIVE, FIVE)
    for _ in range(20):
        partitioner.choose("two", None, 999, FIVE, FIVE)
    assert partitioner.choose("one", None, 100, FIVE, FIVE) == first


def test_without_a_key_a_partition_without_leader_is_left() -> None:
    partitioner = default()
    first = partitioner.choose("t", None, 1, FIVE, FIVE)
    others = tuple(partition for partition in FIVE if partition != first)
    assert partitioner.choose("t", None, 1, FIVE, others) in others


def test_all_partitions_get_their_share_without_keys() -> None:
    partitioner = default()
    counts = Counter(partitioner.choose("t", None, 1000, FIVE, FIVE) for _ in range(5000))
    assert set(counts) == set(FIVE)
    assert min(counts.values()) > 800


def test_keys_can_be_ignored() -> None:
    partitioner = default(ignore_keys=True)
    chosen = {partitioner.choose("t", b"same", 1000, FIVE, FIVE) for _ in range(50)}
    assert len(chosen) > 1


def test_round_robin_goes_through_the_available_ones_in_turn() -> None:
    partitioner = RoundRobinPartitioner()
    assert [partitioner.choose("t", b"k", 1, FIVE, (1, 3)) for _ in range(4)] == [1, 3, 1, 3]


def test_a_function_of_ones_own_decides_and_is_checked() -> None:
    assert FunctionPartitioner(lambda key, every, up: every[-1]).choose("t", b"", 1, FIVE, ()) == 4
    with pytest.raises(ValueError, match="chose partition 9 of topic t"):
        FunctionPartitioner(lambda key, every, up: 9).choose("t", None, 1, FIVE, FIVE)


def test_settings_name_partitioners() -> None:
    def first(key: bytes | None, every: object, up: object) -> int:
        return 0

    def made(choice: object) -> object:
        return partitioner_for(choice, Randomness(1), batch_size_bytes=1, ignore_keys=False)  # type: ignore[arg-type]

    assert isinstance(made("default"), DefaultPartitioner)
    assert isinstance(made("round_robin"), RoundRobinPartitioner)
    assert isinstance(made(first), FunctionPartitioner)
