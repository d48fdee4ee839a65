"""Reassigns partitions to other replicas, step by step (KIP-455).

1. Begin: the topic's assignment gets the new replicas (`adding`) and says which ones are to go
   (`removing`). The target replicas come first, so that elections prefer them. The new brokers
   begin to fetch as followers.
2. In sync: the leaders add them to the ISR, as any follower.
3. Finish: when all new replicas are in sync, the controller makes the target the assignment,
   removes the others from the ISR and, if one of them led, elects one of those that stay.
   The brokers that lost the partition delete their logs.

Cancelling before the finish goes back to the original replicas. Assignment and states change in one
multi. No replica is removed before two of those that stay are in sync, if there are to be two. That
holds for a replica out of sync too: its log may be the only other copy of the last committed
records, as after an I/O error that took its directory offline until a restart.
"""

import logging
from collections.abc import Collection, Container, Mapping, Sequence
from typing import NamedTuple

from odradek.cluster.elections import SAFE
from odradek.cluster.store_errors import as_api_errors
from odradek.invariants import InvariantViolation
from odradek.metadata import (
    ChangeTooBig,
    Check,
    ClusterImage,
    MetadataCache,
    Operation,
    PartitionImage,
    Set,
    TopicImage,
)
from odradek.metadata.compare_and_set import Outcome, Tries, write
from odradek.metadata.node_values import NO_LEADER, PartitionState, TopicAssignment
from odradek.metadata.paths import partition_state_path, topic_path
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.types import BrokerId, LeaderEpoch
from odradek.wording import counted

logger = logging.getLogger("odradek.state_change")


class Step(NamedTuple):
    """The next assignment of a partition, and its next state if that changes too."""

    replicas: tuple[BrokerId, ...]
    adding: tuple[BrokerId, ...] = ()
    removing: tuple[BrokerId, ...] = ()
    state: PartitionState | None = None

    def check(self, subject: str) -> None:
        """Raises `InvariantViolation` if the sets of replicas contradict each other."""
        replicas = set(self.replicas)
        broken: str | None = None
        if len(replicas) != len(self.replicas) or not replicas.difference(self.removing):
            broken = "no replica would be left, or one is named twice"
        elif not replicas.issuperset((*self.adding, *self.removing)):
            broken = "a broker that is added or removed is not a replica"
        elif not set(self.adding).isdisjoint(self.removing):
            broken = "a replica is added and removed"
        elif self.state is not None:
            state = self.state
            if not replicas.issuperset((*state.isr, *state.eligible)):
                broken = "the ISR has a broker that is not a replica"
            elif state.leader != NO_LEADER and state.leader not in state.isr:
                broken = "the leader is not in the ISR"
        if broken is not None:
            raise InvariantViolation(subject, f"{broken}: {self}")


class TooFewInSync(Exception):
    """Committed records would be left on one replica, or on none."""


def original(partition: PartitionImage) -> tuple[BrokerId, ...]:
    """Returns the replicas before the reassignment under way."""
    return tuple(replica for replica in partition.replicas if replica not in partition.adding)


def target(partition: PartitionImage) -> tuple[BrokerId, ...]:
    """Returns the replicas after the reassignment under way."""
    return tuple(replica for replica in partition.replicas if replica not in partition.removing)


def is_moving(partition: PartitionImage) -> bool:
    return bool(partition.adding or partition.removing)


def begin(
    partition: PartitionImage,
    target_replicas: Sequence[BrokerId],
    live: Container[BrokerId],
    controller_epoch: int,
) -> Step:
    """Returns the first step towards the target, which is also the last if only the order changes.
    A reassignment that is under way is replaced: its new replicas are dropped."""
    before = original(partition)
    remaining = tuple(replica for replica in before if replica not in target_replicas)
    replicas = (*target_replicas, *remaining)
    adding = tuple(replica for replica in target_replicas if replica not in before)
    removing = remaining
    state = _among(partition, replicas, live, controller_epoch)
    return Step(replicas, adding, removing, state)


def cancel(partition: PartitionImage, live: Container[BrokerId], controller_epoch: int) -> Step:
    """Returns the step back to the original replicas. Raises `TooFewInSync` if too few of them have
    every committed record."""
    replicas = original(partition)
    return Step(replicas, state=_among(partition, replicas, live, controller_epoch))


