"""Metrics that clients push, and clients by their id."""

from collections.abc import Generator

from odradek.broker.management.sources import Sources
from odradek.telemetry.catalogue import clients as metrics
from odradek.telemetry.declarations import Collected


def collect(sources: Sources, into: Collected) -> Generator[None, None, None]:
    yield from _by_client_id(sources, into)
    telemetry = sources.components.services.client_telemetry
    assert telemetry is not None  # There is a management port.
    instances, series = telemetry.instances, telemetry.series
    assert series is not None
    into.add(metrics.INSTANCES, len(instances))
    into.add(metrics.UNKNOWN_SUBSCRIPTIONS, instances.unknown_subscriptions)
    into.add(metrics.THROTTLED, instances.throttled)
    into.add(metrics.EXPORTED, telemetry.exported)
    into.add(metrics.ERRORS, telemetry.errors)
    yield from series.collect(into)
    into.add(metrics.SERIES, series.count)
    for reason, count in series.dropped.items():
        into.add(metrics.DROPPED_POINTS, count, reason)
    forwarder = telemetry.forwarder
    for result in ("sent", "failed", "dropped"):
        into.add(metrics.FORWARDED, 0 if forwarder is None else forwarder.counts[result], result)


def _by_client_id(sources: Sources, into: Collected) -> Generator[None, None, None]:
    for number, (client_id, counted) in enumerate(list(sources.meter.clients.items())):
        if not number % 200:
            yield
        into.add(metrics.CLIENT_REQUESTS, counted.requests, client_id)
        into.add(metrics.CLIENT_REQUEST_BYTES, counted.request_bytes, client_id)
        into.add(metrics.CLIENT_RESPONSE_BYTES, counted.response_bytes, client_id)
