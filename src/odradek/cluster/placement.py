"""Chooses the brokers that hold the replicas of new partitions.

Replicas are spread evenly over brokers, and over racks if every broker has one. The preferred
leaders of consecutive partitions go round robin over the brokers. The distance from the leader to
the followers grows with each round, so that the partitions of a lost broker fall to many others.
"""

from collections.abc import Mapping, Sequence

from odradek.protocol.types import BrokerId
from odradek.world import Randomness


class NotEnoughBrokers(ValueError):
    """The replication factor is larger than the number of brokers."""


def place(
    brokers: Mapping[BrokerId, str | None],
    partitions: int,
    replication_factor: int,
    randomness: Randomness,
    *,
    first_partition: int = 0,
) -> list[list[BrokerId]]:
    """Returns the replicas of each new partition, the preferred leader first.

    `brokers` maps the id of each live broker to its rack.
    """
    if replication_factor > len(brokers):
        raise NotEnoughBrokers(
            f"replication factor {replication_factor} needs as many brokers, "
            f"and there are {len(brokers)}"
        )
    ring = _ring(brokers)
    start = randomness.integer_below(len(ring)) if first_partition == 0 else 0
    distance = randomness.integer_below(len(ring))
    placed = []
    for partition in range(first_partition, first_partition + partitions):
        leader = (start + partition) % len(ring)
        lap = distance + partition // len(ring)
        followers = _followers(ring, brokers, leader, lap, replication_factor - 1)
        placed.append([ring[leader], *followers])
    return placed


def _ring(brokers: Mapping[BrokerId, str | None]) -> list[BrokerId]:
    """Returns the brokers in an order in which neighbours are on different racks, if possible."""
    if any(rack is None for rack in brokers.values()):
        return sorted(brokers)
    by_rack: dict[str, list[BrokerId]] = {}
    for broker in sorted(brokers):
        by_rack.setdefault(str(brokers[broker]), []).append(broker)
    racks = [by_rack[rack] for rack in sorted(by_rack)]
    longest = max(map(len, racks))
    return [rack[turn] for turn in range(longest) for rack in racks if turn < len(rack)]


def _followers(
    ring: Sequence[BrokerId],
    brokers: Mapping[BrokerId, str | None],
    leader_position: int,
    lap: int,
    count: int,
) -> list[BrokerId]:
    """Returns the next brokers on the ring, first those of racks that are not used yet."""
    others = len(ring) - 1
    if not others:
        return []
    walk = [
        ring[(leader_position + 1 + (lap + step) % others) % len(ring)] for step in range(others)
    ]
    followers: list[BrokerId] = []
    racks = {brokers[ring[leader_position]]}
    for fresh_racks_only in (True, False):
        for broker in walk:
            if len(followers) == count:
                return followers
            if broker in followers or (fresh_racks_only and brokers[broker] in racks):
                continue
            followers.append(broker)
            racks.add(brokers[broker])
    return followers
