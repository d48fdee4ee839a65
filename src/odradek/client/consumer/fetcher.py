"""Decides what to fetch and when, and fetches ahead of `poll`, which finds the records in memory.

One task (`Fetcher.run`) decides what to fetch; each request runs in a task of its own. There is at
most one request under way to each broker, in the fetch session with that broker. A partition is
fetched again while fewer than two responses for it are buffered: `poll` reads one while the next is
fetched.

While any partition of a broker has two buffered responses, no request is sent to that broker. A
request without the partition would remove it from the fetch session. It could also be a long poll
for idle partitions, and the partition could not be fetched before that poll ends.
"""

import asyncio
import logging
from collections import deque
from typing import NamedTuple

from odradek.client.cluster import LONG_POLLS, Cluster
from odradek.client.cluster_view import NO_BROKER, Broker
from odradek.client.consumer.fetch_session import FetchPosition, FetchSession
from odradek.client.consumer.fetched_batches import (
    ConsumerRecord,
    Deserialize,
    FetchedBatches,
    end_of_batches,
)
from odradek.client.consumer.polled import PolledRecords
from odradek.client.consumer.positions import PartitionState, Positions
from odradek.client.errors import (
    ClientError,
    CorruptRecords,
    DeserializationFailed,
    is_retriable,
)
from odradek.client.metrics.counting import ConsumerCounts
from odradek.client.retry import may_fetch_again
from odradek.client.settings import ConsumerSettings
from odradek.protocol.errors import ErrorCode, KafkaError, error_for
from odradek.protocol.messages.fetch import FetchRequest, FetchResponse, PartitionData
from odradek.protocol.records import Buffer
from odradek.protocol.types import NO_TOPIC_ID, BrokerId, LeaderEpoch, TopicPartition
from odradek.world.blocking_calls import MustBlock

_log = logging.getLogger("odradek.client")

_FIRST_VERSION_WITH_TOPIC_IDS = 13
_MAX_BUFFERED_RESPONSES = 2


class _BrokerFetches:
    """The fetch session with one broker, and whether a request is under way."""

    __slots__ = ("is_busy", "session")

    def __init__(self) -> None:
        self.session = FetchSession()
        self.is_busy = False


class _RequestedPartition(NamedTuple):
    """A partition of a request, as it was when the request was made, and the broker it went to."""

    state: PartitionState
    seek_count: int
    offset: int
    broker: BrokerId
    leader_epoch: LeaderEpoch


