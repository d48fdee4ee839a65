"""Where a consumer begins, and how leaders and truncations move it."""

import asyncio

import pytest

from odradek.client import TopicPartition
from odradek.client.errors import (
    LogTruncated,
    NoOffset,
    OffsetOutOfRange,
)
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.messages.list_offsets import ListOffsetsRequest
from odradek.protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from odradek.protocol.records import BatchBuilder
from simulation.world import Simulation
from tests.unit.client.consumer.reading import T0, T1, T2, consumer, fill, numbers, read
from tests.unit.client.mini_cluster import MiniCluster
from tests.unit.client.simulated import in_simulation


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
        with pytest.raises(ValueError, match=r"poll\(\) has nothing to read"):
            await one.poll(1_000)


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
async def test_a_position_that_moves_while_it_is_validated_is_not_taken_for_truncated(
    cluster: MiniCluster, simulation: Simulation
) -> None:
    """The answer tells where the epoch before ends, and poll() has returned records since."""
    (log,) = cluster.create("t")
    fill(log, range(10))
    log.elect(2)
    fill(log, range(10, 20))
    async with consumer(cluster, simulation) as one:
        one.assign([T0])
        assert numbers(await read(one, 10, max_records=10)) == list(range(10))
        seen: list[int] = []

        def poll_meanwhile(request: object) -> None:
            for records in one._parts().fetcher.poll_buffered(10).values():
                seen.extend(numbers(records))

        cluster.fail_next(OffsetForLeaderEpochRequest, poll_meanwhile)
        log.elect(1)
        one._parts().cluster.refresh_soon()
        await asyncio.sleep(5)
        assert seen == list(range(10, 20))
        fill(log, range(20, 30))
        assert numbers(await read(one, 10)) == list(range(20, 30))
        assert cluster.count(OffsetForLeaderEpochRequest) == 2


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
async def test_a_partition_that_nobody_assigned_is_answered_with_the_line_to_write(
    cluster: MiniCluster, simulation: Simulation
) -> None:
    cluster.create("t", 3)
    async with consumer(cluster, simulation) as one:
        for move in (one.seek_to_beginning, one.seek_to_end):
            with pytest.raises(ValueError, match=r"no partition is assigned; assign\(\[\("):
                move()
        with pytest.raises(
            ValueError, match=r"t-1 is not assigned: assign\(\[\('t', 1\)\]\) first"
        ):
            one.seek(T1, 0)
        one.assign([])
        one.seek_to_beginning()  # A program whose list is empty means it.
        one.assign([T0])
        await one.position(T0)
        with pytest.raises(ValueError, match=r"assign\(\[\('t', 0\), \('t', 1\)\]\) besides t-0"):
            one.pause(T1)
        with pytest.raises(ValueError, match="t-7 is not assigned: the partitions of t are 0 to 2"):
            await one.position(("t", 7))
