"""Whether offsets that a query is to read, or has read, still exist. Pure functions and one rule.

Every query asks the same way, whatever its trigger: batch queries and the first batch of a stream
compare the offsets that the user named with the log (`outside_log`), and every micro-batch compares
the offsets of the checkpoint with the log (`lost_since`). While tasks read, `RangeReader` notices
what is deleted in the meantime. `report` then stops the query, or warns if failOnDataLoss=false.
"""

import logging
from collections.abc import Mapping

from odradek.protocol.types import TopicPartition
from odradek.spark.offsets import (
    Offsets,
    OffsetsJson,
    TopicIds,
    from_json,
    ids_of,
    recreated_topics,
)

_log = logging.getLogger("odradek.spark")


class DataMissing(RuntimeError):
    """Partitions or offsets that a query has read, or is to read, do not exist."""


def report(losses: list[str], *, fail_on_data_loss: bool) -> None:
    """Raises `DataMissing`, or warns, if there are losses."""
    if not losses:
        return
    if fail_on_data_loss:
        raise DataMissing(
            f"{losses[0]}; records may be lost. To go on without them, set"
            " option('failOnDataLoss', 'false')"
        )
    for loss in losses:
        _log.warning("%s: going on without", loss)


def lost_since(start: OffsetsJson, latest: Offsets, ids: TopicIds) -> list[str]:
    """Returns what is gone of the partitions that were read up to `start`, if they now end at
    `latest` and their topics have the ids `ids`."""
    recreated = recreated_topics(ids_of(start), ids)
    losses = []
    for partition, begin in from_json(start).items():
        name = _name(partition)
        if partition not in latest:
            losses.append(
                f"{name} is gone, or this query reads it no longer (another query needs another"
                " checkpointLocation)"
            )
        elif partition.topic in recreated and begin > 0:
            losses.append(
                f"{partition.topic} was deleted and created again after offset {begin} of partition"
                f" {partition.partition} was read"
            )
        elif partition.topic not in recreated and latest[partition] < begin:
            losses.append(f"{name} ends at {latest[partition]} after {begin} was read")
    return losses


def outside_log(
    option: str,
    requested: Mapping[TopicPartition, int],
    earliest: Mapping[TopicPartition, int],
    latest: Mapping[TopicPartition, int],
) -> list[str]:
    """Returns which offsets that an option names are not in the log, from `earliest` to `latest`
    inclusive: a query may start or end at the end of the log."""
    losses = []
    for partition, offset in sorted(requested.items()):
        if offset > latest[partition]:
            losses.append(
                f"{option} names offset {offset} of {_name(partition)}, which ends at"
                f" {latest[partition]}"
            )
        elif offset < earliest[partition]:
            losses.append(
                f"{option} names offset {offset} of {_name(partition)}, which begins at"
                f" {earliest[partition]}"
            )
    return losses


def _name(partition: TopicPartition) -> str:
    return f"{partition.topic} [{partition.partition}]"
