"""Commits, fetches, deletions and descriptions of a consumer group."""

from odradek.groups.commands import DeleteGroup
from odradek.groups.consumer.commands import (
    ConsumerGroupDescription,
    DescribeConsumerGroup,
)
from odradek.protocol.errors import ErrorCode
from odradek.protocol.types import TopicPartition
from tests.unit.groups.consumer.driver import (
    Consumer,
    ConsumerCoordinator,
    settle,
)
from tests.unit.groups.consumer.two_members import two_members
from tests.unit.groups.driver import GROUP

# Offsets and administration


def test_commits_need_an_epoch_in_which_the_partition_was_the_members() -> None:
    coordinator = ConsumerCoordinator()
    one, two = Consumer(coordinator, "one"), Consumer(coordinator, "two")
    one.join()
    two.join()
    settle(one, two)
    kept, lost = TopicPartition("t", 0), TopicPartition("t", 3)

    def commit(member_id: str, epoch: int, partition: TopicPartition) -> ErrorCode:
        (error,) = coordinator.commit(
            7, partition=partition, member_id=member_id, generation_id=epoch
        )
        return error

    assert commit("one", 3, kept) is ErrorCode.NONE
    assert commit("one", 2, kept) is ErrorCode.NONE  # It had it in epoch 2 already.
    assert commit("one", 2, lost) is ErrorCode.STALE_MEMBER_EPOCH
    assert commit("two", 2, lost) is ErrorCode.STALE_MEMBER_EPOCH  # It got it in epoch 3.
    assert commit("two", 3, lost) is ErrorCode.NONE


def test_commits_and_fetches_that_are_refused() -> None:
    coordinator, one, _ = two_members()
    group = coordinator.consumer_group

    def refusal(member_id: str, epoch: int) -> ErrorCode:
        return coordinator.refusal(coordinator.commit_command(member_id, epoch))

    assert refusal("stranger", 2) is ErrorCode.UNKNOWN_MEMBER_ID
    assert refusal("", -1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert refusal("one", 4) is ErrorCode.STALE_MEMBER_EPOCH
    group.check_fetch(None, -1)
    group.check_fetch("one", one.epoch)
    assert coordinator.refusal(coordinator.fetch_command("one", 1)) is ErrorCode.STALE_MEMBER_EPOCH
    assert coordinator.refusal(coordinator.fetch_command("x", 1)) is ErrorCode.UNKNOWN_MEMBER_ID


def test_an_empty_group_can_be_deleted_and_one_with_members_not() -> None:
    coordinator = ConsumerCoordinator()
    one = Consumer(coordinator, "one", pattern="t.*")
    one.join()
    assert coordinator.refusal(DeleteGroup(GROUP)) is ErrorCode.NON_EMPTY_GROUP
    one.leave()
    coordinator.commit(3)
    coordinator.ask(DeleteGroup(GROUP))
    assert GROUP not in coordinator.machine.groups
    assert GROUP not in coordinator.replayed().groups
    assert not coordinator.fetch()


def test_a_group_is_described_and_listed() -> None:
    coordinator, one, _ = two_members()
    described = coordinator.ask(DescribeConsumerGroup(GROUP)).answer(ConsumerGroupDescription)
    assert described[:5] == (GROUP, "Stable", 3, 3, "uniform")
    assert [each.member.member_id for each in described.members] == ["one", "two"]
    assert described.members[0].target == one.owned
    (listing,) = coordinator.machine.listings(types=["Consumer"], states=["stable"])
    assert listing == (GROUP, "consumer", "Stable", "consumer")
    assert coordinator.refusal(DescribeConsumerGroup("?")) is ErrorCode.GROUP_ID_NOT_FOUND
