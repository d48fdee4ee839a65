"""Figures of a service for Prometheus: requests by endpoint and status, and how long they took."""

from typing import Final

from odradek.services.client_pool import ClientPool
from odradek.telemetry.declarations import Collected, Distribution, counter, gauge, histogram
from odradek.telemetry.metrics import Histogram
from odradek.web.endpoints import Endpoint

REQUESTS: Final = counter(
    "odradek_http_requests_total",
    "Requests that were answered.",
    labels=("service", "method", "path", "status"),
)
DURATION: Final = histogram(
    "odradek_http_request_duration_microseconds", "How long answers took that are no streams."
)
CALLERS: Final = gauge(
    "odradek_http_callers", "Callers whose Kafka clients are open.", labels=("service",)
)
_HIGHEST_US: Final = 1 << 26


class ServiceMetrics:
    """What the guards tell of every answer (`Policy.observe`)."""

    def __init__(self, service: str, pool: ClientPool) -> None:
        self._service = service
        self._pool = pool
        self._counts: dict[tuple[str, str, str], int] = {}
        self._durations_us = Histogram()

    def observe(self, endpoint: Endpoint | None, status: int, took_s: float) -> None:
        # Paths as they are declared: those of requests would be as many series as clients like.
        key = (
            ("-", "-", str(status))
            if endpoint is None
            else (endpoint.method, endpoint.path, str(status))
        )
        self._counts[key] = self._counts.get(key, 0) + 1
        if endpoint is None or not endpoint.is_stream:
            self._durations_us.observe(int(took_s * 1_000_000))

    def collect(self) -> Collected:
        """Returns the samples of a scrape."""
        collected = Collected()
        for labels, count in self._counts.items():
            collected.add(REQUESTS, count, self._service, *labels)
        durations = self._durations_us
        collected.add(
            DURATION,
            Distribution(
                durations.count,
                durations.total,
                buckets=tuple(durations.cumulative(_HIGHEST_US)),
            ),
        )
        collected.add(CALLERS, len(self._pool), self._service)
        return collected
