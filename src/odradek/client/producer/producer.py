"""The producer: sends records and returns a future for the delivery of each.

    async with Producer(bootstrap_servers="localhost:9092") as producer:
        delivery = await producer.send("clicks", b"value", key=b"user-7")
        where = await delivery            # RecordMetadata: topic, partition, offset, timestamp

`send` waits only for a topic's metadata and for room in the buffer, and returns the future of the
delivery. `accumulator` gathers records into batches and `sender` sends them; this module is the
public face of both. Its `send` is called for every record, so it must be fast.
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, Never, Self, Unpack

from odradek.client import arguments
from odradek.client.cluster import Cluster
from odradek.client.errors import ClientClosed, RecordTooLarge, TimedOut, TransactionError
from odradek.client.group.offsets import GroupMetadata, OffsetsToCommit, with_metadata
from odradek.client.habits import PRODUCER, answers, awaits, explain, in_close, in_flush
from odradek.client.metrics.client_metrics import ClientMetrics
from odradek.client.producer.accumulator import Accumulator
from odradek.client.producer.deliveries import OnDelivery, RecordMetadata
from odradek.client.producer.interceptors import ProducerInterceptor, ProducerRecord
from odradek.client.producer.own_classes import OwnClasses, SerializedRecord
from odradek.client.producer.record_bytes import (
    EMPTY_RECORD_BYTES,
    GivenHeaders,
    as_headers,
    checked_timestamp,
    is_callback,
    size_of,
)
from odradek.client.producer.send_arguments import check_known, checked_time, is_in_milliseconds
from odradek.client.producer.sender import Sender
from odradek.client.producer.topic_targets import TopicTarget, TopicTargets
from odradek.client.producer.transaction_requests import Identity
from odradek.client.producer.transactions import Transactions
from odradek.client.serialization import serialize
from odradek.client.settings import ProducerSettings
from odradek.client.settings.shared import settings_from
from odradek.wording import counted
from odradek.world import World

if TYPE_CHECKING:
    from odradek.client.metrics.figures import Reading
    from odradek.client.metrics.view import MetricName
    from odradek.client.settings.options import ProducerOptions


# The background work of producers that are not closed. Asyncio itself refers to a task weakly: a
# producer that nothing else refers to would be destroyed with the records that it has to send.
_RUNNING: Final[set[asyncio.Task[None]]] = set()


@awaits
@answers(PRODUCER)
class Producer:
    """Sends records. Use it with `async with`, or `start` and `close` it yourself."""

    def __init__(
        self,
        settings: ProducerSettings | Mapping[str, object] | None = None,
        /,
        *,
        interceptors: Sequence[ProducerInterceptor] = (),
        world: World | None = None,
        **options: "Unpack[ProducerOptions]",
    ) -> None:
        """Nothing is sent, and no broker is contacted, before the first call.

        Settings are keyword arguments, a `ProducerSettings`, or a dict with Kafka's names:
        `Producer(linger_ms=20)`, `Producer({"linger.ms": 20})`. All are described in
        docs/reference/client-settings.md.
        """
        self.settings = settings = settings_from(ProducerSettings, settings, options, "Producer")
        self._world = world or World()
        self._own = own = OwnClasses(settings, interceptors, self._world.randomness)
        self._key_serializer = None if own.key is None else own.key.function
        self._value_serializer = None if own.value is None else own.value.function
        self._serializes = bool(own.serialized_fields)
        self._choose = own.partitioner.choose
        self._shows_records = own.sees_records
        self._now_ms = self._world.clock.now_ms
        self._max_bytes = min(settings.max_request_size, settings.buffer_memory)
        self._targets = TopicTargets(settings.metadata_max_idle_ms)
        self._cluster: Cluster | None = None
        self._sender: Sender | None = None
        self._accumulator: Accumulator | None = None
        self._is_transactional = settings.transactional_id is not None
        self._running: asyncio.Task[None] | None = None
        self._metrics: ClientMetrics | None = None
        self._closed = False

    async def start(self) -> Self:
        """Starts the background work, as `send` does; brokers are contacted when needed."""
        self._parts()
        return self

    def _parts(self) -> tuple[Cluster, Sender]:
        if self._closed:
            raise ClientClosed("the producer is closed")
        if self._cluster is None or self._sender is None:
            self._cluster = Cluster(self.settings, self._world.randomness, auto_create_topics=True)
            self._sender = Sender(self._cluster, self.settings)
            self._accumulator = self._sender.accumulator
            self._cluster.on_change(self._metadata_changed)
            self._metrics = ClientMetrics(
                "producer",
                self._cluster,
                self._read_figures,
                self._sender.counts.queue,
                pushes=self.settings.enable_metrics_push,
            )
            loop = asyncio.get_running_loop()
            self._running = loop.create_task(self._sender.run(), name="odradek-producer")
            _RUNNING.add(self._running)
            self._running.add_done_callback(_RUNNING.discard)
        if self._sender.failure is not None:
            raise ClientClosed(str(self._sender.failure)) from self._sender.failure
        return self._cluster, self._sender

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, _: object, error: object, *others: object) -> None:
        explain(error)
        await self.close()

    # Sending

    async def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        *unnamed: Never,
        partition: int | None = None,
        headers: GivenHeaders = (),
        timestamp_ms: int | None = None,
        on_delivery: OnDelivery | None = None,
        **others: Never,
    ) -> "asyncio.Future[RecordMetadata]":
        """Adds a record to a batch and returns the future of its delivery.

        Waits, up to `max.block.ms`, for a topic's metadata and for room in the buffer, and for a
        moment while the brokers are behind. The future need not be awaited: `flush` waits for all.
        `on_delivery(metadata, error)` is called with one of them None. Concurrent sends to a topic
        keep their order; one that is cancelled has sent nothing.
        """
        if (
            others
            or unnamed
            or topic.__class__ is not str
            or (timestamp_ms is not None and not is_in_milliseconds(timestamp_ms))
            or (on_delivery is not None and not is_callback(on_delivery))
        ):
            check_known(Producer.send, (self, topic, value, key), unnamed, others)
            timestamp_ms = checked_time(topic, timestamp_ms, on_delivery)
        if self._is_transactional:
            self._transactional("send()").check_open("send()")
        if self._shows_records:
            record = ProducerRecord(topic, value, key, partition, as_headers(headers), timestamp_ms)
            return await self._send_whole(record, on_delivery)
        if self._serializes:
            key, value = self._serialized(key, value)
        if value.__class__ is bytes and key is None and not headers:
            size_bytes = EMPTY_RECORD_BYTES + len(value)
        else:
            if headers and headers.__class__ is not list:
                headers = as_headers(headers)
            size_bytes = size_of(key, value, headers, self._own.serialized_fields)  # type: ignore[arg-type]  # pairs by now
        accumulator, target = self._accumulator, self._targets.by_name.get(topic)
        if (
            accumulator is None
            or target is None
            or accumulator.must_wait
            or size_bytes > accumulator.free_bytes
            or size_bytes > self._max_bytes
            or (
                partition is not None
                and (partition.__class__ is not int or partition not in target.queues)
            )
        ):
            accumulator, target = await self._ready(topic, partition, size_bytes)
        target.is_used = True
        if partition is None:
            partition = self._choose(
                topic, key, size_bytes, target.all_partitions, target.available_partitions
            )
        return accumulator.append(
            target.queues[partition],
            key,
            value,
            headers,  # type: ignore[arg-type]  # pairs by now, never a dict
            self._now_ms() if timestamp_ms is None else timestamp_ms,
            size_bytes,
            on_delivery,
        )

    def _serialized(self, key: Any, value: Any) -> tuple[Any, Any]:
        if self._key_serializer is not None and key is not None:
            key = serialize(self._key_serializer, "key", key)
        if self._value_serializer is not None and value is not None:
            value = serialize(self._value_serializer, "value", value)
        return key, value

    async def send_and_wait(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        *unnamed: Never,
        partition: int | None = None,
        headers: GivenHeaders = (),
        timestamp_ms: int | None = None,
        **others: Never,
    ) -> RecordMetadata:
        """Sends a record, waits for its delivery and returns its metadata."""
        if unnamed or others:
            check_known(Producer.send_and_wait, (self, topic, value, key), unnamed, others)
        return await (
            await self.send(
                topic, value, key, partition=partition, headers=headers, timestamp_ms=timestamp_ms
            )
        )

    @property
    def undelivered(self) -> int:
        """How many records are neither acknowledged nor failed."""
        return 0 if self._accumulator is None else self._accumulator.record_count

    async def partitions_for(self, topic: str) -> list[int]:
        """Returns the partitions of a topic."""
        cluster, _ = self._parts()
        arguments.a_name(topic, "partitions_for()")
        return list((await cluster.topic(topic, self.settings.max_block_ms)).all_partitions)

    @in_flush
    async def flush(self, timeout_ms: int | None = None) -> None:
        """Returns when all that was sent so far is acknowledged or has failed.

        After `timeout_ms`, if that is given, it raises `TimedOut`; the records are sent on.
        """
        timeout_s = _seconds("flush()", timeout_ms)
        if self._sender is None:
            return
        try:
            async with asyncio.timeout(timeout_s):
                await self._sender.flush()
        except TimeoutError:
            raise TimedOut(
                f"records were not acknowledged within {timeout_ms} ms: flush() counts milliseconds"
            ) from None

    async def stop(self) -> None:
        """The same as `close`, by aiokafka's name."""
        await self.close()

    @in_close
    async def close(self, timeout_ms: int | None = None) -> None:
        """Sends the remaining records and waits for them; after `timeout_ms` they fail."""
        timeout_s = _seconds("close()", timeout_ms)
        explain(sys.exception())
        if self._closed:
            return
        self._closed = True
        sender, running = self._sender, self._running
        if sender is None or running is None or self._cluster is None:
            self._own.close()
            return
        if running.get_loop().is_closed():
            # Its tasks and connections have ended with it.
            self._own.close()
            return
        try:
            async with asyncio.timeout(timeout_s):
                if sender.failure is None:
                    if sender.transactions is not None:
                        await sender.transactions.abandon()
                    sender.close()
                    await sender.flush()
        except TimeoutError:
            pass
        finally:
            running.cancel()
            try:
                await asyncio.gather(running, return_exceptions=True)
                await sender.stop()
                if self._metrics is not None:
                    await self._metrics.close()
            finally:  # If closing is cancelled, too.
                await self._cluster.close()
                self._own.close()

    # Metrics

    def metrics(self) -> "dict[MetricName, float]":
        """Returns figures by Kafka's names (docs/reference/client-metrics.md)."""
        return {} if self._metrics is None else self._metrics.metrics()

    async def client_instance_id(self, timeout_ms: int = 30_000) -> str:
        """Returns the id under which brokers know this client's metrics."""
        self._parts()
        assert self._metrics is not None  # It is made with the other parts.
        return await self._metrics.client_instance_id(timeout_ms)

    def _read_figures(self, now_s: float) -> "Reading":
        from odradek.client.metrics.figures import read_producer  # noqa: PLC0415 - when asked for

        assert self._cluster is not None
        assert self._sender is not None
        return read_producer(self._cluster, self._sender, now_s)

    # Transactions

    async def init_transactions(self) -> None:
        """Must be called once, before the first transaction.

        It fences older producers with the same transactional id; a transaction that such a
        producer left open is aborted before this returns.
        """
        await self._transactional("init_transactions()").initialise()

    async def begin_transaction(self) -> None:
        """Begins a transaction: every record that is sent from now on is part of it."""
        self._transactional("begin_transaction()").begin()

    async def commit_transaction(self) -> None:
        """Waits for the delivery of all records and commits them.

        Raises `MustAbort` if a record failed: only `abort_transaction` can follow. Raises
        `ProducerFenced` if this producer must be closed. After a time-out, call it again.
        """
        await self._transactional("commit_transaction()").commit()

    async def abort_transaction(self) -> None:
        """Aborts the transaction: consumers with `read_committed` will not see its records."""
        await self._transactional("abort_transaction()").abort()

    async def hand_over_transaction(self) -> Identity:
        """Waits for the records in flight; the transaction stays open when this producer closes.

        `Admin.end_transactions` commits or aborts it, in this process or another, unless a newer
        producer of the same transactional id or `transaction.timeout.ms` has aborted it before.
        """
        return await self._transactional("hand_over_transaction()").hand_over()

    async def send_offsets_to_transaction(
        self,
        offsets: OffsetsToCommit,
        group: GroupMetadata | str,
    ) -> None:
        """Commits a group's offsets with the transaction: of the next records to read.

        `group` is `Consumer.group_metadata()`, so that a consumer which is no longer a member
        cannot commit; the consumer itself must not (enable_auto_commit=False).
        """
        call = "send_offsets_to_transaction()"
        transactions = self._transactional(call)
        given: object = GroupMetadata(group) if isinstance(group, str) else group
        who = arguments.one_of(
            GroupMetadata, given, call, "the member of the group", "consumer.group_metadata()"
        )
        await transactions.send_offsets(with_metadata(offsets, call), who)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Self]:
        """Begins a transaction, and commits it at the end or aborts it when something raises."""
        await self.begin_transaction()
        try:
            yield self
            await self.commit_transaction()
        except BaseException:
            if self.may_abort:
                await self.abort_transaction()
            raise

    @property
    def may_abort(self) -> bool:
        """Returns whether a transaction is open that `abort_transaction` could end."""
        transactions = None if self._sender is None else self._sender.transactions
        return transactions is not None and transactions.may_abort

    def _transactional(self, what: str) -> Transactions:
        _, sender = self._parts()
        if sender.transactions is None:
            raise TransactionError(f"{what} needs a transactional producer: set transactional.id")
        return sender.transactions

    # When something of the user's sees whole records

    async def _send_whole(
        self, given: ProducerRecord, on_delivery: OnDelivery | None
    ) -> "asyncio.Future[RecordMetadata]":
        """Does what `send` does, with interceptors, context for serializers, and objects for the
        partitioner."""
        record, own = given, self._own
        try:
            record = own.interceptors.sent(given)
            partition, timestamp_ms = record.partition, record.timestamp_ms
            if timestamp_ms is not None:
                timestamp_ms = checked_timestamp(timestamp_ms)
            delivered = own.interceptors.on_delivery(record, on_delivery)
            whole = own.serialized(record)
            if whole is not None:
                return await self._append_whole(whole, partition, timestamp_ms, delivered)
            async with own.turn(record) as whole:
                return await self._append_whole(whole, partition, timestamp_ms, delivered)
        except BaseException as error:
            own.interceptors.not_sent(record, error)
            raise

    async def _append_whole(
        self,
        whole: SerializedRecord,
        partition: int | None,
        timestamp_ms: int | None,
        on_delivery: OnDelivery | None,
    ) -> "asyncio.Future[RecordMetadata]":
        accumulator, target = await self._ready(whole.record.topic, partition, whole.size_bytes)
        target.is_used = True
        if partition is None:
            all_partitions = target.all_partitions
            partition = self._own.place(whole, all_partitions, target.available_partitions)
        return accumulator.append(
            target.queues[partition],
            whole.key,
            whole.value,
            whole.headers,
            self._now_ms() if timestamp_ms is None else timestamp_ms,
            whole.size_bytes,
            on_delivery,
        )

    # When `send` has to wait

    async def _ready(
        self, topic: str, partition: int | None, size_bytes: int
    ) -> tuple[Accumulator, TopicTarget]:
        """Waits for the topic's metadata and for room in the buffer."""
        cluster, sender = self._parts()
        settings = self.settings
        if partition is not None:
            arguments.integer(partition, "send()", "partition")
        if size_bytes > self._max_bytes:
            name = "max.request.size"
            if settings.buffer_memory < settings.max_request_size:
                name = "buffer.memory"
            raise RecordTooLarge(
                f"a record of {size_bytes} bytes is larger than {name}={self._max_bytes}: set"
                f" {name}={size_bytes} or more, and max.message.bytes of the topic"
            )
        deadline_s = asyncio.get_running_loop().time() + settings.max_block_ms / 1000
        described = await cluster.topic(topic, settings.max_block_ms)
        if partition is not None and partition not in described.partitions:
            # Partitions may have been added; a partition that is not known now does not exist.
            await cluster.refresh()
            described = await cluster.topic(topic, settings.max_block_ms)
            if partition not in described.partitions:
                hint = "; leave it out to have one chosen" if partition == -1 else ""
                raise ValueError(
                    f"topic {topic} has {counted(len(described.partitions), 'partition')}:"
                    f" there is no partition {partition}{hint}"
                )
        if not sender.accumulator.has_room(size_bytes):
            await sender.accumulator.room(size_bytes, deadline_s)
        if self._closed:
            raise ClientClosed("the producer was closed while send() waited")
        if sender.transactions is not None:
            sender.transactions.check_open("send()")
        target = self._targets.by_name.get(topic)
        if target is None or (partition is not None and partition not in target.queues):
            target = self._targets.make(described, sender)
        return sender.accumulator, target

    def _metadata_changed(self) -> None:
        if self._cluster is not None and self._sender is not None:
            self._targets.make_again(self._cluster, self._sender)


def _seconds(call: str, timeout_ms: int | None) -> float | None:
    return None if timeout_ms is None else arguments.timeout(timeout_ms, call) / 1000
