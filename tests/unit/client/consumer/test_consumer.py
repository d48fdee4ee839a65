import asyncio
from random import Random

import pytest

from odradek.client import Consumer, ConsumerRecord, TopicPartition
from odradek.client.settings import ConsumerSettings
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.fetch import FetchRequest
from odradek.protocol.messages.list_offsets import ListOffsetsRequest
from odradek.protocol.messages.metadata import MetadataRequest
from simulation.world import Simulation
from tests.unit.client.consumer.reading import T0, T1, T2, consumer, fill, numbers, read
from tests.unit.client.mini_cluster import Close, MiniCluster
from tests.unit.client.simulated import in_simulation, simulate


@in_simulation(brokers=2)
async def test_reads_every_partition_in_order_from_the_beginning(
    cluster: MiniCluster, simulation: Simulation
) -> None:
    logs = cluster.create("t", 3)
    for index, log in enumerate(logs):
        fill(log, range(index * 1000, index * 1000 + 200))
    async with consumer(cluster, simulation) as one:
        one.assign([T0, T1, T2])
        found = await read(one, 600, max_records=70)
        for index in range(3):
            mine = [record for record in found if record.partition == index]
            assert numbers(mine) == list(range(index * 1000, index * 1000 + 200))
            assert [record.offset for record in mine] == list(range(200))
        assert await one.position(T1) == 200
        assert one.high_watermark(T1) == 200
        assert one.lag(T1) == 0
        assert await one.poll(0) == {}


@in_simulation()
async def test_poll_returns_no_more_than_asked_for_and_waits_no_longer_than_told(
    cluster: MiniCluster, simulation: Simulation
) -> None:
    (log,) = cluster.create("t")
    fill(log, range(20))
    async with consumer(cluster, simulation, max_poll_records=7) as one:
        one.assign([T0])
        assert numbers((await one.poll(10_000))[T0]) == list(range(7))
        assert numbers((await one.poll(10_000, max_records=1))[T0]) == [7]
        await read(one, 12)
        loop = asyncio.get_running_loop()
        begun_s = loop.time()
        assert await one.poll(3_000) == {}
        assert 2.99 < loop.time() - begun_s < 3.1
        asyncio.get_running_loop().call_later(1, fill, log, [20])
        assert numbers((await one.poll(3_000))[T0]) == [20]
        assert loop.time() - begun_s < 4.2, "new records end the wait"


@in_simulation()
async def test_the_lists_of_a_poll_belong_to_the_program(
    cluster: MiniCluster, simulation: Simulation
) -> None:
    (log,) = cluster.create("t")
    fill(log, range(30), batch_records=10)
    found: list[ConsumerRecord] = []
    async with consumer(cluster, simulation, max_poll_records=10) as one:
        one.assign([T0])
        while len(found) < 30:
            records = (await one.poll(10_000))[T0]
            found += records
            records.append(records[0])
    assert numbers(found) == list(range(30))


@in_simulation()
async def test_iteration_goes_on_for_ever_and_leaves_the_position_where_it_stopped(
    cluster: MiniCluster, simulation: Simulation
) -> None:
    (log,) = cluster.create("t")
    fill(log, range(50))
    async with consumer(cluster, simulation) as one:
        one.assign([T0])
        async for record in one:
            if record.offset == 4:
                break
        assert await one.position(T0) == 5
        assert numbers((await one.poll(10_000, max_records=3))[T0]) == [5, 6, 7]
        asyncio.get_running_loop().call_later(200, fill, log, [50])
        async for record in one:
            if record.offset == 50:
                break


@in_simulation()
async def test_resume_wakes_a_poll_that_waits_while_records_are_on_hand(
    cluster: MiniCluster, simulation: Simulation
) -> None:
    (log,) = cluster.create("t")
    fill(log, range(3))
    async with consumer(cluster, simulation) as one:
        one.assign([T0])
        await read(one, 1, max_records=1)
        one.pause(T0)
        polling = asyncio.ensure_future(one.poll(60_000))
        await asyncio.sleep(1)
        one.resume(T0)
        begun_s = asyncio.get_running_loop().time()
        assert numbers((await polling)[T0]) == [1, 2]
        assert asyncio.get_running_loop().time() - begun_s < 0.1


@in_simulation()
async def test_a_poll_that_is_cancelled_disturbs_no_other_call_and_takes_nothing(
    cluster: MiniCluster, simulation: Simulation
) -> None:
    (log,) = cluster.create("t")
    async with consumer(cluster, simulation) as one:
        one.assign([T0])
        cluster.fail_next(ListOffsetsRequest, *[ErrorCode.LEADER_NOT_AVAILABLE] * 5)
        position = asyncio.ensure_future(one.position(T0))
        polling = asyncio.ensure_future(one.poll(60_000))
        await asyncio.sleep(0.01)
        polling.cancel()
        assert await position == 0
        for moment in range(50):
            polling = asyncio.ensure_future(one.poll(60_000))
            fill(log, [moment])
            await asyncio.sleep(moment * 0.00001)
            polling.cancel()
            await asyncio.wait([polling])
            if polling.cancelled():
                polling = asyncio.ensure_future(one.poll(60_000))
            assert numbers((await polling)[T0]) == [moment]


