"""What clients have pushed lately, as series for the management port.

A series is one metric of one client with one set of attributes. Sums come as what was added since
the last push; they are added up here, because Prometheus counts from the start. So a counter begins
anew at another broker, if the client pushes to that one later.

Everything is bounded, because any client may push anything: how many series there are in all
(`odradek.telemetry.max.series`) and of one client, how long names and values are. A client that has
not pushed for three intervals is forgotten.
"""

import re
from collections.abc import Callable, Generator, Iterable, Mapping
from typing import Final, NamedTuple

from odradek.protocol.types import TopicId
from odradek.telemetry.declarations import Collected, Kind, Metric
from odradek.telemetry.otlp.decoding import Attributes, Point, Unsupported

_KEPT_INTERVALS: Final = 3
_MIN_KEPT_S: Final = 30.0
_CLIENT_FRACTION: Final = 10
_MAX_ATTRIBUTES: Final = 20
_MAX_LENGTH: Final = 200
_KAFKA_PREFIX: Final = "org.apache.kafka."
_NOT_IN_NAMES: Final = re.compile(r"[^a-zA-Z0-9_]")
_OWN_LABELS: Final = ("client_id", "client_instance_id", "client_software_name")


class _Series:
    __slots__ = ("help", "is_counter", "value")

    def __init__(self, point: Point) -> None:
        self.help = point.help[:_MAX_LENGTH]
        self.is_counter = point.is_sum and point.is_monotonic
        self.value = 0.0


class _Client:
    """The series of one client, by name and attributes, and when they are forgotten."""

    __slots__ = ("labels", "series", "until_s")

    def __init__(self) -> None:
        self.labels: tuple[str, ...] = ()
        self.series: dict[tuple[str, Attributes], _Series] = {}
        self.until_s = 0.0


class Sample(NamedTuple):
    labels: dict[str, str]
    value: float


class PushedSeries:
    def __init__(self, max_series: int, now_s: Callable[[], float]) -> None:
        self._max_series = max_series
        self._now_s = now_s
        self._clients: dict[TopicId, _Client] = {}
        self.count = 0
        # Points that were not kept since the start, by the reason.
        self.dropped = {"limit": 0, "distribution": 0, "name": 0}

    @property
    def clients(self) -> int:
        return len(self._clients)

    def take(
        self,
        instance_id: TopicId,
        client: Mapping[str, str],
        interval_s: float,
        points: Iterable[Point | Unsupported],
    ) -> Generator[None, None, None]:
        """Takes a push over, some points in each step."""
        self.forget_silent()
        known = self._clients.setdefault(instance_id, _Client())
        known.labels = tuple(client.get(name, "")[:_MAX_LENGTH] for name in _OWN_LABELS)
        known.until_s = self._now_s() + max(_KEPT_INTERVALS * interval_s, _MIN_KEPT_S)
        for number, point in enumerate(points):
            if not number % 50:
                yield
            self._take(known, point)

    def _take(self, client: _Client, point: Point | Unsupported) -> None:
        if isinstance(point, Unsupported):
            self.dropped["distribution"] += 1
            return
        key = (point.name, point.attributes)
        series = client.series.get(key)
        if series is None:
            if len(point.name) > _MAX_LENGTH or len(point.attributes) > _MAX_ATTRIBUTES:
                self.dropped["name"] += 1
                return
            of_client = max(self._max_series // _CLIENT_FRACTION, 1)
            if self.count >= self._max_series or len(client.series) >= of_client:
                self.dropped["limit"] += 1
                return
            series = client.series[key] = _Series(point)
            self.count += 1
        series.value = series.value + point.value if point.is_delta else point.value

    def forget_silent(self) -> None:
        """Forgets clients that have not pushed for a while."""
        now_s = self._now_s()
        silent = [one for one, client in self._clients.items() if client.until_s < now_s]
        for instance_id in silent:
            self.count -= len(self._clients.pop(instance_id).series)

    def collect(self, into: Collected) -> Generator[None, None, None]:
        """Adds all series as samples of metrics that are declared on the way."""
        self.forget_silent()
        families: dict[str, tuple[Kind, str, list[Sample]]] = {}
        for client in list(self._clients.values()):
            yield
            own = dict(zip(_OWN_LABELS, client.labels, strict=True))
            for (name, attributes), series in client.series.items():
                kind = Kind.COUNTER if series.is_counter else Kind.GAUGE
                family = family_name(name, kind)
                found = families.setdefault(family, (kind, series.help, []))
                if found[0] is not kind:
                    continue  # Two clients disagree about what it is: the first one counts.
                labels = {_label(key): value[:_MAX_LENGTH] for key, value in attributes}
                found[2].append(Sample(labels | own, series.value))
        for family, (kind, help_text, samples) in families.items():
            yield
            names = tuple(sorted({name for sample in samples for name in sample.labels}))
            metric = Metric(family, kind, help_text or "Pushed by clients.", names)
            rows = into.rows(metric)
            for sample in samples:
                rows.append((tuple(sample.labels.get(name, "") for name in names), sample.value))


def family_name(name: str, kind: Kind) -> str:
    """Returns the name of a pushed metric for Prometheus. A name outside Kafka's own gets a prefix,
    so that no client can push a series with the name of a broker's."""
    text = _NOT_IN_NAMES.sub("_", name if name.startswith(_KAFKA_PREFIX) else f"client.{name}")
    return f"{text.removesuffix('_total')}_total" if kind is Kind.COUNTER else text


def _label(name: str) -> str:
    text = _NOT_IN_NAMES.sub("_", name[:_MAX_LENGTH])
    return f"_{text}" if text[:1].isdigit() or text.startswith("__") or not text else text
