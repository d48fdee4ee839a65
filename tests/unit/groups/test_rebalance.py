"""Rebalances of classic groups: the two barriers, their deadlines, and who goes on."""

import pytest

from odradek.groups.classic_group import TRANSITIONS, ClassicGroup, State
from odradek.groups.classic_rebalance import PENDING_JOINS_TIMEOUT_MS
from odradek.groups.commands import JoinReply, LeavingMember, Protocol, SyncGroup, SyncReply
from odradek.invariants import InvariantViolation
from odradek.protocol.errors import ErrorCode
from tests.unit.groups.driver import (
    GROUP,
    RANGE,
    REBALANCE_MS,
    SESSION_MS,
    Coordinator,
    join_command,
    subscription,
)

DELAY_MS = 3_000


def test_one_member_makes_a_generation_after_the_initial_delay() -> None:
    coordinator = Coordinator()
    waiting = coordinator.join()
    assert coordinator.group().state is State.PREPARING_REBALANCE
    coordinator.pass_time(DELAY_MS - 1)
    assert not waiting.is_answered
    coordinator.pass_time(1)
    joined = waiting.answer(JoinReply)
    assert joined.error is ErrorCode.NONE
    assert (joined.generation_id, joined.leader) == (1, joined.member_id)
    assert (joined.protocol_type, joined.protocol_name) == ("consumer", "range")
    assert [member.member_id for member in joined.members] == [joined.member_id]
    assert coordinator.group().state is State.COMPLETING_REBALANCE
    synced = coordinator.sync(joined, {joined.member_id: b"mine"}).answer(SyncReply)
    assert synced == SyncReply(ErrorCode.NONE, "consumer", "range", b"mine")
    assert coordinator.group().state is State.STABLE


def test_each_new_member_extends_the_initial_delay_up_to_the_rebalance_timeout() -> None:
    coordinator = Coordinator()
    first = coordinator.join(rebalance_ms=8_000)
    for _ in range(2):
        coordinator.pass_time(DELAY_MS - 1)
        coordinator.join(rebalance_ms=8_000)
        coordinator.pass_time(1)
        assert not first.is_answered
    # 6 s are over and 2 remain, whoever comes.
    coordinator.join(rebalance_ms=8_000)
    coordinator.pass_time(1_999)
    assert not first.is_answered
    coordinator.pass_time(1)
    assert len(first.answer(JoinReply).members) == 4


def test_the_first_generation_waits_for_those_who_were_just_given_an_id() -> None:
    coordinator = Coordinator(group_initial_rebalance_delay_ms="0")
    named = [coordinator.join(requires_member_id=True).answer(JoinReply) for _ in range(2)]
    first = coordinator.join(named[0].member_id, requires_member_id=True)
    coordinator.pass_time(1)
    assert not first.is_answered
    second = coordinator.join(named[1].member_id, requires_member_id=True)
    assert len(first.answer(JoinReply).members) == 2
    assert second.answer(JoinReply).generation_id == 1


def test_an_id_that_nobody_uses_holds_up_the_first_generation_for_a_moment_only() -> None:
    coordinator = Coordinator(group_initial_rebalance_delay_ms="0")
    named = [coordinator.join(requires_member_id=True).answer(JoinReply) for _ in range(2)]
    first = coordinator.join(named[0].member_id, requires_member_id=True)
    coordinator.pass_time(PENDING_JOINS_TIMEOUT_MS)
    assert len(first.answer(JoinReply).members) == 1
    late = coordinator.join(named[1].member_id, requires_member_id=True)
    assert not late.is_answered
    assert coordinator.group().state is State.PREPARING_REBALANCE


def test_only_the_leader_is_told_of_the_members() -> None:
    coordinator = Coordinator()
    joined = coordinator.stable_group(3)
    assert [len(each.members) for each in joined] == [3, 0, 0]
    assert {each.leader for each in joined} == {joined[0].member_id}
    assert {each.generation_id for each in joined} == {1}


def test_everybody_gets_its_own_part_once_the_leader_has_assigned() -> None:
    coordinator = Coordinator()
    waiting = [coordinator.join(), coordinator.join()]
    coordinator.pass_time(2 * DELAY_MS)
    leader, follower = (each.answer(JoinReply) for each in waiting)
    follows = coordinator.sync(follower)
    assert not follows.is_answered
    parts = {leader.member_id: b"one", follower.member_id: b"two"}
    leads = coordinator.sync(leader, parts)
    assert leads.answer(SyncReply).assignment == b"one"
    assert follows.answer(SyncReply).assignment == b"two"


