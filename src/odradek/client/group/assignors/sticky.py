"""The sticky assignor: as even as possible, and members keep their partitions where that allows.

Members give up all partitions during a rebalance (eager) and send what they had as user data, in
the format of Kafka's sticky assignor, so that clients of both kinds can be in one group. `shared`
is the algorithm; the cooperative assignor uses it too.

Invariant: every partition goes to exactly one member that subscribes to its topic. A partition that
two members claim belongs to the member with the newer generation, and to neither if the generations
are equal. If all members subscribe to the same topics, their numbers of partitions differ by one at
most; otherwise no partition could move to a member that has two fewer.
"""

import struct
from collections.abc import Iterable, Sequence
from dataclasses import replace

from odradek.client.group.assignors import Assigned, Member, Partitions, all_partitions, in_order
from odradek.protocol.errors import MalformedMessage
from odradek.protocol.schema import Message, Struct, array, int32, string
from odradek.protocol.types import TopicPartition

_Shares = dict[str, list[TopicPartition]]


class StickyTopic(Struct):
    topic: str = string()
    partitions: list[int] = array(int32)


class StickyUserData(Message, versions="0-1"):
    """The partitions that a member had. Version 0, of very old clients, has no generation."""

    previous: list[StickyTopic] = array(StickyTopic)
    generation: int = int32("1+", default=-1)


class StickyAssignor:
    name = "sticky"
    is_cooperative = False

    def __init__(self) -> None:
        self._had: list[TopicPartition] = []
        self._generation = -1

    def assign(self, partitions: Partitions, members: Sequence[Member]) -> Assigned:
        return shared(partitions, [_with_owned(member) for member in members])

    def user_data(self) -> bytes | None:
        if not self._had:
            return None
        topics: dict[str, StickyTopic] = {}
        for topic, index in self._had:
            topics.setdefault(topic, StickyTopic(topic=topic)).partitions.append(index)
        message = StickyUserData(previous=list(topics.values()), generation=self._generation)
        return b"".join(bytes(part) for part in message.encode(1))  # type: ignore[arg-type]

    def assigned(self, partitions: Sequence[TopicPartition], generation: int) -> None:
        self._had, self._generation = list(partitions), generation


def _with_owned(member: Member) -> Member:
    """Returns the member with the partitions that it had, from its user data."""
    if not member.user_data:
        return member
    user_data = None
    for version in (1, 0):
        try:
            user_data = StickyUserData.decode(member.user_data, version)
            break
        except (MalformedMessage, struct.error):
            continue
    if user_data is None:
        return member
    owned = tuple(
        TopicPartition(topic.topic, index)
        for topic in user_data.previous
        for index in topic.partitions
    )
    return replace(member, owned=owned, generation=user_data.generation)


def shared(partitions: Partitions, members: Sequence[Member]) -> _Shares:
    """Returns the partitions of each member: first what it keeps, then its part of the rest."""
    ordered = in_order(members)
    read = {topic for member in ordered for topic in member.topics}
    there = [partition for partition in all_partitions(partitions) if partition.topic in read]
    claims = _claims(there, ordered)
    if not ordered:
        return {}
    if len({frozenset(set(member.topics) & set(partitions)) for member in ordered}) == 1:
        return _share_evenly(there, ordered, claims)
    return _share_by_topic(there, ordered, claims)


def _claims(there: Iterable[TopicPartition], members: list[Member]) -> _Shares:
    """Returns what each member has and may keep."""
    exists = set(there)
    best: dict[TopicPartition, tuple[int, str | None]] = {}
    for member in members:
        topics = set(member.topics)
        for partition in dict.fromkeys(member.owned):
            if partition not in exists or partition.topic not in topics:
                continue
            best_claim = best.get(partition)
            if best_claim is None or member.generation > best_claim[0]:
                best[partition] = (member.generation, member.member_id)
            elif member.generation == best_claim[0]:
                best[partition] = (member.generation, None)
    claims: _Shares = {member.member_id: [] for member in members}
    for partition in sorted(best):
        owner = best[partition][1]
        if owner is not None:
            claims[owner].append(partition)
    return claims


def _share_evenly(there: list[TopicPartition], members: list[Member], claims: _Shares) -> _Shares:
    """All members read the same topics: each gets the same number of partitions, or one more."""
    share, more = divmod(len(there), len(members))
    shares: _Shares = {member.member_id: [] for member in members}
    quotas: dict[str, int] = {}
    # Members with the most partitions come first, so that as few as possible are moved.
    for member_id in sorted(claims, key=lambda claimant: -len(claims[claimant])):
        quotas[member_id] = share
        if more and len(claims[member_id]) > share:
            quotas[member_id] += 1
            more -= 1
        shares[member_id] = claims[member_id][: quotas[member_id]]
    for member in members:
        if more and quotas[member.member_id] == share:
            quotas[member.member_id] += 1
            more -= 1
    kept_partitions = {partition for mine in shares.values() for partition in mine}
    open_ones = [member_id for member_id in shares if len(shares[member_id]) < quotas[member_id]]
    turn = 0
    for partition in there:
        if partition in kept_partitions:
            continue
        turn %= len(open_ones)
        member_id = open_ones[turn]
        shares[member_id].append(partition)
        if len(shares[member_id]) == quotas[member_id]:
            del open_ones[turn]
        else:
            turn += 1
    return shares


def _share_by_topic(there: list[TopicPartition], members: list[Member], claims: _Shares) -> _Shares:
    """Members read different topics: each free partition goes to its reader with the fewest, then
    partitions move from members with more to members with fewer."""
    readers: dict[str, list[str]] = {}
    for member in members:
        for topic in dict.fromkeys(member.topics):
            readers.setdefault(topic, []).append(member.member_id)
    load = {member_id: len(mine) for member_id, mine in claims.items()}
    owner = {partition: member_id for member_id, mine in claims.items() for partition in mine}
    unowned = [partition for partition in there if partition not in owner]
    for partition in sorted(
        unowned, key=lambda topic_partition: (len(readers[topic_partition.topic]), topic_partition)
    ):
        lightest = min(readers[partition.topic], key=load.__getitem__)
        owner[partition] = lightest
        load[lightest] += 1
    moved = True
    while moved:
        moved = False
        # Members with the most partitions come first. Every move lowers the sum of the squares of
        # the numbers, so the loop ends.
        for partition in sorted(there, key=lambda topic_partition: -load[owner[topic_partition]]):
            lightest = min(readers[partition.topic], key=load.__getitem__)
            if load[owner[partition]] > load[lightest] + 1:
                load[owner[partition]] -= 1
                load[lightest] += 1
                owner[partition] = lightest
                moved = True
    shares: _Shares = {member.member_id: [] for member in members}
    for partition in there:
        shares[owner[partition]].append(partition)
    return shares