@in_simulation()
async def test_records_that_nobody_saw_are_put_back(
    cluster: MiniCluster, simulation: Simulation
) -> None:
    for log in cluster.create("t", 2):
        fill(log, range(30))
    async with consumer(cluster, simulation) as one:
        one.assign([T0, T1])
        before = await one.poll(60_000, max_records=25)
        one.return_unseen(before)
        assert await one.position(T0) == 0
        again = await read(one, 60)
        assert sorted(numbers(again)) == sorted([*range(30)] * 2)
        one.seek(T0, 10)
        one.pause(T1)
        record = await anext(one)
        one.return_unseen(record)
        assert await anext(one) == record
        assert (await anext(one)).offset == 11


def test_what_an_interceptor_failed_on_is_read_again() -> None:
    class Failing:
        def __init__(self) -> None:
            self.failures = 1

        def on_consume(
            self, records: dict[TopicPartition, list[ConsumerRecord]]
        ) -> dict[TopicPartition, list[ConsumerRecord]]:
            if self.failures:
                self.failures -= 1
                raise ValueError("of the interceptor")
            return records

        def on_commit(self, offsets: object) -> None: ...

    async def test(cluster: MiniCluster, simulation: Simulation) -> None:
        (log,) = cluster.create("t")
        fill(log, range(5))
        settings = ConsumerSettings.from_options(
            {"bootstrap_servers": cluster.bootstrap, "auto_offset_reset": "earliest"}
        )
        world = simulation.host("main").world()
        async with Consumer(settings, interceptors=[Failing()], world=world) as one:
            one.assign([T0])
            with pytest.raises(ValueError, match="interceptor"):
                await one.poll(60_000)
            assert numbers(await read(one, 5)) == [0, 1, 2, 3, 4]

    simulate(test)


@in_simulation()
async def test_paused_partitions_keep_their_place(
    cluster: MiniCluster, simulation: Simulation
) -> None:
    first, second = cluster.create("t", 2)
    fill(first, range(100))
    fill(second, range(100))
    async with consumer(cluster, simulation) as one:
        one.assign([T0, T1])
        await one.poll(10_000, max_records=5)
        one.pause(T0)
        assert one.paused() == [T0]
        at = await one.position(T0)
        while taken := await one.poll(2_000):
            assert set(taken) == {T1}
        assert await one.position(T0) == at
        assert await one.position(T1) == 100
        one.resume(T0)
        assert len(await read(one, 100 - at)) == 100 - at


@in_simulation()
async def test_a_session_names_partitions_once(
    cluster: MiniCluster, simulation: Simulation
) -> None:
    logs = cluster.create("t", 3)
    async with consumer(cluster, simulation) as one:
        one.assign([T0, T1, T2])
        await one.poll(3_000)
        fill(logs[0], [7])
        assert numbers(await read(one, 1)) == [7]
        await one.poll(3_000)
        fetches = [r for _, r, _ in cluster.requests if isinstance(r, FetchRequest)]
        assert [one.session_epoch for one in fetches] == list(range(len(fetches)))
        counts = [sum(len(t.partitions) for t in one.topics) for one in fetches]
        assert counts[0] == 3
        assert sum(counts[1:]) == 1, "only the partition that moved on was named again"
        cluster.sessions.clear()
        fill(logs[1], [8])
        assert numbers(await read(one, 1)) == [8]


@in_simulation()
async def test_a_broker_without_sessions_and_ids_is_read_too(
    cluster: MiniCluster, simulation: Simulation
) -> None:
    (log,) = cluster.create("t")
    fill(log, range(20))
    cluster.has_durable_sessions = False
    cluster.served[1] = (4, 11)
    cluster.served[3] = (0, 9)
    async with consumer(cluster, simulation) as one:
        one.assign([T0])
        assert len(await read(one, 20)) == 20


async def trouble(cluster: MiniCluster, random: Random) -> None:
    logs = list(cluster.logs.values())
    while True:
        await asyncio.sleep(random.uniform(0, 0.2))
        match random.randrange(5):
            case 0:
                cluster.drop_connections()
            case 1:
                random.choice(logs).elect(random.choice(list(cluster.hosts)))
            case 2:
                cluster.fail_next(FetchRequest, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            case 3:
                cluster.sessions.clear()
            case _:
                cluster.fail_next(MetadataRequest, Close)


async def write(cluster: MiniCluster, random: Random, written: list[int]) -> None:
    logs = list(cluster.logs.values())
    while min(written) < 200:
        index = random.randrange(len(logs))
        count = random.randrange(1, 20)
        fill(logs[index], range(written[index], written[index] + count), 7)
        written[index] += count
        await asyncio.sleep(random.uniform(0, 0.05))


@pytest.mark.parametrize("seed", range(8))
def test_whatever_happens_each_record_is_read_once_and_in_order(seed: int) -> None:
    async def test(cluster: MiniCluster, simulation: Simulation) -> None:
        cluster.create("t", 4)
        random = simulation.random("faults")
        written = [0] * 4
        troubling = asyncio.ensure_future(trouble(cluster, random))
        writing = asyncio.ensure_future(write(cluster, random, written))
        options = {"max_partition_fetch_bytes": random.choice([200, 1_000, 100_000])}
        async with consumer(cluster, simulation, **options) as one:
            one.assign([TopicPartition("t", index) for index in range(4)])
            found: list[list[int]] = [[], [], [], []]
            while not writing.done() or sum(map(len, found)) < sum(written):
                for partition, records in (await one.poll(1_000, max_records=13)).items():
                    found[partition.partition] += numbers(records)
                if writing.done():
                    troubling.cancel()
        for index in range(4):
            assert found[index] == list(range(written[index]))

    simulate(test, brokers=3, seed=seed)
