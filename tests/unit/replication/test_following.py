"""Followers as others see them: consumers that read there, fetches that are made up or out of
date, logs that begin elsewhere, disks that must be flushed first."""

import asyncio

from odradek.metadata.memory import LostReply
from odradek.metadata.paths import broker_epoch_path
from odradek.metadata.store import Set
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from odradek.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
    ReplicaState,
)
from odradek.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from odradek.protocol.types import BrokerId, LeaderEpoch, Offset
from tests.unit.replication.cluster import TOPIC, Cluster, on_cluster, values_in, with_cluster

_SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


async def fetch_as_replica(
    cluster: Cluster,
    replica: BrokerId,
    broker_epoch: int,
    *,
    offset: Offset = Offset(0),
    leader_epoch: LeaderEpoch = LeaderEpoch(0),
) -> PartitionData:
    """From broker 1."""
    request = FetchRequest(
        replica_state=ReplicaState(replica_id=replica, replica_epoch=broker_epoch),
        max_wait_ms=0,
        min_bytes=0,
        topics=[
            FetchTopic(
                topic_id=cluster.topic_id,
                partitions=[
                    FetchPartition(
                        partition=0,
                        current_leader_epoch=leader_epoch,
                        fetch_offset=offset,
                        partition_max_bytes=1 << 20,
                    )
                ],
            )
        ],
    )
    response = await (await cluster.connection(1)).request(request, FetchResponse)
    return response.responses[0].partitions[0]


async def list_offset(
    cluster: Cluster, broker: int, timestamp: int
) -> ListOffsetsPartitionResponse:
    request = ListOffsetsRequest(
        topics=[
            ListOffsetsTopic(
                name=TOPIC,
                partitions=[ListOffsetsPartition(partition_index=0, timestamp=timestamp)],
            )
        ]
    )
    response = await (await cluster.connection(broker)).request(request, ListOffsetsResponse)
    return response.topics[0].partitions[0]


async def delete_records(
    cluster: Cluster, broker: int, offset: int, timeout_ms: int = 5000
) -> DeleteRecordsPartitionResult:
    request = DeleteRecordsRequest(
        topics=[
            DeleteRecordsTopic(
                name=TOPIC, partitions=[DeleteRecordsPartition(partition_index=0, offset=offset)]
            )
        ],
        timeout_ms=timeout_ms,
    )
    response = await (await cluster.connection(broker)).request(request, DeleteRecordsResponse)
    return response.topics[0].partitions[0]


async def broker_epoch(cluster: Cluster, broker: int) -> int:
    node = await cluster.store.read(broker_epoch_path(broker))
    assert node is not None
    return node.version


# Consumers (KIP-392)


@on_cluster()
async def test_only_the_leader_says_that_an_offset_is_out_of_range(cluster: Cluster) -> None:
    """A consumer resets its position then, and a follower's log may be shorter than the leader's,
    or start later."""
    await cluster.create_topic([1, 2, 3])
    await cluster.produce(1, b"a", b"b")
    await cluster.until_read(2, [b"a", b"b"])
    assert (await cluster.fetch(1, Offset(3))).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert (await cluster.fetch(2, Offset(3))).error_code == ErrorCode.OFFSET_NOT_AVAILABLE
    assert (await cluster.fetch(2, Offset(2))).error_code == 0
    (follower,) = [
        one for one in cluster.brokers[2].partitions() if one.topic_partition[0] == TOPIC
    ]
    follower.update_from_leader(Offset(2), Offset(1))
    assert (await cluster.fetch(2, Offset(0))).error_code == ErrorCode.OFFSET_NOT_AVAILABLE
    assert values_in(await cluster.fetch(1, Offset(0))) == [b"a", b"b"]


@on_cluster(replica_selector_class=_SELECTOR)
async def test_a_consumer_is_sent_to_the_replica_on_its_rack(cluster: Cluster) -> None:
    await cluster.create_topic([1, 2, 3])
    await cluster.produce(1, b"a")
    sent_away = await cluster.fetch(1, rack="rack-2")
    assert (sent_away.preferred_read_replica, bool(sent_away.records)) == (2, False)
    await asyncio.sleep(0.6)
    assert values_in(await cluster.fetch(2, rack="rack-2")) == [b"a"]
    at_home = await cluster.fetch(1, rack="rack-1")
    assert at_home.preferred_read_replica == -1
    assert values_in(at_home) == [b"a"]
    assert values_in(await cluster.fetch(1, rack="elsewhere")) == [b"a"]
    cluster.brokers[2].kill()
    await cluster.until(lambda state: state.isr == (1, 3))
    assert values_in(await cluster.fetch(1, rack="rack-2")) == [b"a"]


@on_cluster()
async def test_without_a_selector_consumers_stay_with_the_leader(cluster: Cluster) -> None:
    await cluster.create_topic([1, 2, 3])
    await cluster.produce(1, b"a")
    assert values_in(await cluster.fetch(1, rack="rack-2")) == [b"a"]


