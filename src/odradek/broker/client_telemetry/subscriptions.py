"""Which metrics a client is to push, from all subscriptions of the cluster that match it."""

import logging
from collections.abc import Callable, Mapping
from typing import NamedTuple

from odradek.config import InvalidSetting
from odradek.config.client_metrics_settings import (
    ALL_METRICS,
    DEFAULT_INTERVAL_MS,
    ClientMetricsSubscription,
)
from odradek.metadata import ClusterImage
from odradek.protocol.checksum import crc32c

logger = logging.getLogger("odradek.server")

Configs = Mapping[str, Mapping[str, str]]


class Requested(NamedTuple):
    """What one client is to push. Without metrics it pushes nothing, and asks again after the
    interval. `id` changes with the content."""

    metrics: tuple[str, ...]
    interval_ms: int
    id: int
    # The settings that it was made from: other settings are another object.
    source: Configs


class Subscriptions:
    def __init__(self, image: Callable[[], ClusterImage]) -> None:
        self._image = image
        self._source: Configs | None = None
        self._parsed: list[ClientMetricsSubscription] = []

    @property
    def source(self) -> Configs:
        """The settings of all subscriptions. It is the same object until one of them changes."""
        return self._image().client_metrics_configs

    def requested(self, client: Mapping[str, str]) -> Requested:
        """Returns what a client with these attributes is to push: the metrics of all subscriptions
        that match it, in the shortest of their intervals."""
        source = self.source
        if source is not self._source:
            self._parsed = _parse(source)
            self._source = source
        matching = [one for one in self._parsed if one.matches(client)]
        metrics = tuple(sorted({metric for one in matching for metric in one.metrics}))
        if ALL_METRICS in metrics:
            metrics = (ALL_METRICS,)
        interval_ms = min((one.interval_ms for one in matching), default=DEFAULT_INTERVAL_MS)
        content = f"{client.get('client_instance_id')} {interval_ms} {','.join(metrics)}"
        unsigned = crc32c(content.encode())
        return Requested(metrics, interval_ms, unsigned - (unsigned >> 31 << 32), source)


def _parse(source: Configs) -> list[ClientMetricsSubscription]:
    parsed = []
    for name, overrides in source.items():
        try:
            parsed.append(ClientMetricsSubscription.of(overrides))
        except InvalidSetting as error:
            logger.warning("the client metrics subscription %s is left out: %s", name, error)
    return parsed