def test_a_member_the_leader_forgot_gets_nothing() -> None:
    coordinator = Coordinator()
    waiting = [coordinator.join(), coordinator.join()]
    coordinator.pass_time(2 * DELAY_MS)
    leader, follower = (each.answer(JoinReply) for each in waiting)
    coordinator.sync(leader, {leader.member_id: b"all", "stranger": b"x"})
    assert coordinator.sync(follower).answer(SyncReply).assignment == b""


def test_a_new_member_makes_the_others_join_again() -> None:
    coordinator = Coordinator()
    (old,) = coordinator.stable_group()
    new = coordinator.join()
    assert coordinator.beat(old.member_id, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert not new.is_answered
    again = coordinator.join(old.member_id)
    assert again.answer(JoinReply).generation_id == 2
    assert new.answer(JoinReply).leader == old.member_id


def test_who_does_not_join_in_time_is_left_behind() -> None:
    coordinator = Coordinator()
    old = coordinator.stable_group(2, session_ms=REBALANCE_MS * 2)
    new = coordinator.join()
    back = coordinator.join(old[1].member_id)
    coordinator.pass_time(REBALANCE_MS)
    assert new.answer(JoinReply).leader == old[1].member_id == back.answer(JoinReply).leader
    assert old[0].member_id not in coordinator.group().members
    assert ("session", GROUP, old[0].member_id) not in coordinator.deadlines


def test_who_does_not_synchronise_in_time_is_out() -> None:
    coordinator = Coordinator()
    waiting = [coordinator.join(session_ms=REBALANCE_MS * 2) for _ in range(2)]
    coordinator.pass_time(2 * DELAY_MS)
    leader, follower = (each.answer(JoinReply) for each in waiting)
    synced = coordinator.sync(follower)
    coordinator.pass_time(REBALANCE_MS)
    assert synced.answer(SyncReply).error is ErrorCode.REBALANCE_IN_PROGRESS
    assert list(coordinator.group().members) == [follower.member_id]
    assert coordinator.group().state is State.PREPARING_REBALANCE
    assert coordinator.refusal(join_command(leader.member_id)) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_follower_that_does_not_synchronise_with_a_stable_group_is_out() -> None:
    coordinator = Coordinator()
    waiting = [coordinator.join(session_ms=REBALANCE_MS * 2) for _ in range(2)]
    coordinator.pass_time(2 * DELAY_MS)
    leader, follower = (each.answer(JoinReply) for each in waiting)
    coordinator.sync(leader)
    coordinator.pass_time(REBALANCE_MS)
    assert follower.member_id not in coordinator.group().members
    assert coordinator.group().state is State.PREPARING_REBALANCE


def test_a_silent_member_is_out_and_the_rest_rebalances() -> None:
    coordinator = Coordinator()
    silent, lively = coordinator.stable_group(2)
    for _ in range(3):
        coordinator.pass_time(SESSION_MS // 3)
        assert coordinator.beat(lively.member_id, 1) is ErrorCode.NONE
    coordinator.pass_time(SESSION_MS // 3)
    assert list(coordinator.group().members) == [lively.member_id]
    assert coordinator.beat(lively.member_id, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    again = coordinator.join(lively.member_id).answer(JoinReply)
    assert (again.generation_id, again.leader) == (2, lively.member_id)
    assert silent.member_id != lively.member_id


def test_whoever_waits_for_an_answer_need_not_beat() -> None:
    coordinator = Coordinator()
    old = coordinator.stable_group(2, session_ms=SESSION_MS)
    waiting = coordinator.join(old[0].member_id)
    for _ in range(4):
        coordinator.pass_time(SESSION_MS - 1)
        coordinator.beat(old[1].member_id, 1)
    assert old[0].member_id in coordinator.group().members
    coordinator.join(old[1].member_id)
    assert waiting.answer(JoinReply).generation_id == 2


def test_a_new_member_whose_client_is_gone_does_not_wait_for_ever() -> None:
    coordinator = Coordinator()
    (old,) = coordinator.stable_group(rebalance_ms=REBALANCE_MS * 60)
    gone = coordinator.join()
    for _ in range(31):
        coordinator.pass_time(SESSION_MS - 1)
        coordinator.beat(old.member_id, 1)
    assert gone.answer(JoinReply).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert list(coordinator.group().members) == [old.member_id]


def test_the_last_one_to_leave_makes_an_empty_generation() -> None:
    coordinator = Coordinator()
    (joined,) = coordinator.stable_group()
    assert coordinator.leave(LeavingMember(joined.member_id)) == [ErrorCode.NONE]
    group = coordinator.group()
    assert (group.state, group.generation_id, group.leader_id) == (State.EMPTY, 2, None)
    assert (group.protocol_type, group.protocol_name) == ("consumer", None)
    assert list(coordinator.deadlines) == [("retention", 0)]


def test_members_leave_one_by_one_each_with_its_own_error() -> None:
    coordinator = Coordinator()
    joined = coordinator.stable_group(3)
    leaving = [LeavingMember(joined[0].member_id), LeavingMember("nobody")]
    leaving += [LeavingMember(joined[2].member_id, "not-static")]
    assert coordinator.leave(*leaving) == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
    ]
    assert list(coordinator.group().members) == [joined[1].member_id, joined[2].member_id]
    assert coordinator.group().state is State.PREPARING_REBALANCE


def test_who_leaves_while_it_waits_is_told() -> None:
    coordinator = Coordinator()
    waiting = [coordinator.join(), coordinator.join()]
    first = next(iter(coordinator.group().members))
    coordinator.leave(LeavingMember(first))
    assert waiting[0].answer(JoinReply).error is ErrorCode.UNKNOWN_MEMBER_ID
    coordinator.pass_time(2 * DELAY_MS)
    alone = waiting[1].answer(JoinReply)
    assert alone.leader == alone.member_id
    # The same at the other barrier.
    third = coordinator.join()
    coordinator.join(alone.member_id)
    joined = third.answer(JoinReply)
    synced = coordinator.sync(joined)
    coordinator.leave(LeavingMember(joined.member_id))
    assert synced.answer(SyncReply).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_rebalance_goes_on_when_the_one_it_waited_for_leaves() -> None:
    coordinator = Coordinator()
    old = coordinator.stable_group(2)
    waiting = coordinator.join(old[0].member_id)
    assert not waiting.is_answered
    coordinator.leave(LeavingMember(old[1].member_id))
    assert [each.member_id for each in waiting.answer(JoinReply).members] == [old[0].member_id]


def test_a_leader_that_joins_again_asks_for_a_rebalance_a_follower_does_not() -> None:
    coordinator = Coordinator()
    leader, follower = coordinator.stable_group(2)
    same = coordinator.join(follower.member_id).answer(JoinReply)
    assert (same.generation_id, same.members) == (1, ())
    assert coordinator.group().state is State.STABLE
    assert not coordinator.join(leader.member_id).is_answered
    assert coordinator.group().state is State.PREPARING_REBALANCE


def test_changed_metadata_asks_for_a_rebalance() -> None:
    coordinator = Coordinator()
    _, follower = coordinator.stable_group(2)
    changed = (Protocol("range", subscription("t", "u")),)
    assert not coordinator.join(follower.member_id, protocols=changed).is_answered
    assert coordinator.group().state is State.PREPARING_REBALANCE


def test_who_joins_again_while_the_leader_assigns_gets_the_same_generation() -> None:
    coordinator = Coordinator()
    waiting = [coordinator.join(), coordinator.join()]
    coordinator.pass_time(2 * DELAY_MS)
    leader, follower = (each.answer(JoinReply) for each in waiting)
    assert coordinator.join(leader.member_id).answer(JoinReply) == leader
    assert coordinator.join(follower.member_id).answer(JoinReply) == follower
    synced = coordinator.sync(follower)
    changed = (Protocol("range", subscription("u")),)
    coordinator.join(leader.member_id, protocols=changed)
    assert synced.answer(SyncReply).error is ErrorCode.REBALANCE_IN_PROGRESS
    assert coordinator.group().state is State.PREPARING_REBALANCE


def test_a_repeated_request_takes_the_place_of_the_first() -> None:
    coordinator = Coordinator()
    old = coordinator.stable_group(2)
    first, second = coordinator.join(old[0].member_id), coordinator.join(old[0].member_id)
    assert first.answer(JoinReply).error is ErrorCode.REBALANCE_IN_PROGRESS
    again = coordinator.join(old[1].member_id).answer(JoinReply)
    assert second.answer(JoinReply).generation_id == 2
    first_sync, second_sync = coordinator.sync(again), coordinator.sync(again)
    assert first_sync.answer(SyncReply).error is ErrorCode.REBALANCE_IN_PROGRESS
    coordinator.sync(second.answer(JoinReply))
    assert second_sync.answer(SyncReply).error is ErrorCode.NONE


@pytest.mark.parametrize(
    ("offers", "chosen"),
    [
        (["ab", "ba", "bca", "ab", "bxa"], "b"),
        (["ab", "ab", "ba"], "a"),
        (["abc", "abc", "c"], "c"),
    ],
)
def test_the_protocol_with_most_votes_among_those_all_have_wins(
    offers: list[str], chosen: str
) -> None:
    coordinator = Coordinator()
    waiting = [
        coordinator.join(
            protocols=tuple(Protocol(name, f"{offer}{name}".encode()) for name in offer)
        )
        for offer in offers
    ]
    coordinator.pass_time(2 * DELAY_MS)
    leader = waiting[0].answer(JoinReply)
    assert leader.protocol_name == chosen
    expected = [f"{offer}{chosen}".encode() for offer in offers]
    assert [member.metadata for member in leader.members] == expected


def test_a_group_that_is_full_turns_away_who_comes_last() -> None:
    coordinator = Coordinator(group_max_size="2")
    old = coordinator.stable_group(2)
    full = coordinator.join().answer(JoinReply)
    assert full == JoinReply(ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    assert coordinator.group().state is State.STABLE
    coordinator.join(old[0].member_id)
    coordinator.join(old[1].member_id)
    assert coordinator.group().generation_id == 2


def test_a_group_loaded_larger_than_allowed_sheds_members() -> None:
    coordinator = Coordinator()
    old = coordinator.stable_group(3)
    coordinator.settings = Coordinator(group_max_size="2").settings
    coordinator.restart()
    assert coordinator.group().state is State.PREPARING_REBALANCE
    first = coordinator.join(old[0].member_id)
    second = coordinator.join(old[1].member_id)
    third = coordinator.join(old[2].member_id).answer(JoinReply)
    assert third.error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert first.answer(JoinReply).generation_id == second.answer(JoinReply).generation_id == 2


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("target", State)
def test_the_table_is_kept(state: State, target: State) -> None:
    group = ClassicGroup("g", 0)
    group.state = state
    group.history = ("what came before",)
    if target in TRANSITIONS[state]:
        group.move_to(target, "a test", 1)
        assert group.state is target
        assert group.history[-1] == f"1 {state.value} -> {target.value}, generation 0: a test"
    else:
        with pytest.raises(InvariantViolation, match="what came before"):
            group.move_to(target, "a test", 1)


def test_the_history_is_of_the_recent_past() -> None:
    coordinator = Coordinator()
    for _ in range(30):
        (joined,) = coordinator.stable_group()
        coordinator.leave(LeavingMember(joined.member_id))
    history = coordinator.group().history
    assert len(history) == 20
    assert history[-1].endswith("PreparingRebalance -> Empty, generation 60: 0 members have joined")


def test_a_decision_changes_nothing() -> None:
    coordinator = Coordinator()
    joined = coordinator.stable_group(2)
    before = coordinator.group()
    members = dict(before.members)
    coordinator.machine.decide(join_command(joined[0].member_id), None, coordinator.now)
    coordinator.machine.decide(join_command(instance="i"), None, coordinator.now)
    assert coordinator.group() is before
    assert (before.members, before.state) == (members, State.STABLE)
    assert before.protocol_name == RANGE[0].name


def test_an_assignment_too_large_changes_nothing_and_its_leader_goes_in_time() -> None:
    coordinator = Coordinator()
    waiting = coordinator.join()
    coordinator.pass_time(DELAY_MS)
    joined = waiting.answer(JoinReply)
    written = len(coordinator.log)
    sync = SyncGroup(
        GROUP,
        joined.member_id,
        None,
        joined.generation_id,
        joined.protocol_type,
        joined.protocol_name,
        {joined.member_id: bytes(1_000)},
        max_record_bytes=900,
    )
    assert coordinator.refusal(sync) == ErrorCode.UNKNOWN_SERVER_ERROR
    assert len(coordinator.log) == written
    assert coordinator.group().state is State.COMPLETING_REBALANCE
    coordinator.pass_time(SESSION_MS + REBALANCE_MS)
    assert coordinator.group().is_empty
