"""What clients are told about brokers that have just stopped, or that seem to have stopped.

When a broker is killed, its clients and the other brokers find their connections closed in the same
millisecond. Clients ask at once which broker leads now. An answer from before the election sends
them back to the dead broker, and many clients do not ask again for a second. So Metadata is
answered a little later while the connection to another broker has just broken, or while the
partitions of a broker that has stopped have no new leader yet.

A broker that has stopped stays in the list of brokers for a few seconds (in Kafka, until its
session expires). librdkafka forgets a broker that is not listed any more, and with it the new
leader of its partitions if it learns both at once: it asks again a second later. It is not listed
for longer than that, because librdkafka connects without delay to a forgotten broker that is back.

Invariant: leaders are taken from the image, and from nowhere else.
"""

import asyncio
from collections.abc import Collection, Iterator
from typing import Final

from odradek.broker.client_metadata import ClientMetadata
from odradek.config import Listener
from odradek.metadata import BrokerImage, ClusterImage, ImageChange
from odradek.protocol.types import BrokerId

_LISTED_S: Final = 3.0
# An election takes some hundredths of a second; on a busy machine some tenths.
_MAX_WAIT_S: Final = 0.3
# How long a broken connection makes a broker suspected.
_SUSPECTED_S: Final = 1.0


class DepartedBrokers:
    def __init__(self) -> None:
        self._departed: dict[BrokerId, tuple[BrokerImage, float]] = {}
        self._suspected: dict[BrokerId, float] = {}
        self._changed = asyncio.Event()

    # What happens to brokers

    def follow(self, change: ImageChange) -> None:
        now_s = asyncio.get_running_loop().time()
        for number in change.brokers:
            broker_id = BrokerId(number)
            self._suspected.pop(broker_id, None)
            before = change.before.brokers.get(broker_id)
            if broker_id in change.after.brokers:
                self._departed.pop(broker_id, None)
            elif before is not None:
                self._departed[broker_id] = (before, now_s)
        self._notify()

    def connection_broke(self, broker_id: BrokerId) -> None:
        """Called when a connection to that broker was closed, but not by this broker."""
        self._suspected[broker_id] = asyncio.get_running_loop().time()

    def connection_opened(self, broker_id: BrokerId) -> None:
        """Called when a connection to that broker was opened: it has not stopped."""
        if self._suspected.pop(broker_id, None) is not None:
            self._notify()

    def _notify(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    # What clients are told

    def listed(self, listener_name: str) -> Iterator[tuple[BrokerImage, Listener]]:
        """Yields the brokers that stopped not long ago, with their addresses."""
        if self._departed:
            earliest_s = asyncio.get_running_loop().time() - _LISTED_S
            self._departed = {
                key: entry for key, entry in self._departed.items() if entry[1] > earliest_s
            }
        for broker, _ in self._departed.values():
            listener = broker.listener(listener_name)
            if listener is not None:
                yield broker, listener

    async def wait_for_leader_election(
        self, images: ClientMetadata, topics: Collection[str] | None = None
    ) -> None:
        """Waits for a short time while the leader of a partition of these topics has departed or is
        suspected to have, until another leader is elected."""
        if not self._suspected and not self._departed:
            return
        deadline_s = asyncio.get_running_loop().time() + _MAX_WAIT_S
        while self._is_leader_election_expected(images.image, topics):
            try:
                async with asyncio.timeout_at(deadline_s):
                    await self._changed.wait()
            except TimeoutError:
                return

    def _is_leader_election_expected(
        self, image: ClusterImage, topics: Collection[str] | None
    ) -> bool:
        earliest_s = asyncio.get_running_loop().time() - _SUSPECTED_S
        self._suspected = {key: at_s for key, at_s in self._suspected.items() if at_s > earliest_s}
        leaving = {
            *self._suspected,
            *(broker_id for broker_id, (_, at_s) in self._departed.items() if at_s > earliest_s),
        }
        return bool(leaving) and any(
            partition.leader in leaving
            for name in (image.topics if topics is None else topics)
            if (topic := image.topics.get(name)) is not None
            for partition in topic.partitions
        )
