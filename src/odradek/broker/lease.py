"""The lease under which this broker leads, and what happens when it is lost.

The session with the metadata store under which the broker registered last is the lease. Once that
session may have expired by this broker's own clock, others may lead, and every answer from memory
is refused (`Replicas.is_leased`). A new session does not renew the lease: the roles that the broker
remembers belong to the session that expired. The lease is valid again when the broker has
registered under the new session, with an image that was read after the session began. A new
connection in the same session renews the lease once the broker has read what it missed meanwhile
(`metadata.session_life`).

Requests that were accepted before and wait (for replicas, for a rebalance) would not notice: a
client that produces with acks=all would wait for its request timeout, 30 seconds, at a broker from
which no follower fetches any more. `watch_lease` answers them with an error.
"""

import asyncio
import logging
from typing import Final

from odradek.broker.coordinators import Coordinators
from odradek.cluster.membership import Membership
from odradek.metadata.store import MetadataStore
from odradek.replication.replicas import Replicas

logger = logging.getLogger("odradek.server")

# A session is checked at intervals of this part of its timeout, within these limits.
_PART_OF_SESSION: Final = 0.05
_MIN_PAUSE_S: Final = 0.05
_MAX_PAUSE_S: Final = 0.5


class SessionLease:
    """Valid as long as the session under which this broker registered last cannot have expired."""

    __slots__ = ("_membership", "_store")

    def __init__(self, store: MetadataStore, membership: Membership) -> None:
        self._store = store
        self._membership = membership

    def is_valid(self, now_s: float) -> bool:
        """Returns False before the first registration too: a broker that is not registered leads
        nothing."""
        store = self._store
        return store.session_id == self._membership.session_id and not store.may_be_outdated()

    @property
    def max_s(self) -> float:
        return self._store.session_timeout_s


async def watch_lease(
    replicas: Replicas, coordinators: Coordinators, membership: Membership, session_s: float
) -> None:
    """Answers the requests that wait with an error when the lease is lost, until cancelled. Later
    requests do not wait: without a lease each of them gets an error at once."""
    pause_s = min(max(session_s * _PART_OF_SESSION, _MIN_PAUSE_S), _MAX_PAUSE_S)
    was_leased = True
    lost_session = 0
    while True:
        await asyncio.sleep(pause_s)
        if replicas.lease is None:
            return  # The store is in this process: no other broker can lead.
        is_leased = replicas.is_leased
        if was_leased and not is_leased:
            logger.warning(
                "the session with the metadata store may have expired: others may lead by now, and"
                " clients are sent to them"
            )
            lost_session = membership.session_id
            coordinators.fail_waiters()
            await replicas.fail_waiters()
        elif is_leased and not was_leased:
            if membership.session_id == lost_session:
                logger.info("the session with the metadata store has not expired after all")
            else:
                logger.info("this broker has a new session with the metadata store and may lead")
            coordinators.wake()
        was_leased = is_leased
