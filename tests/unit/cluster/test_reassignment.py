"""Steps of a reassignment, from any partition to any replicas."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.cluster.reassignment import (
    Step,
    TooFewInSync,
    begin,
    cancel,
    finish,
    is_moving,
    original,
    target,
)
from odradek.metadata import PartitionImage
from odradek.metadata.node_values import NO_LEADER
from odradek.protocol.types import BrokerId, LeaderEpoch

BROKERS = tuple(map(BrokerId, range(1, 6)))
replica_lists = st.lists(st.sampled_from(BROKERS), min_size=1, max_size=4, unique=True)
live_sets = st.sets(st.sampled_from(BROKERS))


@st.composite
def partitions(draw: st.DrawFn) -> PartitionImage:
    replicas = tuple(draw(replica_lists))
    isr = tuple(draw(st.lists(st.sampled_from(replicas), min_size=1, unique=True)))
    leader = draw(st.sampled_from((*isr, NO_LEADER)))
    return PartitionImage(0, replicas, leader, LeaderEpoch(3), isr, 1, 2)


def taken(partition: PartitionImage, step: Step) -> PartitionImage:
    """The partition when the step is written."""
    moved = partition._replace(replicas=step.replicas, adding=step.adding, removing=step.removing)
    if step.state is not None:
        moved = moved._replace(
            leader=step.state.leader, leader_epoch=step.state.leader_epoch, isr=step.state.isr
        )
    assert moved.isr, "an ISR is never empty"
    assert set(moved.isr) <= set(moved.replicas)
    assert moved.leader in (*moved.isr, NO_LEADER)
    assert (moved.leader == partition.leader) or moved.leader_epoch > partition.leader_epoch
    return moved


@given(partitions(), replica_lists, live_sets)
def test_beginning_keeps_everybody_who_has_the_data(
    partition: PartitionImage, wanted: list[BrokerId], live: set[BrokerId]
) -> None:
    moved = taken(partition, begin(partition, wanted, live, 9))
    assert target(moved) == tuple(wanted)
    assert sorted(original(moved)) == sorted(partition.replicas)
    assert (moved.isr, moved.leader) == (partition.isr, partition.leader)
    assert is_moving(moved) == (set(wanted) != set(partition.replicas))


@given(partitions(), replica_lists, live_sets)
def test_cancelling_brings_the_old_replicas_back(
    partition: PartitionImage, wanted: list[BrokerId], live: set[BrokerId]
) -> None:
    moved = taken(partition, begin(partition, wanted, live, 9))
    back = taken(moved, cancel(moved, live, 9))
    assert sorted(back.replicas) == sorted(partition.replicas)
    assert not is_moving(back)


@given(partitions(), replica_lists, live_sets)
def test_the_switch_waits_for_all_new_replicas(
    partition: PartitionImage, wanted: list[BrokerId], live: set[BrokerId]
) -> None:
    moved = taken(partition, begin(partition, wanted, live, 9))
    caught_up = moved._replace(isr=(*moved.isr, *moved.adding))
    if moved.adding:
        assert finish(moved, live, 9) is None
    step = finish(caught_up, live, 9)
    if step is None:
        stays = set(target(caught_up)) & set(caught_up.isr)
        assert not is_moving(moved) or not stays & live or len(stays) < min(2, len(wanted))
        return
    done = taken(caught_up, step)
    assert done.replicas == tuple(wanted)
    assert not is_moving(done)
    assert len(done.isr) >= min(2, len(wanted))
    assert done.leader == partition.leader or done.leader in {*live, NO_LEADER}


@given(partitions(), replica_lists, replica_lists, live_sets)
def test_another_target_replaces_the_first(
    partition: PartitionImage, first: list[BrokerId], second: list[BrokerId], live: set[BrokerId]
) -> None:
    moved = taken(partition, begin(partition, first, live, 9))
    caught_up = moved._replace(isr=(*moved.isr, *moved.adding))
    try:
        again = taken(caught_up, begin(caught_up, second, live, 9))
    except TooFewInSync:
        assert len(partition.isr) == 1
        assert set(moved.adding) - set(second)
        return
    assert target(again) == tuple(second)
    assert sorted(original(again)) == sorted(partition.replicas)


def test_going_back_to_nobody_in_sync_is_refused() -> None:
    moving = PartitionImage(
        0,
        (BrokerId(2), BrokerId(1)),
        BrokerId(2),
        LeaderEpoch(3),
        (BrokerId(2),),
        1,
        2,
        adding=(BrokerId(2),),
        removing=(BrokerId(1),),
    )
    with pytest.raises(TooFewInSync):
        cancel(moving, {BrokerId(1), BrokerId(2)}, 9)


def test_nobody_goes_who_holds_what_only_one_other_has() -> None:
    """Broker 1 is to go, 3 is to stay and has not caught up: without 1 there is 2 alone."""
    moving = PartitionImage(
        0,
        (BrokerId(2), BrokerId(3), BrokerId(1)),
        BrokerId(2),
        LeaderEpoch(3),
        (BrokerId(2), BrokerId(1)),
        1,
        2,
        removing=(BrokerId(1),),
    )
    assert finish(moving, {BrokerId(1), BrokerId(2), BrokerId(3)}, 9) is None
    eligible = moving._replace(isr=(BrokerId(2),), eligible=(BrokerId(1),))
    assert finish(eligible, {BrokerId(1), BrokerId(2), BrokerId(3)}, 9) is None
    # The directory of broker 1 went offline by an I/O error: what it holds is not known.
    offline = moving._replace(isr=(BrokerId(2),))
    assert finish(offline, {BrokerId(1), BrokerId(2), BrokerId(3)}, 9) is None
    step = finish(
        moving._replace(isr=(BrokerId(2), BrokerId(1), BrokerId(3))),
        {BrokerId(1), BrokerId(2), BrokerId(3)},
        9,
    )
    assert step is not None
    assert (step.replicas, step.state and step.state.isr) == ((2, 3), (2, 3))
    to_one = moving._replace(
        replicas=(BrokerId(2), BrokerId(1), BrokerId(3)), removing=(BrokerId(1), BrokerId(3))
    )
    assert finish(to_one, {BrokerId(1), BrokerId(2), BrokerId(3)}, 9) is not None


def test_going_back_to_one_in_sync_is_refused_while_the_new_ones_have_everything() -> None:
    moving = PartitionImage(
        0,
        (BrokerId(4), BrokerId(1), BrokerId(2)),
        BrokerId(4),
        LeaderEpoch(3),
        (BrokerId(4), BrokerId(1)),
        1,
        2,
        adding=(BrokerId(4),),
        removing=(),
    )
    with pytest.raises(TooFewInSync):
        cancel(moving, {BrokerId(1), BrokerId(2), BrokerId(4)}, 9)
    assert cancel(
        moving._replace(isr=(BrokerId(4), BrokerId(1), BrokerId(2))),
        {BrokerId(1), BrokerId(2), BrokerId(4)},
        9,
    ).replicas == (1, 2)
