"""Static members (KIP-345, KIP-814): they come back without a rebalance, and fence who stayed."""

import pytest

from odradek.groups.classic_group import State
from odradek.groups.commands import Heartbeat, JoinReply, LeavingMember, Protocol, SyncReply
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
    encode_versioned,
)
from tests.unit.groups.driver import (
    GROUP,
    RANGE,
    REBALANCE_MS,
    SESSION_MS,
    Coordinator,
    join_command,
    subscription,
)


def stable_static_group(coordinator: Coordinator) -> dict[str, JoinReply]:
    """Members a (which leads) and b, each with its instance id as its assignment."""
    waiting = {name: coordinator.join(instance=name) for name in ("a", "b")}
    coordinator.pass_time(6_000)
    joined = {name: each.answer(JoinReply) for name, each in waiting.items()}
    coordinator.sync(joined["b"], instance="b")
    parts = {each.member_id: name.encode() for name, each in joined.items()}
    coordinator.sync(joined["a"], parts, instance="a")
    assert coordinator.group().state is State.STABLE
    return joined


def test_an_instance_is_named_after_itself_and_needs_no_second_join() -> None:
    coordinator = Coordinator()
    joined = stable_static_group(coordinator)
    assert joined["a"].member_id == "a-1"
    assert [each.group_instance_id for each in joined["a"].members] == ["a", "b"]


def test_a_follower_comes_back_without_a_rebalance() -> None:
    coordinator = Coordinator()
    joined = stable_static_group(coordinator)
    back = coordinator.join(instance="b").answer(JoinReply)
    assert back.error is ErrorCode.NONE
    assert (back.generation_id, back.leader) == (1, joined["a"].member_id)
    assert back.member_id != joined["b"].member_id
    assert coordinator.sync(back, instance="b").answer(SyncReply).assignment == b"b"
    assert coordinator.beat(joined["a"].member_id, 1, instance="a") is ErrorCode.NONE
    fenced = Heartbeat(GROUP, joined["b"].member_id, "b", 1)
    assert coordinator.refusal(fenced) is ErrorCode.FENCED_INSTANCE_ID


def test_a_leader_that_comes_back_leads_and_skips_the_assignment() -> None:
    coordinator = Coordinator()
    stable_static_group(coordinator)
    back = coordinator.join(instance="a").answer(JoinReply)
    assert (back.leader, back.skip_assignment, len(back.members)) == (back.member_id, True, 2)
    # An older client is kept from assigning: it is told of its old id.
    older = coordinator.join(instance="a", can_skip_assignment=False).answer(JoinReply)
    assert (older.leader, older.skip_assignment, older.members) == (back.member_id, False, ())
    assert coordinator.group().leader_id == older.member_id
    assert coordinator.sync(older, instance="a").answer(SyncReply).assignment == b"a"


def test_a_returned_member_is_in_the_log() -> None:
    coordinator = Coordinator()
    stable_static_group(coordinator)
    back = coordinator.join(instance="b").answer(JoinReply)
    coordinator.restart()
    assert coordinator.group().static_members["b"] == back.member_id
    assert coordinator.beat(back.member_id, 1, instance="b") is ErrorCode.NONE


def test_a_member_that_comes_back_with_another_protocol_rebalances() -> None:
    coordinator = Coordinator()
    both = (Protocol("x", subscription("t")), *RANGE)
    waiting = [coordinator.join(instance=name, protocols=both) for name in ("a", "b")]
    coordinator.pass_time(6_000)
    leader, follower = (each.answer(JoinReply) for each in waiting)
    coordinator.sync(follower, instance="b")
    coordinator.sync(leader, instance="a")
    assert coordinator.group().protocol_name == "x"
    back = coordinator.join(instance="b", protocols=RANGE)
    assert not back.is_answered
    coordinator.join(leader.member_id, instance="a", protocols=both)
    assert back.answer(JoinReply).protocol_name == "range"


def cooperative(*owned: int) -> tuple[Protocol, ...]:
    told = ConsumerProtocolSubscription(
        topics=["t"], owned_partitions=[TopicPartition(topic="t", partitions=list(owned))]
    )
    return (Protocol("cooperative-sticky", encode_versioned(told, 1)),)


def share(*partitions: int) -> bytes:
    given = TopicPartition(topic="t", partitions=list(partitions))
    return encode_versioned(ConsumerProtocolAssignment(assigned_partitions=[given]), 0)


