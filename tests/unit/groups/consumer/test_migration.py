"""Groups that change between the protocols, empty or at work."""

from dataclasses import replace

import pytest

from odradek.groups.classic_group import ClassicGroup, State
from odradek.groups.commands import Heartbeat, JoinReply, LeavingMember, Protocol, SyncReply
from odradek.groups.consumer.commands import JoinTogether
from odradek.groups.consumer.group import ConsumerGroup, GroupState
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
    decode_versioned,
    encode_versioned,
)
from tests.unit.groups.consumer.driver import (
    REBALANCE_MS,
    Consumer,
    ConsumerCoordinator,
    settle,
)
from tests.unit.groups.driver import GROUP, RANGE, SESSION_MS, Waiting, join_command


def assignment(*partitions: int) -> bytes:
    topics = [TopicPartition(topic="t", partitions=list(partitions))] if partitions else []
    return encode_versioned(ConsumerProtocolAssignment(assigned_partitions=topics), 0)


def read(synced: SyncReply) -> list[int]:
    assert synced.error is ErrorCode.NONE
    decoded = decode_versioned(ConsumerProtocolAssignment, synced.assignment)
    return [each for topic in decoded.assigned_partitions for each in topic.partitions]


def cooperative(*owned: int) -> tuple[Protocol, ...]:
    topics = [TopicPartition(topic="t", partitions=list(owned))]
    subscription = ConsumerProtocolSubscription(topics=["t"], owned_partitions=topics)
    return (Protocol("range", encode_versioned(subscription, 1)),)


class Classic:
    """A classic client: it joins, synchronises and beats, cooperatively."""

    def __init__(self, coordinator: ConsumerCoordinator, member_id: str = "") -> None:
        self.coordinator = coordinator
        self.member_id = member_id
        self.generation = -1
        self.owned: list[int] = []
        self.joined = JoinReply(ErrorCode.NONE, member_id)

    def ask_to_join(self) -> Waiting:
        return self.coordinator.join(self.member_id, protocols=cooperative(*self.owned))

    def join(self) -> ErrorCode:
        self.joined = self.ask_to_join().answer(JoinReply)
        self.member_id, self.generation = self.joined.member_id, self.joined.generation_id
        return self.joined.error

    def sync(self) -> list[int]:
        self.owned = read(self.coordinator.sync(self.joined).answer(SyncReply))
        return self.owned

    def beat(self) -> ErrorCode:
        return self.coordinator.beat(self.member_id, self.generation)

    def follow(self) -> None:
        """What a client does in a heartbeat interval."""
        if self.beat() is ErrorCode.REBALANCE_IN_PROGRESS:
            self.join()
            self.sync()


def classic_pair(**properties: str) -> tuple[ConsumerCoordinator, Classic, Classic]:
    """A Stable classic group of two, with two partitions each."""
    coordinator = ConsumerCoordinator(None, **properties)
    waiting = [coordinator.join(protocols=cooperative()) for _ in range(2)]
    while not waiting[0].is_answered:
        coordinator.pass_time(100)
    joined = [each.answer(JoinReply) for each in waiting]
    parts = {joined[0].member_id: assignment(0, 1), joined[1].member_id: assignment(2, 3)}
    members = []
    for each in sorted(joined, key=lambda reply: reply.member_id != reply.leader):
        synced = coordinator.sync(each, parts).answer(SyncReply)
        member = Classic(coordinator, each.member_id)
        member.joined, member.generation, member.owned = each, each.generation_id, read(synced)
        members.append(member)
    return coordinator, members[0], members[1]


# Empty groups


def test_an_empty_classic_group_becomes_a_consumer_group() -> None:
    coordinator = ConsumerCoordinator(group_consumer_migration_policy="disabled")
    (member,) = coordinator.stable_group()
    coordinator.leave(LeavingMember(member.member_id))
    coordinator.commit(5)
    one = Consumer(coordinator, "one")
    one.join()
    assert isinstance(coordinator.machine.groups[GROUP], ConsumerGroup)
    assert coordinator.fetch()[0].offset == 5
    coordinator.check_replay()


def test_a_consumer_on_its_own_becomes_a_consumer_group() -> None:
    coordinator = ConsumerCoordinator()
    coordinator.commit(5)
    Consumer(coordinator, "one").join()
    assert isinstance(coordinator.replayed().groups[GROUP], ConsumerGroup)
    assert coordinator.fetch()[0].offset == 5


