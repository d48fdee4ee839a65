"""LookUp over the wire, from a broker in virtual time."""

import asyncio
from collections.abc import Awaitable, Callable

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.look_up import (
    LookUpKey,
    LookUpPartition,
    LookUpPartitionResult,
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
from odradek.protocol.records import BatchBuilder
from odradek.protocol.types import LeaderEpoch
from tests.unit.broker.harness import Client, on_broker

Connect = Callable[[], Awaitable[Client]]


async def produce(client: Client, *records: tuple[bytes, bytes | None]) -> None:
    builder = BatchBuilder()
    for key, value in records:
        builder.append(key, value, [("name", b"x"), ("none", None)], 1_700_000_000_000)
    data = PartitionProduceData(index=0, records=builder.build())
    request = ProduceRequest(
        acks=1, timeout_ms=1000, topic_data=[TopicProduceData(name="t", partition_data=[data])]
    )
    response = await client.ask(request, ProduceResponse, version=12)
    assert not response.responses[0].partition_responses[0].error_code


async def look_up(
    client: Client,
    *keys: bytes,
    topic: str = "t",
    partition: int = 0,
    epoch: LeaderEpoch = LeaderEpoch(-1),
) -> LookUpPartitionResult:
    asked = LookUpPartition(
        partition_index=partition,
        current_leader_epoch=epoch,
        keys=[LookUpKey(key=key) for key in keys],
    )
    request = LookUpRequest(topics=[LookUpTopic(name=topic, partitions=[asked])])
    response = await client.ask(request, LookUpResponse)
    return response.topics[0].partitions[0]


@on_broker()
async def test_the_newest_record_of_each_key_is_answered_in_order(connect: Connect) -> None:
    client = await connect()
    await client.create_topic("t", cleanup_policy="compact")
    await produce(client, (b"a", b"1"), (b"b", b"2"))
    await produce(client, (b"a", b"3"), (b"c", None))
    answer = await look_up(client, b"a", b"nobody", b"b", b"c")
    assert not answer.error_code
    a, nobody, b, c = answer.results
    assert (a.offset, a.value, a.timestamp) == (2, b"3", 1_700_000_000_000)
    assert (a.timestamp_type, a.leader_epoch) == (0, 0)
    assert [(one.name, one.value) for one in a.headers] == [("name", b"x"), ("none", None)]
    assert (nobody.offset, nobody.value) == (-1, None)
    assert (b.offset, b.value) == (1, b"2")
    assert (c.offset, c.value) == (3, None)
    assert answer.bytes_read > 0


@on_broker()
async def test_with_an_index_little_is_read(connect: Connect) -> None:
    client = await connect()
    await client.create_topic("t", cleanup_policy="compact")
    padding = bytes(2000)
    for start in range(0, 2000, 20):
        await produce(client, *((b"%d" % one, padding) for one in range(start, start + 20)))
    first = await look_up(client, b"7")
    assert first.bytes_read > 3_000_000
    assert first.unindexed_bytes > 4_000_000
    await asyncio.sleep(10)
    for key in (b"7", b"1999", b"nobody"):
        answer = await look_up(client, key)
        assert answer.bytes_read < 100_000
        assert answer.unindexed_bytes < 1 << 20
        assert (answer.results[0].offset >= 0) == (key != b"nobody")
    await produce(client, (b"7", b"new"))
    assert (await look_up(client, b"7")).results[0].value == b"new"


@on_broker()
async def test_what_cannot_be_answered_is_refused(connect: Connect) -> None:
    client = await connect()
    await client.create_topic("t", partitions=2)
    unknown = await look_up(client, b"a", topic="nobody")
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert unknown.error_message
    beyond = await look_up(client, b"a", partition=2)
    assert beyond.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    newer = await look_up(client, b"a", epoch=LeaderEpoch(7))
    assert newer.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert newer.results == []


@on_broker()
async def test_many_large_values_come_in_several_responses(connect: Connect) -> None:
    client = await connect()
    await client.create_topic("t", max_message_bytes=str(8 << 20))
    keys = [b"%d" % number for number in range(7)]
    for key in keys:
        await produce(client, (key, key * (5 << 20)))
    values: list[bytes | None] = []
    responses = 0
    while len(values) < len(keys):
        answer = await look_up(client, *keys[len(values) :])
        assert answer.results
        values += [result.value for result in answer.results]
        responses += 1
    assert values == [key * (5 << 20) for key in keys]
    assert responses == 2


@on_broker()
async def test_the_limit_on_values_holds_for_all_partitions_together(connect: Connect) -> None:
    client = await connect()
    await client.create_topic("t", max_message_bytes=str(8 << 20))
    await produce(client, (b"a", bytes(5 << 20)))
    asked = LookUpPartition(partition_index=0, keys=[LookUpKey(key=b"a")])
    request = LookUpRequest(topics=[LookUpTopic(name="t", partitions=[asked] * 30)])
    response = await client.ask(request, LookUpResponse)
    answered = [len(answer.results) for answer in response.topics[0].partitions]
    assert answered == [1] * 4 + [0] * 26
