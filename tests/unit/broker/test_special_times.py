"""ListOffsets with a question in place of a time: which offset, and in which versions."""

from collections.abc import Awaitable, Callable

import pytest

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from odradek.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from odradek.protocol.messages.produce import ProduceResponse
from odradek.protocol.types import BrokerId
from tests.unit.broker.harness import Client, batch, on_broker
from tests.unit.broker.test_produce_and_fetch import produce_request

Connect = Callable[[], Awaitable[Client]]


async def asked(client: Client, timestamp: int, version: int) -> ListOffsetsPartitionResponse:
    request = ListOffsetsRequest(
        replica_id=BrokerId(-1),
        topics=[
            ListOffsetsTopic(
                name="t", partitions=[ListOffsetsPartition(partition_index=0, timestamp=timestamp)]
            )
        ],
    )
    response = await client.ask(request, ListOffsetsResponse, version=version)
    return response.topics[0].partitions[0]


@pytest.mark.parametrize(
    ("timestamp", "first_version", "offset"),
    [(-1, 1, 5), (-2, 1, 2), (-3, 7, 4), (-4, 8, 2), (-5, 9, -1), (-6, 11, -1)],
    ids=["latest", "earliest", "largest", "earliest local", "latest tiered", "pending upload"],
)
@on_broker()
async def test_a_special_time_is_answered_from_its_version_on(
    connect: Connect, timestamp: int, first_version: int, offset: int
) -> None:
    client = await connect()
    await client.create_topic("t")
    records = batch(b"a", b"b", b"c", b"d", b"e")
    await client.ask(produce_request(records), ProduceResponse, version=9)
    delete = DeleteRecordsTopic(
        name="t", partitions=[DeleteRecordsPartition(partition_index=0, offset=2)]
    )
    await client.ask(DeleteRecordsRequest(topics=[delete], timeout_ms=1000), DeleteRecordsResponse)
    for version in range(1, 12):
        answer = await asked(client, timestamp, version)
        if version < first_version:
            assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
            assert answer.offset == -1
        else:
            assert answer.error_code == 0
            assert answer.offset == offset


@pytest.mark.parametrize("timestamp", [-7, -100, -(2**63)])
@on_broker()
async def test_a_negative_time_without_a_meaning_is_unsupported(
    connect: Connect, timestamp: int
) -> None:
    client = await connect()
    await client.create_topic("t")
    answer = await asked(client, timestamp, 11)
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
