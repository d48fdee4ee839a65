"""Three brokers copy a partition: what is acknowledged, read, lost with a leader, cut off."""

import asyncio

from odradek.metadata.memory import MemoryMetadata
from odradek.protocol.errors import ErrorCode
from odradek.protocol.types import BrokerId
from tests.unit.replication.cluster import Cluster, on_cluster


@on_cluster()
async def test_what_is_acknowledged_by_all_is_on_all(cluster: Cluster) -> None:
    await cluster.create_topic([1, 2, 3])
    answer = await cluster.produce(1, b"a", b"b")
    assert (answer.error_code, answer.base_offset) == (0, 0)
    assert (await cluster.produce(1, b"c")).base_offset == 2
    assert (await cluster.state()).isr == (1, 2, 3)
    for broker in (1, 2, 3):
        await cluster.until_read(broker, [b"a", b"b", b"c"])


@on_cluster()
async def test_an_acknowledgement_takes_round_trips_and_not_polls(cluster: Cluster) -> None:
    """A produce wakes the followers' long polls at once."""
    await cluster.create_topic([1, 2, 3])
    await cluster.produce(1, b"first")
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    for _ in range(20):
        assert (await cluster.produce(1, b"x")).error_code == 0
    assert loop.time() - began_s < 0.4


# Acknowledgements


@on_cluster()
async def test_acks_of_the_leader_alone_wait_for_nobody(cluster: Cluster) -> None:
    await cluster.create_topic([1, 2])
    cluster.simulation.network.cut("broker-1", "broker-2")
    assert (await cluster.produce(1, b"a", acks=1)).error_code == 0
    assert await cluster.values(1) == [], "it is not committed"
    answer = await cluster.produce(1, b"b", acks=-1, timeout_ms=200)
    assert answer.error_code == ErrorCode.REQUEST_TIMED_OUT


@on_cluster()
async def test_too_few_in_sync_replicas_before_the_append(cluster: Cluster) -> None:
    await cluster.create_topic([1, 2], min_insync_replicas="2")
    assert (await cluster.produce(1, b"a")).error_code == 0
    cluster.brokers[2].kill()
    await cluster.until(lambda state: state.isr == (1,))
    answer = await cluster.produce(1, b"b")
    assert answer.error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert (await cluster.produce(1, b"c", acks=1)).base_offset == 1
    cluster.brokers[2].start()
    await cluster.until(lambda state: state.isr == (1, 2))
    assert (await cluster.produce(1, b"d")).error_code == 0
    await cluster.until_read(2, [b"a", b"c", b"d"])


@on_cluster(replica_lag_time_max_ms="2000")
async def test_too_few_in_sync_replicas_after_the_append(cluster: Cluster) -> None:
    await cluster.create_topic([1, 2], min_insync_replicas="2")
    assert (await cluster.produce(1, b"a")).error_code == 0
    cluster.simulation.network.cut("broker-1", "broker-2")
    answer = await cluster.produce(1, b"b", timeout_ms=20_000)
    assert answer.error_code == ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
    assert (await cluster.state()).isr == (1,)


# In-sync sets


@on_cluster()
async def test_a_follower_whose_broker_dies_leaves_at_once(cluster: Cluster) -> None:
    await cluster.create_topic([1, 2, 3])
    await cluster.produce(1, b"a")
    cluster.brokers[3].kill()
    assert await cluster.until(lambda state: state.isr == (1, 2)) < 0.1
    assert (await cluster.produce(1, b"b")).error_code == 0


@on_cluster(replica_lag_time_max_ms="2000", replica_socket_timeout_ms="2000")
async def test_a_follower_that_is_cut_off_leaves_by_time_and_comes_back(cluster: Cluster) -> None:
    await cluster.create_topic([1, 2, 3])
    await cluster.produce(1, b"a")
    cluster.simulation.network.cut("broker-1", "broker-3")
    producing = asyncio.ensure_future(cluster.produce(1, b"b", timeout_ms=20_000))
    took_s = await cluster.until(lambda state: state.isr == (1, 2))
    assert 2.0 <= took_s <= 4.0
    assert (await producing).error_code == 0
    cluster.simulation.network.heal_all()
    await cluster.until(lambda state: set(state.isr) == {1, 2, 3}, longest_s=60)
    await cluster.until_read(3, [b"a", b"b"])


