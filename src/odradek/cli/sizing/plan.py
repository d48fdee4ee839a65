"""Computes what a cluster needs for a load: disk, memory, file descriptors, network, CPU.

It is arithmetic only: the input is a `Load`, the output are `Need`s and warnings. Each need has its
formula and the settings it implies. Odradek's own consumption was measured; the command stands
beside each constant. docs/sizing.md explains the formulas.
"""

from dataclasses import dataclass
from math import ceil, inf
from typing import Final, NamedTuple

from odradek.cli.quantities import shown_bytes, shown_seconds

# python -m benchmarks.footprint: resident memory and descriptors before and after.
IDLE_BYTES: Final = 36_000_000
REPLICA_BYTES: Final = 6_700
SEGMENT_BYTES: Final = 4_000
INDEX_ENTRY_BYTES: Final = 23
IDLE_DESCRIPTORS: Final = 19
# scripts/benchmark: beside 200 slow connections, 5.23 MB; idle ones take 2.5 kB.
CONNECTION_BYTES: Final = 26_000
# scripts/benchmark: processor time for a million records of 1000 bytes, that is a gigabyte.
PRODUCE_S_PER_GB: Final = 0.56
CONSUME_S_PER_GB: Final = 0.24
# python -m benchmarks.clusters: 4.5 s for a gigabyte on three brokers, less the leader's part.
REPLICATE_S_PER_GB: Final = 1.7
# python -m benchmarks.many_topics: 3,000 partitions start in 0.98 s and stop in 2.7 s.
START_S: Final = 0.00033
STOP_S: Final = 0.0009
MEASURED_REPLICAS: Final = 3_000

INDEX_INTERVAL_BYTES: Final = 4096
"""index.interval.bytes: an index has an entry for as many bytes, or for a batch that is larger."""
# Eight bytes of the offset index and twelve of the time index.
INDEX_SHARE: Final = 20 / INDEX_INTERVAL_BYTES
CHECK_S: Final = 300.0
"""log.retention.check.interval.ms"""
DELETE_DELAY_S: Final = 60.0
"""file.delete.delay.ms"""
DIRTY_SHARE: Final = 0.5
"""min.cleanable.dirty.ratio"""
CLEANER_BYTES: Final = 150_000_000
LOG_FILES: Final = 6
LOG_FILE_BYTES: Final = 5 * 32 * 1024 * 1024

_BUSY: Final = 0.7


@dataclass(frozen=True, slots=True)
class Load:
    """The load on the cluster. Rates are the sum over all topics, as producers send them."""

    rate_bytes: int
    partitions: int
    brokers: int
    replication_factor: int
    retention_s: float
    """`inf` keeps everything."""
    retention_bytes: int | None
    """Of each partition."""
    is_compacted: bool
    keys: int
    record_bytes: int
    batch_bytes: int
    consumers: int
    """How often each byte is read."""
    clients: int
    segment_bytes: int
    segment_s: float
    hot_s: float
    """How far behind the end most readers are at most."""
    network_bytes: int
    """A second, of each broker, each way."""
    free_share: float
    max_descriptors: int

    @property
    def partition_rate(self) -> float:
        return self.rate_bytes / self.partitions

    @property
    def replicas_of_broker(self) -> int:
        return ceil(self.partitions * self.replication_factor / self.brokers)

    @property
    def active_bytes(self) -> float:
        """The size of a segment when it is closed."""
        return min(self.segment_bytes, self.partition_rate * self.segment_s)

    @property
    def roll_s(self) -> float:
        """How long a segment is the active one."""
        if not self.partition_rate:
            return self.segment_s
        return min(self.segment_s, self.segment_bytes / self.partition_rate)


class Need(NamedTuple):
    name: str
    value: float
    """In bytes, bytes a second, descriptors, or a share."""
    shown: str
    how: str
    advice: str


class Plan(NamedTuple):
    needs: list[Need]
    warnings: list[str]

    def need(self, name: str) -> Need:
        return next(need for need in self.needs if need.name == name)


