"""From the parts of a broker to samples: one module for each subject, each with `collect`.

A collector is a generator. It yields before each few hundred steps, so that a scrape of a broker
with thousands of partitions never holds up the event loop. What it walks over may change meanwhile,
so it takes a copy of every table first.
"""

from typing import Final

from odradek.broker.management.collectors import (
    clients,
    cluster,
    groups,
    logs,
    network,
    partitions,
    process,
    security,
    topics,
)
from odradek.broker.management.sources import Collector

COLLECTORS: Final[tuple[Collector, ...]] = (
    network.collect,
    topics.collect,
    partitions.collect,
    partitions.collect_isr_changes,
    logs.collect,
    cluster.collect,
    groups.collect,
    clients.collect,
    process.collect,
    security.collect,
)
