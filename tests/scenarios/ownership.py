"""Who owned which partition when: intervals from a log of events, and what must hold of them.

Consumers on one machine share a monotonic clock, so what they say can be put in one order. A
partition is owned from the moment a consumer is told that it has it until the consumer has given
it up, which it does before it tells the group. So no two intervals of a partition may overlap,
unless the group had put the earlier owner out (it lost its partitions) and moved on to a later
generation. Nothing here knows Kafka.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

FOREVER = float("inf")


class What(Enum):
    SUBSCRIBED = "subscribed"
    ASSIGNED = "assigned"
    REVOKED = "revoked"
    LOST = "lost"
    CLOSING = "closing"
    KILLED = "killed"


@dataclass(frozen=True, slots=True)
class Event:
    """`generation` is what the consumer believed, the member's epoch in the new protocol."""

    at_s: float
    consumer: str
    what: What
    partitions: tuple[int, ...] = ()
    generation: int = -1


@dataclass(slots=True)
class Interval:
    consumer: str
    partition: int
    generation: int
    from_s: float
    until_s: float = FOREVER
    ended_by: What | None = None

    def __str__(self) -> str:
        until = (
            "the end" if self.ended_by is None else f"{self.until_s:.3f} ({self.ended_by.value})"
        )
        return f"{self.consumer} in generation {self.generation} from {self.from_s:.3f} to {until}"


def intervals(events: Iterable[Event]) -> list[Interval]:
    """A killed consumer owns nothing any more, whatever it was about to say."""
    done: list[Interval] = []
    open_: dict[tuple[str, int], Interval] = {}

    def end(key: tuple[str, int], event: Event) -> None:
        interval = open_.pop(key, None)
        if interval is not None:
            interval.until_s, interval.ended_by = event.at_s, event.what
            done.append(interval)

    for event in sorted(events, key=lambda each: each.at_s):
        match event.what:
            case What.ASSIGNED:
                for partition in event.partitions:
                    key = (event.consumer, partition)
                    end(key, event)
                    open_[key] = Interval(*key, event.generation, event.at_s)
            case What.REVOKED | What.LOST:
                for partition in event.partitions:
                    end((event.consumer, partition), event)
            case What.KILLED:
                for key in [key for key in open_ if key[0] == event.consumer]:
                    end(key, event)
    return done + list(open_.values())


def owned_twice(found: Sequence[Interval]) -> list[str]:
    """Each pair of owners that a partition had at once, in words."""
    problems = []
    by_partition: dict[int, list[Interval]] = {}
    for interval in found:
        by_partition.setdefault(interval.partition, []).append(interval)
    for partition, parts in by_partition.items():
        parts.sort(key=lambda each: each.from_s)
        last = parts[0]
        for later in parts[1:]:
            was_put_out = last.ended_by is What.LOST and last.generation != later.generation
            if later.from_s < last.until_s and not was_put_out:
                problems.append(f"partition {partition}: {last}; and {later}")
            if later.until_s >= last.until_s:
                last = later
    return problems


@dataclass(frozen=True, slots=True)
class Rebalance:
    """`began_s` is when the group could know; `is_held_up`: it had to wait for a dead member."""

    why: What
    began_s: float
    settled_s: float
    is_held_up: bool

    @property
    def duration_s(self) -> float:
        return self.settled_s - self.began_s

    def __str__(self) -> str:
        held_up = ", held up by a killed consumer" if self.is_held_up else ""
        return f"{self.began_s:.2f} {self.why.value}: {self.duration_s:.2f} s{held_up}"


_CAUSES = (What.SUBSCRIBED, What.CLOSING, What.KILLED)


def rebalances(
    events: Iterable[Event], partitions: int, death_known_after_s: float
) -> tuple[list[Rebalance], list[Event]]:
    """How long each join, leave and death took until the group was settled, and which never was.

    Settled: every partition has one living owner, and every living consumer has a partition.
    Nobody can know of a death before the session ends, ``death_known_after_s`` at the earliest, so
    what had to wait for that is counted from there. Whatever happens before the group has settled
    is settled with it.
    """
    settled: list[Rebalance] = []
    open_causes: list[Event] = []
    sessions_end_s: list[float] = []
    owned: dict[str, set[int]] = {}
    ordered = sorted(events, key=lambda each: each.at_s)
    for event in ordered:
        _apply(owned, event)
        if event.what in _CAUSES:
            open_causes.append(event)
        if event.what is What.KILLED:
            sessions_end_s.append(event.at_s + death_known_after_s)
        if not open_causes or not _is_settled(owned, partitions):
            continue
        for cause in open_causes:
            ends = [end for end in sessions_end_s if cause.at_s < end <= event.at_s]
            began_s = max([cause.at_s, *ends])
            settled.append(Rebalance(cause.what, began_s, event.at_s, bool(ends)))
        open_causes.clear()
    return settled, open_causes


def _apply(owned: dict[str, set[int]], event: Event) -> None:
    match event.what:
        case What.SUBSCRIBED:
            owned[event.consumer] = set()
        case What.CLOSING | What.KILLED:
            owned.pop(event.consumer, None)
        case What.ASSIGNED if event.consumer in owned:
            owned[event.consumer].update(event.partitions)
        case What.REVOKED | What.LOST if event.consumer in owned:
            owned[event.consumer].difference_update(event.partitions)
        case _:
            pass


def _is_settled(owned: Mapping[str, set[int]], partitions: int) -> bool:
    sizes = [len(part) for part in owned.values()]
    if not sizes or not all(sizes) or sum(sizes) != partitions:
        return False
    return len(set().union(*owned.values())) == partitions
