"""Reads the counters of a client: figures by name, for the whole client and for its parts."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

from odradek.client.metrics.catalogue import Scope
from odradek.client.metrics.counting import Latency, TopicCounts
from odradek.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from odradek.protocol.messages.fetch import FetchRequest
from odradek.protocol.messages.heartbeat import HeartbeatRequest
from odradek.protocol.messages.join_group import JoinGroupRequest
from odradek.protocol.messages.offset_commit import OffsetCommitRequest
from odradek.protocol.messages.sync_group import SyncGroupRequest

if TYPE_CHECKING:
    from odradek.client.cluster import Cluster
    from odradek.client.consumer.parts import ConsumerParts
    from odradek.client.producer.sender import Sender

_BOOTSTRAP: Final = "node--1"
_REQUESTS: Final = {
    "fetch": (FetchRequest.api_key,),
    "commit": (OffsetCommitRequest.api_key,),
    "heartbeat": (HeartbeatRequest.api_key, ConsumerGroupHeartbeatRequest.api_key),
    "join": (JoinGroupRequest.api_key,),
    "sync": (SyncGroupRequest.api_key,),
}

Figures = dict[str, float]


class Part(NamedTuple):
    """What figures are about: the whole client, or one broker, topic or partition of it, by the
    values of the scope's tags."""

    scope: Scope
    tags: tuple[str, ...] = ()


Reading = dict[Part, Figures]
Read = Callable[[float], Reading]
"""Reads all figures; its argument is the time of the event loop."""


def read_network(cluster: "Cluster", now_s: float) -> Reading:
    """Returns the figures that every client has."""
    whole = dict.fromkeys(
        ("connections-open", "connections-opened", "connections-closed", "in-flight"), 0.0
    )
    reading: Reading = {Part(Scope.CLIENT): whole}
    latencies: dict[int, list[Latency]] = {}
    nodes: dict[str, list[Latency]] = {}
    for node_id, counts, connection in cluster.connection_counts():
        is_open = connection is not None and connection.is_open
        whole["connections-open"] += is_open
        whole["connections-opened"] += counts.opened
        whole["connections-closed"] += counts.opened - is_open
        whole["in-flight"] += 0 if connection is None else connection.in_flight
        name = _BOOTSTRAP if node_id is None else f"node-{node_id}"
        node = reading.setdefault(Part(Scope.NODE, (name,)), {})
        for figures in (whole, node):
            _add(figures, "requests", counts.requests)
            _add(figures, "bytes-out", counts.bytes_out)
            _add(figures, "bytes-in", counts.bytes_in)
        nodes.setdefault(name, []).extend(counts.latency.values())
        for key, latency in counts.latency.items():
            latencies.setdefault(key, []).append(latency)
    for name, of_node in nodes.items():
        _add_latency(reading[Part(Scope.NODE, (name,))], "request", of_node)
    _add_latency(whole, "request", [one for many in latencies.values() for one in many])
    for figures in reading.values():
        figures["responses"] = figures["request-count"]
    whole["exchanges"] = whole.get("requests", 0.0) + whole["responses"]
    for name, keys in _REQUESTS.items():
        found = [one for key in keys for one in latencies.get(key, ())]
        _add_latency(whole, name, found)
        last_s = max((one.last_s for one in found), default=0.0)
        whole[f"{name}-age-s"] = now_s - last_s if found else -1.0
    whole["metadata-age-s"] = cluster.metadata_age_s(now_s)
    return reading


def read_producer(cluster: "Cluster", sender: "Sender", now_s: float) -> Reading:
    reading = read_network(cluster, now_s)
    whole, counts, accumulator = reading[Part(Scope.CLIENT)], sender.counts, sender.accumulator
    whole["batches"] = counts.batches
    whole["batch-max-bytes"] = counts.batch_max_bytes
    whole["batch-splits"] = counts.splits
    whole["produce-requests"] = counts.requests
    _add_latency(whole, "queue", [counts.queue])
    whole["buffer-total-bytes"] = accumulator.buffer_bytes
    whole["buffer-available-bytes"] = accumulator.free_bytes
    whole["waiting"] = len(accumulator.waiters)
    _add_topics(reading, counts.topics.items())
    return reading


def read_consumer(parts: "ConsumerParts", now_s: float) -> Reading:
    reading = read_network(parts.cluster, now_s)
    whole = reading[Part(Scope.CLIENT)]
    _add_topics(reading, parts.fetcher.counts.topics.items())
    rebalances = Latency() if parts.group is None else parts.group.rebalances
    _add_latency(whole, "rebalance", [rebalances])
    whole["assigned"] = len(parts.positions.assigned)
    for partition, state in parts.positions.assigned.items():
        if state.position is None or state.high_watermark is None:
            continue
        lag = max(state.high_watermark - state.position, 0)
        lead = max(state.position - (state.log_start_offset or 0), 0)
        part = Part(Scope.PARTITION, (partition.topic, str(partition.partition)))
        reading[part] = {"lag": lag, "lead": lead}
        whole["lag-max"] = max(whole.get("lag-max", 0.0), lag)
        whole["lead-min"] = min(whole.get("lead-min", lead), lead)
    return reading


def reset_maxima(cluster: "Cluster", *others: Latency) -> None:
    """Begins the maxima anew."""
    for _, counts, _ in cluster.connection_counts():
        for latency in counts.latency.values():
            latency.max_s = 0.0
    for latency in others:
        latency.max_s = 0.0


def _add(figures: Figures, name: str, amount: float) -> None:
    figures[name] = figures.get(name, 0.0) + amount


def _add_latency(figures: Figures, name: str, latencies: Iterable[Latency]) -> None:
    found = list(latencies)
    figures[f"{name}-count"] = sum(one.count for one in found)
    figures[f"{name}-s"] = sum(one.total_s for one in found)
    figures[f"{name}-max-s"] = max((one.max_s for one in found), default=0.0)


def _add_topics(reading: Reading, topics: Iterable[tuple[str, TopicCounts]]) -> None:
    whole = reading[Part(Scope.CLIENT)]
    for name in ("records", "record-bytes", "errors", "retries", "fetches"):
        whole[name] = 0.0
    for topic, counts in topics:
        figures = reading[Part(Scope.TOPIC, (topic,))] = {
            "records": counts.records,
            "record-bytes": counts.bytes,
            "errors": counts.errors,
            "retries": counts.retries,
            "fetches": counts.fetches,
        }
        for name, amount in figures.items():
            whole[name] += amount
