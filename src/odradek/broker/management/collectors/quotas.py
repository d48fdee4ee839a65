"""What clients use of their quotas. There is nothing to collect while no quota is set."""

from collections.abc import Generator
from itertools import islice
from typing import Final

from odradek.broker.management.sources import Sources
from odradek.security.quotas.entities import (
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
)
from odradek.telemetry.catalogue import network as metrics
from odradek.telemetry.declarations import Collected

# A default quota of client ids has an entry for each of them.
_MAX_ENTRIES: Final = 1000
_AT_ONCE: Final = 200
_METRICS: Final = {
    PRODUCER_BYTE_RATE: (metrics.PRODUCE_QUOTA_RATE, metrics.PRODUCE_QUOTA_THROTTLE),
    CONSUMER_BYTE_RATE: (metrics.FETCH_QUOTA_RATE, metrics.FETCH_QUOTA_THROTTLE),
    REQUEST_PERCENTAGE: (metrics.REQUEST_QUOTA_TIME, metrics.REQUEST_QUOTA_THROTTLE),
    CONTROLLER_MUTATION_RATE: (metrics.MUTATION_QUOTA_TOKENS, metrics.MUTATION_QUOTA_THROTTLE),
}


def collect(sources: Sources, into: Collected) -> Generator[None, None, None]:
    clients = sources.components.services.quotas.clients
    into.add(metrics.QUOTA_ENTRIES, 0 if clients is None else len(clients))
    if clients is None:
        return
    now_s = sources.clock.monotonic_s()
    used = (one for one in clients.used(now_s) if one.kind in _METRICS)
    for number, one in enumerate(islice(used, _MAX_ENTRIES)):
        if not number % _AT_ONCE:
            yield
        rate, throttle = _METRICS[one.kind]
        into.add(rate, one.per_second, one.user, one.client_id)
        into.add(throttle, one.throttle_s * 1000, one.user, one.client_id)
