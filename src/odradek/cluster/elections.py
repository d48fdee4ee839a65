"""Who leads a partition: every decision about it, as functions of what the image shows.

Each takes a partition and who is there, and returns the state to write, or None where
nothing is to change. Whoever writes it does so by compare-and-set on the version that the
decision was made from, and decides again if that has passed.

Rules that hold in all of them:

- A leader is a live member of the in-sync set; only `unclean` breaks that, and the state says so.
- A new leader, or none any more, means the next leader epoch.
- The last members of an in-sync set stay in it when they die: they alone have everything.
- If the last one comes back without its log (its disk was replaced) and other replicas exist, the
  partition stays without a leader: an empty log that led would make the others truncate theirs.
- Whoever leaves a set of which only one remains stays eligible (KIP-966): the leader commits
  nothing until it has struck it off, so it has everything too if that last one loses its tail.
- The order of the replicas is the order of preference.
"""

from collections.abc import Collection, Container, Iterator
from enum import Enum, auto
from typing import Final

from odradek.metadata import ClusterImage, PartitionImage
from odradek.metadata.node_values import NO_LEADER, PartitionState
from odradek.protocol.types import BrokerId, LeaderEpoch, TopicPartition

# Replicas of which one may lose its tail, and nothing is lost.
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
    partition: PartitionImage, live: Container[int], controller_epoch: int
) -> PartitionState | None:
    """When the leader is gone, or there is none: the first live replica in sync leads."""
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
    live: Container[int],
    controller_epoch: int,
    condition: LogCondition,
) -> PartitionState | None:
    """Before a broker registers: it gives up what it held in its former life.

    What it led it leads no longer in that epoch: a reader that saw the tail which a crash took
    away can tell from the epoch that what stands there now is something else. After an unclean
    stop it leaves the in-sync set if there are others in it (KIP-966). If it was merely killed
    it stays eligible where it matters; if it may have lost its tail it does not, and those that
    are eligible take its place if it was the last. If it was the last, has lost everything, and
    others may have most of it, nobody leads until somebody asks for an unclean election; a sole
    replica leads with an empty log, because there is nobody to wait for."""
    if partition.version < 0:
        return None
    before, in_sync = partition, partition.isr
    if condition is not LogCondition.COMPLETE:
        in_sync = _without(partition.isr, broker) or in_sync
    if condition in (LogCondition.TAIL_MAY_BE_LOST, LogCondition.LOST):
        others = _without(partition.eligible, broker)
        if in_sync == (broker,):
            in_sync = others or in_sync
        eligible = tuple(one for one in others if one not in in_sync)
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
    """Before a broker registers, with a log that it had lost: it was in sync last and nobody has
    led since, so it leads again."""
    if partition.leader != NO_LEADER or partition.isr or broker not in partition.last_known:
        return None
    return _led_by(broker, partition, (broker,), controller_epoch)


def departing(
    partition: PartitionImage, broker: BrokerId, live: Container[int], controller_epoch: int
) -> PartitionState | None:
    """A leader that is about to stop hands over to another in sync, and leaves the set."""
    if partition.version < 0 or partition.leader != broker:
        return None
    chosen = _first_in_sync(partition, _Without(live, broker))
    if chosen is None:
        return None
    return _led_by(chosen, partition, _without(partition.isr, broker), controller_epoch)


def leaving(
    partition: PartitionImage, broker: BrokerId, controller_epoch: int
) -> PartitionState | None:
    """A follower that is about to stop leaves the in-sync set, so that nobody waits for it."""
    if broker not in partition.isr or partition.leader in (broker, NO_LEADER):
        return None
    in_sync = _without(partition.isr, broker)
    return _led_by(partition.leader, partition, in_sync, controller_epoch)


def preferred(
    partition: PartitionImage, live: Container[int], controller_epoch: int
) -> PartitionState | None:
    """The first replica leads again, if it is there and in sync."""
    first = partition.replicas[0]
    if partition.leader == first or first not in live or first not in partition.isr:
        return None
    return _led_by(BrokerId(first), partition, partition.isr, controller_epoch)


def unclean(
    partition: PartitionImage, chosen: BrokerId, live: Container[int], controller_epoch: int
) -> PartitionState | None:
    """A replica out of sync leads, and what only the others have is lost."""
    if (
        partition.version < 0
        or partition.leader in live
        or chosen not in live
        or chosen not in partition.replicas
        or _first_electable(partition, live) is not None
    ):
        return None
    led = _led_by(chosen, partition, (chosen,), controller_epoch)
    return led._replace(is_recovering=True, eligible=())


