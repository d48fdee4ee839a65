"""What goes to other brokers: who is asked what, together, and what follows when they fail."""

import asyncio
from collections.abc import Sequence

import pytest

from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from odradek.protocol.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from odradek.protocol.schema import Request, Response
from odradek.protocol.types import BrokerId, ProducerEpoch, ProducerId, TopicPartition
from odradek.replication.pending_append import TransactionMarker
from odradek.statemachine.machine import ProducerIdentity
from odradek.transactions.commands import Added, AddPartitions
from odradek.transactions.remote_coordinator import RemoteCoordinator
from odradek.transactions.remote_markers import RemoteMarkers
from tests.unit.transactions.peers import MemoryPeer, MemoryPeers

A, B, C = (TopicPartition("t", index) for index in range(3))
ONE, TWO = BrokerId(1), BrokerId(2)


def marker(producer_id: ProducerId = ProducerId(7), *, is_bumped: bool = True) -> TransactionMarker:
    return TransactionMarker(ProducerIdentity(producer_id, ProducerEpoch(3)), True, 5, is_bumped)


def write_all(request: Request) -> Response:
    assert isinstance(request, WriteTxnMarkersRequest)
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                producer_id=one.producer_id,
                topics=[
                    WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=[
                            WritableTxnMarkerPartitionResult(
                                partition_index=index,
                                error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER if index == 2 else 0,
                            )
                            for index in topic.partition_indexes
                        ],
                    )
                    for topic in one.topics
                ],
            )
            for one in request.markers
        ]
    )


def add_all(errors: Sequence[int] = ()) -> MemoryPeer:
    """Partition n gets the n-th error."""

    def answer(request: Request) -> Response:
        assert isinstance(request, AddPartitionsToTxnRequest)
        return AddPartitionsToTxnResponse(
            results_by_transaction=[
                AddPartitionsToTxnResult(
                    transactional_id=one.transactional_id,
                    topic_results=[
                        AddPartitionsToTxnTopicResult(
                            name=topic.name,
                            results_by_partition=[
                                AddPartitionsToTxnPartitionResult(
                                    partition_index=index,
                                    partition_error_code=errors[index] if errors else 0,
                                )
                                for index in topic.partitions
                            ],
                        )
                        for topic in one.topics
                    ],
                )
                for one in request.transactions
            ]
        )

    return MemoryPeer(answer)


def command(name: str = "tx", *partitions: TopicPartition, verify: bool = False) -> AddPartitions:
    return AddPartitions(
        name, ProducerId(7), ProducerEpoch(3), frozenset(partitions or (A,)), 2, verify
    )


# Markers


async def test_each_leader_gets_its_own_partitions() -> None:
    first, second = MemoryPeer(write_all), MemoryPeer(write_all)
    remote = RemoteMarkers(MemoryPeers(broker_1=first, broker_2=second))
    outcomes = await remote.write({ONE: [A, B], TWO: [C]}, marker())
    assert outcomes == {
        A: ErrorCode.NONE,
        B: ErrorCode.NONE,
        C: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    }
    request = first.requests[0]
    assert isinstance(request, WriteTxnMarkersRequest)
    asked = request.markers[0]
    assert (asked.producer_id, asked.producer_epoch, asked.coordinator_epoch) == (7, 3, 5)
    assert asked.transaction_result
    assert asked.transaction_version == 2
    assert [(topic.name, topic.partition_indexes) for topic in asked.topics] == [("t", [0, 1])]
    assert len(second.requests) == 1


async def test_markers_that_come_while_a_broker_is_asked_go_out_together() -> None:
    peer = MemoryPeer(write_all)
    peer.may_answer.clear()
    remote = RemoteMarkers(MemoryPeers(broker_1=peer))
    writes = [asyncio.ensure_future(remote.write({ONE: [A]}, marker(ProducerId(0))))]
    await peer.asked.wait()
    writes += [
        asyncio.ensure_future(remote.write({ONE: [A]}, marker(ProducerId(n)))) for n in range(1, 40)
    ]
    await asyncio.sleep(0)
    peer.may_answer.set()
    for outcome in await asyncio.gather(*writes):
        assert outcome == {A: ErrorCode.NONE}
    sizes = [
        len(request.markers)
        for request in peer.requests
        if isinstance(request, WriteTxnMarkersRequest)
    ]
    assert sizes == [1, 39]


