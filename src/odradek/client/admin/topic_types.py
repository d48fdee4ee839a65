"""The parameters of admin calls about topics."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from odradek.client import arguments
from odradek.client.cluster_view import Topic
from odradek.client.habits import LISTED_TOPICS, answering_constructor, answers

SettingValue = str | int | float | None
"""A number is sent as text, true and false in small letters; None is the default."""


@answers(LISTED_TOPICS)
class ListedTopics(dict[str, Topic]):
    """What `list_topics` returns: topics by name."""

    __slots__ = ()


@answering_constructor(
    topic="write NewTopic(name, ...)",
    num_partitions="write NewTopic(name, partitions=3)",
    config="write NewTopic(name, configs={...})",
    topic_configs="write NewTopic(name, configs={...})",
    replica_assignment="write NewTopic(name, assignments={0: [1, 2]})",
    replica_assignments="write NewTopic(name, assignments={0: [1, 2]})",
)
@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create; -1 leaves a number to the broker's defaults.

    `assignments` names the replicas of each partition, leader first, in place of both numbers.
    """

    name: str
    partitions: int = -1
    replication_factor: int = -1
    assignments: Mapping[int, Sequence[int]] = field(default_factory=dict)
    configs: Mapping[str, SettingValue] = field(default_factory=dict)

    def __post_init__(self) -> None:
        call = "NewTopic()"
        arguments.a_name(self.name, call)
        most = arguments.MAX_INT
        arguments.integer(self.partitions, call, "partitions", at_most=most)
        arguments.integer(self.replication_factor, call, "replication_factor", at_most=most)
        arguments.mapping(self.assignments, call, "assignments={0: [1, 2]}")
        arguments.mapping(self.configs, call, 'configs={"retention.ms": 3_600_000}')


@answering_constructor(
    total_count="write NewPartitions(total=6)",
    new_total_count="write create_partitions({topic: 6})",
    new_assignments="write NewPartitions(total=6, assignments=[[1, 2]])",
    replica_assignment="write NewPartitions(total=6, assignments=[[1, 2]])",
)
@dataclass(frozen=True, slots=True)
class NewPartitions:
    """The new number of partitions of a topic, and the replicas of the new partitions if given."""

    total: int
    assignments: Sequence[Sequence[int]] | None = None

    def __post_init__(self) -> None:
        arguments.integer(self.total, "NewPartitions()", "total", at_most=arguments.MAX_INT)
