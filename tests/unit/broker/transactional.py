"""A transactional producer and a read-committed consumer, by hand, in any version."""

import asyncio
from collections.abc import Awaitable, Callable

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from odradek.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from odradek.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from odradek.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from odradek.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from odradek.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from odradek.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from odradek.protocol.records import BatchBuilder, decode_records, split_batches
from odradek.protocol.types import Offset, ProducerEpoch, ProducerId
from tests.unit.broker.harness import Client

Identity = tuple[int, int]

VERSION_1 = {"produce": 11, "end": 4}
VERSION_2 = {"produce": 12, "end": 5}
_TRY_AGAIN = {
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
}


async def insist(ask: Callable[[], Awaitable[int]]) -> int:
    """Asks until it is not told to try again."""
    while True:
        error = await ask()
        if error not in _TRY_AGAIN:
            return error
        await asyncio.sleep(0.001)


class Producer:
    """A transactional producer by hand, in the versions of one age."""

    def __init__(self, client: Client, transactional_id: str = "tx", *, version: int = 2) -> None:
        self.client = client
        self.transactional_id = transactional_id
        self.versions = VERSION_2 if version == 2 else VERSION_1
        self.identity: Identity = (-1, -1)
        self.sequence = 0

    async def start(self, *, timeout_ms: int = 60_000, version: int = 5) -> int:
        await self.client.ask(
            FindCoordinatorRequest(key_type=1, coordinator_keys=[self.transactional_id]),
            FindCoordinatorResponse,
        )
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id, transaction_timeout_ms=timeout_ms
        )

        async def ask() -> int:
            response = await self.client.ask(request, InitProducerIdResponse, version=version)
            self.identity = response.producer_id, response.producer_epoch
            return response.error_code

        self.sequence = 0
        return await insist(ask)

    def batch(self, *values: bytes, is_transactional: bool = True) -> bytes:
        builder = BatchBuilder()
        for value in values:
            builder.append(None, value, (), 1_700_000_000_000)
        made = builder.build(0, *self.identity, self.sequence, is_transactional=is_transactional)
        self.sequence += len(values)
        return made

    def request(self, records: bytes) -> ProduceRequest:
        return ProduceRequest(
            transactional_id=self.transactional_id,
            acks=-1,
            timeout_ms=1000,
            topic_data=[
                TopicProduceData(
                    name="t", partition_data=[PartitionProduceData(index=0, records=records)]
                )
            ],
        )

    async def send(self, *values: bytes) -> int:
        response = await self.client.ask(
            self.request(self.batch(*values)), ProduceResponse, version=self.versions["produce"]
        )
        return response.responses[0].partition_responses[0].error_code

    async def add(self, *partitions: int, version: int = 3) -> int:
        response = await self.client.ask(
            AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=self.transactional_id,
                v3_and_below_producer_id=ProducerId(self.identity[0]),
                v3_and_below_producer_epoch=ProducerEpoch(self.identity[1]),
                v3_and_below_topics=[
                    AddPartitionsToTxnTopic(name="t", partitions=list(partitions or (0,)))
                ],
            ),
            AddPartitionsToTxnResponse,
            version=version,
        )
        return (
            response.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
        )

    async def end(self, *, committed: bool, version: int | None = None) -> int:
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=ProducerId(self.identity[0]),
            producer_epoch=ProducerEpoch(self.identity[1]),
            committed=committed,
        )
        response = await self.client.ask(
            request, EndTxnResponse, version=self.versions["end"] if version is None else version
        )
        if response.producer_id >= 0:
            self.identity = response.producer_id, response.producer_epoch
            self.sequence = 0
        return response.error_code


async def fetch(
    client: Client, offset: Offset = Offset(0), *, committed_only: bool = True, max_wait_ms: int = 0
) -> PartitionData:
    request = FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        isolation_level=int(committed_only),
        topics=[
            FetchTopic(
                topic="t",
                partitions=[
                    FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
                ],
            )
        ],
    )
    response = await client.ask(request, FetchResponse, version=12)
    return response.responses[0].partitions[0]


def values_of(data: PartitionData) -> list[bytes | None]:
    """As a consumer shows them: without aborted records, if it was told of them."""
    assert data.records is None or isinstance(data.records, bytes | memoryview)
    records = data.records or b""
    aborted = sorted((one.first_offset, one.producer_id) for one in data.aborted_transactions or ())
    skipped: set[int] = set()
    found: list[bytes | None] = []
    for position, header in split_batches(records):
        while aborted and aborted[0][0] <= header.last_offset:
            skipped.add(aborted.pop(0)[1])
        if header.is_control:
            skipped.discard(header.producer_id)
        elif header.producer_id not in skipped:
            found += [record.value for record in decode_records(records, position)]
    return found


async def settled(client: Client, transactional_id: str = "tx") -> str:
    """The state of a transaction once its markers are written."""
    while True:
        response = await client.ask(
            DescribeTransactionsRequest(transactional_ids=[transactional_id]),
            DescribeTransactionsResponse,
        )
        state = response.transaction_states[0]
        if not state.transaction_state.startswith("Prepare"):
            return state.transaction_state
        await asyncio.sleep(0.001)
