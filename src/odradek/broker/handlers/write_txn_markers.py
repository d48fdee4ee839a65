"""WriteTxnMarkers (v1-v2): a transaction coordinator on another broker ends transactions in
partitions that this broker leads.

Version 2 says whether the epoch of the marker is above that of the records (transactions version
2). If so, a marker that comes late, when the next transaction of the producer is open, ends
nothing.
"""

from collections.abc import Sequence
from typing import Final

from odradek.broker.handlers import Handler
from odradek.broker.permissions import CheckedByHandler
from odradek.broker.request_splitting import Splitting
from odradek.broker.services import RequestContext, Services
from odradek.protocol.acls import Operation
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.write_txn_markers import (
    API,
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopic,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from odradek.protocol.types import TopicPartition
from odradek.replication.pending_append import TransactionMarker
from odradek.statemachine.machine import ProducerIdentity
from odradek.transactions.local_markers import AppendedMarkers, MarkerErrors
from odradek.transactions.transaction import VERSION_2
from odradek.world.timeslice import Timeslice


async def handle(
    services: Services, context: RequestContext, request: WriteTxnMarkersRequest
) -> WriteTxnMarkersResponse:
    # Operators who end a hanging transaction have ALTER (KIP-664), brokers CLUSTER_ACTION.
    if not context.authorize_cluster_without_logging(
        Operation.ALTER
    ) and not context.authorize_cluster(Operation.CLUSTER_ACTION):
        return _denied_result(request)
    # All markers are appended before the first is awaited, so that replicas fetch them together.
    appended = [await _append(services, marker) for marker in request.markers]
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                producer_id=marker.producer_id,
                topics=await _results(marker.topics, await markers.committed()),
            )
            for marker, markers in zip(request.markers, appended, strict=True)
        ]
    )


def _denied_result(request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                producer_id=marker.producer_id,
                topics=[
                    WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=[
                            WritableTxnMarkerPartitionResult(
                                partition_index=index,
                                error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
                            )
                            for index in topic.partition_indexes
                        ],
                    )
                    for topic in marker.topics
                ],
            )
            for marker in request.markers
        ]
    )


async def _append(services: Services, writable: WritableTxnMarker) -> AppendedMarkers:
    marker = TransactionMarker(
        ProducerIdentity(writable.producer_id, writable.producer_epoch),
        writable.transaction_result,
        writable.coordinator_epoch,
        writable.transaction_version >= VERSION_2,
    )
    partitions = (
        TopicPartition(topic.name, index)
        for topic in writable.topics
        for index in topic.partition_indexes
    )
    return await services.markers.append(partitions, marker)


async def _results(
    topics: Sequence[WritableTxnMarkerTopic], outcomes: MarkerErrors
) -> list[WritableTxnMarkerTopicResult]:
    timeslice = Timeslice.of_running_loop()
    results = []
    for topic in topics:
        result = WritableTxnMarkerTopicResult(name=topic.name)
        results.append(result)
        for index in topic.partition_indexes:
            if timeslice.is_over():
                await timeslice.next_turn()
            error = outcomes[TopicPartition(topic.name, index)]
            result.partitions.append(
                WritableTxnMarkerPartitionResult(partition_index=index, error_code=error)
            )
    return results


HANDLER: Final = Handler(
    API,
    handle,
    permission=CheckedByHandler("ALTER or CLUSTER_ACTION on the cluster"),
    # The handler yields to other tasks within a marker too.
    splitting=[Splitting("markers", "markers")],
)
