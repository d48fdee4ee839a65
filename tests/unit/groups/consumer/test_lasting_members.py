"""Static members, sessions and deadlines of a consumer group."""

from odradek.protocol.errors import ErrorCode
from tests.unit.groups.consumer.driver import (
    REBALANCE_MS,
    SESSION_MS,
    Consumer,
    ConsumerCoordinator,
    settle,
)
from tests.unit.groups.consumer.two_members import refused, two_members
from tests.unit.groups.driver import GROUP

# Static members


def test_a_static_member_comes_back_to_what_it_had() -> None:
    coordinator = ConsumerCoordinator()
    one = Consumer(coordinator, "one", instance="i1")
    two = Consumer(coordinator, "two", instance="i2")
    one.join()
    two.join()
    settle(one, two)
    had, epoch = two.partitions, two.epoch
    assert two.leave(for_now=True).member_epoch == -2
    settle(one)
    assert one.partitions == [0, 1]
    again = Consumer(coordinator, "two-again", instance="i2")
    again.join()
    assert (again.partitions, again.epoch) == (had, epoch)
    assert coordinator.consumer_group.epoch == epoch  # Nobody else noticed.
    coordinator.check_replay()
    assert refused(two, two.request(epoch=epoch)) is ErrorCode.FENCED_INSTANCE_ID
    assert refused(two, two.request(epoch=-1)) is ErrorCode.FENCED_INSTANCE_ID


def test_an_instance_in_use_is_not_taken() -> None:
    coordinator = ConsumerCoordinator()
    Consumer(coordinator, "one", instance="i").join()
    assert refused(Consumer(coordinator, "two", instance="i")) is ErrorCode.UNRELEASED_INSTANCE_ID
    stranger = Consumer(coordinator, "two", instance="j")
    assert refused(stranger, stranger.request(epoch=1)) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_static_member_that_stays_away_is_removed() -> None:
    coordinator = ConsumerCoordinator()
    one = Consumer(coordinator, "one", instance="i1")
    two = Consumer(coordinator, "two", instance="i2")
    one.join()
    two.join()
    settle(one, two)
    two.leave(for_now=True)
    coordinator.pass_time(SESSION_MS - 1)
    one.beat()
    assert one.partitions == [0, 1]
    coordinator.pass_time(1)
    one.beat()
    assert one.partitions == [0, 1, 2, 3]


# Time


def test_a_silent_member_is_removed() -> None:
    coordinator, one, two = two_members()
    coordinator.pass_time(SESSION_MS - 1)
    one.beat()
    coordinator.pass_time(1)
    assert list(coordinator.consumer_group.members) == ["one"]
    assert refused(two) is ErrorCode.UNKNOWN_MEMBER_ID
    one.beat()
    assert one.partitions == [0, 1, 2, 3]


def test_a_group_may_be_set_to_other_times() -> None:
    coordinator = ConsumerCoordinator()
    own = {"consumer.session.timeout.ms": "50000", "consumer.heartbeat.interval.ms": "7000"}
    coordinator.image = coordinator.image._replace(group_configs={GROUP: own, "other": {}})
    one = Consumer(coordinator, "one")
    assert one.join().heartbeat_interval_ms == 7_000
    coordinator.pass_time(49_999)
    assert list(coordinator.consumer_group.members) == ["one"]
    coordinator.pass_time(1)
    assert not coordinator.consumer_group.members


def test_who_does_not_give_up_in_time_is_removed() -> None:
    coordinator = ConsumerCoordinator()
    one, two = Consumer(coordinator, "one"), Consumer(coordinator, "two")
    one.join()
    two.join()
    told = one.send()
    assert told.member_epoch == 2
    for _ in range(REBALANCE_MS // 10_000):
        coordinator.pass_time(9_999)
        one.send()  # It reports that it still owns everything.
        two.beat()
    assert two.partitions == []
    coordinator.pass_time(10_000)
    two.beat()
    assert two.partitions == [0, 1, 2, 3]


def test_who_gives_up_in_time_stays() -> None:
    coordinator, one, two = two_members()
    coordinator.set_topics(t=2)
    settle(one, two)
    for _ in range(20):
        coordinator.pass_time(10_000)
        settle(one, two)
    assert list(coordinator.consumer_group.members) == ["one", "two"]


def test_deadlines_begin_anew_at_a_new_coordinator() -> None:
    coordinator = ConsumerCoordinator()
    one, two = Consumer(coordinator, "one"), Consumer(coordinator, "two")
    one.join()
    two.join()
    one.send()
    coordinator.restart()
    kinds = {key[1:] for key in coordinator.deadlines if key[0] == "consumer"}  # type: ignore[index]
    assert kinds == {
        ("session", GROUP, "one"),
        ("session", GROUP, "two"),
        ("rebalance", GROUP, "one"),
    }
