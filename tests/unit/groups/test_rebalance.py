"""Rebalances of classic groups: the two barriers, their deadlines, and who goes on."""

from odradek.groups.classic import State
from odradek.groups.commands import JoinReply, SyncReply
from odradek.protocol.errors import ErrorCode
from tests.unit.groups.driver import Coordinator

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
