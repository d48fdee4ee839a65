"""Samples of a small cluster for tests, made without a broker."""

from collections.abc import Mapping, Sequence

from odradek.client.admin.broker_types import LogDirectory, LogDirectoryReplica
from odradek.client.cluster_view import Broker, Partition, Topic
from odradek.ops.top.sampling import ClusterSample
from odradek.protocol.types import BrokerId, LeaderEpoch, TopicId, TopicPartition

Layout = Mapping[str, Sequence[tuple[int, Sequence[int], Sequence[int]]]]
"""Leader, replicas and in-sync replicas of each partition."""

ORDERS: Layout = {"orders": [(1, (1, 2), (1, 2)), (2, (2, 1), (2, 1))]}


def topics(layout: Layout) -> dict[str, Topic]:
    return {
        name: Topic(
            name,
            TopicId(name.encode().ljust(16)[:16]),
            False,
            {
                index: Partition(
                    index,
                    BrokerId(leader),
                    LeaderEpoch(0),
                    tuple(map(BrokerId, replicas)),
                    tuple(map(BrokerId, in_sync)),
                    (),
                )
                for index, (leader, replicas, in_sync) in enumerate(partitions)
            },
        )
        for name, partitions in layout.items()
    }


def sample(
    at_s: float,
    *,
    brokers: Sequence[int] = (1, 2),
    controller: int = 1,
    layout: Layout = ORDERS,
    ends: Mapping[tuple[str, int], int] | None = None,
    sizes: Mapping[tuple[str, int], int] | None = None,
) -> ClusterSample:
    replicas = {
        TopicPartition(*key): LogDirectoryReplica(size, 0, False)
        for key, size in (sizes or {}).items()
    }
    directory = LogDirectory("/data", 0, 1000, 250, replicas)
    return ClusterSample(
        round(at_s * 1000),
        at_s,
        "cluster",
        controller,
        {number: Broker(BrokerId(number), "host", 9000 + number) for number in brokers},
        topics(layout),
        {TopicPartition(*key): end for key, end in (ends or {}).items()},
        {number: [directory] for number in brokers if sizes is not None},
    )