@pytest.mark.parametrize(("given", "rebalances"), [((0,), True), ((0, 1), False)])
def test_who_was_to_give_partitions_up_and_dies_before_is_replaced_with_a_rebalance(
    *, given: tuple[int, ...], rebalances: bool
) -> None:
    coordinator = Coordinator()
    waiting = {
        "a": coordinator.join(instance="a", protocols=cooperative(0, 1)),
        "b": coordinator.join(instance="b", protocols=cooperative()),
    }
    coordinator.pass_time(6_000)
    joined = {name: each.answer(JoinReply) for name, each in waiting.items()}
    coordinator.sync(joined["b"], instance="b")
    shares = {joined["a"].member_id: share(*given), joined["b"].member_id: share()}
    coordinator.sync(joined["a"], shares, instance="a")
    coordinator.restart()
    # Partition 1 is for b, once a has joined again without it. The new a knows nothing of it.
    back = coordinator.join(instance="a", protocols=cooperative())
    assert back.is_answered is not rebalances
    assert (coordinator.group().state is State.PREPARING_REBALANCE) is rebalances


def test_a_return_while_the_leader_assigns_begins_again() -> None:
    coordinator = Coordinator()
    waiting = [coordinator.join(instance=name) for name in ("a", "b")]
    coordinator.pass_time(6_000)
    leader, follower = (each.answer(JoinReply) for each in waiting)
    synced = coordinator.sync(follower, instance="b")
    back = coordinator.join(instance="b")
    assert synced.answer(SyncReply).error is ErrorCode.FENCED_INSTANCE_ID
    assert not back.is_answered
    assert coordinator.join(leader.member_id, instance="a").answer(JoinReply).generation_id == 2
    assert back.answer(JoinReply).generation_id == 2


def test_a_return_during_a_rebalance_fences_who_waits() -> None:
    coordinator = Coordinator()
    joined = stable_static_group(coordinator)
    coordinator.join(instance="c")
    waits = coordinator.join(joined["b"].member_id, instance="b")
    back = coordinator.join(instance="b")
    fenced = waits.answer(JoinReply)
    assert (fenced.error, fenced.member_id) == (
        ErrorCode.FENCED_INSTANCE_ID,
        joined["b"].member_id,
    )
    coordinator.join(joined["a"].member_id, instance="a")
    assert back.answer(JoinReply).generation_id == 2


def test_a_static_member_that_is_late_for_a_rebalance_stays() -> None:
    coordinator = Coordinator()
    waiting = {
        name: coordinator.join(instance=name, session_ms=REBALANCE_MS * 10) for name in ("a", "b")
    }
    coordinator.pass_time(6_000)
    joined = {name: each.answer(JoinReply) for name, each in waiting.items()}
    coordinator.sync(joined["b"], instance="b")
    coordinator.sync(joined["a"], instance="a")
    new = coordinator.join()
    coordinator.pass_time(REBALANCE_MS)
    reply = new.answer(JoinReply)
    assert {each.group_instance_id for each in reply.members} == {"a", "b", None}
    assert reply.leader == reply.member_id


def test_a_rebalance_of_static_members_none_of_whom_comes_waits_for_their_sessions() -> None:
    coordinator = Coordinator()
    joined = stable_static_group(coordinator)
    coordinator.join(joined["a"].member_id, instance="a")
    # The only one that joined leaves again.
    coordinator.leave(LeavingMember(joined["a"].member_id, "a"))
    assert coordinator.group().state is State.PREPARING_REBALANCE
    coordinator.pass_time(REBALANCE_MS + SESSION_MS)
    assert coordinator.group().state is State.EMPTY


def test_a_silent_static_member_is_out() -> None:
    coordinator = Coordinator()
    stable_static_group(coordinator)
    coordinator.pass_time(SESSION_MS)
    assert not coordinator.group().static_members


@pytest.mark.parametrize("instance", ["a", "b"])
def test_an_administrator_removes_an_instance(instance: str) -> None:
    coordinator = Coordinator()
    joined = stable_static_group(coordinator)
    assert coordinator.leave(LeavingMember("", instance)) == [ErrorCode.NONE]
    assert joined[instance].member_id not in coordinator.group().members
    assert coordinator.leave(LeavingMember("", instance)) == [ErrorCode.UNKNOWN_MEMBER_ID]


def test_who_speaks_for_an_instance_must_be_it() -> None:
    coordinator = Coordinator()
    joined = stable_static_group(coordinator)
    wrong = join_command(joined["a"].member_id, instance="b")
    assert coordinator.refusal(wrong) is ErrorCode.FENCED_INSTANCE_ID
    unknown = join_command(joined["a"].member_id, instance="z")
    assert coordinator.refusal(unknown) is ErrorCode.UNKNOWN_MEMBER_ID
    assert coordinator.leave(LeavingMember("m", "a")) == [ErrorCode.FENCED_INSTANCE_ID]


def test_an_id_given_to_a_dynamic_member_is_not_for_a_static_one() -> None:
    coordinator = Coordinator()
    named = coordinator.join(requires_member_id=True).answer(JoinReply)
    command = join_command(named.member_id, instance="i")
    assert coordinator.refusal(command) is ErrorCode.UNKNOWN_MEMBER_ID
