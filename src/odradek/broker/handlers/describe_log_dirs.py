"""DescribeLogDirs (v1-v5): log directories, their disk space, and the size of each partition.

The handler yields to other tasks while it goes over many partitions, so the response is not a
snapshot: two sizes may be from different moments. Replicas do not move between log directories, and
directories cannot be cordoned, so `is_future_key` and `is_cordoned` are always false.
"""

from collections import defaultdict
from collections.abc import Mapping
from typing import Final

from odradek.broker.handlers import Handler
from odradek.broker.permissions import required_on_cluster
from odradek.broker.services import RequestContext, Services
from odradek.protocol.acls import Operation
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.describe_log_dirs import (
    API,
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from odradek.protocol.types import TopicPartition
from odradek.storage.log_directory import LogDirectory
from odradek.world.timeslice import Timeslice

_PartitionsByTopic = dict[str, list[DescribeLogDirsPartition]]


async def handle(
    services: Services, context: RequestContext, request: DescribeLogDirsRequest
) -> DescribeLogDirsResponse:
    topics_by_directory = await _describe_partitions(services, _requested_partitions(request))
    return DescribeLogDirsResponse(
        results=[
            _describe_directory(services, directory, topics_by_directory.get(directory.path, {}))
            for directory in services.logs.directories
        ]
    )


def _requested_partitions(request: DescribeLogDirsRequest) -> frozenset[TopicPartition] | None:
    """Returns the partitions that the request asks for, or None if it asks for all of them."""
    if request.topics is None:
        return None
    return frozenset(
        TopicPartition(topic.topic, partition)
        for topic in request.topics
        for partition in topic.partitions
    )


async def _describe_partitions(
    services: Services, requested: frozenset[TopicPartition] | None
) -> Mapping[str, _PartitionsByTopic]:
    """Describes the requested partitions, by the path of their log directory."""
    topics_by_directory: dict[str, _PartitionsByTopic] = defaultdict(lambda: defaultdict(list))
    timeslice = Timeslice.of_running_loop()
    for partition in list(services.replicas.partitions()):
        if timeslice.is_over():
            await timeslice.next_turn()
        log = partition.log
        topic, index = log.topic_partition
        if requested is None or log.topic_partition in requested:
            topics_by_directory[log.directory.path][topic].append(
                DescribeLogDirsPartition(
                    partition_index=index,
                    partition_size=log.size_bytes,
                    offset_lag=log.log_end_offset - partition.high_watermark.value,
                )
            )
    return topics_by_directory


def _describe_directory(
    services: Services, directory: LogDirectory, topics: _PartitionsByTopic
) -> DescribeLogDirsResult:
    if not directory.is_online:
        return DescribeLogDirsResult(
            error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=directory.path
        )
    disk = services.world.disk
    return DescribeLogDirsResult(
        log_dir=directory.path,
        topics=[
            DescribeLogDirsTopic(name=name, partitions=partitions)
            for name, partitions in sorted(topics.items())
        ],
        total_bytes=disk.total_bytes(directory.path),
        usable_bytes=disk.free_bytes(directory.path),
    )


def _error_response(request: DescribeLogDirsRequest, error: ErrorCode) -> DescribeLogDirsResponse:
    return DescribeLogDirsResponse(error_code=error)


HANDLER: Final = Handler(
    API, handle, permission=required_on_cluster(Operation.DESCRIBE, _error_response)
)
