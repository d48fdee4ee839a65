"""Decides which replica leads a partition: every such decision is a function here.

`unclean_candidates` decides whether an unclean election is allowed, and among which replicas.
`controller.elect_unclean` asks the candidates how long their logs are, and then calls `unclean`.

Each function takes a partition's state from the image and the live brokers, and returns the state
to write, or None if nothing is to change. `state_changes` writes it by compare-and-set on the
version that the decision was made from, and has it decided again if the version has passed.

Rules that hold for all decisions (`check_decision` checks the first three):

- A new leader is a member of the ISR or an eligible replica; only `unclean` breaks that,
  and the state says so.
- The leader is in the ISR that is written.
- When the leader changes, or there is none any more, the leader epoch is bumped.
- The last members of an ISR stay in it when they die: only they have every committed
  record.
- If the last one comes back without its log (its disk was replaced) and other replicas exist, the
  partition stays without a leader: an empty log that led would make the others truncate theirs.
- A replica that leaves a set of which only one remains stays eligible (KIP-966). The leader commits
  nothing until it has removed the replica from the eligible ones, so the replica has every
  committed record if the last one in sync loses its tail.
- The order of the replicas is the order of preference.
"""

from collections.abc import Collection, Container, Iterator
from enum import Enum, auto
from typing import Final

from odradek.invariants import InvariantViolation
from odradek.metadata import ClusterImage, PartitionImage
from odradek.metadata.node_values import NO_LEADER, PartitionState
from odradek.protocol.types import BrokerId, LeaderEpoch, TopicPartition

# With so many replicas in sync one of them may lose its tail, and no committed record is lost.
SAFE: Final = 2


class LogCondition(Enum):
    """What is left of the logs of a broker's previous run when it starts again."""

    # The broker shut down cleanly.
    COMPLETE = auto()
    # The broker was killed, but the operating system kept running, and with it the page cache.
    PAGE_CACHE_KEPT = auto()
    # The machine went down, a disk failed, or it is not known what happened.
    TAIL_MAY_BE_LOST = auto()
    # The log of this partition was in a directory that is gone: the disk was replaced.
    LOST = auto()


def after_loss(
    partition: PartitionImage, live: Container[BrokerId], controller_epoch: int
) -> PartitionState | None:
    """If the leader is gone, or there is none, the first live replica in sync leads."""
    if partition.version < 0 or partition.leader in live:
        return None
    chosen = _first_electable(partition, live)
    if chosen is not None:
        in_sync = tuple(replica for replica in partition.isr if replica in live)
        return _led_by(chosen, partition, in_sync or (chosen,), controller_epoch)
    if partition.leader == NO_LEADER:
        return None
    return _led_by(NO_LEADER, partition, partition.isr, controller_epoch)


def returning(
    partition: PartitionImage,
    broker: BrokerId,
    live: Container[BrokerId],
    controller_epoch: int,
    condition: LogCondition,
) -> PartitionState | None:
    """Before a broker registers, it gives up the roles of its previous run.

    - The leader epoch of a partition that it led is bumped. So a consumer that has read records
      which a crash took away can tell them from those that are at the same offsets now.
    - After an unclean shutdown it leaves the ISR if there are others in it (KIP-966). If it
      was merely killed it stays eligible where that matters. If it may have lost its tail it does
      not, and the eligible replicas take its place if it was the last in sync.
    - If it was the last in sync, has lost its log, and other replicas exist, the partition has no
      leader until an operator asks for an unclean election. A sole replica leads with an empty log,
      because there is no other to wait for.
    """
    if partition.version < 0:
        return None
    before, in_sync = partition, partition.isr
    if condition is not LogCondition.COMPLETE:
        in_sync = _without(partition.isr, broker) or in_sync
    if condition in (LogCondition.TAIL_MAY_BE_LOST, LogCondition.LOST):
        others = _without(partition.eligible, broker)
        if in_sync == (broker,):
            in_sync = others or in_sync
        eligible = tuple(replica for replica in others if replica not in in_sync)
        partition = partition._replace(isr=in_sync, eligible=eligible)
    if condition is LogCondition.LOST and in_sync == (broker,) and len(partition.replicas) > 1:
        epoch = LeaderEpoch(partition.leader_epoch + 1)
        return PartitionState(NO_LEADER, epoch, (), controller_epoch, last_known=(broker,))
    if partition.leader != broker and in_sync == before.isr and partition == before:
        return None
    if partition.leader not in (broker, NO_LEADER):
        return _led_by(partition.leader, partition, in_sync, controller_epoch)
    chosen = _first_in_sync(partition._replace(isr=in_sync), _Without(live, broker))
    if chosen is None:
        chosen = broker if broker in in_sync else NO_LEADER
    led = _led_by(chosen, partition, in_sync, controller_epoch)
    return led._replace(leader_epoch=LeaderEpoch(partition.leader_epoch + 1))


