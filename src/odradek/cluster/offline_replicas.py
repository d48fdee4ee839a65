"""Gives up the replicas of this broker whose log is offline or takes no records.

A log is offline if its directory failed, or if an invariant of its replica was violated
(`Replica.go_offline`). The broker goes on with its other logs. Where it led, another replica in
sync is elected. Where it followed, it leaves the ISR, so that no producer waits for it and
it is not elected. The last replica in sync keeps its role and answers KAFKA_STORAGE_ERROR, because
no other replica has every committed record. After a restart with a working directory the broker
follows again.

A full disk has lost nothing: the broker hands its leadership over as in a controlled shutdown, and
follows again by itself when there is room.

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
    def __init__(self, broker_id: BrokerId, cache: MetadataCache, logs: LogManager) -> None:
        self._id = broker_id
        self._cache = cache
        self._logs = logs
        self._wakened = asyncio.Event()
        logs.on_directory_failure.add(lambda _: self._wakened.set())
        logs.on_log_failure.add(self._log_failed)
        self._has_failed_logs = False

    def _log_failed(self, topic_partition: TopicPartition) -> None:
        self._has_failed_logs = True
        self._wakened.set()

    def follow(self, change: ImageChange) -> None:
        """Takes over a change of the image, in which this broker may have been elected for a log
        that is offline. `Replicas.follow` comes first."""
        if change.topics and (
            self._has_failed_logs or self._logs.offline_directories or self._logs.full_directories
        ):
            self._wakened.set()

    async def run(self) -> None:
        """Gives replicas up as logs and directories fail, until cancelled."""
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
        image = self._cache.image
        held = [
            topic_partition
            for topic_partition, partition in partitions_of(image, image.topics)
            if self._id in partition.isr
        ]
        offline = [replica for replica in held if not self._is_usable(replica)]
        full = [replica for replica in held if self._is_usable(replica) and self._is_full(replica)]
        failed = [replica for replica in offline if self._has_failed(replica)]
        lost = [replica for replica in offline if not self._has_failed(replica)]
        if failed:
            reason = f"an invariant was violated on broker {self._id}"
            await change_states(self._cache, failed, self._without_log, reason)
        if lost:
            reason = f"a log directory of broker {self._id} is offline"
            await change_states(self._cache, lost, self._without_log, reason)
        if full:
            reason = f"a log directory of broker {self._id} is full"
            await change_states(self._cache, full, self._without_room, reason)

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

    def _is_usable(self, topic_partition: TopicPartition) -> bool:
        log = self._logs.get(topic_partition)
        return log is not None and log.is_usable

    def _has_failed(self, topic_partition: TopicPartition) -> bool:
        log = self._logs.get(topic_partition)
        return log is not None and log.has_failed

    def _is_full(self, topic_partition: TopicPartition) -> bool:
        log = self._logs.get(topic_partition)
        return log is not None and not log.takes_appends
