"""Writes changes of partition states: many at a time, fenced, and decided again when late.

Every batch checks the version of the controller epoch's node, so that whoever decided under an
older controller changes nothing.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Final

from odradek.cluster.elections import describe
from odradek.metadata import (
    ChangeTooBig,
    ClusterImage,
    MetadataCache,
    Operation,
    PartitionImage,
    Set,
)
from odradek.metadata.compare_and_set import Outcome, write
from odradek.metadata.node_values import PartitionState
from odradek.metadata.paths import partition_state_path
from odradek.protocol.types import TopicPartition

logger = logging.getLogger("odradek.state_change")

MAX_OPERATIONS: Final = 200
"""In one multi: what a ZooKeeper ensemble takes without holding up everybody else."""

_LAG_S: Final = 0.01

Decision = Callable[[ClusterImage, PartitionImage], PartitionState | None]


async def change_states(
    images: MetadataCache,
    partitions: Iterable[TopicPartition],
    decide: Decision,
    reason: str,
    *,
    fence: int | None = None,
    max_operations: int = MAX_OPERATIONS,
) -> int:
    """Changes each partition to what `decide` says of it, and decides again where somebody else
    was faster. Returns how many were changed.

    `fence` is the version of the controller epoch's node on which a controller rests; raises
    `Fenced` once it has passed. Others act under whatever epoch there is.
    """
    waiting = list(partitions)
    waiting.reverse()  # the next ones are taken from the end
    changed, most = 0, max_operations
    while waiting:
        image = images.image
        taken = [waiting.pop() for _ in range(min(most, len(waiting)))]
        states = _decided(image, taken, decide)
        if not states:
            continue
        operations: list[Operation] = [
            check
            for name in dict.fromkeys(where.topic for where, _, _ in states)
            for check in image.topics[name].checks()
        ]
        operations += [
            Set(partition_state_path(*where), after.encode(), before.version)
            for where, before, after in states
        ]
        try:
            outcome = await write(images, *operations, fence=fence, under_controller=True)
        except ChangeTooBig:
            if len(taken) == 1:
                raise
            waiting.extend(reversed(taken))
            most = max_operations = len(taken) // 2
            continue
        if outcome is not Outcome.WRITTEN:
            waiting.extend(reversed(taken))
            if most == 1:
                # A single one refused again and again: the image lags behind the store.
                await asyncio.sleep(_LAG_S)
            most = max(1, most // 2)
            continue
        most = max_operations
        changed += len(states)
        for where, before, after in states:
            logger.info("%s-%d: %s: %s", *where, describe(before, after), reason)
    return changed


def _decided(
    image: ClusterImage, taken: Iterable[TopicPartition], decide: Decision
) -> list[tuple[TopicPartition, PartitionImage, PartitionState]]:
    decided = []
    for where in taken:
        before = image.partition(*where)
        after = None if before is None else decide(image, before)
        if before is not None and after is not None:
            decided.append((where, before, after))
    return decided
