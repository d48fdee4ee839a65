"""Who is refused, and with what: the order of the checks is Kafka's."""

import pytest

from odradek.groups.classic_group import State
from odradek.groups.commands import (
    CommitOffsets,
    Heartbeat,
    JoinReply,
    LeaveGroup,
    LeavingMember,
    OffsetToCommit,
    Protocol,
    SyncGroup,
)
from odradek.protocol.errors import ErrorCode
from odradek.protocol.types import ProducerEpoch, ProducerId
from odradek.statemachine.machine import ProducerIdentity
from tests.unit.groups.driver import GROUP, SESSION_MS, T0, Coordinator, join_command


def sync_command(
    member_id: str,
    generation_id: int,
    *,
    instance: str | None = None,
    protocol_type: str | None = None,
    protocol_name: str | None = None,
) -> SyncGroup:
    return SyncGroup(GROUP, member_id, instance, generation_id, protocol_type, protocol_name, {})


def commit_command(
    member_id: str = "",
    generation_id: int = -1,
    *,
    instance: str | None = None,
    producer: ProducerIdentity | None = None,
    knows_missing_groups: bool = True,
) -> CommitOffsets:
    return CommitOffsets(
        GROUP,
        member_id,
        instance,
        generation_id,
        (OffsetToCommit(T0, 1),),
        knows_missing_groups=knows_missing_groups,
        producer=producer,
    )


def test_without_a_group_id_nothing_is_possible() -> None:
    coordinator = Coordinator()
    for command in (
        join_command(group_id=""),
        SyncGroup("", "m", None, 1, None, None, {}),
        Heartbeat("", "m", None, 1),
        LeaveGroup("", ()),
    ):
        assert coordinator.refusal(command) is ErrorCode.INVALID_GROUP_ID


@pytest.mark.parametrize("session_ms", [5_999, 1_800_001, 0, -1])
def test_a_session_timeout_out_of_bounds(session_ms: int) -> None:
    command = join_command(session_ms=session_ms)
    assert Coordinator().refusal(command) is ErrorCode.INVALID_SESSION_TIMEOUT


def test_a_group_that_does_not_exist() -> None:
    coordinator = Coordinator()
    unknown = ErrorCode.UNKNOWN_MEMBER_ID
    assert coordinator.refusal(join_command("m")) is unknown
    assert coordinator.refusal(sync_command("m", 1)) is unknown
    assert coordinator.refusal(Heartbeat(GROUP, "m", None, 1)) is unknown
    assert coordinator.leave(LeavingMember("m"), LeavingMember("n")) == [unknown, unknown]
    assert not coordinator.machine.groups


def test_a_new_member_is_given_its_id_first() -> None:
    coordinator = Coordinator()
    named = coordinator.join(requires_member_id=True).answer(JoinReply)
    assert named.error is ErrorCode.MEMBER_ID_REQUIRED
    assert named.member_id == "client-1"
    assert coordinator.group().state is State.EMPTY
    waiting = coordinator.join(named.member_id, requires_member_id=True)
    coordinator.pass_time(3_000)
    assert waiting.answer(JoinReply).member_id == named.member_id


def test_an_id_that_is_not_used_is_forgotten() -> None:
    coordinator = Coordinator()
    named = coordinator.join(requires_member_id=True).answer(JoinReply)
    coordinator.pass_time(SESSION_MS)
    assert not coordinator.group().pending_joins
    assert coordinator.refusal(join_command(named.member_id)) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_rebalance_waits_for_whoever_was_given_an_id() -> None:
    coordinator = Coordinator()
    (old,) = coordinator.stable_group()
    named = coordinator.join(requires_member_id=True).answer(JoinReply)
    assert coordinator.group().state is State.STABLE
    again = coordinator.join(old.member_id)
    assert not again.is_answered
    coordinator.leave(LeavingMember(named.member_id))
    assert again.answer(JoinReply).generation_id == 2


def test_a_rebalance_goes_on_when_an_id_expires() -> None:
    coordinator = Coordinator()
    (old,) = coordinator.stable_group()
    coordinator.join(requires_member_id=True)
    again = coordinator.join(old.member_id)
    coordinator.pass_time(SESSION_MS)
    assert again.answer(JoinReply).generation_id == 2


def test_who_was_only_given_an_id_leaves_without_a_rebalance() -> None:
    coordinator = Coordinator()
    coordinator.stable_group()
    named = coordinator.join(requires_member_id=True).answer(JoinReply)
    assert coordinator.leave(LeavingMember(named.member_id)) == [ErrorCode.NONE]
    assert coordinator.group().state is State.STABLE


def test_a_generation_that_is_over() -> None:
    coordinator = Coordinator()
    (joined,) = coordinator.stable_group()
    old = ErrorCode.ILLEGAL_GENERATION
    for generation_id in (0, 2, -1):
        assert coordinator.refusal(sync_command(joined.member_id, generation_id)) is old
        beat = Heartbeat(GROUP, joined.member_id, None, generation_id)
        assert coordinator.refusal(beat) is old
        assert coordinator.refusal(commit_command(joined.member_id, generation_id)) is old


