"""Fetches records ahead of `poll`, so that it finds them in memory.

One task does it, as in `sender`. There is at most one fetch under way to each broker, in the fetch
session with that broker. A partition is fetched again while fewer than two answers of it wait to be
taken: one is read while the next is fetched. While any partition of a broker has two answers
waiting, that broker is not asked at all. So its fetch session keeps all partitions, and a long poll
for an idle partition does not delay a busy one.
"""

import asyncio
import logging
from collections import deque
from typing import NamedTuple

from odradek.client.cluster import LONG_POLLS, Cluster
from odradek.client.cluster_view import NO_BROKER, Broker
from odradek.client.consumer.fetch_session import FetchPosition, FetchSession
from odradek.client.consumer.fetched import ConsumerRecord, Fetched, deserializer_of, end_of_batches
from odradek.client.consumer.positions import PartitionState, Positions
from odradek.client.errors import (
    ClientError,
    CorruptRecords,
    DeserializationFailed,
    OffsetOutOfRange,
    is_retriable,
)
from odradek.client.retry import may_fetch_again
from odradek.client.settings import ConsumerSettings
from odradek.protocol.errors import ErrorCode, KafkaError, error_for
from odradek.protocol.messages.fetch import FetchRequest, FetchResponse, PartitionData
from odradek.protocol.records import Buffer
from odradek.protocol.types import NO_TOPIC_ID, BrokerId, TopicPartition

_log = logging.getLogger("odradek.client")

_FIRST_VERSION_WITH_TOPIC_IDS = 13
_MAX_ANSWERS_WAITING = 2


class _Node:
    """The fetch session with one broker, and whether a fetch is under way."""

    __slots__ = ("is_busy", "session")

    def __init__(self) -> None:
        self.session = FetchSession()
        self.is_busy = False


class _Asked(NamedTuple):
    """A partition of a request, with its generation and offset when the request was made."""

    state: PartitionState
    generation: int
    offset: int