def finish(
    partition: PartitionImage, live: Container[BrokerId], controller_epoch: int
) -> Step | None:
    """Returns the last step if every new replica is in sync, one that stays can lead, and enough of
    those that stay are in sync; None otherwise."""
    replicas = target(partition)
    in_sync = [replica for replica in replicas if replica in partition.isr]
    if (
        not is_moving(partition)
        or not all(replica in partition.isr for replica in partition.adding)
        or not any(replica in live for replica in in_sync)
        or len(in_sync) < min(SAFE, len(replicas))
    ):
        return None
    return Step(replicas, state=_among(partition, replicas, live, controller_epoch))


def _is_safe_with(partition: PartitionImage, replicas: Sequence[BrokerId]) -> bool:
    """Returns whether enough of these replicas have every committed record, or no other has."""
    in_sync = [replica for replica in partition.isr if replica in replicas]
    holders = (*partition.isr, *partition.eligible)
    return bool(in_sync) and (
        len(in_sync) >= min(SAFE, len(replicas)) or all(holder in replicas for holder in holders)
    )


def _among(
    partition: PartitionImage,
    replicas: Sequence[BrokerId],
    live: Container[BrokerId],
    controller_epoch: int,
) -> PartitionState | None:
    """Returns the state in which only these replicas are in sync, eligible or lead; None if it is
    so already."""
    in_sync = tuple(replica for replica in partition.isr if replica in replicas)
    is_left = any(replica not in replicas for replica in partition.eligible)
    if in_sync == partition.isr and not is_left and partition.leader in (*replicas, NO_LEADER):
        return None
    if not _is_safe_with(partition, replicas):
        raise TooFewInSync
    leader = partition.leader
    if leader not in in_sync:
        candidates = [replica for replica in replicas if replica in in_sync and replica in live]
        leader = BrokerId(candidates[0]) if candidates else NO_LEADER
    epoch = LeaderEpoch(partition.leader_epoch + 1)
    eligible = tuple(replica for replica in partition.eligible if replica in replicas)
    return PartitionState(
        leader, epoch, in_sync, controller_epoch, partition.is_recovering, eligible
    )


# Requests


async def reassign(
    cache: MetadataCache,
    name: str,
    targets: Mapping[int, Sequence[BrokerId] | None],
    *,
    may_change_factor: bool = True,
) -> dict[int, ApiError]:
    """Begins, replaces or (target None) cancels reassignments of a topic's partitions. Returns the
    partitions for which that is refused, and why."""
    tries = Tries(f"the assignment of topic '{name}'")
    pending = dict(targets)
    errors: dict[int, ApiError] = {}
    max_steps, may_be_cancelled = len(pending), set[int]()
    while pending:
        image = cache.image
        topic = image.topics.get(name)
        if topic is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic '{name}'.")
        steps: dict[int, Step] = {}
        for index, replicas in list(pending.items())[:max_steps]:
            try:
                steps[index] = _first_step(image, topic, index, replicas, may_change_factor)
            except ApiError as error:
                del pending[index]
                if index not in may_be_cancelled:
                    errors[index] = error
        if not steps:
            continue
        with as_api_errors():
            try:
                outcome = await write_steps(cache, topic, steps)
            except ChangeTooBig:
                if len(steps) == 1:
                    raise
                max_steps = len(steps) // 2
                continue
            tries.count(outcome)
        if outcome is Outcome.WRITTEN:
            for index in steps:
                del pending[index]
        elif outcome is Outcome.UNKNOWN:
            # If it was carried out, there is no reassignment left to cancel.
            may_be_cancelled |= {index for index in steps if pending[index] is None}
    return errors


def _first_step(
    image: ClusterImage,
    topic: TopicImage,
    index: int,
    replicas: Sequence[BrokerId] | None,
    may_change_factor: bool,
) -> Step:
    if not 0 <= index < len(topic.partitions):
        raise ApiError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"Topic '{topic.name}' has no partition {index}.",
        )
    partition = topic.partitions[index]
    try:
        if replicas is None:
            if not is_moving(partition):
                raise ApiError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
            return cancel(partition, image.brokers, image.controller_epoch)
        _check(image, partition, replicas, may_change_factor)
        return begin(partition, replicas, image.brokers, image.controller_epoch)
    except TooFewInSync:
        raise ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "Too few of the replicas that would stay are in sync: wait until they are.",
        ) from None


