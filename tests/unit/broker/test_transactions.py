"""Transactions over the wire: the stories that clients of all ages tell."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import pytest

from odradek.broker.handlers import served_apis
from odradek.cluster.producer_ids import ProducerIds
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)
from odradek.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from odradek.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from odradek.protocol.messages.end_txn import EndTxnRequest
from odradek.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from odradek.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from odradek.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from odradek.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
)
from odradek.protocol.messages.produce import (
    ProduceResponse,
)
from odradek.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from odradek.protocol.types import ProducerEpoch, ProducerId
from odradek.transactions.transaction import LAST_EPOCH
from simulation.run import run
from simulation.world import Simulation
from tests.unit.broker.harness import BrokerHost, Client, on_broker, with_broker
from tests.unit.broker.transactional import VERSION_1, Producer, fetch, insist, settled, values_of

Connect = Callable[[], Awaitable[Client]]


@pytest.mark.parametrize("version", [1, 2])
@on_broker()
async def test_committed_records_are_seen_and_aborted_ones_are_not(
    connect: Connect, version: int
) -> None:
    client = await connect()
    await client.create_topic("t")
    producer = Producer(client, version=version)
    assert await producer.start() == 0
    for value, committed in ((b"a", True), (b"b", False), (b"c", True)):
        if version == 1:
            assert await insist(producer.add) == 0
        assert await producer.send(value) == 0
        assert await producer.end(committed=committed) == 0
    assert await settled(client) == "CompleteCommit"
    data = await fetch(client)
    assert values_of(data) == [b"a", b"c"]
    assert data.last_stable_offset == data.high_watermark == 6
    everything = await fetch(client, committed_only=False)
    assert values_of(everything) == [b"a", b"b", b"c"]
    assert everything.aborted_transactions is None
    assert producer.identity[1] == (3 if version == 2 else 0)


@on_broker()
async def test_read_committed_stops_at_the_open_transaction(connect: Connect) -> None:
    client = await connect()
    await client.create_topic("t")
    producer = Producer(client)
    await producer.start()
    assert await producer.send(b"a", b"b") == 0
    assert values_of(await fetch(client)) == []
    assert values_of(await fetch(client, committed_only=False)) == [b"a", b"b"]
    for isolation, latest in ((0, 2), (1, 0)):
        offsets = await client.ask(
            ListOffsetsRequest(
                isolation_level=isolation,
                topics=[
                    ListOffsetsTopic(
                        name="t",
                        partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)],
                    )
                ],
            ),
            ListOffsetsResponse,
        )
        assert offsets.topics[0].partitions[0].offset == latest


@pytest.mark.parametrize("committed", [True, False])
@on_broker()
async def test_a_waiting_consumer_is_woken_by_the_marker(connect: Connect, committed: bool) -> None:
    client, reader = await connect(), await connect()
    await client.create_topic("t")
    producer = Producer(client)
    await producer.start()
    await producer.send(b"a")
    waiting = asyncio.ensure_future(fetch(reader, max_wait_ms=60_000))
    await asyncio.sleep(1)
    began = asyncio.get_running_loop().time()
    await producer.end(committed=committed)
    assert values_of(await waiting) == ([b"a"] if committed else [])
    assert asyncio.get_running_loop().time() - began < 1


@on_broker()
async def test_nothing_overtakes_the_first_batch_of_a_transaction(connect: Connect) -> None:
    """It waits for the coordinator; what the client sends behind it waits too."""
    client = await connect()
    await client.create_topic("t")
    producer = Producer(client)
    await producer.start()
    for round_ in range(3):
        requests = [producer.request(producer.batch(b"%d" % number)) for number in range(5)]
        answers = [
            client.connection.send(request, ProduceResponse, max_version=12) for request in requests
        ]
        responses = await asyncio.gather(*answers)
        found = [one.responses[0].partition_responses[0] for one in responses]
        assert [one.error_code for one in found] == [0] * 5
        first = found[0].base_offset
        assert [one.base_offset for one in found] == list(range(first, first + 5)), round_
        assert await producer.end(committed=True) == 0


@on_broker()
async def test_an_old_producer_must_have_added_the_partition(connect: Connect) -> None:
    client = await connect()
    await client.create_topic("t")
    producer = Producer(client, version=1)
    await producer.start()
    assert await producer.send(b"a") == ErrorCode.TRANSACTION_ABORTABLE
    producer.versions = {**VERSION_1, "produce": 10}
    producer.sequence = 0
    assert await producer.send(b"a") == ErrorCode.INVALID_TXN_STATE
    await producer.add()
    producer.sequence = 0
    assert await producer.send(b"a") == 0
    assert await producer.send(b"b") == 0


@on_broker(transaction_partition_verification_enable="false")
async def test_verification_can_be_switched_off_for_old_producers(connect: Connect) -> None:
    client = await connect()
    await client.create_topic("t")
    producer = Producer(client, version=1)
    await producer.start()
    assert await producer.send(b"a") == 0


@on_broker()
async def test_a_transactional_batch_needs_its_id(connect: Connect) -> None:
    client = await connect()
    await client.create_topic("t")
    producer = Producer(client)
    await producer.start()
    request = producer.request(producer.batch(b"a"))
    request.transactional_id = None
    response = await client.ask(request, ProduceResponse, version=12)
    error = response.responses[0].partition_responses[0].error_code
    assert error == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    request = producer.request(producer.batch(b"a"))
    request.transactional_id = ""
    response = await client.ask(request, ProduceResponse, version=12)
    error = response.responses[0].partition_responses[0].error_code
    assert error == ErrorCode.INVALID_REQUEST


@on_broker()
async def test_a_second_producer_fences_the_first(connect: Connect) -> None:
    client = await connect()
    await client.create_topic("t")
    first, second = Producer(client), Producer(client)
    await first.start()
    await first.send(b"a")
    assert await second.start() == 0
    assert second.identity == (first.identity[0], first.identity[1] + 3)
    assert await first.end(committed=False) == ErrorCode.PRODUCER_FENCED
    assert await first.send(b"b") == ErrorCode.INVALID_PRODUCER_EPOCH
    assert await first.end(committed=True) == ErrorCode.PRODUCER_FENCED
    assert await first.end(committed=True, version=1) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert await first.add(version=1) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert await first.add(version=2) == ErrorCode.PRODUCER_FENCED
    assert await second.send(b"c") == 0
    assert await second.end(committed=True) == 0
    await settled(client)
    assert values_of(await fetch(client)) == [b"c"]


@on_broker()
async def test_fencing_is_told_in_words_the_version_knows(connect: Connect) -> None:
    client = await connect()
    producer = Producer(client)
    await producer.start()
    old = producer.identity
    await producer.start()
    for version, expected in (
        (3, ErrorCode.INVALID_PRODUCER_EPOCH),
        (4, ErrorCode.PRODUCER_FENCED),
    ):
        response = await client.ask(
            InitProducerIdRequest(
                transactional_id="tx",
                transaction_timeout_ms=1000,
                producer_id=ProducerId(old[0]),
                producer_epoch=ProducerEpoch(old[1]),
            ),
            InitProducerIdResponse,
            version=version,
        )
        assert response.error_code == expected


@on_broker()
async def test_a_transaction_that_takes_too_long_is_aborted(connect: Connect) -> None:
    client = await connect()
    await client.create_topic("t")
    producer = Producer(client)
    await producer.start(timeout_ms=5000)
    await producer.send(b"a")
    waiting = await fetch(client, max_wait_ms=30_000)
    assert values_of(waiting) == []
    assert waiting.last_stable_offset == 2, "the marker is there"
    assert await producer.end(committed=True) == ErrorCode.INVALID_TXN_STATE
    assert await settled(client) == "CompleteAbort"


@on_broker()
async def test_wrong_requests_are_refused(connect: Connect) -> None:
    client = await connect()
    await client.create_topic("t")
    producer = Producer(client, "")
    assert await producer.start() == ErrorCode.INVALID_REQUEST
    assert await producer.end(committed=True) == ErrorCode.INVALID_REQUEST
    assert await producer.add() == ErrorCode.INVALID_REQUEST
    producer = Producer(client)
    assert await producer.start(timeout_ms=0) == ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert await producer.end(committed=True) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    await producer.start()
    assert await producer.add(0, 7) == ErrorCode.OPERATION_NOT_ATTEMPTED
    assert await producer.add(7) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _versions(key: int) -> Sequence[int]:
    return range(served_apis()[key].min_version, served_apis()[key].max_version + 1)


def offset_commit(producer: Producer, group_id: str = "g") -> TxnOffsetCommitRequest:
    return TxnOffsetCommitRequest(
        transactional_id=producer.transactional_id,
        group_id=group_id,
        producer_id=ProducerId(producer.identity[0]),
        producer_epoch=ProducerEpoch(producer.identity[1]),
        topics=[
            TxnOffsetCommitRequestTopic(
                name="t",
                partitions=[
                    TxnOffsetCommitRequestPartition(
                        partition_index=0, committed_offset=7, committed_metadata=""
                    )
                ],
            )
        ],
    )


async def committed_offset(client: Client) -> tuple[int, int]:
    response = await client.ask(
        OffsetFetchRequest(
            group_id="g",
            topics=[OffsetFetchRequestTopic(name="t", partition_indexes=[0])],
            require_stable=True,
        ),
        OffsetFetchResponse,
        version=7,
    )
    found = response.topics[0].partitions[0]
    return found.error_code, found.committed_offset


@pytest.mark.parametrize("version", _versions(TxnOffsetCommitRequest.api_key))
@pytest.mark.parametrize("committed", [True, False])
@on_broker()
async def test_offsets_count_when_their_transaction_commits(
    connect: Connect, version: int, committed: bool
) -> None:
    client = await connect()
    await client.create_topic("t")
    await client.ask(
        FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), FindCoordinatorResponse
    )
    producer = Producer(client, version=2 if version >= 5 else 1)
    await producer.start()
    request = offset_commit(producer)
    if version < 5:
        response = await client.ask(request, TxnOffsetCommitResponse, version=version)
        refused = response.topics[0].partitions[0].error_code
        assert refused == ErrorCode.INVALID_TXN_STATE, "the group was not added"
        added = await client.ask(
            AddOffsetsToTxnRequest(
                transactional_id="tx",
                producer_id=ProducerId(producer.identity[0]),
                producer_epoch=ProducerEpoch(producer.identity[1]),
                group_id="g",
            ),
            AddOffsetsToTxnResponse,
            version=min(version, 4),
        )
        assert added.error_code == 0
    for _ in range(2):
        response = await client.ask(request, TxnOffsetCommitResponse, version=version)
        assert response.topics[0].partitions[0].error_code == 0
    assert await committed_offset(client) == (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)
    assert await producer.end(committed=committed) == 0
    await settled(client)
    assert await committed_offset(client) == (0, 7 if committed else -1)
    response = await client.ask(request, TxnOffsetCommitResponse, version=version)
    late = response.topics[0].partitions[0].error_code
    assert late != 0, "the transaction is over"
    assert await committed_offset(client) == (0, 7 if committed else -1)


@pytest.mark.parametrize("version", _versions(AddPartitionsToTxnRequest.api_key))
@on_broker()
async def test_partitions_are_added_in_every_version(connect: Connect, version: int) -> None:
    client = await connect()
    await client.create_topic("t", 2)
    producer = Producer(client)
    await producer.start()
    if version < 4:
        assert await producer.add(0, 1, version=version) == 0
        return
    request = AddPartitionsToTxnRequest(
        transactions=[
            AddPartitionsToTxnTransaction(
                transactional_id="tx",
                producer_id=ProducerId(producer.identity[0]),
                producer_epoch=ProducerEpoch(producer.identity[1]),
                verify_only=verify_only,
                topics=[AddPartitionsToTxnTopic(name="t", partitions=partitions)],
            )
            for verify_only, partitions in ((False, [0]), (True, [0, 1]))
        ]
    )
    response = await client.ask(request, AddPartitionsToTxnResponse, version=version)
    added, verified = (
        [one.partition_error_code for one in result.topic_results[0].results_by_partition]
        for result in response.results_by_transaction
    )
    abortable = version >= 5
    missing = ErrorCode.TRANSACTION_ABORTABLE if abortable else ErrorCode.INVALID_TXN_STATE
    assert (added, verified) == ([0], [0, missing])


@pytest.mark.parametrize("version", _versions(EndTxnRequest.api_key))
@on_broker()
async def test_transactions_end_in_every_version(connect: Connect, version: int) -> None:
    client = await connect()
    await client.create_topic("t")
    producer = Producer(client)
    await producer.start()
    assert await producer.add() == 0
    assert await producer.end(committed=False, version=version) == 0
    assert await settled(client) == "CompleteAbort"
    assert producer.identity[1] == (1 if version >= 5 else 0)


@pytest.mark.parametrize("version", _versions(InitProducerIdRequest.api_key))
@on_broker()
async def test_producers_start_in_every_version(connect: Connect, version: int) -> None:
    client = await connect()
    producer = Producer(client)
    assert await producer.start(version=version) == 0
    assert await producer.start(version=version) == 0
    assert producer.identity[1] == 1


def test_a_restarted_broker_goes_on_with_transactions() -> None:
    async def main(simulation: Simulation) -> None:
        host = BrokerHost(simulation, {})
        async with host.running() as connect:
            client = await connect()
            await client.create_topic("t")
            producer = Producer(client)
            await producer.start()
            await producer.send(b"a")
        async with host.running() as connect:
            client = await connect()
            await client.ask(
                FindCoordinatorRequest(key_type=1, coordinator_keys=["tx"]),
                FindCoordinatorResponse,
            )
            producer.client = client
            assert values_of(await fetch(client)) == []
            assert await producer.send(b"b") == 0
            assert await insist(partial(producer.end, committed=True)) == 0
            await settled(client)
            assert values_of(await fetch(client)) == [b"a", b"b"]

    run(main, seed=1)


@on_broker()
async def test_clients_do_not_write_where_coordinators_do(connect: Connect) -> None:
    client = await connect()
    producer = Producer(client)
    await producer.start()
    request = producer.request(producer.batch(b"a"))
    request.topic_data[0].name = "__transaction_state"
    response = await client.ask(request, ProduceResponse, version=12)
    error = response.responses[0].partition_responses[0].error_code
    assert error == ErrorCode.INVALID_TOPIC_EXCEPTION


@on_broker()
async def test_read_committed_waits_for_the_disk_where_acknowledgements_do(
    connect: Connect,
) -> None:
    client = await connect()
    await client.create_topic("t", flush_messages="1")
    producer = Producer(client)
    await producer.start()
    for value, committed in ((b"a", False), (b"b", True)):
        assert await producer.send(value) == 0
        assert await producer.end(committed=committed) == 0
        await settled(client)
    data = await fetch(client)
    assert values_of(data) == [b"b"]
    assert data.last_stable_offset == data.high_watermark == 4


@on_broker()
async def test_a_topic_that_is_gone_holds_nothing_up(connect: Connect) -> None:
    client = await connect()
    await client.create_topic("t")
    producer = Producer(client)
    await producer.start()
    assert await producer.send(b"a") == 0
    await client.ask(DeleteTopicsRequest(topic_names=["t"]), DeleteTopicsResponse, version=5)
    assert await producer.end(committed=True) == 0
    assert await settled(client) == "CompleteCommit"


def test_an_end_that_needs_a_producer_id_and_gets_none_is_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The metadata store is out of reach: the client tries again on the same connection."""

    async def nothing(_: ProducerIds) -> ProducerId:
        raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    async def test(connect: Connect) -> None:
        client = await connect()
        producer = Producer(client)
        await producer.start()
        monkeypatch.setattr(ProducerIds, "next", nothing)
        producer.identity = (producer.identity[0], LAST_EPOCH - 1)
        error = await producer.end(committed=True)
        assert error == ErrorCode.COORDINATOR_NOT_AVAILABLE

    with_broker(test)
