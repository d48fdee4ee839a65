import asyncio
from collections.abc import Iterable
from random import Random

import pytest

from odradek.client import Consumer, ConsumerRecord, TopicPartition
from odradek.client.errors import (
    ClientClosed,
    CorruptRecords,
    DeserializationFailed,
    LogTruncated,
    NoOffset,
    OffsetOutOfRange,
)
from odradek.client.settings import ConsumerSettings
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.messages.fetch import FetchRequest
from odradek.protocol.messages.list_offsets import ListOffsetsRequest
from odradek.protocol.messages.metadata import MetadataRequest
from odradek.protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from odradek.protocol.records import BatchBuilder
from simulation.world import Simulation
from tests.unit.client.mini_cluster import Close, MiniCluster, PartitionLog
from tests.unit.client.simulated import in_simulation, simulate

T0, T1, T2 = (TopicPartition("t", index) for index in range(3))


def consumer(cluster: MiniCluster, simulation: Simulation, **options: object) -> Consumer:
    world = simulation.host("main").world()
    defaults = {"bootstrap_servers": cluster.bootstrap, "auto_offset_reset": "earliest"}
    settings = ConsumerSettings.from_options({**defaults, **options})
    return Consumer(settings, world=world)


def fill(log: PartitionLog, numbers: Iterable[int], batch_records: int = 10) -> None:
    waiting = list(numbers)
    while waiting:
        builder = BatchBuilder()
        for number in waiting[:batch_records]:
            builder.append(None, b"%d" % number, (), 1000 + number)
        del waiting[:batch_records]
        log.append(builder.build())


async def read(one: Consumer, count: int, **options: int) -> list[ConsumerRecord]:
    found: list[ConsumerRecord] = []
    while len(found) < count:
        taken = await one.poll(10_000, **options)
        assert taken, f"only {len(found)} records came"
        for records in taken.values():
            found += records
    return found


def numbers(records: Iterable[ConsumerRecord]) -> list[int]:
    return [int(record.value) for record in records]


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
async def test_seeking(cluster: MiniCluster, simulation: Simulation) -> None:
    (log,) = cluster.create("t")
    fill(log, range(50))
    async with consumer(cluster, simulation) as one:
        one.assign([T0])
        await one.poll(10_000)
        one.seek(T0, 33)
        assert await one.position(T0) == 33
        assert numbers((await one.poll(10_000, max_records=1))[T0]) == [33]
        one.seek_to_beginning()
        assert numbers((await one.poll(10_000, max_records=1))[T0]) == [0]
        one.seek_to_end([T0])
        assert await one.position(T0) == 50
        one.seek_to_timestamp(1020)
        assert await one.position(T0) == 20
        one.seek_to_timestamp(9_999)
        assert await one.position(T0) == 50, "nothing is that new"
        with pytest.raises(ValueError, match="t-1 is not assigned"):
            one.seek(T1, 0)
        with pytest.raises(ValueError, match="cannot be negative"):
            one.seek(T0, -1)


@in_simulation(brokers=2)
async def test_asking_about_offsets(cluster: MiniCluster, simulation: Simulation) -> None:
    first, second = cluster.create("t", 2)
    fill(first, range(50))
    second.start_offset = second.end_offset = 7
    async with consumer(cluster, simulation) as one:
        assert await one.beginning_offsets([T0, T1]) == {T0: 0, T1: 7}
        assert await one.end_offsets([T0, T1]) == {T0: 50, T1: 7}
        found = await one.offsets_for_times({T0: 1010, T1: 1010})
        at = found[T0]
        assert at is not None
        assert (at.offset, at.timestamp_ms) == (10, 1010)
        assert found[T1] is None
        assert await one.partitions_for("t") == [0, 1]
        with pytest.raises(KafkaError, match="UNKNOWN_TOPIC"):
            await one.end_offsets([TopicPartition("nowhere", 0)])
        with pytest.raises(KafkaError, match="UNKNOWN_TOPIC"):
            await one.end_offsets([TopicPartition("t", 9)])


@in_simulation()
async def test_a_header_without_a_name_is_refused_and_can_be_passed_over(
    cluster: MiniCluster, simulation: Simulation
) -> None:
    (log,) = cluster.create("t")
    fill(log, [0])
    builder = BatchBuilder()
    builder.append(None, b"bad", [("n", b"1")], 1_000)
    raw = bytearray(builder.build())
    # The length of the name becomes -1, as null is written; the checksum is not looked at.
    at = raw.rindex(bytes([2]) + b"n")
    raw[at] = 1
    log.append(bytes(raw))
    fill(log, [2])
    async with consumer(cluster, simulation, check_crcs=False) as one:
        one.assign([T0])
        assert numbers(await read(one, 1)) == [0]
        for _ in range(2):
            with pytest.raises(CorruptRecords, match=r"header's name.*seek\(\) to 2"):
                await one.poll(10_000)
        one.seek(T0, 2)
        assert numbers(await read(one, 1)) == [2]


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
async def test_assigning_keeps_the_places_of_those_that_stay(
    cluster: MiniCluster, simulation: Simulation
) -> None:
    for log in cluster.create("t", 3):
        fill(log, range(10))
    async with consumer(cluster, simulation) as one:
        one.assign([T0, T1])
        await read(one, 20)
        one.assign([T1, T2])
        assert one.assignment() == [T1, T2]
        found = await read(one, 10)
        assert {record.partition for record in found} == {2}
        one.unassign()
        assert await one.poll(1_000) == {}


