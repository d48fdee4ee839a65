"""Members that join a consumer group at the same time share one assignment.

When hundreds of consumers start, their first heartbeats arrive within a few turns of the event
loop. An assignment over thousands of partitions takes milliseconds, and each member that joins
changes it. So a join is held until every request that has arrived has been read; those of one
group are then decided together, some in each turn of the loop. A join that comes alone waits for
one turn, some microseconds.
"""

import asyncio
from functools import partial
from typing import Final, NamedTuple

from odradek.broker.coordinators import GroupCoordinators
from odradek.groups.consumer.commands import ConsumerHeartbeat, JoinTogether
from odradek.protocol.api_error import ApiError

# More than these are decided in several turns, so that others are answered in between.
_MAX_TOGETHER: Final = 50


class _Join(NamedTuple):
    command: ConsumerHeartbeat
    answer: asyncio.Future[object]


class ConsumerJoins:
    """Invariant: a group with joins that are held has a call of `_decide` scheduled."""

    __slots__ = ("_groups", "_held")

    def __init__(self, groups: GroupCoordinators) -> None:
        self._groups = groups
        self._held: dict[str, list[_Join]] = {}

    async def join(self, command: ConsumerHeartbeat) -> object:
        """The reply to a member's first heartbeat, as `StatePartitions.ask` would give it."""
        loop = asyncio.get_running_loop()
        join = _Join(command, loop.create_future())
        held = self._held.setdefault(command.group_id, [])
        held.append(join)
        if len(held) == 1:
            loop.call_soon(self._decide, command.group_id)
        answer = await join.answer
        if isinstance(answer, ApiError):
            raise answer
        return answer

    def _decide(self, group_id: str) -> None:
        held = self._held[group_id]
        joins, rest = held[:_MAX_TOGETHER], held[_MAX_TOGETHER:]
        if rest:
            self._held[group_id] = rest
            asyncio.get_running_loop().call_soon(self._decide, group_id)
        else:
            del self._held[group_id]
        try:
            answers = self._groups.begin_together(
                group_id,
                [join.command for join in joins],
                lambda pairs: JoinTogether(group_id, pairs),
            )
        except Exception as error:  # noqa: BLE001 - whatever it is, each of them raises it
            for join in joins:
                if not join.answer.done():
                    join.answer.set_exception(error)
            return
        for join, answer in zip(joins, answers, strict=True):
            answer.add_done_callback(partial(_pass_on, join.answer))


def _pass_on(answer: asyncio.Future[object], done: asyncio.Future[object]) -> None:
    error = None if done.cancelled() else done.exception()
    if answer.done():
        return  # The client has hung up; a refusal that nobody hears is no fault.
    if done.cancelled():
        answer.cancel()
    elif error is not None:
        answer.set_exception(error)
    else:
        answer.set_result(done.result())
