"""The controller: the one broker that reacts to events of the cluster.

Any broker changes the cluster when a client asks for it. The controller does what no client asks
for: it elects leaders when a broker dies or returns, finishes reassignments, and gives partitions
back to their preferred leaders.

The controller is the broker that created the ephemeral node `/controller`, which goes with its
session. The same multi bumps the controller epoch, and every change of the controller checks that
epoch: a deposed controller changes nothing. A new controller reads the whole image before it acts.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from odradek.cluster.elections import (
    after_loss,
    has_no_clean_leader,
    out_of_balance,
    partitions_of,
    preferred,
    unclean,
    unclean_candidates,
)
from odradek.cluster.reassignment import finish_reassignments
from odradek.cluster.state_changes import Decision, change_states
from odradek.config.live import LiveSettings
from odradek.metadata import (
    BadVersion,
    ClusterImage,
    Create,
    Delete,
    ImageChange,
    MetadataCache,
    MetadataStore,
    Node,
    NodeExists,
    Operation,
    OperationFailed,
    OutcomeUnknown,
    PartitionImage,
    Set,
    StoreUnavailable,
)
from odradek.metadata.compare_and_set import Fenced, attempt
from odradek.metadata.json_fields import MalformedNode
from odradek.metadata.node_values import (
    NO_LEADER,
    PartitionState,
    decode_controller_epoch,
    encode_controller_epoch,
)
from odradek.metadata.node_values import Controller as ControllerNode
from odradek.metadata.paths import CONTROLLER, CONTROLLER_EPOCH
from odradek.metadata.store import EVERYTHING
from odradek.protocol.types import BrokerId, TopicPartition
from odradek.world import Clock

logger = logging.getLogger("odradek.controller")

_RETRY_S: Final = 0.1

LongestLog = Callable[[TopicPartition, Sequence[BrokerId]], Awaitable[BrokerId | None]]
"""Returns which of these live brokers has the longest log of a partition; None if none answers."""


class ControllerEpoch(NamedTuple):
    """The epoch in which this broker was elected. `version` is that of the epoch's node, which
    every write of the controller checks."""

    epoch: int
    version: int


class Controller:
    """Invariant: while this broker is not the controller, it writes nothing but its candidacy."""

    def __init__(
        self,
        broker_id: BrokerId,
        store: MetadataStore,
        cache: MetadataCache,
        settings: LiveSettings,
        *,
        clock: Clock,
        longest_log: LongestLog,
    ) -> None:
        self._id = broker_id
        self._store = store
        self._cache = cache
        self._settings = settings
        self._clock = clock
        self._longest_log = longest_log
        self._epoch: ControllerEpoch | None = None
        # Topics to look at next; None for all topics.
        self._changed: dict[str, None] | None = {}
        self._wakened = asyncio.Event()
        cache.subscribe(self._follow)

    @property
    def is_active(self) -> bool:
        """Whether this broker is the controller, as far as it knows."""
        return self._epoch is not None

    async def elect(self) -> bool:
        """Becomes the controller if there is none; returns whether this broker is it now."""
        try:
            await self._become_controller()
        except (NodeExists, BadVersion):
            await self._cache.catch_up(CONTROLLER, CONTROLLER_EPOCH)
            return False
        except OutcomeUnknown:
            await self._read_back()
        if self._epoch is not None:
            logger.info("broker %d is the controller in epoch %d", self._id, self._epoch.epoch)
            self._changed = None
            await self._cache.catch_up(EVERYTHING)
        return self.is_active

    def resign(self) -> None:
        """This broker is no longer the controller, or possibly not."""
        if self._epoch is not None:
            logger.info("broker %d is no longer the controller", self._id)
        self._epoch = None
        self._wakened.set()

    async def run(self) -> None:
        """Reacts to every change of the image, until cancelled."""
        next_balance_s = self._next_balance_s()
        while True:
            self._wakened.clear()
            try:
                await self._turn()
                if asyncio.get_running_loop().time() >= next_balance_s:
                    await self._balance()
                    next_balance_s = self._next_balance_s()
                pause_s = next_balance_s - asyncio.get_running_loop().time()
                if self._is_election_due() or self._changed is None:
                    pause_s = _RETRY_S
            except Fenced:
                self.resign()
                pause_s = _RETRY_S
            except (StoreUnavailable, OutcomeUnknown):
                self._changed = None
                pause_s = _RETRY_S
            await self._wait(pause_s)

    # Election of the controller

    def _is_election_due(self) -> bool:
        """Returns whether there is no controller, or it is this broker in an epoch that this broker
        does not know."""
        controller_id = self._cache.image.controller_id
        return controller_id == NO_LEADER or (controller_id == self._id and self._epoch is None)

    async def _become_controller(self) -> None:
        candidacy = Create(
            CONTROLLER, ControllerNode(self._id, self._clock.now_ms()).encode(), True
        )
        node = await self._store.read(CONTROLLER_EPOCH)
        epoch = 1 if node is None else self._epoch_in(node) + 1
        value = encode_controller_epoch(epoch)
        next_epoch: Operation = (
            Create(CONTROLLER_EPOCH, value)
            if node is None
            else Set(CONTROLLER_EPOCH, value, node.version)
        )
        versions = await attempt(self._cache, candidacy, next_epoch)
        self._epoch = ControllerEpoch(epoch, versions[1])

    async def _read_back(self) -> None:
        """Finds out whether this broker became the controller although the reply was lost."""
        controller = await self._store.read(CONTROLLER)
        node = await self._store.read(CONTROLLER_EPOCH)
        is_ours = controller is not None and controller.owner == self._store.session_id
        if is_ours and node is not None:
            # The epoch is bumped only together with `/controller`, so it is that of our write.
            self._epoch = ControllerEpoch(self._epoch_in(node), node.version)

    def _epoch_in(self, node: Node) -> int:
        """Returns the epoch in the node, or the last known one if the node cannot be decoded."""
        try:
            return decode_controller_epoch(node.value)
        except MalformedNode:
            return self._cache.image.controller_epoch

    async def _withdraw(self) -> None:
        """Deletes `/controller` if this broker created it but was fenced, because an operator
        changed the epoch by hand. The election that follows bumps the epoch. A node of an earlier
        session goes by itself."""
        node = await self._store.read(CONTROLLER)
        if node is not None and node.owner == self._store.session_id:
            logger.warning("%s was changed by hand; electing a controller again", CONTROLLER_EPOCH)
            with suppress(OperationFailed):
                await attempt(self._cache, Delete(CONTROLLER, node.version))

    def _follow(self, change: ImageChange) -> None:
        if self._epoch is not None:
            _tell_of_brokers(change)
        if change.brokers or change.broker_configs:
            self._changed = None
        elif self._changed is not None:
            self._changed.update(dict.fromkeys(change.topics))
        self._wakened.set()

    async def _wait(self, max_pause_s: float) -> None:
        try:
            async with asyncio.timeout(max(max_pause_s, 0)):
                await self._wakened.wait()
        except TimeoutError:
            pass

    # Reactions

    async def _turn(self) -> None:
        image = self._cache.image
        if self._epoch is not None and (
            image.controller_id != self._id or image.controller_epoch != self._epoch.epoch
        ):
            self.resign()
        if self._epoch is None and image.controller_id == self._id:
            await self._withdraw()
            image = self._cache.image
        if image.controller_id == NO_LEADER and self._id in image.brokers:
            await self.elect()
            image = self._cache.image
        if self._epoch is None:
            return
        changed, self._changed = self._changed, {}
        topics = image.topics if changed is None else changed
        try:
            await self._elect(image, topics)
            await self._elect_unclean(topics)
            await finish_reassignments(self._cache, topics, self._fence())
        except BaseException:
            self._changed = None
            raise

    async def _elect(self, image: ClusterImage, topics: Collection[str]) -> None:
        without_leader = [
            topic_partition
            for topic_partition, partition in partitions_of(image, topics)
            if partition.leader not in image.brokers
        ]

        def decide(image: ClusterImage, partition: PartitionImage) -> PartitionState | None:
            return after_loss(partition, image.brokers, image.controller_epoch)

        await self._change(without_leader, decide, "its leader is gone")

    async def _elect_unclean(self, topics: Collection[str]) -> None:
        image = self._cache.image
        for topic_partition, partition in partitions_of(image, topics):
            if not has_no_clean_leader(partition, image.brokers):
                continue  # Almost always: the settings of the topic need not be read.
            settings = self._settings.topic(image.topic_overrides(topic_partition.topic))
            candidates = unclean_candidates(
                partition, image.brokers, is_enabled=settings.unclean_leader_election_enable
            )
            if candidates:
                elected = await elect_unclean(
                    self._cache,
                    topic_partition,
                    candidates,
                    self._longest_log,
                    fence=self._fence(),
                )
                if not elected:
                    self._changed = None  # No candidate answered: ask again soon.

    async def _balance(self) -> None:
        settings = self._settings.broker
        if self._epoch is None or not settings.auto_leader_rebalance_enable:
            return

        def decide(image: ClusterImage, partition: PartitionImage) -> PartitionState | None:
            return preferred(partition, image.brokers, image.controller_epoch)

        away = out_of_balance(self._cache.image, settings.leader_imbalance_per_broker_percentage)
        await self._change(away, decide, "it is the preferred leader")

    def _next_balance_s(self) -> float:
        interval_s = self._settings.broker.leader_imbalance_check_interval_seconds
        return asyncio.get_running_loop().time() + interval_s

    async def _change(
        self, partitions: Sequence[TopicPartition], decide: Decision, reason: str
    ) -> None:
        if partitions:
            await change_states(self._cache, partitions, decide, reason, fence=self._fence())

    def _fence(self) -> int:
        if self._epoch is None:
            raise Fenced
        return self._epoch.version


def _tell_of_brokers(change: ImageChange) -> None:
    for broker_id in sorted(change.brokers):
        before, after = change.before.brokers.get(broker_id), change.after.brokers.get(broker_id)
        if after is None:
            logger.info("broker %d is gone", broker_id)
        elif before is None:
            logger.info("broker %d is here", broker_id)


async def elect_unclean(
    cache: MetadataCache,
    topic_partition: TopicPartition,
    candidates: Sequence[BrokerId],
    longest_log: LongestLog,
    *,
    fence: int | None = None,
) -> bool:
    """Elects the replica with the longest log, though it may lack committed records. Returns False
    if none of them answered, or a replica in sync came back meanwhile."""
    leader = (
        candidates[0] if len(candidates) == 1 else await longest_log(topic_partition, candidates)
    )
    if leader is None:
        return False

    def decide(image: ClusterImage, partition: PartitionImage) -> PartitionState | None:
        return unclean(partition, leader, image.brokers, image.controller_epoch)

    reason = "no replica in sync is live, and unclean election is allowed"
    return bool(await change_states(cache, [topic_partition], decide, reason, fence=fence))
