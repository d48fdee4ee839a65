"""Limits how fast replicas outside the in-sync set catch up, where an operator asks for it.

A move of partitions copies whole logs, as fast as the machines can. With a rate
(`leader.replication.throttled.rate`, `follower.replication.throttled.rate`) and a list of replicas
(`*.replication.throttled.replicas`) it leaves room for clients. Replicas in sync are never held
back: records would wait for them.
"""

from collections.abc import Sequence

_ALL = ("*",)


class Throttle:
    """Paces bytes: whoever took some waits until they are paid for at the rate of that time."""

    __slots__ = ("_paid_s",)

    def __init__(self) -> None:
        self._paid_s = 0.0

    def spend(self, size_bytes: int, rate: int, now_s: float) -> None:
        self._paid_s = max(self._paid_s, now_s) + size_bytes / max(rate, 1)

    @property
    def opens_s(self) -> float:
        """From when on more may be taken."""
        return self._paid_s


def is_listed(throttled: Sequence[str], partition: int, broker_id: int) -> bool:
    """Whether a topic's setting names the replica."""
    return bool(throttled) and (tuple(throttled) == _ALL or f"{partition}:{broker_id}" in throttled)
