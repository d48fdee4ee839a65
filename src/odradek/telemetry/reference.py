"""The reference page of the metrics that a broker serves: `python -m odradek.telemetry.reference
FILE`."""

import sys
from types import ModuleType

from odradek.telemetry.catalogue import MODULES
from odradek.telemetry.declarations import Kind, Metric
from odradek.telemetry.exposition import label_name
from odradek.world import OsDisk

_HEAD = """\
# Metrics

Every metric that a broker serves at `/metrics` on its [management port](../monitoring.md), with the
MBean that has the same figure under Kafka's name. The quantiles of summaries are 0.50, 0.75, 0.95,
0.98, 0.99 and 0.999, over the last one to two minutes.
"""
_TABLE = "| metric | type | labels | MBean | served by | what it is |\n|---|---|---|---|---|---|\n"


def reference() -> str:
    """Returns the page: a table for each module of `telemetry.catalogue`."""
    return _HEAD + "".join(map(_section, MODULES))


def _section(module: ModuleType) -> str:
    title = module.__name__.rpartition(".")[2].capitalize()
    doc = " ".join((module.__doc__ or "").split())
    rows = (_row(metric) for metric in vars(module).values() if isinstance(metric, Metric))
    return f"\n## {title}\n\n{doc}\n\n{_TABLE}" + "".join(rows)


def _row(metric: Metric) -> str:
    labels = ", ".join(f"`{label_name(label)}`" for label in metric.labels)
    mbean = ""
    if metric.mbean:
        keys = "".join(f",{label}=..." for label in metric.labels)
        attribute = "" if metric.kind is Kind.SUMMARY else f" {metric.attribute}"
        mbean = f"`{metric.mbean}{keys}`{attribute}"
    return (
        f"| `{metric.name}` | {metric.kind.value} | {labels} | {mbean} | {metric.served.value} |"
        f" {metric.help} |\n"
    )


if __name__ == "__main__":
    OsDisk().replace(sys.argv[1], reference().encode())
