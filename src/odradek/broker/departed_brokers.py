"""Brokers that have just gone, and those that seem to be going: what clients are told meanwhile.

When a broker is killed, its clients and its peers find their connections closed in the same
millisecond. Clients ask at once who leads now; an answer from before the election sends them
back to the dead broker, and many do not ask again for a second. So while a peer's connection has
just broken, or its partitions have not been given away yet, Metadata is answered a little later.

A broker that has gone stays in the list of brokers for a few seconds (in Kafka, until its session
times out). librdkafka forgets a broker that is no longer listed, and with it the new leader of
its partitions if it hears of both at once: it asks again a second later. Not for longer: a
broker that is forgotten is also connected to without delay when it is back.

Invariant: nothing here says who leads; that is the image's.
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
_MAX_HOLD_S: Final = 0.3
_DOUBTED_S: Final = 1.0


class DepartedBrokers:
    def __init__(self) -> None:
        self._gone: dict[BrokerId, tuple[BrokerImage, float]] = {}
        self._doubted: dict[BrokerId, float] = {}
        self._news = asyncio.Event()

    # What happens

    def follow(self, change: ImageChange) -> None:
        now_s = asyncio.get_running_loop().time()
        for number in change.brokers:
            broker_id = BrokerId(number)
            self._doubted.pop(broker_id, None)
            before = change.before.brokers.get(broker_id)
            if broker_id in change.after.brokers:
                self._gone.pop(broker_id, None)
            elif before is not None:
                self._gone[broker_id] = (before, now_s)
        self._tell()

    def connection_broke(self, broker_id: BrokerId) -> None:
        """A connection to that broker ended, and not by us."""
        self._doubted[broker_id] = asyncio.get_running_loop().time()

    def connection_opened(self, broker_id: BrokerId) -> None:
        """It is there after all."""
        if self._doubted.pop(broker_id, None) is not None:
            self._tell()

    def _tell(self) -> None:
        wakened, self._news = self._news, asyncio.Event()
        wakened.set()

    # What clients are told

    def listed(self, listener_name: str) -> Iterator[tuple[BrokerImage, Listener]]:
        """Those that went not long ago."""
        if self._gone:
            earliest_s = asyncio.get_running_loop().time() - _LISTED_S
            self._gone = {key: one for key, one in self._gone.items() if one[1] > earliest_s}
        for broker, _ in self._gone.values():
            listener = broker.listener(listener_name)
            if listener is not None:
                yield broker, listener

    async def settled(self, images: ClientMetadata, topics: Collection[str] | None = None) -> None:
        """Waits, not for long, while somebody else may be about to lead one of those topics."""
        if not self._doubted and not self._gone:
            return
        deadline_s = asyncio.get_running_loop().time() + _MAX_HOLD_S
        while self._is_unsettled(images.image, topics):
            try:
                async with asyncio.timeout_at(deadline_s):
                    await self._news.wait()
            except TimeoutError:
                return

    def _is_unsettled(self, image: ClusterImage, topics: Collection[str] | None) -> bool:
        earliest_s = asyncio.get_running_loop().time() - _DOUBTED_S
        self._doubted = {key: at_s for key, at_s in self._doubted.items() if at_s > earliest_s}
        leaving = {
            *self._doubted,
            *(broker_id for broker_id, (_, at_s) in self._gone.items() if at_s > earliest_s),
        }
        return bool(leaving) and any(
            partition.leader in leaving
            for name in (image.topics if topics is None else topics)
            if (topic := image.topics.get(name)) is not None
            for partition in topic.partitions
        )
