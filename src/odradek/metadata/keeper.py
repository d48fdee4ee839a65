"""Keeps a broker's `ClusterImage` current: follows the store and publishes each new image.

Invariant: `image` only moves forward, and each published change begins where the one before
ended. A reader takes `keeper.image` once and uses that picture throughout.

A path leaves `_unread` only when the image holds what was read there. So a read that fails
loses nothing: with the store back, its watch says `EVERYTHING`, all is read again, and the
difference is published. A read that somebody gave up waiting for goes on.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence

from odradek.metadata.image import (
    Affected,
    ClusterImage,
    ImageBuilder,
    ImageChange,
    difference,
    image_of,
    states_in,
)
from odradek.metadata.layout import (
    broker_path,
    partition_state_path,
    topic_config_path,
    topic_path,
)
from odradek.metadata.store import EVERYTHING, MetadataStore, Operation, StoreUnavailable, Watch

logger = logging.getLogger("odradek.metadata")


class ImageKeeper:
    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self.image = ClusterImage()
        self._watch: Watch | None = None
        self._unread: dict[str, None] = {}
        self._refreshing = asyncio.Lock()
        self._newer = asyncio.Event()
        self._subscribers: list[Callable[[ImageChange], None]] = []

    def subscribe(self, subscriber: Callable[[ImageChange], None]) -> None:
        """Calls back at every change, at once and in order. It must not raise or wait."""
        self._subscribers.append(subscriber)

    async def load(self) -> ClusterImage:
        """Draws the first image; call it before `run` when others need one to start with."""
        if self._watch is None:
            # Watch first, read afterwards: what changes in between is read twice, not missed.
            self._watch = self._store.watch()
        if self.image.number == 0:
            await self.caught_up(EVERYTHING)
        return self.image

    async def run(self) -> None:
        """Follows the store until cancelled, or until `SessionExpired`: the store was closed.
        While the store is away the image stays as it is."""
        await self.load()
        assert self._watch is not None  # load has made it
        while True:
            try:
                await self._refresh(await self._watch.next())
            except StoreUnavailable as error:
                logger.info("the cluster's image waits for the metadata store: %s", error)

    async def caught_up(self, *paths: str) -> ClusterImage:
        """The image with every change that was notified so far, and with what the nodes at
        `paths` hold now: a broker that has just written names what it wrote."""
        noticed = self._watch.pending() if self._watch is not None else []
        refreshing = asyncio.get_running_loop().create_task(self._refresh([*noticed, *paths]))
        # A client that hangs up takes its own request with it, but not the news of others: they
        # have left the watch already, and nobody would look for them again.
        refreshing.add_done_callback(_let_go)
        await asyncio.shield(refreshing)
        return self.image

    async def write(self, *operations: Operation) -> list[int]:
        """A multi whose effect is in `image` when it returns.

        After `OutcomeUnknown` the change may have happened, and may be in the image or not yet:
        the caller reads its nodes back from the store before it tries again or gives up.
        After any other error nothing happened. That the image cannot be read again just now is
        no error of the write: it follows when the store is back."""
        versions = await self._store.multi(*operations)
        try:
            await self.caught_up(*(operation.path for operation in operations))
        except StoreUnavailable as error:
            logger.info("the cluster's image waits for the metadata store: %s", error)
        return versions

    async def newer_than(self, number: int) -> ClusterImage:
        """Waits for an image with a higher number."""
        while self.image.number <= number:
            await self._newer.wait()
        return self.image

    async def _refresh(self, paths: Iterable[str]) -> None:
        self._unread.update(dict.fromkeys(paths))
        # One at a time: two that read by turns could publish the older state last.
        async with self._refreshing:
            unread, self._unread = self._unread, {}
            try:
                await self._read_again(unread)
            except BaseException:
                self._unread = {**unread, **self._unread}
                raise

    async def _read_again(self, paths: Iterable[str]) -> None:
        affected = Affected()
        for path in paths:
            affected.add(path)
        if affected.everything:
            nodes = await self._store.read_tree("/")
            after = image_of(nodes, self.image.number + 1)
            if self.image.number == 0 or after != self.image._replace(number=after.number):
                self._publish(difference(self.image, after))
            return
        builder = ImageBuilder(self.image)
        states: list[tuple[str, int]] = []
        for topic, partitions in affected.topics.items():
            if partitions is not None and builder.topic(topic) is not None:
                states += [(topic, partition) for partition in partitions]
            else:
                await self._read_topic(builder, topic)
        await self._read_single_nodes(builder, affected, states)
        change = builder.change()
        if change is not None:
            self._publish(change)

    async def _read_topic(self, builder: ImageBuilder, topic: str) -> None:
        tree = await self._store.read_tree(topic_path(topic))
        config = await self._store.read(topic_config_path(topic))
        builder.set_topic(
            topic, tree.get(topic_path(topic)), states_in(tree).get(topic, {}), config
        )

    async def _read_single_nodes(
        self, builder: ImageBuilder, affected: Affected, states: Sequence[tuple[str, int]]
    ) -> None:
        """All in one request: the death of a broker changes hundreds of nodes, and as many trips
        to a busy store one after the other would take seconds."""
        brokers, singles = list(affected.brokers), list(affected.singles)
        paths = [
            *(partition_state_path(topic, partition) for topic, partition in states),
            *(broker_path(broker) for broker in brokers),
            *singles,
        ]
        if not paths:
            return
        nodes = iter(await self._store.read_each(paths))
        for topic, partition in states:
            builder.set_partition(topic, partition, next(nodes))
        for broker in brokers:
            builder.set_broker(broker, next(nodes))
        for path in singles:
            builder.set_single(path, next(nodes))

    def _publish(self, change: ImageChange) -> None:
        self.image = change.after
        wakened, self._newer = self._newer, asyncio.Event()
        wakened.set()
        for subscriber in self._subscribers:
            subscriber(change)


def _let_go(refreshing: "asyncio.Task[None]") -> None:
    """Its failure was told to whoever waited for it; if nobody did any more, that is all right."""
    if not refreshing.cancelled():
        refreshing.exception()
