"""Violations that are planted in the state of groups, and caught where the state moves next."""

from collections.abc import Callable

import pytest

from odradek import invariants
from odradek.groups.classic_group import ClassicGroup, State
from odradek.groups.commands import LeavingMember
from odradek.groups.consumer.assignors import ASSIGNORS, Subscribers, Topics, uniform
from odradek.groups.consumer.member import TopicIdPartition
from odradek.groups.offsets import Offsets
from odradek.groups.records import CommittedOffset, offset_record
from odradek.invariants import InvariantViolation
from odradek.protocol.types import Offset, ProducerEpoch, ProducerId
from odradek.statemachine.machine import Marker, ProducerIdentity, Written
from tests.unit.groups.consumer.driver import Consumer, ConsumerCoordinator, settle
from tests.unit.groups.driver import GROUP, T0, Coordinator


def lose_the_leader(group: ClassicGroup) -> None:
    group.leader_id = "gone"


def forget_a_static_member(group: ClassicGroup) -> None:
    group.static_members["instance"] = "gone"


def keep_a_member_pending(group: ClassicGroup) -> None:
    group.pending_joins[next(iter(group.members))] = None


def await_a_stranger(group: ClassicGroup) -> None:
    group.pending_syncs["gone"] = None


def agree_on_nothing(group: ClassicGroup) -> None:
    group.protocol_name = "sticky"


def be_empty_with_members(group: ClassicGroup) -> None:
    group.state = State.EMPTY


@pytest.mark.parametrize(
    ("plant", "rule"),
    [
        (lose_the_leader, "its leader is gone"),
        (forget_a_static_member, "static members"),
        (keep_a_member_pending, "among the pending"),
        (await_a_stranger, r"waits for SyncGroup of \['gone'\]"),
        (agree_on_nothing, "do not support its protocol sticky"),
        (be_empty_with_members, "is Empty and has members"),
    ],
)
def test_a_classic_group_that_contradicts_itself(
    plant: Callable[[ClassicGroup], None], rule: str
) -> None:
    coordinator = Coordinator()
    coordinator.stable_group()
    plant(coordinator.group())
    written = len(coordinator.log)
    with pytest.raises(InvariantViolation, match=rule) as caught:
        coordinator.leave(LeavingMember("another"))
    assert len(coordinator.log) == written, "nothing is written from wrong state"
    assert "Empty -> PreparingRebalance" in caught.value.history[0]


def test_a_generation_that_falls(monkeypatch: pytest.MonkeyPatch) -> None:
    coordinator = Coordinator()
    coordinator.stable_group()
    begin_generation = ClassicGroup.begin_generation

    def begin_earlier(self: ClassicGroup, why: str, timestamp_ms: int) -> None:
        begin_generation(self, why, timestamp_ms)
        self.generation_id -= 2

    monkeypatch.setattr(ClassicGroup, "begin_generation", begin_earlier)
    coordinator.join()
    with pytest.raises(InvariantViolation, match="generation fell from 1 to 0"):
        coordinator.pass_time(100_000)


def test_a_caller_that_waits_for_nothing() -> None:
    coordinator = Coordinator()
    joined, other = coordinator.stable_group(members=2)
    group = coordinator.group()
    waiting = coordinator.join(joined.member_id)
    group = coordinator.group()
    assert not waiting.is_answered
    group.state = State.COMPLETING_REBALANCE  # As if the members had been answered.
    with pytest.raises(InvariantViolation, match=r"JoinGroup of .* waits in CompletingRebalance"):
        coordinator.sync(other)


# Consumer groups


def two_consumers() -> tuple[ConsumerCoordinator, Consumer, Consumer]:
    coordinator = ConsumerCoordinator()
    one, two = Consumer(coordinator, "one"), Consumer(coordinator, "two")
    one.join()
    two.join()
    settle(one, two)
    return coordinator, one, two


def test_a_partition_with_two_owners() -> None:
    coordinator, _, _ = two_consumers()
    group = coordinator.consumer_group
    taken = next(iter(group.members["one"].assigned))
    member = group.members["two"]
    # Not through `put_member`, which would note the owner.
    group.members["two"] = member._replace(assigned={**member.assigned, taken: 3})
    with pytest.raises(InvariantViolation, match="one and two own") as caught:
        coordinator.set_topics(t=5)
    assert any("two" in line for line in caught.value.history)


def test_an_owner_that_is_not_noted() -> None:
    coordinator, _, _ = two_consumers()
    coordinator.consumer_group.owners.clear()
    with pytest.raises(InvariantViolation, match="the owners are"):
        coordinator.set_topics(t=5)


def test_an_assignor_that_gives_a_partition_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    def both(subscribers: Subscribers, topics: Topics) -> dict[str, frozenset[TopicIdPartition]]:
        everything = frozenset().union(*uniform(subscribers, topics).values())
        return dict.fromkeys(subscribers, everything)

    monkeypatch.setitem(ASSIGNORS, "uniform", both)
    coordinator = ConsumerCoordinator()
    Consumer(coordinator, "one").join()
    with pytest.raises(InvariantViolation, match=r"the target gives .* to one and two"):
        Consumer(coordinator, "two").join()


def test_a_member_that_is_ahead_of_the_target() -> None:
    coordinator, _, two = two_consumers()
    group = coordinator.consumer_group
    group.put_member(group.members["one"]._replace(epoch=9))
    coordinator.topics["u"] = 1
    two.topics, two.says_everything = ("t", "u"), True
    with pytest.raises(InvariantViolation, match="one has epoch 9, the target"):
        two.beat()


def test_a_target_that_is_ahead_of_the_group_is_noticed_in_production_too() -> None:
    coordinator, _, two = two_consumers()
    coordinator.consumer_group.assignment_epoch = 9
    two.topics, two.says_everything = ("t", "u"), True
    invariants.check_thoroughly(False)
    try:
        with pytest.raises(InvariantViolation, match="its target is of epoch 9, after 4"):
            two.beat()
    finally:
        invariants.check_thoroughly(True)


# Offsets


def commit_at(offset: Offset, producer: ProducerIdentity | None = None) -> Written:
    record = offset_record(GROUP, T0, CommittedOffset(7, -1, "", 0))
    return Written(record, offset, producer)


def test_commits_that_are_applied_out_of_order() -> None:
    offsets = Offsets()
    offsets.apply(commit_at(Offset(5)))
    with pytest.raises(InvariantViolation, match="at offset 4 is applied after that at 5"):
        offsets.apply(commit_at(Offset(4)))


def test_a_pending_offset_whose_transaction_is_unknown() -> None:
    offsets = Offsets()
    offsets.apply(commit_at(Offset(1), ProducerIdentity(ProducerId(7), ProducerEpoch(0))))
    offsets.pending[8] = {GROUP: {}}
    with pytest.raises(InvariantViolation, match=r"producers \[7, 8\] are pending"):
        offsets.apply(commit_at(Offset(2), ProducerIdentity(ProducerId(7), ProducerEpoch(0))))
    with pytest.raises(InvariantViolation, match=r"producers \[8\] are pending"):
        offsets.end_transaction(
            Marker(ProducerIdentity(ProducerId(7), ProducerEpoch(0)), committed=True)
        )
