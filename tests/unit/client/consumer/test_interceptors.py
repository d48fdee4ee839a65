"""Interceptors of a consumer that fail lose no record, and make no commit fail."""

import pytest

from odradek.client import Consumer
from odradek.client.consumer.undelivered import Polled
from odradek.client.group.offsets import Offsets
from simulation.world import Simulation
from tests.unit.client.consumer.reading import T0, fill, numbers, read
from tests.unit.client.group_cluster import BOOTSTRAP, GroupCluster, on_groups
from tests.unit.client.mini_cluster import MiniCluster
from tests.unit.client.simulated import in_simulation


class RaisesOnce:
    """Changes what it was given, and then raises."""

    is_done = False

    def on_consume(self, records: Polled) -> Polled:
        if self.is_done:
            return records
        self.is_done = True
        for taken in records.values():
            taken.clear()
        records.clear()
        raise RuntimeError("once")


@in_simulation()
async def test_records_come_again_after_an_interceptor_has_failed(
    cluster: MiniCluster, simulation: Simulation
) -> None:
    (log,) = cluster.create("t")
    fill(log, range(30))
    async with Consumer(
        bootstrap_servers=cluster.bootstrap,
        auto_offset_reset="earliest",
        interceptors=[RaisesOnce()],
    ) as one:
        one.assign([T0])
        with pytest.raises(RuntimeError, match="once"):
            await one.poll(10_000)
        assert numbers(await read(one, 30)) == list(range(30))


class Forgetful:
    def on_consume(self, records: Polled) -> Polled:
        return None  # type: ignore[return-value]


@in_simulation()
async def test_an_interceptor_that_returns_nothing_is_told_so(
    cluster: MiniCluster, simulation: Simulation
) -> None:
    (log,) = cluster.create("t")
    fill(log, range(3))
    async with Consumer(
        bootstrap_servers=cluster.bootstrap,
        auto_offset_reset="earliest",
        interceptors=[Forgetful()],
    ) as one:
        one.assign([T0])
        for _ in range(2):
            with pytest.raises(TypeError, match=r"Forgetful.on_consume\(\) returned None: it must"):
                await one.poll(10_000)
        assert await one.position(T0) == 0


class Audit:
    """Fails when it is told of a commit."""

    def __init__(self) -> None:
        self.told = 0

    def on_consume(self, records: Polled) -> Polled:
        return records

    def on_commit(self, offsets: Offsets) -> None:
        self.told += 1
        raise RuntimeError("audit is down")


@on_groups()
async def test_a_commit_does_not_fail_with_its_interceptor(cluster: GroupCluster) -> None:
    await cluster.client.create_topic("t")
    await cluster.fill("t", 3)
    audit = Audit()
    one = Consumer(
        "t",
        bootstrap_servers=BOOTSTRAP,
        group_id="g",
        auto_offset_reset="earliest",
        interceptors=[audit],
        world=cluster.world(),
    )
    await read(one, 3)
    await one.commit()
    found = (await one.committed([T0]))[T0]
    assert found is not None
    assert found.offset == 3
    await one.close()
    assert audit.told == 2, "by commit(), and by close() before the partition was given up"