def _check(
    image: ClusterImage,
    partition: PartitionImage,
    replicas: Sequence[BrokerId],
    may_change_factor: bool,
) -> None:
    if not replicas or len(set(replicas)) != len(replicas):
        raise ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"A partition needs at least one replica and each but once, not {list(replicas)}.",
        )
    kept = original(partition)
    for replica in replicas:
        if replica not in image.brokers and replica not in kept:
            raise ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"There is no broker {replica}.")
    if not may_change_factor and len(replicas) != len(kept):
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The partition has {counted(len(kept), 'replica')}, {len(replicas)} were given.",
        )


# Writing


async def write_steps(
    cache: MetadataCache,
    topic: TopicImage,
    steps: Mapping[int, Step],
    *,
    fence: int | None = None,
) -> Outcome:
    """Writes the steps of one topic's partitions in one multi. If the outcome is not `WRITTEN`, the
    topic or a partition has changed since the image, and the caller decides again. Raises
    `ChangeTooBig` if the store takes less at a time: any part of the steps may be written alone."""
    for index, step in steps.items():
        step.check(f"{topic.name}-{index}")
    operations: list[Operation] = [
        *topic.checks(),
        Set(topic_path(topic.name), assignment(topic, steps).encode(), topic.version),
    ]
    for index, step in steps.items():
        path = partition_state_path(topic.name, index)
        version = topic.partitions[index].version
        if step.state is not None:
            operations.append(Set(path, step.state.encode(), version))
        else:
            operations.append(Check(path, version))
    outcome = await write(cache, *operations, fence=fence, under_controller=True)
    if outcome is Outcome.WRITTEN:
        for index, step in steps.items():
            _log(topic, index, step)
    return outcome


async def finish_reassignments(cache: MetadataCache, topics: Collection[str], fence: int) -> None:
    """Finishes the reassignment of every partition of these topics that is ready for it."""
    for name in sorted(topics):
        await _finish_topic(cache, name, fence)


async def _finish_topic(cache: MetadataCache, name: str, fence: int) -> None:
    """Writes all partitions at once, or in parts if the store takes less at a time."""
    max_steps: int | None = None
    while True:
        image = cache.image
        topic = image.topics.get(name)
        ready = {} if topic is None else _finishing(topic, image)
        if topic is None or not ready:
            return
        steps = dict(list(ready.items())[:max_steps])
        try:
            await write_steps(cache, topic, steps, fence=fence)
        except ChangeTooBig as error:
            if len(steps) == 1:
                # Nothing else may wait for this topic: it is tried again when it changes.
                logger.error("%s: its reassignment cannot be finished: %s", name, error)
                return
            max_steps = len(steps) // 2
        except InvariantViolation as violation:
            logger.error(
                "%s: its reassignment is not finished: %s", name, violation, exc_info=violation
            )
            return


def _finishing(topic: TopicImage, image: ClusterImage) -> dict[int, Step]:
    steps = {}
    for partition in topic.partitions:
        if is_moving(partition):
            step = finish(partition, image.brokers, image.controller_epoch)
            if step is not None:
                steps[partition.partition] = step
    return steps


def assignment(topic: TopicImage, steps: Mapping[int, Step]) -> TopicAssignment:
    """Returns the topic's assignment with these partitions changed."""
    partitions = [
        steps.get(
            partition.partition, Step(partition.replicas, partition.adding, partition.removing)
        )
        for partition in topic.partitions
    ]
    return TopicAssignment(
        topic.topic_id,
        tuple(step.replicas for step in partitions),
        {index: step.adding for index, step in enumerate(partitions) if step.adding},
        {index: step.removing for index, step in enumerate(partitions) if step.removing},
    )


def _log(topic: TopicImage, index: int, step: Step) -> None:
    before = topic.partitions[index]
    logger.info(
        "%s-%d: replicas %s -> %s, adding %s, removing %s",
        topic.name,
        index,
        list(before.replicas),
        list(step.replicas),
        list(step.adding),
        list(step.removing),
    )
