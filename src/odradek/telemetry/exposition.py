"""Samples as text: Prometheus' format, and OpenMetrics.

Rendering is a generator that yields after every few hundred lines, so that the caller can let other
tasks run in between: a broker with thousands of partitions has tens of thousands of lines.
"""

from collections.abc import Generator, Iterable
from typing import Final

from odradek.telemetry.declarations import Distribution, Kind, Metric, Samples, Value
from odradek.telemetry.recent import QUANTILES

PROMETHEUS: Final = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"

_LINES_A_STEP: Final = 200


def content_type(accept: str) -> str:
    """Returns the format for the Accept header of a scrape: OpenMetrics only for those who name
    it."""
    return OPENMETRICS if "application/openmetrics-text" in accept else PROMETHEUS


def render(samples: Samples, format_: str) -> Generator[None, None, bytes]:
    """Yields between steps, and returns the text of all samples. The lists of samples are emptied
    on the way: to free all of them at once would take as long as many steps."""
    is_open = format_ == OPENMETRICS
    pieces: list[bytes] = []
    texts: dict[tuple[str, ...], _Texts] = {}
    for metric in sorted(samples, key=lambda metric: metric.name):
        rows = samples[metric]
        if not rows:
            continue
        name = metric.family if is_open else metric.name
        help_text = escape(metric.help, quotes=is_open)
        pieces.append(f"# HELP {name} {help_text}\n# TYPE {name} {metric.kind.value}\n".encode())
        known = texts.setdefault(metric.labels, {})
        for first in range(0, len(rows), _LINES_A_STEP):
            some = rows[first : first + _LINES_A_STEP]
            pieces.append("".join(_lines(metric, some, known)).encode())
            yield
        rows.clear()
    if is_open:
        pieces.append(b"# EOF\n")
    return b"".join(pieces)


# The text of labels by their values: a partition has the same labels in many series.
_Texts = dict[tuple[str, ...], str]


def _lines(
    metric: Metric, rows: Iterable[tuple[tuple[str, ...], Value]], known: _Texts
) -> Iterable[str]:
    name = metric.name
    for values, value in rows:
        inside = known.get(values)
        if inside is None:
            inside = known[values] = _inside(metric.labels, values)
        if not isinstance(value, Distribution):
            yield f"{name}{{{inside}}} {value}\n" if inside else f"{name} {value}\n"
        elif metric.kind is Kind.SUMMARY:
            yield from _summary(name, inside, value)
        else:
            yield from _histogram(name, inside, value)


def _summary(name: str, inside: str, value: Distribution) -> Iterable[str]:
    before = f"{inside}," if inside else ""
    for quantile, found in zip(QUANTILES, value.quantiles, strict=True):
        yield f'{name}{{{before}quantile="{quantile}"}} {found}\n'
    braces = f"{{{inside}}}" if inside else ""
    yield f"{name}_sum{braces} {value.sum}\n"
    yield f"{name}_count{braces} {value.count}\n"


def _histogram(name: str, inside: str, value: Distribution) -> Iterable[str]:
    before = f"{inside}," if inside else ""
    for bound, seen in value.buckets:
        yield f'{name}_bucket{{{before}le="{bound:g}"}} {seen}\n'
    yield f'{name}_bucket{{{before}le="+Inf"}} {value.count}\n'
    braces = f"{{{inside}}}" if inside else ""
    yield f"{name}_sum{braces} {value.sum}\n"
    yield f"{name}_count{braces} {value.count}\n"


def _inside(labels: tuple[str, ...], values: tuple[str, ...]) -> str:
    return ",".join(
        [
            f'{label}="{value if value.isalnum() else escape(value, quotes=True)}"'
            for label, value in zip(map(label_name, labels), values, strict=True)
            if value
        ]
    )


def label_name(key: str) -> str:
    """Returns the name of a label; keys of MBeans may have a hyphen, which labels cannot."""
    return key.replace("-", "_")


def escape(text: str, *, quotes: bool) -> str:
    """Returns text as the value of a label (with `quotes`) or as a help text."""
    text = text.replace("\\", "\\\\").replace("\n", "\\n")
    return text.replace('"', '\\"') if quotes else text
