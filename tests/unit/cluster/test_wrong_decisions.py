"""Planted violations of the cluster's invariants: none of them reaches the metadata store."""

import logging
from collections.abc import Callable

import pytest

from odradek.cluster import elections, reassignment
from odradek.cluster.elections import check_decision
from odradek.cluster.reassignment import Step, finish_reassignments, write_steps
from odradek.cluster.state_changes import change_states
from odradek.invariants import InvariantViolation
from odradek.metadata import ClusterImage, PartitionImage
from odradek.metadata.compare_and_set import attempt, write
from odradek.metadata.node_values import NO_LEADER, PartitionState
from odradek.metadata.paths import topic_path
from odradek.metadata.store import Delete
from odradek.protocol.types import BrokerId, LeaderEpoch, TopicPartition
from tests.unit.cluster.racing import Pair
from tests.unit.cluster.test_elections import every_case, subsets

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
BEFORE = PartitionImage(
    0,
    (BrokerId(1), BrokerId(2), BrokerId(3)),
    BrokerId(1),
    LeaderEpoch(7),
    (BrokerId(1), BrokerId(2)),
    1,
    4,
)


def state(
    leader: int, epoch: int, isr: tuple[BrokerId, ...], eligible: tuple[BrokerId, ...] = ()
) -> PartitionState:
    return PartitionState(BrokerId(leader), LeaderEpoch(epoch), isr, 1, eligible=eligible)


@pytest.mark.parametrize(
    ("after", "rule"),
    [
        (state(2, 8, (BrokerId(1),)), "the leader is not in the ISR"),
        (state(3, 8, (BrokerId(3),)), "neither in sync nor eligible"),
        (state(1, 7, (BrokerId(1), BrokerId(2), BrokerId(9))), "a broker that is not a replica"),
        (state(1, 7, (BrokerId(1), BrokerId(2)), (BrokerId(2),)), "in sync and eligible"),
        (state(2, 6, (BrokerId(2),)), "the leader epoch falls"),
        (state(2, 7, (BrokerId(2),)), "without a new leader epoch"),
        (state(NO_LEADER, 7, (BrokerId(1), BrokerId(2))), "without a new leader epoch"),
    ],
)
def test_a_decision_that_breaks_a_rule(after: PartitionState, rule: str) -> None:
    with pytest.raises(InvariantViolation, match=rule) as found:
        check_decision(T0, BEFORE, after)
    assert found.value.history, "what the partition was and was to be"


def test_an_unclean_election_says_so() -> None:
    check_decision(T0, BEFORE, state(3, 8, (BrokerId(3),))._replace(is_recovering=True))


async def test_a_wrong_decision_is_not_written_and_the_others_are(
    caplog: pytest.LogCaptureFixture,
) -> None:
    pair = Pair()
    await pair.prepare()

    def decide(image: ClusterImage, partition: PartitionImage) -> PartitionState | None:
        if partition.leader_epoch > 0:
            return None
        # Of partition 0 a broker that is no replica.
        return (
            state(4, 1, (BrokerId(4),))
            if partition.partition == 0
            else state(1, 1, (BrokerId(1), BrokerId(2)))
        )

    with caplog.at_level(logging.ERROR, "odradek.state_change"):
        assert await change_states(pair.first.images, [T0, T1], decide, "test") == 1
    first, second = pair.image.topics["t"].partitions
    assert (first.leader, first.leader_epoch) == (1, 0)
    assert (second.leader, second.leader_epoch) == (1, 1)
    # The creation of the topic is logged too, if another test has left that logger at INFO.
    (record,) = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert "t-0: the leader was neither in sync nor eligible" in record.getMessage()
    assert record.exc_info


# Reassignments


@pytest.mark.parametrize(
    ("step", "rule"),
    [
        (Step((BrokerId(1), BrokerId(1))), "named twice"),
        (
            Step((BrokerId(1), BrokerId(2)), removing=(BrokerId(1), BrokerId(2))),
            "no replica would be left",
        ),
        (Step((BrokerId(1), BrokerId(2)), adding=(BrokerId(3),)), "is not a replica"),
        (
            Step((BrokerId(1), BrokerId(2)), adding=(BrokerId(2),), removing=(BrokerId(2),)),
            "added and removed",
        ),
        (
            Step((BrokerId(1), BrokerId(2)), state=state(1, 8, (BrokerId(1), BrokerId(3)))),
            "not a replica",
        ),
        (
            Step((BrokerId(1), BrokerId(2)), state=state(2, 8, (BrokerId(1),))),
            "the leader is not in the ISR",
        ),
    ],
)
async def test_a_step_that_breaks_a_rule_is_not_written(step: Step, rule: str) -> None:
    pair = Pair()
    await pair.prepare()
    before = pair.image
    with pytest.raises(InvariantViolation, match=rule):
        await write_steps(pair.first.images, before.topics["t"], {0: step})
    assert pair.image == before


async def test_a_reassignment_that_would_end_wrong_does_not_end_the_controller(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = Pair()
    await pair.prepare()
    twice_the_same = {0: Step((BrokerId(1), BrokerId(1)))}
    wrong: Callable[..., dict[int, Step]] = lambda topic, image: twice_the_same  # noqa: E731
    monkeypatch.setattr(reassignment, "_finishing", wrong)
    await finish_reassignments(pair.first.images, ["t"], fence=0)
    assert "its reassignment is not finished" in caplog.text


# Writing


async def test_a_controller_without_an_epoch_writes_nothing() -> None:
    pair = Pair()
    await pair.prepare()
    version = pair.image.topics["t"].version
    with pytest.raises(InvariantViolation, match="without a controller epoch"):
        await write(pair.first.images, Delete(topic_path("t"), version), fence=-1)


async def test_a_blind_write_is_refused() -> None:
    pair = Pair()
    await pair.prepare()
    with pytest.raises(InvariantViolation, match="overwrites whatever is there"):
        await attempt(pair.first.images, Delete(topic_path("t")))


def test_no_decision_of_ours_breaks_a_rule() -> None:
    """Over every small partition, with every set of eligible replicas and of live brokers."""
    checked = 0
    for one, live in every_case():
        left = tuple(replica for replica in one.replicas if replica not in one.isr)
        for eligible in subsets(left):
            before = one._replace(eligible=eligible)
            decisions = [
                elections.after_loss(before, live, 9),
                elections.departing(before, BrokerId(1), live, 9),
                elections.leaving(before, BrokerId(1), 9),
                elections.preferred(before, live, 9),
                elections.unclean(before, BrokerId(2), live, 9),
                elections.restored(
                    before._replace(isr=(), last_known=(BrokerId(1),)), BrokerId(1), 9
                ),
                *(
                    elections.returning(before, BrokerId(1), live, 9, condition)
                    for condition in elections.LogCondition
                ),
            ]
            for after in decisions:
                if after is not None:
                    is_restored = after is decisions[5]
                    known = (
                        before._replace(isr=(), last_known=(BrokerId(1),))
                        if is_restored
                        else before
                    )
                    check_decision(T0, known, after)
                    checked += 1
    assert checked > 1000
