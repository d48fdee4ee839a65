"""Plans of who holds what: read from Kafka's files, even, and with few moves."""

import json
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.cli.replicas.replica_plans import (
    Plan,
    plan_as_json,
    read_partitions,
    read_plan,
    read_topics,
    spread,
    without,
)
from odradek.protocol.types import TopicPartition
from odradek.tools.failures import CommandFailed


def at(partition: int, topic: str = "t") -> TopicPartition:
    return TopicPartition(topic, partition)


SAME = '{"topic":"t","partition":0,"replicas":[2]}'


def loads(plan: Plan) -> Counter[int]:
    return Counter(broker for replicas in plan.values() for broker in replicas)


def moves(before: Plan, after: Plan) -> int:
    return sum(len(set(after[one]) - set(replicas)) for one, replicas in before.items())


class TestFiles:
    def test_the_whole_output_of_generate_is_a_plan(self) -> None:
        current, proposed = {at(0): [1]}, {at(0): [2]}
        printed = (
            f"Current partition replica assignment\n{plan_as_json(current)}\n\n"
            f"Proposed partition reassignment configuration\n{plan_as_json(proposed)}\n"
        )
        assert read_plan(printed, "file") == proposed
        both = {
            "current": json.loads(plan_as_json(current)),
            "proposed": json.loads(plan_as_json(proposed)),
        }
        assert read_plan(json.dumps(both), "file") == proposed

    def test_a_plan_is_read_as_it_was_written(self) -> None:
        plan = {at(0): [1, 2], at(1, "u"): [3]}
        text = plan_as_json(plan)
        assert read_plan(text, "f") == plan
        assert json.loads(text)["partitions"][0]["log_dirs"] == ["any", "any"]

    @pytest.mark.parametrize(
        ("text", "complaint"),
        [
            ("{", "f is not JSON"),
            ("[]", 'f has no "partitions"'),
            ('{"partitions":[]}', 'f has no "partitions"'),
            ('{"version":2,"partitions":[{}]}', "version 2"),
            ('{"partitions":[{"topic":"t"}]}', 'f: "partition" is missing in'),
            ('{"partitions":[{"topic":"t","partition":0}]}', "f: t-0 needs replicas"),
            ('{"partitions":[{"topic":"t","partition":0,"replicas":["1"]}]}', "needs replicas"),
            ('{"partitions":["t-0"]}', "f: 't-0' is not an entry"),
            ('{"partitions":[{"topic":"t","partition":0,"replicas":[]}]}', "needs brokers"),
            ('{"partitions":[{"topic":"t","partition":0,"replicas":[1,1]}]}', "each of them once"),
            (
                '{"partitions":[{"topic":"t","partition":0,"replicas":[1],"log_dirs":["/d"]}]}',
                "log directories",
            ),
            (
                plan_as_json({at(0): [1]}).replace("}]", "}," + SAME + "]"),
                "t-0 twice",
            ),
        ],
    )
    def test_what_is_wrong_with_a_plan_is_said(self, text: str, complaint: str) -> None:
        with pytest.raises(CommandFailed, match=complaint):
            read_plan(text, "f")

    def test_topics_and_partitions(self) -> None:
        assert read_topics('{"topics":[{"topic":"a"},{"topic":"b"}],"version":1}', "f") == [
            "a",
            "b",
        ]
        assert read_partitions('{"partitions":[{"topic":"a","partition":3}]}', "f") == [at(3, "a")]
        with pytest.raises(CommandFailed, match="twice"):
            read_topics('{"topics":[{"topic":"a"},{"topic":"a"}]}', "f")


BROKERS = st.dictionaries(
    st.integers(1, 9), st.sampled_from([None, "a", "b", "c"]), min_size=1, max_size=6
)


