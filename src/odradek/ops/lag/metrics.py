"""The series that Burrow serves, under its names, from the statuses of groups."""

from typing import Final

from odradek.ops.lag.service import LagService
from odradek.telemetry.declarations import Collected, gauge

_GROUP: Final = ("cluster", "consumer_group")
_PARTITION: Final = (*_GROUP, "topic", "partition")

LAG_TOTAL: Final = gauge(
    "burrow_kafka_consumer_lag_total", "How far the group is behind, in records.", labels=_GROUP
)
STATUS: Final = gauge(
    "burrow_kafka_consumer_status", "The status of the group: 1 OK, 2 WARN, 3 ERR.", labels=_GROUP
)
PARTITION_STATUS: Final = gauge(
    "burrow_kafka_topic_partition_status",
    "1 OK, 2 WARN, 4 STOP, 5 STALL, 6 REWIND.",
    labels=_PARTITION,
)
PARTITION_LAG: Final = gauge(
    "burrow_kafka_consumer_partition_lag",
    "How far the group is behind in the partition.",
    labels=_PARTITION,
)
CURRENT_OFFSET: Final = gauge(
    "burrow_kafka_consumer_current_offset",
    "The offset that the group has committed.",
    labels=_PARTITION,
)


def collect(service: LagService) -> Collected:
    """Returns the samples of all groups."""
    collected = Collected()
    for group in service.statuses():
        names = (service.cluster, group.group)
        collected.add(LAG_TOTAL, group.total_lag, *names)
        collected.add(STATUS, int(group.status), *names)
        for judged in group.partitions:
            topic, index = judged.partition
            where = (*names, topic, f"{index}")
            collected.add(PARTITION_STATUS, int(judged.status), *where)
            collected.add(PARTITION_LAG, judged.current_lag, *where)
            collected.add(CURRENT_OFFSET, judged.window.commits[-1].offset, *where)
    return collected
