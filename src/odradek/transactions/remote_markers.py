"""Writes markers to partitions that other brokers lead: WriteTxnMarkers, one request per broker.

The result has an error code for every partition, also if a broker could not be reached.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from odradek.protocol.types import BrokerId, TopicPartition
from odradek.replication.pending_append import TransactionMarker
from odradek.transactions.local_markers import MarkerErrors
from odradek.transactions.request_batcher import Peer, PeerDirectory, RequestBatcher
from odradek.transactions.transaction import VERSION_2

_REQUEST_TIMEOUT_MS: Final = 10_000


class _MarkerForLeader(NamedTuple):
    """A marker for partitions that one broker leads."""

    marker: TransactionMarker
    partitions: Sequence[TopicPartition]


class RemoteMarkers:
    def __init__(self, peers: PeerDirectory) -> None:
        self._batcher: RequestBatcher[_MarkerForLeader, MarkerErrors] = RequestBatcher(
            peers, "markers", _send
        )

    async def write(
        self, by_leader: Mapping[BrokerId, Sequence[TopicPartition]], marker: TransactionMarker
    ) -> MarkerErrors:
        """Asks all leaders at the same time."""
        results = await asyncio.gather(
            *(
                self._write(leader, _MarkerForLeader(marker, partitions))
                for leader, partitions in by_leader.items()
            )
        )
        return {partition: error for errors in results for partition, error in errors.items()}

    def close(self) -> None:
        self._batcher.close()

    async def _write(self, leader: BrokerId, request: _MarkerForLeader) -> MarkerErrors:
        try:
            errors = await self._batcher.ask(leader, request)
        except ApiError as error:
            return dict.fromkeys(request.partitions, error.code)
        # It is unknown whether a partition that the response leaves out has its marker.
        return {
            partition: errors.get(partition, ErrorCode.NETWORK_EXCEPTION)
            for partition in request.partitions
        }


async def _send(peer: Peer, requests: Sequence[_MarkerForLeader]) -> list[MarkerErrors]:
    message = WriteTxnMarkersRequest(markers=[_marker(request) for request in requests])
    response = await peer.request(message, WriteTxnMarkersResponse, timeout_ms=_REQUEST_TIMEOUT_MS)
    # By position, as a producer may be in the request twice.
    return [
        {
            TopicPartition(topic.name, partition.partition_index): ErrorCode(partition.error_code)
            for topic in result.topics
            for partition in topic.partitions
        }
        for result in response.markers
    ]


def _marker(request: _MarkerForLeader) -> WritableTxnMarker:
    marker = request.marker
    topics: dict[str, list[int]] = {}
    for topic, index in request.partitions:
        topics.setdefault(topic, []).append(index)
    return WritableTxnMarker(
        producer_id=marker.producer.producer_id,
        producer_epoch=marker.producer.producer_epoch,
        transaction_result=marker.committed,
        topics=[
            WritableTxnMarkerTopic(name=name, partition_indexes=indexes)
            for name, indexes in topics.items()
        ],
        coordinator_epoch=marker.coordinator_epoch,
        transaction_version=VERSION_2 if marker.is_bumped else 0,
    )
