"""DescribeLogDirs (v1-v5): log directories, their disk space, and the size of each partition.

A broker with ten thousand partitions serves other connections in between, so the sizes of two
partitions need not be those of the same moment.
"""

from collections import defaultdict
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
from odradek.world.timeslice import Timeslice


async def handle(
    services: Services, context: RequestContext, request: DescribeLogDirsRequest
) -> DescribeLogDirsResponse:
    requested_partitions = (
        None
        if request.topics is None
        else {
            (topic.topic, partition) for topic in request.topics for partition in topic.partitions
        }
    )
    results = []
    timeslice = Timeslice.of_running_loop()
    for directory in services.logs.directories:
        if not directory.is_online:
            results.append(
                DescribeLogDirsResult(
                    error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=directory.path
                )
            )
            continue
        topics: dict[str, list[DescribeLogDirsPartition]] = defaultdict(list)
        for partition in list(services.replicas.partitions()):
            if timeslice.is_over():
                await timeslice.next_turn()
            log = partition.log
            topic_partition = log.topic_partition
            if log.directory is directory and (
                requested_partitions is None or topic_partition in requested_partitions
            ):
                topics[topic_partition.topic].append(
                    DescribeLogDirsPartition(
                        partition_index=topic_partition.partition,
                        partition_size=log.size_bytes,
                        offset_lag=log.log_end_offset - partition.high_watermark.value,
                    )
                )
        disk = services.world.disk
        results.append(
            DescribeLogDirsResult(
                log_dir=directory.path,
                topics=[
                    DescribeLogDirsTopic(name=name, partitions=partitions)
                    for name, partitions in sorted(topics.items())
                ],
                total_bytes=disk.total_bytes(directory.path),
                usable_bytes=disk.free_bytes(directory.path),
            )
        )
    return DescribeLogDirsResponse(results=results)


def _error_response(request: DescribeLogDirsRequest, error: ErrorCode) -> DescribeLogDirsResponse:
    return DescribeLogDirsResponse(error_code=error)


HANDLER: Final = Handler(
    API, handle, permission=required_on_cluster(Operation.DESCRIBE, _error_response)
)
