"""The partitions that a group has given to this consumer, and who is told about it.

Everything here runs while the user polls (see `poll_gate`) or closes. A listener may be any
object with some of the three methods, plain or async.

Order: a listener hears that partitions go while the consumer still has them, so that it can
commit; it hears that they have come when they can be sought.
"""

import inspect
from collections.abc import Awaitable, Callable, Iterable, Sequence

from odradek.client.consumer.positions import Positions
from odradek.protocol.types import TopicPartition


class RebalanceListener:
    """Hears what a consumer gets and loses; override what you need, plain or async."""

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> Awaitable[None] | None:
        """These came; `seek` works already."""
        return None

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> Awaitable[None] | None:
        """These are about to go to others: the last moment to commit."""
        return None

    def on_partitions_lost(self, partitions: list[TopicPartition]) -> Awaitable[None] | None:
        """These are gone already, others may have them: it is too late to commit."""
        return self.on_partitions_revoked(partitions)


class Holdings:
    def __init__(
        self,
        positions: Positions,
        before_revoked: Callable[[], Awaitable[None]],
    ) -> None:
        self.owned: list[TopicPartition] = []
        self.listener: object | None = None
        self._positions = positions
        self._before_revoked = before_revoked

    async def revoke(self, partitions: Sequence[TopicPartition]) -> None:
        """Gives partitions back in good order."""
        if not partitions:
            return
        try:
            await self._before_revoked()
            await self._tell("on_partitions_revoked", partitions)
        finally:
            self._drop(partitions)

    async def lose(self, partitions: Sequence[TopicPartition]) -> None:
        """The group has given them away already."""
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
        """The consumer has `assigned` now, `added` among it; those that stay keep their places."""
        self.owned = list(assigned)
        self._positions.assign(assigned)
        await self._tell("on_partitions_assigned", added)

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