def test_an_empty_consumer_group_becomes_a_classic_group() -> None:
    coordinator = ConsumerCoordinator(group_consumer_migration_policy="disabled")
    one = Consumer(coordinator, "one")
    one.join()
    coordinator.commit(5, member_id="one", generation_id=2)
    one.leave()
    coordinator.join()
    assert isinstance(coordinator.machine.groups[GROUP], ClassicGroup)
    assert isinstance(coordinator.replayed().groups[GROUP], ClassicGroup)
    assert coordinator.fetch()[0].offset == 5


# Up


def test_a_classic_group_at_work_is_upgraded_without_losing_a_partition() -> None:
    coordinator, first, second = classic_pair()
    three = Consumer(coordinator, "three")
    three.join()
    group = coordinator.consumer_group
    assert (group.epoch, group.assignment_epoch) == (2, 2)
    coordinator.check_replay()
    assert three.partitions == []
    assert {first.beat(), second.beat()} == {ErrorCode.REBALANCE_IN_PROGRESS}
    assert sorted(first.owned + second.owned) == [0, 1, 2, 3]
    for _ in range(4):
        first.follow()
        second.follow()
        three.beat()
        owned = first.owned + second.owned + three.partitions
        assert len(owned) == len(set(owned))
    assert sorted(first.owned + second.owned + three.partitions) == [0, 1, 2, 3]
    assert coordinator.consumer_group.state is GroupState.STABLE
    assert len(three.partitions) == 1
    assert {first.beat(), second.beat()} == {ErrorCode.NONE}
    coordinator.check_replay()


def test_who_waits_in_a_rebalance_joins_again() -> None:
    coordinator, first, second = classic_pair()
    waiting = first.ask_to_join()
    assert not waiting.is_answered
    Consumer(coordinator, "three").join()
    assert waiting.answer(JoinReply).error is ErrorCode.REBALANCE_IN_PROGRESS
    coordinator.pass_time(SESSION_MS - 1)
    assert len(coordinator.consumer_group.members) == 3
    second.beat()
    coordinator.pass_time(1)
    assert first.member_id not in coordinator.consumer_group.members


def test_a_policy_against_it() -> None:
    for policy in ("disabled", "downgrade"):
        coordinator, _, _ = classic_pair(group_consumer_migration_policy=policy)
        three = Consumer(coordinator, "three")
        assert coordinator.refusal(three.request()) is ErrorCode.GROUP_ID_NOT_FOUND


def test_a_group_of_another_protocol_stays_what_it_is() -> None:
    coordinator = ConsumerCoordinator()
    coordinator.join(protocol_type="connect")
    three = Consumer(coordinator, "three")
    assert coordinator.refusal(three.request()) is ErrorCode.GROUP_ID_NOT_FOUND


def test_malformed_wishes_cannot_be_upgraded() -> None:
    coordinator = ConsumerCoordinator()
    coordinator.join(protocols=(Protocol("range", b"?"),))
    three = Consumer(coordinator, "three")
    assert coordinator.refusal(three.request()) is ErrorCode.GROUP_ID_NOT_FOUND


# Classic members of a consumer group


def test_a_classic_member_joins_a_consumer_group() -> None:
    coordinator = ConsumerCoordinator()
    one = Consumer(coordinator, "one")
    one.join()
    other = Classic(coordinator)
    assert other.join() is ErrorCode.NONE
    assert (other.joined.leader, other.joined.members) == ("", ())
    assert other.sync() == []
    for _ in range(3):
        one.beat()
        other.follow()
    assert (one.partitions, other.owned) == ([0, 1], [2, 3])
    coordinator.check_replay()
    coordinator.leave(LeavingMember(other.member_id))
    settle(one)
    assert one.partitions == [0, 1, 2, 3]


def test_classic_members_are_fenced_as_in_a_classic_group() -> None:
    coordinator = ConsumerCoordinator()
    one = Consumer(coordinator, "one")
    one.join()
    other = Classic(coordinator)
    other.join()
    other.sync()
    other.generation += 1
    assert coordinator.refusal(_beat(other)) is ErrorCode.ILLEGAL_GENERATION
    assert coordinator.refusal(_beat(Classic(coordinator, "one"))) is ErrorCode.UNKNOWN_MEMBER_ID
    assert coordinator.leave(LeavingMember("?")) == [ErrorCode.UNKNOWN_MEMBER_ID]
    (error,) = coordinator.commit(1, member_id=other.member_id, generation_id=3)
    assert error is ErrorCode.NONE


