"""Limits how fast replicas outside the ISR catch up, if an operator asks for it.

A reassignment copies whole logs as fast as the machines can. With a rate
(`leader.replication.throttled.rate`, `follower.replication.throttled.rate`) and a list of replicas
(`*.replication.throttled.replicas`) it leaves bandwidth for clients. Replicas in sync are never
throttled, because producers wait for them.
"""

from collections.abc import Sequence
from typing import Final

from odradek.protocol.types import BrokerId

_ALL = ("*",)
# A transfer is worth this time at the rate. Smaller ones cost more requests; larger ones keep both
# event loops from serving producers while they are read, checked and written.
_SLICE_S: Final = 0.02
_LEAST_BYTES: Final = 16 << 10


def slice_bytes(rate: int) -> int:
    """Returns the most bytes of one throttled transfer."""
    return max(int(rate * _SLICE_S), _LEAST_BYTES)


class Throttle:
    """Spreads transfers over time: after a transfer the next one may start when the bytes of all
    earlier ones would have been sent at the rate."""

    __slots__ = ("_free_s", "passed_bytes")

    def __init__(self) -> None:
        self._free_s = 0.0
        # Bytes of records that followers on this broker have fetched, throttled or not.
        self.passed_bytes = 0

    def spend(self, size_bytes: int, rate: int, now_s: float) -> None:
        self._free_s = max(self._free_s, now_s) + size_bytes / max(rate, 1)

    @property
    def opens_s(self) -> float:
        """When the next transfer may start, by the event loop's clock."""
        return self._free_s


def is_listed(throttled: Sequence[str], partition: int, broker_id: BrokerId) -> bool:
    """Returns whether a topic's setting `*.replication.throttled.replicas` names the replica."""
    return bool(throttled) and (tuple(throttled) == _ALL or f"{partition}:{broker_id}" in throttled)
