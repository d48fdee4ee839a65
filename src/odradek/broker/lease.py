"""The lease under which this broker leads, and what happens when it is lost.

The session with the metadata store is the lease. Once it may have expired by this broker's own
clock, others may lead, and every answer from memory is refused (`Replicas.is_leased`). Requests
that were taken before and wait (for replicas, for a rebalance) would not notice: a client that
asked for acks=all waits for its request timeout, 30 seconds, at a broker that nobody follows any
more. `watch_lease` sends them away.
"""

import asyncio
import logging
from typing import Final

from odradek.broker.coordinators import Coordinators
from odradek.metadata.store import MetadataStore
from odradek.replication.replicas import Replicas

logger = logging.getLogger("odradek.server")

# How often a session is looked at: this part of its timeout, but not more often or seldom than so.
_PART_OF_SESSION: Final = 0.05
_SHORTEST_PAUSE_S: Final = 0.05
_LONGEST_PAUSE_S: Final = 0.5


class SessionLease:
    """Valid as long as the session with the store certainly lives."""

    __slots__ = ("_store",)

    def __init__(self, store: MetadataStore) -> None:
        self._store = store

    def is_valid(self, now_s: float) -> bool:
        return not self._store.may_have_expired()


async def watch_lease(replicas: Replicas, coordinators: Coordinators, session_s: float) -> None:
    """Sends everyone away who waits when the lease is lost, until cancelled.

    Nobody begins to wait after that: without a lease every request is refused at once.
    """
    pause_s = min(max(session_s * _PART_OF_SESSION, _SHORTEST_PAUSE_S), _LONGEST_PAUSE_S)
    was_leased = True
    while True:
        await asyncio.sleep(pause_s)
        if replicas.lease is None:
            return  # A lone broker with a store in its own process: nobody else can lead.
        is_leased = replicas.is_leased
        if was_leased and not is_leased:
            logger.warning(
                "the session with the metadata store may have expired: others may lead by now, and"
                " clients are sent to them"
            )
            coordinators.send_away()
            await replicas.send_away()
        elif is_leased and not was_leased:
            logger.info("the session with the metadata store has not expired after all")
            coordinators.wake()
        was_leased = is_leased
