"""OffsetForLeaderEpoch 2-4: where the log of a leader epoch ends, so that others can truncate.

The answer is the largest epoch the log knows that is not above the one asked for, and the
offset at which the next epoch begins.
"""

from typing import Final

from odradek.broker.handlers import Handler
from odradek.broker.request_splitting import PARTITIONS
from odradek.broker.services import RequestContext, Services
from odradek.protocol.api_error import ApiError
from odradek.protocol.messages.offset_for_leader_epoch import (
    API,
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from odradek.protocol.types import LeaderEpoch


def handle(
    services: Services, context: RequestContext, request: OffsetForLeaderEpochRequest
) -> OffsetForLeaderEpochResponse:
    topics = []
    for topic in request.topics:
        answers = []
        for asked in topic.partitions:
            answer = EpochEndOffset(partition=asked.partition)
            answers.append(answer)
            try:
                partition = services.replicas.leader(topic.topic, asked.partition)
                partition.check_epoch(asked.current_leader_epoch)
            except ApiError as refusal:
                answer.error_code = refusal.code
                continue
            found = partition.end_of_epoch(LeaderEpoch(asked.leader_epoch))
            answer.leader_epoch, answer.end_offset = found
        topics.append(OffsetForLeaderTopicResult(topic=topic.topic, partitions=answers))
    return OffsetForLeaderEpochResponse(topics=topics)


HANDLER: Final = Handler(API, handle, splitting=[PARTITIONS])
