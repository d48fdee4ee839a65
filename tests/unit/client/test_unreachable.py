"""A broker that cannot be reached is said at once, by every client and in one way."""

import asyncio
from typing import Any

import pytest

from odradek.client.admin.admin import Admin
from odradek.client.cluster import Cluster
from odradek.client.consumer.consumer import Consumer
from odradek.client.errors import NoBrokerAvailable
from odradek.client.producer.producer import Producer
from odradek.client.settings import AdminSettings, ClientSettings
from odradek.protocol.types import TopicPartition
from simulation.world import Simulation
from tests.unit.client.mini_cluster import MiniCluster
from tests.unit.client.simulated import in_simulation

ADVICE = (
    "cannot connect to 127.0.0.1:9093: connection refused; trying again. Is the broker running,"
    " and is 127.0.0.1:9093 its address?"
)


@pytest.mark.parametrize("kind", ["producer", "consumer", "group", "admin"])
def test_every_client_warns_at_the_first_refused_connection(kind: str, said: list[str]) -> None:
    @in_simulation()
    async def test(brokers: MiniCluster, simulation: Simulation) -> None:
        await brokers.stop()
        servers = brokers.bootstrap
        if kind == "producer":
            async with Producer(bootstrap_servers=servers, max_block_ms=2_000) as producer:
                with pytest.raises(NoBrokerAvailable, match="no broker could be reached"):
                    await producer.send("t", b"v")
        elif kind == "admin":
            async with Admin(bootstrap_servers=servers, default_api_timeout_ms=2_000) as admin:
                with pytest.raises(NoBrokerAvailable, match=r"within 2000 ms.*connection refused"):
                    await admin.list_topics()
        elif kind == "consumer":
            async with Consumer(bootstrap_servers=servers) as consumer:
                consumer.assign([("t", 0)])
                assert await consumer.poll(timeout_ms=500) == {}
        else:
            async with Consumer(bootstrap_servers=servers, group_id="g") as consumer:
                consumer.subscribe(["t"])
                assert await consumer.poll(timeout_ms=500) == {}

    test()
    assert said[0] == ADVICE
    assert said.count(ADVICE) == 1


def test_it_is_said_again_every_minute_and_when_it_is_over(said: list[str]) -> None:
    @in_simulation()
    async def test(brokers: MiniCluster, simulation: Simulation) -> None:
        await brokers.stop()
        brokers.create("t")
        cluster = Cluster(ClientSettings(bootstrap_servers=brokers.bootstrap))
        found = asyncio.ensure_future(cluster.topic("t", 600_000))
        await asyncio.sleep(130)
        await brokers.start()
        await found
        await cluster.close()

    test()
    assert said == [
        ADVICE,
        f"still {ADVICE}",
        f"still {ADVICE}",
        "connected to 127.0.0.1:9093 again",
    ]


def test_a_client_that_gives_up_soon_raises_and_logs_nothing(
    said: list[str],
) -> None:
    @in_simulation()
    async def test(brokers: MiniCluster, simulation: Simulation) -> None:
        await brokers.stop()
        async with Admin(AdminSettings(bootstrap_servers=brokers.bootstrap, retries=1)) as admin:
            with pytest.raises(NoBrokerAvailable, match="connection refused"):
                await admin.list_topics()

    test()
    assert said == []


def test_a_broker_of_the_metadata_is_told_by_its_id(said: list[str]) -> None:
    @in_simulation()
    async def test(brokers: MiniCluster, simulation: Simulation) -> None:
        brokers.create("t")
        cluster = Cluster(ClientSettings(bootstrap_servers=brokers.bootstrap))
        await cluster.topic("t", 1_000)
        await brokers.stop()
        with pytest.raises(OSError, match="refused"):
            await cluster.connection(1, "another")
        await cluster.close()

    test()
    assert "Is broker 1 running? The address is what its advertised.listeners" in said[0]


@in_simulation()
async def test_calls_of_a_consumer_name_the_broker_that_is_not_there(
    brokers: MiniCluster, simulation: Simulation
) -> None:
    await brokers.stop()
    async with Consumer(
        bootstrap_servers=brokers.bootstrap, group_id="g", default_api_timeout_ms=2_000
    ) as consumer:
        consumer.assign([("t", 0)])
        for call in (
            consumer.end_offsets([("t", 0)]),
            consumer.partitions_for("t"),
            consumer.committed([("t", 0)]),
            consumer.commit({TopicPartition("t", 0): 1}),
            consumer.position(("t", 0)),
        ):
            with pytest.raises(NoBrokerAvailable, match=r"2000 ms.*connection refused"):
                await call


@in_simulation()
async def test_a_poll_of_nothing_says_what_to_call(
    brokers: MiniCluster, simulation: Simulation
) -> None:
    async with Consumer(bootstrap_servers=brokers.bootstrap) as consumer:
        with pytest.raises(ValueError, match=r"subscribe\(\) to topics or assign\(\) partitions"):
            await consumer.poll(timeout_ms=1_000)


def test_an_address_that_refuses_is_not_worth_a_word_if_another_answers(said: list[str]) -> None:
    @in_simulation()
    async def test(brokers: MiniCluster, simulation: Simulation) -> None:
        brokers.create("t")
        servers = f"127.0.0.1:9,{brokers.bootstrap}"
        async with Producer(bootstrap_servers=servers) as producer:
            await producer.send_and_wait("t", b"v")

    test()
    assert said == []


@in_simulation()
async def test_a_position_without_a_group_names_the_broker_that_is_not_there(
    brokers: MiniCluster, simulation: Simulation
) -> None:
    await brokers.stop()
    options: Any = {"bootstrap_servers": brokers.bootstrap, "default_api_timeout_ms": 2_000}
    async with Consumer(**options) as consumer:
        consumer.assign([("t", 0)])
        with pytest.raises(NoBrokerAvailable, match=r"position of t-0.*2000 ms.*refused"):
            await consumer.position(("t", 0))


@in_simulation()
async def test_every_call_of_an_admin_client_waits_for_a_broker_that_comes_back(
    brokers: MiniCluster, simulation: Simulation
) -> None:
    await brokers.stop()
    async with Admin(bootstrap_servers=brokers.bootstrap) as admin:
        asyncio.get_running_loop().call_later(5, lambda: asyncio.ensure_future(brokers.start()))
        assert [broker.id for broker in (await admin.describe_cluster()).brokers] == [1]
