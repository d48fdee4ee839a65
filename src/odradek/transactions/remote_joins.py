"""Asks the transaction coordinator on another broker: AddPartitionsToTxn, as brokers ask it.

The questions of all producers that wait for the same coordinator go out together.
"""

from collections.abc import Sequence
from typing import Final

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from odradek.protocol.types import BrokerId, TopicPartition
from odradek.transactions.batching import Batches, Peer, PeerDirectory
from odradek.transactions.commands import Added, AddPartitions

_REQUEST_TIMEOUT_MS: Final = 5_000
# How it says that a partition is not part of the transaction.
_MISSING: Final = frozenset({ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.INVALID_TXN_STATE})


class RemoteJoins:
    def __init__(self, peers: PeerDirectory) -> None:
        self._batches: Batches[AddPartitions, Added] = Batches(peers, "joins", _send)

    async def add(self, coordinator: BrokerId, command: AddPartitions) -> Added:
        """Raises `ApiError` if it cannot be asked; then it may have added them or not."""
        return await self._batches.ask(coordinator, command)

    def close(self) -> None:
        self._batches.close()


async def _send(peer: Peer, commands: Sequence[AddPartitions]) -> list[Added]:
    request = AddPartitionsToTxnRequest(transactions=[_transaction(one) for one in commands])
    response = await peer.request(
        request, AddPartitionsToTxnResponse, timeout_ms=_REQUEST_TIMEOUT_MS
    )
    if response.error_code:
        return [Added(ErrorCode(response.error_code))] * len(commands)
    # In the order of the request: a transaction may be in it twice.
    return [_answer(result) for result in response.results_by_transaction]


def _transaction(command: AddPartitions) -> AddPartitionsToTxnTransaction:
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(command.partitions):
        topics.setdefault(topic, []).append(index)
    return AddPartitionsToTxnTransaction(
        transactional_id=command.transactional_id,
        producer_id=command.producer_id,
        producer_epoch=command.producer_epoch,
        verify_only=command.verify_only,
        topics=[
            AddPartitionsToTxnTopic(name=name, partitions=indexes)
            for name, indexes in topics.items()
        ],
    )


def _answer(result: AddPartitionsToTxnResult) -> Added:
    missing = set()
    for topic in result.topic_results:
        for one in topic.results_by_partition:
            error = ErrorCode(one.partition_error_code)
            if error in _MISSING:
                missing.add(TopicPartition(topic.name, one.partition_index))
            elif error is not ErrorCode.NONE and error is not ErrorCode.OPERATION_NOT_ATTEMPTED:
                return Added(error)
    return Added(ErrorCode.NONE, frozenset(missing))