def needs_unclean(
    partition: PartitionImage, live: Collection[int], *, is_asked_for: bool = False
) -> list[BrokerId]:
    """Who could lead a partition that nobody in sync can lead. One that has lost its log is not
    among them unless an operator asks for the election: the others may be back soon."""
    if (
        partition.version < 0
        or partition.leader in live
        or _first_electable(partition, live) is not None
    ):
        return []
    empty = () if is_asked_for else partition.last_known
    return [
        BrokerId(replica)
        for replica in partition.replicas
        if replica in live and replica not in empty
    ]


def out_of_balance(image: ClusterImage, max_percent: int) -> list[TopicPartition]:
    """The partitions to give back to their preferred leaders: those of brokers that lead too
    few of what they should. Partitions that are being moved are left alone."""
    led: dict[int, int] = {}
    away: dict[int, list[TopicPartition]] = {}
    for where, partition in partitions_of(image, image.topics):
        if partition.adding or partition.removing:
            continue
        first = partition.replicas[0]
        led[first] = led.get(first, 0) + 1
        if partition.leader != first:
            away.setdefault(first, []).append(where)
    return [
        where
        for broker, missing in sorted(away.items())
        if broker in image.brokers and 100 * len(missing) > max_percent * led[broker]
        for where in missing
        if _can_be_given_back(image, where)
    ]


def partitions_of(
    image: ClusterImage, topics: Collection[str]
) -> Iterator[tuple[TopicPartition, PartitionImage]]:
    """The partitions of those topics that there are, in a repeatable order."""
    for name in sorted(topics):
        topic = image.topics.get(name)
        if topic is not None:
            for partition in topic.partitions:
                yield TopicPartition(name, partition.partition), partition


def describe(before: PartitionImage, after: PartitionState) -> str:
    """One change for the state-change log."""
    said = f"leader {before.leader} -> {after.leader}, epoch {after.leader_epoch}"
    if before.isr != after.isr:
        said += f", in sync {_numbers(before.isr)} -> {_numbers(after.isr)}"
    if before.eligible != after.eligible:
        said += f", eligible {_numbers(before.eligible)} -> {_numbers(after.eligible)}"
    if after.last_known:
        said += f", in sync last was {_numbers(after.last_known)}"
    return said + (", unclean" if after.is_recovering else "")


def _can_be_given_back(image: ClusterImage, where: TopicPartition) -> bool:
    partition = image.topics[where.topic].partitions[where.partition]
    return preferred(partition, image.brokers, 0) is not None


def _first_in_sync(partition: PartitionImage, live: Container[int]) -> BrokerId | None:
    for replica in partition.replicas:
        if replica in partition.isr and replica in live:
            return BrokerId(replica)
    return None


def _first_electable(partition: PartitionImage, live: Container[int]) -> BrokerId | None:
    """One in sync; if none of them is there, one that was when it mattered last."""
    chosen = _first_in_sync(partition, live)
    if chosen is not None:
        return chosen
    return next((BrokerId(one) for one in partition.eligible if one in live), None)


def _led_by(
    leader: BrokerId, partition: PartitionImage, in_sync: tuple[int, ...], controller_epoch: int
) -> PartitionState:
    epoch = partition.leader_epoch + (leader != partition.leader)
    # Which size is too small is the leader's to know: it strikes off whom it does not need.
    left = partition.isr if len(in_sync) < SAFE else ()
    eligible = tuple(
        one for one in dict.fromkeys((*partition.eligible, *left)) if one not in in_sync
    )
    return PartitionState(leader, LeaderEpoch(epoch), in_sync, controller_epoch, eligible=eligible)


def _without(replicas: tuple[int, ...], broker: BrokerId) -> tuple[int, ...]:
    return tuple(replica for replica in replicas if replica != broker)


def _numbers(brokers: tuple[int, ...]) -> str:
    return ",".join(map(str, brokers)) or "nobody"


class _Without(Container[int]):
    """The live brokers but one."""

    __slots__ = ("_live", "_missing")

    def __init__(self, live: Container[int], missing: int) -> None:
        self._live = live
        self._missing = missing

    def __contains__(self, broker: object) -> bool:
        return broker != self._missing and broker in self._live
