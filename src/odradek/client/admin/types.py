"""The parameters and results of admin calls."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple, Self

from odradek.client.cluster_view import Broker
from odradek.config.operation import ConfigOperation
from odradek.protocol.messages.describe_configs import DescribeConfigsResourceResult
from odradek.protocol.messages.describe_log_dirs import DescribeLogDirsResult
from odradek.protocol.types import BrokerId, TopicPartition


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


class ConfigType(IntEnum):
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigResource(NamedTuple):
    """A resource that has settings. A broker with an empty name is the default of all brokers."""

    type: ConfigType
    name: str


class ConfigSource(IntEnum):
    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    CLIENT_METRICS_CONFIG = 7
    GROUP_CONFIG = 8

    @classmethod
    def _missing_(cls, value: object) -> "ConfigSource":
        return cls.UNKNOWN


class ConfigSynonym(NamedTuple):
    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    name: str
    value: str | None
    source: ConfigSource
    is_read_only: bool
    is_sensitive: bool
    type: int
    synonyms: tuple[ConfigSynonym, ...]
    documentation: str | None

    @classmethod
    def from_answer(cls, answer: DescribeConfigsResourceResult) -> Self:
        return cls(
            name=answer.name,
            value=answer.value,
            source=ConfigSource(answer.config_source),
            is_read_only=answer.read_only,
            is_sensitive=answer.is_sensitive,
            type=answer.config_type,
            synonyms=tuple(
                ConfigSynonym(synonym.name, synonym.value, ConfigSource(synonym.source))
                for synonym in answer.synonyms
            ),
            documentation=answer.documentation,
        )

    @property
    def is_default(self) -> bool:
        return self.source is ConfigSource.DEFAULT_CONFIG


class ConfigChange(NamedTuple):
    name: str
    value: str | None = None
    operation: ConfigOperation = ConfigOperation.SET


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    cluster_id: str
    controller: BrokerId
    brokers: tuple[Broker, ...]
    fenced: frozenset[BrokerId]


class LogDirectoryReplica(NamedTuple):
    size_bytes: int
    offset_lag: int
    is_future: bool


@dataclass(frozen=True, slots=True)
class LogDirectory:
    """A broker's log directory. Bytes are -1 if the broker is too old to say."""

    path: str
    error_code: int
    total_bytes: int
    usable_bytes: int
    replicas: dict[TopicPartition, LogDirectoryReplica]

    @classmethod
    def from_answer(cls, answer: DescribeLogDirsResult) -> Self:
        return cls(
            path=answer.log_dir,
            error_code=answer.error_code,
            total_bytes=answer.total_bytes,
            usable_bytes=answer.usable_bytes,
            replicas={
                TopicPartition(topic.name, partition.partition_index): LogDirectoryReplica(
                    partition.partition_size, partition.offset_lag, partition.is_future_key
                )
                for topic in answer.topics
                for partition in topic.partitions
            },
        )
