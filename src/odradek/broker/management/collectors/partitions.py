"""Replicas and logs of this broker, partition by partition, and their sums.

One walk over all partitions fills the series of replication, of logs and of kafka_exporter. Sums
count every partition; series of their own have only as many partitions as
`odradek.metrics.max.partitions` allows.
"""

from collections.abc import Generator

from odradek.broker.management.sources import Sources
from odradek.metadata import ClusterImage, PartitionImage
from odradek.replication.partition import Partition
from odradek.telemetry.catalogue import exporter, logs, process
from odradek.telemetry.catalogue import replication as metrics
from odradek.telemetry.declarations import Collected, Metric

_A_STEP = 50
_SUMS = (
    metrics.LEADERS,
    metrics.OFFLINE_REPLICAS,
    metrics.UNDER_REPLICATED,
    metrics.UNDER_MIN_ISR,
    metrics.AT_MIN_ISR,
    metrics.REASSIGNING,
)


def collect(sources: Sources, into: Collected) -> Generator[None, None, None]:
    services = sources.components.services
    walk = _Walk(sources, into)
    partitions = list(services.replicas.partitions())
    for number, partition in enumerate(partitions):
        if not number % _A_STEP:
            yield
        walk.visit(partition, has_series=number < sources.max_partitions)
    into.add(metrics.PARTITIONS, len(partitions))
    for metric in _SUMS:
        into.add(metric, walk.sums[metric])
    into.add(metrics.MAX_LAG, walk.max_lag, "Replica")
    into.add(process.PARTITIONS_LEFT_OUT, max(len(partitions) - sources.max_partitions, 0))


def collect_isr_changes(sources: Sources, into: Collected) -> Generator[None, None, None]:
    yield
    into.add(metrics.ISR_SHRINKS, sources.leadership.isr_shrinks)
    into.add(metrics.ISR_EXPANDS, sources.leadership.isr_expands)
    into.add(metrics.FAILED_ISR_UPDATES, sources.components.services.isr_changes.failed)


class _Walk:
    """One walk over the partitions: the sums so far, and where samples are added."""

    def __init__(self, sources: Sources, into: Collected) -> None:
        self._into = into
        self._image = sources.image
        self._broker_id = sources.components.services.broker_id
        self.sums: dict[Metric, int] = dict.fromkeys(_SUMS, 0)
        self.max_lag = 0

    def visit(self, partition: Partition, *, has_series: bool) -> None:
        log = partition.log
        topic, index = partition.topic_partition
        labels = (topic, str(index))
        if not log.is_usable:
            self.sums[metrics.OFFLINE_REPLICAS] += 1
        elif has_series:
            rows = self._into.rows
            rows(logs.SIZE).append((labels, log.size_bytes))
            rows(logs.SEGMENTS).append((labels, len(log.segments)))
            rows(logs.START_OFFSET).append((labels, log.log_start_offset))
            rows(logs.END_OFFSET).append((labels, log.log_end_offset))
        state = self._image.partition(topic, index)
        if partition.is_leader:
            if state is not None:
                self._lead(partition, state, labels, has_series=has_series)
        elif log.is_usable and partition.has_role:
            self.max_lag = max(self.max_lag, partition.high_watermark.value - log.log_end_offset)

    def _lead(
        self, partition: Partition, state: PartitionImage, labels: tuple[str, str], *,
        has_series: bool,
    ) -> None:  # fmt: skip
        in_sync, replicas = len(state.isr), len(state.replicas)
        is_under = int(_is_under_replicated(state))
        under_min = int(in_sync < partition.min_in_sync)
        at_min = int(in_sync == partition.min_in_sync)
        sums = self.sums
        sums[metrics.LEADERS] += 1
        sums[metrics.UNDER_REPLICATED] += is_under
        sums[metrics.UNDER_MIN_ISR] += under_min
        sums[metrics.AT_MIN_ISR] += at_min
        sums[metrics.REASSIGNING] += bool(state.adding or state.removing)
        if not has_series:
            return
        rows, high_watermark = self._into.rows, partition.high_watermark.value
        rows(metrics.PARTITION_UNDER_REPLICATED).append((labels, is_under))
        rows(metrics.PARTITION_UNDER_MIN_ISR).append((labels, under_min))
        rows(metrics.PARTITION_AT_MIN_ISR).append((labels, at_min))
        rows(metrics.PARTITION_IN_SYNC).append((labels, in_sync))
        rows(metrics.PARTITION_REPLICAS).append((labels, replicas))
        stable_lag = high_watermark - partition.last_stable.value
        rows(metrics.PARTITION_STABLE_LAG).append((labels, stable_lag))
        rows(metrics.FOLLOWER_LAG).append((labels, _follower_lag(partition)))
        rows(exporter.CURRENT_OFFSET).append((labels, high_watermark))
        rows(exporter.OLDEST_OFFSET).append((labels, partition.log.log_start_offset))
        add_state(self._into, labels, state, self._broker_id)


def add_state(into: Collected, labels: tuple[str, str], state: PartitionImage, leader: int) -> None:
    """Adds what kafka_exporter tells about a partition's replicas: its leader calls it, or the
    controller if it has none."""
    rows = into.rows
    rows(exporter.LEADER).append((labels, leader))
    rows(exporter.REPLICAS).append((labels, len(state.replicas)))
    rows(exporter.IN_SYNC_REPLICAS).append((labels, len(state.isr)))
    rows(exporter.UNDER_REPLICATED).append((labels, int(_is_under_replicated(state))))
    is_preferred = bool(state.replicas) and state.replicas[0] == leader
    rows(exporter.LEADER_IS_PREFERRED).append((labels, int(is_preferred)))


def has_leader(image: ClusterImage, state: PartitionImage) -> bool:
    return state.leader in image.brokers


def _is_under_replicated(state: PartitionImage) -> bool:
    """Returns whether a replica is missing in the ISR. One that a reassignment adds does not
    count, as in Kafka."""
    if not state.adding:
        return len(state.replicas) > len(state.isr)
    return len([one for one in state.replicas if one not in state.adding]) > len(
        [one for one in state.isr if one not in state.adding]
    )


def _follower_lag(partition: Partition) -> int:
    """Returns by how many records the slowest follower is behind. One that never fetched has
    everything to copy."""
    leadership, end = partition.leadership, partition.log.log_end_offset
    if leadership is None or not leadership.followers:
        return 0
    start = partition.log.log_start_offset
    return max(end - max(follower.log_end, start) for follower in leadership.followers.values())
