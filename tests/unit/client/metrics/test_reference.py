"""The page of the metrics of clients."""

from pathlib import Path

from odradek.client.metrics.catalogue import ALL
from odradek.client.metrics.reference import reference

PAGE = Path(__file__).parents[4] / "docs" / "reference" / "client-metrics.md"


def test_the_page_is_current() -> None:
    assert PAGE.read_text() == reference(), (
        "run python -m odradek.client.metrics.reference docs/reference/client-metrics.md"
    )


def test_no_metric_is_declared_twice() -> None:
    for metrics in ALL.values():
        keys = [(metric.name, metric.group, metric.scope) for metric in metrics]
        assert len(keys) == len(set(keys))
