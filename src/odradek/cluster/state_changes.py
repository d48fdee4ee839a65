"""Writes changes of partition states (leader, ISR, leader epoch), many in one multi.

Every multi checks the version of the controller epoch's node, so that a decision made under an
older controller changes nothing. A decision that breaks the rules of `elections` is not written.

An unclean election, and the return of a lost log, bring a replica into the ISR that was
neither in it nor eligible. Their multi also checks the version of the topic's assignment, because
a reassignment may have dropped the replica meanwhile.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Final

from odradek.cluster.elections import check_decision, describe
from odradek.invariants import InvariantViolation
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
"""In one multi: as many as a ZooKeeper ensemble takes without delaying its other clients."""

_LAG_S: Final = 0.01

Decision = Callable[[ClusterImage, PartitionImage], PartitionState | None]
_Decided = tuple[TopicPartition, PartitionImage, PartitionState]


async def change_states(
    cache: MetadataCache,
    partitions: Iterable[TopicPartition],
    decide: Decision,
    reason: str,
    *,
    fence: int | None = None,
    max_operations: int = MAX_OPERATIONS,
) -> int:
    """Changes each partition to the state that `decide` returns, and decides again if another
    broker changed it first. Returns how many were changed.

    `fence` is the version of the controller epoch's node in which a controller was elected; raises
    `Fenced` once it has passed. Brokers that are not the controller pass none: then the epoch in
    the image is checked.
    """
    pending = list(partitions)
    pending.reverse()  # The next ones are taken from the end.
    changed, max_count = 0, max_operations
    while pending:
        image = cache.image
        chunk = [pending.pop() for _ in range(min(max_count, len(pending)))]
        states = _decided(image, chunk, decide)
        if not states:
            continue
        operations: list[Operation] = [
            check
            for name in dict.fromkeys(topic_partition.topic for topic_partition, _, _ in states)
            for check in image.topics[name].checks()
        ]
        operations += _assignment_checks(image, states)
        operations += [
            Set(partition_state_path(*topic_partition), after.encode(), before.version)
            for topic_partition, before, after in states
        ]
        try:
            outcome = await write(cache, *operations, fence=fence, under_controller=True)
        except ChangeTooBig:
            if len(chunk) == 1:
                raise
            pending.extend(reversed(chunk))
            max_count = max_operations = len(chunk) // 2
            continue
        if outcome is not Outcome.WRITTEN:
            pending.extend(reversed(chunk))
            if max_count == 1:
                # A single change is refused again and again: the image lags behind the store.
                await asyncio.sleep(_LAG_S)
            max_count = max(1, max_count // 2)
            continue
        max_count = max_operations
        changed += len(states)
        for topic_partition, before, after in states:
            logger.info("%s-%d: %s: %s", *topic_partition, describe(before, after), reason)
    return changed


def _assignment_checks(image: ClusterImage, states: Iterable[_Decided]) -> list[Operation]:
    """Returns the checks of the topics in which a replica enters an ISR."""
    entered = dict.fromkeys(
        topic_partition.topic
        for topic_partition, before, after in states
        if not {*before.isr, *before.eligible}.issuperset(after.isr)
    )
    return [image.topics[name].check_assignment() for name in entered]


def _decided(
    image: ClusterImage, taken: Iterable[TopicPartition], decide: Decision
) -> list[_Decided]:
    decided = []
    for topic_partition in taken:
        before = image.partition(*topic_partition)
        after = None if before is None else decide(image, before)
        if before is None or after is None:
            continue
        try:
            check_decision(topic_partition, before, after)
        except InvariantViolation as violation:
            # The partition keeps its state; the others are changed.
            logger.error("a wrong decision is not written: %s", violation, exc_info=violation)
        else:
            decided.append((topic_partition, before, after))
    return decided
