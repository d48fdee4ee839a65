"""The parameters of admin calls about topics."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create; -1 leaves a number to the broker's defaults.

    `assignments` names the replicas of each partition, leader first, in place of both numbers.
    """

    name: str
    partitions: int = -1
    replication_factor: int = -1
    assignments: Mapping[int, Sequence[int]] = field(default_factory=dict)
    configs: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NewPartitions:
    """The new number of partitions of a topic, and the replicas of the new partitions if given."""

    total: int
    assignments: Sequence[Sequence[int]] | None = None
