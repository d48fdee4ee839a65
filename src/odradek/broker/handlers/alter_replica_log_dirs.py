"""AlterReplicaLogDirs (v1-v2): chooses the log directory of replicas that do not exist yet.

A replica that is in the directory already stays there. A replica that this broker does not have yet
will be created there, and the error says that it is not available, as Kafka does. Not done: a
replica is not moved from one directory to another; that is refused.
"""

from collections import defaultdict
from collections.abc import Mapping
from typing import Final

from odradek.broker.handlers import Handler
from odradek.broker.permissions import required_on_cluster
from odradek.broker.services import RequestContext, Services
from odradek.protocol.acls import Operation
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.alter_replica_log_dirs import (
    API,
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from odradek.protocol.types import TopicPartition
from odradek.storage.log_directory import LogDirectory
from odradek.world.timeslice import Timeslice

_PARTITIONS_PER_STEP: Final = 200


async def handle(
    services: Services, context: RequestContext, request: AlterReplicaLogDirsRequest
) -> AlterReplicaLogDirsResponse:
    timeslice = Timeslice.of_running_loop()
    directories = {directory.path: directory for directory in services.logs.directories}
    results: dict[str, list[AlterReplicaLogDirPartitionResult]] = defaultdict(list)
    for log_dir in request.dirs:
        directory = directories.get(log_dir.path.rstrip("/") or "/")
        for topic in log_dir.topics:
            if timeslice.is_over():
                await timeslice.next_turn()
            async for indexes in timeslice.batches(topic.partitions, _PARTITIONS_PER_STEP):
                results[topic.name] += [
                    AlterReplicaLogDirPartitionResult(
                        partition_index=index,
                        error_code=_place(services, TopicPartition(topic.name, index), directory),
                    )
                    for index in indexes
                ]
    return _response(results)


def _error_response(
    request: AlterReplicaLogDirsRequest, error: ErrorCode
) -> AlterReplicaLogDirsResponse:
    results: dict[str, list[AlterReplicaLogDirPartitionResult]] = defaultdict(list)
    for directory in request.dirs:
        for topic in directory.topics:
            results[topic.name] += [
                AlterReplicaLogDirPartitionResult(partition_index=index, error_code=error)
                for index in topic.partitions
            ]
    return _response(results)


def _response(
    results: Mapping[str, list[AlterReplicaLogDirPartitionResult]],
) -> AlterReplicaLogDirsResponse:
    return AlterReplicaLogDirsResponse(
        results=[
            AlterReplicaLogDirTopicResult(topic_name=name, partitions=partitions)
            for name, partitions in results.items()
        ]
    )


def _place(
    services: Services, topic_partition: TopicPartition, directory: LogDirectory | None
) -> ErrorCode:
    if directory is None:
        return ErrorCode.LOG_DIR_NOT_FOUND
    if not directory.is_online:
        return ErrorCode.KAFKA_STORAGE_ERROR
    log = services.logs.get(topic_partition)
    if log is None:
        services.logs.prefer_directory(topic_partition, directory)
        return ErrorCode.REPLICA_NOT_AVAILABLE
    if log.directory is directory:
        return ErrorCode.NONE
    # A storage error would make clients try again.
    return ErrorCode.UNSUPPORTED_VERSION


HANDLER: Final = Handler(
    API, handle, permission=required_on_cluster(Operation.ALTER, _error_response)
)
