"""A replica that was away for longer than `delete.retention.ms` still learns what was deleted."""

import asyncio

from odradek.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from odradek.protocol.records import BatchBuilder, decode_records, split_batches
from tests.unit.replication.cluster import TOPIC, Cluster, on_cluster

_NOW_MS = 1_700_000_000_000
Found = list[tuple[bytes | None, bytes | None]]


async def put(cluster: Cluster, key: bytes, value: bytes | None) -> None:
    builder = BatchBuilder()
    builder.append(key, value, [], _NOW_MS)
    request = ProduceRequest(
        acks=-1,
        timeout_ms=5000,
        topic_data=[
            TopicProduceData(
                name=TOPIC,
                topic_id=cluster.topic_id,
                partition_data=[PartitionProduceData(index=0, records=builder.build())],
            )
        ],
    )
    response = await (await cluster.connection(1)).request(request, ProduceResponse)
    assert response.responses[0].partition_responses[0].error_code == 0, response


async def fill_segments(cluster: Cluster) -> None:
    """Closes the segment with everything so far, so that every broker compacts it."""
    for _ in range(10):
        await put(cluster, b"filler", bytes(100))
    await asyncio.sleep(1)  # In virtual time: the cleaners look every 20 ms.


async def records_of(cluster: Cluster, broker: int, key: bytes) -> Found:
    rack = f"rack-{broker}"  # A follower answers consumers on its own rack.
    data = await cluster.fetch(broker, rack=rack)
    assert data.error_code == 0, data
    assert data.records
    buffer = bytes(data.records)  # type: ignore[call-overload]
    return [
        (record.key, record.value)
        for position, _ in split_batches(buffer)
        for record in decode_records(buffer, position)
        if record.key == key
    ]


@on_cluster(log_cleaner_backoff_ms="20", log_cleaner_min_cleanable_ratio="0")
async def test_a_replica_that_was_away_does_not_keep_a_deleted_key(cluster: Cluster) -> None:
    await cluster.create_topic(
        [1, 2, 3], cleanup_policy="compact", segment_bytes="500", delete_retention_ms="2000"
    )
    await put(cluster, b"a", b"1")
    cluster.brokers[3].kill()
    await cluster.until(lambda state: state.isr == (1, 2))
    await put(cluster, b"a", None)
    await fill_segments(cluster)
    await asyncio.sleep(3)  # Longer than the tombstone has to stay.
    await fill_segments(cluster)
    cluster.brokers[3].start()
    await cluster.until(lambda state: set(state.isr) == {1, 2, 3})
    await fill_segments(cluster)
    for broker in (3, 2, 1):
        assert await records_of(cluster, broker, b"a") == [(b"a", None)]
    # All replicas have the tombstone now: its time begins, and ends.
    await asyncio.sleep(3)
    await fill_segments(cluster)
    for broker in (1, 2, 3):
        assert await records_of(cluster, broker, b"a") == []
