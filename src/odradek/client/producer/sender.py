"""Takes batches out of the accumulator and sends them to the leaders of their partitions.

One task does all of it. It wakes when a batch is full or has lingered, when a response or fresh
metadata has come, and when a back-off is over. It works on plain state between awaits, so nothing
needs a lock. `ReadyQueues` holds what can be sent, `BatchOutcomes` decides what becomes of a batch.

A batch's way:   queued -> in flight -> done
                   ^           |
                   +-- retry --+       (within delivery.timeout.ms and `retries`)

Invariant: a queue with something to send is in `_ready`, or something that will put it there is
under way: a response, a timer, a refresh.
"""

import asyncio
import logging
from collections import deque

from odradek.client.cluster import Cluster, loop_ended
from odradek.client.cluster_view import Broker
from odradek.client.connection import Connection
from odradek.client.errors import (
    ClientClosed,
    ClientError,
)
from odradek.client.producer.accumulator import Accumulator, PartitionQueue, ProducerBatch
from odradek.client.producer.batch_outcomes import BatchOutcomes
from odradek.client.producer.batch_timers import BatchTimers
from odradek.client.producer.idempotence import Idempotence
from odradek.client.producer.produce_request import Key, produce_request
from odradek.client.producer.producer_id import ask_for_producer_id
from odradek.client.producer.ready_queues import ReadyQueues
from odradek.client.producer.transactional_sequences import TransactionalSequences
from odradek.client.producer.transactions import LAST_PRODUCE_OF_VERSION_1, Transactions
from odradek.client.retry import Failures, needs_metadata
from odradek.client.settings import ProducerSettings
from odradek.protocol.errors import (
    ErrorCode,
    KafkaError,
    error_for,
)
from odradek.protocol.messages.produce import (
    ProduceRequest,
    ProduceResponse,
)
from odradek.protocol.types import NO_TOPIC_ID, BrokerId, TopicId, TopicPartition

_log = logging.getLogger("odradek.client")


class _Node:
    """The requests and the connection attempt that are under way to one leader."""

    __slots__ = ("connecting", "failures", "in_flight")

    def __init__(self, failures: Failures) -> None:
        self.in_flight = 0
        self.connecting = False
        self.failures = failures