@on_cluster()
async def test_a_broker_that_was_killed_comes_back_into_sync(cluster: Cluster) -> None:
    await cluster.create_topic([1, 2, 3])
    await cluster.produce(1, b"a")
    cluster.brokers[2].kill()
    await cluster.until(lambda state: state.isr == (1, 3))
    await cluster.produce(1, b"b")
    cluster.brokers[2].start()
    assert await cluster.until(lambda state: set(state.isr) == {1, 2, 3}) < 2.0
    await cluster.until_read(2, [b"a", b"b"])


# Losing a leader


@on_cluster()
async def test_acknowledged_records_survive_the_leader(cluster: Cluster) -> None:
    await cluster.create_topic([1, 2, 3])
    for number in range(10):
        assert (await cluster.produce(1, b"%d" % number)).error_code == 0
    cluster.brokers[1].kill()
    await cluster.until(lambda state: state.leader in (2, 3))
    leader = (await cluster.state()).leader
    assert (await cluster.produce(leader, b"more")).error_code == 0
    expected = [b"%d" % number for number in range(10)] + [b"more"]
    for broker in (2, 3):
        await cluster.until_read(broker, expected)


@on_cluster(auto_leader_rebalance_enable="false")
async def test_what_only_a_deposed_leader_had_is_cut_from_it(cluster: Cluster) -> None:
    """Its tail was never committed; the next leader wrote something else in its place."""
    network = cluster.simulation.network
    await cluster.create_topic([1, 2, 3])
    assert (await cluster.produce(1, b"common")).error_code == 0
    network.cut("broker-1", "broker-2")
    network.cut("broker-1", "broker-3")
    for value in (b"lost", b"lost too"):
        assert (await cluster.produce(1, value, acks=1)).error_code == 0
    await cluster.elect(2, [BrokerId(2), BrokerId(3)])
    await asyncio.sleep(0.1)
    refused = await cluster.produce(1, b"no")
    assert refused.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (await cluster.produce(2, b"kept")).error_code == 0
    network.heal_all()
    await cluster.until(lambda state: set(state.isr) == {1, 2, 3}, longest_s=60)
    for broker in (1, 2, 3):
        await cluster.until_read(broker, [b"common", b"kept"])


@on_cluster(auto_leader_rebalance_enable="false")
async def test_a_deposed_leader_acknowledges_nothing_that_waits(cluster: Cluster) -> None:
    network = cluster.simulation.network
    await cluster.create_topic([1, 2, 3])
    await cluster.produce(1, b"common")
    network.cut("broker-1", "broker-2")
    network.cut("broker-1", "broker-3")
    waiting = asyncio.ensure_future(cluster.produce(1, b"lost", timeout_ms=60_000))
    await asyncio.sleep(0.1)
    await cluster.elect(2, [BrokerId(2), BrokerId(3)])
    assert (await waiting).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


@on_cluster(replica_lag_time_max_ms="1000")
async def test_nothing_is_acknowledged_without_a_deposed_leader_that_has_a_lease(
    cluster: Cluster,
) -> None:
    """It is cut off from the store, so it does not know that another broker was elected, and still
    tells clients where its log ends."""
    await cluster.create_topic([1, 2, 3])
    await cluster.produce(1, b"a")
    cluster.brokers[1].cut_store()
    await cluster.elect(2, [BrokerId(1), BrokerId(2), BrokerId(3)])
    written = asyncio.ensure_future(cluster.produce(2, b"b", timeout_ms=60_000))
    said = 0
    while not written.done():
        answered = await cluster.fetch(1)
        said += answered.error_code == 0 and not written.done()
        await asyncio.sleep(0.1)
    assert (await written).error_code == 0
    assert said > 10, "it had a lease for some seconds"
    refused = await cluster.fetch(1)
    assert refused.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    cluster.brokers[1].reconnect_store()
    await cluster.until_read(1, [b"a", b"b"])


