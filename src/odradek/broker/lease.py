"""The lease under which this broker leads, and what happens when it is lost.

The session with the metadata store under which the broker registered last is the lease. Once that
session may have expired by this broker's own clock, others may lead, and every answer from memory
is refused (`Replicas.is_leased`). A new session does not renew the lease: the roles that the broker
remembers belong to the session that expired. The lease is valid again when the broker has
registered under the new session, with an image that was read after the session began. Requests
that were taken before and wait (for replicas, for a rebalance) would not notice: a client that
asked for acks=all waits for its request timeout, 30 seconds, at a broker that nobody follows any
more. `watch_lease` sends them away.
"""

import asyncio
import logging
from typing import Final

from odradek.broker.coordinators import Coordinators
from odradek.cluster.membership import Membership
from odradek.metadata.store import MetadataStore
from odradek.replication.replicas import Replicas

logger = logging.getLogger("odradek.server")

# How often a session is looked at: this part of its timeout, but not more often or seldom than so.
_PART_OF_SESSION: Final = 0.05
_SHORTEST_PAUSE_S: Final = 0.05
_MAX_PAUSE_S: Final = 0.5


class SessionLease:
    """Valid as long as the session under which this broker registered last certainly lives."""

    __slots__ = ("_membership", "_store")

    def __init__(self, store: MetadataStore, membership: Membership) -> None:
        self._store = store
        self._membership = membership

    def is_valid(self, now_s: float) -> bool:
        """False before the first registration, too: a broker that is not registered leads
        nothing."""
        store = self._store
        return store.session_id == self._membership.session_id and not store.may_have_expired()


async def watch_lease(
    replicas: Replicas, coordinators: Coordinators, membership: Membership, session_s: float
) -> None:
    """Sends everyone away who waits when the lease is lost, until cancelled.

    Nobody begins to wait after that: without a lease every request is refused at once.
    """
    pause_s = min(max(session_s * _PART_OF_SESSION, _SHORTEST_PAUSE_S), _MAX_PAUSE_S)
    was_leased = True
    lost_session = 0
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
            lost_session = membership.session_id
            coordinators.send_away()
            await replicas.send_away()
        elif is_leased and not was_leased:
            if membership.session_id == lost_session:
                logger.info("the session with the metadata store has not expired after all")
            else:
                logger.info("this broker has a new session with the metadata store and may lead")
            coordinators.wake()
        was_leased = is_leased
