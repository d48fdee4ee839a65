"""What a broker does about replicas whose log directory went offline or is full.

The broker lives on with its other directories. Where it led, another replica in sync leads now;
where it followed, it leaves the in-sync set, so that no producer waits for it and nobody elects
it. The last replica in sync stays what it is, and answers KAFKA_STORAGE_ERROR: nobody else has
everything. After a restart with a working directory it follows again.

A full disk has lost nothing: there it hands over as one that is about to stop does, and comes back
by itself when there is room.

Invariant: a partition whose log takes no records here has no other in-sync replica, or is being
given up.
"""

import asyncio
import logging
from typing import Final

from odradek.cluster.elections import LogCondition, departing, leaving, partitions_of, returning
from odradek.cluster.state_changes import change_states
from odradek.metadata import (
    ClusterImage,
    ImageChange,
    MetadataCache,
    OutcomeUnknown,
    PartitionImage,
    StoreUnavailable,
)
from odradek.metadata.node_values import PartitionState
from odradek.protocol.types import BrokerId, TopicPartition
from odradek.storage import LogManager

logger = logging.getLogger("odradek.server")

_RETRY_S: Final = 0.1


class OfflineReplicas:
    def __init__(self, broker_id: BrokerId, images: MetadataCache, logs: LogManager) -> None:
        self._id = broker_id
        self._images = images
        self._logs = logs
        self._wakened = asyncio.Event()
        logs.on_directory_failure = self._wakened.set

    def follow(self, change: ImageChange) -> None:
        """Somebody may have elected this broker meanwhile; `Replicas.follow` comes first."""
        if change.topics and (self._logs.offline_directories or self._logs.full_directories):
            self._wakened.set()

    async def run(self) -> None:
        """Gives replicas up as directories fail, until cancelled."""
        if self._logs.offline_directories:
            self._wakened.set()
        while True:
            await self._wakened.wait()
            self._wakened.clear()
            try:
                await self._give_up()
            except (StoreUnavailable, OutcomeUnknown) as error:
                logger.warning("cannot give up the replicas of a failed directory yet: %s", error)
                await asyncio.sleep(_RETRY_S)
                self._wakened.set()

    async def _give_up(self) -> None:
        image = self._images.image
        mine = [
            where
            for where, partition in partitions_of(image, image.topics)
            if self._id in partition.isr
        ]
        lost = [where for where in mine if not self._is_usable(where)]
        full = [where for where in mine if self._is_usable(where) and self._is_full(where)]
        if lost:
            reason = f"a log directory of broker {self._id} is offline"
            await change_states(self._images, lost, self._without_log, reason)
        if full:
            reason = f"a log directory of broker {self._id} is full"
            await change_states(self._images, full, self._without_room, reason)

    def _without_log(self, image: ClusterImage, partition: PartitionImage) -> PartitionState | None:
        if set(partition.isr) <= {self._id}:
            return None
        epoch = image.controller_epoch
        return returning(partition, self._id, image.brokers, epoch, LogCondition.TAIL_MAY_BE_LOST)

    def _without_room(
        self, image: ClusterImage, partition: PartitionImage
    ) -> PartitionState | None:
        epoch = image.controller_epoch
        handed_over = departing(partition, self._id, image.brokers, epoch)
        return handed_over or leaving(partition, self._id, epoch)

    def _is_usable(self, where: TopicPartition) -> bool:
        log = self._logs.get(where)
        return log is not None and log.is_usable

    def _is_full(self, where: TopicPartition) -> bool:
        log = self._logs.get(where)
        return log is not None and not log.takes_appends
