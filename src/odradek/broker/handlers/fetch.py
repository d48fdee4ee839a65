"""Fetch 4-18: records from an offset on, at once or when enough of them are there.

A fetch that finds too little waits for the watermarks of its partitions and reads those again
that moved, until `min_bytes` are there or `max_wait_ms` is over. The records of the reply
are pinned slices of the log: nothing is read before the socket takes it. A fetch in a session
reads only what may have something new since the last one (`broker.fetching.interest`). What is
read for consumers and for replicas: `broker.fetching.consumer_reads` and
`broker.fetching.replica_reads`.

A fetch of thousands of partitions is read, answered and encoded in steps, and others are served in
between (`world.timeslice`). What moves between the step that read it and the last one is noted,
because each step registers with the watermarks of what it read.
"""

import asyncio
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from odradek.broker.fetching.consumer_reads import ConsumerReads
from odradek.broker.fetching.fetch_reads import FetchReads
from odradek.broker.fetching.fetch_sessions import Fetch, requested
from odradek.broker.fetching.interest import FetchEntry
from odradek.broker.handlers import Handler
from odradek.broker.network.endpoints import reachable
from odradek.broker.services import Encoded, RequestContext, Services
from odradek.metadata.node_values import NO_LEADER
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.fetch import (
    API,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from odradek.world.timeslice import Timeslice

_FIRST_VERSION_WITH_LEADERS: Final = 16
# Up to so many partitions are read and answered at once, a few milliseconds' work.
_FEW: Final = 300
_AT_ONCE: Final = 100
_LEADS_ELSEWHERE: Final = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


Answer = FetchResponse | Encoded


def handle(
    services: Services, context: RequestContext, request: FetchRequest
) -> Answer | Awaitable[Answer]:
    now_s = asyncio.get_running_loop().time()
    if len(request.topics) > _FEW or sum(len(one.partitions) for one in request.topics) > _FEW:
        return _begin_in_steps(services, context, request, now_s)
    fetch = services.fetch_sessions.begin(request, context.version, now_s)
    return _serve(services, context, request, fetch, now_s)


async def _begin_in_steps(
    services: Services, context: RequestContext, request: FetchRequest, now_s: float
) -> Answer:
    entries: list[FetchEntry] | None = None
    if request.session_epoch <= 0:
        entries = []
        timeslice = Timeslice.of_running_loop()
        for entry in requested(request, context.version, {}):
            if not len(entries) % _AT_ONCE and timeslice.is_over():
                await timeslice.next_turn()
            entries.append(entry)
    fetch = services.fetch_sessions.begin(request, context.version, now_s, entries)
    answer = _serve(services, context, request, fetch, now_s)
    return await answer if isinstance(answer, Awaitable) else answer


def _serve(
    services: Services,
    context: RequestContext,
    request: FetchRequest,
    fetch: Fetch,
    now_s: float,
) -> Answer | Awaitable[Answer]:
    if fetch.error:
        return FetchResponse(error_code=fetch.error, session_id=fetch.session_id)
    replica = request.replica_state
    is_replica = (request.replica_id if replica is None else replica.replica_id) >= 0
    reads: FetchReads
    if is_replica:
        from odradek.broker.fetching.replica_reads import ReplicaReads  # noqa: PLC0415 - only in clusters

        reads = ReplicaReads(services, request, fetch.session, now_s)
    else:
        reads = ConsumerReads(services, request, context)
    if fetch.incremental and fetch.session is not None and not reads.trusts_silence:
        fetch.session.doubt()
    entries = fetch.interest.take()
    deadline_s = now_s + request.max_wait_ms / 1000
    may_wait = request.max_wait_ms > 0 and bool(entries or fetch.incremental)
    asked = _Asked(services, context, fetch, reads, deadline_s, may_wait, is_replica)
    if len(entries) > _FEW:
        return _serve_many(asked, entries)
    reads.read(entries)
    if reads.is_enough or not may_wait:
        return _respond(asked)
    _begin_to_wait(asked)
    _watch(fetch, reads, entries)
    return _wait(asked)


class _Asked(NamedTuple):
    """A fetch and how it is to be answered."""

    services: Services
    context: RequestContext
    fetch: Fetch
    reads: FetchReads
    deadline_s: float
    may_wait: bool
    is_replica: bool


def _begin_to_wait(asked: _Asked) -> None:
    connection, interest = asked.context.connection, asked.fetch.interest
    # While memory for requests is short a large request is not to wait for this fetch, nor in it.
    connection.on_hurry = interest.hurry
    if asked.is_replica:
        # A follower with other wishes asks behind this fetch; it is not to wait for nothing.
        connection.on_overtaking = interest.hurry


async def _serve_many(asked: _Asked, entries: list[FetchEntry]) -> Answer:
    fetch, reads = asked.fetch, asked.reads
    is_answered = True
    try:
        await _read_in_steps(fetch, reads, entries)
        is_answered = reads.is_enough or not asked.may_wait
        if is_answered:
            return await _respond_in_steps(asked)
    finally:
        if is_answered and fetch.session is None:
            _leave(reads)
    _begin_to_wait(asked)
    _watch_many(fetch, reads, entries)
    return await _wait(asked)


async def _wait(asked: _Asked) -> Answer:
    loop = asyncio.get_running_loop()
    fetch, reads = asked.fetch, asked.reads
    interest = fetch.interest
    try:
        while True:
            moved = await interest.wait(asked.deadline_s - loop.time())
            entries = interest.take()
            is_many = len(entries) > _FEW
            if is_many:
                await _read_in_steps(fetch, reads, entries)
            else:
                reads.read(entries)
            if reads.is_enough or not moved:
                return await _respond_in_steps(asked) if is_many else _respond(asked)
            (_watch_many if is_many else _watch)(fetch, reads, entries)
    finally:
        connection = asked.context.connection
        connection.on_overtaking = connection.on_hurry = None
        if fetch.session is None:
            _leave(reads)


def _leave(reads: FetchReads) -> None:
    for entry in reads.results:
        entry.leave()


@contextmanager
def _doubted_if_cut_short(fetch: Fetch) -> Iterator[None]:
    """A client that goes away in the middle leaves a session in which nobody knows what was read:
    everything is, the next time."""
    try:
        yield
    except BaseException:
        if fetch.session is not None:
            fetch.session.doubt()
        raise


async def _read_in_steps(fetch: Fetch, reads: FetchReads, entries: list[FetchEntry]) -> None:
    """One pass over many. Each step registers with what it read, so that what moves until the pass
    is over becomes hot again."""
    timeslice = Timeslice.of_running_loop()
    with _doubted_if_cut_short(fetch):
        for first in range(0, len(entries), _AT_ONCE):
            if timeslice.is_over():
                await timeslice.next_turn()
            some = entries[first : first + _AT_ONCE]
            reads.read(some, goes_on=first > 0)
            reads.register(some)


def _watch_many(fetch: Fetch, reads: FetchReads, entries: list[FetchEntry]) -> None:
    """After a pass in steps that found too little."""
    has_moved = fetch.interest.is_stirred
    _arm(fetch, reads, reads.again(entries))
    if has_moved:
        fetch.interest.stir()


def _watch(fetch: Fetch, reads: FetchReads, entries: list[FetchEntry]) -> None:
    """In the same step as the read that found too little."""
    _arm(fetch, reads, reads.watch(entries))


def _arm(fetch: Fetch, reads: FetchReads, again: list[FetchEntry]) -> None:
    fetch.interest.give_back(again)
    fetch.interest.arm()
    if reads.resume_s is not None:
        loop = asyncio.get_running_loop()
        loop.call_later(max(reads.resume_s - loop.time(), 0.0), fetch.interest.stir)
        reads.resume_s = None


def _respond(asked: _Asked) -> FetchResponse:
    fetch, reads = asked.fetch, asked.reads
    response = FetchResponse(session_id=fetch.session_id)
    told = _tell(fetch, reads.results, response)
    if fetch.session is not None:
        served: list[FetchEntry] = []
        fetch.interest.give_back(_remember(reads, reads.results, served))
        fetch.interest.give_back(served)
    _finish(asked, response, told)
    return response


async def _respond_in_steps(asked: _Asked) -> Encoded:
    """The same for many partitions, and encoded."""
    fetch, reads, version = asked.fetch, asked.reads, asked.context.version
    timeslice = Timeslice.of_running_loop()
    response = FetchResponse(session_id=fetch.session_id)
    told: dict[FetchEntry, PartitionData] = {}
    unserved: list[FetchEntry] = []
    served: list[FetchEntry] = []
    results = list(reads.results.items())
    with _doubted_if_cut_short(fetch):
        for first in range(0, len(results), _AT_ONCE):
            if timeslice.is_over():
                await timeslice.next_turn()
            some = dict(results[first : first + _AT_ONCE])
            told.update(_tell(fetch, some, response))
            if fetch.session is not None:
                unserved += _remember(reads, some, served)
    fetch.interest.give_back(unserved)
    fetch.interest.give_back(served)
    _finish(asked, response, told)
    return Encoded(response, await timeslice.run(response.encode_stepwise(version)))


def _tell(
    fetch: Fetch, results: dict[FetchEntry, PartitionData], response: FetchResponse
) -> dict[FetchEntry, PartitionData]:
    """Puts results into the response: all of them, or what is new in a session. Returns those."""
    if fetch.session is not None and fetch.incremental:
        results = {entry: data for entry, data in results.items() if _is_news(entry, data)}
    topics = response.responses
    for entry, data in results.items():
        if not topics or topics[-1].topic != entry.topic or topics[-1].topic_id != entry.topic_id:
            topics.append(
                FetchableTopicResponse(topic=entry.topic, topic_id=entry.topic_id, partitions=[])
            )
        topics[-1].partitions.append(data)
    return results


def _finish(asked: _Asked, response: FetchResponse, told: dict[FetchEntry, PartitionData]) -> None:
    if asked.reads.is_refused and asked.context.version >= _FIRST_VERSION_WITH_LEADERS:
        _add_leaders(asked.services, asked.context, response, told)


def _remember(
    reads: FetchReads, results: dict[FetchEntry, PartitionData], served: list[FetchEntry]
) -> list[FetchEntry]:
    """Notes what the client knows now; returns which partitions are to be read for it the next
    time, and adds those that gave data to `served`: they come last, so that a busy one does not
    starve the rest."""
    unserved: list[FetchEntry] = []
    for entry, data in results.items():
        entry.told_high_watermark = data.high_watermark
        entry.told_log_start = data.log_start_offset
        if not reads.fall_silent(entry, data):
            (served if data.records else unserved).append(entry)
    return unserved


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


HANDLER: Final = Handler(API, handle, has_small_responses=True)
