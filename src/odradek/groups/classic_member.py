"""A member of a classic group."""

from typing import NamedTuple

from odradek.groups.commands import JoinReply, Protocol, SyncReply
from odradek.statemachine.machine import Caller


class ClassicMember(NamedTuple):
    """A value that is never changed: a draft of the group holds another one after each change."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: tuple[Protocol, ...]
    assignment: bytes = b""
    # Whether its first JoinGroup is not answered yet: it has no id to send heartbeats with.
    is_new: bool = False
    # The callers of its JoinGroup and its SyncGroup, while they wait.
    awaiting_join: Caller[JoinReply] | None = None
    awaiting_sync: Caller[SyncReply] | None = None

    @property
    def is_waiting(self) -> bool:
        """Whether its session does not expire because it waits for a reply. A new member's session
        does expire: otherwise it would stay for ever if its client is gone."""
        waits = self.awaiting_join is not None or self.awaiting_sync is not None
        return waits and not self.is_new

    def metadata(self, protocol_name: str | None) -> bytes:
        """Returns its metadata for a protocol, or b"" if it does not support the protocol."""
        return next(
            (protocol.metadata for protocol in self.protocols if protocol.name == protocol_name),
            b"",
        )
