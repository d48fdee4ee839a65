"""From MetricsData to points.

    MetricsData      1 resource_metrics
    ResourceMetrics  1 resource (1 attributes)   2 scope_metrics (2 metrics)
    Metric           1 name  2 description  3 unit  5 gauge  7 sum  9, 10, 11 distributions
    Gauge, Sum       1 data_points;  Sum: 2 aggregation_temporality  3 is_monotonic
    NumberDataPoint  7 attributes  2 start, 3 time  4 as_double  6 as_int
    KeyValue         1 key  2 value (1 text  2 boolean  3 integer  4 double)

Clients of Kafka push gauges and sums. Distributions are counted and left out.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from odradek.telemetry.otlp.wire import (
    MalformedTelemetry,
    Value,
    as_bytes,
    as_double,
    as_number,
    as_signed,
    as_text,
    fields,
)

_GAUGE: Final = 5
_SUM: Final = 7
_DISTRIBUTIONS: Final = (9, 10, 11)
DELTA: Final = 1
CUMULATIVE: Final = 2

Attributes = tuple[tuple[str, str], ...]


class Point(NamedTuple):
    """One value. `attributes` are those of the resource and of the point, in the order of their
    names. A gauge is neither a sum nor a delta."""

    name: str
    help: str
    attributes: Attributes
    value: float
    is_sum: bool = False
    is_delta: bool = False
    is_monotonic: bool = False


class Unsupported(NamedTuple):
    """A metric of a kind that is left out."""

    name: str


def decode(data: memoryview) -> Iterator[Point | Unsupported]:
    """Yields the points of all metrics; raises `MalformedTelemetry`."""
    for number, _, value in fields(data):
        if number == 1:
            yield from _resource_metrics(as_bytes(value))


def _resource_metrics(message: memoryview) -> Iterator[Point | Unsupported]:
    found = list(fields(message))
    common: dict[str, str] = {}
    for number, _, value in found:
        if number == 1:
            for inner, _, attribute in fields(as_bytes(value)):
                if inner == 1:
                    _attribute(as_bytes(attribute), common)
    for number, _, value in found:
        if number == 2:
            for inner, _, metric in fields(as_bytes(value)):
                if inner == 2:
                    yield from _metric(as_bytes(metric), common)


def _metric(message: memoryview, common: dict[str, str]) -> Iterator[Point | Unsupported]:
    name = help_text = ""
    data: tuple[int, memoryview] | None = None
    for number, _, value in fields(message):
        if number == 1:
            name = as_text(value)
        elif number == 2:
            help_text = as_text(value)
        elif number in (_GAUGE, _SUM, *_DISTRIBUTIONS):
            data = number, as_bytes(value)
    if not name:
        raise MalformedTelemetry("a metric has no name")
    if data is None:
        return
    kind, content = data
    if kind in _DISTRIBUTIONS:
        yield Unsupported(name)
    else:
        empty = Point(name, help_text, (), 0.0, is_sum=kind == _SUM)
        yield from _points(content, empty, common)


def _points(content: memoryview, empty: Point, common: dict[str, str]) -> Iterator[Point]:
    points: list[memoryview] = []
    temporality, is_monotonic = CUMULATIVE, False
    for number, _, value in fields(content):
        if number == 1:
            points.append(as_bytes(value))
        elif empty.is_sum and number == 2:
            temporality = as_number(value)
        elif empty.is_sum and number == 3:
            is_monotonic = bool(as_number(value))
    is_delta = empty.is_sum and temporality == DELTA
    for point in points:
        attributes, amount = _point(point, common)
        yield empty._replace(
            attributes=attributes, value=amount, is_delta=is_delta, is_monotonic=is_monotonic
        )


def _point(message: memoryview, common: dict[str, str]) -> tuple[Attributes, float]:
    attributes = dict(common)
    amount = 0.0
    for number, _, value in fields(message):
        if number == 7:
            _attribute(as_bytes(value), attributes)
        elif number == 4:
            amount = as_double(value)
        elif number == 6:
            amount = as_signed(value)
    return tuple(sorted(attributes.items())), amount


def _attribute(message: memoryview, into: dict[str, str]) -> None:
    key, text = "", ""
    for number, _, value in fields(message):
        if number == 1:
            key = as_text(value)
        elif number == 2:
            for kind, _, inner in fields(as_bytes(value)):
                text = _text_of(kind, inner)
    if key:
        into[key] = text


def _text_of(kind: int, value: Value) -> str:
    if kind == 1:
        return as_text(value)
    if kind == 2:
        return "true" if as_number(value) else "false"
    if kind == 3:
        number = as_number(value)
        return str(number - (1 << 64) if number >> 63 else number)
    return str(as_double(value)) if kind == 4 else ""