class Fetcher:
    def __init__(self, cluster: Cluster, settings: ConsumerSettings, positions: Positions) -> None:
        self._cluster = cluster
        self._settings = settings
        self._positions = positions
        self._loop = asyncio.get_running_loop()
        self._wake = asyncio.Event()
        self._nodes: dict[BrokerId, _Node] = {}
        self._fetches: set[asyncio.Task[None]] = set()
        # Answers with records, in the order of their arrival.
        self._fetched: deque[tuple[PartitionState, int, Fetched]] = deque()
        self._waiters: dict[asyncio.Future[None], None] = {}
        self._read_committed = settings.isolation_level == "read_committed"
        self._deserialize = deserializer_of(
            settings.key_deserializer if callable(settings.key_deserializer) else None,
            settings.value_deserializer if callable(settings.value_deserializer) else None,
        )
        self.failure: BaseException | None = None
        cluster.on_change(self.wake)

    def wake(self) -> None:
        self._wake.set()

    def positions_changed(self) -> None:
        self._wake.set()
        self._notify()

    async def run(self) -> None:
        """Works until it is cancelled."""
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
        positions.settle_soon()
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
            elif len(state.buffered) >= _MAX_ANSWERS_WAITING:
                full.add(broker)
            elif state.not_before_s > now_s:
                self._loop.call_at(state.not_before_s, self.wake)
            else:
                by_broker.setdefault(broker, []).append(state)
        for broker, states in by_broker.items():
            node = self._nodes.get(broker)
            if node is None:
                node = self._nodes[broker] = _Node()
            if not node.is_busy and broker not in full:
                node.is_busy = True
                task = self._loop.create_task(self._fetch(broker, node, states))
                self._fetches.add(task)
                task.add_done_callback(self._fetch_ended)

    def _fetch_ended(self, task: "asyncio.Task[None]") -> None:
        self._fetches.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.fail(error)

    def fail(self, error: BaseException) -> None:
        """A defect ended the fetcher: waiting calls are woken, and they raise `failure`."""
        self.failure = error
        self._notify()

    # Fetching

    async def _fetch(self, broker: BrokerId, node: _Node, states: list[PartitionState]) -> None:
        try:
            connection = self._cluster.connected(broker, LONG_POLLS)
            if connection is None:
                connection = await self._cluster.connection(broker, LONG_POLLS)
            asked, request = self._request(node.session, states)
            version = None
            if any(want.topic_id == NO_TOPIC_ID for want in asked.values()):
                version = _FIRST_VERSION_WITH_TOPIC_IDS - 1
            by_partition = {
                state.partition: _Asked(state, state.generation, state.fetch_offset)
                for state in states
                if state.partition in asked
            }
            if not by_partition:
                return
            timeout_ms = self._settings.request_timeout_ms + self._settings.fetch_max_wait_ms
            response = await connection.request(
                request, FetchResponse, timeout_ms=timeout_ms, max_version=version
            )
        except (ClientError, KafkaError) as error:
            node.session.failed()
            for state in states:
                state.preferred_replica = NO_BROKER
            if not is_retriable(error):
                self._blame(states, error)
            else:
                _log.info("fetch from broker %d failed, trying again: %s", broker, error)
                self._back_off(states)
                self._cluster.refresh_soon()
        else:
            self._answered(node.session, response, by_partition)
        finally:
            node.is_busy = False
            self._wake.set()

    def _request(
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
        """The partitions are fetched again after `retry.backoff.ms`, later after more failures."""
        now_s, backoff = self._loop.time(), self._cluster.retry.request_backoff
        for state in states:
            state.failures += 1
            state.not_before_s = now_s + backoff.delay_s(state.failures)

    def _pause(self, state: PartitionState) -> None:
        """The partition is fetched again after `retry.backoff.ms`, although nothing failed."""
        delay_s = self._cluster.retry.request_backoff.delay_s(1)
        state.not_before_s = self._loop.time() + delay_s

    def _blame(self, states: list[PartitionState], error: BaseException) -> None:
        for state in states:
            state.fault = error
        self._notify()

    # Answers

    def _answered(
        self,
        session: FetchSession,
        response: FetchResponse,
        asked: dict[TopicPartition, _Asked],
    ) -> None:
        if not session.answered(response):
            _log.info("fetch session lost: %s", error_for(response.error_code))
            return
        endpoints = [
            Broker(BrokerId(endpoint.node_id), endpoint.host, endpoint.port, endpoint.rack)
            for endpoint in response.node_endpoints
        ]
        for topic in response.responses:
            name = topic.topic or session.name_of(topic.topic_id)
            for answer in topic.partitions:
                if name is None:
                    continue
                question = asked.get(TopicPartition(name, answer.partition_index))
                if question is None or question.state.generation != question.generation:
                    continue
                if answer.error_code:
                    self._refused(question, answer, endpoints)
                else:
                    self._take_in(question, answer)

    def _take_in(self, question: _Asked, answer: PartitionData) -> None:
        state = question.state
        state.high_watermark = answer.high_watermark
        state.last_stable_offset = answer.last_stable_offset
        if answer.log_start_offset >= 0:
            state.log_start_offset = answer.log_start_offset
        if answer.preferred_read_replica >= 0:
            state.preferred_replica = BrokerId(answer.preferred_read_replica)
            age_s = self._settings.metadata_max_age_ms / 1000
            state.preferred_until_s = self._loop.time() + age_s
        records = answer.records
        if records is None or not len(records):
            return
        # Decoded records are a view into the frame; only a broker sends other kinds of records.
        buffer: Buffer = records  # type: ignore[assignment]
        next_offset, _ = end_of_batches(buffer)
        if next_offset < 0:
            fault = f"{state.partition}: {len(buffer)} bytes at offset {state.fetch_offset}"
            self._blame([state], CorruptRecords(f"{fault} hold no whole batch"))
            return
        if next_offset <= state.fetch_offset:
            # Nothing new: the same request would get the same answer at once.
            self._pause(state)
            return
        fetched = Fetched(
            state.partition,
            buffer,
            state.fetch_offset,
            aborted=answer.aborted_transactions,
            read_committed=self._read_committed,
            check_crcs=self._settings.check_crcs,
            deserialize=self._deserialize,
        )
        state.failures = 0
        state.fetch_offset = next_offset
        state.check()
        state.buffered.append(fetched)
        self._fetched.append((state, state.generation, fetched))
        self._notify()

    def _refused(self, question: _Asked, answer: PartitionData, endpoints: list[Broker]) -> None:
        state, code = question.state, answer.error_code
        error = error_for(code)
        hint = answer.current_leader
        if hint is not None:
            self._cluster.view.leader_moved(
                state.partition, hint.leader_id, hint.leader_epoch, endpoints
            )
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._out_of_range(state, question.offset)
        elif may_fetch_again(error):
            state.preferred_replica = NO_BROKER
            self._back_off([state])
            self._cluster.refresh_soon()
        else:
            self._blame([state], error)

    def _out_of_range(self, state: PartitionState, offset: int) -> None:
        if state.preferred_replica != NO_BROKER:
            # A follower may lag behind, so the leader is asked.
            state.preferred_replica = NO_BROKER
            return
        if state.buffered:
            # Records that were fetched before are returned first; the answer stays the same.
            self._pause(state)
            return
        _log.warning(
            "%s has no offset %d; auto.offset.reset=%s",
            state.partition,
            offset,
            self._settings.auto_offset_reset,
        )
        if self._settings.auto_offset_reset == "none":
            fault = OffsetOutOfRange(
                f"{state.partition} has no offset {offset} and auto.offset.reset=none: seek()"
                " to where to go on",
                [state.partition],
            )
            self._blame([state], fault)
        else:
            self._positions.reset(state)

    # Taking

    def take(self, limit: int) -> dict[TopicPartition, list[ConsumerRecord]]:
        """Returns up to `limit` records that were fetched, and moves the positions past them."""
        taken: dict[TopicPartition, list[ConsumerRecord]] = {}
        kept: list[tuple[PartitionState, int, Fetched]] = []
        waiting = self._fetched
        while limit > 0 and waiting:
            state, generation, fetched = waiting[0]
            if (
                state.generation != generation
                or self._positions.assigned.get(state.partition) is not state
            ):
                waiting.popleft()
                continue
            if state.is_paused:
                kept.append(waiting.popleft())
                continue
            records = self._take_from(state, fetched, limit)
            if records:
                limit -= len(records)
                before = taken.get(state.partition)
                if before is None:
                    taken[state.partition] = records
                else:
                    taken[state.partition] = before + records
            elif waiting and waiting[0][2] is fetched:
                waiting.popleft()
                if state.generation == generation:
                    state.buffered.popleft()
                self._wake.set()
        if kept:
            waiting.extendleft(reversed(kept))
        return taken

    def _take_from(
        self, state: PartitionState, fetched: Fetched, limit: int
    ) -> list[ConsumerRecord]:
        try:
            records = fetched.take(limit)
        except (CorruptRecords, DeserializationFailed) as error:
            # Records that came before are delivered; the next poll raises, until a seek.
            state.seek(fetched.next_offset, state.position_epoch)
            state.fault = error
            return []
        state.position = fetched.next_offset
        if fetched.leader_epoch >= 0:
            state.position_epoch = fetched.leader_epoch
        state.check()
        return records

    async def wait(self, timeout_s: float) -> None:
        """Returns when there may be records to take, or when the time is over.

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
        for task in list(self._fetches):
            task.cancel()
        await asyncio.gather(*self._fetches, return_exceptions=True)


def _finish(waiter: "asyncio.Future[None]") -> None:
    if not waiter.done():
        waiter.set_result(None)