@on_cluster()
async def test_a_follower_shows_only_what_it_knows_to_be_committed(cluster: Cluster) -> None:
    await cluster.create_topic([1, 2, 3])
    await cluster.produce(1, b"a")
    await asyncio.sleep(0.6)
    cluster.simulation.network.cut("broker-1", "broker-3")
    assert (await cluster.produce(1, b"uncommitted", acks=1)).error_code == 0
    await asyncio.sleep(1)
    assert await cluster.values(2) == [b"a"]
    beyond = await cluster.fetch(2, Offset(7))
    assert beyond.error_code == ErrorCode.OFFSET_NOT_AVAILABLE


@on_cluster()
async def test_a_consumer_that_waits_at_a_follower_is_woken(cluster: Cluster) -> None:
    await cluster.create_topic([1, 2])
    await cluster.produce(1, b"a")
    await cluster.until_read(2, [b"a"])
    waiting = asyncio.ensure_future(cluster.fetch(2, Offset(1), max_wait_ms=10_000))
    await asyncio.sleep(0.1)
    await cluster.produce(1, b"b")
    assert values_in(await waiting) == [b"b"]


@on_cluster()
async def test_old_consumers_read_from_leaders_alone(cluster: Cluster) -> None:
    await cluster.create_topic([1, 2])
    await cluster.produce(1, b"a")
    answer = await cluster.fetch(2, version=10)
    assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


@on_cluster(auto_leader_rebalance_enable="false")
async def test_a_new_leader_does_not_name_an_end_that_may_have_been_higher(
    cluster: Cluster,
) -> None:
    """Until its followers confirm, its high watermark may lag behind the last one's (KIP-207)."""
    await cluster.create_topic([1, 2, 3])
    await cluster.produce(1, b"a")
    await cluster.produce(1, b"b")
    cluster.simulation.network.isolate("broker-2")
    await cluster.elect(2, [BrokerId(2), BrokerId(3)])
    await asyncio.sleep(0.1)
    cluster.simulation.network.heal("broker-2", "main")
    assert (await list_offset(cluster, 2, -1)).error_code == ErrorCode.OFFSET_NOT_AVAILABLE
    assert (await list_offset(cluster, 2, -2)).offset == 0
    cluster.simulation.network.heal_all()
    await cluster.until_read(2, [b"a", b"b"])
    assert (await list_offset(cluster, 2, -1)).offset == 2


# Fetches that should not count


@on_cluster()
async def test_whoever_makes_up_a_replica_changes_nothing(cluster: Cluster) -> None:
    await cluster.create_topic([1, 2])
    await cluster.produce(1, b"a")
    stranger = await fetch_as_replica(cluster, BrokerId(3), 0, offset=Offset(1))
    assert stranger.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    nameless = await fetch_as_replica(cluster, BrokerId(2), -1, offset=Offset(1))
    assert nameless.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (await cluster.state()).isr == (1, 2)


@on_cluster()
async def test_a_former_life_of_a_broker_confirms_nothing(cluster: Cluster) -> None:
    await cluster.create_topic([1, 2])
    await cluster.produce(1, b"a")
    former = await broker_epoch(cluster, 2)
    cluster.brokers[2].kill()
    await cluster.until(lambda state: state.isr == (1,))
    cluster.brokers[2].start()
    await cluster.until(lambda state: state.isr == (1, 2))
    late = await fetch_as_replica(cluster, BrokerId(2), former, offset=Offset(1))
    assert late.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


@on_cluster()
async def test_a_fetch_under_another_epoch_is_refused(cluster: Cluster) -> None:
    await cluster.create_topic([1, 2])
    await cluster.elect(1, [BrokerId(1), BrokerId(2)])
    await asyncio.sleep(0.1)
    epoch = await broker_epoch(cluster, 2)
    older = await fetch_as_replica(cluster, BrokerId(2), epoch)
    assert older.error_code == ErrorCode.FENCED_LEADER_EPOCH
    newer = await fetch_as_replica(cluster, BrokerId(2), epoch, leader_epoch=LeaderEpoch(9))
    assert newer.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH


@on_cluster()
async def test_a_broker_that_restarts_meanwhile_is_not_let_in(cluster: Cluster) -> None:
    """The leader believes in an epoch that the store has left behind (KIP-903)."""
    await cluster.create_topic([1, 2])
    await cluster.produce(1, b"a")
    await cluster.elect(1, [BrokerId(1)])
    path = broker_epoch_path(2)
    node = await cluster.store.read(path)
    assert node is not None
    # As if it had registered again: its fetches carry the epoch before.
    await cluster.store.multi(Set(path, node.value))
    await asyncio.sleep(3)
    assert (await cluster.state()).isr == (1,)
    assert (await cluster.produce(1, b"b")).error_code == 0


# Changes whose outcome is unknown


@on_cluster()
async def test_a_lost_reply_to_an_expansion_is_read_back(cluster: Cluster) -> None:
    await cluster.create_topic([1, 2])
    for outcome in LostReply:
        await cluster.elect(1, [BrokerId(1)])
        cluster.metadata.faults.lose_next_reply(outcome)
        await cluster.until(lambda state: state.isr == (1, 2))
        assert (await cluster.produce(1, b"a")).error_code == 0


