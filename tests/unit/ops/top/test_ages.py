"""How old an unread record is, from end offsets that were seen."""

import pytest

from odradek.ops.top.ages import Age, EndOffsets
from odradek.protocol.types import TopicPartition

ORDERS = TopicPartition("orders", 0)


def seen(*ends: tuple[float, int]) -> EndOffsets:
    offsets = EndOffsets()
    for at_s, end in ends:
        offsets.add(at_s, {ORDERS: end})
    return offsets


@pytest.mark.parametrize(
    ("offset", "age"),
    [
        (300, Age(0.0, False)),  # there is no such record yet
        (200, Age(10.0, False)),  # the first of those between 10 s and 20 s
        (250, Age(5.0, False)),
        (100, Age(20.0, False)),
        (99, Age(20.0, True)),  # it was there when watching began
    ],
)
def test_ages(offset: int, age: Age) -> None:
    assert seen((0, 100), (10, 200), (20, 300)).age(ORDERS, offset, 20) == age


def test_a_pause_of_the_producer_is_kept_with_its_ends_alone() -> None:
    offsets = seen((0, 100), *((at_s, 200) for at_s in range(10, 1000, 10)), (1000, 300))
    assert len(offsets._seen[ORDERS]) == 4
    # The record at 200 was written after the pause.
    assert offsets.age(ORDERS, 200, 1000) == Age(10.0, False)


def test_what_is_not_known() -> None:
    offsets = seen((0, 100))
    assert offsets.age(TopicPartition("clicks", 0), 5, 1) is None
    offsets.add(1, {})
    assert offsets.age(ORDERS, 5, 1) is None
