"""The transition table of a member, row by row."""

import pytest

from odradek.groups.consumer.group import ConsumerGroup
from odradek.groups.consumer.member import (
    ConsumerMember,
    MemberState,
    TopicIdPartition,
)
from odradek.groups.consumer.reconciliation import reconcile
from odradek.invariants import InvariantViolation
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.types import TopicId

P0, P1, P2 = (TopicIdPartition(TopicId(b"t" * 16), number) for number in range(3))

STABLE = MemberState.STABLE
UNREVOKED = MemberState.UNREVOKED_PARTITIONS
UNRELEASED = MemberState.UNRELEASED_PARTITIONS


def member(
    state: MemberState = STABLE,
    *assigned: TopicIdPartition,
    to_revoke: tuple[TopicIdPartition, ...] = (),
    epoch: int = 3,
) -> ConsumerMember:
    return ConsumerMember(
        "m",
        epoch=epoch,
        previous_epoch=epoch - 1,
        state=state,
        assigned=dict.fromkeys(assigned, 1),
        to_revoke=dict.fromkeys(to_revoke, 1),
    )


def step(
    before: ConsumerMember,
    target: set[TopicIdPartition],
    *,
    epoch: int = 4,
    owned: set[TopicIdPartition] | None = None,
    taken: set[TopicIdPartition] | None = None,
    may_lag: bool = False,
) -> ConsumerMember:
    owners = dict.fromkeys((*before.assigned, *before.to_revoke), "m")
    owners |= dict.fromkeys(taken or (), "another")
    after = reconcile(before, epoch, target, owners, owned, may_lag=may_lag)
    if after != before:
        group = ConsumerGroup("g")
        group.assignment_epoch = epoch
        group.owners.update(owners)
        group.check_step(before, after)
    return after


def test_stable_without_a_newer_target_stays() -> None:
    before = member(STABLE, P0)
    assert step(before, {P0, P1}, epoch=3) is before


def test_stable_gives_up_before_it_goes_on() -> None:
    after = step(member(STABLE, P0, P1), {P0, P2}, owned={P0, P1})
    assert (after.state, after.epoch) == (UNREVOKED, 3)
    assert (after.assigned, after.to_revoke) == ({P0: 1}, {P1: 1})


def test_without_a_report_it_may_own_everything() -> None:
    assert step(member(STABLE, P0), set(), owned=None).state is UNREVOKED


def test_what_it_never_took_up_is_not_waited_for() -> None:
    after = step(member(STABLE, P0, P1), {P0}, owned={P0})
    assert (after.state, after.epoch, after.assigned) == (STABLE, 4, {P0: 1})


def test_who_reports_nothing_may_be_about_to_take_it_up_and_is_told_first() -> None:
    told = step(member(STABLE, P0, P1), {P0}, owned=set(), may_lag=True)
    assert (told.state, told.epoch) == (UNREVOKED, 3)
    assert (told.assigned, told.to_revoke) == ({P0: 1}, {P1: 1})
    after = step(told, {P0}, owned={P0}, may_lag=True)
    assert (after.state, after.epoch, after.assigned) == (STABLE, 4, {P0: 1})


def test_who_reports_nothing_and_is_left_nothing_would_not_report_again() -> None:
    after = step(member(STABLE, P0), set(), owned=set(), may_lag=True)
    assert (after.state, after.epoch, after.assigned) == (STABLE, 4, {})


def test_stable_is_given_what_is_free_in_the_epoch_of_the_target() -> None:
    after = step(member(STABLE, P0), {P0, P1})
    assert (after.state, after.epoch, after.previous_epoch) == (STABLE, 4, 3)
    assert after.assigned == {P0: 1, P1: 4}


def test_stable_waits_for_what_is_not_free() -> None:
    after = step(member(STABLE, P0), {P0, P1, P2}, taken={P2})
    assert (after.state, after.epoch, after.assigned) == (UNRELEASED, 4, {P0: 1, P1: 4})


def test_unrevoked_stays_while_it_owns() -> None:
    before = member(UNREVOKED, P0, to_revoke=(P1,))
    assert step(before, {P0}, owned={P0, P1}) is before
    assert step(before, {P0}, owned=None) is before


def test_unrevoked_goes_on_once_it_gave_up() -> None:
    before = member(UNREVOKED, P0, to_revoke=(P1,))
    after = step(before, {P0, P2}, owned={P0})
    assert (after.state, after.epoch) == (STABLE, 4)
    assert (after.assigned, after.to_revoke) == ({P0: 1, P2: 4}, {})
    assert step(before, {P0, P2}, owned={P0}, taken={P2}).state is UNRELEASED


def test_unrevoked_gives_up_more_if_the_target_moved_on() -> None:
    before = member(UNREVOKED, P0, to_revoke=(P1,))
    after = step(before, set(), owned={P0}, epoch=6)
    assert (after.state, after.epoch, after.to_revoke) == (UNREVOKED, 3, {P0: 1})


def test_what_it_gave_up_may_come_back() -> None:
    after = step(member(UNREVOKED, P0, to_revoke=(P1,)), {P0, P1}, owned={P0}, epoch=6)
    assert (after.state, after.assigned) == (STABLE, {P0: 1, P1: 6})


def test_unreleased_gets_the_rest_when_it_is_free() -> None:
    before = member(UNRELEASED, P0, epoch=4)
    assert step(before, {P0, P1}, taken={P1}) == before
    after = step(before, {P0, P1})
    assert (after.state, after.epoch, after.previous_epoch) == (STABLE, 4, 3)
    assert after.assigned == {P0: 1, P1: 4}


def test_unknown_has_to_come_back_with_nothing() -> None:
    before = member(MemberState.UNKNOWN, P0)
    with pytest.raises(ApiError) as refused:
        step(before, {P0}, owned={P0})
    assert refused.value.code is ErrorCode.FENCED_MEMBER_EPOCH
    assert step(before, {P0, P1}, owned=set()).state is STABLE


@pytest.mark.parametrize(
    ("after", "why"),
    [
        (member(STABLE, P0, to_revoke=(P1,)), "do not fit its state"),
        (member(UNREVOKED, P0), "do not fit its state"),
        (member(STABLE, P0, epoch=9), "the target is of epoch 4"),
        (member(STABLE, P0, epoch=2), "fell from 3"),
        (member(STABLE, P2), "another owns"),
    ],
)
def test_a_step_that_breaks_the_rules_is_a_violation(after: ConsumerMember, why: str) -> None:
    group = ConsumerGroup("g")
    group.epoch = group.assignment_epoch = 4
    group.owners[P2] = "another"
    group.history.append("once upon a time")
    with pytest.raises(InvariantViolation, match=f"(?s){why}.*once upon a time"):
        group.check_step(member(), after)