# Log starts


@on_cluster()
async def test_deleted_records_go_on_every_replica(cluster: Cluster) -> None:
    await cluster.create_topic([1, 2, 3])
    for value in (b"a", b"b", b"c"):
        await cluster.produce(1, value)
    answer = await delete_records(cluster, 1, 2)
    assert (answer.error_code, answer.low_watermark) == (0, 2)
    for broker in (1, 2, 3):
        found = await cluster.fetch(broker, Offset(0))
        out_of_range, elsewhere = ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.OFFSET_NOT_AVAILABLE
        assert found.error_code == (out_of_range if broker == 1 else elsewhere)
        await cluster.fetch(broker, Offset(2))


@on_cluster()
async def test_deletion_waits_for_replicas_only_so_long(cluster: Cluster) -> None:
    await cluster.create_topic([1, 2])
    await cluster.produce(1, b"a")
    cluster.simulation.network.cut("broker-1", "broker-2")
    answer = await delete_records(cluster, 1, 1, timeout_ms=300)
    assert answer.error_code == ErrorCode.REQUEST_TIMED_OUT


@on_cluster()
async def test_a_follower_that_was_away_too_long_starts_over(cluster: Cluster) -> None:
    await cluster.create_topic([1, 2])
    await cluster.produce(1, b"a")
    cluster.brokers[2].kill()
    await cluster.until(lambda state: state.isr == (1,))
    for value in (b"b", b"c", b"d"):
        await cluster.produce(1, value)
    assert (await delete_records(cluster, 1, 3)).low_watermark == 3
    cluster.brokers[2].start()
    await cluster.until(lambda state: state.isr == (1, 2))
    await asyncio.sleep(0.6)
    assert values_in(await cluster.fetch(2, Offset(3))) == [b"d"]
    assert (await cluster.fetch(2, Offset(0))).error_code == ErrorCode.OFFSET_NOT_AVAILABLE


# Disks


def test_with_flush_messages_a_power_cut_of_all_takes_nothing_acknowledged() -> None:
    async def test(cluster: Cluster) -> None:
        await cluster.create_topic([1, 2, 3], flush_messages="1", min_insync_replicas="2")
        expected = [b"%d" % number for number in range(20)]
        for value in expected:
            assert (await cluster.produce(1, value)).error_code == 0
        for broker in cluster.brokers.values():
            broker.power_off()
        cluster.close()
        for broker in cluster.brokers.values():
            broker.start()
        await asyncio.sleep(5)
        await cluster.until(lambda state: state.leader > 0)
        leader = (await cluster.state()).leader
        await cluster.until_read(leader, expected)

    for seed in range(1, 6):
        with_cluster(test, seed=seed)


def test_a_power_cut_after_two_kills_takes_nothing_acknowledged() -> None:
    """One page cache is lost, whatever order they come back in."""

    async def test(cluster: Cluster) -> None:
        await cluster.create_topic([1, 2, 3], min_insync_replicas="2")
        expected = [b"%d" % number for number in range(20)]
        for value in expected:
            assert (await cluster.produce(1, value)).error_code == 0
        one, two, three = cluster.brokers.values()
        one.kill()
        two.kill()
        three.power_off()
        cluster.close()
        for broker in (one, two, three):
            broker.start()
            await asyncio.sleep(2)
        await cluster.until(lambda state: state.leader > 0 and len(state.isr) == 3)
        leader = (await cluster.state()).leader
        await cluster.until_read(leader, expected)

    for seed in range(1, 6):
        with_cluster(test, seed=seed)


@on_cluster(replica_lag_time_max_ms="2000", log_dirs="/data,/more")
async def test_a_follower_whose_disk_fails_leaves_and_disturbs_nobody(cluster: Cluster) -> None:
    await cluster.create_topic([1, 2, 3])
    await cluster.produce(1, b"a")
    cluster.brokers[3].host.disk.fail_next("write")
    answer = await cluster.produce(1, b"b", timeout_ms=20_000)
    assert answer.error_code == 0
    assert (await cluster.state()).isr == (1, 2)


@on_cluster(log_dirs="/data,/more")
async def test_a_leader_may_die_after_the_disk_of_its_last_follower(cluster: Cluster) -> None:
    """Nobody changed the partition in between: the follower was not in sync yet."""
    await cluster.create_topic([1, 3], min_insync_replicas="1")
    cluster.brokers[3].kill()
    await cluster.until(lambda state: state.isr == (1,))
    assert (await cluster.produce(1, b"a")).error_code == 0
    failing = f"/data/{TOPIC}-0/00000000000000000000.log"
    cluster.brokers[3].host.disk.fail_next("write", under=failing)
    cluster.brokers[3].start()
    await asyncio.sleep(5)
    cluster.brokers[1].kill()
    await cluster.until(lambda state: state.leader < 0)
    await asyncio.sleep(1)
    assert cluster.brokers[3].is_running
