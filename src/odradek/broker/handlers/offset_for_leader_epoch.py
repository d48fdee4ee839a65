"""OffsetForLeaderEpoch (v2-v4): the offset at which a leader epoch ends, where followers truncate.

The answer is the largest epoch of the log that is not larger than the requested one, and the offset
at which the next epoch begins.
"""

from typing import Final

from odradek.broker.handlers import Handler
from odradek.broker.permissions import CheckedByHandler
from odradek.broker.request_splitting import PARTITIONS
from odradek.broker.services import RequestContext, Services
from odradek.protocol.acls import Operation, ResourceType
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.offset_for_leader_epoch import (
    API,
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopic,
    OffsetForLeaderTopicResult,
)
from odradek.protocol.types import LeaderEpoch


def handle(
    services: Services, context: RequestContext, request: OffsetForLeaderEpochRequest
) -> OffsetForLeaderEpochResponse:
    topics = []
    allowed, denied = request.topics, list[OffsetForLeaderTopic]()
    if not context.authorize_cluster_without_logging(Operation.CLUSTER_ACTION):
        allowed, denied = context.split_authorized(
            Operation.DESCRIBE, ResourceType.TOPIC, request.topics, lambda topic: topic.topic
        )
    for topic in allowed:
        answers = []
        for partition_request in topic.partitions:
            answer = EpochEndOffset(partition=partition_request.partition)
            answers.append(answer)
            try:
                partition = services.replicas.leader(topic.topic, partition_request.partition)
                partition.check_epoch(partition_request.current_leader_epoch)
            except ApiError as error:
                answer.error_code = error.code
                continue
            found = partition.end_of_epoch(LeaderEpoch(partition_request.leader_epoch))
            answer.leader_epoch, answer.end_offset = found
        topics.append(OffsetForLeaderTopicResult(topic=topic.topic, partitions=answers))
    return OffsetForLeaderEpochResponse(topics=topics + [_denied_result(topic) for topic in denied])


def _denied_result(topic: OffsetForLeaderTopic) -> OffsetForLeaderTopicResult:
    return OffsetForLeaderTopicResult(
        topic=topic.topic,
        partitions=[
            EpochEndOffset(
                partition=partition.partition, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED
            )
            for partition in topic.partitions
        ],
    )


HANDLER: Final = Handler(
    API,
    handle,
    permission=CheckedByHandler("DESCRIBE on each topic, or CLUSTER_ACTION on the cluster"),
    splitting=[PARTITIONS],
)
