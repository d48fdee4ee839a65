"""The server-side assignors: they compute the target assignment of a consumer group.

`uniform` spreads partitions evenly and moves as few as possible. If all members subscribe to the
same topics, the numbers of partitions differ by one at most, and no assignment that is as even
moves fewer. Otherwise no partition could move to a subscriber that has at least two partitions
fewer.

`range` gives each subscriber of a topic consecutive partitions, with the same numbers in every
topic, so that partitions with the same key of co-partitioned topics have the same owner. Static
members come first, by their instance ids, so that they get the same partitions again after a
restart.

A partition that needs a new owner prefers a member in a rack where it has a replica. Both assignors
depend on their input alone, never on its order.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from heapq import heapify, heappop, heapreplace
from typing import Final, NamedTuple

from odradek.groups.consumer.member import TopicIdPartition
from odradek.protocol.types import TopicId

Partitions = frozenset[TopicIdPartition]


class Subscriber(NamedTuple):
    """A member, as an assignor sees it; `target` is its target assignment so far."""

    topics: frozenset[TopicId]
    instance_id: str | None = None
    rack_id: str | None = None
    target: Partitions = frozenset()


class Topic(NamedTuple):
    """`racks` has the racks of the replicas of each partition; it is empty if no broker has one."""

    partitions: int
    racks: Sequence[frozenset[str]] = ()


Subscribers = Mapping[str, Subscriber]
Topics = Mapping[TopicId, Topic]
Assignor = Callable[[Subscribers, Topics], dict[str, Partitions]]


def uniform(subscribers: Subscribers, topics: Topics) -> dict[str, Partitions]:
    if not subscribers:
        return {}
    subscriptions = {subscriber.topics for subscriber in subscribers.values()}
    owned: Mapping[str, Iterable[TopicIdPartition]]
    if len(subscriptions) == 1:
        topic_ids = sorted(topic_id for topic_id in next(iter(subscriptions)) if topic_id in topics)
        owned = _spread_evenly(subscribers, {topic_id: topics[topic_id] for topic_id in topic_ids})
    else:
        owned = _spread_as_subscribed(subscribers, topics)
    return {member: frozenset(owned[member]) for member in subscribers}


# All members subscribe to the same topics


def _spread_evenly(subscribers: Subscribers, topics: Topics) -> dict[str, list[TopicIdPartition]]:
    members = sorted(subscribers)
    free = set(all_partitions(topics))
    min_count, with_one_more = divmod(len(free), len(members))
    owned: dict[str, list[TopicIdPartition]] = {}
    for member in members:
        retained = list(free & subscribers[member].target)
        if len(retained) > min_count:
            limit = min_count
            if with_one_more:
                limit, with_one_more = min_count + 1, with_one_more - 1
            retained = sorted(retained)[:limit]
        owned[member] = retained
        free.difference_update(retained)
    room = {}
    for member in members:
        missing = min_count - len(owned[member])
        if missing >= 0 and with_one_more:
            missing, with_one_more = missing + 1, with_one_more - 1
        if missing > 0:
            room[member] = missing
    for partition in _placed_by_rack(sorted(free), subscribers, topics, owned, room):
        _place(partition, next(iter(room)), owned, room)
    return owned


def all_partitions(topics: Topics) -> list[TopicIdPartition]:
    return [
        partition
        for topic_id, topic in topics.items()
        for partition in _partitions_of(topic_id, topic.partitions)
    ]


@lru_cache(maxsize=1024)
def _partitions_of(topic_id: TopicId, count: int) -> tuple[TopicIdPartition, ...]:
    """The result is cached, because groups are assigned again and again over the same topics."""
    return tuple(TopicIdPartition(topic_id, partition) for partition in range(count))


def _exists(partition: TopicIdPartition, topics: Topics) -> bool:
    topic = topics.get(partition.topic_id)
    return topic is not None and partition.partition < topic.partitions


def _place(
    partition: TopicIdPartition,
    member: str,
    owned: dict[str, list[TopicIdPartition]],
    room: dict[str, int],
) -> None:
    owned[member].append(partition)
    room[member] -= 1
    if not room[member]:
        del room[member]


def _placed_by_rack(
    free: list[TopicIdPartition],
    subscribers: Subscribers,
    topics: Topics,
    owned: dict[str, list[TopicIdPartition]],
    room: dict[str, int],
) -> list[TopicIdPartition]:
    """Gives partitions to members with room in a rack of their replicas; returns the others."""
    by_rack: dict[str, list[str]] = {}
    for member in reversed(room):
        rack = subscribers[member].rack_id
        if rack is not None:
            by_rack.setdefault(rack, []).append(member)
    if not by_rack:
        return free
    unplaced = []
    for partition in free:
        member_in_rack = _in_a_rack_of(partition, topics, by_rack, room)
        if member_in_rack is None:
            unplaced.append(partition)
        else:
            _place(partition, member_in_rack, owned, room)
    return unplaced


def _in_a_rack_of(
    partition: TopicIdPartition,
    topics: Topics,
    by_rack: dict[str, list[str]],
    room: dict[str, int],
) -> str | None:
    racks = topics[partition.topic_id].racks
    for rack in sorted(racks[partition.partition]) if racks else ():
        members = by_rack.get(rack, [])
        while members and members[-1] not in room:
            members.pop()
        if members:
            return members[-1]
    return None


# Subscriptions differ


def _spread_as_subscribed(
    subscribers: Subscribers, topics: Topics
) -> dict[str, set[TopicIdPartition]]:
    members = sorted(subscribers)
    by_topic: dict[TopicId, list[str]] = {}
    for member in members:
        for topic_id in subscribers[member].topics:
            if topic_id in topics:
                by_topic.setdefault(topic_id, []).append(member)
    owned: dict[str, set[TopicIdPartition]] = {member: set() for member in members}
    taken: set[TopicIdPartition] = set()
    for member in members:
        subscribed = subscribers[member].topics
        for partition in subscribers[member].target:
            is_subscribed = partition.topic_id in subscribed
            if is_subscribed and _exists(partition, topics) and partition not in taken:
                taken.add(partition)
                owned[member].add(partition)
    # Topics with few subscribers come first: the others leave more choices to even out.
    order = sorted(by_topic, key=lambda topic_id: (len(by_topic[topic_id]), topic_id))
    for topic_id in order:
        topic = topics[topic_id]
        partitions = all_partitions({topic_id: topic})
        free = [partition for partition in partitions if partition not in taken]
        _fill(free, topic, by_topic[topic_id], subscribers, owned)
    is_even = False
    while not is_even:
        moved = [_even_out(topic_id, by_topic[topic_id], owned) for topic_id in order]
        is_even = not any(moved)
    return owned


def _fill(
    free: list[TopicIdPartition],
    topic: Topic,
    members: list[str],
    subscribers: Subscribers,
    owned: dict[str, set[TopicIdPartition]],
) -> None:
    """Gives every free partition of a topic to the member with the fewest partitions; among equals
    to one in a rack of its replicas."""
    loads = [(len(owned[member]), member) for member in members]
    heapify(loads)
    for partition in free:
        racks = topic.racks[partition.partition] if topic.racks else frozenset()
        least = loads[0][0]
        position = 0
        if racks and subscribers[loads[0][1]].rack_id not in racks:
            equals_in_rack = (
                index
                for index, (load, member) in enumerate(loads)
                if load == least and subscribers[member].rack_id in racks
            )
            position = next(equals_in_rack, 0)
        load, member = loads[position]
        owned[member].add(partition)
        if position == 0:
            heapreplace(loads, (load + 1, member))
        else:
            loads[position] = (load + 1, member)
            heapify(loads)


def _even_out(
    topic_id: TopicId, members: list[str], owned: dict[str, set[TopicIdPartition]]
) -> bool:
    """Moves partitions of one topic from members with many partitions to members with few. Returns
    whether it moved any. Each move lowers the sum of the squares of all loads, so this ends."""
    movable = {
        member: sorted(partition for partition in owned[member] if partition.topic_id == topic_id)
        for member in members
    }
    has_moved = False
    givers = [(-len(owned[member]), member) for member in members if movable[member]]
    takers = [(len(owned[member]), member) for member in members]
    heapify(givers)
    heapify(takers)
    while givers:
        most, giver = -givers[0][0], givers[0][1]
        if most != len(owned[giver]) or not movable[giver]:
            heappop(givers)
            continue
        least, taker = takers[0]
        if least != len(owned[taker]):
            heapreplace(takers, (len(owned[taker]), taker))
            continue
        if most - least < 2:
            break
        partition = movable[giver].pop()
        owned[giver].discard(partition)
        owned[taker].add(partition)
        has_moved = True
        heapreplace(takers, (least + 1, taker))
        heapreplace(givers, (1 - most, giver))
    return has_moved


# Range


def ranges(subscribers: Subscribers, topics: Topics) -> dict[str, Partitions]:
    members = sorted(subscribers, key=lambda member: _range_order(member, subscribers[member]))
    by_topic: dict[TopicId, list[str]] = {}
    for member in members:
        for topic_id in subscribers[member].topics:
            if topic_id in topics:
                by_topic.setdefault(topic_id, []).append(member)
    owned: dict[str, list[TopicIdPartition]] = {member: [] for member in members}
    for topic_id, readers in by_topic.items():
        min_count, with_one_more = divmod(topics[topic_id].partitions, len(readers))
        first = 0
        for position, member in enumerate(readers):
            after = first + min_count + (position < with_one_more)
            owned[member] += [
                TopicIdPartition(topic_id, partition) for partition in range(first, after)
            ]
            first = after
    return {member: frozenset(owned[member]) for member in subscribers}


def _range_order(member: str, subscriber: Subscriber) -> tuple[bool, str]:
    instance_id = subscriber.instance_id
    return (True, member) if instance_id is None else (False, instance_id)


ASSIGNORS: Final[dict[str, Assignor]] = {"uniform": uniform, "range": ranges}
"""The assignors by the names that members and `group.consumer.assignors` use."""