def restored(
    partition: PartitionImage, broker: BrokerId, controller_epoch: int
) -> PartitionState | None:
    """Before a broker registers that has a lost log back: it was the last in sync, and no other
    replica has led since, so it leads again."""
    if partition.leader != NO_LEADER or partition.isr or broker not in partition.last_known:
        return None
    if broker not in partition.replicas:
        return None  # It was a new replica of a reassignment that was cancelled since.
    return _led_by(broker, partition, (broker,), controller_epoch)


def departing(
    partition: PartitionImage, broker: BrokerId, live: Container[BrokerId], controller_epoch: int
) -> PartitionState | None:
    """A leader that is about to stop hands over to another replica in sync, and leaves the set."""
    if partition.version < 0 or partition.leader != broker:
        return None
    chosen = _first_in_sync(partition, _Without(live, broker))
    if chosen is None:
        return None
    return _led_by(chosen, partition, _without(partition.isr, broker), controller_epoch)


def leaving(
    partition: PartitionImage, broker: BrokerId, controller_epoch: int
) -> PartitionState | None:
    """A follower that is about to stop leaves the ISR: no producer waits for it then."""
    if broker not in partition.isr or partition.leader in (broker, NO_LEADER):
        return None
    in_sync = _without(partition.isr, broker)
    return _led_by(partition.leader, partition, in_sync, controller_epoch)


def preferred(
    partition: PartitionImage, live: Container[BrokerId], controller_epoch: int
) -> PartitionState | None:
    """The preferred leader, which is the first replica, leads again if it is live and in sync."""
    first = partition.replicas[0]
    if partition.leader == first or first not in live or first not in partition.isr:
        return None
    return _led_by(BrokerId(first), partition, partition.isr, controller_epoch)


def unclean(
    partition: PartitionImage, chosen: BrokerId, live: Container[BrokerId], controller_epoch: int
) -> PartitionState | None:
    """A replica that is not in sync leads; records that only the others have are lost."""
    if (
        chosen not in live
        or chosen not in partition.replicas
        or not has_no_clean_leader(partition, live)
    ):
        return None
    led = _led_by(chosen, partition, (chosen,), controller_epoch)
    return led._replace(is_recovering=True, eligible=())


def has_no_clean_leader(partition: PartitionImage, live: Container[BrokerId]) -> bool:
    """Returns whether the partition has no leader, and no live replica that is in sync or
    eligible."""
    return (
        partition.version >= 0
        and partition.leader not in live
        and _first_electable(partition, live) is None
    )


def unclean_candidates(
    partition: PartitionImage,
    live: Container[BrokerId],
    *,
    is_enabled: bool,
    is_asked_for: bool = False,
) -> list[BrokerId]:
    """Returns the replicas that may lead after an unclean election; none if it is not allowed.

    It is allowed if no other replica can lead, and either the topic has
    `unclean.leader.election.enable` (`is_enabled`) or an operator asks for the election. A replica
    that has lost its log is a candidate only if an operator asks: the others may be back soon."""
    if not has_no_clean_leader(partition, live) or not (is_enabled or is_asked_for):
        return []
    empty = () if is_asked_for else partition.last_known
    return [
        BrokerId(replica)
        for replica in partition.replicas
        if replica in live and replica not in empty
    ]


def out_of_balance(image: ClusterImage, max_percent: int) -> list[TopicPartition]:
    """Returns the partitions to give back to their preferred leaders: of each broker that does not
    lead more than `max_percent` of the partitions whose preferred leader it is. Partitions that are
    being reassigned are left alone."""
    led: dict[BrokerId, int] = {}
    away: dict[BrokerId, list[TopicPartition]] = {}
    for topic_partition, partition in partitions_of(image, image.topics):
        if partition.adding or partition.removing:
            continue
        first = partition.replicas[0]
        led[first] = led.get(first, 0) + 1
        if partition.leader != first:
            away.setdefault(first, []).append(topic_partition)
    return [
        topic_partition
        for broker, missing in sorted(away.items())
        if broker in image.brokers and 100 * len(missing) > max_percent * led[broker]
        for topic_partition in missing
        if _can_be_given_back(image, topic_partition)
    ]