@on_cluster(replica_lag_time_max_ms="1000", auto_leader_rebalance_enable="false")
async def test_a_deposed_leader_with_a_longer_session_than_the_new_one_is_waited_for(
    cluster: Cluster,
) -> None:
    """Brokers may have different session timeouts. The new leader waits for that of the deposed
    one, which is in its registration, and not for its own."""
    deposed = cluster.brokers[1]
    deposed.kill()
    connection = deposed._store_connection
    assert isinstance(connection, MemoryMetadata)
    connection.session_timeout_s *= 3
    deposed.start()
    await asyncio.sleep(0.5)
    await cluster.create_topic([1, 2, 3])
    await cluster.produce(1, b"a")
    deposed.cut_store()
    await cluster.elect(2, [BrokerId(1), BrokerId(2), BrokerId(3)])
    written = asyncio.ensure_future(cluster.produce(2, b"b", timeout_ms=60_000))
    while not written.done():
        answered = await cluster.fetch(1)
        await asyncio.sleep(0.1)
    assert (await written).error_code == 0
    assert answered.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    deposed.reconnect_store()
    await cluster.until_read(1, [b"a", b"b"])


@on_cluster(replica_lag_time_max_ms="1000", auto_leader_rebalance_enable="false")
async def test_a_deposed_leader_that_reached_its_store_and_read_nothing_has_no_longer_lease(
    cluster: Cluster,
) -> None:
    """The session lives on, but the broker was cut off again before it read that it was deposed.
    The new leader does not wait for it longer than for a session timeout."""
    await cluster.create_topic([1, 2, 3])
    await cluster.produce(1, b"a")
    cluster.brokers[1].cut_store()
    await cluster.elect(2, [BrokerId(1), BrokerId(2), BrokerId(3)])
    written = asyncio.ensure_future(cluster.produce(2, b"b", timeout_ms=60_000))
    await asyncio.sleep(3)
    assert (await cluster.fetch(1)).error_code == 0
    cluster.brokers[1].reconnect_store()
    cluster.brokers[1].cut_store()
    assert (await written).error_code == 0
    assert (await cluster.fetch(1)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    cluster.brokers[1].reconnect_store()
    await cluster.until_read(1, [b"a", b"b"])


@on_cluster()
async def test_an_uncommitted_tail_that_the_next_leader_has_is_committed_by_it(
    cluster: Cluster,
) -> None:
    await cluster.create_topic([1, 2, 3])
    await cluster.produce(1, b"a")
    cluster.simulation.network.cut("broker-1", "broker-3")
    assert (await cluster.produce(1, b"b", acks=1)).error_code == 0
    await asyncio.sleep(0.1)
    assert await cluster.values(1) == [b"a"]
    cluster.brokers[1].kill()
    await cluster.elect(2, [BrokerId(2), BrokerId(3)])
    await cluster.until_read(2, [b"a", b"b"])
    await cluster.until_read(3, [b"a", b"b"])


@on_cluster(
    replica_lag_time_max_ms="2000",
    replica_socket_timeout_ms="2000",
    auto_leader_rebalance_enable="false",
)
async def test_after_an_unclean_election_logs_agree_again(cluster: Cluster) -> None:
    """The elected replica is behind: what it lacks is cut from the others, committed or not."""
    network = cluster.simulation.network
    await cluster.create_topic([1, 2, 3])
    await cluster.produce(1, b"common")
    network.cut("broker-3", "broker-1")
    network.cut("broker-3", "broker-2")
    for value in (b"x", b"y", b"z"):
        assert (await cluster.produce(1, value, timeout_ms=20_000)).error_code == 0
    assert (await cluster.state()).isr == (1, 2)
    await cluster.elect(3, [BrokerId(3)])
    assert (await cluster.produce(3, b"other")).error_code == 0
    network.heal_all()
    await cluster.until(lambda state: set(state.isr) == {1, 2, 3}, longest_s=60)
    for broker in (1, 2, 3):
        await cluster.until_read(broker, [b"common", b"other"])
