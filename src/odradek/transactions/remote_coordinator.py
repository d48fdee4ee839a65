"""Adds partitions to transactions whose coordinator is another broker, or verifies that they are
in them: AddPartitionsToTxn, in the form in which brokers send it.

The commands of all producers that wait for the same coordinator go out in one request.
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
from odradek.transactions.commands import Added, AddPartitions
from odradek.transactions.request_batcher import Peer, PeerDirectory, RequestBatcher

_REQUEST_TIMEOUT_MS: Final = 5_000
# The error codes of a partition that is not in the transaction.
_MISSING: Final = frozenset({ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.INVALID_TXN_STATE})


class RemoteCoordinator:
    def __init__(self, peers: PeerDirectory) -> None:
        self._batcher: RequestBatcher[AddPartitions, Added] = RequestBatcher(peers, "joins", _send)

    async def add(self, coordinator: BrokerId, command: AddPartitions) -> Added:
        """Returns the coordinator's reply. Raises `ApiError` if there is none; then it is unknown
        whether the coordinator added the partitions."""
        return await self._batcher.ask(coordinator, command)

    def close(self) -> None:
        self._batcher.close()


async def _send(peer: Peer, commands: Sequence[AddPartitions]) -> list[Added]:
    request = AddPartitionsToTxnRequest(transactions=[_transaction(one) for one in commands])
    response = await peer.request(
        request, AddPartitionsToTxnResponse, timeout_ms=_REQUEST_TIMEOUT_MS
    )
    if response.error_code:
        return [Added(ErrorCode(response.error_code))] * len(commands)
    # By position, as a transaction may be in the request twice.
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
        for partition in topic.results_by_partition:
            error = ErrorCode(partition.partition_error_code)
            if error in _MISSING:
                missing.add(TopicPartition(topic.name, partition.partition_index))
            elif error is not ErrorCode.NONE and error is not ErrorCode.OPERATION_NOT_ATTEMPTED:
                return Added(error)
    return Added(ErrorCode.NONE, frozenset(missing))
