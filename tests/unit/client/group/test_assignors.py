"""Assignors are pure functions: every partition once, evenly, and where it was."""

import random
from collections.abc import Sequence

import pytest

from odradek.client.errors import SettingsError
from odradek.client.group.assignors import (
    Assigned,
    Assignor,
    Member,
    assignor_named,
    in_order,
    known_names,
    register,
)
from odradek.client.group.assignors.cooperative_sticky import CooperativeStickyAssignor
from odradek.client.group.assignors.range import RangeAssignor
from odradek.client.group.assignors.round_robin import RoundRobinAssignor
from odradek.client.group.assignors.sticky import StickyAssignor, shared
from odradek.client.settings import ConsumerSettings
from odradek.protocol.types import TopicPartition

NAMES = ("range", "roundrobin", "sticky", "cooperative-sticky")
Shares = dict[str, list[TopicPartition]]


def random_group(
    chance: random.Random, *, alike: bool = False
) -> tuple[dict[str, list[int]], list[Member]]:
    topics = [f"t{number}" for number in range(chance.randint(1, 5))]
    partitions = {topic: list(range(chance.randint(0, 9))) for topic in topics}
    members = []
    for number in range(chance.randint(1, 7)):
        mine = topics if alike else chance.sample(topics, chance.randint(1, len(topics)))
        instance = f"i{number}" if chance.random() < 0.3 else None
        members.append(Member(f"m{chance.randrange(10**6)}-{number}", tuple(mine), instance))
    return partitions, members


def listed(assigned: Assigned) -> Shares:
    return {member: list(mine) for member, mine in assigned.items()}


def check_each_once(
    partitions: dict[str, list[int]], members: Sequence[Member], shares: Shares
) -> None:
    read = {topic for member in members for topic in member.topics}
    given = sorted(one for mine in shares.values() for one in mine)
    assert given == sorted(
        TopicPartition(topic, index)
        for topic, indexes in partitions.items()
        if topic in read
        for index in indexes
    )
    topics = {member.member_id: member.topics for member in members}
    assert all(one.topic in topics[member] for member, mine in shares.items() for one in mine)


@pytest.mark.parametrize("name", NAMES)
def test_every_partition_goes_to_one_of_its_readers(name: str) -> None:
    for seed in range(300):
        partitions, members = random_group(random.Random(seed))
        shares = listed(assignor_named(name).assign(partitions, members))
        check_each_once(partitions, members, shares)


def java_range(partitions: dict[str, list[int]], members: Sequence[Member]) -> Shares:
    """By the definition: start and length from the quotient and the remainder."""
    shares: Shares = {one.member_id: [] for one in members}
    for topic, indexes in sorted(partitions.items()):
        readers = [one for one in in_order(members) if topic in one.topics]
        for position, reader in enumerate(readers):
            each, extra = divmod(len(indexes), len(readers))
            start = each * position + min(position, extra)
            length = each + (0 if position + 1 > extra else 1)
            shares[reader.member_id] += [
                TopicPartition(topic, index) for index in range(start, start + length)
            ]
    return shares


def java_round_robin(partitions: dict[str, list[int]], members: Sequence[Member]) -> Shares:
    """By the definition: a circle of members, peeked at until one reads the topic."""
    shares: Shares = {one.member_id: [] for one in members}
    circle = in_order(members)
    for topic in sorted({topic for one in members for topic in one.topics}):
        for index in partitions.get(topic, ()):
            while topic not in circle[0].topics:
                circle.append(circle.pop(0))
            shares[circle[0].member_id].append(TopicPartition(topic, index))
            circle.append(circle.pop(0))
    return shares


def test_range_and_round_robin_are_kafkas() -> None:
    for seed in range(300):
        partitions, members = random_group(random.Random(seed))
        assert listed(RangeAssignor().assign(partitions, members)) == java_range(
            partitions, members
        )
        assert listed(RoundRobinAssignor().assign(partitions, members)) == java_round_robin(
            partitions, members
        )


def test_range_of_the_books() -> None:
    members = [Member("b", ("t", "u")), Member("a", ("t", "u"))]
    shares = listed(RangeAssignor().assign({"t": [0, 1, 2], "u": [0, 1, 2]}, members))
    assert {
        name: [(one.topic, one.partition) for one in mine] for name, mine in shares.items()
    } == {
        "a": [("t", 0), ("t", 1), ("u", 0), ("u", 1)],
        "b": [("t", 2), ("u", 2)],
    }


def with_owned(members: Sequence[Member], shares: Shares, generation: int = 3) -> list[Member]:
    return [
        Member(
            one.member_id,
            one.topics,
            one.instance_id,
            tuple(shares.get(one.member_id, ())),
            generation,
        )
        for one in members
    ]


