"""Where the replicas of a new partition go.

Replicas spread evenly over brokers, and over racks when every broker names one. The first
replica of consecutive partitions walks around the brokers; the others follow at a distance
that grows with each lap, so that the partitions of a lost broker fall to many others.
"""

from collections.abc import Mapping, Sequence

from odradek.world import Randomness


class NotEnoughBrokers(ValueError):
    """The replication factor asks for more brokers than there are."""


def place(
    brokers: Mapping[int, str | None],
    partitions: int,
    replication_factor: int,
    randomness: Randomness,
    *,
    first_partition: int = 0,
) -> list[list[int]]:
    """Replicas of each new partition, preferred leader first.

    `brokers` maps the id of each live broker to its rack.
    """
    if replication_factor > len(brokers):
        raise NotEnoughBrokers(
            f"replication factor {replication_factor} needs as many brokers, "
            f"and there are {len(brokers)}"
        )
    ring = _ring(brokers)
    start = randomness.below(len(ring)) if first_partition == 0 else 0
    distance = randomness.below(len(ring))
    placed = []
    for partition in range(first_partition, first_partition + partitions):
        leader = (start + partition) % len(ring)
        lap = distance + partition // len(ring)
        followers = _followers(ring, brokers, leader, lap, replication_factor - 1)
        placed.append([ring[leader], *followers])
    return placed


def _ring(brokers: Mapping[int, str | None]) -> list[int]:
    """The brokers in an order that changes racks at every step where it can."""
    if any(rack is None for rack in brokers.values()):
        return sorted(brokers)
    by_rack: dict[str, list[int]] = {}
    for broker in sorted(brokers):
        by_rack.setdefault(str(brokers[broker]), []).append(broker)
    racks = [by_rack[rack] for rack in sorted(by_rack)]
    longest = max(map(len, racks))
    return [rack[turn] for turn in range(longest) for rack in racks if turn < len(rack)]


def _followers(
    ring: Sequence[int], brokers: Mapping[int, str | None], leader: int, lap: int, count: int
) -> list[int]:
    """The next brokers on the ring, those of racks not used yet first."""
    others = len(ring) - 1
    if not others:
        return []
    walk = [ring[(leader + 1 + (lap + step) % others) % len(ring)] for step in range(others)]
    chosen: list[int] = []
    racks = {brokers[ring[leader]]}
    for fresh_racks_only in (True, False):
        for broker in walk:
            if len(chosen) == count:
                return chosen
            if broker in chosen or (fresh_racks_only and brokers[broker] in racks):
                continue
            chosen.append(broker)
            racks.add(brokers[broker])
    return chosen
