"""A consumer group whose log lost records in the middle, as after a power cut."""

import pytest

from odradek.groups.consumer.group import ConsumerGroup
from tests.unit.groups.consumer.driver import SESSION_MS, Consumer, ConsumerCoordinator, settle
from tests.unit.groups.driver import GROUP


def busy_group() -> ConsumerCoordinator:
    """Members come and go, one of them static, and partitions change hands."""
    coordinator = ConsumerCoordinator()
    one, two = Consumer(coordinator, "one"), Consumer(coordinator, "two", instance="i")
    three = Consumer(coordinator, "three")
    one.join()
    two.join()
    settle(one, two)
    three.join()
    settle(one, two, three)
    two.leave(for_now=True)
    again = Consumer(coordinator, "two-again", instance="i")
    again.join()
    settle(one, again, three)
    one.leave()
    settle(again, three)
    return coordinator


def test_there_is_nothing_to_mend_in_a_whole_log() -> None:
    coordinator = busy_group()
    before = len(coordinator.log)
    coordinator.restart()
    assert len(coordinator.log) == before


@pytest.mark.parametrize("length", [1, 3, 5, 8, 13, 21])
def test_a_group_is_consistent_after_a_hole(length: int) -> None:
    size = len(busy_group().log)
    assert size > 40
    for start in range(size - length):
        coordinator = busy_group()
        del coordinator.log[start : start + length]
        coordinator.restart()  # What is written here is checked, as everything that is decided.
        group = coordinator.machine.groups.get(GROUP)
        if isinstance(group, ConsumerGroup):
            assert list(group.contradictions()) == []
        newcomer = Consumer(coordinator, "newcomer")
        newcomer.join()
        coordinator.pass_time(SESSION_MS // 2)
        newcomer.beat()
        coordinator.pass_time(SESSION_MS // 2)  # The others are gone.
        settle(newcomer)
        assert newcomer.partitions == [0, 1, 2, 3]
        coordinator.restart()
        settle(newcomer)
        assert newcomer.partitions == [0, 1, 2, 3]
