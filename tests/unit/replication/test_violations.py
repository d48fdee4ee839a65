"""Violated invariants of a partition: each is caught where the state moves, and takes that replica
offline while the broker serves its other partitions."""

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from odradek.invariants import InvariantViolation
from odradek.metadata import PartitionImage
from odradek.metadata.node_values import NO_LEADER
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.types import BrokerId, LeaderEpoch, Offset, TopicPartition
from odradek.replication.fetch_session import FetchPosition, ReplicaSession
from odradek.replication.leadership import LagLimits, Leadership
from odradek.replication.partition import Partition
from odradek.replication.replica import EndOfEpoch
from odradek.statemachine.watermark import Watermark
from odradek.storage import LogFailed
from tests.unit.replication.cluster import TOPIC, Cluster, on_cluster
from tests.unit.replication.test_lease import make_replicas
from tests.unit.storage.storage_world import (
    PARTITION,
    TOPIC_ID,
    StillClock,
    make_batch,
    make_log,
)

ME = BrokerId(1)


def led(
    *,
    epoch: int = 5,
    isr: tuple[BrokerId, ...] = (BrokerId(1), BrokerId(2)),
    replicas: tuple[BrokerId, ...] = (BrokerId(1), BrokerId(2), BrokerId(3)),
    version: int = 7,
) -> PartitionImage:
    return PartitionImage(0, replicas, ME, LeaderEpoch(epoch), isr, 1, version)


def leader() -> Partition:
    """Leads with two records, of which broker 2 has fetched the first."""
    partition = Partition(PARTITION, TOPIC_ID, make_log(), ME)
    partition.lead(led(), 0.0)
    partition.append(make_batch(), 1)
    partition.append(make_batch(), 1)
    fetch(partition, BrokerId(2), Offset(1))
    assert partition.high_watermark.value == 1
    return partition


def follower() -> Partition:
    partition = Partition(PARTITION, TOPIC_ID, make_log(), ME)
    partition.follow(BrokerId(2), LeaderEpoch(5))
    return partition


def fetch(partition: Partition, replica: BrokerId, offset: Offset) -> bool:
    return partition.note_fetch(replica, offset, Offset(0), broker_epoch=1, now_s=1.0)


@contextmanager
def goes_offline(
    caplog: pytest.LogCaptureFixture, partition: Partition, rule: str
) -> Iterator[None]:
    """The replica goes offline within, and its log says which rule was violated."""
    waiting = partition.high_watermark
    with caplog.at_level(logging.ERROR, "odradek.storage"):
        yield
    (record,) = caplog.records
    assert rule in record.getMessage()
    assert record.exc_info is not None
    assert isinstance(record.exc_info[1], InvariantViolation)
    assert not partition.is_leader
    assert not partition.has_role
    assert partition.log.has_failed
    assert partition.log.directory.must_recover
    with pytest.raises(ApiError):
        asyncio.run(waiting.wait_for(Offset(1_000_000)))


def refused(call: Callable[[], object]) -> None:
    with pytest.raises(ApiError) as refusal:
        call()
    assert refusal.value.code is ErrorCode.KAFKA_STORAGE_ERROR


# Offsets