class Fetcher:
    def __init__(
        self,
        cluster: Cluster,
        settings: ConsumerSettings,
        positions: Positions,
        deserialize: Deserialize | None = None,
    ) -> None:
        self._cluster = cluster
        self._settings = settings
        self._positions = positions
        self._loop = asyncio.get_running_loop()
        self._wake = asyncio.Event()
        self._brokers: dict[BrokerId, _BrokerFetches] = {}
        self._fetches: set[asyncio.Task[None]] = set()
        # Responses with records, and the seek count of their partition, in the order of arrival.
        self._buffered: deque[tuple[PartitionState, int, FetchedBatches]] = deque()
        self._waiters: dict[asyncio.Future[None], None] = {}
        self._read_committed = settings.isolation_level == "read_committed"
        self._deserialize = deserialize
        self.counts = ConsumerCounts()
        self.failure: BaseException | None = None
        self._call: asyncio.Task[None] | None = None
        cluster.on_change(self.wake)

    def wake(self) -> None:
        self._wake.set()

    def positions_changed(self) -> None:
        self._wake.set()
        self._notify()

    async def run(self) -> None:
        """Starts fetches whenever it is woken, until it is cancelled."""
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                self._step()
        except Exception as error:
            self.fail(error)
            raise

    def _step(self) -> None:
        positions = self._positions
        positions.start_lookups()
        if any(state.fault is not None for state in positions.assigned.values()):
            self._notify()
        now_s = self._loop.time()
        by_broker: dict[BrokerId, list[PartitionState]] = {}
        full: set[BrokerId] = set()
        for state in positions.assigned.values():
            if not state.is_fetchable:
                continue
            broker = positions.leader_or_replica(state, now_s)
            if broker == NO_BROKER:
                self._cluster.refresh_soon()
            elif len(state.buffered) >= _MAX_BUFFERED_RESPONSES:
                full.add(broker)
            elif state.not_before_s > now_s:
                self._loop.call_at(state.not_before_s, self.wake)
            else:
                by_broker.setdefault(broker, []).append(state)
        for broker, states in by_broker.items():
            fetches = self._brokers.get(broker)
            if fetches is None:
                fetches = self._brokers[broker] = _BrokerFetches()
            if not fetches.is_busy and broker not in full:
                fetches.is_busy = True
                version = self._cluster.view.version
                task = self._loop.create_task(self._fetch(broker, fetches, states, version))
                self._fetches.add(task)
                task.add_done_callback(self._on_fetch_ended)

    def _on_fetch_ended(self, task: "asyncio.Task[None]") -> None:
        self._fetches.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.fail(error)

    def fail(self, error: BaseException) -> None:
        """Stores the error of a task, and wakes the callers of `wait`, which raise it."""
        self.failure = error
        self._notify()

    # Fetching

    async def _fetch(
        self,
        broker: BrokerId,
        fetches: _BrokerFetches,
        states: list[PartitionState],
        view_version: int,
    ) -> None:
        """Fetches partitions that were to be read from `broker` by that version of the view."""
        try:
            connection = self._cluster.connected(broker, LONG_POLLS)
            if connection is None:
                connection = await self._cluster.connection(broker, LONG_POLLS)
            if self._cluster.view.version != view_version:
                states = self._still_read_from(broker, states)
                if not states:
                    return
            positions, request = self._build_request(fetches.session, states)
            max_version = None
            if any(position.topic_id == NO_TOPIC_ID for position in positions.values()):
                max_version = _FIRST_VERSION_WITH_TOPIC_IDS - 1
            requested = {
                state.partition: _RequestedPartition(
                    state, state.seek_count, state.fetch_offset, broker, state.leader_epoch
                )
                for state in states
                if state.partition in positions
            }
            if not requested:
                return
            timeout_ms = self._settings.request_timeout_ms + self._settings.fetch_max_wait_ms
            response = await connection.request(
                request, FetchResponse, timeout_ms=timeout_ms, max_version=max_version
            )
        except (ClientError, KafkaError) as error:
            fetches.session.handle_failure()
            for state in states:
                state.preferred_replica = NO_BROKER
            if not is_retriable(error):
                self._set_error(states, error)
            else:
                _log.info("fetch from broker %d failed, trying again: %s", broker, error)
                self._back_off(states)
                self._cluster.refresh_soon()
        else:
            self._handle_response(fetches.session, response, requested)
        finally:
            fetches.is_busy = False
            self._wake.set()

    def _still_read_from(
        self, broker: BrokerId, states: list[PartitionState]
    ) -> list[PartitionState]:
        """Returns those partitions that are still to be read from `broker`. The others have moved
        while the connection was made: their offsets and leader epochs are the new leader's by now,
        so a former leader would not refuse the epoch and could lack the offset."""
        now_s = self._loop.time()
        return [
            state for state in states if self._positions.leader_or_replica(state, now_s) == broker
        ]

    def _build_request(
        self, session: FetchSession, states: list[PartitionState]
    ) -> tuple[dict[TopicPartition, FetchPosition], FetchRequest]:
        view, settings = self._cluster.view, self._settings
        fetch_positions: dict[TopicPartition, FetchPosition] = {}
        for state in states:
            topic = view.topics.get(state.partition.topic)
            if topic is None or not state.is_fetchable:
                continue
            fetch_positions[state.partition] = FetchPosition(
                topic.id,
                state.fetch_offset,
                state.leader_epoch,
                settings.max_partition_fetch_bytes,
            )
        topics, forgotten = session.next_request(fetch_positions)
        return fetch_positions, FetchRequest(
            max_wait_ms=settings.fetch_max_wait_ms,
            min_bytes=settings.fetch_min_bytes,
            max_bytes=settings.fetch_max_bytes,
            isolation_level=int(self._read_committed),
            session_id=session.session_id,
            session_epoch=session.epoch,
            topics=topics,
            forgotten_topics_data=forgotten,
            rack_id=settings.client_rack,
        )

    def _back_off(self, states: list[PartitionState]) -> None:
        """Delays the next fetch by `retry.backoff.ms`, and longer after more failures."""
        now_s, backoff = self._loop.time(), self._cluster.retry.request_backoff
        for state in states:
            state.failures += 1
            state.not_before_s = now_s + backoff.delay_s(state.failures)

    def _set_error(self, states: list[PartitionState], error: BaseException) -> None:
        for state in states:
            state.fault = error
        self._notify()

    # Responses

    def _handle_response(
        self,
        session: FetchSession,
        response: FetchResponse,
        requested: dict[TopicPartition, _RequestedPartition],
    ) -> None:
        if not session.handle_response(response):
            _log.info("fetch session lost: %s", error_for(response.error_code))
            return
        endpoints = [
            Broker(BrokerId(endpoint.node_id), endpoint.host, endpoint.port, endpoint.rack)
            for endpoint in response.node_endpoints
        ]
        for topic in response.responses:
            name = topic.topic or session.name_of(topic.topic_id)
            if name is None:
                continue
            for data in topic.partitions:
                partition = requested.get(TopicPartition(name, data.partition_index))
                if partition is None or partition.state.seek_count != partition.seek_count:
                    continue
                if data.error_code:
                    self._handle_error(partition, data, endpoints)
                else:
                    self._buffer_records(partition.state, data)

    def _buffer_records(self, state: PartitionState, data: PartitionData) -> None:
        state.high_watermark = data.high_watermark
        state.last_stable_offset = data.last_stable_offset
        if data.log_start_offset >= 0:
            state.log_start_offset = data.log_start_offset
        if data.preferred_read_replica >= 0:
            state.preferred_replica = BrokerId(data.preferred_read_replica)
            age_s = self._settings.metadata_max_age_ms / 1000
            state.preferred_until_s = self._loop.time() + age_s
        records = data.records
        if records is None or not len(records):
            return
        self.counts.fetched(state.partition.topic, len(records))
        # In a decoded response `records` is a buffer. The field has its other types for brokers,
        # which encode responses.
        buffer: Buffer = records  # type: ignore[assignment]
        next_offset, _ = end_of_batches(buffer)
        if next_offset < 0:
            fault = CorruptRecords(
                f"the response for {state.partition} at offset {state.fetch_offset}"
                f" ({len(buffer)} bytes) contains no complete record batch"
            )
            self._set_error([state], fault)
            return
        if next_offset <= state.fetch_offset:
            # The batches end at or before the fetch offset. The same request would get the same
            # response at once.
            self._positions.delay_fetch(state)
            return
        fetched = FetchedBatches(
            state.partition,
            buffer,
            state.fetch_offset,
            aborted=data.aborted_transactions,
            read_committed=self._read_committed,
            check_crcs=self._settings.check_crcs,
            max_batch_bytes=self._settings.odradek_max_batch_bytes,
            deserialize=self._deserialize,
        )
        state.failures = 0
        state.fetch_offset = next_offset
        state.check()
        state.buffered.append(fetched)
        self._buffered.append((state, state.seek_count, fetched))
        self._notify()

    def _handle_error(
        self, requested: _RequestedPartition, data: PartitionData, endpoints: list[Broker]
    ) -> None:
        state, code = requested.state, data.error_code
        error = error_for(code)
        hint = data.current_leader
        if hint is not None:
            self._cluster.view.leader_moved(
                state.partition, hint.leader_id, hint.leader_epoch, endpoints
            )
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._handle_out_of_range(requested)
        elif may_fetch_again(error):
            state.preferred_replica = NO_BROKER
            self._back_off([state])
            self._cluster.refresh_soon()
        else:
            self._set_error([state], error)

    def _handle_out_of_range(self, requested: _RequestedPartition) -> None:
        """Believes only the leader, and only about the offset that is fetched next. A follower may
        lag behind, and a former leader may have lost the end of its log: the leader is asked."""
        state = requested.state
        known = self._cluster.view.partition(state.partition)
        is_from_leader = (
            known is not None
            and known.leader == requested.broker
            and known.leader_epoch <= requested.leader_epoch
        )
        if not is_from_leader:
            state.preferred_replica = NO_BROKER
        elif requested.offset == state.fetch_offset:
            self._positions.handle_out_of_range(state)
            if state.fault is not None:
                self._notify()

    # Returning buffered records

    def poll_buffered(self, limit: int) -> PolledRecords:
        """Returns up to `limit` buffered records, and moves the positions past them."""
        polled = PolledRecords()
        waiting: set[TopicPartition] = set()
        paused: list[tuple[PartitionState, int, FetchedBatches]] = []
        buffered = self._buffered
        while limit > 0 and buffered:
            state, seek_count, fetched = buffered[0]
            if (
                state.seek_count != seek_count
                or self._positions.assigned.get(state.partition) is not state
            ):
                buffered.popleft()
                continue
            if state.is_paused or state.partition in waiting:
                paused.append(buffered.popleft())
                continue
            records = self._read_from(state, fetched, limit)
            if records:
                limit -= len(records)
                self.counts.returned(state.partition.topic, len(records))
                before = polled.get(state.partition)
                if before is None:
                    polled[state.partition] = records
                else:
                    polled[state.partition] = before + records
            elif fetched.waits_for is not None:
                self._do_in_thread(fetched.waits_for)
                waiting.add(state.partition)
            elif buffered and buffered[0][2] is fetched:
                buffered.popleft()
                if state.seek_count == seek_count:
                    state.buffered.popleft()
                self._wake.set()
        if paused:
            buffered.extendleft(reversed(paused))
        return polled

    def _read_from(
        self, state: PartitionState, fetched: FetchedBatches, limit: int
    ) -> list[ConsumerRecord]:
        try:
            records = fetched.read(limit)
        except (CorruptRecords, DeserializationFailed) as error:
            # The records before the bad one were returned already. A poll that finds no other
            # records raises this error, until the caller seeks.
            state.seek(fetched.next_offset, state.position_epoch)
            state.fault = error
            return []
        state.position = fetched.next_offset
        if fetched.leader_epoch >= 0:
            state.position_epoch = fetched.leader_epoch
        state.check()
        return records

    def _do_in_thread(self, waits_for: MustBlock) -> None:
        """Has a thread do what a deserializer waits for. Polls go on meanwhile, with the records of
        other partitions; one that waits is woken."""
        if self._call is None or self._call.done():
            self._call = self._loop.create_task(asyncio.to_thread(waits_for.call))
            self._call.add_done_callback(lambda _: self._notify())

    async def wait(self, timeout_s: float) -> None:
        """Returns when records may be buffered, or when the time is over.

        Several callers may wait. Each has a future of its own, so that one can be cancelled.
        """
        waiter: asyncio.Future[None] = self._loop.create_future()
        self._waiters[waiter] = None
        timer = self._loop.call_later(timeout_s, _finish, waiter)
        try:
            await waiter
        finally:
            timer.cancel()
            del self._waiters[waiter]

    def _notify(self) -> None:
        for waiter in self._waiters:
            _finish(waiter)

    async def stop(self) -> None:
        tasks = [*self._fetches] if self._call is None else [*self._fetches, self._call]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _finish(waiter: "asyncio.Future[None]") -> None:
    if not waiter.done():
        waiter.set_result(None)
