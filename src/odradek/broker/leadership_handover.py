"""Controlled shutdown: a broker that stops lets other brokers lead before it closes connections."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from odradek.config import BrokerSettings
from odradek.metadata import MetadataCache, MetadataError
from odradek.protocol.types import BrokerId

logger = logging.getLogger("odradek.server")

# After this time the broker stops, even if it still leads partitions: an operator waits for it.
_MAX_HANDOVER_S: Final = 10.0


async def hand_over_leadership(
    settings: BrokerSettings,
    cache: MetadataCache,
    broker_id: BrokerId,
    fetching: Sequence[asyncio.Task[None]],
) -> None:
    """Moves leadership away, stops `fetching` as a follower, and leaves the ISRs. Does
    nothing if there are no other brokers, or if `controlled.shutdown.enable` is off."""
    if not settings.controlled_shutdown_enable or len(cache.image.brokers) < 2:
        return
    for retries_left in reversed(range(1 + settings.controlled_shutdown_max_retries)):
        try:
            async with asyncio.timeout(_MAX_HANDOVER_S):
                await _leave(cache, broker_id, fetching)
            return
        except TimeoutError:
            break
        except MetadataError as error:
            if retries_left:
                logger.warning("cannot hand over yet: %s; trying again", error)
                await asyncio.sleep(settings.controlled_shutdown_retry_backoff_ms / 1000)
    logger.warning("stopping without handing over: the metadata store did not answer in time")


async def _leave(
    cache: MetadataCache, broker_id: BrokerId, fetching: Sequence[asyncio.Task[None]]
) -> None:
    from odradek.cluster.controlled_shutdown import (  # noqa: PLC0415 - only in clusters
        hand_over,
        leave_isrs,
        warn_of_leaderless,
    )

    await hand_over(cache, broker_id)
    for task in fetching:
        task.cancel()
    await asyncio.wait(fetching)
    await leave_isrs(cache, broker_id)
    # Meanwhile another broker that is stopping too may have handed leadership to this one.
    await hand_over(cache, broker_id)
    warn_of_leaderless(cache, broker_id)
