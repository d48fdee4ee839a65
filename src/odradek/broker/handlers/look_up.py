"""LookUp 0: the newest record of a key, from a partition's leader. Odradek's own API.

What is committed counts, for read_committed what is decided: as for a consumer that has read
the partition to its end. A tombstone that is still there is answered, without a value. Any
topic can be asked; on one that is not compacted the answer is what retention has left.

The first look-up in a partition has an index made, from then on it is kept current (see
`storage/key_index`). Meanwhile the log is read, downwards, until the key is found: the answer
is the same, it only takes longer. Not done: nothing is answered by followers.
"""

import asyncio

from odradek.broker.services import RequestContext, Services
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.look_up import (
    LookUpHeader,
    LookUpPartition,
    LookUpPartitionResult,
    LookUpRequest,
    LookUpResponse,
    LookUpResult,
    LookUpTopicResult,
)
from odradek.replication.refusal import Refused
from odradek.storage import StorageError
from odradek.storage.key_index_search import BytesRead, FoundRecord

_READ_COMMITTED = 1
# Then others get a turn.
_KEYS_AT_ONCE = 100


async def handle(
    services: Services, context: RequestContext, request: LookUpRequest
) -> LookUpResponse:
    committed_only = request.isolation_level == _READ_COMMITTED
    topics = []
    for topic in request.topics:
        answers = []
        for asked in topic.partitions:
            answer = LookUpPartitionResult(partition_index=asked.partition_index)
            try:
                await _look_up(services, topic.name, asked, answer, committed_only)
            except Refused as refusal:
                answer.results = []
                answer.error_code, answer.error_message = refusal.code, refusal.message
            answers.append(answer)
        topics.append(LookUpTopicResult(name=topic.name, partitions=answers))
    return LookUpResponse(topics=topics)


async def _look_up(
    services: Services,
    topic: str,
    asked: LookUpPartition,
    answer: LookUpPartitionResult,
    committed_only: bool,
) -> None:
    partition = services.replicas.leader(topic, asked.partition_index)
    partition.check_epoch(asked.current_leader_epoch)
    if not partition.knows_its_end:
        # A former leader may have answered with something newer.
        raise Refused(ErrorCode.OFFSET_NOT_AVAILABLE)
    epoch = partition.leader_epoch
    read = BytesRead()
    try:
        index = services.key_indexes.of(partition.log)
        for number, wanted in enumerate(asked.keys):
            if not number % _KEYS_AT_ONCE:
                await asyncio.sleep(0)  # What the index has in memory is found without waiting.
            found = await index.look_up(
                bytes(wanted.key),
                end_offset=partition.readable(committed_only).value,
                committed_only=committed_only,
                read=read,
            )
            answer.results.append(_result(found))
        answer.unindexed_bytes = services.key_indexes.looked_up(index)
    except StorageError as error:
        raise Refused(error.code, str(error)) from error
    answer.bytes_read = read.total
    if not partition.is_leader or partition.leader_epoch != epoch:
        raise Refused(ErrorCode.NOT_LEADER_OR_FOLLOWER)


def _result(found: FoundRecord | None) -> LookUpResult:
    if found is None:
        return LookUpResult()
    record = found.record
    return LookUpResult(
        offset=record.offset,
        leader_epoch=found.leader_epoch,
        timestamp=record.timestamp_ms,
        timestamp_type=int(found.is_log_append_time),
        value=record.value,
        headers=[LookUpHeader(name=name, value=value) for name, value in record.headers],
    )
