"""Produce and fetch, over the wire, in every version served."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from odradek.client.errors import ConnectionClosed
from odradek.protocol.compression import Codec
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from odradek.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from odradek.protocol.records import BatchBuilder, decode_records, split_batches
from odradek.protocol.types import NO_TOPIC_ID, LeaderEpoch, Offset, TopicId
from tests.unit.broker.harness import Client, batch, on_broker, with_broker

Connect = Callable[[], Awaitable[Client]]


def produce_request(
    records: bytes, topic_id: bytes = NO_TOPIC_ID, *, acks: int = 1, partition: int = 0
) -> ProduceRequest:
    return ProduceRequest(
        acks=acks,
        timeout_ms=1000,
        topic_data=[
            TopicProduceData(
                name="t",
                topic_id=TopicId(topic_id),
                partition_data=[PartitionProduceData(index=partition, records=records)],
            )
        ],
    )


async def produce(
    client: Client,
    records: bytes,
    topic_id: bytes = NO_TOPIC_ID,
    *,
    version: int = 12,
    acks: int = 1,
) -> PartitionProduceResponse:
    request = produce_request(records, topic_id, acks=acks)
    response = await client.ask(request, ProduceResponse, version=version)
    return response.responses[0].partition_responses[0]


def fetch_request(
    offset: Offset,
    topic_id: bytes = NO_TOPIC_ID,
    *,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    partition_max_bytes: int = 1 << 20,
    epoch: LeaderEpoch = LeaderEpoch(-1),
    last_epoch: LeaderEpoch = LeaderEpoch(-1),
) -> FetchRequest:
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        topics=[
            FetchTopic(
                topic="t",
                topic_id=TopicId(topic_id),
                partitions=[
                    FetchPartition(
                        partition=0,
                        fetch_offset=offset,
                        partition_max_bytes=partition_max_bytes,
                        current_leader_epoch=epoch,
                        last_fetched_epoch=last_epoch,
                    )
                ],
            )
        ],
    )


async def fetch(client: Client, request: FetchRequest, version: int = 12) -> PartitionData:
    response = await client.ask(request, FetchResponse, version=version)
    assert response.error_code == 0
    return response.responses[0].partitions[0]


def values(data: PartitionData) -> list[bytes | None]:
    assert isinstance(data.records, bytes | memoryview)
    return [
        record.value
        for position, _ in split_batches(data.records)
        for record in decode_records(data.records, position)
    ]


@pytest.mark.parametrize("version", range(3, 14))
@on_broker()
async def test_every_version_of_produce_appends(connect: Connect, version: int) -> None:
    client = await connect()
    topic_id = await client.create_topic("t")
    first = await produce(client, batch(b"a", b"b"), topic_id, version=version)
    second = await produce(client, batch(b"c"), topic_id, version=version)
    assert (first.error_code, first.base_offset, second.base_offset) == (0, 0, 2)
    assert first.log_append_time_ms == -1


@pytest.mark.parametrize("version", range(4, 19))
@on_broker()
async def test_every_version_of_fetch_reads(connect: Connect, version: int) -> None:
    client = await connect()
    topic_id = await client.create_topic("t")
    await produce(client, batch(b"a", b"b"))
    await produce(client, batch(b"c"))
    data = await fetch(client, fetch_request(Offset(0), topic_id), version)
    assert (data.error_code, data.high_watermark) == (0, 3)
    assert values(data) == [b"a", b"b", b"c"]
    tail = await fetch(client, fetch_request(Offset(2), topic_id), version)
    assert values(tail) == [b"c"]
    end = await fetch(client, fetch_request(Offset(3), topic_id), version)
    assert values(end) == []


@on_broker()
async def test_a_fetch_waits_until_a_record_comes_and_not_longer(connect: Connect) -> None:
    reader, writer = await connect(), await connect()
    await reader.create_topic("t")
    loop = asyncio.get_running_loop()
    started = loop.time()
    waiting = asyncio.ensure_future(fetch(reader, fetch_request(Offset(0), max_wait_ms=60_000)))
    await asyncio.sleep(5)
    assert not waiting.done()
    await produce(writer, batch(b"a"))
    assert values(await waiting) == [b"a"]
    assert loop.time() - started < 6


@on_broker()
async def test_a_fetch_answers_empty_when_its_time_is_over(connect: Connect) -> None:
    client = await connect()
    await client.create_topic("t")
    loop = asyncio.get_running_loop()
    started = loop.time()
    data = await fetch(client, fetch_request(Offset(0), max_wait_ms=700))
    assert values(data) == []
    assert 0.7 <= loop.time() - started < 1.5


@on_broker()
async def test_a_fetch_waits_for_min_bytes(connect: Connect) -> None:
    reader, writer = await connect(), await connect()
    await reader.create_topic("t")
    one = len(batch(b"a"))
    waiting = asyncio.ensure_future(
        fetch(reader, fetch_request(Offset(0), max_wait_ms=60_000, min_bytes=2 * one))
    )
    await produce(writer, batch(b"a"))
    await asyncio.sleep(1)
    assert not waiting.done()
    await produce(writer, batch(b"b"))
    assert values(await waiting) == [b"a", b"b"]


@on_broker()
async def test_a_batch_larger_than_the_limit_is_still_delivered(connect: Connect) -> None:
    client = await connect()
    await client.create_topic("t")
    await produce(client, batch(b"x" * 5000))
    data = await fetch(client, fetch_request(Offset(0), partition_max_bytes=100))
    assert values(data) == [b"x" * 5000]


@on_broker()
async def test_out_of_range_and_unknown_are_told_apart(connect: Connect) -> None:
    client = await connect()
    await client.create_topic("t")
    beyond = await fetch(client, fetch_request(Offset(1)))
    assert beyond.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    strange = await fetch(client, fetch_request(Offset(0), bytes([7] * 16)), 13)
    assert strange.error_code == ErrorCode.UNKNOWN_TOPIC_ID
    response = await client.ask(
        produce_request(batch(b"a"), partition=9), ProduceResponse, version=9
    )
    answer = response.responses[0].partition_responses[0]
    assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert answer.base_offset == -1


@on_broker()
async def test_leader_epochs_are_checked(connect: Connect) -> None:
    client = await connect()
    await client.create_topic("t")
    await produce(client, batch(b"a"))
    assert (await fetch(client, fetch_request(Offset(0), epoch=LeaderEpoch(0)))).error_code == 0
    newer = await fetch(client, fetch_request(Offset(0), epoch=LeaderEpoch(1)))
    assert newer.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    diverged = await fetch(client, fetch_request(Offset(5), last_epoch=LeaderEpoch(0)))
    assert diverged.diverging_epoch is not None
    assert diverged.diverging_epoch.end_offset == 1


@pytest.mark.parametrize(
    ("records", "code"),
    [
        (b"", ErrorCode.INVALID_RECORD),
        (batch(b"a")[:-1], ErrorCode.CORRUPT_MESSAGE),
        (batch(b"a")[:-1] + b"\xff", ErrorCode.CORRUPT_MESSAGE),
        (batch(b"a") + batch(b"b"), ErrorCode.INVALID_RECORD),
        (batch(b"x" * 2_000_000), ErrorCode.MESSAGE_TOO_LARGE),
    ],
)
@on_broker()
async def test_bad_batches_are_refused_and_leave_nothing(
    connect: Connect, records: bytes, code: ErrorCode
) -> None:
    client = await connect()
    await client.create_topic("t")
    answer = await produce(client, records)
    assert answer.error_code == code
    assert answer.error_message
    data = await fetch(client, fetch_request(Offset(0)))
    assert data.high_watermark == 0


@on_broker()
async def test_acks_0_gets_no_reply_and_the_record_is_there(connect: Connect) -> None:
    client = await connect()
    await client.create_topic("t")
    client.connection.send_without_reply(produce_request(batch(b"a"), acks=0), max_version=9)
    assert values(await fetch(client, fetch_request(Offset(0), max_wait_ms=1000))) == [b"a"]


@on_broker()
async def test_acks_0_to_an_unknown_partition_ends_the_connection(connect: Connect) -> None:
    client, other = await connect(), await connect()
    await client.create_topic("t")
    client.connection.send_without_reply(
        produce_request(batch(b"a"), acks=0, partition=5), max_version=9
    )
    with pytest.raises(ConnectionClosed):
        await fetch(client, fetch_request(Offset(0)))
    assert (await fetch(other, fetch_request(Offset(0)))).error_code == 0


@on_broker()
async def test_acks_2_is_no_number_of_acks(connect: Connect) -> None:
    client = await connect()
    await client.create_topic("t")
    answer = await produce(client, batch(b"a"), acks=2)
    assert answer.error_code == ErrorCode.INVALID_REQUIRED_ACKS


@on_broker()
async def test_acks_all_asks_for_no_more_replicas_than_there_are(connect: Connect) -> None:
    client = await connect()
    await client.create_topic("t", min_insync_replicas="2")
    assert (await produce(client, batch(b"a"), acks=1)).error_code == 0
    assert (await produce(client, batch(b"b"), acks=-1)).error_code == 0


@on_broker()
async def test_flush_messages_1_acknowledges_and_shows_only_what_is_durable(
    connect: Connect,
) -> None:
    client = await connect()
    await client.create_topic("t", flush_messages="1")
    for number in range(5):
        answer = await produce(client, batch(b"a"), acks=-1)
        assert (answer.error_code, answer.base_offset) == (0, number)
    data = await fetch(client, fetch_request(Offset(0)))
    assert len(values(data)) == 5


@on_broker()
async def test_log_append_time_is_the_brokers(connect: Connect) -> None:
    client = await connect()
    await client.create_topic("t", message_timestamp_type="LogAppendTime")
    answer = await produce(client, batch(b"a", timestamp_ms=5))
    assert answer.log_append_time_ms >= 1_700_000_000_000
    data = await fetch(client, fetch_request(Offset(0)))
    assert isinstance(data.records, bytes | memoryview)
    assert decode_records(data.records)[0].timestamp_ms == answer.log_append_time_ms


@on_broker()
async def test_pipelined_requests_are_answered_in_order(connect: Connect) -> None:
    client = await connect()
    await client.create_topic("t", flush_messages="1")
    answers = [
        client.connection.send(
            produce_request(batch(b"%d" % number), acks=-1), ProduceResponse, max_version=9
        )
        for number in range(200)
    ]
    offsets = [(await answer).responses[0].partition_responses[0].base_offset for answer in answers]
    assert offsets == list(range(200))
    data = await fetch(client, fetch_request(Offset(0)))
    assert values(data) == [b"%d" % number for number in range(200)]


def test_the_records_at_fault_are_named() -> None:
    builder = BatchBuilder()
    for key in (b"a", None, b"b", None):
        builder.append(key, b"value", [], 1_700_000_000_000)

    async def test(connect: Connect) -> None:
        client = await connect()
        await client.create_topic("t", cleanup_policy="compact")
        answer = await produce(client, builder.build())
        assert answer.error_code == ErrorCode.INVALID_RECORD
        assert [error.batch_index for error in answer.record_errors] == [1, 3]

    with_broker(test)


def many(count: int, key: bytes | None = b"key", codec: Codec = Codec.NONE) -> bytes:
    builder = BatchBuilder(codec)
    for number in range(count):
        builder.append(key, b"%d" % number, [], 1_700_000_000_000)
    return builder.build()


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD], ids=lambda codec: codec.name)
@on_broker()
async def test_a_batch_that_takes_long_to_look_into_keeps_its_place(
    connect: Connect, codec: Codec
) -> None:
    """The next request of the connection waits for it, also when that is a small one."""
    client = await connect()
    await client.create_topic("t", cleanup_policy="compact")
    answers = await asyncio.gather(
        produce(client, many(20_000, codec=codec)), produce(client, batch(b"after"))
    )
    assert [(answer.error_code, answer.base_offset) for answer in answers] == [
        (0, 0),
        (0, 20_000),
    ]


@on_broker()
async def test_others_are_served_while_a_long_batch_is_looked_into(connect: Connect) -> None:
    patient, quick = await connect(), await connect()
    await patient.create_topic("t", cleanup_policy="compact")
    await produce(quick, batch(b"before"))
    long = asyncio.ensure_future(produce(patient, many(50_000)))
    offsets = []
    while not long.done():
        offsets.append((await produce(quick, batch(b"beside"))).base_offset)
    assert offsets[:2] == [1, 2]
    assert (await long).base_offset in range(2, offsets[-1] + 2)


@on_broker()
async def test_of_very_many_records_at_fault_the_first_hundred_are_named(connect: Connect) -> None:
    client = await connect()
    await client.create_topic("t", cleanup_policy="compact")
    answer = await produce(client, many(20_000, key=None))
    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert [error.batch_index for error in answer.record_errors] == list(range(100))
    assert (await produce(client, batch(b"first"))).base_offset == 0


@on_broker()
async def test_a_large_batch_is_stored_in_the_topics_codec(connect: Connect) -> None:
    client = await connect()
    await client.create_topic("t", compression_type="gzip")
    assert (await produce(client, many(50_000, codec=Codec.ZSTD))).error_code == 0
    data = await fetch(client, fetch_request(Offset(0)))
    assert data.records is not None
    assert split_batches(data.records)[0][1].codec is Codec.GZIP  # type: ignore[arg-type]
    assert values(data)[-1] == b"49999"


@pytest.mark.parametrize("acks", [1, -1])
@on_broker()
async def test_a_request_for_very_many_partitions_is_answered_whole(
    connect: Connect, acks: int
) -> None:
    client = await connect()
    await client.create_topic("t", partitions=3)
    one = [PartitionProduceData(index=index % 4, records=batch(b"x")) for index in range(1000)]
    request = ProduceRequest(
        acks=acks,
        timeout_ms=1000,
        topic_data=[
            TopicProduceData(name="t", partition_data=one),
            TopicProduceData(name="other", partition_data=one[:1]),
        ],
    )
    response = await client.ask(request, ProduceResponse, version=12)
    assert [topic.name for topic in response.responses] == ["t", "other"]
    answers = response.responses[0].partition_responses
    assert [answer.index for answer in answers] == [index % 4 for index in range(1000)]
    assert [answer.base_offset for answer in answers if answer.index == 0] == list(range(250))
    assert {answer.error_code for answer in answers if answer.index == 3} == {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    }
