"""Samples a cluster again and again, and tells of groups whose status has changed."""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from odradek.client.errors import ClientError
from odradek.ops.lag.evaluation import GroupStatus
from odradek.ops.lag.history import LagHistory
from odradek.ops.lag.notifications import Change, Changes, Say, Sender, deliver
from odradek.ops.lag.sampling import LagAdmin, take_sample
from odradek.protocol.errors import KafkaError
from odradek.world.clock import Clock

if TYPE_CHECKING:
    from odradek.ops.lag.queries import Queries

INTERVAL_S: Final = 10.0


class LagService:
    """The history of one cluster, kept up to date. `history` may be read at any time."""

    def __init__(
        self,
        admin: LagAdmin,
        clock: Clock,
        history: LagHistory,
        cluster: str,
        *,
        say: Say,
        senders: Sequence[Sender] = (),
        confirm: int = 3,
        queries: "Queries | None" = None,
    ) -> None:
        self._admin = admin
        self._clock = clock
        self.history = history
        self.cluster = cluster
        self._say = say
        self._senders = senders
        self._queries = queries
        self._changes = Changes(cluster, confirm)
        self._deliveries: set[asyncio.Task[None]] = set()
        self._failure: str | None = None

    async def sample(self) -> None:
        """Takes one sample, and tells of changes. Raises if the brokers do not answer."""
        self.history.add(await take_sample(self._admin, self._clock, queries=self._queries))
        now_ms = self._clock.now_ms()
        for change in self._changes.update(self.history.evaluate_all(now_ms), now_ms):
            self._tell(change)

    def _tell(self, change: Change) -> None:
        self._say(
            f"{change.now.kind} {change.now.group} was {change.previous.name},"
            f" is {change.now.status.name}"
        )
        if self._senders:
            task = asyncio.create_task(deliver(self._senders, change, self._say))
            self._deliveries.add(task)
            task.add_done_callback(self._deliveries.discard)

    async def run(self, interval_s: float = INTERVAL_S) -> None:
        """Samples until it is cancelled. Brokers that do not answer are told of once."""
        while True:
            await asyncio.sleep(interval_s)
            try:
                await self.sample()
            except (KafkaError, ClientError, OSError) as error:
                if self._failure is None:
                    self._say(f"the brokers do not answer, trying again: {error}")
                self._failure = str(error)
            else:
                if self._failure is not None:
                    self._say("the brokers answer again")
                self._failure = None

    async def stop(self) -> None:
        """Waits for notifications that are on their way."""
        await asyncio.gather(*self._deliveries, return_exceptions=True)

    def status(self, group: str) -> GroupStatus:
        return self.history.evaluate(group, self._clock.now_ms())

    def statuses(self) -> list[GroupStatus]:
        return self.history.evaluate_all(self._clock.now_ms())

    @property
    def is_ready(self) -> bool:
        """Whether the last sample succeeded."""
        return self.history.samples > 0 and self._failure is None
