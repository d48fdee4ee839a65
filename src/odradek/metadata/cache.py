"""Keeps a broker's `ClusterImage` current: follows the store and publishes each new image.

Invariant: `image` only moves forward, and each published change begins where the one before
ended. A reader takes `keeper.image` once and uses that picture throughout.

A path leaves `_unread` only when the image holds what was read there. So a read that fails
loses nothing: with the store back, its watch says `EVERYTHING`, all is read again, and the
difference is published. A read that somebody gave up waiting for goes on.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, TypeVar

from odradek import invariants
from odradek.invariants import InvariantViolation
from odradek.metadata.image import ClusterImage, ImageChange, difference
from odradek.metadata.image_builder import Affected, Drawing, at_once, changing, drawing
from odradek.metadata.json_fields import MalformedNode
from odradek.metadata.malformed_nodes import is_needed_to_start, mended
from odradek.metadata.paths import broker_path, partition_state_path, topic_config_path, topic_path
from odradek.metadata.store import (
    EVERYTHING,
    MetadataStore,
    Node,
    Operation,
    StoreUnavailable,
    Watch,
)
from odradek.world.timeslice import Timeslice

logger = logging.getLogger("odradek.metadata")

T = TypeVar("T")

# Nodes of which an image is drawn at once: less than a millisecond's work.
_FEW_NODES: Final = 100
_PATHS_A_STEP: Final = 500


class MetadataCache:
    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self.image = ClusterImage()
        self._watch: Watch | None = None
        self._unread: dict[str, None] = {}
        # What was complained of already, as it was then.
        self._nonsense: dict[str, Node] = {}
        self._refreshing = asyncio.Lock()
        self._newer = asyncio.Event()
        self._subscribers: list[Callable[[ImageChange], None]] = []
        self._preparations: list[Callable[[ImageChange], Awaitable[None]]] = []

    @property
    def store(self) -> MetadataStore:
        """For reading. Changes go through `odradek.metadata.compare_and_set`."""
        return self._store

    def subscribe(
        self,
        subscriber: Callable[[ImageChange], None],
        *,
        prepare: Callable[[ImageChange], Awaitable[None]] | None = None,
    ) -> None:
        """Calls the subscriber at every change, at once and in order. It must not raise or wait.
        `prepare` is awaited before the change is published: it does beforehand what takes too long
        for one turn of the event loop."""
        self._subscribers.append(subscriber)
        if prepare is not None:
            self._preparations.append(prepare)

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
        timeslice = Timeslice.of_running_loop()
        for number, path in enumerate(paths, start=1):
            if not number % _PATHS_A_STEP and timeslice.is_over():
                await timeslice.next_turn()
            affected.add(path)
        if affected.everything:
            nodes = await self._store.read_tree("/")
            number = self.image.number + 1
            after = await self._drawn(nodes, lambda: drawing(nodes, number, self.image))
            if self.image.number == 0 or after != self.image._replace(number=after.number):
                await self._prepare_and_publish(difference(self.image, after))
            return
        nodes = await self._read_nodes(affected)
        change = await self._drawn(nodes, lambda: changing(self.image, affected, nodes))
        if change is not None:
            await self._prepare_and_publish(change)

    async def _prepare_and_publish(self, change: ImageChange) -> None:
        """Nobody else publishes meanwhile: `_refreshing` is held."""
        for prepare in self._preparations:
            await prepare(change)
        if change.before is not self.image or change.after.number <= self.image.number:
            raise InvariantViolation(
                "metadata cache",
                f"image {change.after.number} follows {change.before.number}, but the last one "
                f"published is {self.image.number}",
            )
        if invariants.is_thorough():
            change.after.check(change.before, change.topics)
        self._publish(change)

    async def _read_nodes(self, affected: Affected) -> dict[str, Node]:
        """Topics one by one, all else in one request: a broker that dies or returns changes
        hundreds of partitions at a time."""
        nodes: dict[str, Node] = {}
        paths: list[str] = []
        for topic, partitions in affected.topics.items():
            if partitions is None or topic not in self.image.topics:
                nodes |= await self._store.read_tree(topic_path(topic))
                paths.append(topic_config_path(topic))
            else:
                paths += [partition_state_path(topic, partition) for partition in partitions]
        paths += [broker_path(broker) for broker in affected.brokers]
        paths += affected.singles
        found = await self._store.read_each(paths) if paths else []
        nodes.update((path, node) for path, node in zip(paths, found, strict=True) if node)
        return nodes

    async def _drawn(self, nodes: dict[str, Node], draw: Callable[[], Drawing[T]]) -> T:
        """What is drawn from the nodes; a node that holds nonsense counts as it was before."""
        timeslice = Timeslice.of_running_loop()
        while True:
            try:
                if len(nodes) <= _FEW_NODES:
                    return at_once(draw())
                return await timeslice.run(draw())
            except MalformedNode as error:
                path = error.path
                if self.image.number == 0 and is_needed_to_start(path):
                    raise
                node = nodes.pop(path)
                if self._nonsense.get(path) != node:
                    self._nonsense[path] = node
                    logger.error("%s; it is ignored until it is put right", error)
                last_known = mended(path, node, self.image)
                if last_known is not None:
                    nodes[path] = last_known

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
