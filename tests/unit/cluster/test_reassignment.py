"""Steps of a reassignment, from any partition to any replicas."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.cluster.reassignment import (
    Step,
    WouldLoseEverything,
    begin,
    cancel,
    finish,
    is_moving,
    original,
    target,
)
from odradek.metadata import PartitionImage
from odradek.metadata.layout import NO_LEADER
from odradek.protocol.types import BrokerId, LeaderEpoch

BROKERS = (1, 2, 3, 4, 5)
replica_lists = st.lists(st.sampled_from(BROKERS), min_size=1, max_size=4, unique=True)
live_sets = st.sets(st.sampled_from(BROKERS))


@st.composite
def partitions(draw: st.DrawFn) -> PartitionImage:
    replicas = tuple(draw(replica_lists))
    isr = tuple(draw(st.lists(st.sampled_from(replicas), min_size=1, unique=True)))
    leader = draw(st.sampled_from((*isr, NO_LEADER)))
    return PartitionImage(0, replicas, BrokerId(leader), LeaderEpoch(3), isr, 1, 2)


def taken(partition: PartitionImage, step: Step) -> PartitionImage:
    """The partition when the step is written."""
    moved = partition._replace(replicas=step.replicas, adding=step.adding, removing=step.removing)
    if step.state is not None:
        moved = moved._replace(
            leader=step.state.leader, leader_epoch=step.state.leader_epoch, isr=step.state.isr
        )
    assert moved.isr, "an in-sync set is never empty"
    assert set(moved.isr) <= set(moved.replicas)
    assert moved.leader in (*moved.isr, NO_LEADER)
    assert (moved.leader == partition.leader) or moved.leader_epoch > partition.leader_epoch
    return moved


@given(partitions(), replica_lists, live_sets)
def test_beginning_keeps_everybody_who_has_the_data(
    partition: PartitionImage, wanted: list[int], live: set[int]
) -> None:
    moved = taken(partition, begin(partition, wanted, live, 9))
    assert target(moved) == tuple(wanted)
    assert sorted(original(moved)) == sorted(partition.replicas)
    assert (moved.isr, moved.leader) == (partition.isr, partition.leader)
    assert is_moving(moved) == (set(wanted) != set(partition.replicas))


@given(partitions(), replica_lists, live_sets)
def test_cancelling_brings_the_old_replicas_back(
    partition: PartitionImage, wanted: list[int], live: set[int]
) -> None:
    moved = taken(partition, begin(partition, wanted, live, 9))
    back = taken(moved, cancel(moved, live, 9))
    assert sorted(back.replicas) == sorted(partition.replicas)
    assert not is_moving(back)


@given(partitions(), replica_lists, live_sets)
def test_the_switch_waits_for_all_new_replicas(
    partition: PartitionImage, wanted: list[int], live: set[int]
) -> None:
    moved = taken(partition, begin(partition, wanted, live, 9))
    caught_up = moved._replace(isr=(*moved.isr, *moved.adding))
    if moved.adding:
        assert finish(moved, live, 9) is None
    step = finish(caught_up, live, 9)
    if step is None:
        stays = set(target(caught_up)) & set(caught_up.isr)
        assert not is_moving(moved) or not stays & live
        return
    done = taken(caught_up, step)
    assert done.replicas == tuple(wanted)
    assert not is_moving(done)
    assert done.leader == partition.leader or done.leader in {*live, NO_LEADER}


@given(partitions(), replica_lists, replica_lists, live_sets)
def test_another_target_replaces_the_first(
    partition: PartitionImage, first: list[int], second: list[int], live: set[int]
) -> None:
    moved = taken(partition, begin(partition, first, live, 9))
    caught_up = moved._replace(isr=(*moved.isr, *moved.adding))
    again = taken(caught_up, begin(caught_up, second, live, 9))
    assert target(again) == tuple(second)
    assert sorted(original(again)) == sorted(partition.replicas)


def test_going_back_to_nobody_in_sync_is_refused() -> None:
    moving = PartitionImage(
        0, (2, 1), BrokerId(2), LeaderEpoch(3), (2,), 1, 2, adding=(2,), removing=(1,)
    )
    with pytest.raises(WouldLoseEverything):
        cancel(moving, {1, 2}, 9)
