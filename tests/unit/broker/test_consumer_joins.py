"""Members that join at once are decided together, some in each turn of the event loop."""

import asyncio
import gc
from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest

from odradek.broker.consumer_joins import ConsumerJoins
from odradek.groups.consumer.commands import (
    ConsumerHeartbeat,
    ConsumerHeartbeatReply,
    JoinTogether,
)
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.statemachine.machine import Caller
from odradek.statemachine.runner import RunnerEnded


class Groups:
    """Answers every join, except that of "wrong", when it may."""

    def __init__(self) -> None:
        self.loads = False
        self.error: Exception | None = None
        self.decided: list[list[str]] = []

    def begin_together(
        self,
        key: str,
        commands: Sequence[ConsumerHeartbeat],
        together: Callable[[Sequence[tuple[ConsumerHeartbeat, Caller[Any]]]], JoinTogether],
    ) -> list[asyncio.Future[object]]:
        if self.error is not None:
            raise self.error
        if self.loads:
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        command = together([(each, Caller()) for each in commands])
        assert command.group_id == key
        self.decided.append([each.member_id for each, _ in command.joins])
        answers = []
        for each in commands:
            answer: asyncio.Future[object] = asyncio.get_running_loop().create_future()
            is_wrong = each.member_id == "wrong"
            answer.set_result(
                ApiError(ErrorCode.INVALID_REQUEST) if is_wrong else reply(each.member_id)
            )
            answers.append(answer)
        return answers


def reply(member_id: str) -> ConsumerHeartbeatReply:
    return ConsumerHeartbeatReply(member_id, 1)


def joins_at(groups: Groups) -> ConsumerJoins:
    return ConsumerJoins(cast("Any", groups))


async def test_joins_of_one_turn_are_decided_together_and_not_too_many_at_once() -> None:
    groups = Groups()
    joins = joins_at(groups)
    names = [f"m-{number}" for number in range(120)]
    answers = await asyncio.gather(
        *(joins.join(ConsumerHeartbeat("g", name, 0)) for name in names),
        joins.join(ConsumerHeartbeat("h", "alone", 0)),
    )
    assert answers == [reply(name) for name in (*names, "alone")]
    assert groups.decided[:2] == [names[:50], ["alone"]]
    assert groups.decided[2:] == [names[50:100], names[100:]]


async def test_the_refusal_of_one_is_not_that_of_the_others() -> None:
    joins = joins_at(Groups())
    answers = await asyncio.gather(
        *(joins.join(ConsumerHeartbeat("g", name, 0)) for name in ("one", "wrong", "two")),
        return_exceptions=True,
    )
    assert (answers[0], answers[2]) == (reply("one"), reply("two"))
    assert isinstance(answers[1], ApiError)


async def test_a_coordinator_that_is_not_there_refuses_all() -> None:
    groups = Groups()
    groups.loads = True
    joins = joins_at(groups)
    for _ in range(2):
        with pytest.raises(ApiError) as refused:
            await joins.join(ConsumerHeartbeat("g", "one", 0))
        assert refused.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    groups.loads = False
    assert await joins.join(ConsumerHeartbeat("g", "one", 0)) == reply("one")


async def test_an_unexpected_error_is_raised_to_everyone_who_joins() -> None:
    groups = Groups()
    groups.error = RunnerEnded("the machine is still being loaded")
    joins = joins_at(groups)
    async with asyncio.timeout(5):
        answers = await asyncio.gather(
            *(joins.join(ConsumerHeartbeat("g", f"m-{number}", 0)) for number in range(60)),
            return_exceptions=True,
        )
    assert answers == [groups.error] * 60
    groups.error = None
    assert await joins.join(ConsumerHeartbeat("g", "one", 0)) == reply("one")


async def test_a_refusal_that_comes_after_the_client_has_hung_up_is_nobodys_fault() -> None:
    """Without this the event loop logs an exception that was never retrieved."""
    asked: list[asyncio.Future[object]] = []

    class Later(Groups):
        def begin_together(self, *_: object) -> list[asyncio.Future[object]]:
            asked.append(asyncio.get_running_loop().create_future())
            return asked

    refusal = ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    unheard: list[object] = []
    asyncio.get_running_loop().set_exception_handler(
        lambda _, context: unheard.append(context.get("exception"))
    )
    join = asyncio.ensure_future(joins_at(Later()).join(ConsumerHeartbeat("g", "one", 0)))
    for _ in range(2):  # It asks, and what was asked together is decided.
        await asyncio.sleep(0)
    assert asked
    join.cancel()
    await asyncio.wait([join])
    asked[0].set_exception(refusal)
    await asyncio.sleep(0)
    asked.clear()
    gc.collect()
    assert refusal not in unheard
