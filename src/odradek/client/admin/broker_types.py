"""The results of admin calls about brokers."""

from dataclasses import dataclass
from typing import NamedTuple, Self

from odradek.client.cluster_view import Broker
from odradek.protocol.messages.describe_log_dirs import DescribeLogDirsResult
from odradek.protocol.types import BrokerId, TopicPartition


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """The brokers of a cluster; `fenced` are those that may not lead yet, if asked for."""

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
