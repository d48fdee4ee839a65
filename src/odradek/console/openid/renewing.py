"""Replaces the token of a provider before it ends, while the user goes on looking."""

import asyncio
from typing import Final

from odradek.console.clusters import Cluster
from odradek.console.sessions import LogIn, Session
from odradek.services.identity import Caller, Kind

_AHEAD_S: Final = 30.0


async def renewed_log_in(cluster: Cluster, session: Session, log_in: LogIn) -> LogIn:
    """Returns the log-in, with a newer token if the one that the brokers are shown ends soon.
    Raises `LogInFailed` if the provider gives no more."""
    if not _is_due(log_in) or cluster.provider is None:
        return log_in
    async with session.renewing:
        # Another request of this browser may have done it meanwhile.
        current = session.log_ins.get(cluster.name, log_in)
        if not _is_due(current) or current.granted is None:
            return current
        granted = await cluster.provider.renew(current.granted)
        caller = Caller(Kind.TOKEN, current.caller.name, granted.token)
        session.log_ins[cluster.name] = LogIn(caller, current.name, granted)
        cluster.watchers.move(current.caller, caller)
        return session.log_ins[cluster.name]


def _is_due(log_in: LogIn) -> bool:
    """Returns whether the token of a provider is to be replaced. A delegation token, for which it
    was exchanged, outlives it."""
    granted = log_in.granted
    if granted is None or log_in.caller.kind is not Kind.TOKEN or not granted.refresh_token:
        return False
    return asyncio.get_running_loop().time() > granted.expires_s - _AHEAD_S
