"""How a broker leaves so that nobody notices: others lead first, then it stops.

Leadership moves to replicas in sync by the same compare-and-set as any election. From then on
clients are sent to the new leaders, and everyone who still waits here is told so. A follower
leaves the in-sync sets once it fetches no more, so that no producer waits for it.
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


async def hand_over(images: MetadataCache, broker_id: BrokerId) -> int:
    """Lets others lead what this broker leads, where anybody can; returns how many moved."""

    def decide(image: ClusterImage, partition: PartitionImage) -> PartitionState | None:
        return departing(partition, broker_id, image.brokers, image.controller_epoch)

    led = _where(images.image, lambda partition: partition.leader == broker_id)
    moved = await change_states(images, led, decide, f"broker {broker_id} stops")
    if moved < len(led) and len(images.image.brokers) > 1:
        logger.warning(
            "%s nobody else in sync: no leader until broker %d is back",
            counted(len(led) - moved, "partition has", "partitions have"),
            broker_id,
        )
    return moved


async def leave_in_sync_sets(images: MetadataCache, broker_id: BrokerId) -> int:
    """Takes this broker out of every in-sync set that another one leads."""

    def decide(image: ClusterImage, partition: PartitionImage) -> PartitionState | None:
        return leaving(partition, broker_id, image.controller_epoch)

    followed = _where(images.image, lambda partition: broker_id in partition.isr)
    return await change_states(images, followed, decide, f"broker {broker_id} stops")


def _where(image: ClusterImage, wanted: Callable[[PartitionImage], bool]) -> list[TopicPartition]:
    return [where for where, one in partitions_of(image, image.topics) if wanted(one)]
