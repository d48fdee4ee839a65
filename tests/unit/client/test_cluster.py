import asyncio

import pytest

from odradek.client.cluster import Cluster
from odradek.client.cluster_view import NO_BROKER, Broker, ClusterView
from odradek.client.errors import ClientClosed, NoBrokerAvailable
from odradek.client.settings import ClientSettings
from odradek.protocol.errors import ErrorCode, KafkaError, UnknownTopic
from odradek.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from odradek.protocol.types import BrokerId, TopicId, TopicPartition
from odradek.world import Randomness
from simulation.world import Simulation
from tests.unit.client.mini_cluster import Close, MiniCluster
from tests.unit.client.simulated import in_simulation, simulate

ONE = TopicId(b"1" * 16)
TWO = TopicId(b"2" * 16)
T0 = TopicPartition("t", 0)


def answer(
    leader: int, epoch: int, topic_id: TopicId = ONE, error_code: int = 0
) -> MetadataResponse:
    partition = MetadataResponsePartition(
        partition_index=0, leader_id=leader, leader_epoch=epoch, replica_nodes=[1, 2]
    )
    return MetadataResponse(
        cluster_id="c",
        controller_id=2,
        brokers=[
            MetadataResponseBroker(node_id=1, host="one", port=1),
            MetadataResponseBroker(node_id=2, host="two", port=2, rack="r"),
        ],
        topics=[
            MetadataResponseTopic(
                name="t",
                topic_id=topic_id,
                error_code=error_code,
                partitions=[] if error_code else [partition],
            )
        ],
    )


class TestClusterView:
    def test_knows_brokers_topics_leaders_and_ids(self) -> None:
        view = ClusterView()
        view.update(answer(2, 5), ["t"])
        assert view.brokers[BrokerId(2)] == Broker(BrokerId(2), "two", 2, "r")
        assert view.leader(T0) == 2
        assert view.controller == 2
        assert view.names[ONE] == "t"
        assert view.topics["t"].all_partitions == (0,)
        assert view.leader(TopicPartition("t", 9)) == NO_BROKER

    def test_old_news_does_not_undo_a_newer_leader(self) -> None:
        view = ClusterView()
        view.update(answer(2, 5), ["t"])
        view.update(answer(1, 4), ["t"])
        assert view.leader(T0) == 2
        view.update(answer(1, 6), ["t"])
        assert view.leader(T0) == 1

    def test_a_topic_made_anew_starts_from_nothing(self) -> None:
        view = ClusterView()
        view.update(answer(2, 5), ["t"])
        view.update(answer(1, 0, TWO), ["t"])
        assert view.leader(T0) == 1
        assert view.names == {TWO: "t"}

    def test_a_deleted_topic_is_forgotten_and_its_error_kept(self) -> None:
        view = ClusterView()
        view.update(answer(2, 5), ["t"])
        view.update(answer(0, 0, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), ["t"])
        assert view.topics == {}
        assert view.errors["t"].code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        view.update(answer(2, 0, TWO), ["t"])
        assert view.errors == {}

    def test_an_answer_about_all_topics_drops_those_that_are_gone(self) -> None:
        view = ClusterView()
        view.update(answer(2, 5), ["t"])
        view.update(MetadataResponse(), None)
        assert view.topics == {}
        assert BrokerId(1) in view.brokers

    def test_a_partition_without_leader_is_there_but_not_available(self) -> None:
        view = ClusterView()
        view.update(answer(-1, 5), ["t"])
        assert view.topics["t"].all_partitions == (0,)
        assert view.topics["t"].available_partitions == ()

    def test_hints_about_a_new_leader_are_taken_if_they_are_newer(self) -> None:
        view = ClusterView()
        view.update(answer(1, 5), ["t"])
        version = view.version
        assert not view.leader_moved(T0, 2, 5)
        assert not view.leader_moved(T0, -1, 9)
        assert not view.leader_moved(T0, 3, 9), "nobody said where broker 3 is"
        assert view.version == version
        three = Broker(BrokerId(3), "three", 3)
        assert view.leader_moved(T0, 3, 9, [three])
        assert view.leader(T0) == 3
        assert view.brokers[BrokerId(3)] is three
        assert view.version > version


def connect(cluster: MiniCluster, **options: object) -> Cluster:
    return Cluster(
        ClientSettings(bootstrap_servers=cluster.bootstrap, **options),  # type: ignore[arg-type]
        Randomness(1),
    )