def test_somebody_who_is_not_a_member() -> None:
    coordinator = Coordinator()
    coordinator.stable_group()
    unknown = ErrorCode.UNKNOWN_MEMBER_ID
    for command in (
        join_command("stranger"),
        sync_command("stranger", 1),
        Heartbeat(GROUP, "stranger", None, 1),
        commit_command("stranger", 1),
        commit_command(),
    ):
        assert coordinator.refusal(command) is unknown


def test_another_protocol() -> None:
    coordinator = Coordinator()
    (joined,) = coordinator.stable_group()
    inconsistent = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    other = (Protocol("other", b""),)
    for command in (
        join_command(protocols=other),
        join_command(protocols=()),
        join_command(protocol_type="connect"),
        join_command(joined.member_id, protocol_type="connect"),
        sync_command(joined.member_id, 1, protocol_type="connect"),
        sync_command(joined.member_id, 1, protocol_name="other"),
    ):
        assert coordinator.refusal(command) is inconsistent
    assert coordinator.refusal(join_command(group_id="new", protocols=())) is inconsistent
    assert coordinator.refusal(join_command(group_id="new", protocol_type="")) is inconsistent
    assert "new" not in coordinator.machine.groups


def test_during_a_rebalance() -> None:
    coordinator = Coordinator()
    old = coordinator.stable_group(2)
    waiting = coordinator.join()
    rebalancing = ErrorCode.REBALANCE_IN_PROGRESS
    assert coordinator.refusal(sync_command(old[0].member_id, 1)) is rebalancing
    # Members may commit what they have read before they join again.
    coordinator.commit(5, member_id=old[0].member_id, generation_id=1)
    for each in old:
        coordinator.join(each.member_id)
    joined = waiting.answer(JoinReply)
    assert coordinator.beat(joined.member_id, 2) is ErrorCode.NONE
    assert coordinator.refusal(commit_command(joined.member_id, 2)) is rebalancing
    assert coordinator.refusal(commit_command(joined.member_id, 1)) is ErrorCode.ILLEGAL_GENERATION


def test_a_commit_of_a_member_is_a_sign_of_life() -> None:
    coordinator = Coordinator()
    (joined,) = coordinator.stable_group()
    for _ in range(5):
        coordinator.pass_time(SESSION_MS - 1)
        coordinator.commit(1, member_id=joined.member_id, generation_id=1)
    assert coordinator.beat(joined.member_id, 1) is ErrorCode.NONE


def test_commits_to_a_group_that_does_not_exist() -> None:
    coordinator = Coordinator()
    assert coordinator.refusal(commit_command("m", 1)) is ErrorCode.GROUP_ID_NOT_FOUND
    old = commit_command("m", 1, knows_missing_groups=False)
    assert coordinator.refusal(old) is ErrorCode.ILLEGAL_GENERATION
    in_transaction = commit_command(
        "m", 1, producer=ProducerIdentity(ProducerId(1), ProducerEpoch(0))
    )
    assert coordinator.refusal(in_transaction) is ErrorCode.ILLEGAL_GENERATION
    coordinator.ask(commit_command())
    assert coordinator.group().state is State.EMPTY


def test_commits_to_an_empty_group() -> None:
    coordinator = Coordinator()
    (joined,) = coordinator.stable_group()
    coordinator.leave(LeavingMember(joined.member_id))
    # An administrator resets offsets; a member of old is refused.
    assert coordinator.commit(7) == [ErrorCode.NONE]
    assert coordinator.commit(8, member_id="any") == [ErrorCode.NONE]
    late = commit_command(joined.member_id, 1)
    assert coordinator.refusal(late) is ErrorCode.UNKNOWN_MEMBER_ID


def test_commits_in_a_transaction() -> None:
    coordinator = Coordinator()
    (joined,) = coordinator.stable_group()
    producer = ProducerIdentity(ProducerId(1), ProducerEpoch(0))
    # Older producers do not say who consumes; newer ones are held to it.
    coordinator.ask(commit_command(producer=producer))
    coordinator.ask(commit_command(joined.member_id, 1, producer=producer))
    stale = commit_command(joined.member_id, 0, producer=producer)
    assert coordinator.refusal(stale) is ErrorCode.ILLEGAL_GENERATION
    stranger = commit_command("m", 1, producer=producer)
    assert coordinator.refusal(stranger) is ErrorCode.UNKNOWN_MEMBER_ID
    fenced = commit_command(joined.member_id, 1, instance="i", producer=producer)
    assert coordinator.refusal(fenced) is ErrorCode.UNKNOWN_MEMBER_ID
    nameless = CommitOffsets("", "", None, -1, (OffsetToCommit(T0, 1),), producer=producer)
    assert coordinator.refusal(nameless) is ErrorCode.INVALID_GROUP_ID