@pytest.mark.parametrize(
    ("policy", "expected"),
    [("earliest", 3), ("latest", 20), ("by_duration:PT10S", 12)],
)
@in_simulation()
async def test_where_to_start_without_a_position(
    cluster: MiniCluster, simulation: Simulation, policy: str, expected: int
) -> None:
    (log,) = cluster.create("t")
    now_ms = simulation.host("main").clock.now_ms()
    for number in range(20):
        builder = BatchBuilder()
        builder.append(None, b"", (), now_ms - 22_000 + 1000 * number)
        log.append(builder.build())
    log.start_offset = 3
    async with consumer(cluster, simulation, auto_offset_reset=policy) as one:
        one.assign([T0])
        assert await one.position(T0) == expected


@in_simulation()
async def test_no_policy_no_position(cluster: MiniCluster, simulation: Simulation) -> None:
    (log,) = cluster.create("t")
    fill(log, range(20))
    async with consumer(cluster, simulation, auto_offset_reset="none") as one:
        one.assign([T0])
        with pytest.raises(NoOffset, match=r"t-0 has no position and auto\.offset\.reset=none"):
            await one.poll(1_000)
        one.seek(T0, 18)
        assert len(await read(one, 2)) == 2
        one.seek(T0, 99)
        for _ in range(2):
            with pytest.raises(OffsetOutOfRange, match="t-0 has no offset 99") as raised:
                await one.poll(1_000)
        assert raised.value.partitions == [T0]
        one.seek(T0, 19)
        assert numbers(await read(one, 1)) == [19]


