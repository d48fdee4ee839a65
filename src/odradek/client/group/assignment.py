"""The partitions that a group has assigned to this consumer, and the listener that is told.

Everything here runs while the user polls (see `poll_gate`) or closes. A listener may be any object
with some of the three methods, plain or async.

Order: a listener is told of revoked partitions while the consumer still has them, so that it can
commit; it is told of assigned partitions when `seek` works for them.
"""

import inspect
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final

from odradek.client import arguments
from odradek.client.consumer.positions import Positions
from odradek.client.metrics.counting import Latency
from odradek.protocol.types import TopicPartition


class RebalanceListener:
    """Is told which partitions a consumer gets and loses; methods may be plain or async."""

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> Awaitable[None] | None:
        """These partitions were added; `seek` works already."""
        return None

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> Awaitable[None] | None:
        """These partitions are about to be assigned to other members; commit now."""
        return None

    def on_partitions_lost(self, partitions: list[TopicPartition]) -> Awaitable[None] | None:
        """Other members may have these partitions already: it is too late to commit."""
        return self.on_partitions_revoked(partitions)


_CALLBACKS: Final = [name for name in vars(RebalanceListener) if name.startswith("on_")]


def check_listener(given: object) -> None:
    """Raises `TypeError` for a listener of which no method would ever be called."""
    if given is not None and not any(hasattr(given, name) for name in _CALLBACKS):
        raise arguments.wrong(
            "subscribe()",
            f"a listener with {' or '.join(_CALLBACKS)}",
            given,
            "a class that inherits RebalanceListener",
        )


class Ownership:
    """Used by the membership. `owned` are the partitions that the consumer reads now."""

    def __init__(
        self,
        positions: Positions,
        before_revoked: Callable[[], Awaitable[None]],
    ) -> None:
        self.owned: list[TopicPartition] = []
        self.listener: object | None = None
        # Whether the group has assigned partitions, perhaps none, since the subscription.
        self.is_decided = False
        # How long rebalances took.
        self.rebalances = Latency()
        self._positions = positions
        self._before_revoked = before_revoked

    async def revoke(self, partitions: Sequence[TopicPartition]) -> None:
        """Gives partitions up, after a commit and after the listener was told."""
        if not partitions:
            return
        try:
            await self._before_revoked()
            await self._tell("on_partitions_revoked", partitions)
        finally:
            self._drop(partitions)

    async def lose(self, partitions: Sequence[TopicPartition]) -> None:
        """Drops partitions that the group may have assigned to other members already."""
        if not partitions:
            return
        try:
            name = "on_partitions_lost"
            if not hasattr(self.listener, name):
                name = "on_partitions_revoked"
            await self._tell(name, partitions)
        finally:
            self._drop(partitions)

    async def gain(
        self, assigned: Sequence[TopicPartition], added: Sequence[TopicPartition]
    ) -> None:
        """Takes `assigned` as the new assignment, of which `added` are new.

        Partitions that stay keep their positions.
        """
        self.owned = list(assigned)
        self.is_decided = True
        self._positions.assign(assigned)
        await self._tell("on_partitions_assigned", added)

    def forget(self) -> None:
        """Called when the consumer has left its group, with all partitions given up."""
        self.listener = None
        self.is_decided = False

    def _drop(self, partitions: Iterable[TopicPartition]) -> None:
        gone = set(partitions)
        self.owned = [partition for partition in self.owned if partition not in gone]
        self._positions.assign(
            partition for partition in self._positions.assigned if partition not in gone
        )

    async def _tell(self, name: str, partitions: Sequence[TopicPartition]) -> None:
        told = getattr(self.listener, name, None)
        if told is None:
            return
        answer = told(list(partitions))
        if inspect.isawaitable(answer):
            await answer