def test_sticky_is_even_and_moves_nothing_that_need_not_move() -> None:
    for seed in range(300):
        chance = random.Random(seed)
        partitions, members = random_group(chance, alike=True)
        shares = shared(partitions, members)
        counts = [len(mine) for mine in shares.values()]
        assert max(counts) - min(counts) <= 1
        # The same again: nothing moves.
        again = shared(partitions, with_owned(members, shares))
        assert {one: set(mine) for one, mine in again.items()} == {
            one: set(mine) for one, mine in shares.items()
        }
        # Somebody leaves: those who stay keep everything.
        leaver = chance.choice(members)
        rest = [one for one in members if one is not leaver]
        if rest:
            after = shared(partitions, with_owned(rest, shares))
            check_each_once(partitions, rest, after)
            assert all(set(shares[one.member_id]) <= set(after[one.member_id]) for one in rest)
        # Somebody comes: only what the newcomer gets has moved.
        newcomer = Member("new", members[0].topics)
        after = shared(partitions, [*with_owned(members, shares), newcomer])
        counts = [len(mine) for mine in after.values()]
        assert max(counts) - min(counts) <= 1
        for one in members:
            assert set(after[one.member_id]) <= set(shares[one.member_id])


def test_sticky_with_different_topics_leaves_no_move_that_would_even_out() -> None:
    for seed in range(300):
        partitions, members = random_group(random.Random(seed))
        shares = shared(partitions, members)
        topics = {one.member_id: one.topics for one in members}
        for member, mine in shares.items():
            for one in mine:
                readers = [other for other in shares if one.topic in topics[other]]
                assert all(len(mine) <= len(shares[other]) + 1 for other in readers), member
        again = shared(partitions, with_owned(members, shares))
        assert {one: set(mine) for one, mine in again.items()} == {
            one: set(mine) for one, mine in shares.items()
        }


def test_a_claim_of_an_older_generation_yields() -> None:
    partition = TopicPartition("t", 0)
    old = Member("old", ("t",), owned=(partition,), generation=4)
    new = Member("new", ("t",), owned=(partition,), generation=5)
    assert shared({"t": [0]}, [old, new]) == {"new": [partition], "old": []}


def test_sticky_members_tell_what_they_had_as_javas_do() -> None:
    assignor = StickyAssignor()
    assert assignor.user_data() is None
    assignor.assigned([TopicPartition("t", 1), TopicPartition("t", 0)], 7)
    told = assignor.user_data()
    assert told == bytes.fromhex("00000001 0001 74 00000002 00000001 00000000 00000007")
    member = Member("m", ("t",), user_data=told)
    others = [Member("a", ("t",)), member]
    shares = listed(StickyAssignor().assign({"t": [0, 1, 2, 3]}, others))
    assert set(shares["m"]) == {TopicPartition("t", 0), TopicPartition("t", 1)}


def test_cooperative_assignments_never_give_what_another_holds() -> None:
    assignor = CooperativeStickyAssignor()
    for seed in range(300):
        chance = random.Random(seed)
        partitions, members = random_group(chance)
        held: Shares = {}
        for generation in range(6):
            if generation:
                members = [one for one in members if chance.random() < 0.8] or members[:1]
                members += [
                    Member(f"n{seed}-{generation}", tuple(chance.sample(sorted(partitions), 1)))
                ]
            for _ in range(4):
                known = with_owned(members, held, generation)
                shares = listed(assignor.assign(partitions, known))
                for one in known:
                    for partition in shares[one.member_id]:
                        holders = [other.member_id for other in known if partition in other.owned]
                        assert holders in ([], [one.member_id])
                if shares == held:
                    break
                held = shares
            check_each_once(partitions, members, held)


def test_the_settings_take_names_java_classes_and_objects() -> None:
    class Mine:
        name = "mine"
        is_cooperative = False

        def assign(self, partitions: object, members: Sequence[Member]) -> Assigned:
            return {}

    mine = Mine()
    settings = ConsumerSettings.from_properties(
        {
            "partition.assignment.strategy": "org.apache.kafka.clients.consumer.StickyAssignor,"
            " roundrobin"
        }
    )
    assert [one.name for one in settings.assignors] == ["sticky", "roundrobin"]
    options: dict[str, object] = {"partition_assignment_strategy": [mine, "range"]}
    assert ConsumerSettings.from_options(options).assignors[0] is mine
    made: Assignor = Mine()
    register("mine-by-name", lambda: made)
    assert "mine-by-name" in known_names()
    named = ConsumerSettings(partition_assignment_strategy="mine-by-name")
    assert named.assignors == (made,)
    with pytest.raises(
        SettingsError, match="there is no assignor 'fair'; known are range, roundrobin"
    ):
        ConsumerSettings(partition_assignment_strategy="fair")
