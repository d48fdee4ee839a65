"""Fetch 4-18: records from an offset on, at once or when enough of them are there.

A fetch that finds too little waits for the watermarks of its partitions and reads those again
that moved, until `min_bytes` are there or `max_wait_ms` is over. The records of the reply
are pinned slices of the log: nothing is read before the socket takes it. A fetch in a session
reads only what may have something new since the last one (`broker.interest`). What is
read for consumers and for replicas: `broker.consumer_reads`, `broker.replica_reads`.
"""

import asyncio
from collections.abc import Awaitable
from typing import Final

from odradek.broker.consumer_reads import ConsumerReads
from odradek.broker.endpoints import reachable
from odradek.broker.fetch_reads import FetchReads
from odradek.broker.fetch_sessions import Fetch
from odradek.broker.interest import FetchEntry
from odradek.broker.services import RequestContext, Services
from odradek.metadata.layout import NO_LEADER
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)

_FIRST_VERSION_WITH_LEADERS: Final = 16
_LEADS_ELSEWHERE: Final = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


def handle(
    services: Services, context: RequestContext, request: FetchRequest
) -> FetchResponse | Awaitable[FetchResponse]:
    now_s = asyncio.get_running_loop().time()
    fetch = services.fetch_sessions.begin(request, context.version, now_s)
    if fetch.error:
        return FetchResponse(error_code=fetch.error, session_id=fetch.session_id)
    replica = request.replica_state
    is_replica = (request.replica_id if replica is None else replica.replica_id) >= 0
    reads: FetchReads
    if is_replica:
        from odradek.broker.replica_reads import ReplicaReads  # noqa: PLC0415 - only in clusters

        reads = ReplicaReads(services, request, fetch.session, now_s)
    else:
        reads = ConsumerReads(services, request, context)
    if fetch.incremental and fetch.session is not None and not reads.trusts_silence:
        fetch.session.doubt()
    entries = fetch.interest.take()
    reads.read(entries)
    if reads.is_enough or request.max_wait_ms <= 0 or not (entries or fetch.incremental):
        return _respond(services, context, fetch, reads)
    deadline_s = now_s + request.max_wait_ms / 1000
    # While memory for requests is short a large request is not to wait for this fetch, nor in it.
    context.connection.on_hurry = fetch.interest.hurry
    if is_replica:
        # A follower with other wishes asks behind this fetch; it is not to wait for nothing.
        context.connection.on_overtaking = fetch.interest.hurry
    _watch(fetch, reads, entries)
    return _wait(services, context, fetch, reads, deadline_s)


async def _wait(
    services: Services,
    context: RequestContext,
    fetch: Fetch,
    reads: FetchReads,
    deadline_s: float,
) -> FetchResponse:
    loop = asyncio.get_running_loop()
    interest = fetch.interest
    try:
        while True:
            moved = await interest.wait(deadline_s - loop.time())
            entries = interest.take()
            reads.read(entries)
            if reads.is_enough or not moved:
                return _respond(services, context, fetch, reads)
            _watch(fetch, reads, entries)
    finally:
        context.connection.on_overtaking = context.connection.on_hurry = None
        if fetch.session is None:
            for entry in reads.results:
                entry.leave()


def _watch(fetch: Fetch, reads: FetchReads, entries: list[FetchEntry]) -> None:
    """In the same step as the read that found too little."""
    fetch.interest.give_back(reads.watch(entries))
    fetch.interest.arm()
    if reads.resume_s is not None:
        loop = asyncio.get_running_loop()
        loop.call_later(max(reads.resume_s - loop.time(), 0.0), fetch.interest.stir)
        reads.resume_s = None


def _respond(
    services: Services, context: RequestContext, fetch: Fetch, reads: FetchReads
) -> FetchResponse:
    results = reads.results
    if fetch.session is not None:
        if fetch.incremental:
            results = {entry: data for entry, data in results.items() if _is_news(entry, data)}
        _remember(fetch, reads)
    topics: list[FetchableTopicResponse] = []
    for entry, data in results.items():
        if not topics or topics[-1].topic != entry.topic or topics[-1].topic_id != entry.topic_id:
            topics.append(
                FetchableTopicResponse(topic=entry.topic, topic_id=entry.topic_id, partitions=[])
            )
        topics[-1].partitions.append(data)
    response = FetchResponse(session_id=fetch.session_id, responses=topics)
    if reads.is_refused and context.version >= _FIRST_VERSION_WITH_LEADERS:
        _add_leaders(services, context, response, results)
    return response


def _remember(fetch: Fetch, reads: FetchReads) -> None:
    """What the client knows now; and which partitions are to be read for it the next time:
    those that gave data last, so that a busy one does not starve the rest."""
    served: list[FetchEntry] = []
    unserved: list[FetchEntry] = []
    for entry, data in reads.results.items():
        entry.told_high_watermark = data.high_watermark
        entry.told_log_start = data.log_start_offset
        if not reads.fall_silent(entry, data):
            (served if data.records else unserved).append(entry)
    fetch.interest.give_back(unserved)
    fetch.interest.give_back(served)


def _is_news(entry: FetchEntry, data: PartitionData) -> bool:
    return bool(
        data.records
        or data.error_code
        or data.high_watermark != entry.told_high_watermark
        or data.log_start_offset != entry.told_log_start
        or data.diverging_epoch is not None
        or data.preferred_read_replica >= 0
    )


def _add_leaders(
    services: Services,
    context: RequestContext,
    response: FetchResponse,
    results: dict[FetchEntry, PartitionData],
) -> None:
    """Tells a client that came to the wrong broker where to go (KIP-951)."""
    image = services.images.image
    leaders: dict[int, None] = {}
    for entry, data in results.items():
        topic = image.topics.get(entry.topic) or image.topics_by_id.get(entry.topic_id)
        if topic is not None and data.error_code in _LEADS_ELSEWHERE:
            state = topic.partitions[entry.partition]
            leader = image.live_leader(state)
            if leader == NO_LEADER:
                continue  # Nobody, or this broker, which lost its lease: the client has to look.
            data.current_leader = LeaderIdAndEpoch(
                leader_id=leader, leader_epoch=state.leader_epoch
            )
            leaders[leader] = None
    response.node_endpoints = [
        NodeEndpoint(node_id=broker.id, host=listener.host, port=listener.port, rack=broker.rack)
        for broker, listener in reachable(image, context.connection.listener, leaders)
    ]
