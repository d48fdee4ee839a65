"""Fetch (v4-v18): records from an offset on, at once or when enough bytes are available.

A fetch is a state machine (`broker.fetching.fetch_lifecycle`). This module drives it: it reads,
waits and answers. A fetch in a session reads only the partitions that may have new records since
the last fetch (`broker.fetching.due_partitions`). Up to which offset a client may read differs
between consumers and followers (`broker.fetching.consumer_reader`,
`broker.fetching.replica_reader`).

The records of a response are pinned slices of the log. They are read from the file only when the
socket can take them.

A fetch of many partitions is read, answered and encoded in steps, and yields to other tasks in
between (`world.timeslice`).
"""

import asyncio
from collections.abc import Awaitable
from typing import Final

from odradek.broker.fetching.consumer_reader import ConsumerReader
from odradek.broker.fetching.due_partitions import FetchEntry
from odradek.broker.fetching.fetch_lifecycle import Fetch
from odradek.broker.fetching.fetch_reads import FetchReads, PartitionReader
from odradek.broker.fetching.fetch_response import add_leaders, add_results, remember
from odradek.broker.fetching.fetch_sessions import read_entries
from odradek.broker.handlers import Handler
from odradek.broker.permissions import CheckedByHandler
from odradek.broker.services import Encoded, RequestContext, Services
from odradek.protocol.acls import Operation
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.fetch import (
    API,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from odradek.protocol.types import Offset
from odradek.world.timeslice import Timeslice

_FIRST_VERSION_WITH_LEADERS: Final = FetchResponse.first_version_with("node_endpoints")
# Up to so many partitions are read and answered in one step: a few milliseconds' work.
_MAX_IN_ONE_STEP: Final = 300
# With more, this many are read or answered between two looks at the time.
_STEP: Final = 100

Answer = FetchResponse | Encoded


def handle(
    services: Services, context: RequestContext, request: FetchRequest
) -> Answer | Awaitable[Answer]:
    # A consumer's permissions are checked when its partitions are read (`ConsumerReader`).
    if (
        services.authorizer is not None
        and _is_replica(request)
        and not context.authorize_cluster(Operation.CLUSTER_ACTION)
    ):
        return _denied_replica(request)
    now_s = asyncio.get_running_loop().time()
    count = len(request.topics)
    for topic in request.topics:
        count += len(topic.partitions)
    if count > _MAX_IN_ONE_STEP:
        return _begin_in_steps(services, context, request, now_s)
    fetch = services.fetch_sessions.begin(request, context.version, now_s)
    return _serve(services, context, request, fetch, now_s)


def _denied_replica(request: FetchRequest) -> FetchResponse:
    """Returns Kafka's answer to a client that fetches as a replica and may not: the error is at
    each partition. A request that names none, which continues a session, has it at the top."""
    if not request.topics:
        return FetchResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return FetchResponse(
        responses=[
            FetchableTopicResponse(
                topic=topic.topic,
                topic_id=topic.topic_id,
                partitions=[
                    PartitionData(
                        partition_index=one.partition, error_code=error, high_watermark=Offset(-1)
                    )
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


async def _begin_in_steps(
    services: Services, context: RequestContext, request: FetchRequest, now_s: float
) -> Answer:
    entries: list[FetchEntry] | None = None
    if request.session_epoch <= 0:
        entries = []
        timeslice = Timeslice.of_running_loop()
        for entry in read_entries(request, context.version, {}):
            if not len(entries) % _STEP and timeslice.is_over():
                await timeslice.next_turn()
            entries.append(entry)
    fetch = services.fetch_sessions.begin(request, context.version, now_s, entries)
    answer = _serve(services, context, request, fetch, now_s)
    return await answer if isinstance(answer, Awaitable) else answer


def _is_replica(request: FetchRequest) -> bool:
    replica = request.replica_state
    return (request.replica_id if replica is None else replica.replica_id) >= 0


def _serve(
    services: Services,
    context: RequestContext,
    request: FetchRequest,
    fetch: Fetch,
    now_s: float,
) -> Answer | Awaitable[Answer]:
    if fetch.error:
        return FetchResponse(error_code=fetch.error, session_id=fetch.session_id)
    is_replica = _is_replica(request)
    max_bytes = request.max_bytes
    reader: PartitionReader
    if is_replica:
        from odradek.broker.fetching.replica_reader import ReplicaReader  # noqa: PLC0415 - only in clusters

        reader = ReplicaReader(services, request, fetch.session, now_s)
    else:
        reader = ConsumerReader(services, request, context)
        max_bytes = min(max_bytes, services.settings.broker.fetch_max_bytes)
    if fetch.is_incremental and fetch.session is not None and not reader.may_skip_idle:
        fetch.session.mark_all_due()
    entries = fetch.due.take_all()
    if request.max_wait_ms <= 0 or not (entries or fetch.is_incremental):
        fetch.interrupt()
    reads = FetchReads(reader, min_bytes=request.min_bytes, max_bytes=max_bytes)
    serving = _Serving(services, context, fetch, reads)
    if len(entries) <= _MAX_IN_ONE_STEP:
        answer = serving.read(entries)
        if answer is not None:
            return answer
        entries = []
    deadline_s = now_s + request.max_wait_ms / 1000
    # Not in the coroutine, which begins in a later step of the event loop.
    fetch.start_waiting(deadline_s, ends_for_next_request=is_replica)
    context.connection.begin_wait(fetch)
    return serving.wait_and_read(entries)


class _Serving:
    """Moves one fetch through its states, from READING to ANSWERED."""

    __slots__ = ("_context", "_fetch", "_reads", "_services")

    def __init__(
        self, services: Services, context: RequestContext, fetch: Fetch, reads: FetchReads
    ) -> None:
        self._services = services
        self._context = context
        self._fetch = fetch
        self._reads = reads

    def read(self, entries: list[FetchEntry]) -> FetchResponse | None:
        """Makes a pass over few partitions; returns the response, or None if the fetch waits."""
        fetch, reads = self._fetch, self._reads
        try:
            reads.read(entries)
            if fetch.pass_ended(is_enough=reads.is_enough):
                return self._respond()
            reads.register(entries)
            fetch.due.put_back(reads.still_due(entries))
        except BaseException:
            self._abandon()
            raise
        return None

    async def wait_and_read(self, entries: list[FetchEntry]) -> Answer:
        """Serves a fetch that waits. `entries` are the partitions of a fetch that has not read
        them yet, because they are too many for one step."""
        fetch = self._fetch
        try:
            while True:
                if not entries:
                    await fetch.wait(self._reads.take_resume_s())
                    if fetch.is_abandoned:
                        return self._refuse_superseded()
                    entries = fetch.due.take_all()
                if len(entries) > _MAX_IN_ONE_STEP:
                    answer: Answer | None = await self._read_in_steps(entries)
                else:
                    answer = self.read(entries)
                if answer is not None:
                    return answer
                entries = []
        except BaseException:
            self._abandon()
            raise
        finally:
            self._context.connection.end_wait()
            if fetch.session is None:
                self._reads.unregister()

    async def _read_in_steps(self, entries: list[FetchEntry]) -> Answer | None:
        """Does the same as `read` for many partitions. Each step registers what it read, so that
        a change in a later step ends the wait."""
        fetch, reads = self._fetch, self._reads
        timeslice = Timeslice.of_running_loop()
        for first in range(0, len(entries), _STEP):
            if timeslice.is_over():
                await timeslice.next_turn()
            some = entries[first : first + _STEP]
            reads.read(some, continues=first > 0)
            reads.register(some)
        if fetch.pass_ended(is_enough=reads.is_enough):
            return await self._respond_in_steps()
        if not fetch.is_abandoned:
            fetch.due.put_back(reads.still_due(entries))
        return None

    def _respond(self) -> FetchResponse:
        fetch, reads = self._fetch, self._reads
        response = FetchResponse(session_id=fetch.session_id)
        add_results(response, fetch, reads.results.items())
        if reads.has_errors:
            self._add_leaders(response)
        if fetch.session is not None and reads.results:
            without_records: list[FetchEntry] = []
            with_records: list[FetchEntry] = []
            remember(reads, reads.results.items(), without_records, with_records)
            fetch.due.put_back(without_records)
            fetch.due.put_back(with_records)
        fetch.responded()
        return response

    async def _respond_in_steps(self) -> Encoded | None:
        """Does the same for many partitions, and encodes the response. Returns None if the fetch
        is superseded meanwhile."""
        fetch, reads, timeslice = self._fetch, self._reads, Timeslice.of_running_loop()
        response = FetchResponse(session_id=fetch.session_id)
        without_records: list[FetchEntry] = []
        with_records: list[FetchEntry] = []
        results = list(reads.results.items())
        for first in range(0, len(results), _STEP):
            if timeslice.is_over():
                await timeslice.next_turn()
                if fetch.is_abandoned:
                    return None
            some = results[first : first + _STEP]
            add_results(response, fetch, some)
            if fetch.session is not None:
                remember(reads, some, without_records, with_records)
        if reads.has_errors:
            self._add_leaders(response)
        parts = await timeslice.run(response.encode_stepwise(self._context.version))
        if fetch.is_abandoned:
            return None
        fetch.due.put_back(without_records)
        fetch.due.put_back(with_records)
        fetch.responded()
        return Encoded(response, parts)

    def _add_leaders(self, response: FetchResponse) -> None:
        context = self._context
        if context.version >= _FIRST_VERSION_WITH_LEADERS:
            add_leaders(response, self._services.images.image, context.connection.listener)

    def _refuse_superseded(self) -> FetchResponse:
        """The client has gone on on another connection, so it hardly waits for this response."""
        self._reads.abandon()
        return FetchResponse(
            error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH, session_id=self._fetch.session_id
        )

    def _abandon(self) -> None:
        self._fetch.close()
        self._reads.abandon()


HANDLER: Final = Handler(
    API,
    handle,
    permission=CheckedByHandler("READ on each topic; for replicas CLUSTER_ACTION on the cluster"),
    has_small_responses=True,
)
