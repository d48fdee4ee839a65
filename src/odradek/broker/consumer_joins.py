"""Decides about members that join a consumer group at the same time together.

When hundreds of consumers start, their first heartbeats arrive within a few turns of the event
loop. An assignment over thousands of partitions takes milliseconds, and each member that joins
changes it. So a join is held until every request that has arrived has been read. The joins of a
group are then decided together, `_MAX_TOGETHER` in each turn of the loop. A join that comes alone
waits for one turn of the loop, some microseconds.
"""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from odradek.broker.coordinators import GroupCoordinators
from odradek.protocol.api_error import ApiError
from odradek.statemachine.machine import Caller

if TYPE_CHECKING:
    # `broker.coordinators` says why it is not imported when the broker starts.
    from odradek.groups.consumer.commands import (
        ConsumerHeartbeat,
        ConsumerHeartbeatReply,
        JoinResult,
    )

# More joins are decided in several turns of the loop, so that other requests are answered between.
_MAX_TOGETHER: Final = 50


class _HeldJoin(NamedTuple):
    command: "ConsumerHeartbeat"
    result: "asyncio.Future[JoinResult]"


class ConsumerJoins:
    """The first heartbeats of members that wait to be decided together.

    Invariant: for every group with held joins a call of `_decide` is scheduled."""

    __slots__ = ("_groups", "_held")

    def __init__(self, groups: GroupCoordinators) -> None:
        self._groups = groups
        self._held: dict[str, list[_HeldJoin]] = {}

    async def join(self, command: "ConsumerHeartbeat") -> "ConsumerHeartbeatReply":
        """Returns the reply to a member's first heartbeat, as `CoordinatorPartitions.ask` would."""
        loop = asyncio.get_running_loop()
        join = _HeldJoin(command, loop.create_future())
        held = self._held.setdefault(command.group_id, [])
        held.append(join)
        if len(held) == 1:
            loop.call_soon(self._decide, command.group_id)
        result = await join.result
        if isinstance(result, ApiError):
            raise result
        return result

    def _decide(self, group_id: str) -> None:
        held = self._held[group_id]
        joins, rest = held[:_MAX_TOGETHER], held[_MAX_TOGETHER:]
        if rest:
            self._held[group_id] = rest
            asyncio.get_running_loop().call_soon(self._decide, group_id)
        else:
            del self._held[group_id]

        from odradek.groups.consumer.commands import JoinTogether  # noqa: PLC0415 - see above

        def together(
            commands: "Sequence[tuple[ConsumerHeartbeat, Caller[JoinResult]]]",
        ) -> JoinTogether:
            return JoinTogether(group_id, commands)

        try:
            results = self._groups.begin_together(
                group_id, [join.command for join in joins], together
            )
        except Exception as error:  # noqa: BLE001 - whatever it is, each of the joins raises it
            for join in joins:
                if not join.result.done():
                    join.result.set_exception(error)
            return
        for join, result in zip(joins, results, strict=True):
            result.add_done_callback(partial(_copy_result, join.result))


def _copy_result(result: "asyncio.Future[JoinResult]", done: "asyncio.Future[JoinResult]") -> None:
    error = None if done.cancelled() else done.exception()
    if result.done():
        return  # The client has disconnected, so the error was fetched above and is dropped.
    if done.cancelled():
        result.cancel()
    elif error is not None:
        result.set_exception(error)
    else:
        result.set_result(done.result())