@st.composite
def clusters(draw: st.DrawFn) -> tuple[Plan, dict[int, str | None]]:
    """Partitions on some brokers, and the brokers that they shall be on."""
    brokers = draw(BROKERS)
    ids = st.lists(st.integers(1, 9), min_size=1, max_size=len(brokers), unique=True)
    count = draw(st.integers(1, 12))
    return {at(number): draw(ids) for number in range(count)}, brokers


class TestSpread:
    def test_a_new_broker_gets_its_share_and_no_more_moves_than_that(self) -> None:
        before = {at(n): [1 + n % 3, 1 + (n + 1) % 3] for n in range(6)}
        after = spread(before, dict.fromkeys((1, 2, 3, 4)))
        assert loads(after) == {1: 3, 2: 3, 3: 3, 4: 3}
        assert moves(before, after) == 3

    def test_what_is_even_stays(self) -> None:
        before = {at(n): [1 + n % 3, 1 + (n + 1) % 3] for n in range(6)}
        assert spread(before, dict.fromkeys((1, 2, 3))) == before

    def test_leadership_is_shared(self) -> None:
        after = spread({at(n): [1, 2, 3] for n in range(6)}, dict.fromkeys((1, 2, 3)))
        assert Counter(replicas[0] for replicas in after.values()) == {1: 2, 2: 2, 3: 2}

    def test_more_and_fewer_copies(self) -> None:
        more = spread({at(0): [1]}, dict.fromkeys((1, 2, 3)), replication_factor=3)
        assert sorted(more[at(0)]) == [1, 2, 3]
        fewer = spread({at(0): [3, 1, 2]}, dict.fromkeys((1, 2, 3)), replication_factor=1)
        assert fewer == {at(0): [3]}

    def test_copies_go_to_different_racks(self) -> None:
        racks = {1: "a", 2: "a", 3: "b", 4: "b"}
        after = spread({at(n): [1, 2] for n in range(4)}, racks, replication_factor=2)
        # What is on two brokers of one rack already is left there unless load moves it.
        new = spread({at(n): [1] for n in range(4)}, racks, replication_factor=2)
        assert all(len({racks[broker] for broker in each}) == 2 for each in new.values())
        assert max(loads(after).values()) - min(loads(after).values()) <= 1

    @given(clusters())
    def test_always_on_the_named_brokers_each_once_and_even(
        self, cluster: tuple[Plan, dict[int, str | None]]
    ) -> None:
        before, brokers = cluster
        after = spread(before, brokers)
        assert after.keys() == before.keys()
        for one, replicas in after.items():
            assert set(replicas) <= brokers.keys()
            assert len(set(replicas)) == len(replicas) == min(len(before[one]), len(brokers))
        if all(rack is None for rack in brokers.values()):
            counts = [loads(after)[broker] for broker in brokers]
            assert max(counts) - min(counts) <= 1


class TestWithout:
    def test_only_the_leaver_is_replaced_in_its_place(self) -> None:
        before = {at(0): [3, 1], at(1): [1, 3]}
        after = without(3, before, dict.fromkeys((1, 2, 4)), {2: 5})
        assert after == {at(0): [4, 1], at(1): [1, 4]}

    def test_one_copy_fewer_where_nobody_is_left(self) -> None:
        assert without(3, {at(0): [3, 1, 2]}, dict.fromkeys((1, 2)), {}) == {at(0): [1, 2]}

    @given(clusters(), st.integers(1, 9))
    def test_the_leaver_holds_nothing_and_nobody_else_loses(
        self, cluster: tuple[Plan, dict[int, str | None]], leaver: int
    ) -> None:
        everything, brokers = cluster
        before = {one: replicas for one, replicas in everything.items() if leaver in replicas}
        others = {broker: rack for broker, rack in brokers.items() if broker != leaver}
        for one, replicas in without(leaver, before, others, {}).items():
            assert leaver not in replicas
            assert set(before[one]) - {leaver} <= set(replicas)
            assert len(set(replicas)) == len(replicas)
