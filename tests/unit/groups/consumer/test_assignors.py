"""Assignors: every partition once, evenly, and moved as little as can be."""

from hypothesis import given
from hypothesis import strategies as st

from odradek.groups.consumer.assignors import (
    Partitions,
    Subscriber,
    Subscribers,
    Topic,
    Topics,
    all_partitions,
    ranges,
    uniform,
)
from odradek.groups.consumer.member import TopicIdPartition
from odradek.protocol.types import TopicId

A, B, C = (TopicId(letter * 16) for letter in (b"a", b"b", b"c"))

topic_maps = st.dictionaries(
    st.sampled_from([A, B, C]), st.integers(0, 8).map(Topic), min_size=1, max_size=3
)
member_names = st.lists(
    st.sampled_from([f"m{number}" for number in range(8)]), min_size=1, max_size=8, unique=True
)
subscriptions = st.frozensets(st.sampled_from([A, B, C]), max_size=3)


def alike(members: list[str], topics: Topics) -> dict[str, Subscriber]:
    return {member: Subscriber(frozenset(topics)) for member in members}


def after(subscribers: Subscribers, assigned: dict[str, Partitions]) -> dict[str, Subscriber]:
    return {
        member: subscriber._replace(target=assigned.get(member, frozenset()))
        for member, subscriber in subscribers.items()
    }


def check_complete(
    subscribers: Subscribers, topics: Topics, assigned: dict[str, Partitions]
) -> None:
    """Every partition that somebody subscribes to has one owner, who subscribes to it."""
    assert assigned.keys() == subscribers.keys()
    owned = [each for partitions in assigned.values() for each in partitions]
    wanted = [
        each
        for each in all_partitions(topics)
        if any(each.topic_id in subscriber.topics for subscriber in subscribers.values())
    ]
    assert sorted(owned) == sorted(wanted)
    for member, partitions in assigned.items():
        assert {each.topic_id for each in partitions} <= subscribers[member].topics


def loads(assigned: dict[str, Partitions]) -> list[int]:
    return [len(partitions) for partitions in assigned.values()]


def moved(before: dict[str, Partitions], now: dict[str, Partitions]) -> int:
    """How many partitions somebody lost who is still there."""
    return sum(len(before[member] - now[member]) for member in before.keys() & now.keys())


@given(member_names, topic_maps)
def test_uniform_is_even_to_one(members: list[str], topics: dict[TopicId, Topic]) -> None:
    subscribers = alike(members, topics)
    assigned = uniform(subscribers, topics)
    check_complete(subscribers, topics, assigned)
    assert max(loads(assigned)) - min(loads(assigned)) <= 1


@given(member_names, member_names, topic_maps, topic_maps)
def test_uniform_moves_no_more_than_evenness_demands(
    members: list[str],
    members_after: list[str],
    topics: dict[TopicId, Topic],
    topics_after: dict[TopicId, Topic],
) -> None:
    before = uniform(alike(members, topics), topics)
    subscribers = after(alike(members_after, topics_after), before)
    now = uniform(subscribers, topics_after)
    check_complete(subscribers, topics_after, now)
    assert max(loads(now)) - min(loads(now)) <= 1
    # What each had and still exists; an even share is all that anybody may keep of it, and as
    # many as there are partitions left over may keep one more.
    existing = set(all_partitions(topics_after))
    had = [len(before.get(member, frozenset()) & existing) for member in members_after]
    fewest, one_more = divmod(len(existing), len(members_after))
    keepable = sum(min(count, fewest) for count in had)
    keepable += min(one_more, sum(count > fewest for count in had))
    kept = sum(len(before.get(member, frozenset()) & now[member]) for member in members_after)
    assert kept == keepable


@given(member_names, topic_maps)
def test_uniform_moves_nothing_when_nothing_changes(
    members: list[str], topics: dict[TopicId, Topic]
) -> None:
    subscribers = alike(members, topics)
    before = uniform(subscribers, topics)
    assert uniform(after(subscribers, before), topics) == before


