"""Random days of one partition on three brokers: what was acknowledged by all is there at the end,
once and in order, and all replicas agree.

Power cuts take one broker at a time, and the next only when the set is whole again: that is the
fault budget of `min.insync.replicas=2` without flushing.
"""

import asyncio
import random

import pytest

from odradek.client.errors import ClientError
from odradek.protocol.errors import ErrorCode
from tests.unit.replication.cluster import Cluster, with_cluster

_EVENTS = 6


async def produce_until(cluster: Cluster, ended: asyncio.Event) -> tuple[list[bytes], set[bytes]]:
    """Sends one value after the other to whoever leads; returns those acknowledged, and all."""
    acknowledged: list[bytes] = []
    sent: set[bytes] = set()
    number = 0
    while not ended.is_set():
        leader = (await cluster.state()).leader
        value = b"%d" % number
        number += 1
        if leader > 0:
            sent.add(value)
            try:
                async with asyncio.timeout(2):
                    answer = await cluster.produce(leader, value, timeout_ms=1500)
                if answer.error_code == ErrorCode.NONE:
                    acknowledged.append(value)
            except (ClientError, TimeoutError):
                cluster.drop_connection(leader)
        await asyncio.sleep(0.01)
    return acknowledged, sent


async def one_bad_thing(cluster: Cluster, chance: random.Random) -> None:
    broker = cluster.brokers[chance.randint(1, 3)]
    other = cluster.brokers[chance.choice([n for n in (1, 2, 3) if f"broker-{n}" != broker.name])]
    network = cluster.simulation.network
    match chance.choice(["kill", "power", "stop", "cut", "one way", "pause", "reset", "bounce"]):
        case "kill":
            broker.kill()
        case "power":
            broker.power_off()
        case "stop":
            await broker.stop()
        case "cut":
            network.cut(broker.name, other.name)
        case "one way":
            network.cut(broker.name, other.name, both_ways=False)
        case "pause":
            broker.host.stop()
        case "reset":
            network.reset(broker.name, other.name)
        case _:
            broker.kill()
            broker.start()
    await asyncio.sleep(chance.random() * 4)
    network.heal_all()
    for one in cluster.brokers.values():
        one.host.resume()
        one.start()


async def day(cluster: Cluster) -> None:
    chance = random.Random(cluster.simulation.seed)
    await cluster.create_topic([1, 2, 3], min_insync_replicas="2", segment_bytes="2000")
    ended = asyncio.Event()
    producing = asyncio.ensure_future(produce_until(cluster, ended))
    for _ in range(_EVENTS):
        await asyncio.sleep(chance.random() * 2)
        await one_bad_thing(cluster, chance)
        await cluster.until(lambda state: len(state.isr) == 3 and state.leader > 0, longest_s=120)
    ended.set()
    acknowledged, sent = await producing
    assert len(acknowledged) > 20
    await asyncio.sleep(2)
    cluster.close()  # Those that a power cut has broken would only find out now.
    logs = {broker: await cluster.all_values(broker) for broker in (1, 2, 3)}
    assert logs[1] == logs[2] == logs[3]
    found = [value for value in logs[1] if value in set(acknowledged)]
    assert found == acknowledged, "acknowledged records are there, once and in order"
    assert set(logs[1]) <= sent


@pytest.mark.parametrize("seed", range(1, 4))
def test_a_bad_day_loses_nothing_acknowledged(seed: int) -> None:
    with_cluster(
        day,
        seed=seed,
        replica_lag_time_max_ms="2000",
        replica_socket_timeout_ms="2000",
        auto_leader_rebalance_enable="false",
    )