def plan(load: Load) -> Plan:
    disk = _disk(load)
    segments = ceil(disk[0].value / load.segment_bytes) + 1
    memory = _memory(load, segments)
    descriptors = _descriptors(load)
    network = _network(load)
    processor = _processor(load)
    needs = [*disk, *memory, *descriptors, *network, processor, *_restart(load)]
    return Plan(needs, _warnings(load, Plan(needs, [])))


# Disk


def _disk(load: Load) -> list[Need]:
    partition = _compacted(load) if load.is_compacted else _retained(load)
    replicas = load.replicas_of_broker
    logs = LOG_FILES * LOG_FILE_BYTES
    used = partition.value * replicas * (1 + INDEX_SHARE) + logs
    spare = partition.value if load.is_compacted else 0.0
    total = (used + spare) / (1 - load.free_share)
    beside = f" + {shown_bytes(spare)} beside the old segments while one is cleaned" * bool(spare)
    return [
        partition,
        Need(
            "disk of a broker",
            total,
            shown_bytes(total),
            f"({replicas} replicas x {shown_bytes(partition.value)} + {INDEX_SHARE:.1%} for indexes"
            f" + {shown_bytes(logs)} for the broker's own logs{beside}), of which"
            f" {load.free_share:.0%} stay free",
            f"{load.brokers} brokers: {shown_bytes(total * load.brokers)} in all; several disks"
            " are named in log.dirs",
        ),
    ]


def _retained(load: Load) -> Need:
    late_s = CHECK_S + DELETE_DELAY_S
    by_time, by_size = inf, inf
    if load.retention_s != inf:
        by_time = load.partition_rate * (load.retention_s + load.roll_s + late_s)
    if load.retention_bytes is not None:
        by_size = load.retention_bytes + load.segment_bytes + load.partition_rate * late_s
    value = min(by_time, by_size)
    if value == inf:
        # Without retention nothing is deleted. A year is what can be planned for.
        value = load.partition_rate * 365 * 86_400
        return Need(
            "disk of a partition",
            value,
            f"{shown_bytes(value)} a year",
            f"{shown_bytes(load.partition_rate)}/s for a year; nothing is removed",
            "retention.ms=-1; watch the disk, or set retention.bytes as a limit",
        )
    if value == by_time:
        how = (
            f"{shown_bytes(load.partition_rate)}/s x ({shown_seconds(load.retention_s)} retention"
            f" + {shown_seconds(load.roll_s)} until a segment is full and can age"
            f" + {shown_seconds(late_s)} until it is looked for and deleted)"
        )
        advice = f"retention.ms={load.retention_s * 1000:.0f}"
    else:
        how = (
            f"{shown_bytes(by_size)}: retention.bytes + a segment of"
            f" {shown_bytes(load.segment_bytes)} + what comes in {shown_seconds(late_s)}"
        )
        advice = f"retention.bytes={load.retention_bytes}"
    return Need("disk of a partition", value, shown_bytes(value), how, advice)


def _compacted(load: Load) -> Need:
    clean = load.keys * load.record_bytes / load.partitions
    value = clean / (1 - DIRTY_SHARE) + load.active_bytes
    return Need(
        "disk of a partition",
        value,
        shown_bytes(value),
        f"{load.keys:,} keys x {shown_bytes(load.record_bytes)} / {load.partitions} partitions"
        f" = {shown_bytes(clean)} of newest records, / (1 - {DIRTY_SHARE}) before it is cleaned"
        f" again, + the active segment, which is never cleaned",
        "cleanup.policy=compact; a lower min.cleanable.dirty.ratio cleans more often and needs"
        " less disk",
    )


# Memory and descriptors


