"""Heartbeats of the new protocol: joining, sharing, fencing, leaving, time."""

from odradek.groups.consumer.commands import (
    ConsumerGroupDescription,
    ConsumerHeartbeatReply,
    DescribeConsumerGroup,
    JoinTogether,
)
from odradek.groups.consumer.group import GroupState
from odradek.groups.consumer.member import MemberState
from odradek.groups.consumer.records import GROUP as GROUP_KIND
from odradek.groups.consumer.records import read_key
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.types import TopicId
from tests.unit.groups.consumer.driver import (
    Consumer,
    ConsumerCoordinator,
    GuardedCoordinator,
    settle,
    topic_id,
)
from tests.unit.groups.consumer.two_members import refused, two_members
from tests.unit.groups.driver import GROUP, Waiting


def state_of(coordinator: ConsumerCoordinator) -> GroupState:
    return coordinator.consumer_group.state


# Sharing


def test_the_first_member_gets_everything_at_once() -> None:
    coordinator = ConsumerCoordinator()
    one = Consumer(coordinator, "one")
    reply = one.join()
    assert (reply.member_epoch, reply.heartbeat_interval_ms) == (2, 5000)
    assert one.partitions == [0, 1, 2, 3]
    assert state_of(coordinator) is GroupState.STABLE
    coordinator.check_replay()


def test_a_heartbeat_that_changes_nothing_writes_and_says_nothing() -> None:
    coordinator = ConsumerCoordinator()
    one = Consumer(coordinator, "one")
    one.join()
    reply = one.beat()
    assert reply.assignment is None
    assert not coordinator.outcome.records
    assert [each.key[1] for each in coordinator.outcome.deadlines] == ["session"]  # type: ignore[index]


def test_a_partition_changes_hands_when_it_was_let_go() -> None:
    coordinator = ConsumerCoordinator()
    one, two = Consumer(coordinator, "one"), Consumer(coordinator, "two")
    one.join()
    two.join()
    assert (two.epoch, two.partitions) == (3, [])
    assert coordinator.consumer_group.members["two"].state is MemberState.UNRELEASED_PARTITIONS
    assert state_of(coordinator) is GroupState.RECONCILING
    told = one.send()
    assert told.member_epoch == 2
    two.beat()
    assert two.partitions == []  # `one` was told, but has not said that it is done.
    one.receive(told)
    one.beat()
    assert (one.epoch, one.partitions) == (3, [0, 1])
    two.beat()
    assert two.partitions == [2, 3]
    assert state_of(coordinator) is GroupState.STABLE
    coordinator.check_replay()


def test_who_waits_for_others_asks_more_often() -> None:
    coordinator = ConsumerCoordinator()
    one, two = Consumer(coordinator, "one"), Consumer(coordinator, "two")
    one.join()
    assert two.join().heartbeat_interval_ms == 1000
    settle(one, two)
    assert two.beat().heartbeat_interval_ms == 5000


def test_who_leaves_frees_its_partitions() -> None:
    coordinator, one, two = two_members()
    reply = two.leave()
    assert (reply.member_id, reply.member_epoch, reply.assignment) == ("two", -1, None)
    assert state_of(coordinator) is GroupState.ASSIGNING
    one.beat()
    assert (one.epoch, one.partitions) == (4, [0, 1, 2, 3])
    one.leave()
    assert state_of(coordinator) is GroupState.EMPTY
    coordinator.check_replay()


def test_the_assignor_that_most_ask_for() -> None:
    coordinator = ConsumerCoordinator({"t": 3, "u": 3})
    consumers = [
        Consumer(coordinator, f"m{number}", topics=("t", "u"), assignor=assignor)
        for number, assignor in enumerate(["uniform", "range", "range"])
    ]
    for consumer in consumers:
        consumer.join()
    settle(*consumers)
    assert [consumer.partitions for consumer in consumers] == [[0, 0], [1, 1], [2, 2]]
    described = coordinator.ask(DescribeConsumerGroup(GROUP)).answer(ConsumerGroupDescription)
    assert described.assignor == "range"


def test_a_new_subscription_is_assigned_at_once() -> None:
    coordinator = ConsumerCoordinator({"t": 2, "u": 1})
    one = Consumer(coordinator, "one")
    one.join()
    one.topics, one.says_everything = ("u",), True
    one.beat()
    one.beat()
    assert {each.topic_id for each in one.owned} == {topic_id("u")}
    assert coordinator.consumer_group.is_subscribed_to("u")
    assert not coordinator.consumer_group.is_subscribed_to("t")


# Topics


def test_topics_come_grow_and_go() -> None:
    coordinator = ConsumerCoordinator({})
    one = Consumer(coordinator, "one")
    one.join()
    assert one.partitions == []
    coordinator.set_topics(t=2)
    one.beat()
    assert one.partitions == [0, 1]
    coordinator.set_topics(t=3)
    one.beat()
    assert one.partitions == [0, 1, 2]
    epoch = one.epoch
    coordinator.set_topics(other=5)
    one.beat()
    assert one.epoch == epoch
    coordinator.set_topics(t=0)
    one.beat()
    one.beat()
    assert one.partitions == []
    coordinator.set_topics(t=1)
    one.beat()
    assert [each.topic_id for each in one.owned] == [topic_id("t", 2)]
    coordinator.check_replay()


def test_a_coordinator_that_takes_over_notices_what_changed_meanwhile() -> None:
    coordinator = ConsumerCoordinator()
    one = Consumer(coordinator, "one")
    one.join()
    coordinator.restart()
    assert not coordinator.outcome.records
    coordinator.set_topics(t=5)
    machine = coordinator.replayed()
    coordinator.topics["t"] = 6
    coordinator.set_topics(u=1)  # An image that nobody told this group about.
    coordinator.machine = machine
    coordinator.restart()
    kinds = [read_key(record.key).kind for record in coordinator.outcome.records]
    assert kinds == [GROUP_KIND]
    one.beat()
    assert one.partitions == [0, 1, 2, 3, 4, 5]