@in_simulation()
async def test_an_offset_out_of_range_is_reset(
    cluster: MiniCluster, simulation: Simulation
) -> None:
    (log,) = cluster.create("t")
    fill(log, range(20))
    async with consumer(cluster, simulation) as one:
        one.assign([T0])
        one.seek(T0, 99)
        assert numbers(await read(one, 20)) == list(range(20))


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNKNOWN_TOPIC_ID,
        Close,
    ],
)
@in_simulation()
async def test_what_may_pass_is_tried_again(
    cluster: MiniCluster, simulation: Simulation, code: ErrorCode
) -> None:
    (log,) = cluster.create("t")
    fill(log, range(20))
    async with consumer(cluster, simulation) as one:
        cluster.fail_next(FetchRequest, code, code)
        cluster.fail_next(ListOffsetsRequest, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        one.assign([T0])
        assert numbers(await read(one, 20)) == list(range(20))


@in_simulation()
async def test_a_forbidden_topic_raises_and_may_be_read_once_it_is_allowed(
    cluster: MiniCluster, simulation: Simulation
) -> None:
    (log,) = cluster.create("t")
    fill(log, range(20))
    async with consumer(cluster, simulation) as one:
        cluster.fail_next(FetchRequest, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        one.assign([T0])
        with pytest.raises(KafkaError, match="No permission for this topic"):
            await one.poll(10_000)
        assert len(await read(one, 20)) == 20


@in_simulation()
async def test_an_unknown_topic_is_told(cluster: MiniCluster, simulation: Simulation) -> None:
    async with consumer(cluster, simulation) as one:
        one.assign([T0])
        with pytest.raises(KafkaError, match="UNKNOWN_TOPIC_OR_PARTITION"):
            await one.poll(10_000)
        (log,) = cluster.create("t")
        fill(log, range(5))
        assert len(await read(one, 5)) == 5


@pytest.mark.parametrize("error", [None, ErrorCode.TOPIC_AUTHORIZATION_FAILED])
@in_simulation()
async def test_the_wish_to_begin_somewhere_survives_a_look_up_that_fails(
    cluster: MiniCluster, simulation: Simulation, error: ErrorCode | None
) -> None:
    """A topic that is made after `seek_to_beginning`, and one that may not be read at first."""
    if error is not None:
        fill(cluster.create("t")[0], range(20))
        cluster.fail_next(ListOffsetsRequest, error, error)
    async with consumer(cluster, simulation, auto_offset_reset="latest") as one:
        one.assign([T0])
        one.seek_to_beginning()
        for _ in range(2):
            with pytest.raises(KafkaError):
                await one.poll(10_000)
        if error is None:
            fill(cluster.create("t")[0], range(20))
        assert numbers(await read(one, 20)) == list(range(20))
        cluster.fail_next(ListOffsetsRequest, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        one.seek_to_end()
        with pytest.raises(KafkaError):
            await one.poll(10_000)
        assert await one.position(T0) == 20


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


@in_simulation(brokers=2)
async def test_a_new_leader_is_followed_and_asked_where_the_old_epoch_ends(
    cluster: MiniCluster, simulation: Simulation
) -> None:
    (log,) = cluster.create("t")
    fill(log, range(20))
    async with consumer(cluster, simulation) as one:
        one.assign([T0])
        await read(one, 20)
        log.elect(2)
        fill(log, range(20, 30))
        assert numbers(await read(one, 10)) == list(range(20, 30))
        assert cluster.count(OffsetForLeaderEpochRequest) == 1


@in_simulation(brokers=2)
async def test_a_truncated_log_is_read_again_from_where_it_was_cut(
    cluster: MiniCluster, simulation: Simulation
) -> None:
    (log,) = cluster.create("t")
    fill(log, range(20))
    async with consumer(cluster, simulation) as one:
        one.assign([T0])
        await read(one, 20)
        log.truncate(10)
        log.elect(2)
        fill(log, range(100, 130))
        assert numbers(await read(one, 30)) == list(range(100, 130))


@in_simulation(brokers=2)
async def test_a_truncated_log_is_told_where_nobody_said_what_to_do(
    cluster: MiniCluster, simulation: Simulation
) -> None:
    (log,) = cluster.create("t")
    fill(log, range(20))
    async with consumer(cluster, simulation, auto_offset_reset="none") as one:
        one.assign([T0])
        one.seek(T0, 0)
        await read(one, 20)
        log.truncate(10)
        log.elect(2)
        with pytest.raises(LogTruncated, match="t-0 was truncated from offset 10 on"):
            await one.poll(60_000)


@in_simulation()
async def test_corrupt_records_are_told_and_can_be_passed(
    cluster: MiniCluster, simulation: Simulation
) -> None:
    (log,) = cluster.create("t")
    fill(log, range(30))
    log.batches[1] = log.batches[1][:-1] + b"\xff"
    async with consumer(cluster, simulation) as one:
        one.assign([T0])
        assert numbers((await one.poll(10_000))[T0]) == list(range(10))
        for _ in range(2):
            with pytest.raises(CorruptRecords, match="offset 10 fails its checksum"):
                await one.poll(10_000)
        one.seek(T0, 20)
        assert numbers(await read(one, 10)) == list(range(20, 30))


@in_simulation()
async def test_bytes_that_hold_no_batch_are_told(
    cluster: MiniCluster, simulation: Simulation
) -> None:
    (log,) = cluster.create("t")
    fill(log, range(10))
    log.batches[0] = log.batches[0][:8] + b"\xff" * 4 + log.batches[0][12:]
    log.read = lambda offset, max_bytes: log.batches[0]  # type: ignore[method-assign]
    async with consumer(cluster, simulation) as one:
        one.assign([T0])
        with pytest.raises(CorruptRecords, match=r"at offset 0 .* no complete record batch"):
            await one.poll(10_000)


@in_simulation()
async def test_a_broker_that_repeats_itself_is_not_asked_without_end(
    cluster: MiniCluster, simulation: Simulation
) -> None:
    (log,) = cluster.create("t")
    fill(log, range(10))
    log.read = lambda offset, max_bytes: log.batches[0]  # type: ignore[method-assign]
    async with consumer(cluster, simulation) as one:
        one.assign([T0])
        await read(one, 10)
        await one.poll(10_000)
        assert cluster.count(FetchRequest) < 150


@in_simulation()
async def test_deserializers(cluster: MiniCluster, simulation: Simulation) -> None:
    (log,) = cluster.create("t")
    fill(log, range(5))
    builder = BatchBuilder()
    builder.append(None, b"no number", (), 0)
    builder.append(None, b"6", (), 0)
    log.append(builder.build())
    async with consumer(cluster, simulation, value_deserializer=int) as one:
        one.assign([T0])
        assert [record.value for record in await read(one, 5)] == [0, 1, 2, 3, 4]
        with pytest.raises(DeserializationFailed, match="t-0 at offset 5") as raised:
            await one.poll(10_000)
        one.seek(raised.value.partition, raised.value.offset + 1)
        assert [record.value for record in await read(one, 1)] == [6]


@in_simulation()
async def test_a_topic_made_anew_is_read_from_its_beginning(
    cluster: MiniCluster, simulation: Simulation
) -> None:
    (log,) = cluster.create("t")
    fill(log, range(20))
    async with consumer(cluster, simulation) as one:
        one.assign([T0])
        await read(one, 20)
        (log,) = cluster.create("t")
        cluster.ids["t"] = b"another id 16 by"  # type: ignore[assignment]
        fill(log, range(5))
        assert numbers(await read(one, 5)) == list(range(5))


@in_simulation()
async def test_a_closed_consumer_says_so(cluster: MiniCluster, simulation: Simulation) -> None:
    cluster.create("t")
    one = consumer(cluster, simulation)
    one.assign([T0])
    await one.poll(100)
    await one.close()
    await one.close()
    with pytest.raises(ClientClosed):
        await one.poll()
    await asyncio.sleep(1)
    assert cluster.connections == []


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
