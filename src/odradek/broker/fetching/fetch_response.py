"""Makes the response to a fetch from what its passes found.

The response names all partitions of a full request, and of an incremental one only those of which
there is something new. After the response each partition of a session is due or idle
again: those that gave records come last in the next pass, so that a busy partition does not starve
the others.
"""

from collections.abc import Iterable
from typing import Final

from odradek.broker.current_leaders import CurrentLeaders
from odradek.broker.fetching.due_partitions import FetchEntry
from odradek.broker.fetching.fetch_lifecycle import Fetch
from odradek.broker.fetching.fetch_reads import FetchReads
from odradek.metadata import ClusterImage
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)

_LEADS_ELSEWHERE: Final = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)

Result = tuple[FetchEntry, PartitionData]


def add_results(response: FetchResponse, fetch: Fetch, results: Iterable[Result]) -> None:
    """Adds all results to the response, or those that are new in an incremental one."""
    topics, is_incremental = response.responses, fetch.is_incremental
    for entry, data in results:
        if is_incremental and not _is_new(entry, data):
            continue
        if not topics or topics[-1].topic != entry.topic or topics[-1].topic_id != entry.topic_id:
            topics.append(
                FetchableTopicResponse(topic=entry.topic, topic_id=entry.topic_id, partitions=[])
            )
        topics[-1].partitions.append(data)


def remember(
    reads: FetchReads,
    results: Iterable[Result],
    without_records: list[FetchEntry],
    with_records: list[FetchEntry],
) -> None:
    """Notes in a session what the response tells the client, and makes partitions idle of which
    there is nothing else to tell. The others are added to one of the lists, and stay due."""
    for entry, data in results:
        entry.last_sent_high_watermark = data.high_watermark
        entry.last_sent_log_start = data.log_start_offset
        if not reads.make_idle(entry, data):
            (with_records if data.records else without_records).append(entry)


def _is_new(entry: FetchEntry, data: PartitionData) -> bool:
    """Returns whether an incremental response has to name the partition (KIP-227): the client does
    not know all of `data` yet."""
    return bool(
        data.records
        or data.error_code
        or data.high_watermark != entry.last_sent_high_watermark
        or data.log_start_offset != entry.last_sent_log_start
        or data.diverging_epoch is not None
        or data.preferred_read_replica >= 0
    )


def add_leaders(response: FetchResponse, image: ClusterImage, listener: str) -> None:
    """Tells a client that came to the wrong broker which one leads (KIP-951)."""
    leaders = CurrentLeaders(image)
    for answered in response.responses:
        topic = leaders.topic(answered.topic, answered.topic_id)
        if topic is None:
            continue
        for data in answered.partitions:
            if data.error_code not in _LEADS_ELSEWHERE:
                continue
            found = leaders.of(topic, data.partition_index)
            if found is not None:
                data.current_leader = LeaderIdAndEpoch(leader_id=found[0], leader_epoch=found[1])
    response.node_endpoints = [
        NodeEndpoint(node_id=broker.id, host=address.host, port=address.port, rack=broker.rack)
        for broker, address in leaders.addresses(listener)
    ]
