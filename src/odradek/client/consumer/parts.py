"""What a started consumer is made of; all of it is started together and ended together.

`Positions` knows where the consumer reads, `Fetcher` fetches records ahead of `poll`, and `Group`
decides which partitions are assigned and where they begin, if there is a `group.id`. `Consumer`
makes this object at the first call that needs a broker.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from odradek.client.cluster import Cluster
from odradek.client.consumer.fetched_batches import Deserialize
from odradek.client.consumer.fetcher import Fetcher
from odradek.client.consumer.positions import Positions
from odradek.client.errors import ClientClosed
from odradek.client.group.offsets import OffsetAndMetadata, Offsets
from odradek.client.metrics.client_metrics import ClientMetrics
from odradek.client.settings import ConsumerSettings
from odradek.protocol.types import TopicPartition
from odradek.world import World

if TYPE_CHECKING:
    from odradek.client.group.group import Group
    from odradek.client.metrics.figures import Reading


class ConsumerParts:
    def __init__(
        self,
        settings: ConsumerSettings,
        world: World,
        *,
        offsets_to_commit: Callable[[], dict[TopicPartition, OffsetAndMetadata]],
        on_committed: Callable[[Offsets], None],
        deserialize: Deserialize | None = None,
    ) -> None:
        """`offsets_to_commit` returns what a commit without offsets commits."""
        self.cluster = Cluster(
            settings, world.randomness, auto_create_topics=settings.allow_auto_create_topics
        )
        self.positions = Positions(
            self.cluster,
            settings,
            world.clock,
            on_change=self.positions_changed,
            on_failure=self._failed,
        )
        self.fetcher = Fetcher(self.cluster, settings, self.positions, deserialize)
        self.group: Group | None = None
        if settings.group_id is not None:
            # A consumer without a group does not need the requests of its protocols.
            from odradek.client.group import group  # noqa: PLC0415

            self.group = group.Group(
                self.cluster,
                settings,
                self.positions,
                settings.group_id,
                offsets_to_commit=offsets_to_commit,
                on_change=self.positions_changed,
                committed=on_committed,
            )
        own = () if self.group is None else (self.group.rebalances,)
        self.metrics = ClientMetrics(
            "consumer", self.cluster, self._read, *own, pushes=settings.enable_metrics_push
        )
        loop = asyncio.get_running_loop()
        self._fetching = loop.create_task(self.fetcher.run(), name="odradek-consumer")

    def _read(self, now_s: float) -> "Reading":
        from odradek.client.metrics.figures import read_consumer  # noqa: PLC0415 - when asked for

        return read_consumer(self, now_s)

    def check(self) -> None:
        """Raises `ClientClosed` if the background work has ended with an error."""
        if (error := self.fetcher.failure) is not None:
            raise ClientClosed(f"the consumer ended with {error!r}") from error

    def waits_for(self) -> BaseException | None:
        """Returns the error that keeps positions from being looked up, if one is known."""
        fault = None if self.group is None else self.group.waits_for()
        return fault or self.cluster.refresh_fault

    def positions_changed(self) -> None:
        """Makes the fetcher look at the positions again, and a waiting `poll` at its records."""
        self.fetcher.positions_changed()

    def _failed(self, error: BaseException) -> None:
        self.fetcher.fail(error)

    async def close(self) -> None:
        self._fetching.cancel()
        try:
            await asyncio.gather(self._fetching, return_exceptions=True)
            await self.fetcher.stop()
            await self.positions.close()
            await self.metrics.close()
        finally:  # If closing is cancelled, too.
            await self.cluster.close()