def _memory(load: Load, segments: int) -> list[Need]:
    replicas, connections = load.replicas_of_broker, _connections(load)
    index_step = max(INDEX_INTERVAL_BYTES, load.batch_bytes)
    index = load.active_bytes / index_step * INDEX_ENTRY_BYTES
    value = (
        IDLE_BYTES
        + replicas * (REPLICA_BYTES + segments * SEGMENT_BYTES + index)
        + connections * CONNECTION_BYTES
        + (CLEANER_BYTES if load.is_compacted else 0)
    )
    cleaner = f" + {shown_bytes(CLEANER_BYTES)} while the cleaner works" * load.is_compacted
    cache = load.hot_s * load.rate_bytes * load.replication_factor / load.brokers
    return [
        Need(
            "memory of a broker",
            value,
            shown_bytes(value),
            f"{shown_bytes(IDLE_BYTES)} idle + {replicas} replicas x"
            f" ({shown_bytes(REPLICA_BYTES)} + {segments} segments x {shown_bytes(SEGMENT_BYTES)}"
            f" + {shown_bytes(index)} for the index of the active one: {INDEX_ENTRY_BYTES} B for"
            f" each {shown_bytes(index_step)} of {shown_bytes(load.active_bytes)})"
            f" + {connections} connections x {shown_bytes(CONNECTION_BYTES)}{cleaner}",
            "there is no heap to set; larger batches (linger.ms) or a smaller segment.bytes make"
            " the index of the active segment smaller",
        ),
        Need(
            "page cache of a broker",
            cache,
            shown_bytes(cache),
            f"what came in {shown_seconds(load.hot_s)}, so that readers no further behind need"
            f" no disk: {shown_bytes(load.rate_bytes)}/s x {load.replication_factor} replicas"
            f" / {load.brokers} brokers x {shown_seconds(load.hot_s)}",
            "memory that the system has free beside the broker's",
        ),
    ]


def _connections(load: Load) -> int:
    """Counts the connections of a broker: clients connect to every broker, and brokers connect to
    each other in both directions."""
    return load.clients + 2 * (load.brokers - 1)


def _descriptors(load: Load) -> list[Need]:
    replicas, connections = load.replicas_of_broker, _connections(load)
    value = 2 * replicas + connections + IDLE_DESCRIPTORS
    return [
        Need(
            "descriptors of a broker",
            value,
            str(value),
            f"2 x {replicas} replicas (the active segment of each, and as many that are read)"
            f" + {connections} connections + {IDLE_DESCRIPTORS}; closed segments share what is"
            " left of half the limit",
            f"ulimit -Hn {_round_up(value)} (LimitNOFILE= in systemd)",
        )
    ]


def _round_up(count: int) -> int:
    """Rounds up to a power of two, at least the usual default of Linux distributions."""
    return max(4096, 1 << (2 * count - 1).bit_length())


# Network and processor


def _network(load: Load) -> list[Need]:
    copies = load.replication_factor - 1
    arriving = load.rate_bytes * load.replication_factor / load.brokers
    leaving = load.rate_bytes * (load.consumers + copies) / load.brokers
    # The replicas of a lost broker are copied from the others while they carry its load.
    stored = load.replicas_of_broker * (load.partition_rate * min(load.retention_s, 365 * 86_400))
    spare = load.network_bytes * _BUSY - arriving
    if not copies:
        again = "with one copy, nobody can give a lost broker its data again"
    elif spare <= 0:
        again = "a lost broker would never have its copies again: the network is full"
    else:
        again = (
            f"a lost broker has its copies again after {shown_seconds(stored / spare)}, at"
            f" {_BUSY:.0%} of {shown_bytes(load.network_bytes)}/s"
        )
    return [
        Need(
            "network in, a broker",
            arriving,
            f"{shown_bytes(arriving)}/s",
            f"{shown_bytes(load.rate_bytes)}/s x {load.replication_factor} replicas"
            f" / {load.brokers} brokers",
            again,
        ),
        Need(
            "network out, a broker",
            leaving,
            f"{shown_bytes(leaving)}/s",
            f"{shown_bytes(load.rate_bytes)}/s x (readers: {load.consumers}, followers: {copies})"
            f" / {load.brokers} brokers",
            "readers on the same rack as a follower can read there: client.rack",
        ),
    ]


