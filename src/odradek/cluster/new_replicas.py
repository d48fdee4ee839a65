"""Which replicas new partitions get: as the request assigns them, or where the broker places them.

`topics` asks it before it writes anything. It raises `ApiError` if the partitions are too many, if
an assignment is not valid, or if there are too few brokers.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from odradek.cluster.placement import NotEnoughBrokers, place
from odradek.config.live import LiveSettings
from odradek.metadata import ClusterImage, TopicImage
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.types import BrokerId
from odradek.wording import counted
from odradek.world import Randomness

BROKER_DEFAULT: Final = -1
_MAX_PARTITIONS: Final = 100_000
# Limits the partitions that the broker places for one topic, so that a mistyped number does not
# keep it busy for minutes. Kafka 4 limits a request to the same number (MAX_PARTITIONS_PER_BATCH).
# Partitions with an explicit assignment are limited by the size of the request alone.
_MAX_NEW_PARTITIONS: Final = 10_000

AssignedBrokers = tuple[tuple[BrokerId, ...], ...]
"""The brokers of each partition, the preferred leader first."""


class NewReplicas:
    def __init__(self, settings: LiveSettings, randomness: Randomness) -> None:
        self._settings = settings
        self._randomness = randomness

    def of_topic(
        self,
        image: ClusterImage,
        assignment: Mapping[int, Sequence[BrokerId]],
        partitions: int,
        factor: int,
    ) -> AssignedBrokers:
        """Returns the replicas of a new topic: those of `assignment`, by partition, if it has any.
        Otherwise the broker places them, and for -1 uses its own default."""
        if assignment:
            if partitions != BROKER_DEFAULT or factor != BROKER_DEFAULT:
                raise ApiError(
                    ErrorCode.INVALID_REQUEST,
                    "Give either a replica assignment or numbers of partitions and replicas.",
                )
            if sorted(assignment) != list(range(len(assignment))):
                raise ApiError(
                    ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                    "The assignment must name partitions 0 to N without gaps; "
                    f"it has {counted(len(assignment), 'partition')}.",
                )
            return _checked(image, [assignment[index] for index in sorted(assignment)])
        settings = self._settings.broker
        if partitions == BROKER_DEFAULT:
            partitions = settings.num_partitions
        if factor == BROKER_DEFAULT:
            factor = settings.default_replication_factor
        if not 0 < partitions <= _MAX_PARTITIONS:
            raise ApiError(
                ErrorCode.INVALID_PARTITIONS,
                f"The number of partitions must be 1 to {_MAX_PARTITIONS}, not {partitions}.",
            )
        if factor < 1:
            raise ApiError(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                f"The replication factor must be at least 1, not {factor}.",
            )
        _check_new_partitions(partitions)
        return self._placed(image, partitions, factor, first_partition=0)

    def added(
        self,
        image: ClusterImage,
        topic: TopicImage,
        partitions: int,
        assignment: Sequence[Sequence[BrokerId]] | None,
    ) -> AssignedBrokers:
        """Returns the replicas of the partitions that are missing until the topic has `partitions`
        of them: those of `assignment`, or the broker places them."""
        now = len(topic.partitions)
        if partitions <= now:
            raise ApiError(
                ErrorCode.INVALID_PARTITIONS,
                f"Topic '{topic.name}' has {counted(now, 'partition')}; "
                f"{partitions} would not be an increase.",
            )
        if partitions > _MAX_PARTITIONS:
            raise ApiError(
                ErrorCode.INVALID_PARTITIONS, f"A topic has at most {_MAX_PARTITIONS} partitions."
            )
        if assignment is None:
            _check_new_partitions(partitions - now)
            factor = len(topic.partitions[0].replicas)
            return self._placed(image, partitions - now, factor, first_partition=now)
        if len(assignment) != partitions - now:
            raise ApiError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"The request adds {counted(partitions - now, 'partition')}, but has replica "
                f"assignments for {len(assignment)}.",
            )
        return _checked(image, assignment)

    def _placed(
        self, image: ClusterImage, partitions: int, factor: int, *, first_partition: int
    ) -> AssignedBrokers:
        racks = {broker_id: broker.rack for broker_id, broker in image.brokers.items()}
        try:
            placed = place(
                racks, partitions, factor, self._randomness, first_partition=first_partition
            )
        except NotEnoughBrokers as error:
            raise ApiError(
                ErrorCode.INVALID_REPLICATION_FACTOR, f"Cannot place the replicas: {error}."
            ) from error
        return tuple(tuple(brokers) for brokers in placed)


def _check_new_partitions(count: int) -> None:
    if count > _MAX_NEW_PARTITIONS:
        raise ApiError(
            ErrorCode.POLICY_VIOLATION,
            f"At most {_MAX_NEW_PARTITIONS} partitions can be created at a time, not {count}.",
        )


def _checked(image: ClusterImage, assignment: Sequence[Sequence[BrokerId]]) -> AssignedBrokers:
    factors = {len(brokers) for brokers in assignment}
    if len(factors) != 1 or factors == {0}:
        raise ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "Every partition needs the same number of replicas, at least one.",
        )
    for brokers in assignment:
        if len(set(brokers)) != len(brokers):
            raise ApiError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"The replicas {list(brokers)} contain a broker twice.",
            )
        unknown = [broker for broker in brokers if broker not in image.brokers]
        if unknown:
            message = f"There is no broker {unknown[0]}."
            raise ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
    return tuple(tuple(brokers) for brokers in assignment)
