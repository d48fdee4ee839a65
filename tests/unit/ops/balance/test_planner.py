"""Plans keep every replica, obey racks, pursue goals in order, and even out skewed clusters."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.ops.balance.goals import Goal, Limits, goals_for
from odradek.ops.balance.model import BrokerModel, ClusterModel, PartitionModel, Resource
from odradek.ops.balance.placement import Placement, Step
from odradek.ops.balance.plan import Plan
from odradek.ops.balance.planner import Kind, PlanImpossible, Request, make_plan
from odradek.protocol.types import TopicPartition
from tests.unit.ops.balance.models import at, cluster, clusters, skewed

REMOVE = Kind.REMOVE


def check_replicas(plan: Plan) -> None:
    """Each partition keeps its number of replicas, each on another broker."""
    for name, before in plan.before.partitions.items():
        after = plan.after.partitions[name].replicas
        assert len(after) == len(before.replicas) == len(set(after))
        assert set(after) <= set(plan.before.brokers)


class TestProperties:
    @settings(max_examples=60, deadline=None)
    @given(clusters())
    def test_no_replica_is_lost_and_none_goes_to_a_dead_broker(self, model: ClusterModel) -> None:
        plan = make_plan(model)
        check_replicas(plan)
        for move in plan.moves:
            assert all(model.brokers[broker].is_alive for broker in move.adding)
            assert model.brokers[move.after[0]].is_alive
            assert model.partitions[move.partition].leader >= 0

    @settings(max_examples=60, deadline=None)
    @given(clusters())
    def test_each_step_helps_its_goal_and_breaks_none_before(self, model: ClusterModel) -> None:
        placement = Placement(model)
        goals = goals_for(placement, model.alive, (), Limits())
        order = [goal.name for goal in goals]

        def judge(goal: Goal, step: Step) -> None:
            before = [known.cost(placement) for known in goals]
            placement.apply(step, placement.effect(step))
            placement.check()
            after = [known.cost(placement) for known in goals]
            index = order.index(goal.name)
            assert after[index] < before[index]
            for earlier in range(index):
                assert after[earlier] <= before[earlier] + 1e-3

        make_plan(model, on_step=judge)

    @settings(max_examples=40, deadline=None)
    @given(clusters(), st.integers(1, 6))
    def test_a_removed_broker_is_empty_and_nothing_else_moves(
        self, model: ClusterModel, leaver: int
    ) -> None:
        try:
            plan = make_plan(model, Request(REMOVE, frozenset({leaver})))
        except PlanImpossible:
            others = set(model.alive) - {leaver}
            most = max((len(p.replicas) for p in model.partitions.values()), default=0)
            assert leaver not in model.brokers or len(others) < max(1, most)
            return
        check_replicas(plan)
        for move in plan.moves:
            assert move.removing == (leaver,)
        for partition in plan.after.partitions.values():
            dead = any(not model.brokers[b].is_alive for b in partition.replicas if b != leaver)
            assert leaver not in partition.replicas or partition.leader < 0 or dead

    @settings(max_examples=40, deadline=None)
    @given(clusters(), st.integers(1, 6))
    def test_a_demoted_broker_leads_only_what_nobody_else_can(
        self, model: ClusterModel, broker: int
    ) -> None:
        if broker not in model.brokers:
            return
        plan = make_plan(model, Request(Kind.DEMOTE, frozenset({broker})))
        check_replicas(plan)
        assert plan.replicas_moved == 0
        for partition in plan.after.partitions.values():
            others = [b for b in partition.replicas if b != broker and model.brokers[b].is_alive]
            assert partition.replicas[0] != broker or not others

    @settings(max_examples=15, deadline=None)
    @given(clusters())
    def test_the_same_cluster_gives_the_same_plan(self, model: ClusterModel) -> None:
        assert make_plan(model).moves == make_plan(model).moves


class TestRacks:
    def test_replicas_spread_over_racks_even_if_the_numbers_were_even(self) -> None:
        racks = {1: "a", 2: "a", 3: "b", 4: "b"}
        plan = make_plan(cluster(racks, [(1, 2), (3, 4), (2, 1), (4, 3)]))
        for partition in plan.after.partitions.values():
            assert {racks[broker] for broker in partition.replicas} == {"a", "b"}

    @settings(max_examples=40, deadline=None)
    @given(clusters())
    def test_the_cost_of_racks_never_rises(self, model: ClusterModel) -> None:
        goal = next(goal for goal in make_plan(model).goals if goal.name == "rack awareness")
        assert goal.after <= goal.before

    def test_more_replicas_than_racks_are_spread_evenly(self) -> None:
        racks = {1: "a", 2: "a", 3: "a", 4: "b", 5: "b", 6: "b"}
        plan = make_plan(cluster(racks, [(1, 2, 3)]))
        after = plan.after.partitions[at(0)].replicas
        assert sorted(racks[broker] for broker in after) in (["a", "a", "b"], ["a", "b", "b"])


class TestLoads:
    @pytest.mark.parametrize("seed", [1, 3])
    def test_nine_brokers_in_three_racks_come_within_ten_percent(self, seed: int) -> None:
        model = skewed(seed)
        plan = make_plan(model)
        check_replicas(plan)
        for resource in Resource:
            assert plan.spread(plan.before, resource) > 0.5
            assert plan.spread(plan.after, resource) <= 0.1001, resource.name
        assert all(goal.is_met for goal in plan.goals), plan.goals
        for partition in plan.after.partitions.values():
            racks = {plan.after.brokers[broker].rack for broker in partition.replicas}
            assert len(racks) == len(partition.replicas)

    def test_an_even_cluster_stays_as_it_is(self) -> None:
        racks = dict.fromkeys((1, 2, 3))
        assert make_plan(cluster(racks, [(1, 2), (2, 3), (3, 1)])).is_empty

    def test_a_new_broker_gets_its_share_and_nothing_else_moves(self) -> None:
        racks = dict.fromkeys((1, 2, 3))
        model = cluster(racks, [(1, 2), (2, 1)] * 6)
        plan = make_plan(model, Request(Kind.ADD, frozenset({3})))
        assert plan.replicas_moved == 8
        assert {broker for move in plan.moves for broker in move.adding} == {3}

    def test_a_full_disk_is_relieved_before_numbers_are_even(self) -> None:
        brokers = {1: BrokerModel(1, None, 10_000_000), 2: BrokerModel(2, None, 1_000_000_000)}
        partitions = {
            at(index): PartitionModel(at(index), (1 if index < 2 else 2,), 1 if index < 2 else 2,
                                      6_000_000 if index < 2 else 1_000)
            for index in range(4)
        }  # fmt: skip
        plan = make_plan(ClusterModel(brokers, partitions))
        assert plan.after.current_loads()[1][Resource.DISK] <= 8_000_000
        assert next(goal for goal in plan.goals if goal.name == "disk capacity").is_met

    def test_what_cannot_be_met_is_a_warning(self) -> None:
        model = ClusterModel(
            {1: BrokerModel(1, None, 100), 2: BrokerModel(2, None, 100)},
            {at(0): PartitionModel(at(0), (1,), 1, 500)},
        )
        assert any("disk capacity" in warning for warning in make_plan(model).warnings)


class TestLimitsOfAPlan:
    def test_excluded_topics_stay(self) -> None:
        model = cluster(dict.fromkeys((1, 2)), [(1,)] * 4)
        assert make_plan(model).moves
        assert make_plan(model, Request(exclude_topics="t|u")).is_empty

    def test_no_expression_for_topics_takes_long(self) -> None:
        names = [TopicPartition("a" * 200 + str(index), 0) for index in range(50)]
        model = ClusterModel(
            {1: BrokerModel(1, None, 100), 2: BrokerModel(2, None, 100)},
            {name: PartitionModel(name, (1,), 1, 500) for name in names},
        )
        began_s = time.process_time()
        assert make_plan(model, Request(exclude_topics="(a+)+x")).moves
        assert time.process_time() - began_s < 5
        with pytest.raises(PlanImpossible, match="cannot be matched"):
            make_plan(model, Request(exclude_topics="("))

    def test_a_partition_with_a_dead_replica_stays_and_is_named(self) -> None:
        model = cluster(dict.fromkeys((1, 2, 3)), [(1, 3)] * 4, dead=[3])
        plan = make_plan(model)
        assert plan.is_empty
        assert "4 partitions stay as they are: broker 3 does not run" in plan.warnings

    def test_a_dead_broker_can_be_removed(self) -> None:
        model = cluster(dict.fromkeys((1, 2, 3)), [(1, 3)] * 4, dead=[3])
        plan = make_plan(model, Request(REMOVE, frozenset({3})))
        assert [move.after for move in plan.moves] == [(1, 2)] * 4

    def test_too_few_brokers_are_an_error_that_names_the_topic(self) -> None:
        model = cluster(dict.fromkeys((1, 2)), [(1, 2)])
        with pytest.raises(PlanImpossible, match="t: there would be 2 replicas on 1 broker"):
            make_plan(model, Request(REMOVE, frozenset({2})))

    def test_an_unknown_broker_is_an_error(self) -> None:
        with pytest.raises(PlanImpossible, match="there is no broker 7; the cluster has 1"):
            make_plan(cluster({1: None}, [(1,)]), Request(REMOVE, frozenset({7})))

    def test_leaders_that_are_not_preferred_are_elected(self) -> None:
        model = ClusterModel(
            {1: BrokerModel(1), 2: BrokerModel(2)},
            {at(0): PartitionModel(at(0), (1, 2), 2), at(1): PartitionModel(at(1), (2, 1), 2)},
        )
        plan = make_plan(model)
        assert plan.elections == (at(0),)
        assert not plan.moves
