"""The order in which topics get their copies, where their leaders go, and when the limit is too
low."""

from odradek.cli.replicas.replica_plans import Plan
from odradek.cli.running.growth_copies import CatchingUp, batches, rotate_leaders
from odradek.client.cluster_view import Partition, Topic
from odradek.protocol.types import NO_TOPIC_ID, BrokerId, LeaderEpoch, TopicPartition


def topic(name: str, partitions: int) -> Topic:
    one = (BrokerId(1),)
    return Topic(
        name,
        NO_TOPIC_ID,
        name.startswith("__"),
        {
            index: Partition(index, BrokerId(1), LeaderEpoch(0), one, one, ())
            for index in range(partitions)
        },
    )


def test_internal_topics_come_first_and_small_ones_together() -> None:
    topics = [topic("big", 60), topic("a", 1), topic("b", 49), topic("c", 1)]
    topics.append(topic("__consumer_offsets", 50))
    assert list(batches(topics)) == [["__consumer_offsets"], ["a", "b"], ["big"], ["c"]]
    assert list(batches([])) == []


def test_every_topic_has_leaders_on_all_brokers() -> None:
    plan: Plan = {
        TopicPartition(name, index): [1, 2, 3] for name in ("a", "b") for index in range(3)
    }
    rotate_leaders(plan, [1, 2, 3], ["a", "b"])
    assert [replicas[0] for replicas in plan.values()] == [1, 2, 3, 2, 3, 1]
    assert all(sorted(replicas) == [1, 2, 3] for replicas in plan.values())


def test_copies_that_come_no_nearer_are_noticed() -> None:
    catching_up = CatchingUp(0.0)
    assert not catching_up.is_due(0.5)
    assert catching_up.is_due(1.0)
    assert not catching_up.is_due(1.5)
    assert not catching_up.is_stalled(1000, 1.0, 10.0)
    assert not catching_up.is_stalled(900, 9.0, 10.0)
    assert not catching_up.is_stalled(950, 18.0, 10.0)
    assert not catching_up.is_stalled(None, 19.5, 10.0), "a broker did not answer"
    assert not catching_up.is_stalled(950, 19.5, 60.0)
    assert catching_up.is_stalled(950, 19.5, 10.0)
    assert not catching_up.is_stalled(950, 20.0, 10.0), "the new limit gets its time"
