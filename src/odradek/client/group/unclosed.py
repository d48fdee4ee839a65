"""The end of a consumer that was not closed: its event loop ends, and cancels all tasks.

Without this the group would wait for the consumer until its session times out, 45 seconds by
default, and the next consumer of the group would get no partitions meanwhile.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Protocol

from odradek.client.group.offsets import GroupMetadata

_log = logging.getLogger("odradek.client")


class _Membership(Protocol):
    async def run(self) -> None: ...

    def who(self) -> GroupMetadata: ...

    def leave(self, reason: str) -> Awaitable[None]: ...


async def run_until_cancelled(
    membership: _Membership, group_id: str, is_wanted: Callable[[], bool], timeout_s: float
) -> None:
    """Runs a membership. If it is cancelled although `is_wanted`, it leaves the group, within
    `timeout_s` and with a warning.

    Nothing is committed: nobody knows which of the last records were handled.
    """
    try:
        await membership.run()
    except asyncio.CancelledError:
        if is_wanted():
            if membership.who().generation_id >= 0:
                _log.warning(
                    "a consumer of group %s was not closed; it leaves the group and commits"
                    " nothing. Call close(), or use `with` (`async with` with asyncio)",
                    group_id,
                )
            try:
                async with asyncio.timeout(timeout_s):
                    await membership.leave("the consumer was not closed")
            except TimeoutError:
                _log.info("group %s: the member did not leave in time", group_id)
        raise
