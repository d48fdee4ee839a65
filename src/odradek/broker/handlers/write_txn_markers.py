"""WriteTxnMarkers 1-2: another broker's coordinator ends transactions in partitions led here.

Version 2 says whether the marker's epoch is above that of the records (transactions version 2):
then a marker that comes late, when the producer's next transaction is open, ends nothing.
"""

from typing import Final

from odradek.broker.services import RequestContext, Services
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from odradek.protocol.types import TopicPartition
from odradek.replication.partition import TransactionMarker
from odradek.replication.refusal import Refused
from odradek.statemachine.machine import ProducerIdentity

_FIRST_TRANSACTION_VERSION_THAT_RAISES: Final = 2


async def handle(
    services: Services, context: RequestContext, request: WriteTxnMarkersRequest
) -> WriteTxnMarkersResponse:
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                producer_id=asked.producer_id, topics=await _write(services, asked)
            )
            for asked in request.markers
        ]
    )


async def _write(
    services: Services, asked: WritableTxnMarker
) -> list[WritableTxnMarkerTopicResult]:
    marker = TransactionMarker(
        ProducerIdentity(asked.producer_id, asked.producer_epoch),
        asked.transaction_result,
        asked.coordinator_epoch,
        asked.transaction_version >= _FIRST_TRANSACTION_VERSION_THAT_RAISES,
    )
    topics = []
    for topic in asked.topics:
        results = []
        for index in topic.partition_indexes:
            error = ErrorCode.NONE
            try:
                await services.markers.write(TopicPartition(topic.name, index), marker)
            except Refused as refusal:
                error = refusal.code
            results.append(
                WritableTxnMarkerPartitionResult(partition_index=index, error_code=error)
            )
        topics.append(WritableTxnMarkerTopicResult(name=topic.name, partitions=results))
    return topics