def _beat(member: Classic) -> Heartbeat:

    return Heartbeat(GROUP, member.member_id, None, member.generation)


def test_a_classic_member_that_does_not_join_again_is_removed() -> None:
    coordinator, first, second = classic_pair()
    three = Consumer(coordinator, "three")
    three.join()
    first.beat()
    for _ in range(REBALANCE_MS // 5_000):
        second.follow()
        three.beat()
        coordinator.pass_time(5_000)
    assert first.member_id not in coordinator.consumer_group.members


def test_a_new_classic_member_is_given_its_id_first() -> None:
    coordinator = ConsumerCoordinator()
    Consumer(coordinator, "one").join()
    reply = coordinator.join(requires_member_id=True).answer(JoinReply)
    assert reply.error is ErrorCode.MEMBER_ID_REQUIRED
    again = coordinator.join(reply.member_id, requires_member_id=True).answer(JoinReply)
    assert (again.error, again.member_id) == (ErrorCode.NONE, reply.member_id)


# Down


def test_the_last_of_the_new_protocol_goes_and_the_rest_rebalance() -> None:
    coordinator, first, second = classic_pair()
    three = Consumer(coordinator, "three")
    three.join()
    for _ in range(4):
        first.follow()
        second.follow()
        three.beat()
    epoch = coordinator.consumer_group.epoch
    three.leave()
    group = coordinator.group()
    assert (group.state, group.generation_id) == (State.PREPARING_REBALANCE, epoch)
    again = coordinator.replayed().groups[GROUP]
    assert isinstance(again, ClassicGroup)
    assert again.members.keys() == group.members.keys()
    assert first.beat() is ErrorCode.REBALANCE_IN_PROGRESS
    waiting = [first.ask_to_join(), second.ask_to_join()]
    joined = [each.answer(JoinReply) for each in waiting]
    assert {each.generation_id for each in joined} == {epoch + 1}
    assert not any(key[0] == "consumer" for key in coordinator.deadlines)  # type: ignore[index]


def test_the_rebalance_after_going_down_is_not_forgotten_by_another_coordinator() -> None:
    """The log had a Stable group whose members kept their parts, so nobody read what the member of
    the new protocol had left (seed 110000159 of `groups`)."""
    coordinator, first, second = classic_pair()
    three = Consumer(coordinator, "three")
    three.join()
    for _ in range(4):
        first.follow()
        second.follow()
        three.beat()
    three.leave()
    for _ in range(2):
        coordinator.restart()
        assert coordinator.group().state is State.PREPARING_REBALANCE
        assert first.beat() is second.beat() is ErrorCode.REBALANCE_IN_PROGRESS
    waiting = [(each, each.ask_to_join()) for each in (first, second)]
    for member, asked in waiting:
        member.joined = asked.answer(JoinReply)
    leader = next(each for each in (first, second) if each.joined.members)
    shares = {leader.joined.members[0].member_id: assignment(0, 1)}
    shares[leader.joined.members[1].member_id] = assignment(2, 3)
    coordinator.sync(leader.joined, shares)
    coordinator.restart()
    assert coordinator.group().state is State.STABLE


def test_down_by_a_session_that_ends() -> None:
    coordinator, first, second = classic_pair()
    three = Consumer(coordinator, "three")
    three.join()
    for _ in range(9):
        first.follow()
        second.follow()
        coordinator.pass_time(5_000)
    assert isinstance(coordinator.machine.groups[GROUP], ClassicGroup)


def test_a_policy_against_going_down() -> None:
    coordinator, first, second = classic_pair(group_consumer_migration_policy="upgrade")
    three = Consumer(coordinator, "three")
    three.join()
    three.leave()
    assert coordinator.consumer_group.members.keys() == {first.member_id, second.member_id}
    for _ in range(4):
        first.follow()
        second.follow()
    assert sorted(first.owned + second.owned) == [0, 1, 2, 3]


def test_static_members_change_their_protocol_and_keep_their_part() -> None:
    coordinator = ConsumerCoordinator(None, group_consumer_migration_policy="upgrade")
    one = Consumer(coordinator, "one", instance="i")
    one.join()
    joined = coordinator.join(instance="i", protocols=cooperative()).answer(JoinReply)
    assert joined.error is ErrorCode.NONE
    synced = coordinator.sync(joined, instance="i").answer(SyncReply)
    assert read(synced) == [0, 1, 2, 3]
    again = Consumer(coordinator, "again", instance="i")
    again.join()
    assert again.partitions == [0, 1, 2, 3]
    coordinator.check_replay()


def test_down_by_a_static_member_that_comes_back_with_the_classic_protocol() -> None:
    coordinator = ConsumerCoordinator()
    one = Consumer(coordinator, "one", instance="i")
    one.join()
    epoch = coordinator.consumer_group.epoch
    joined = coordinator.join(instance="i", protocols=cooperative()).answer(JoinReply)
    assert isinstance(coordinator.machine.groups[GROUP], ClassicGroup)
    assert isinstance(coordinator.replayed().groups[GROUP], ClassicGroup)
    assert (joined.error, joined.generation_id) == (ErrorCode.NONE, epoch + 1)
    assert joined.leader == joined.member_id
    mine = {joined.member_id: assignment(0, 1, 2, 3)}
    assert read(coordinator.sync(joined, mine, instance="i").answer(SyncReply)) == [0, 1, 2, 3]


def test_classic_joins_that_are_refused() -> None:
    coordinator = ConsumerCoordinator(group_consumer_max_size="1")
    Consumer(coordinator, "one").join()

    command = join_command("", protocols=RANGE)
    assert coordinator.refusal(command) is ErrorCode.GROUP_MAX_SIZE_REACHED
    short = replace(command, session_timeout_ms=1)
    assert coordinator.refusal(short) is ErrorCode.INVALID_SESSION_TIMEOUT
    roomy = ConsumerCoordinator()
    Consumer(roomy, "one").join()
    other = replace(command, protocol_type="connect")
    assert roomy.refusal(other) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    wrong = replace(command, protocols=(Protocol("range", b"?"),))
    assert roomy.refusal(wrong) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


# Administrators remove members with LeaveGroup, of either protocol


@pytest.mark.parametrize("has_closed", [False, True])
def test_a_static_member_is_removed_by_its_instance_id(*, has_closed: bool) -> None:
    coordinator = ConsumerCoordinator()
    one, two = (Consumer(coordinator, name, instance=f"i-{name}") for name in ("one", "two"))
    one.join()
    two.join()
    settle(one, two)
    if has_closed:
        two.leave(for_now=True)
    assert coordinator.leave(
        LeavingMember("", "i-two"), LeavingMember("", "i-two"), LeavingMember("", "i-three")
    ) == [ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.UNKNOWN_MEMBER_ID]
    settle(one)
    assert one.partitions == [0, 1, 2, 3]
    assert list(coordinator.consumer_group.members) == ["one"]
    coordinator.check_replay()


def test_a_static_member_is_not_removed_under_another_member_id() -> None:
    coordinator = ConsumerCoordinator()
    one = Consumer(coordinator, "one", instance="i")
    one.join()
    assert coordinator.leave(LeavingMember("two", "i")) == [ErrorCode.FENCED_INSTANCE_ID]
    assert coordinator.leave(LeavingMember("one", "i")) == [ErrorCode.NONE]
    assert coordinator.refusal(one.request()) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_was_removed_finds_out_and_joins_again() -> None:
    coordinator = ConsumerCoordinator()
    one = Consumer(coordinator, "one")
    one.join()
    assert coordinator.leave(LeavingMember("one")) == [ErrorCode.NONE]
    assert coordinator.refusal(one.request()) is ErrorCode.UNKNOWN_MEMBER_ID
    one.join()
    settle(one)
    assert one.partitions == [0, 1, 2, 3]


def test_removing_the_last_member_of_the_new_protocol_makes_the_group_classic() -> None:
    coordinator = ConsumerCoordinator(group_consumer_migration_policy="bidirectional")
    one = Consumer(coordinator, "one", instance="i")
    one.join()
    other = Classic(coordinator)
    other.join()
    other.sync()
    assert coordinator.leave(LeavingMember("", "i")) == [ErrorCode.NONE]
    assert isinstance(coordinator.group(), ClassicGroup)


def test_a_classic_group_is_not_upgraded_for_a_member_that_is_refused() -> None:
    """A refused member came back again and again, and the group never came out of its rebalance:
    each time it was upgraded, and then downgraded by the next classic member (seed 9000605 of
    `groups`)."""
    coordinator, _, _ = classic_pair(group_consumer_max_size="2")
    waiting = Waiting()
    one = Consumer(coordinator, "one")
    coordinator.ask(JoinTogether(GROUP, [(one.request(), waiting)]))
    assert waiting.answer(ApiError).code is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert isinstance(coordinator.machine.groups[GROUP], ClassicGroup)
