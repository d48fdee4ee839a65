"""Controlled shutdown: other brokers take over the leadership before this broker stops.

Leadership moves to replicas in sync by the same compare-and-set as any election. From then on
clients are sent to the new leaders, and requests that still wait here are told so. A follower
leaves the ISRs when it no longer fetches, so that no producer waits for it.

Two brokers may stop at the same time, and one may hand partitions over to the other. So the caller
calls `hand_over` again after `leave_isrs`: from then on this broker is in no ISR that another one
leads, and nobody can hand anything over to it.
"""

import logging
from collections.abc import Callable

from odradek.cluster.elections import departing, leaving, partitions_of
from odradek.cluster.state_changes import change_states
from odradek.metadata import ClusterImage, MetadataCache, PartitionImage
from odradek.metadata.node_values import PartitionState
from odradek.protocol.types import BrokerId, TopicPartition
from odradek.wording import counted

logger = logging.getLogger("odradek.server")


async def hand_over(cache: MetadataCache, broker_id: BrokerId) -> int:
    """Hands the leadership of this broker's partitions over to other replicas in sync; returns how
    many partitions have a new leader."""

    def decide(image: ClusterImage, partition: PartitionImage) -> PartitionState | None:
        return departing(partition, broker_id, image.brokers, image.controller_epoch)

    led = _led(cache.image, broker_id)
    return await change_states(cache, led, decide, f"broker {broker_id} stops")


def warn_of_leaderless(cache: MetadataCache, broker_id: BrokerId) -> None:
    """Logs how many partitions nobody could take over."""
    left = len(_led(cache.image, broker_id))
    if left and len(cache.image.brokers) > 1:
        logger.warning(
            "%s no other replica in sync: no leader until broker %d is back",
            counted(left, "partition has", "partitions have"),
            broker_id,
        )


async def leave_isrs(cache: MetadataCache, broker_id: BrokerId) -> int:
    """Removes this broker from the ISRs of partitions that other brokers lead."""

    def decide(image: ClusterImage, partition: PartitionImage) -> PartitionState | None:
        return leaving(partition, broker_id, image.controller_epoch)

    followed = _partitions(cache.image, lambda partition: broker_id in partition.isr)
    return await change_states(cache, followed, decide, f"broker {broker_id} stops")


def _led(image: ClusterImage, broker_id: BrokerId) -> list[TopicPartition]:
    return _partitions(image, lambda partition: partition.leader == broker_id)


def _partitions(
    image: ClusterImage, is_selected: Callable[[PartitionImage], bool]
) -> list[TopicPartition]:
    return [
        topic_partition
        for topic_partition, partition in partitions_of(image, image.topics)
        if is_selected(partition)
    ]
