"""One declaration for each metric: its name for Prometheus, its MBean, its labels and its help.

Collectors (`broker.management.collectors`) fill declared metrics with samples, and nothing else can
be served: `/metrics`, the Jolokia-style reads of MBeans and the reference page all follow from the
declarations in `telemetry.catalogue`.

The names are those that the JMX exporter gives to Kafka's MBeans with its common rules, so that
existing dashboards find them: `kafka_<domain>_<type>_<name>` in lower case, a meter `...PerSec` is
a counter `..._total`, and percentiles are a label `quantile`. Metrics that only Odradek has begin
with `odradek_`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from odradek.telemetry.recent import QUANTILES


class Kind(Enum):
    """What a metric is, in the words of Prometheus' text format."""

    COUNTER = "counter"
    GAUGE = "gauge"
    SUMMARY = "summary"
    HISTOGRAM = "histogram"


class Served(Enum):
    """Which broker of a cluster serves a series. A sum over all brokers counts nothing twice."""

    EACH = "each broker, for itself"
    LEADER = "the leader of the partition"
    REPLICA = "each broker with a replica"
    COORDINATOR = "the coordinator of the group"
    CONTROLLER = "the active controller; the other brokers serve 0"
    CONTROLLER_ALONE = "the active controller alone"


@dataclass(frozen=True, slots=True, eq=False)
class Metric:
    """A metric. `labels` are the names of its labels in the order of a sample's values; an empty
    value leaves the label out.

    `mbean` is the object name without the keys that the labels add, or empty if Kafka has no MBean
    for it. `attribute` is the MBean's attribute with the value: `Value` of a gauge, `Count` of a
    meter (which then has rates too) or of a histogram (which has percentiles too)."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    mbean: str = ""
    attribute: str = ""
    served: Served = Served.EACH

    @property
    def family(self) -> str:
        """The name without the suffix of counters, which OpenMetrics names families by."""
        return self.name.removesuffix("_total") if self.kind is Kind.COUNTER else self.name

    def object_name(self, values: tuple[str, ...]) -> str:
        """Returns the name of the MBean that has the sample with these values of the labels."""
        keys = "".join(
            f",{label}={value}" for label, value in zip(self.labels, values, strict=True) if value
        )
        return self.mbean + keys


def counter(
    name: str,
    help: str,  # noqa: A002 - Prometheus' word for it
    mbean: str = "",
    labels: tuple[str, ...] = (),
    *,
    attribute: str = "Count",
    served: Served = Served.EACH,
) -> Metric:
    """Declares a number that only grows. Its name ends with `_total`."""
    if not name.endswith("_total"):
        raise ValueError(f"the name of a counter ends with _total, unlike {name}")
    return Metric(name, Kind.COUNTER, help, labels, mbean, attribute, served)


def gauge(
    name: str,
    help: str,  # noqa: A002
    mbean: str = "",
    labels: tuple[str, ...] = (),
    *,
    attribute: str = "Value",
    served: Served = Served.EACH,
) -> Metric:
    """Declares a number that rises and falls."""
    return Metric(name, Kind.GAUGE, help, labels, mbean, attribute, served)


def summary(
    name: str,
    help: str,  # noqa: A002
    mbean: str = "",
    labels: tuple[str, ...] = (),
    *,
    served: Served = Served.EACH,
) -> Metric:
    """Declares a distribution with count, sum and quantiles (`telemetry.recent`)."""
    return Metric(name, Kind.SUMMARY, help, labels, mbean, "Count", served)


def histogram(name: str, help: str) -> Metric:  # noqa: A002
    """Declares a distribution in buckets, which Prometheus can add up over brokers."""
    return Metric(name, Kind.HISTOGRAM, help)


@dataclass(frozen=True, slots=True)
class Distribution:
    """The value of a sample of a summary or histogram. `quantiles` are in the order of
    `recent.QUANTILES`; `buckets` are upper bounds with the number of values up to them."""

    count: int
    sum: float
    quantiles: tuple[float, ...] = ()
    buckets: tuple[tuple[float, int], ...] = ()
    max: float = 0.0
    min: float = 0.0

    def attributes(self) -> dict[str, float]:
        """Returns the attributes that Kafka's MBeans of histograms have."""
        return {
            "Count": self.count,
            "Max": self.max,
            "Min": self.min,
            "Mean": self.sum / self.count if self.count else 0.0,
            **{
                f"{percentile}Percentile": value
                for percentile, value in zip(_PERCENTILES, self.quantiles, strict=True)
            },
        }


_PERCENTILES: Final = tuple(f"{quantile.removeprefix('0.')}th" for quantile in QUANTILES)

Value = float | Distribution
Samples = Mapping[Metric, list[tuple[tuple[str, ...], Value]]]


class Collected:
    """The samples of one scrape. Collectors add to it; it is read when all of them are done."""

    __slots__ = ("samples",)

    def __init__(self) -> None:
        self.samples: dict[Metric, list[tuple[tuple[str, ...], Value]]] = {}

    def add(self, metric: Metric, value: Value, *labels: str) -> None:
        """Adds a sample. `labels` are the values of the metric's labels, in their order."""
        assert len(labels) == len(metric.labels), f"{metric.name} has the labels {metric.labels}"
        self.samples.setdefault(metric, []).append((labels, value))

    def rows(self, metric: Metric) -> list[tuple[tuple[str, ...], Value]]:
        """Returns the list of a metric's samples, to which a collector of thousands appends."""
        return self.samples.setdefault(metric, [])


def by_name(metrics: Iterable[Metric]) -> dict[str, Metric]:
    """Returns metrics by name; raises ValueError if two have the same one."""
    found: dict[str, Metric] = {}
    for metric in metrics:
        if metric.name in found:
            raise ValueError(f"{metric.name} is declared twice")
        found[metric.name] = metric
    return found
