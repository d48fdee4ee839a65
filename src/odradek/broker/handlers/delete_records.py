"""DeleteRecords 0-2: moves the start of the log up to an offset.

-1 means up to the high watermark. What lies below is gone for readers at once; the disk gets
the space back when whole segments fall below the start.
"""

from typing import Final

from odradek.broker.services import RequestContext, Services
from odradek.protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from odradek.protocol.types import Offset
from odradek.replication.refusal import Refused

_HIGH_WATERMARK: Final = -1


def handle(
    services: Services, context: RequestContext, request: DeleteRecordsRequest
) -> DeleteRecordsResponse:
    topics = []
    for topic in request.topics:
        answers = []
        for asked in topic.partitions:
            answer = DeleteRecordsPartitionResult(
                partition_index=asked.partition_index, low_watermark=-1
            )
            answers.append(answer)
            try:
                partition = services.replicas.leader(topic.name, asked.partition_index)
                upto = None if asked.offset == _HIGH_WATERMARK else Offset(asked.offset)
                answer.low_watermark = partition.delete_records(upto)
            except Refused as refusal:
                answer.error_code = refusal.code
        topics.append(DeleteRecordsTopicResult(name=topic.name, partitions=answers))
    return DeleteRecordsResponse(topics=topics)
