"""The figures of a cluster at one moment, as plain values. None means: not known.

A rate is not known before the second sample. Bytes that are fetched, requests, processor and memory
of a broker are not known without its management port (`management`).
"""

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class BrokerFigures:
    id: int
    address: str
    rack: str | None
    is_controller: bool
    state: str
    """`running`, or from the management port a state of `/status`; `not ready`; `gone` for a broker
    that was there and is not in the metadata any more."""
    leaders: int = 0
    replicas: int = 0
    under_replicated: int = 0
    """Partitions led by this broker of which a replica is not in sync."""
    bytes_in: float | None = None
    bytes_out: float | None = None
    messages_in: float | None = None
    requests: float | None = None
    produce_p99_ms: float | None = None
    cpu: float | None = None
    """Of one processor: 1.0 is a processor that does nothing else."""
    memory_bytes: float | None = None
    connections: int | None = None
    log_bytes: float | None = None
    disk_free_bytes: float | None = None
    disk_total_bytes: float | None = None
    figures_from: str = "protocol"
    """`management` if the management port was read."""


@dataclass(frozen=True, slots=True)
class TopicFigures:
    name: str
    partitions: int
    replication_factor: int
    under_replicated: int
    offline: int
    """Partitions without a leader."""
    bytes_in: float | None = None
    bytes_out: float | None = None
    messages_in: float | None = None
    records: int | None = None
    """The sum of the end offsets: records that were ever written, markers included."""
    log_bytes: float | None = None
    """The size of one replica of each partition: the leader's."""


@dataclass(frozen=True, slots=True)
class PartitionFigures:
    topic: str
    partition: int
    leader: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    bytes_in: float | None = None
    messages_in: float | None = None
    end_offset: int | None = None
    log_bytes: float | None = None

    @property
    def is_under_replicated(self) -> bool:
        return len(self.in_sync) < len(self.replicas)


@dataclass(frozen=True, slots=True)
class GroupFigures:
    """A consumer group, or a Spark query, as `odradek lag` judges it."""

    name: str
    kind: str
    status: str
    lag: int
    lag_seconds: float | None
    """The age of the first record that was not read."""
    is_older: bool
    """Whether `lag_seconds` is a lower limit: the record is older than what was watched."""
    partitions: int
    clients: int
    """Client ids that own a partition."""
    consumed: float | None
    """Offsets that are committed a second."""
    worst: str | None


@dataclass(frozen=True, slots=True)
class Event:
    """Something that changed between two samples."""

    at_ms: int
    severity: str
    """`bad`, `good` or `plain`."""
    text: str


@dataclass(frozen=True, slots=True)
class ClusterFigures:
    at_ms: int
    cluster_id: str
    interval_s: float | None
    """How far apart the two samples are that the rates come from."""
    brokers: tuple[BrokerFigures, ...] = ()
    topics: tuple[TopicFigures, ...] = ()
    partitions: tuple[PartitionFigures, ...] = ()
    groups: tuple[GroupFigures, ...] = ()
    events: tuple[Event, ...] = ()
    notes: tuple[str, ...] = field(default=())
    """What could not be asked, and why."""

    @property
    def offline(self) -> int:
        return sum(topic.offline for topic in self.topics)

    @property
    def under_replicated(self) -> int:
        return sum(topic.under_replicated for topic in self.topics)

    def to_json(self) -> dict[str, Any]:
        """Returns everything for programs; unknown figures are null."""
        return asdict(self)


def total(values: "list[float | None]") -> float | None:
    """Returns the sum of those that are known, or None if none is."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None
