"""The start of a log moves: by retention, which silent followers hear of, and by DeleteRecords."""

import asyncio
import errno

import pytest

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from odradek.storage import Log
from tests.unit.replication.cluster import TOPIC, Cluster, on_cluster, with_cluster
from tests.unit.replication.test_following import delete_records


def log_of(cluster: Cluster, broker: int) -> Log:
    (partition,) = cluster.brokers[broker].partitions()
    return partition.log


@on_cluster(replica_fetch_wait_max_ms="60000", log_retention_check_interval_ms="1000")
async def test_retention_reaches_silent_followers_at_once(cluster: Cluster) -> None:
    for number in (2, 3):
        # They look at their own logs seldom, and wait long for records.
        broker = cluster.brokers[number]
        broker.kill()
        broker.properties["log.initial.task.delay.ms"] = "600000"
        broker.properties["log.retention.check.interval.ms"] = "600000"
        broker.start()
    await asyncio.sleep(1)
    await cluster.create_topic([1, 2, 3], segment_bytes="150", retention_ms="5000")
    for _ in range(3):
        assert (await cluster.produce(1, b"x" * 50)).error_code == 0
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    while not log_of(cluster, 1).log_start_offset:
        assert loop.time() - began_s < 7
        await asyncio.sleep(0.005)
    await asyncio.sleep(0.03)
    assert [log_of(cluster, broker).log_start_offset for broker in (1, 2, 3)] == [3, 3, 3]


@on_cluster()
async def test_records_are_deleted_up_to_the_high_watermark_and_no_further(
    cluster: Cluster,
) -> None:
    await cluster.create_topic([1, 2])
    for value in (b"a", b"b", b"c"):
        await cluster.produce(1, value)
    for offset in (4, -2):
        refused = await delete_records(cluster, 1, offset)
        assert refused.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert refused.low_watermark == -1
    elsewhere = await delete_records(cluster, 2, 1)
    assert elsewhere.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (await delete_records(cluster, 1, 1)).low_watermark == 1
    # What is gone already costs nothing.
    assert (await delete_records(cluster, 1, 0)).low_watermark == 1
    assert (await delete_records(cluster, 1, -1)).low_watermark == 3
    assert [log_of(cluster, broker).log_start_offset for broker in (1, 2)] == [3, 3]


@pytest.mark.parametrize(
    ("policy", "code"),
    [
        ("compact", ErrorCode.POLICY_VIOLATION),
        ("compact,delete", ErrorCode.NONE),
        ("delete", ErrorCode.NONE),
    ],
)
@on_cluster(brokers=1)
async def test_compacted_topics_keep_their_records(
    cluster: Cluster, policy: str, code: ErrorCode
) -> None:
    await cluster.create_topic([1], cleanup_policy=policy)
    # Batches of the harness have no keys: the log is empty, the answer the same.
    assert (await delete_records(cluster, 1, -1)).error_code == code


@on_cluster(brokers=1, log_flush_interval_messages="1")
async def test_what_was_deleted_stays_so_after_a_kill(cluster: Cluster) -> None:
    await cluster.create_topic([1])
    for value in (b"a", b"b", b"c"):
        await cluster.produce(1, value)
    assert (await delete_records(cluster, 1, 2)).low_watermark == 2
    cluster.brokers[1].power_off()
    cluster.close()
    cluster.brokers[1].start()
    await cluster.until(lambda state: state.leader == 1)
    await asyncio.sleep(1)
    assert log_of(cluster, 1).log_start_offset == 2


@pytest.mark.parametrize("error", [errno.EMFILE, errno.ENFILE, errno.ENOSPC])
@on_cluster(brokers=1)
async def test_a_deletion_that_a_crash_would_undo_is_not_answered_as_done(
    cluster: Cluster, error: int
) -> None:
    await cluster.create_topic([1])
    for value in (b"a", b"b", b"c"):
        await cluster.produce(1, value)
    disk = cluster.brokers[1].host.disk
    disk.fail_next("open", error, times=2, under="/data/log-start-offset-checkpoint.next")
    refused = await delete_records(cluster, 1, 2)
    assert (refused.error_code, refused.low_watermark) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
    disk.heal()
    assert (await delete_records(cluster, 1, 2)).low_watermark == 2
    cluster.brokers[1].kill()
    cluster.close()
    cluster.brokers[1].start()
    await cluster.until(lambda state: state.leader == 1)
    await asyncio.sleep(1)
    assert log_of(cluster, 1).log_start_offset == 2


@pytest.mark.parametrize("offset", [1, 2, 3])
@pytest.mark.parametrize("segment_bytes", ["150", "1000000"])
@on_cluster(brokers=2)
async def test_what_was_deleted_stays_so_when_a_follower_that_was_killed_leads(
    cluster: Cluster, offset: int, segment_bytes: str
) -> None:
    await cluster.create_topic([1, 2], segment_bytes=segment_bytes)
    for value in (b"a", b"b", b"c"):
        await cluster.produce(1, value * 50)
    assert (await delete_records(cluster, 1, offset)).low_watermark == offset
    for broker in cluster.brokers.values():
        broker.kill()
    cluster.close()
    cluster.brokers[2].start()
    await cluster.until(lambda state: state.leader == 2)
    await asyncio.sleep(1)
    assert log_of(cluster, 2).log_start_offset == offset


@pytest.mark.parametrize("offset", [1, 2, 3])
@pytest.mark.parametrize("segment_bytes", ["150", "1000000"])
def test_what_was_deleted_stays_so_after_a_power_cut(offset: int, segment_bytes: str) -> None:
    async def test(cluster: Cluster) -> None:
        await cluster.create_topic([1], segment_bytes=segment_bytes)
        for value in (b"a", b"b", b"c"):
            await cluster.produce(1, value * 50)
        for upto in range(1, offset + 1):
            assert (await delete_records(cluster, 1, upto)).low_watermark == upto
        cluster.brokers[1].power_off()
        cluster.close()
        cluster.brokers[1].start()
        await cluster.until(lambda state: state.leader == 1)
        await asyncio.sleep(1)
        assert log_of(cluster, 1).log_start_offset == offset

    for seed in range(1, 6):
        with_cluster(test, brokers=1, seed=seed, log_flush_interval_messages="1")


@on_cluster()
async def test_the_time_limit_holds_for_all_partitions_together(cluster: Cluster) -> None:
    await cluster.create_topic([1, 2])
    await cluster.produce(1, b"a")
    cluster.simulation.network.cut("broker-1", "broker-2")
    one = DeleteRecordsPartition(partition_index=0, offset=1)
    topic = DeleteRecordsTopic(name=TOPIC, partitions=[one] * 200)
    request = DeleteRecordsRequest(topics=[topic], timeout_ms=500)
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    response = await (await cluster.connection(1)).request(request, DeleteRecordsResponse)
    assert loop.time() - began_s < 1
    errors = {answer.error_code for answer in response.topics[0].partitions}
    assert errors == {ErrorCode.REQUEST_TIMED_OUT}
