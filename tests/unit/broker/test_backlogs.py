from collections.abc import Awaitable, Callable

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.look_up import (
    LookUpOffset,
    LookUpPartition,
    LookUpRequest,
    LookUpResponse,
    LookUpTopic,
)
from odradek.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from odradek.protocol.types import Offset, TopicId
from tests.unit.broker.harness import Client, batch, on_broker

FIRST_MS = 1_700_000_000_000


async def produce(client: Client, topic_id: bytes, timestamp_ms: int, *values: bytes) -> None:
    data = PartitionProduceData(index=0, records=batch(*values, timestamp_ms=timestamp_ms))
    response = await client.ask(
        ProduceRequest(
            acks=-1,
            timeout_ms=1000,
            topic_data=[TopicProduceData(topic_id=TopicId(topic_id), partition_data=[data])],
        ),
        ProduceResponse,
    )
    assert response.responses[0].partition_responses[0].error_code == 0


async def ask(client: Client, *offsets: int, topic: str = "t") -> tuple[int, int, list[int]]:
    """Returns the error code, the high watermark and the times of the offsets."""
    asked = [LookUpOffset(offset=Offset(offset)) for offset in offsets]
    partition = LookUpPartition(partition_index=0, offsets=asked)
    request = LookUpRequest(topics=[LookUpTopic(name=topic, partitions=[partition])])
    response = await client.ask(request, LookUpResponse)
    [answer] = response.topics[0].partitions
    return (
        answer.error_code,
        answer.high_watermark,
        [time.timestamp for time in answer.times],
    )


@on_broker()
async def test_the_age_among_the_newest_batches_is_exact(
    connect: Callable[[], Awaitable[Client]],
) -> None:
    client = await connect()
    topic_id = await client.create_topic("t")
    for minute in range(3):
        await produce(client, topic_id, FIRST_MS + 60_000 * minute, b"a", b"b")
    # The third offset is inside a batch: the time is that of its newest record.
    times = [FIRST_MS, FIRST_MS + 60_000, FIRST_MS + 60_001, -1]
    assert await ask(client, 0, 2, 3, 6) == (0, 6, times)


@on_broker()
async def test_older_records_are_found_in_the_time_index(
    connect: Callable[[], Awaitable[Client]],
) -> None:
    client = await connect()
    topic_id = await client.create_topic("t", index_interval_bytes="1")
    count = 600  # More batches than a segment keeps the positions of.
    for number in range(count):
        await produce(client, topic_id, FIRST_MS + 1000 * number, b"a")
    error, high_watermark, [timestamp_ms] = await ask(client, 10)
    assert (error, high_watermark) == (0, count)
    # An index entry is made with the batch after the one that it tells the time of, or that one.
    assert FIRST_MS + 10_000 <= timestamp_ms <= FIRST_MS + 12_000


@on_broker()
async def test_a_partition_that_is_not_here(connect: Callable[[], Awaitable[Client]]) -> None:
    client = await connect()
    found = await ask(client, 0, topic="other")
    assert found == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, [])