async def test_a_broker_that_dies_has_written_nothing_that_anybody_knows_of() -> None:
    peer = MemoryPeer(write_all)
    peer.breaks = True
    remote = RemoteMarkers(MemoryPeers(broker_1=peer))
    outcomes = await remote.write({ONE: [A], TWO: [B]}, marker())
    assert outcomes == {A: ErrorCode.NETWORK_EXCEPTION, B: ErrorCode.NETWORK_EXCEPTION}
    peer.breaks = False
    assert await remote.write({ONE: [A]}, marker()) == {A: ErrorCode.NONE}


async def test_a_partition_that_the_answer_leaves_out_is_not_written() -> None:
    def forgetful(request: Request) -> Response:
        return WriteTxnMarkersResponse(markers=[WritableTxnMarkerResult(producer_id=ProducerId(7))])

    remote = RemoteMarkers(MemoryPeers(broker_1=MemoryPeer(forgetful)))
    assert await remote.write({ONE: [A]}, marker()) == {A: ErrorCode.NETWORK_EXCEPTION}


async def test_an_answer_to_something_else_is_none() -> None:
    remote = RemoteMarkers(
        MemoryPeers(broker_1=MemoryPeer(lambda _: WriteTxnMarkersResponse(markers=[])))
    )
    assert await remote.write({ONE: [A]}, marker()) == {A: ErrorCode.NETWORK_EXCEPTION}


async def test_whoever_waits_when_the_broker_stops_is_told() -> None:
    peer = MemoryPeer(write_all)
    peer.may_answer.clear()
    remote = RemoteMarkers(MemoryPeers(broker_1=peer))
    waiting = asyncio.ensure_future(remote.write({ONE: [A]}, marker()))
    await peer.asked.wait()
    behind = asyncio.ensure_future(remote.write({ONE: [B]}, marker()))
    await asyncio.sleep(0)
    remote.close()
    assert await waiting == {A: ErrorCode.NETWORK_EXCEPTION}
    assert await behind == {B: ErrorCode.NETWORK_EXCEPTION}


# Joins


async def test_a_coordinator_elsewhere_adds_partitions() -> None:
    peer = add_all()
    peers = MemoryPeers(broker_2=peer)
    assert await RemoteCoordinator(peers).add(TWO, command("tx", B, A)) == Added(ErrorCode.NONE)
    request = peer.requests[0]
    assert isinstance(request, AddPartitionsToTxnRequest)
    asked = request.transactions[0]
    assert (asked.transactional_id, asked.producer_id, asked.producer_epoch) == ("tx", 7, 3)
    assert not asked.verify_only
    assert [(topic.name, topic.partitions) for topic in asked.topics] == [("t", [0, 1])]


@pytest.mark.parametrize("missing", [ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.INVALID_TXN_STATE])
async def test_a_coordinator_elsewhere_says_what_is_missing(missing: ErrorCode) -> None:
    peers = MemoryPeers(broker_2=add_all([0, missing]))
    added = await RemoteCoordinator(peers).add(TWO, command("tx", A, B, verify=True))
    assert added == Added(ErrorCode.NONE, frozenset({B}))


async def test_an_error_of_one_partition_is_that_of_the_whole() -> None:
    errors = [ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    peers = MemoryPeers(broker_2=add_all(errors))
    added = await RemoteCoordinator(peers).add(TWO, command("tx", A, B))
    assert added == Added(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


async def test_producers_that_wait_for_one_coordinator_are_asked_for_together() -> None:
    peer = add_all()
    joins = RemoteCoordinator(MemoryPeers(broker_2=peer))
    answers = await asyncio.gather(*(joins.add(TWO, command(f"tx-{n}")) for n in range(30)))
    assert answers == [Added(ErrorCode.NONE)] * 30
    assert len(peer.requests) == 1


async def test_a_coordinator_that_cannot_be_asked_refuses() -> None:
    with pytest.raises(ApiError) as refused:
        await RemoteCoordinator(MemoryPeers()).add(TWO, command())
    assert refused.value.code is ErrorCode.NETWORK_EXCEPTION
