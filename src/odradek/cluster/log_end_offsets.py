"""Asks brokers how long their logs are: for the election of a leader that may lack records.

ListOffsets in the name of a debugging replica is answered by followers too, with the log's end
and the epoch of its last record. Records of a later epoch weigh more than many of an earlier one.
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
from odradek.protocol.types import BrokerId, TopicPartition
from odradek.replication.peers import Peers, PeerUnreachable

_DEBUGGING_REPLICA: Final = -2
_LATEST: Final = -1
_PATIENCE_S: Final = 2.0

_End = tuple[int, int]


async def longest_log(
    peers: Peers, where: TopicPartition, candidates: Sequence[BrokerId]
) -> BrokerId | None:
    """The candidate whose log reaches furthest, the first of equals; None if nobody answers."""
    ends = await asyncio.gather(*(_end(peers, where, broker) for broker in candidates))
    answered = [(end, broker) for end, broker in zip(ends, candidates, strict=True) if end]
    if not answered:
        return None
    return max(answered, key=lambda pair: pair[0])[1]


async def _end(peers: Peers, where: TopicPartition, broker: BrokerId) -> _End | None:
    request = ListOffsetsRequest(
        replica_id=_DEBUGGING_REPLICA,
        topics=[
            ListOffsetsTopic(
                name=where.topic,
                partitions=[
                    ListOffsetsPartition(partition_index=where.partition, timestamp=_LATEST)
                ],
            )
        ],
    )
    try:
        async with asyncio.timeout(_PATIENCE_S):
            connection = await peers.connection(broker)
            response = await connection.request(request, ListOffsetsResponse)
    except (PeerUnreachable, ClientError, KafkaError, TimeoutError):
        return None
    answer = response.topics[0].partitions[0]
    return None if answer.error_code else (answer.leader_epoch, answer.offset)