def _processor(load: Load) -> Need:
    copies = load.replication_factor - 1
    gigabytes = load.rate_bytes / 1e9 / load.brokers
    value = gigabytes * (
        PRODUCE_S_PER_GB
        + (load.consumers + copies) * CONSUME_S_PER_GB
        + copies * (REPLICATE_S_PER_GB - CONSUME_S_PER_GB)
    )
    return Need(
        "processor of a broker",
        value,
        f"{value:.0%} of a core",
        f"{gigabytes * 1000:.3g} MB/s x ({PRODUCE_S_PER_GB} s a GB to take it, {CONSUME_S_PER_GB}"
        f" a reader, {REPLICATE_S_PER_GB} a copy), for batches of 16 kB and more",
        "a broker is one process on one core: more cores run more brokers",
    )


def _restart(load: Load) -> list[Need]:
    replicas = load.replicas_of_broker
    start, stop = replicas * START_S + 0.2, replicas * STOP_S + 0.1
    return [
        Need(
            "start of a broker",
            start,
            shown_seconds(start),
            f"{replicas} replicas x {START_S * 1000:.2f} ms + 0.2 s after a clean stop",
            f"and {shown_seconds(stop)} to stop: give it time (TimeoutStopSec=)",
        )
    ]


# Warnings


def _warnings(load: Load, plan: Plan) -> list[str]:
    return [
        warning
        for warning in (
            *_about_copies(load),
            *_about_segments(load),
            *_about_limits(load, plan),
        )
        if warning
    ]


def _about_copies(load: Load) -> list[str | None]:
    factor = load.replication_factor
    return [
        "with one copy, a lost disk is lost data; give --replication-factor 3"
        if factor == 1
        else None,
        "with two copies, acks=all goes on without one of them only with min.insync.replicas=1,"
        " and then a record may be on one disk alone"
        if factor == 2
        else None,
    ]


def _about_segments(load: Load) -> list[str | None]:
    keeps_by_time = load.retention_s != inf and not load.is_compacted
    return [
        f"a segment is written to for {shown_seconds(load.roll_s)}, longer than the retention of"
        f" {shown_seconds(load.retention_s)}: records stay for up to"
        f" {shown_seconds(load.roll_s + load.retention_s)}; set"
        f" segment.ms={_tenth_ms(load.retention_s)}"
        if keeps_by_time and load.roll_s > load.retention_s
        else None,
        f"a segment is full after {shown_seconds(load.roll_s)}; raise segment.bytes, or each"
        " partition has very many files"
        if load.roll_s < 60 and load.partition_rate
        else None,
        f"retention.bytes is less than a segment of {shown_bytes(load.segment_bytes)}: the active"
        " segment is never removed; lower segment.bytes"
        if load.retention_bytes is not None and load.retention_bytes < load.segment_bytes
        else None,
        "keys are not known (--keys), so the size of a compacted topic is not either"
        if load.is_compacted and not load.keys
        else None,
    ]


def _tenth_ms(retention_s: float) -> int:
    return max(round(retention_s * 100), 1000)


def _about_limits(load: Load, plan: Plan) -> list[str | None]:
    replicas = load.replicas_of_broker
    descriptors = plan.need("descriptors of a broker").value
    busiest = max(plan.need("network in, a broker").value, plan.need("network out, a broker").value)
    core = plan.need("processor of a broker").value
    survivors = load.brokers / max(load.brokers - 1, 1)
    return [
        f"a broker needs {descriptors:.0f} descriptors and a process here may open"
        f" {load.max_descriptors}; raise the hard limit"
        if descriptors > load.max_descriptors
        else None,
        f"{replicas} replicas on a broker are more than was measured ({MEASURED_REPLICAS}): use"
        " fewer partitions or more brokers"
        if replicas > 3 * MEASURED_REPLICAS
        else None,
        f"{load.partitions} partitions are fewer than {load.brokers} brokers: some lead nothing"
        if load.partitions < load.brokers
        else None,
        f"with a broker lost, the others carry {shown_bytes(busiest * survivors)}/s of the"
        f" network's {shown_bytes(load.network_bytes)}/s; use more brokers or a faster network"
        if busiest * survivors > _BUSY * load.network_bytes
        else None,
        f"with a broker lost, the others are busy for {core * survivors:.0%} of a core; use more"
        " brokers"
        if core * survivors > _BUSY
        else None,
    ]
