"""Asks brokers for their log end offsets, for an unclean election.

Followers too answer ListOffsets in the name of a debugging replica, with the log end offset and the
leader epoch of the last record. Logs are compared by epoch first, then by offset.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

from odradek.client.errors import ClientError
from odradek.protocol.errors import KafkaError
from odradek.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from odradek.protocol.types import BrokerId, LeaderEpoch, Offset, TopicPartition
from odradek.replication.peers import Peers, PeerUnreachable

_DEBUGGING_REPLICA: Final = BrokerId(-2)
_LATEST: Final = -1
_TIMEOUT_S: Final = 2.0

_End = tuple[LeaderEpoch, Offset]


async def longest_log(
    peers: Peers, topic_partition: TopicPartition, candidates: Sequence[BrokerId]
) -> BrokerId | None:
    """Returns the candidate with the longest log, the first of equals; None if none answers."""
    ends = await asyncio.gather(*(_end(peers, topic_partition, broker) for broker in candidates))
    answered = [(end, broker) for end, broker in zip(ends, candidates, strict=True) if end]
    if not answered:
        return None
    return max(answered, key=lambda pair: pair[0])[1]


async def _end(peers: Peers, topic_partition: TopicPartition, broker: BrokerId) -> _End | None:
    request = ListOffsetsRequest(
        replica_id=_DEBUGGING_REPLICA,
        topics=[
            ListOffsetsTopic(
                name=topic_partition.topic,
                partitions=[
                    ListOffsetsPartition(
                        partition_index=topic_partition.partition, timestamp=_LATEST
                    )
                ],
            )
        ],
    )
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            connection = await peers.connection(broker)
            response = await connection.request(request, ListOffsetsResponse)
    except (PeerUnreachable, ClientError, KafkaError, TimeoutError):
        return None
    answer = response.topics[0].partitions[0]
    return None if answer.error_code else (answer.leader_epoch, answer.offset)
