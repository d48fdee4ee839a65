"""A log directory fails on one of several brokers: others lead what was in it."""

import errno

from odradek.protocol.errors import ErrorCode
from tests.unit.replication.cluster import TOPIC, Cluster, on_cluster


def fail_disk(cluster: Cluster, broker: int, directory: str = "/data") -> None:
    """From now on no write to that directory succeeds."""
    disk = cluster.brokers[broker].host.disk
    disk.fail_next("write", errno.ENOSPC, under=directory, times=1_000_000)


@on_cluster()
async def test_a_leader_whose_disk_fails_lets_another_lead(cluster: Cluster) -> None:
    await cluster.create_topic([1, 2, 3])
    assert (await cluster.produce(1, b"a")).error_code == 0
    fail_disk(cluster, 1)
    assert (await cluster.produce(1, b"b")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    took_s = await cluster.until(lambda state: state.leader == 2)
    assert took_s < 0.5
    assert (await cluster.state()).isr == (2, 3)
    assert (await cluster.produce(2, b"c")).error_code == 0
    assert await cluster.values(2) == [b"a", b"c"]
    refused = await cluster.produce(1, b"d")
    assert refused.error_code in (
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.KAFKA_STORAGE_ERROR,
    )


@on_cluster()
async def test_a_follower_whose_disk_fails_leaves_the_set(cluster: Cluster) -> None:
    await cluster.create_topic([1, 2, 3])
    assert (await cluster.produce(1, b"a")).error_code == 0
    fail_disk(cluster, 3)
    assert (await cluster.produce(1, b"b")).error_code == 0, "acknowledged by the others"
    assert (await cluster.state()).isr == (1, 2)


@on_cluster()
async def test_the_last_replica_in_sync_stays_and_says_why_it_cannot_serve(
    cluster: Cluster,
) -> None:
    await cluster.create_topic([1])
    assert (await cluster.produce(1, b"a")).error_code == 0
    before = await cluster.state()
    fail_disk(cluster, 1)
    for _ in range(3):
        answer = await cluster.produce(1, b"b")
        assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert await cluster.state() == before


@on_cluster()
async def test_after_a_restart_with_a_working_disk_it_follows_again(cluster: Cluster) -> None:
    await cluster.create_topic([1, 2, 3])
    assert (await cluster.produce(1, b"a")).error_code == 0
    fail_disk(cluster, 1)
    await cluster.produce(1, b"b")
    await cluster.until(lambda state: state.leader == 2)
    cluster.brokers[1].kill()
    cluster.brokers[1].host.disk.heal()
    cluster.drop_connection(1)
    cluster.brokers[1].start()
    await cluster.until(lambda state: 1 in state.isr)
    assert (await cluster.produce(2, b"c")).error_code == 0
    await cluster.until_read(1, [b"a", b"c"])


@on_cluster(log_dirs="/one,/two")
async def test_the_other_directory_goes_on(cluster: Cluster) -> None:
    await cluster.create_topic([1, 2, 3])
    assert (await cluster.produce(1, b"a")).error_code == 0
    disk = cluster.brokers[1].host.disk
    holder = "/one" if disk.exists(f"/one/{TOPIC}-0") else "/two"
    fail_disk(cluster, 1, "/two" if holder == "/one" else "/one")
    assert (await cluster.produce(1, b"b")).error_code == 0
    assert (await cluster.state()).leader == 1
    fail_disk(cluster, 1, holder)
    await cluster.produce(1, b"c")
    await cluster.until(lambda state: state.leader == 2)


@on_cluster(brokers=1, log_dirs="/one,/two")
async def test_no_empty_log_is_made_for_one_that_may_be_in_a_directory_that_is_offline(
    cluster: Cluster,
) -> None:
    """It would be elected as the last in sync, and everybody would cut their logs to nothing."""
    await cluster.create_topic([1])
    assert (await cluster.produce(1, b"a")).error_code == 0
    cluster.brokers[1].kill()
    cluster.drop_connection(1)
    disk = cluster.brokers[1].host.disk
    holder = "/one" if disk.exists(f"/one/{TOPIC}-0") else "/two"
    disk.fail_next("read", under=holder, times=1_000_000)
    cluster.brokers[1].start()
    await cluster.until(lambda state: state.leader_epoch > 0)
    assert (await cluster.produce(1, b"b")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    other = "/two" if holder == "/one" else "/one"
    assert not disk.exists(f"{other}/{TOPIC}-0")
    cluster.brokers[1].kill()
    cluster.drop_connection(1)
    disk.heal()
    cluster.brokers[1].start()
    await cluster.until(lambda state: state.leader_epoch > 1)
    assert await cluster.values(1) == [b"a"]