def partitions_of(
    image: ClusterImage, topics: Collection[str]
) -> Iterator[tuple[TopicPartition, PartitionImage]]:
    """Yields the partitions of those topics that exist, sorted by topic."""
    for name in sorted(topics):
        topic = image.topics.get(name)
        if topic is not None:
            for partition in topic.partitions:
                yield TopicPartition(name, partition.partition), partition


def describe(before: PartitionImage, after: PartitionState) -> str:
    """Describes a change for the log of state changes."""
    said = f"leader {before.leader} -> {after.leader}, epoch {after.leader_epoch}"
    if before.isr != after.isr:
        said += f", in sync {_numbers(before.isr)} -> {_numbers(after.isr)}"
    if before.eligible != after.eligible:
        said += f", eligible {_numbers(before.eligible)} -> {_numbers(after.eligible)}"
    if after.last_known:
        said += f", in sync last was {_numbers(after.last_known)}"
    return said + (", unclean" if after.is_recovering else "")


def check_decision(
    topic_partition: TopicPartition, before: PartitionImage, after: PartitionState
) -> None:
    """Raises `InvariantViolation` if a decision breaks the rules of this module."""
    violation = _broken_rule(before, after)
    if violation is not None:
        name = f"{topic_partition.topic}-{topic_partition.partition}"
        raise InvariantViolation(name, violation, (f"before: {before}", f"after: {after}"))


def _broken_rule(before: PartitionImage, after: PartitionState) -> str | None:
    leader, electable = after.leader, (*before.isr, *before.eligible, *before.last_known)
    known = {*before.isr, *before.eligible}
    added = [replica for replica in (*after.isr, *after.eligible) if replica not in known]
    broken: str | None = None
    if leader != NO_LEADER and leader not in after.isr:
        broken = "the leader is not in the ISR"
    elif leader not in (NO_LEADER, *electable) and not after.is_recovering:
        broken = "the leader was neither in sync nor eligible, and the election is not unclean"
    elif not set(before.replicas).issuperset(added):
        broken = "a broker that is not a replica enters the ISR"
    elif not set(after.isr).isdisjoint(after.eligible):
        broken = "a replica is in sync and eligible"
    elif after.leader_epoch < before.leader_epoch:
        broken = "the leader epoch falls"
    elif leader != before.leader and after.leader_epoch == before.leader_epoch:
        broken = "the leader changes without a new leader epoch"
    return broken


def _can_be_given_back(image: ClusterImage, topic_partition: TopicPartition) -> bool:
    partition = image.topics[topic_partition.topic].partitions[topic_partition.partition]
    return preferred(partition, image.brokers, 0) is not None


def _first_in_sync(partition: PartitionImage, live: Container[BrokerId]) -> BrokerId | None:
    for replica in partition.replicas:
        if replica in partition.isr and replica in live:
            return BrokerId(replica)
    return None


def _first_electable(partition: PartitionImage, live: Container[BrokerId]) -> BrokerId | None:
    """Returns the first live replica in sync, or else the first live eligible one."""
    chosen = _first_in_sync(partition, live)
    if chosen is not None:
        return chosen
    return next((BrokerId(replica) for replica in partition.eligible if replica in live), None)


def _led_by(
    leader: BrokerId,
    partition: PartitionImage,
    in_sync: tuple[BrokerId, ...],
    controller_epoch: int,
) -> PartitionState:
    epoch = partition.leader_epoch + (leader != partition.leader)
    # The leader knows `min.insync.replicas`: it removes the eligible replicas it does not need.
    left = partition.isr if len(in_sync) < SAFE else ()
    known = dict.fromkeys((*partition.eligible, *left))
    eligible = tuple(replica for replica in known if replica not in in_sync)
    return PartitionState(leader, LeaderEpoch(epoch), in_sync, controller_epoch, eligible=eligible)


def _without(replicas: tuple[BrokerId, ...], broker: BrokerId) -> tuple[BrokerId, ...]:
    return tuple(replica for replica in replicas if replica != broker)


def _numbers(brokers: tuple[BrokerId, ...]) -> str:
    return ",".join(map(str, brokers)) or "nobody"


class _Without(Container[BrokerId]):
    """The live brokers except one."""

    __slots__ = ("_live", "_missing")

    def __init__(self, live: Container[BrokerId], missing: BrokerId) -> None:
        self._live = live
        self._missing = missing

    def __contains__(self, broker: object) -> bool:
        return broker != self._missing and broker in self._live
