"""Elections that somebody asked for: of preferred leaders, or of any that there are."""

from collections.abc import Sequence

from odradek.cluster.controller import LongestLog, elect_unclean
from odradek.cluster.elections import needs_unclean, preferred
from odradek.cluster.state_changes import change_states
from odradek.cluster.store_errors import as_api_errors
from odradek.metadata import ClusterImage, MetadataCache, PartitionImage
from odradek.metadata.node_values import PartitionState
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.types import TopicPartition

Results = dict[TopicPartition, ApiError | None]


async def elect_preferred(images: MetadataCache, wanted: Sequence[TopicPartition]) -> Results:
    """Lets the first replicas lead; says for each partition why not, where it cannot."""
    results: Results = {where: _refusal(images.image, where) for where in wanted}

    def decide(image: ClusterImage, partition: PartitionImage) -> PartitionState | None:
        return preferred(partition, image.brokers, image.controller_epoch)

    possible = [where for where, refusal in results.items() if refusal is None]
    with as_api_errors():
        await change_states(images, possible, decide, "its election was asked for")
    for where in possible:
        partition = images.image.partition(*where)
        if partition is not None and partition.leader != partition.replicas[0]:
            results[where] = ApiError(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE)
    return results


def _refusal(image: ClusterImage, where: TopicPartition) -> ApiError | None:
    partition = image.partition(*where)
    if partition is None:
        return _unknown(where)
    if partition.leader == partition.replicas[0]:
        return ApiError(ErrorCode.ELECTION_NOT_NEEDED)
    if preferred(partition, image.brokers, image.controller_epoch) is None:
        return ApiError(
            ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
            f"Broker {partition.replicas[0]} is not there, or not in sync.",
        )
    return None


async def elect_any(
    images: MetadataCache, wanted: Sequence[TopicPartition], longest_log: LongestLog
) -> Results:
    """Gives partitions without a leader one, the replica with the longest log, at the cost of
    what only the others have."""
    results: Results = {}
    for where in wanted:
        image = images.image
        partition = image.partition(*where)
        if partition is None:
            results[where] = _unknown(where)
        elif partition.leader in image.brokers:
            results[where] = ApiError(ErrorCode.ELECTION_NOT_NEEDED)
        else:
            candidates = needs_unclean(partition, image.brokers, is_asked_for=True)
            with as_api_errors():
                elected = bool(candidates) and await elect_unclean(
                    images, where, candidates, longest_log
                )
            results[where] = (
                None
                if elected
                else ApiError(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, "No replica is alive.")
            )
    return results


def _unknown(where: TopicPartition) -> ApiError:
    return ApiError(
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        f"There is no partition {where.topic}-{where.partition}.",
    )
