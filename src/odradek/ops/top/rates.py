"""Two samples of a cluster give its figures: a rate is the growth of a counter between them.

Without a management port, records a second are the growth of end offsets, and bytes a second are
the growth of the leader's log. The latter is not known while retention or compaction make the log
smaller. A counter that went back belongs to a broker that was started again, so its rate is not
known once.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from odradek.client.admin.broker_types import LogDirectory
from odradek.client.cluster_view import Broker, Topic
from odradek.ops.top import management
from odradek.ops.top.figures import BrokerFigures, PartitionFigures, TopicFigures, total
from odradek.ops.top.management import Readings, growth
from odradek.ops.top.sampling import ClusterSample
from odradek.protocol.types import BrokerId, TopicPartition


@dataclass(frozen=True, slots=True)
class Moment:
    """A sample, and what the management ports said at about the same time."""

    sample: ClusterSample
    readings: Mapping[int, Readings] = field(default_factory=dict)


def partition_figures(before: Moment | None, now: Moment) -> list[PartitionFigures]:
    sample = now.sample
    sizes = sample.leader_sizes()
    ends_before: Mapping[TopicPartition, int] = {}
    sizes_before: Mapping[TopicPartition, int] = {}
    passed_s = 0.0
    if before is not None:
        ends_before, sizes_before = before.sample.ends, before.sample.leader_sizes()
        passed_s = sample.at_s - before.sample.at_s
    return [
        PartitionFigures(
            topic.name,
            index,
            partition.leader,
            partition.replicas,
            partition.in_sync,
            growth(sizes_before.get(key), sizes.get(key), passed_s),
            growth(ends_before.get(key), sample.ends.get(key), passed_s),
            sample.ends.get(key),
            sizes.get(key),
        )
        for topic in sample.topics.values()
        for index, partition in topic.partitions.items()
        for key in (TopicPartition(topic.name, index),)
    ]


def topic_figures(now: Moment, partitions: list[PartitionFigures]) -> list[TopicFigures]:
    by_topic: dict[str, list[PartitionFigures]] = {}
    for partition in partitions:
        by_topic.setdefault(partition.topic, []).append(partition)
    measured = {
        name: topic_rates(name, now)
        for name in (management.BYTES_IN, management.BYTES_OUT, management.MESSAGES_IN)
    }
    return [
        _topic(topic, by_topic.get(topic.name, []), measured)
        for topic in now.sample.topics.values()
    ]


def _topic(
    topic: Topic, partitions: list[PartitionFigures], measured: dict[str, dict[str, float]]
) -> TopicFigures:
    bytes_in = measured[management.BYTES_IN].get(topic.name)
    ends = [partition.end_offset for partition in partitions if partition.end_offset is not None]
    return TopicFigures(
        topic.name,
        len(topic.partitions),
        max((len(partition.replicas) for partition in partitions), default=0),
        sum(partition.is_under_replicated for partition in partitions),
        sum(partition.leader < 0 for partition in partitions),
        total([partition.bytes_in for partition in partitions]) if bytes_in is None else bytes_in,
        measured[management.BYTES_OUT].get(topic.name),
        total([partition.messages_in for partition in partitions]),
        sum(ends) if ends else None,
        total([partition.log_bytes for partition in partitions]),
    )


def topic_rates(name: str, now: Moment) -> dict[str, float]:
    """Returns the rate of a counter by topic, summed over the brokers. A topic is left out if one
    of the brokers that lead it could not be read twice: the sum would be too small."""
    rates: dict[str, float] = {}
    for readings in now.readings.values():
        for topic, rate in readings.rates_by(name, "topic").items():
            rates[topic] = rates.get(topic, 0.0) + rate
    measured = {broker for broker, readings in now.readings.items() if readings.before is not None}
    return {
        topic.name: rates.get(topic.name, 0.0)
        for topic in now.sample.topics.values()
        if all(
            partition.leader in measured or partition.leader < 0
            for partition in topic.partitions.values()
        )
    }


def broker_figures(
    brokers_before: Mapping[int, Broker], now: Moment, partitions: list[PartitionFigures]
) -> list[BrokerFigures]:
    """Returns the brokers that are there, and those that were there in the sample before."""
    sample = now.sample
    brokers = {**brokers_before, **sample.brokers}
    led: dict[int, list[PartitionFigures]] = {}
    replicas: dict[int, int] = {}
    for partition in partitions:
        led.setdefault(partition.leader, []).append(partition)
        for broker in partition.replicas:
            replicas[broker] = replicas.get(broker, 0) + 1
    for broker in replicas.keys() - brokers.keys():
        # It has replicas, and was gone before the first sample.
        brokers[broker] = Broker(BrokerId(broker), "", 0)
    figures = []
    for broker in sorted(brokers):
        own = led.get(broker, [])
        readings = now.readings.get(broker)
        address = f"{brokers[broker].host}:{brokers[broker].port}" if brokers[broker].host else ""
        plain = BrokerFigures(
            broker,
            address,
            brokers[broker].rack,
            broker == sample.controller,
            _state(broker in sample.brokers, readings),
            len(own),
            replicas.get(broker, 0),
            sum(one.is_under_replicated for one in own),
            total([one.bytes_in for one in own]),
            messages_in=total([one.messages_in for one in own]),
        )
        plain = _with_disk(plain, sample.directories.get(broker))
        figures.append(plain if readings is None else _measured(plain, readings))
    return figures


def _state(is_there: bool, readings: Readings | None) -> str:
    if not is_there:
        return "gone"
    if readings is None:
        return "running"
    state, is_ready = readings.now.state, readings.now.is_ready
    return "not ready" if state == "running" and not is_ready else state


def _measured(plain: BrokerFigures, readings: Readings) -> BrokerFigures:
    """Returns the figures with those of the management port."""
    now = readings.now
    connections = now.whole(management.CONNECTIONS)
    return replace(
        plain,
        bytes_in=readings.rate(management.BYTES_IN),
        bytes_out=readings.rate(management.BYTES_OUT),
        messages_in=readings.rate(management.MESSAGES_IN),
        requests=readings.rate(management.REQUESTS),
        produce_p99_ms=now.value(management.TOTAL_TIME, request="Produce", quantile="0.99"),
        cpu=readings.rate(management.CPU),
        memory_bytes=now.value(management.MEMORY),
        connections=None if connections is None else int(connections),
        figures_from="management",
    )


def _with_disk(plain: BrokerFigures, directories: list[LogDirectory] | None) -> BrokerFigures:
    if directories is None:
        return plain
    known = [directory for directory in directories if directory.total_bytes >= 0]
    # Directories on one disk say the same of it, so the fullest counts.
    fullest = min(known, key=lambda one: one.usable_bytes, default=None)
    return replace(
        plain,
        log_bytes=sum(
            replica.size_bytes
            for directory in directories
            for replica in directory.replicas.values()
        ),
        disk_free_bytes=None if fullest is None else fullest.usable_bytes,
        disk_total_bytes=None if fullest is None else fullest.total_bytes,
    )
