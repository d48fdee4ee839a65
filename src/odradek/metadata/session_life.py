"""Until when a session is certainly alive, and until when a broker may act on what it has read.

Both times are of the broker's monotonic clock, and usually they are the same: an answer of the
store shows that the session is alive, and what changed before was notified before the answer came.

A connection that is opened again in the same session is different. The session is alive, but
nothing was notified while the connection was lost. Others may have deposed the broker meanwhile,
and a new leader waits no longer than for the session timeout. If the connection is lost again
before the broker has read what it missed, it would go on with an old image for another timeout. So
the answers of a new connection do not count for `informed_until_s` before `note_all_read`.
"""

from typing import Final

_NEVER_S: Final = float("-inf")


class SessionLife:
    """`ZookeeperStore` and `SocketStore` each have one. Invariant: `informed_until_s` is never
    later than `alive_until_s`."""

    __slots__ = ("_read_resumption", "alive_until_s", "informed_until_s", "resumptions")

    def __init__(self) -> None:
        self.alive_until_s = _NEVER_S
        self.informed_until_s = _NEVER_S
        # How often a connection was opened again in the session that it had before.
        self.resumptions = 0
        # The last resumption after which everything was read.
        self._read_resumption = 0

    def connect(self, *, is_resumed: bool) -> None:
        """A connection was opened, in the session of the last connection or in a new one. Of a new
        session nothing can be missed: its lease begins with a registration (`broker.lease`)."""
        if is_resumed:
            self.resumptions += 1
        else:
            self._read_resumption = self.resumptions

    def prolong(self, until_s: float) -> None:
        """The store was heard of: the session is alive until `until_s`."""
        self.alive_until_s = max(self.alive_until_s, until_s)
        if self._read_resumption == self.resumptions:
            self.informed_until_s = self.alive_until_s

    def note_all_read(self, resumption: int) -> None:
        """Everything was read. `resumption` is what `resumptions` was when the reading began: after
        another one it is not known what was read before it, and what afterwards."""
        if resumption == self.resumptions:
            self._read_resumption = resumption
            self.informed_until_s = self.alive_until_s

    def end(self) -> None:
        """The session has expired."""
        self.alive_until_s = self.informed_until_s = _NEVER_S
