"""Fetch 4-18: records from an offset on, at once or when enough of them are there.

A fetch that finds too little registers one waiter with the watermarks of all its partitions
and reads again when one of them moves, until `min_bytes` are there or `max_wait_ms` is over.
The records of the reply are pinned slices of the log: nothing is read before the socket takes
it. Consumers may read from followers too, up to the high watermark known there; a leader sends
them to the replica on their rack where it is told to (KIP-392). What replicas fetch is read in
`broker.replica_reads`.
"""

import asyncio
from collections.abc import Awaitable
from typing import Final

from odradek.broker.fetch_sessions import Fetch, FetchEntry
from odradek.broker.replica_reads import ReplicaReads
from odradek.broker.services import RequestContext, Services
from odradek.protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from odradek.replication.partition import Partition
from odradek.replication.refusal import Refused
from odradek.replication.selection import is_rack_aware, nearest
from odradek.statemachine.watermark import Waiter
from odradek.storage import Slice

_READ_COMMITTED: Final = 1
_FIRST_VERSION_WITH_RACKS: Final = 11


def handle(
    services: Services, context: RequestContext, request: FetchRequest
) -> FetchResponse | Awaitable[FetchResponse]:
    now_s = asyncio.get_running_loop().time()
    fetch = services.fetch_sessions.begin(request, context.version, now_s)
    if fetch.error:
        return FetchResponse(error_code=fetch.error, session_id=fetch.session_id)
    replica = request.replica_state
    is_replica = (request.replica_id if replica is None else replica.replica_id) >= 0
    reads = (
        ReplicaReads(services, request, now_s)
        if is_replica
        else _Reads(services, request, context.version)
    )
    reads.read(fetch.entries)
    if reads.is_enough or request.max_wait_ms <= 0 or not fetch.entries:
        return _respond(fetch, reads)
    return _wait(fetch, reads, reads.watch(), now_s + request.max_wait_ms / 1000)


async def _wait(
    fetch: Fetch, reads: "_Reads | ReplicaReads", waiter: Waiter, deadline_s: float
) -> FetchResponse:
    loop = asyncio.get_running_loop()
    while True:
        woken = await waiter.wait(deadline_s - loop.time())
        reads.read(fetch.entries)
        if reads.is_enough or not woken:
            return _respond(fetch, reads)
        waiter = reads.watch()


class _Reads:
    """One pass over the partitions of a fetch, within its limits."""

    __slots__ = (
        "_max_bytes",
        "_may_follow",
        "_min_bytes",
        "_rack",
        "_services",
        "committed_only",
        "is_enough",
        "partitions",
        "results",
    )

    def __init__(self, services: Services, request: FetchRequest, version: int) -> None:
        self._services = services
        self._min_bytes = request.min_bytes
        self._max_bytes = min(request.max_bytes, services.settings.broker.fetch_max_bytes)
        # Older consumers know leaders only.
        self._may_follow = version >= _FIRST_VERSION_WITH_RACKS
        is_selecting = request.rack_id and is_rack_aware(
            services.settings.broker.replica_selector_class
        )
        self._rack = request.rack_id if is_selecting else None
        self.committed_only = request.isolation_level == _READ_COMMITTED
        self.is_enough = False
        self.partitions: list[Partition] = []
        self.results: list[tuple[FetchEntry, PartitionData]] = []

    def read(self, entries: list[FetchEntry]) -> None:
        self.partitions, self.results = [], []
        left = self._max_bytes
        found = 0
        for entry in entries:
            data = PartitionData(
                partition_index=entry.partition,
                high_watermark=-1,
                aborted_transactions=None,
                records=b"",
            )
            self.results.append((entry, data))
            try:
                found += self._read_one(entry, data, left - found, first=not found)
            except Refused as refusal:
                data.error_code = refusal.code
                self.is_enough = True
        if found >= self._min_bytes:
            self.is_enough = True

    def _read_one(self, entry: FetchEntry, data: PartitionData, left: int, *, first: bool) -> int:
        partition = self._partition(entry)
        self.partitions.append(partition)
        partition.check_epoch(entry.current_leader_epoch)
        if entry.last_fetched_epoch >= 0:
            diverged = partition.diverging(entry.last_fetched_epoch, entry.fetch_offset)
            if diverged is not None:
                data.diverging_epoch = EpochEndOffset(
                    epoch=diverged.leader_epoch, end_offset=diverged.offset
                )
                self.is_enough = True
        data.log_start_offset = partition.log.log_start_offset
        data.high_watermark = partition.high_watermark.value
        data.last_stable_offset = partition.last_stable.value
        if self.committed_only:
            data.aborted_transactions = []
        if self._rack is not None and self._send_away(partition, entry, data):
            return 0
        if left <= 0 and not first:
            return 0
        records = partition.read(
            entry.fetch_offset,
            min(entry.max_bytes, max(left, 0)),
            committed_only=self.committed_only,
            at_least_one=first,
        )
        if records is None:
            return 0
        data.records = records
        if self.committed_only:
            data.aborted_transactions = [
                AbortedTransaction(producer_id=one.producer_id, first_offset=one.first_offset)
                for one in partition.aborted_in(records, entry.fetch_offset)
            ]
        return len(records)

    def _partition(self, entry: FetchEntry) -> Partition:
        replicas = self._services.replicas
        if self._may_follow:
            return replicas.reader(entry.topic, entry.topic_id, entry.partition)
        return replicas.leader(entry.topic, entry.partition)

    def _send_away(self, partition: Partition, entry: FetchEntry, data: PartitionData) -> bool:
        """Names the replica that is nearer to the consumer, if there is one."""
        brokers = self._services.images.image.brokers
        replica = nearest(partition, self._rack or "", entry.fetch_offset, brokers)
        if replica is None:
            return False
        data.preferred_read_replica = replica
        self.is_enough = True
        return True

    def watch(self) -> Waiter:
        """Who is woken when one of the partitions moves. It must be registered in the same step
        as the read that found too little: what is appended in between would wake nobody."""
        waiter = Waiter()
        for partition in self.partitions:
            waiter.watch(partition.readable(self.committed_only))
        self.release()
        return waiter

    def release(self) -> None:
        """Lets the slices go that will not be sent."""
        for _, data in self.results:
            if isinstance(data.records, Slice):
                data.records.release()
        self.results = []


def _respond(fetch: Fetch, reads: _Reads | ReplicaReads) -> FetchResponse:
    session = fetch.session
    results = reads.results
    if session is not None:
        if fetch.incremental:
            results = [result for result in results if _is_news(*result)]
        for entry, data in results:
            entry.told_high_watermark = data.high_watermark
            entry.told_log_start = data.log_start_offset
        session.serve_later(entry for entry, data in results if data.records)
    topics: list[FetchableTopicResponse] = []
    for entry, data in results:
        if not topics or topics[-1].topic != entry.topic or topics[-1].topic_id != entry.topic_id:
            topics.append(
                FetchableTopicResponse(topic=entry.topic, topic_id=entry.topic_id, partitions=[])
            )
        topics[-1].partitions.append(data)
    return FetchResponse(session_id=fetch.session_id, responses=topics)


def _is_news(entry: FetchEntry, data: PartitionData) -> bool:
    return bool(
        data.records
        or data.error_code
        or data.high_watermark != entry.told_high_watermark
        or data.log_start_offset != entry.told_log_start
        or data.diverging_epoch is not None
        or data.preferred_read_replica >= 0
    )
