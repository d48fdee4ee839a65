"""What tools and other brokers ask about transactions."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from odradek.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicRequest,
)
from odradek.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from odradek.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from odradek.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from odradek.protocol.types import ProducerEpoch, ProducerId
from tests.unit.broker.harness import Client, on_broker
from tests.unit.broker.transactional import Producer, fetch, values_of

Connect = Callable[[], Awaitable[Client]]


@on_broker()
async def test_tools_see_transactions_and_producers(connect: Connect) -> None:
    client = await connect()
    await client.create_topic("t")
    producer, idle = Producer(client), Producer(client, "idle")
    await producer.start()
    await idle.start()
    await producer.send(b"a")
    described = await client.ask(
        DescribeTransactionsRequest(transactional_ids=["tx", "idle", "none", ""]),
        DescribeTransactionsResponse,
    )
    states = described.transaction_states
    assert [(one.error_code, one.transaction_state) for one in states] == [
        (0, "Ongoing"),
        (0, "Empty"),
        (ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, ""),
        (ErrorCode.INVALID_REQUEST, ""),
    ]
    assert [(one.topic, one.partitions) for one in states[0].topics] == [("t", [0])]
    assert states[1].transaction_start_time_ms == -1
    producers = await client.ask(
        DescribeProducersRequest(topics=[TopicRequest(name="t", partition_indexes=[0, 9])]),
        DescribeProducersResponse,
    )
    found, missing = producers.topics[0].partitions
    assert missing.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    (one,) = found.active_producers
    assert (one.producer_id, one.current_txn_start_offset) == (producer.identity[0], 0)


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (ListTransactionsRequest(), {"tx", "idle"}),
        (ListTransactionsRequest(state_filters=["Ongoing"]), {"tx"}),
        (ListTransactionsRequest(producer_id_filters=[10**9]), set()),
        (ListTransactionsRequest(duration_filter=0), {"tx"}),
        (ListTransactionsRequest(duration_filter=10_000), set()),
        (ListTransactionsRequest(transactional_id_pattern="i.*"), {"idle"}),
        (ListTransactionsRequest(transactional_id_pattern="dl"), set()),
    ],
)
@on_broker()
async def test_transactions_are_listed_by_filter(
    connect: Connect, request_: ListTransactionsRequest, expected: set[str]
) -> None:
    client = await connect()
    await client.create_topic("t")
    producer, idle = Producer(client), Producer(client, "idle")
    await producer.start()
    await idle.start()
    await producer.send(b"a")
    await asyncio.sleep(1)
    response = await client.ask(request_, ListTransactionsResponse)
    assert response.error_code == 0
    assert {one.transactional_id for one in response.transaction_states} == expected


@on_broker()
async def test_filters_that_make_no_sense_are_named(connect: Connect) -> None:
    client = await connect()
    response = await client.ask(
        ListTransactionsRequest(state_filters=["Ongoing", "Asleep"]), ListTransactionsResponse
    )
    assert response.unknown_state_filters == ["Asleep"]
    response = await client.ask(
        ListTransactionsRequest(transactional_id_pattern="("), ListTransactionsResponse
    )
    assert response.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION


@on_broker()
async def test_markers_of_another_coordinator_end_what_they_are_of(connect: Connect) -> None:
    client = await connect()
    await client.create_topic("t")
    producer = Producer(client)
    await producer.start()
    await producer.send(b"a")

    async def mark(epoch: ProducerEpoch, version: int) -> int:
        response = await client.ask(
            WriteTxnMarkersRequest(
                markers=[
                    WritableTxnMarker(
                        producer_id=ProducerId(producer.identity[0]),
                        producer_epoch=epoch,
                        transaction_result=True,
                        topics=[WritableTxnMarkerTopic(name="t", partition_indexes=[0])],
                        transaction_version=version,
                    )
                ]
            ),
            WriteTxnMarkersResponse,
        )
        return response.markers[0].topics[0].partitions[0].error_code

    assert await mark(ProducerEpoch(0), 2) == ErrorCode.INVALID_PRODUCER_EPOCH, (
        "it is of the one before"
    )
    assert values_of(await fetch(client)) == []
    assert await mark(ProducerEpoch(1), 2) == 0
    assert values_of(await fetch(client)) == [b"a"]
    assert await mark(ProducerEpoch(1), 2) == 0, "it is written already"
    assert (await fetch(client)).high_watermark == 2


@on_broker()
async def test_clients_are_told_that_version_2_is_in_force(connect: Connect) -> None:
    client = await connect()
    response = await client.ask(
        ApiVersionsRequest(client_software_name="t", client_software_version="1"),
        ApiVersionsResponse,
    )
    in_force = {one.name: one.max_version_level for one in response.finalized_features}
    assert in_force["transaction.version"] == 2
    assert response.finalized_features_epoch >= 0
