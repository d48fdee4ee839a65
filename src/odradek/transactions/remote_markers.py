"""Markers for partitions that other brokers lead: WriteTxnMarkers, one request a broker.

What comes back is an error code for every partition, whatever happened on the way.
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
from odradek.replication.appended import TransactionMarker
from odradek.transactions.batching import Batches, Peer, PeerDirectory
from odradek.transactions.local_markers import Outcomes

_REQUEST_TIMEOUT_MS: Final = 10_000
_VERSION_THAT_RAISES: Final = 2


class _Parcel(NamedTuple):
    """A marker for partitions that one broker leads."""

    marker: TransactionMarker
    partitions: Sequence[TopicPartition]


class RemoteMarkers:
    def __init__(self, peers: PeerDirectory) -> None:
        self._batches: Batches[_Parcel, Outcomes] = Batches(peers, "markers", _send)

    async def write(
        self, by_leader: Mapping[BrokerId, Sequence[TopicPartition]], marker: TransactionMarker
    ) -> Outcomes:
        """Asks all leaders at once."""
        found = await asyncio.gather(
            *(self._write(leader, _Parcel(marker, led)) for leader, led in by_leader.items())
        )
        return {partition: error for part in found for partition, error in part.items()}

    def close(self) -> None:
        self._batches.close()

    async def _write(self, leader: BrokerId, parcel: _Parcel) -> Outcomes:
        try:
            answered = await self._batches.ask(leader, parcel)
        except ApiError as refusal:
            return dict.fromkeys(parcel.partitions, refusal.code)
        # One that the answer leaves out is not known to be written.
        return {one: answered.get(one, ErrorCode.NETWORK_EXCEPTION) for one in parcel.partitions}


async def _send(peer: Peer, parcels: Sequence[_Parcel]) -> list[Outcomes]:
    request = WriteTxnMarkersRequest(markers=[_marker(parcel) for parcel in parcels])
    response = await peer.request(request, WriteTxnMarkersResponse, timeout_ms=_REQUEST_TIMEOUT_MS)
    # In the order of the request: a producer may be in it twice.
    return [
        {
            TopicPartition(topic.name, one.partition_index): ErrorCode(one.error_code)
            for topic in result.topics
            for one in topic.partitions
        }
        for result in response.markers
    ]


def _marker(parcel: _Parcel) -> WritableTxnMarker:
    marker = parcel.marker
    topics: dict[str, list[int]] = {}
    for topic, index in parcel.partitions:
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
        transaction_version=_VERSION_THAT_RAISES if marker.is_bumped else 0,
    )
