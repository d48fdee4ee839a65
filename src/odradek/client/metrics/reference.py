"""The reference page of the metrics of clients: `python -m odradek.client.metrics.reference
FILE`."""

import sys

from odradek.client.metrics.catalogue import ALL, ClientMetric, Formula
from odradek.world import OsDisk

_HEAD = """\
# Metrics of the Python client

What `metrics()` of a producer, a consumer and an admin client returns: a dict whose keys have a
`name`, a `group`, `tags` and a `description`, under Kafka's names. The tag `client-id` is always
there. Rates and averages are of the last half to whole minute if `metrics()` is called that often,
and otherwise of the time since the call before; maxima likewise. Times are in milliseconds.

A broker that [asks for them](../monitoring.md#metrics-of-clients) is pushed the same metrics under
the names of the last column.

This page is generated: `python -m odradek.client.metrics.reference
docs/reference/client-metrics.md`.
"""
_TABLE = "| metric | group | tags | what it is | pushed as |\n|---|---|---|---|---|\n"
_TITLES = {"producer": "Producer", "consumer": "Consumer", "admin": "Admin client"}
_PUSHED = ("producer", "consumer")


def reference() -> str:
    """Returns the page: a table for each kind of client."""
    sections = (
        f"\n## {_TITLES[kind]}\n\n{_TABLE}"
        + "".join(_row(metric, is_pushed=kind in _PUSHED) for metric in metrics)
        for kind, metrics in ALL.items()
    )
    return _HEAD + "".join(sections)


def _row(metric: ClientMetric, *, is_pushed: bool) -> str:
    tags = ", ".join(f"`{tag}`" for tag in metric.scope.value)
    kind = " (sum)" if metric.formula is Formula.TOTAL else ""
    pushed = f"`{metric.pushed_name}`{kind}" if is_pushed else ""
    return f"| `{metric.name}` | `{metric.group}` | {tags} | {metric.description} | {pushed} |\n"


if __name__ == "__main__":
    OsDisk().replace(sys.argv[1], reference().encode())
