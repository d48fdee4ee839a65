"""Every metric that a broker serves, one declaration each (`telemetry.declarations`).

The modules are the rooms that the metrics are about. `ALL` is what the reference page lists and
what a test looks for on a live cluster.
"""

from typing import Final

from odradek.telemetry.catalogue import (
    clients,
    cluster,
    exporter,
    logs,
    network,
    process,
    replication,
    security,
    topics,
)
from odradek.telemetry.declarations import Metric, by_name

MODULES: Final = (
    network,
    topics,
    replication,
    logs,
    cluster,
    exporter,
    clients,
    process,
    security,
)
ALL: Final = by_name(
    metric for module in MODULES for metric in vars(module).values() if isinstance(metric, Metric)
)
