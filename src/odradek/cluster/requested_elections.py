"""Elections that a client asks for (ElectLeaders): of preferred leaders, or unclean ones."""

from collections.abc import Sequence

from odradek.cluster.controller import LongestLog, elect_unclean
from odradek.cluster.elections import preferred, unclean_candidates
from odradek.cluster.state_changes import change_states
from odradek.cluster.store_errors import as_api_errors
from odradek.metadata import ClusterImage, MetadataCache, PartitionImage
from odradek.metadata.node_values import PartitionState
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.types import TopicPartition

Results = dict[TopicPartition, ApiError | None]


async def elect_preferred(cache: MetadataCache, partitions: Sequence[TopicPartition]) -> Results:
    """Elects the preferred leader of each partition, and returns an error for each failure."""
    results: Results = {
        topic_partition: _election_error(cache.image, topic_partition)
        for topic_partition in partitions
    }

    def decide(image: ClusterImage, partition: PartitionImage) -> PartitionState | None:
        return preferred(partition, image.brokers, image.controller_epoch)

    possible = [topic_partition for topic_partition, error in results.items() if error is None]
    with as_api_errors():
        await change_states(cache, possible, decide, "its election was asked for")
    for topic_partition in possible:
        partition = cache.image.partition(*topic_partition)
        if partition is not None and partition.leader != partition.replicas[0]:
            results[topic_partition] = ApiError(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE)
    return results


def _election_error(image: ClusterImage, topic_partition: TopicPartition) -> ApiError | None:
    partition = image.partition(*topic_partition)
    if partition is None:
        return _unknown(topic_partition)
    if partition.leader == partition.replicas[0]:
        return ApiError(ErrorCode.ELECTION_NOT_NEEDED)
    if preferred(partition, image.brokers, image.controller_epoch) is None:
        return ApiError(
            ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
            f"Broker {partition.replicas[0]} is not there, or not in sync.",
        )
    return None


async def elect_any(
    cache: MetadataCache, partitions: Sequence[TopicPartition], longest_log: LongestLog
) -> Results:
    """Elects the replica with the longest log for partitions without a leader. Records that only
    the other replicas have are lost."""
    results: Results = {}
    for topic_partition in partitions:
        image = cache.image
        partition = image.partition(*topic_partition)
        if partition is None:
            results[topic_partition] = _unknown(topic_partition)
        elif partition.leader in image.brokers:
            results[topic_partition] = ApiError(ErrorCode.ELECTION_NOT_NEEDED)
        else:
            candidates = unclean_candidates(
                partition, image.brokers, is_enabled=False, is_asked_for=True
            )
            with as_api_errors():
                elected = bool(candidates) and await elect_unclean(
                    cache, topic_partition, candidates, longest_log
                )
            results[topic_partition] = (
                None
                if elected
                else ApiError(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, "No replica is alive.")
            )
    return results


def _unknown(topic_partition: TopicPartition) -> ApiError:
    return ApiError(
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        f"There is no partition {topic_partition.topic}-{topic_partition.partition}.",
    )