class Sender:
    def __init__(
        self,
        cluster: Cluster,
        settings: ProducerSettings,
    ) -> None:
        self._cluster = cluster
        self._settings = settings
        self._loop = asyncio.get_running_loop()
        self._wake = asyncio.Event()
        self._ready = ReadyQueues(cluster.view.leader)
        self._nodes: dict[int, _Node] = {}
        self._responses: deque[
            tuple[_Node, dict[Key, ProducerBatch], asyncio.Future[ProduceResponse]]
        ] = deque()
        self._flushing = 0
        self._closing = False
        self._view_version = -1
        self._timers = BatchTimers(
            settings.linger_ms / 1000, settings.delivery_timeout_ms / 1000, self._wake.set
        )
        self._max_in_flight = settings.max_in_flight_requests_per_connection
        self._acks = settings.required_acks
        self._background: set[asyncio.Task[None]] = set()
        self._asking_for_id = False
        self.idempotence = Idempotence() if settings.enable_idempotence else None
        self.transactions: Transactions | None = None
        if settings.transactional_id is not None:
            self.idempotence = sequences = TransactionalSequences()
            self.transactions = Transactions(
                cluster, settings, settings.transactional_id, sequences
            )
            self.transactions.attach(self)
        self.accumulator = Accumulator(
            settings,
            on_ready=self.mark_ready,
            on_opened=self._on_batch_opened,
            on_full=self._wake.set,
        )
        self._outcomes = BatchOutcomes(
            cluster,
            settings,
            accumulator=self.accumulator,
            timers=self._timers,
            ready=self._ready,
            idempotence=self.idempotence,
            transactions=self.transactions,
        )
        self.counts = self._outcomes.counts
        # Why nothing more is sent, if a task has failed or the event loop has ended.
        self.failure: ClientClosed | None = None
        cluster.on_change(self._wake.set)

    # Called by the producer, the accumulator and the transactions

    def mark_ready(self, queue: PartitionQueue) -> None:
        """Adds a queue to those that can be sent: it has a batch that is full or has lingered."""
        if queue.ready_leader is not None or not queue.batches:
            return
        self._ready.add(queue)
        self._wake.set()

    def _on_batch_opened(self, batch: ProducerBatch) -> None:
        if self.idempotence is not None and not self.idempotence.has_producer_id:
            self._wake.set()
        lingers = not self._is_due(batch, batch.created_s)
        if not lingers:
            self.mark_ready(batch.queue)
        self._timers.add(batch, lingers=lingers)

    def queue(self, partition: TopicPartition, topic_id: TopicId) -> PartitionQueue:
        """Returns the queue of a partition; `topic_id` is the id that its topic has now."""
        queue = self.accumulator.queue(partition)
        if topic_id not in (NO_TOPIC_ID, queue.topic_id):
            if queue.topic_id != NO_TOPIC_ID and self.idempotence is not None:
                self.idempotence.topic_recreated(queue)
            queue.topic_id = topic_id
        return queue

    def forget(self, topic: str) -> bool:
        """Forgets an idle topic, except for sequence numbers that must not be used again."""
        idempotence = self.idempotence
        if idempotence is None:
            return self.accumulator.forget(topic, lambda _: True)
        return self.accumulator.forget(topic, idempotence.may_forget)

    def wake(self) -> None:
        self._wake.set()

    def drop_unsent(self, error: BaseException) -> None:
        """Fails the batches that no broker has seen; called by the transactions."""
        self._outcomes.drop_unsent(error)

    async def flush(self) -> None:
        self._flushing += 1
        self.mark_all_ready()
        try:
            await self.accumulator.wait_until_flushed()
        finally:
            self._flushing -= 1

    def mark_all_ready(self) -> None:
        for batch in self.accumulator.incomplete:
            self.mark_ready(batch.queue)

    # The task

    async def run(self) -> None:
        """Works until it is cancelled."""
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                self._step()
        except asyncio.CancelledError:
            if self._closing:
                because = "the producer was closed before the record was sent"
                self._outcomes.abandon(ClientClosed(because))
            else:
                self._give_up(ClientClosed(loop_ended("producer")))
            raise
        except BaseException as error:
            self._give_up(error)
            raise

    def _step(self) -> None:
        while self._responses:
            node, batches, future = self._responses.popleft()
            self._handle_response(node, batches, future)
        for batch in self._timers.take_expired():
            self._outcomes.expire(batch)
        for batch in self._timers.take_lingered():
            self.mark_ready(batch.queue)
        if self.transactions is not None:
            self.transactions.step()
        if self._view_version != self._cluster.view.version:
            self._view_version = self._cluster.view.version
            self._ready.regroup()
        if self.idempotence is not None:
            self.idempotence.settle()
            if not self.idempotence.has_producer_id:
                self._ask_for_id(self.idempotence)
                self._timers.set()
                return
        if self.accumulator.is_full and not self._is_busy():
            # Nothing under way will make room, so batches that linger are sent now. They are
            # added without waking the task: one that may not be sent yet would wake it for ever.
            for batch in self.accumulator.incomplete:
                if batch.queue.ready_leader is None and batch.queue.batches:
                    self._ready.add(batch.queue)
        for leader in self._ready.leaders():
            self._send_to(leader)
        self._timers.set()

    def _is_busy(self) -> bool:
        return bool(self._ready) or any(node.in_flight for node in self._nodes.values())

    # Sending

    def _send_to(self, leader: int) -> None:
        queues = self._ready.queues_of(leader)
        if not queues:
            return
        if leader < 0:
            # No leader is known: fresh metadata may name one.
            for queue in queues:
                self._cluster.track(queue.topic_partition.topic)
            self._cluster.refresh_soon()
            return
        node = self._nodes.get(leader)
        if node is None:
            node = self._nodes[leader] = _Node(self._cluster.retry.connection_failures())
        if node.in_flight >= self._max_in_flight:
            return
        connection = self._cluster.connected(leader, "produce")
        if connection is None:
            self._connect(leader, node)
            return
        while queues and node.in_flight < self._max_in_flight:
            batches = self._drain(queues)
            if not batches:
                break
            self._send(node, connection, batches)

    def _drain(self, queues: dict[PartitionQueue, None]) -> list[ProducerBatch]:
        """Returns at most one batch of each ready queue, as many as fit into a request."""
        batches: list[ProducerBatch] = []
        seen: list[PartitionQueue] = []
        again: list[PartitionQueue] = []
        size_bytes = 0
        now_s = self._loop.time()
        for queue in queues:
            batch = queue.batches[0]
            size_bytes += batch.builder.size_bytes
            if batches and size_bytes > self._settings.max_request_size:
                break
            seen.append(queue)
            if not self._may_send(queue, batch, now_s):
                continue
            self.accumulator.take(queue)
            if self.idempotence is not None:
                self.idempotence.assign(queue, batch)
            queue.sending += 1
            batch.attempts += 1
            batches.append(batch)
            if queue.batches and (len(queue.batches) > 1 or self._is_due(queue.batches[0], now_s)):
                again.append(queue)
        for queue in seen:
            self._ready.discard(queue)
        if self._max_in_flight > 1:
            for queue in again:
                self._ready.add(queue)
        return batches

    def _may_send(self, queue: PartitionQueue, batch: ProducerBatch, now_s: float) -> bool:
        """Returns whether a batch may be sent now. If not, a response or the end of a back-off will
        mark the queue as ready again."""
        if batch.retry_at_s > now_s:
            self._loop.call_at(batch.retry_at_s, self.mark_ready, queue)
            return False
        if self._max_in_flight == 1 and queue.sending:
            return False
        transactions = self.transactions
        if transactions is not None and not transactions.may_produce(queue.topic_partition):
            return False
        return self.idempotence is None or self.idempotence.may_send(queue, batch, now_s)

    def _is_due(self, batch: ProducerBatch, now_s: float) -> bool:
        """Returns whether a batch can be sent: it takes no more records because it is full, the
        program flushes or closes the producer, or the batch has lingered."""
        return (
            batch.queue.open_batch is not batch
            or self._flushing > 0
            or self._closing
            or self._timers.has_lingered(batch, now_s)
        )

    def _send(self, node: _Node, connection: Connection, batches: list[ProducerBatch]) -> None:
        self._count(batches)
        version = connection.version_for(ProduceRequest)
        if self.transactions is not None and not self.transactions.has_version_2:
            version = min(version, LAST_PRODUCE_OF_VERSION_1)
        request, version, by_key = produce_request(
            batches,
            self._cluster.view,
            version,
            acks=self._acks,
            timeout_ms=self._settings.request_timeout_ms,
            transactional_id=self._settings.transactional_id,
        )
        try:
            if self._acks == 0:
                connection.send_without_reply(request, max_version=version)
                for batch in batches:
                    self._outcomes.complete_without_acks(batch)
                return
            future = connection.send(request, ProduceResponse, max_version=version)
        except ClientError as error:
            self._handle_no_response(batches, error, were_sent=False)
            return
        node.in_flight += 1
        future.add_done_callback(lambda done: self._queue_response(node, by_key, done))

    def _count(self, batches: list[ProducerBatch]) -> None:
        counts, now_s = self.counts, self._loop.time()
        counts.requests += 1
        for batch in batches:
            if batch.attempts == 1:
                counts.sent(
                    batch.queue.topic_partition.topic,
                    batch.record_count,
                    batch.builder.size_bytes,
                    now_s - batch.created_s,
                    now_s,
                )

    def _queue_response(
        self,
        node: _Node,
        batches: dict[Key, ProducerBatch],
        future: "asyncio.Future[ProduceResponse]",
    ) -> None:
        self._responses.append((node, batches, future))
        self._wake.set()

    def _connect(self, leader: int, node: _Node) -> None:
        if not node.connecting:
            node.connecting = True
            self._start(self._connect_to(leader, node))

    async def _connect_to(self, leader: int, node: _Node) -> None:
        try:
            await self._cluster.connection(leader, "produce")
        except (ClientError, KafkaError) as error:
            # Only the first failure is a warning: the others would repeat it every second.
            level = logging.INFO if node.failures.count else logging.WARNING
            _log.log(level, "no connection to broker %d: %s", leader, error)
            self._cluster.refresh_soon()
            await node.failures.wait()
        else:
            node.failures.reset()
        finally:
            node.connecting = False
            self._wake.set()

    def _start(self, work: "asyncio._CoroutineLike[None]") -> None:
        task: asyncio.Task[None] = self._loop.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._on_task_ended)

    def _on_task_ended(self, task: "asyncio.Task[None]") -> None:
        self._background.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._give_up(error)

    # The producer id

    def _ask_for_id(self, idempotence: Idempotence) -> None:
        if self.transactions is not None:
            # init_transactions() brings the producer id.
            return
        if not self._asking_for_id and self.accumulator.incomplete:
            self._asking_for_id = True
            self._start(self._get_producer_id(idempotence))

    async def _get_producer_id(self, idempotence: Idempotence) -> None:
        try:
            idempotence.new_producer_id(*await ask_for_producer_id(self._cluster))
        except (ClientError, KafkaError) as error:
            self._outcomes.abandon(error)
        finally:
            self._asking_for_id = False
            self._wake.set()

    # Responses

    def _handle_response(
        self,
        node: _Node,
        batches: dict[Key, ProducerBatch],
        future: "asyncio.Future[ProduceResponse]",
    ) -> None:
        node.in_flight -= 1
        error = future.exception()
        if error is not None:
            self._handle_no_response(list(batches.values()), error, were_sent=True)
            return
        response = future.result()
        endpoints = [
            Broker(BrokerId(endpoint.node_id), endpoint.host, endpoint.port, endpoint.rack)
            for endpoint in response.node_endpoints
        ]
        for topic in response.responses:
            for partition in topic.partition_responses:
                batch = batches.pop((topic.topic_id, partition.index), None)
                if batch is None:
                    batch = batches.pop((topic.name, partition.index), None)
                if batch is not None:
                    self._outcomes.handle_response(batch, partition, endpoints)
                    self._mark_if_due(batch.queue)
        if batches:
            missing = error_for(ErrorCode.UNKNOWN_SERVER_ERROR, "the broker left it unanswered")
            self._handle_no_response(list(batches.values()), missing, were_sent=True)

    def _mark_if_due(self, queue: PartitionQueue) -> None:
        """Marks the queue as ready if its first batch, the next one or a retry, can be sent."""
        batches = queue.batches
        if batches and (len(batches) > 1 or self._is_due(batches[0], self._loop.time())):
            self.mark_ready(queue)

    def _handle_no_response(
        self, batches: list[ProducerBatch], error: BaseException, *, were_sent: bool
    ) -> None:
        if needs_metadata(error):
            self._cluster.refresh_soon()
        for batch in batches:
            self._outcomes.handle_no_response(batch, error, was_sent=were_sent)
            self._mark_if_due(batch.queue)

    # The end

    def close(self) -> None:
        """Accepts no more records and sends batches without lingering."""
        self._closing = True
        self.accumulator.close("the producer was closed while send() waited")
        self.mark_all_ready()

    def _give_up(self, error: BaseException) -> None:
        """Accepts no more records and fails all that are left, so that no caller waits for ever."""
        if self.failure is None:
            is_closed = isinstance(error, ClientClosed)
            self.failure = ClientClosed(
                str(error) if is_closed else f"the producer ended: {error!r}"
            )
            self.failure.__cause__ = error
            self.accumulator.close(str(self.failure))
        self._outcomes.abandon(error)

    async def stop(self) -> None:
        self._timers.close()
        if self.transactions is not None:
            await self.transactions.close()
        for task in list(self._background):
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)
