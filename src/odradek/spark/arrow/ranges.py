"""Reads ranges of offsets as Arrow batches, for programs without asyncio.

Place: between the client's connections and `decoding`. One range is read at a time. While one fetch
response is decoded, without the interpreter lock, an event loop in another thread fetches the next.
Invariant: a read yields the visible records with offsets in [start, end), each once and in order,
or it raises an error. A range that the log no longer holds completely is an error too, unless the
reader was told to accept data loss.
"""

import asyncio
import logging
from collections.abc import Iterator
from typing import Final, NamedTuple, Self

import pyarrow as pa

from odradek.client.cluster import LONG_POLLS, Cluster
from odradek.client.cluster_view import NO_BROKER
from odradek.client.consumer.fetched_batches import end_of_batches
from odradek.client.errors import ClientError, OffsetOutOfRange, RequestTimedOut, is_retriable
from odradek.client.leader_requests import EARLIEST, ListedOffset, list_offsets
from odradek.client.retry import may_fetch_again
from odradek.client.settings import ConsumerSettings
from odradek.client.sync import Begun, LoopThread
from odradek.protocol.batch_header import NO_LEADER_EPOCH
from odradek.protocol.errors import ErrorCode, KafkaError, error_for
from odradek.protocol.messages.fetch import (
    AbortedTransaction,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from odradek.protocol.records import Buffer
from odradek.protocol.types import NO_TOPIC_ID, Offset, TopicId, TopicPartition
from odradek.spark.arrow.decoding import ArrowDecoder

_log = logging.getLogger("odradek.client")

_FIRST_VERSION_WITH_TOPIC_IDS: Final = FetchTopic.first_version_with("topic_id")
_NO_SESSION_EPOCH: Final = -1


class DataLost(OffsetOutOfRange):
    """A part of the range is not in the log any more."""


class _Answer(NamedTuple):
    """Complete batches of a fetch response, and the offset after them."""

    first_offset: int
    next_offset: int
    buffer: Buffer
    aborted: list[AbortedTransaction] | None


class _Wanted(NamedTuple):
    """The parameters that all fetches of a range share."""

    partition: TopicPartition
    topic_id: TopicId
    end: int
    fail_on_data_loss: bool


class RangeReader:
    """A client that reads many ranges, one after the other."""

    def __init__(self, settings: ConsumerSettings) -> None:
        self._settings = settings
        self._read_committed = settings.isolation_level == "read_committed"
        self._thread = LoopThread("odradek-ranges")
        self._cluster = self._thread.call(self._connect())

    async def _connect(self) -> Cluster:
        return Cluster(self._settings)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        try:
            self._thread.call(self._cluster.close())
        finally:
            self._thread.stop()

    def read(
        self,
        partition: TopicPartition,
        start: int,
        end: int,
        *,
        with_headers: bool = False,
        fail_on_data_loss: bool = True,
        topic_id: TopicId = NO_TOPIC_ID,
    ) -> Iterator[pa.RecordBatch]:
        """Yields the visible records with offsets in [start, end).

        With a `topic_id`, a topic that was deleted and created again is reported as data loss.
        """
        decoder = ArrowDecoder(
            partition,
            with_headers=with_headers,
            read_committed=self._read_committed,
            check_crcs=self._settings.check_crcs,
        )
        request = _Wanted(partition, topic_id, end, fail_on_data_loss)
        coming = self._ask(request, start) if start < end else None
        try:
            while coming is not None:
                answer = coming.result()
                coming = None
                if answer.next_offset < end:
                    coming = self._ask(request, answer.next_offset)
                yield from decoder.decode(answer.buffer, answer.first_offset, end, answer.aborted)
        finally:
            if coming is not None:
                coming.cancel()

    def _ask(self, request: _Wanted, offset: int) -> "Begun[_Answer]":
        return self._thread.begin(self._fetch(request, offset))

    async def _fetch(self, request: _Wanted, offset: int) -> _Answer:
        """Sends fetch requests until a response has at least one batch."""
        partition, _, end, fail_on_data_loss = request
        cluster, failures = self._cluster, self._cluster.retry.failures()
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + self._settings.default_api_timeout_ms / 1000
        await cluster.topic(partition.topic, self._settings.default_api_timeout_ms)
        reason: object = "nobody leads it"
        while True:
            try:
                data = await self._fetch_once(partition, offset)
                code = data.error_code
                if code == ErrorCode.OFFSET_OUT_OF_RANGE:
                    offset = await self._after_loss(partition, offset, end, fail_on_data_loss)
                    if offset >= end:
                        return _Answer(offset, end, b"", None)
                    continue
                if code == 0:
                    buffer: Buffer = data.records or b""  # type: ignore[assignment]
                    next_offset, _ = end_of_batches(buffer)
                    if next_offset > offset:
                        await self._check_id(request)
                        return _Answer(offset, next_offset, buffer, data.aborted_transactions)
                    reason = (
                        f"the log ends at {data.high_watermark}, stable to"
                        f" {data.last_stable_offset}"
                    )
                else:
                    error = error_for(code)
                    if not may_fetch_again(error):
                        raise error
                    reason = error
            except (ClientError, KafkaError) as error:
                if not is_retriable(error):
                    raise
                reason = error
            if loop.time() > deadline_s:
                raise RequestTimedOut(
                    f"{partition}: offsets {offset} to {end} were promised, but {reason}"
                )
            cluster.refresh_soon()
            await failures.wait()

    async def _check_id(self, request: _Wanted) -> None:
        """Raises `DataLost` if the topic now has another id. Cached metadata may be old, so it is
        refreshed before the error is raised."""
        partition, topic_id, _, fail_on_data_loss = request
        if topic_id == NO_TOPIC_ID:
            return
        limit_ms = self._settings.default_api_timeout_ms
        topic = await self._cluster.topic(partition.topic, limit_ms)
        if topic.id not in {topic_id, NO_TOPIC_ID}:
            await self._cluster.refresh()
            topic = await self._cluster.topic(partition.topic, limit_ms)
        if topic.id in {topic_id, NO_TOPIC_ID}:
            return
        lost = f"{partition}: the topic was deleted and created again since its offsets were noted"
        if fail_on_data_loss:
            raise DataLost(
                f"{lost}; to read the new one, set option('failOnDataLoss', 'false')", [partition]
            )
        _log.warning("%s: reading the new one", lost)

    async def _fetch_once(self, partition: TopicPartition, offset: int) -> PartitionData:
        cluster, settings = self._cluster, self._settings
        leader = cluster.view.leader(partition)
        if leader == NO_BROKER:
            return PartitionData(error_code=ErrorCode.LEADER_NOT_AVAILABLE)
        topic = cluster.view.topics[partition.topic]
        known = cluster.view.partition(partition)
        connection = await cluster.connection(leader, LONG_POLLS)
        asked = FetchPartition(
            partition=partition.partition,
            current_leader_epoch=NO_LEADER_EPOCH if known is None else known.leader_epoch,
            fetch_offset=Offset(offset),
            partition_max_bytes=settings.max_partition_fetch_bytes,
        )
        response = await connection.request(
            FetchRequest(
                max_wait_ms=settings.fetch_max_wait_ms,
                min_bytes=settings.fetch_min_bytes,
                max_bytes=settings.fetch_max_bytes,
                isolation_level=int(self._read_committed),
                session_id=0,
                session_epoch=_NO_SESSION_EPOCH,
                topics=[FetchTopic(topic=topic.name, topic_id=topic.id, partitions=[asked])],
            ),
            FetchResponse,
            timeout_ms=settings.request_timeout_ms + settings.fetch_max_wait_ms,
            max_version=_FIRST_VERSION_WITH_TOPIC_IDS - 1 if topic.id == NO_TOPIC_ID else None,
        )
        if response.error_code:
            return PartitionData(error_code=response.error_code)
        ((data,),) = [topic.partitions for topic in response.responses] or [
            [PartitionData(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)]
        ]
        return data

    async def _after_loss(
        self, partition: TopicPartition, offset: int, end: int, fail_on_data_loss: bool
    ) -> int:
        """Returns the offset to continue at after deleted records; raises if data loss is not
        allowed."""
        listed = await list_offsets(
            self._cluster,
            {partition: EARLIEST},
            timeout_ms=self._settings.default_api_timeout_ms,
        )
        earliest = listed[partition]
        if isinstance(earliest, KafkaError):
            raise earliest
        assert isinstance(earliest, ListedOffset)
        where = f"{partition}: offsets {offset} to {end} were asked for"
        if earliest.offset > offset:
            lost, resume = f"the log now begins at {earliest.offset}", int(earliest.offset)
        else:
            lost, resume = "the log now ends before that", end
        if fail_on_data_loss:
            raise DataLost(
                f"{where}, but {lost}; to go on without what is lost, set"
                " option('failOnDataLoss', 'false')",
                [partition],
            )
        _log.warning("%s, but %s: going on without", where, lost)
        return resume
