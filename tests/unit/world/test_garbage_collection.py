"""Pauses of the cycle collector stay short, and cycles are found all the same."""

import gc
import weakref
from collections.abc import Iterator

import pytest

from odradek.world.garbage_collection import GarbageCollection, collect_recent


class Node:
    """Refers to itself, so only the collector can free it."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture
def collector() -> Iterator[GarbageCollection]:
    collector = GarbageCollection(max_small=10_000_000)
    collector.start()
    yield collector
    collector.stop()


def lists(count: int) -> list[list[object]]:
    return [[None] for _ in range(count)]


def test_the_collector_never_looks_at_many_objects_at_once(collector: GarbageCollection) -> None:
    kept = []
    most = 0
    for _ in range(200):
        kept.append(lists(5_000))  # A million objects that live on.
        most = max(most, len(gc.get_objects()))
    assert most < 40_000
    assert gc.get_freeze_count() > 900_000


def test_young_cycles_are_collected(collector: GarbageCollection) -> None:
    dropped = [weakref.ref(Node()) for _ in range(100)]
    kept = lists(100_000)
    assert not any(reference() is not None for reference in dropped)
    assert len(kept) == 100_000


def test_old_cycles_are_collected_when_the_process_is_idle(collector: GarbageCollection) -> None:
    # It must grow by a quarter, and the process has what the tests before left behind.
    half = 100_000 + gc.get_freeze_count() // 4
    node: Node | None = Node()
    reference = weakref.ref(node)
    kept = lists(half)
    node = None
    kept += lists(half)
    assert reference() is not None  # Set aside while it was in use.
    assert not collector.check(is_idle=False)
    assert collector.check(is_idle=True)
    assert reference() is None
    assert not collector.check(is_idle=True)  # Not again for nothing.
    assert len(gc.get_objects()) < 10_000


def test_a_large_process_is_not_held_up_because_it_has_more_to_keep() -> None:
    collector = GarbageCollection()
    collector.start()
    try:
        kept = lists(1_000_000)  # What 10,000 partitions take.
        assert not collector.check(is_idle=True)
        kept += lists(1_100_000)
        assert collector.check(is_idle=True)  # It may leak.
        assert not collector.check(is_idle=True)
        assert kept
    finally:
        collector.stop()


def test_what_is_set_aside_is_freed_when_nothing_refers_to_it(collector: GarbageCollection) -> None:
    before = gc.get_freeze_count()
    kept = lists(300_000)
    assert gc.get_freeze_count() > before + 200_000
    kept.clear()
    assert gc.get_freeze_count() < before + 100_000


def test_a_process_that_is_never_idle_is_collected_when_it_must_be_suspected(
    collector: GarbageCollection,
) -> None:
    collector.collect_all()
    kept = lists(3 * gc.get_freeze_count() + 3_000_000)
    assert collector.check(is_idle=False)
    assert kept


def test_frozen_objects_are_counted_only_when_there_may_be_enough_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """CPython walks over all of them to count them: the event loop would stand still."""
    collector = GarbageCollection()
    collector.start()
    try:
        kept = lists(500_000)
        counts = 0
        count_frozen = gc.get_freeze_count

        def counted() -> int:
            nonlocal counts
            counts += 1
            return count_frozen()

        monkeypatch.setattr(gc, "get_freeze_count", counted)
        for is_idle in (True, False) * 10:
            assert not collector.check(is_idle=is_idle)
        assert counts == 0
        # So many were frozen, but they are freed: they are counted once, and none is collected.
        for _ in range(3):
            kept = lists(1_000_000)
        assert not collector.check(is_idle=True)
        assert counts == 1
        assert not collector.check(is_idle=True)
        assert counts == 1
        assert len(kept) == 1_000_000
    finally:
        collector.stop()


def test_objects_made_while_frozen_ones_are_freed_do_not_pile_up(
    collector: GarbageCollection,
) -> None:
    """CPython subtracts the freed objects from the new ones, and never begins to collect."""
    frozen = lists(200_000)
    collect_recent()
    made, most = [], 0
    while frozen:
        del frozen[-1_000:]
        made += lists(500)
        if len(made) % 2_500 == 0:
            collect_recent()
        most = max(most, len(gc.get_objects()))
    assert len(made) == 100_000
    assert most < 10_000


def test_nothing_is_collected_where_the_collector_is_as_cpython_has_it() -> None:
    before = gc.get_stats()
    collect_recent()
    assert [one["collections"] for one in gc.get_stats()] == [one["collections"] for one in before]