def test_a_high_watermark_beyond_the_log_end_acknowledges_nothing(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition = leader()
    before = partition.high_watermark
    monkeypatch.setattr(Leadership, "committed_offset", lambda self, own_end: own_end + 1)
    with goes_offline(caplog, partition, "beyond the log end 2"):
        refused(lambda: fetch(partition, BrokerId(2), Offset(2)))
    assert before.value == 1


def test_a_high_watermark_that_somebody_moved_too_far(caplog: pytest.LogCaptureFixture) -> None:
    partition = Partition(PARTITION, TOPIC_ID, make_log(), ME)
    partition.lead(led(isr=(BrokerId(1),), replicas=(BrokerId(1),)), 0.0)
    partition.high_watermark.value = Offset(9)
    with goes_offline(caplog, partition, "moves from 9 to 1, beyond the log end 1"):
        refused(lambda: partition.append(make_batch(), -1))


def test_a_high_watermark_that_falls_while_leading(caplog: pytest.LogCaptureFixture) -> None:
    partition = leader()
    partition.next_in_sync({BrokerId(1): 1, BrokerId(2): 1}, now_s=1.0, limits=LagLimits(10.0, 6.0))
    partition.high_watermark = Watermark(Offset(0))
    with goes_offline(caplog, partition, "the high watermark fell from 1 to 0"):
        partition.leadership.followers[BrokerId(2)].log_end = 0  # type: ignore[union-attr]
        partition.lead(led(version=8), 0.0)


def test_a_last_stable_offset_beyond_the_high_watermark(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition = leader()
    partition._last_stable = Watermark(Offset(1))
    producers = type(partition.log.producers)
    monkeypatch.setattr(producers, "last_stable_offset", lambda self, high_watermark: 3)
    with goes_offline(caplog, partition, "the last stable offset would pass the high watermark"):
        refused(lambda: fetch(partition, BrokerId(2), Offset(2)))


def test_a_log_start_beyond_the_high_watermark(caplog: pytest.LogCaptureFixture) -> None:
    partition = follower()
    partition.high_watermark = Watermark(Offset(-1))
    with goes_offline(caplog, partition, "the offsets are out of order"):
        partition.follow(BrokerId(2), LeaderEpoch(6))


def test_a_follower_that_truncates_below_its_log_start(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition = follower()
    monkeypatch.setattr(Partition, "_renew_watermarks", lambda self, reason: None)
    partition.high_watermark.value = Offset(4)
    with pytest.raises(LogFailed):
        partition.truncate_to_leader(EndOfEpoch(LeaderEpoch(5), Offset(0)))
    assert "the offsets are out of order" in caplog.text


# Epochs and ISRs


def test_a_leader_epoch_that_falls(caplog: pytest.LogCaptureFixture) -> None:
    partition = leader()
    with goes_offline(caplog, partition, "the leader epoch falls from 5 to 4"):
        partition.lead(led(epoch=4), 0.0)


def test_a_follower_whose_epoch_falls(caplog: pytest.LogCaptureFixture) -> None:
    partition = follower()
    with goes_offline(caplog, partition, "the leader epoch falls from 5 to 3"):
        partition.follow(BrokerId(3), LeaderEpoch(3))


def test_a_partition_whose_node_is_deleted_has_no_epoch_and_is_not_offline() -> None:
    """A large topic is deleted in parts, the nodes of its partitions first."""
    partition = leader()
    partition.follow(NO_LEADER, LeaderEpoch(-1))
    assert not partition.has_role
    assert partition.log.is_usable


def test_retention_may_pass_an_open_transaction_before_the_replica_hears_of_it() -> None:
    partition = leader()
    partition._last_stable = Watermark(Offset(0))
    partition.log.advance_log_start(Offset(1))
    partition.check()
    partition.start_moved()
    assert partition.last_stable.value == 1


def test_an_in_sync_set_without_the_leader(caplog: pytest.LogCaptureFixture) -> None:
    partition = leader()
    with goes_offline(caplog, partition, "the ISR (2, 3) lacks the leader"):
        partition.lead(led(isr=(BrokerId(2), BrokerId(3)), version=8), 0.0)


def test_an_in_sync_set_beyond_the_replicas(caplog: pytest.LogCaptureFixture) -> None:
    partition = leader()
    with goes_offline(caplog, partition, "is not among the replicas"):
        partition.lead(led(isr=(BrokerId(1), BrokerId(2), BrokerId(9)), version=8), 0.0)


def test_a_version_of_the_node_that_falls(caplog: pytest.LogCaptureFixture) -> None:
    partition = leader()
    with goes_offline(caplog, partition, "the node's version falls from 7 to 6"):
        partition.lead(led(isr=(BrokerId(1), BrokerId(2), BrokerId(3)), version=6), 0.0)


def test_a_proposed_follower_that_is_not_waited_for(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The high watermark must count an expansion whose outcome is unknown."""
    partition = leader()
    leadership = partition.leadership
    assert leadership is not None
    monkeypatch.setattr(Leadership, "_update_waiting_for", lambda self: None)
    with goes_offline(caplog, partition, "the high watermark does not wait for replica 3"):
        partition.propose(leadership, (BrokerId(1), BrokerId(2), BrokerId(3)))


def test_a_follower_beyond_the_leaders_end(caplog: pytest.LogCaptureFixture) -> None:
    partition = leader()
    with goes_offline(caplog, partition, "beyond the leader's end 2"):
        refused(lambda: fetch(partition, BrokerId(2), Offset(3)))


def test_a_leader_without_leadership(caplog: pytest.LogCaptureFixture) -> None:
    partition = follower()
    partition.is_leader = True
    with goes_offline(caplog, partition, "is_leader and leadership contradict each other"):
        partition.follow(BrokerId(3), LeaderEpoch(6))


# What the replicas, fetchers and peers of a broker hold


async def test_a_partition_that_is_in_one_table_only() -> None:
    replicas = await make_replicas(StillClock())
    replicas.check()
    replicas._by_id.popitem()
    with pytest.raises(InvariantViolation, match="by name and by id differ"):
        replicas.check()


def test_a_partition_that_is_fetched_and_forgotten() -> None:
    session = ReplicaSession()
    session.set_position(
        (TOPIC_ID, 0), FetchPosition(LeaderEpoch(5), Offset(0), LeaderEpoch(-1), Offset(0), 100)
    )
    session._forgotten[(TOPIC_ID, 0)] = None
    with pytest.raises(InvariantViolation, match="fetched and forgotten"):
        session.next_request()


# What is left when a replica is offline


@on_cluster(brokers=1)
async def test_an_offline_replica_has_no_role_and_no_checkpoints(cluster: Cluster) -> None:
    await cluster.create_topic([1])
    assert (await cluster.produce(1, b"a")).error_code == 0
    with violations() as told:
        plant(cluster, 1)
        answer = await cluster.produce(1, b"b")
    assert len(told) == 1
    assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert (await cluster.state()).isr == (1,), "no other replica has the records"
    await cluster.create_topic([1], name="other")
    assert (await cluster.produce(1, b"x")).error_code == 0, "other partitions are served"


@on_cluster()
async def test_another_replica_leads_and_the_broker_serves_its_other_partitions(
    cluster: Cluster,
) -> None:
    await cluster.create_topic([1, 2, 3])
    assert (await cluster.produce(1, b"a")).error_code == 0
    await cluster.elect(2, (BrokerId(1), BrokerId(2), BrokerId(3)))
    await cluster.elect(1, (BrokerId(1), BrokerId(2), BrokerId(3)))
    await cluster.until(lambda state: replica(cluster, 1).leader_epoch == 2)
    with violations() as told:
        plant(cluster, 1)
        answer = await cluster.produce(1, b"b")
        assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert await cluster.until(lambda state: state.leader == 2) < 0.5
    assert (await cluster.state()).isr == (2, 3)
    assert "t-0: the high watermark 1000 is beyond the log end 2" in told[0]
    assert "led in epoch 0 up to high watermark 1" in told[0], "its history"
    assert (await cluster.produce(2, b"c")).error_code == 0
    await cluster.until_read(2, [b"a", b"c"])
    cluster.brokers[1].kill()
    cluster.drop_connection(1)
    cluster.brokers[1].start()
    await cluster.until(lambda state: set(state.isr) == {1, 2, 3})
    await cluster.until_read(1, [b"a", b"c"])


@on_cluster()
async def test_a_follower_goes_offline_and_leaves_the_set(cluster: Cluster) -> None:
    await cluster.create_topic([1, 2, 3])
    assert (await cluster.produce(1, b"a")).error_code == 0
    with violations() as told:
        plant(cluster, 3)
        assert (await cluster.produce(1, b"b")).error_code == 0
    assert len(told) == 1
    assert (await cluster.state()).isr == (1, 2)


@on_cluster(brokers=1)
async def test_a_clean_stop_leaves_no_marker_for_a_log_that_failed(cluster: Cluster) -> None:
    """The next start must recover the log: its indexes and its offsets may be wrong."""
    await cluster.create_topic([1])
    assert (await cluster.produce(1, b"a")).error_code == 0
    with violations():
        plant(cluster, 1)
        await cluster.produce(1, b"b")
    await cluster.brokers[1].stop()
    disk = cluster.brokers[1].host.disk
    assert not disk.exists("/data/.kafka_cleanshutdown")
    cluster.drop_connection(1)
    cluster.brokers[1].start()
    await cluster.until(lambda state: state.leader_epoch > 0)
    assert await cluster.all_values(1) == [b"a", b"b"]


@contextmanager
def violations() -> Iterator[list[str]]:
    """Takes the errors out of the log: one with a traceback would end the simulation."""
    told: list[str] = []

    def keep(record: logging.LogRecord) -> bool:
        if record.exc_info and isinstance(record.exc_info[1], InvariantViolation):
            told.append(record.getMessage())
            return False
        return True

    logger = logging.getLogger("odradek.storage")
    logger.addFilter(keep)
    try:
        yield told
    finally:
        logger.removeFilter(keep)


def plant(cluster: Cluster, broker: int) -> None:
    """Moves the high watermark of a broker's replica beyond its log."""
    replica(cluster, broker).high_watermark.value = Offset(1_000)


def replica(cluster: Cluster, broker: int) -> Partition:
    (found,) = (
        partition
        for partition in cluster.brokers[broker].partitions()
        if partition.topic_partition == TopicPartition(TOPIC, 0)
    )
    return found