def test_patterns_follow_the_topics() -> None:
    coordinator = ConsumerCoordinator({"orders-eu": 1, "other": 1})
    one = Consumer(coordinator, "one", topics=None, pattern="^orders-.*")
    one.join()
    assert {each.topic_id for each in one.owned} == {topic_id("orders-eu")}
    coordinator.set_topics(**{"orders-us": 2, "more": 1})
    one.beat()
    assert {each.topic_id for each in one.owned} == {topic_id("orders-eu"), topic_id("orders-us")}
    coordinator.set_topics(**{"orders-eu": 0})
    one.beat()
    one.beat()
    assert {each.topic_id for each in one.owned} == {topic_id("orders-us")}
    coordinator.check_replay()
    one.pattern, one.topics, one.says_everything = "", ("other",), True
    one.beat()
    one.beat()
    assert {each.topic_id for each in one.owned} == {topic_id("other")}
    assert not coordinator.consumer_group.patterns
    coordinator.check_replay()


def test_a_pattern_stands_for_topics_that_the_member_may_describe() -> None:
    coordinator = GuardedCoordinator({"orders-eu": 1, "orders-secret": 1, "other": 1})
    one = Consumer(coordinator, "one", topics=None, pattern="orders-.*")
    one.describable = {"orders-eu", "other"}

    def owned_after_s(seconds: int) -> set[TopicId]:
        coordinator.pass_time(seconds * 1000)
        one.beat()
        one.beat()
        return {each.topic_id for each in one.owned}

    one.join()
    eu, us, secret = map(topic_id, ("orders-eu", "orders-us", "orders-secret"))
    assert {each.topic_id for each in one.owned} == {eu}
    # A new topic is nobody's until somebody who may describe it says something.
    coordinator.set_topics(**{"orders-us": 1})
    assert coordinator.consumer_group.patterns["orders-.*"].topics == {"orders-eu"}
    assert owned_after_s(5) == {eu}
    assert owned_after_s(6) == {eu}
    one.describable.add("orders-us")
    coordinator.set_topics(another=1)
    assert owned_after_s(11) == {eu, us}
    coordinator.check_replay()
    # Permission that was given or taken away counts once the cluster's image has changed.
    one.describable ^= {"orders-us", "orders-secret"}
    assert owned_after_s(11) == {eu, us}
    coordinator.set_topics(another=0)
    assert owned_after_s(11) == {eu, secret}
    coordinator.set_topics(**{"orders-eu": 0})
    assert owned_after_s(0) == {secret}
    coordinator.check_replay()


def test_a_wrong_pattern_is_refused() -> None:
    coordinator = ConsumerCoordinator()
    one = Consumer(coordinator, "one", topics=None, pattern="(")
    assert refused(one) is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert GROUP not in coordinator.machine.groups


# Many at once


def test_members_that_join_together_share_one_assignment() -> None:
    coordinator = ConsumerCoordinator({"t": 30})
    consumers = [Consumer(coordinator, f"m-{number}") for number in range(10)]
    wrong = Consumer(coordinator, "wrong", topics=None, pattern="(")
    waiting = [Waiting() for _ in range(11)]
    requests = [each.request() for each in (*consumers, wrong)]
    before = len(coordinator.log)
    coordinator.ask(JoinTogether(GROUP, list(zip(requests, waiting, strict=True))))
    refusal = waiting[-1].answer(ApiError)
    assert refusal.code is ErrorCode.INVALID_REGULAR_EXPRESSION
    for consumer, each in zip(consumers, waiting, strict=False):
        consumer.receive(each.answer(ConsumerHeartbeatReply))
    assert sorted(one for each in consumers for one in each.partitions) == list(range(30))
    assert {len(each.partitions) for each in consumers} == {3}
    group = coordinator.consumer_group
    assert (group.epoch, group.assignment_epoch) == (2, 2)
    assert set(group.members) == {each.member_id for each in consumers}
    # For each member what it wants, what it is meant to have and what it has; and two epochs.
    assert len(coordinator.log) - before == 3 * 10 + 2
    coordinator.check_replay()


def test_joining_together_repeated_or_as_a_stranger_is_as_if_alone() -> None:
    coordinator = ConsumerCoordinator({"t": 4})
    one, two = (Consumer(coordinator, name) for name in ("one", "two"))
    other = Consumer(coordinator, "other", instance="i")
    thief = Consumer(coordinator, "thief", instance="i")
    requests = [each.request() for each in (one, two, one, other, thief)]
    waiting = [Waiting() for _ in requests]
    coordinator.ask(JoinTogether(GROUP, list(zip(requests, waiting, strict=True))))
    assert waiting[-1].answer(ApiError).code is ErrorCode.UNRELEASED_INSTANCE_ID
    told = [each.answer(ConsumerHeartbeatReply) for each in waiting[:-1]]
    assert told[0] == told[2]
    assert list(coordinator.consumer_group.members) == ["one", "two", "other"]
    coordinator.check_replay()


def test_nobody_joins_together_where_nobody_may() -> None:
    coordinator = ConsumerCoordinator(group_consumer_migration_policy="disabled")
    coordinator.join()
    coordinator.pass_time(6_000)
    waiting = Waiting()
    one = Consumer(coordinator, "one")
    coordinator.ask(JoinTogether(GROUP, [(one.request(), waiting)]))
    assert waiting.answer(ApiError).code is ErrorCode.GROUP_ID_NOT_FOUND
