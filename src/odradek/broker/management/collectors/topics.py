"""Bytes, records and requests by topic."""

from collections.abc import Generator

from odradek.broker.management.sources import Sources
from odradek.broker.network.traffic import TopicTraffic
from odradek.telemetry.catalogue import topics as metrics
from odradek.telemetry.declarations import Collected, Metric

_COUNTERS: tuple[tuple[Metric, str], ...] = (
    (metrics.BYTES_IN, "bytes_in"),
    (metrics.BYTES_OUT, "bytes_out"),
    (metrics.BYTES_REJECTED, "bytes_rejected"),
    (metrics.MESSAGES_IN, "messages_in"),
    (metrics.PRODUCE_REQUESTS, "produces"),
    (metrics.FETCH_REQUESTS, "fetches"),
    (metrics.FAILED_PRODUCE, "failed_produces"),
    (metrics.FAILED_FETCH, "failed_fetches"),
    (metrics.REPLICATION_BYTES_OUT, "replication_bytes_out"),
)


def collect(sources: Sources, into: Collected) -> Generator[None, None, None]:
    traffic = sources.traffic
    traffic.forget_deleted()
    _add(into, "", traffic.total())
    for number, (name, topic) in enumerate(list(traffic.topics.items())):
        if not number % 50:
            yield
        if number < sources.max_partitions:
            _add(into, name, topic)
    services = sources.components.services
    into.add(metrics.REPLICATION_BYTES_IN, services.replicas.follower_throttle.passed_bytes)
    validation = services.schema_validation
    into.add(metrics.SCHEMA_REJECTED, 0 if validation is None else validation.rejected)
    into.add(metrics.SCHEMA_DIVERTED, 0 if validation is None else validation.diverted)


def _add(into: Collected, topic: str, traffic: TopicTraffic) -> None:
    for metric, counter in _COUNTERS:
        into.add(metric, getattr(traffic, counter), topic)
