"""Which heartbeats the coordinator of a consumer group refuses, and how members come back."""

from dataclasses import replace

import pytest

from odradek.protocol.errors import ErrorCode
from tests.unit.groups.consumer.driver import (
    Consumer,
    ConsumerCoordinator,
    settle,
)
from tests.unit.groups.consumer.two_members import refused, two_members

# Fencing


def test_who_is_unknown() -> None:
    coordinator = ConsumerCoordinator()
    one = Consumer(coordinator, "one")
    assert refused(one, one.request(epoch=1)) is ErrorCode.GROUP_ID_NOT_FOUND
    assert refused(one, one.request(epoch=-1)) is ErrorCode.GROUP_ID_NOT_FOUND
    one.join()
    two = Consumer(coordinator, "two")
    assert refused(two, two.request(epoch=1)) is ErrorCode.UNKNOWN_MEMBER_ID
    assert refused(two, two.request(epoch=-1)) is ErrorCode.UNKNOWN_MEMBER_ID


def test_epochs_fence() -> None:
    _, one, _ = two_members()
    assert one.epoch == 3
    assert refused(one, one.request(epoch=4)) is ErrorCode.FENCED_MEMBER_EPOCH
    with_more = one.request(epoch=2)
    stranger = next(iter(one.owned))._replace(partition=3)
    more = replace(with_more, owned=one.owned | {stranger})
    assert refused(one, more) is ErrorCode.FENCED_MEMBER_EPOCH
    assert refused(one, replace(with_more, owned=None)) is ErrorCode.FENCED_MEMBER_EPOCH
    assert one.send(with_more).member_epoch == 3


def test_a_lost_answer_is_said_again() -> None:
    coordinator = ConsumerCoordinator()
    one = Consumer(coordinator, "one")
    one.send()
    one.beat()
    assert (one.epoch, one.partitions) == (2, [0, 1, 2, 3])
    coordinator.set_topics(t=6)
    one.send()
    reply = one.beat()
    assert (reply.member_epoch, one.partitions) == (3, [0, 1, 2, 3, 4, 5])


def test_a_member_that_comes_back_with_nothing_gets_its_part_again() -> None:
    coordinator, one, two = two_members()
    one.join()
    assert (one.epoch, one.partitions) == (3, [0, 1])
    settle(one, two)
    coordinator.check_replay()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"member_id": ""}, "MemberId"),
        ({"group_id": " "}, "GroupId"),
        ({"instance_id": ""}, "InstanceId"),
        ({"rack_id": ""}, "RackId"),
        ({"rebalance_timeout_ms": -1}, "RebalanceTimeoutMs"),
        ({"owned": None}, "TopicPartitions"),
        ({"topics": None}, "SubscribedTopicNames"),
        ({"member_epoch": -2}, "InstanceId"),
        ({"member_epoch": -3}, "MemberEpoch"),
    ],
)
def test_requests_that_make_no_sense(change: dict[str, object], message: str) -> None:
    coordinator = ConsumerCoordinator()
    request = replace(Consumer(coordinator, "one").request(), **change)  # type: ignore[arg-type]
    assert coordinator.refusal(request) is ErrorCode.INVALID_REQUEST, message


def test_a_member_without_an_id_is_given_one_in_version_0() -> None:
    coordinator = ConsumerCoordinator()
    request = replace(Consumer(coordinator, "").request(), makes_own_id=False)
    assert Consumer(coordinator, "").send(request).member_id == "made-1"


def test_an_assignor_nobody_knows() -> None:
    one = Consumer(ConsumerCoordinator(), "one", assignor="best")
    assert refused(one) is ErrorCode.UNSUPPORTED_ASSIGNOR


def test_a_full_group() -> None:
    coordinator = ConsumerCoordinator(group_consumer_max_size="1")
    one = Consumer(coordinator, "one", instance="i")
    one.join()
    assert refused(Consumer(coordinator, "two")) is ErrorCode.GROUP_MAX_SIZE_REACHED
    one.join()
    one.leave(for_now=True)
    Consumer(coordinator, "three", instance="i").join()
