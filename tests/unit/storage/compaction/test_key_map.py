"""The two maps of keys: the same answers, within their memory."""

from collections.abc import Callable
from random import Random

import pytest

from odradek.storage.compaction.key_map import KeyMap, PlainKeyMap, make_key_map
from odradek.storage.compaction.vector_key_map import VectorKeyMap

Make = Callable[[int], KeyMap]
BOTH = pytest.mark.parametrize("make", [PlainKeyMap, VectorKeyMap])


@BOTH
def test_the_last_value_of_each_key_stays(make: Make) -> None:
    random = Random(1)
    keys = make(100 << 20)
    model: dict[bytes, int] = {}
    first = 0
    for _ in range(50):
        count = random.randrange(1, 8000)
        batch = [b"k%d" % random.randrange(60_000) for _ in range(count)]
        values = range(first, first + 2 * count, 2)
        assert keys.has_room(count)
        keys.put(batch, values)
        model.update(zip(batch, values, strict=True))
        first += 2 * count
    assert list(keys.values()) == sorted(model.values())
    asked = [b"k%d" % number for number in range(70_000)]
    assert list(keys.contains(asked)) == [key in model for key in asked]


@BOTH
def test_keys_of_any_length_are_told_apart(make: Make) -> None:
    keys = make(1 << 20)
    batch = [b"", b"\x00", b"\x00\x00", b"a" * 32, b"a" * 33, b"a" * 40 + b"b", b"a" * 40 + b"c"]
    keys.put(batch, range(0, 2 * len(batch), 2))
    assert len(keys.values()) == len(batch)
    assert all(keys.contains(batch))
    assert not any(keys.contains([b"a", b"a" * 41]))


@BOTH
@pytest.mark.parametrize("budget_bytes", [10_000, 1 << 20])
def test_there_is_room_for_as_many_as_fit(make: Make, budget_bytes: int) -> None:
    keys, count = make(budget_bytes), 0
    while keys.has_room(10):
        keys.put([b"key %d" % number for number in range(count, count + 10)], [1] * 10)
        count += 10
    assert budget_bytes / 300 < count < budget_bytes / 24
    assert len(keys.values()) == count


@BOTH
def test_a_first_batch_may_be_larger_than_the_budget(make: Make) -> None:
    keys = make(100)
    keys.put([b"%d" % number for number in range(5000)], range(5000))
    assert list(keys.values()) == list(range(5000))
    assert not keys.has_room(1)


def test_numpy_is_used_where_it_is_installed() -> None:
    assert isinstance(make_key_map(1 << 20), VectorKeyMap)
