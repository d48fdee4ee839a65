"""The lag of a query, computed from its progress.

Spark shows `startOffset`, `endOffset` and `latestOffset` of each source in `query.lastProgress`;
the difference of the last two is the number of offsets that wait to be read.
"""

import json
from collections.abc import Mapping
from typing import Any

from odradek.protocol.types import TopicPartition
from odradek.spark.offsets import from_json


def lag(progress: Any) -> dict[TopicPartition, int]:
    """Returns the number of waiting offsets in each partition after a batch:
    `lag(query.lastProgress)`."""
    waiting: dict[TopicPartition, int] = {}
    if progress is None:
        return waiting
    for source in progress["sources"]:
        end, latest = offsets_of(source["endOffset"]), offsets_of(source["latestOffset"])
        for partition, offset in latest.items():
            waiting[partition] = waiting.get(partition, 0) + max(0, offset - end.get(partition, 0))
    return waiting


def total_lag(progress: Any) -> int:
    """Returns the number of waiting offsets in all partitions together."""
    return sum(lag(progress).values())


def offsets_of(shown: Any) -> dict[TopicPartition, int]:
    """Reads offsets as Spark shows them: a dict, or JSON in a string. Other sources show other
    values, which are ignored."""
    if isinstance(shown, str):
        try:
            shown = json.loads(shown)
        except json.JSONDecodeError:
            return {}
    if not isinstance(shown, Mapping) or not all(
        isinstance(value, Mapping) for value in shown.values()
    ):
        return {}
    try:
        return from_json(dict(shown))
    except (TypeError, ValueError):
        return {}
