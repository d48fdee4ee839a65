"""Reads a live cluster into a `ClusterModel`, with nothing but Kafka's admin requests.

Sizes come from DescribeLogDirs. Byte rates come from two readings of the sizes, or from whoever
knows them better, such as a program that reads metrics.
"""

import asyncio
from collections.abc import Mapping

from odradek.client.admin.broker_types import LogDirectory
from odradek.client.admin.brokers import BrokerCalls
from odradek.client.admin.configs import ConfigCalls
from odradek.client.admin.partitions import PartitionCalls
from odradek.client.admin.topics import TopicCalls
from odradek.ops.balance.model import BrokerModel, ClusterModel, PartitionModel
from odradek.protocol.types import BrokerId, TopicPartition

Rates = Mapping[TopicPartition, float]
_Directories = Mapping[BrokerId, list[LogDirectory]]


class BalanceAdmin(TopicCalls, BrokerCalls, ConfigCalls, PartitionCalls):
    """The admin calls that balance needs."""


async def read_model(
    admin: BalanceAdmin, *, measure_s: float = 0.0, rates: Rates | None = None
) -> ClusterModel:
    """Returns the cluster as it is now. Without `rates`, sizes are read twice, `measure_s` apart;
    with 0, rates are unknown, and no goal uses them."""
    described = await admin.describe_cluster()
    ids = [int(broker.id) for broker in described.brokers]
    first = await admin.describe_log_dirs(ids)
    latest = first
    if rates is None and measure_s > 0:
        clock_s = asyncio.get_running_loop().time
        began_s = clock_s()
        await asyncio.sleep(measure_s)
        latest = await admin.describe_log_dirs(ids)
        rates = _rates(sizes(first), sizes(latest), clock_s() - began_s)
    topics = await admin.list_topics(include_internal=True)
    known = sizes(latest)
    partitions = {}
    for topic in topics.values():
        for partition in topic.partitions.values():
            name = TopicPartition(topic.name, partition.index)
            partitions[name] = PartitionModel(
                name,
                tuple(map(int, partition.replicas)),
                int(partition.leader),
                known.get(name, 0),
                0.0 if rates is None else rates.get(name, 0.0),
            )
    brokers = {
        int(broker.id): BrokerModel(
            int(broker.id), broker.rack, _capacity(latest.get(broker.id, []))
        )
        for broker in described.brokers
    }
    for partition_model in partitions.values():
        for broker_id in partition_model.replicas:
            brokers.setdefault(broker_id, BrokerModel(broker_id, is_alive=False))
    return ClusterModel(
        dict(sorted(brokers.items())),
        partitions,
        rates_known=rates is not None,
        cluster_id=described.cluster_id,
    )


def sizes(directories: _Directories) -> dict[TopicPartition, int]:
    """Returns the bytes of each partition, of its largest replica: one that is new has copied
    less."""
    result: dict[TopicPartition, int] = {}
    for listed in directories.values():
        for directory in listed:
            for partition, replica in directory.replicas.items():
                result[partition] = max(result.get(partition, 0), replica.size_bytes)
    return result


def _rates(
    before: Mapping[TopicPartition, int], after: Mapping[TopicPartition, int], passed_s: float
) -> dict[TopicPartition, float]:
    """Returns bytes a second. A log that has become shorter was cleaned meanwhile: its rate is
    unknown, and taken as 0."""
    return {
        partition: max(0.0, (size - before.get(partition, 0)) / max(passed_s, 1e-3))
        for partition, size in after.items()
    }


def _capacity(directories: list[LogDirectory]) -> int | None:
    """Returns what the logs use and what is free. Directories with the same free bytes are taken
    for one file system, so that it is not counted twice."""
    if not directories or any(directory.usable_bytes < 0 for directory in directories):
        return None
    used = sum(replica.size_bytes for listed in directories for replica in listed.replicas.values())
    return used + sum({directory.usable_bytes for directory in directories})
