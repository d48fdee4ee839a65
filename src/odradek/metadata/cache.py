"""Keeps a broker's `ClusterImage` current: follows the store and publishes each new image.

Invariant: `image` only moves forward, and each published change begins at the image that was
published before. A reader takes `cache.image` once and uses that image throughout.

A path leaves `_unread` only when the image holds what was read there, so no change is missed if a
read fails: when the store is available again, its watch reports `EVERYTHING`, all nodes are read
again, and the difference is published. A read goes on even if its caller was cancelled.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final, TypeVar

from odradek import invariants
from odradek.invariants import InvariantViolation
from odradek.metadata.image import ClusterImage, ImageChange, difference
from odradek.metadata.image_builder import (
    AffectedParts,
    Steps,
    build_change,
    build_image,
    run_at_once,
)
from odradek.metadata.json_fields import MalformedNode
from odradek.metadata.malformed_nodes import is_needed_to_start, last_known_node
from odradek.metadata.paths import broker_path, partition_state_path, topic_config_path, topic_path
from odradek.metadata.store import (
    EVERYTHING,
    Check,
    MetadataStore,
    Node,
    Operation,
    StoreUnavailable,
    Watch,
)
from odradek.world.timeslice import Timeslice

logger = logging.getLogger("odradek.metadata")

T = TypeVar("T")

# From so few nodes an image is built in one step: it takes less than a millisecond.
_MAX_NODES_AT_ONCE: Final = 100
_PATHS_PER_STEP: Final = 500


class MetadataCache:
    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self.image = ClusterImage()
        self._watch: Watch | None = None
        self._unread: dict[str, None] = {}
        # Malformed nodes that were logged already, as they were then.
        self._malformed: dict[str, Node] = {}
        self._refreshing = asyncio.Lock()
        self._newer = asyncio.Event()
        self._subscribers: list[Callable[[ImageChange], None]] = []
        self._preparations: list[Callable[[ImageChange], Awaitable[None]]] = []

    @property
    def store(self) -> MetadataStore:
        """The store, for reading. Changes go through `odradek.metadata.compare_and_set`."""
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
        """Builds the first image. The broker calls it before `run`, because its components need an
        image to start with."""
        if self._watch is None:
            # Watches first and reads afterwards: a change in between is read twice, not missed.
            self._watch = self._store.watch()
        if self.image.number == 0:
            await self.catch_up(EVERYTHING)
        return self.image

    async def run(self) -> None:
        """Follows the store until cancelled, or until `SessionExpired` because the store was
        closed. While the store is not available the image stays as it is."""
        await self.load()
        assert self._watch is not None  # load has made it
        while True:
            try:
                await self._refresh(await self._watch.next())
            except StoreUnavailable as error:
                logger.info("the cluster's image waits for the metadata store: %s", error)

    async def catch_up(self, *paths: str) -> ClusterImage:
        """Returns an image with every change that was notified so far, and with what the nodes at
        `paths` hold now. A broker that has just written passes the paths that it wrote."""
        noticed = self._watch.pending() if self._watch is not None else []
        refreshing = asyncio.get_running_loop().create_task(self._refresh([*noticed, *paths]))
        # If the caller is cancelled, the read goes on: the notified paths have left the watch, and
        # would not be read again.
        refreshing.add_done_callback(_ignore_exception)
        await asyncio.shield(refreshing)
        return self.image

    async def write(self, *operations: Operation) -> list[int]:
        """Writes a multi, whose effect is in `image` when this returns. What it merely checked is
        not read again: the image has it, and a topic's node would be read with all its partitions.

        After `OutcomeUnknown` the change may have been carried out, and may be in the image or not
        yet: the caller reads its nodes back from the store before it tries again or gives up. After
        any other error nothing was changed. If the change was written but cannot be read again now,
        no error is raised: the image follows when the store is available again.
        """
        versions = await self._store.multi(*operations)
        try:
            written = [one.path for one in operations if not isinstance(one, Check)]
            await self.catch_up(*written)
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
        # One at a time: two concurrent reads could publish the older state last.
        async with self._refreshing:
            unread, self._unread = self._unread, {}
            try:
                await self._read_again(unread)
            except BaseException:
                self._unread = {**unread, **self._unread}
                raise

    async def _read_again(self, paths: Iterable[str]) -> None:
        affected = AffectedParts()
        timeslice = Timeslice.of_running_loop()
        for number, path in enumerate(paths, start=1):
            if not number % _PATHS_PER_STEP and timeslice.is_over():
                await timeslice.next_turn()
            affected.add(path)
        if affected.everything:
            resumption = self._store.resumptions
            nodes = await self._store.read_tree("/")
            number = self.image.number + 1
            after = await self._built(nodes, lambda: build_image(nodes, number, self.image))
            if self.image.number == 0 or after != self.image._replace(number=after.number):
                await self._prepare_and_publish(difference(self.image, after))
            self._store.note_all_read(resumption)
            return
        nodes = await self._read_nodes(affected)
        change = await self._built(nodes, lambda: build_change(self.image, affected, nodes))
        if change is not None:
            await self._prepare_and_publish(change)

    async def _prepare_and_publish(self, change: ImageChange) -> None:
        """No other image is published meanwhile, because `_refreshing` is held."""
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

    async def _read_nodes(self, affected: AffectedParts) -> dict[str, Node]:
        """Reads what is affected. A node that goes back in versions belongs to another topic of the
        same name, of which no change was notified yet: then that topic is read as a whole."""
        nodes = await self._read_affected(affected)
        replaced = await self._replaced_topics(affected, nodes)
        if replaced:
            affected.topics.update(dict.fromkeys(replaced))
            nodes = await self._read_affected(affected)
        return nodes

    async def _replaced_topics(
        self, affected: AffectedParts, nodes: Mapping[str, Node]
    ) -> list[str]:
        timeslice = Timeslice.of_running_loop()
        replaced: dict[str, None] = {}
        for topic, partitions in affected.topics.items():
            for number, partition in enumerate(partitions or (), start=1):
                if not number % _PATHS_PER_STEP and timeslice.is_over():
                    await timeslice.next_turn()
                node = nodes.get(partition_state_path(topic, partition))
                known = self.image.partition(topic, partition)
                if node is not None and known is not None and node.version < known.version:
                    replaced[topic] = None
        return list(replaced)

    async def _read_affected(self, affected: AffectedParts) -> dict[str, Node]:
        """Reads whole topics one by one, and all other nodes in one request: a broker that dies or
        returns changes hundreds of partitions at a time."""
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
        affected_nodes = await self._store.read_each(paths) if paths else []
        nodes.update((path, node) for path, node in zip(paths, affected_nodes, strict=True) if node)
        return nodes

    async def _built(self, nodes: dict[str, Node], build: Callable[[], Steps[T]]) -> T:
        """Returns what is built from the nodes. A malformed node is replaced by what is known of it
        from the present image."""
        timeslice = Timeslice.of_running_loop()
        while True:
            try:
                if len(nodes) <= _MAX_NODES_AT_ONCE:
                    return run_at_once(build())
                return await timeslice.run(build())
            except MalformedNode as error:
                path = error.path
                if self.image.number == 0 and is_needed_to_start(path):
                    raise
                node = nodes.pop(path)
                if self._malformed.get(path) != node:
                    self._malformed[path] = node
                    logger.error("%s; it is ignored until it is put right", error)
                last_known = last_known_node(path, node, self.image)
                if last_known is not None:
                    nodes[path] = last_known

    def _publish(self, change: ImageChange) -> None:
        self.image = change.after
        wakened, self._newer = self._newer, asyncio.Event()
        wakened.set()
        for subscriber in self._subscribers:
            subscriber(change)


def _ignore_exception(refreshing: "asyncio.Task[None]") -> None:
    """Marks the exception as retrieved: the caller that waited for the task may be gone."""
    if not refreshing.cancelled():
        refreshing.exception()
