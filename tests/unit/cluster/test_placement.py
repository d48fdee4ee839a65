"""Replicas spread over brokers and racks."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.cluster.placement import NotEnoughBrokers, place
from odradek.protocol.types import BrokerId
from odradek.world import Randomness


@given(
    brokers=st.dictionaries(st.integers(0, 30).map(BrokerId), st.none(), min_size=1, max_size=9),
    partitions=st.integers(1, 40),
    factor=st.integers(1, 5),
    seed=st.integers(),
)
def test_replicas_are_distinct_and_leaders_even(
    brokers: dict[BrokerId, None], partitions: int, factor: int, seed: int
) -> None:
    factor = min(factor, len(brokers))
    placed = place(dict(brokers), partitions, factor, Randomness(seed))
    assert len(placed) == partitions
    for replicas in placed:
        assert len(set(replicas)) == factor
        assert set(replicas) <= set(brokers)
    leaders = Counter(replicas[0] for replicas in placed)
    assert max(leaders.values()) - min(leaders[broker] for broker in brokers) <= 1


@given(
    racks=st.lists(st.sampled_from("abc"), min_size=3, max_size=9),
    partitions=st.integers(1, 20),
    seed=st.integers(),
)
def test_replicas_use_as_many_racks_as_there_are(
    racks: list[str], partitions: int, seed: int
) -> None:
    brokers: dict[BrokerId, str | None] = {
        BrokerId(number): rack for number, rack in enumerate(racks)
    }
    factor = 3
    for replicas in place(brokers, partitions, factor, Randomness(seed)):
        used = {brokers[broker] for broker in replicas}
        assert len(used) == min(factor, len(set(racks)))


def test_too_few_brokers_is_an_error() -> None:
    with pytest.raises(NotEnoughBrokers, match="needs as many brokers, and there are 1"):
        place({BrokerId(1): None}, 1, 3, Randomness(0))
