"""How fast a broker takes new connections (`max.connection.creation.rate`).

To accept a connection and to authenticate a client costs more than to serve a small request, and
many clients that connect at once must not delay those that are connected already. Kafka stops
accepting. Here a connection beyond the rate is accepted, but nothing is read from it until it is
due: it costs a file descriptor and a few kilobytes, and counts for `max.connections`.
"""

from typing import Final

from odradek.config.setting import MAX_INT

# The connections of this much time may arrive at once.
_BURST_S: Final = 1.0


class ConnectionRate:
    """A schedule on which connections follow each other in steps of 1/rate seconds.

    Invariant: in any interval of t seconds no more than rate * (t + 1) connections are due.
    """

    __slots__ = ("_next_due_s", "per_second")

    def __init__(self, per_second: int) -> None:
        self.per_second = per_second
        # When the next connection would be due if all of them arrived evenly.
        self._next_due_s = float("-inf")

    def delay_s(self, now_s: float) -> float:
        """Takes the next place in the schedule; returns in how many seconds it is due.

        A rate of 0 means that no connection is ever served, as in Kafka.
        """
        if self.per_second >= MAX_INT:
            return 0.0
        if not self.per_second:
            return float("inf")
        step_s = 1 / self.per_second
        due_s = max(self._next_due_s, now_s - _BURST_S + step_s)
        self._next_due_s = due_s + step_s
        return max(due_s - now_s, 0.0)