@given(st.dictionaries(st.sampled_from("abcdefgh"), subscriptions, min_size=1), topic_maps)
def test_uniform_with_different_subscriptions(
    subscribed: dict[str, frozenset[TopicId]], topics: dict[TopicId, Topic]
) -> None:
    subscribers = {member: Subscriber(wanted) for member, wanted in subscribed.items()}
    assigned = uniform(subscribers, topics)
    check_complete(subscribers, topics, assigned)
    for partitions in assigned.values():
        for partition in partitions:
            for member, subscriber in subscribers.items():
                if partition.topic_id in subscriber.topics:
                    assert len(partitions) <= len(assigned[member]) + 1
    again = uniform(after(subscribers, assigned), topics)
    assert again == assigned


@given(st.permutations(["m0", "m1", "m2", "m3"]), topic_maps)
def test_order_does_not_matter(members: list[str], topics: dict[TopicId, Topic]) -> None:
    backwards = dict(reversed(topics.items()))
    for assignor in (uniform, ranges):
        one = assignor(alike(sorted(members), topics), topics)
        assert assignor(alike(members, backwards), backwards) == one


@given(st.dictionaries(st.sampled_from("abcdefgh"), subscriptions, min_size=1), topic_maps)
def test_ranges(subscribed: dict[str, frozenset[TopicId]], topics: dict[TopicId, Topic]) -> None:
    subscribers = {member: Subscriber(wanted) for member, wanted in subscribed.items()}
    assigned = ranges(subscribers, topics)
    check_complete(subscribers, topics, assigned)
    for topic_id in topics:
        shares = [
            sorted(each.partition for each in assigned[member] if each.topic_id == topic_id)
            for member, wanted in subscribed.items()
            if topic_id in wanted
        ]
        for share in shares:
            assert share == list(range(share[0], share[0] + len(share))) if share else True
        if shares:
            assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_ranges_meet_in_one_member_and_follow_instances() -> None:
    topics = {A: Topic(4), B: Topic(4)}
    subscribers = {
        "z": Subscriber(frozenset(topics), "first"),
        "a": Subscriber(frozenset(topics), "second"),
        "0": Subscriber(frozenset(topics)),
    }
    assigned = ranges(subscribers, topics)
    numbers = {
        member: sorted({each.partition for each in partitions})
        for member, partitions in assigned.items()
    }
    assert numbers == {"z": [0, 1], "a": [2], "0": [3]}
    assert all(len(assigned[member]) == 2 * len(numbers[member]) for member in assigned)


def test_partitions_go_to_readers_in_their_rack() -> None:
    racks = [frozenset({"east"}), frozenset({"west"})] * 3
    topics = {A: Topic(6, racks)}
    near = Subscriber(frozenset({A}))
    subscribers = {
        "m1": near._replace(rack_id="west"),
        "m2": near._replace(rack_id="east"),
        "m3": near._replace(rack_id="nowhere"),
    }
    assigned = uniform(subscribers, topics)
    check_complete(subscribers, topics, assigned)
    assert {each.partition % 2 for each in assigned["m1"]} == {1}
    assert {each.partition % 2 for each in assigned["m2"]} == {0}
    assert sorted(loads(assigned)) == [2, 2, 2]


def test_racks_count_where_subscriptions_differ() -> None:
    racks = [frozenset({"east"}), frozenset({"west"})]
    topics = {A: Topic(2, racks), B: Topic(1)}
    subscribers = {
        "m1": Subscriber(frozenset({A}), rack_id="west"),
        "m2": Subscriber(frozenset({A}), rack_id="east"),
        "m3": Subscriber(frozenset({B})),
    }
    assigned = uniform(subscribers, topics)
    assert assigned["m1"] == {TopicIdPartition(A, 1)}
    assert assigned["m2"] == {TopicIdPartition(A, 0)}