@in_simulation()
async def test_many_who_want_metadata_share_one_request(
    brokers: MiniCluster, simulation: Simulation
) -> None:
    brokers.create("t", 2)
    cluster = connect(brokers)
    found = await asyncio.gather(*(cluster.topic("t", 1000) for _ in range(50)))
    assert all(topic.all_partitions == (0, 1) for topic in found)
    assert brokers.count(MetadataRequest) == 1
    await cluster.close()


@in_simulation()
async def test_a_topic_that_is_not_there_is_waited_for_without_a_storm(
    brokers: MiniCluster, simulation: Simulation
) -> None:
    cluster = connect(brokers)
    waiting = asyncio.ensure_future(cluster.topic("late", 60_000))
    await asyncio.sleep(10)
    assert 50 <= brokers.count(MetadataRequest) <= 150
    brokers.create("late", 3)
    assert len((await waiting).partitions) == 3
    with pytest.raises(UnknownTopic, match=r"There is no topic never.*within 2000 ms.*--create"):
        await cluster.topic("never", 2_000)
    await cluster.close()


def test_a_forbidden_topic_fails_at_once() -> None:
    def refuse(request: object) -> MetadataResponse:
        return answer(1, 1, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)

    async def test(brokers: MiniCluster, _: Simulation) -> None:
        cluster = connect(brokers)
        brokers.fail_next(MetadataRequest, refuse)
        with pytest.raises(KafkaError, match="No permission"):
            await cluster.topic("t", 60_000)
        assert brokers.count(MetadataRequest) == 1
        await cluster.close()

    simulate(test)


@in_simulation(brokers=3)
async def test_a_lost_connection_is_made_again_and_the_next_broker_is_asked(
    brokers: MiniCluster, simulation: Simulation
) -> None:
    brokers.create("t")
    cluster = connect(brokers)
    brokers.fail_next(MetadataRequest, Close, Close)
    assert (await cluster.topic("t", 10_000)).all_partitions == (0,)
    first = await cluster.connection(1)
    brokers.drop_connections()
    await asyncio.sleep(1)
    assert cluster.connected(1) is None
    second = await cluster.connection(1)
    assert second is not first
    assert cluster.connected(1) is second
    await cluster.close()


@in_simulation()
async def test_callers_share_a_connection_and_purposes_do_not(
    brokers: MiniCluster, simulation: Simulation
) -> None:
    cluster = connect(brokers)
    await cluster.refresh()
    one, two, other = await asyncio.gather(
        cluster.connection(1), cluster.connection(1), cluster.connection(1, "fetch")
    )
    assert one is two
    assert one is not other
    await cluster.close()
    with pytest.raises(ClientClosed):
        await cluster.connection(1)


@in_simulation()
async def test_nobody_answers(brokers: MiniCluster, simulation: Simulation) -> None:
    await brokers.stop()
    cluster = connect(brokers)
    with pytest.raises(NoBrokerAvailable, match=r"cannot connect to 127\.0\.0\.1:9093"):
        await cluster.refresh()
    await cluster.close()


def test_brokers_that_moved_are_found_again_through_bootstrap() -> None:
    def moved(request: object) -> MetadataResponse:
        return MetadataResponse(
            cluster_id="c", brokers=[MetadataResponseBroker(node_id=1, host="127.0.0.1", port=1)]
        )

    async def test(brokers: MiniCluster, _: Simulation) -> None:
        brokers.create("t")
        cluster = connect(brokers)
        brokers.fail_next(MetadataRequest, moved)
        await cluster.refresh()
        brokers.drop_connections()
        await asyncio.sleep(1)
        assert (await cluster.topic("t", 10_000)).all_partitions == (0,)
        assert cluster.view.brokers[BrokerId(1)].port == brokers.ports[1]
        await cluster.close()

    simulate(test)


@in_simulation()
async def test_a_broker_may_ask_for_a_new_start(
    brokers: MiniCluster, simulation: Simulation
) -> None:
    brokers.create("t")
    cluster = connect(brokers)
    brokers.fail_next(
        MetadataRequest, lambda _: MetadataResponse(error_code=ErrorCode.REBOOTSTRAP_REQUIRED)
    )
    with pytest.raises(KafkaError, match="REBOOTSTRAP_REQUIRED"):
        await cluster.refresh()
    await cluster.refresh()
    assert cluster.view.brokers
    await cluster.close()


@in_simulation()
async def test_metadata_is_refreshed_when_it_is_old(
    brokers: MiniCluster, simulation: Simulation
) -> None:
    brokers.create("t")
    cluster = connect(brokers, metadata_max_age_ms=60_000)
    await cluster.topic("t", 1000)
    await asyncio.sleep(301)
    assert brokers.count(MetadataRequest) == 6
    await cluster.close()
