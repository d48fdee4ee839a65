"""Transactional clients that record what they did, and readers of both isolation levels."""

import asyncio
from collections.abc import Callable, Hashable, Iterable
from typing import NamedTuple

from odradek.client import Consumer, ConsumerSettings, Producer, ProducerSettings, RecordMetadata
from odradek.client.errors import NoOffset, ProducerFenced, RequestTimedOut
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.types import TopicPartition
from odradek.world import World
from simulation.checkers import History, Send
from simulation.group_checkers import GroupHistory
from simulation.group_workload import OwnershipRecorder, Refusal, has_lost_its_place
from simulation.transaction_checkers import Attempt, ShutOut, TransactionHistory
from simulation.workload import Options


class Temper(NamedTuple):
    """How often a transaction is aborted on purpose, or stalled, and for how long at most."""

    aborts: float
    stall_probability: float
    max_stall_s: float


class _Transactional:
    """Runs one transaction after the other. A producer that failed is replaced by a new one."""

    def __init__(
        self,
        name: str,
        history: TransactionHistory,
        options: Options,
        temper: Temper,
        is_current: Callable[[str], bool],
    ) -> None:
        self.name = name
        self.is_leaving = False
        self._history = history
        self._options = options
        self._temper = temper
        self._is_current = is_current
        self._transactional_id = str(options["transactional_id"])
        self._producers = 0

    @property
    def is_done(self) -> bool:
        return self.is_leaving

    @property
    def is_current(self) -> bool:
        return self._is_current(self.name)

    async def produce(self, world: World) -> None:
        """Runs until it is done, or until another program has taken its slot."""
        while not self.is_done:
            self._producers += 1
            instance = f"{self.name}/{self._producers}"
            producer = Producer(ProducerSettings.from_options(self._options), world=world)
            asked_s = world.clock.monotonic_s()
            self._history.is_asking(self._transactional_id, instance, asked_s)
            try:
                await producer.init_transactions()
                now_s = world.clock.monotonic_s()
                self._history.is_ready(self._transactional_id, instance, asked_s, now_s)
                while not self.is_done:
                    await self.run_transaction(producer, instance, world)
            except Refusal as error:
                self._note_shut_out(error, instance, world.clock.monotonic_s())
                if has_lost_its_place(error):
                    raise
                if isinstance(error, ProducerFenced) and not self.is_current:
                    return
                await asyncio.sleep(0.2)
            finally:
                await producer.close(timeout_ms=1000)

    def _note_shut_out(self, error: BaseException, instance: str, now_s: float) -> None:
        attempts = self._history.attempts
        began_s = max(
            (attempt.began_s for attempt in attempts if attempt.producer == instance), default=now_s
        )
        codes = [getattr(one, "code", None) for one in (error, error.__cause__)]
        if ErrorCode.INVALID_PRODUCER_ID_MAPPING in codes:
            self._history.shut_out.append(ShutOut(self._transactional_id, instance, began_s, now_s))

    async def run_transaction(self, producer: Producer, instance: str, world: World) -> None:
        raise NotImplementedError

    def begin(self, instance: str, world: World) -> Attempt:
        return self._history.began(self._transactional_id, instance, world.clock.monotonic_s())

    async def send(
        self, producer: Producer, attempt: Attempt, partition: TopicPartition, value: bytes
    ) -> None:
        send = self._history.log.sending(attempt.producer, partition, value)
        attempt.sends.append(send)
        await producer.send(
            partition.topic,
            value,
            partition=partition.partition,
            on_delivery=_noting(self._history.log, send),
        )

    async def stall(self, world: World) -> None:
        if world.randomness.fraction() < self._temper.stall_probability:
            await asyncio.sleep(world.randomness.fraction() * self._temper.max_stall_s)

    async def end(self, producer: Producer, attempt: Attempt, world: World) -> None:
        """Commits, or aborts on purpose."""
        if world.randomness.fraction() < self._temper.aborts:
            await producer.abort_transaction()
            attempt.is_aborted = True
            return
        attempt.commit_asked_s = world.clock.monotonic_s()
        while True:
            try:
                await producer.commit_transaction()
            except RequestTimedOut:
                continue
            break
        attempt.is_committed = True
        attempt.committed_s = world.clock.monotonic_s()

    async def abandon(self, producer: Producer, attempt: Attempt) -> None:
        """Aborts after a failure. If that succeeds, nothing of the transaction may be visible."""
        if producer.may_abort:
            await producer.abort_transaction()
            attempt.is_aborted = True


class TransactionalFeeder(_Transactional):
    """Writes numbered values, some in each transaction."""

    def __init__(
        self,
        name: str,
        history: TransactionHistory,
        options: Options,
        temper: Temper,
        is_current: Callable[[str], bool],
        *,
        partitions: list[TopicPartition],
        transactions: int,
    ) -> None:
        super().__init__(name, history, options, temper, is_current)
        self._partitions = partitions
        self._left = transactions

    @property
    def is_done(self) -> bool:
        return self.is_leaving or self._left <= 0

    async def run(self, world: World) -> None:
        await self.produce(world)

    async def run_transaction(self, producer: Producer, instance: str, world: World) -> None:
        attempt = self.begin(instance, world)
        try:
            await producer.begin_transaction()
            for number in range(1 + world.randomness.integer_below(5)):
                partition = self._partitions[world.randomness.integer_below(len(self._partitions))]
                await self.send(producer, attempt, partition, b"%d.%d" % (attempt.number, number))
            await self.stall(world)
            await self.end(producer, attempt, world)
        except Refusal:
            await self.abandon(producer, attempt)
            raise
        self._left -= 1
        await asyncio.sleep(world.randomness.fraction())


class Route(NamedTuple):
    """The input and output topics of a worker, and the history of its group."""

    source: str
    target: str
    targets: int
    groups: GroupHistory
    consumer_options: Options


class Worker(_Transactional):
    """Consumes, transforms and produces. Offsets are committed in the same transaction."""

    def __init__(
        self,
        name: str,
        history: TransactionHistory,
        options: Options,
        temper: Temper,
        is_current: Callable[[str], bool],
        *,
        route: Route,
    ) -> None:
        super().__init__(name, history, options, temper, is_current)
        self._route = route

    async def run(self, world: World) -> None:
        settings = ConsumerSettings.from_options(self._route.consumer_options)
        self._notes = OwnershipRecorder(
            self.name, self._route.groups, self._history.committed, world
        )
        # A zombie must not take back the static membership or the transactional id that its
        # successor has: the two would fence each other for ever. It may fence the successor once,
        # in a transaction that it had begun before; the successor recovers from that.
        while not self.is_done and self.is_current:
            async with Consumer(settings, world=world) as consumer:
                self._consumer = self._notes.consumer = consumer
                consumer.subscribe([self._route.source], listener=self._notes)
                try:
                    await self.produce(world)
                except KafkaError as error:
                    if not has_lost_its_place(error):
                        raise
                    await asyncio.sleep(0.2)

    async def run_transaction(self, producer: Producer, instance: str, world: World) -> None:
        consumer = self._consumer
        taken = await consumer.poll(500, 1 + world.randomness.integer_below(12))
        if not taken:
            return
        attempt = self.begin(instance, world)
        try:
            await producer.begin_transaction()
            for partition, records in taken.items():
                for record in records:
                    self._notes.polled(partition, record.offset, record.value)
                    attempt.sources.append((partition, record.offset))
                    target = world.randomness.integer_below(self._route.targets)
                    value = b"%d:%d>%d" % (partition.partition, record.offset, attempt.number)
                    await self.send(
                        producer, attempt, TopicPartition(self._route.target, target), value
                    )
            await self.stall(world)
            positions = {
                topic_partition: records[-1].offset + 1
                for topic_partition, records in taken.items()
            }
            attempt.positions.update(positions)
            await producer.send_offsets_to_transaction(positions, consumer.group_metadata())
            await self.stall(world)
            await self.end(producer, attempt, world)
        except Refusal:
            try:
                await self.abandon(producer, attempt)
            finally:
                await self._rewind()
            raise
        if attempt.is_aborted:
            await self._rewind()

    async def _rewind(self) -> None:
        """Seeks back to the committed offsets, because the transaction was aborted."""
        consumer = self._consumer
        while True:
            try:
                committed = await consumer.committed(consumer.assignment())
                break
            except Refusal:
                await asyncio.sleep(0.2)
        for partition in consumer.assignment():
            if partition in committed:
                known = committed[partition]
                consumer.seek(partition, 0 if known is None else known.offset)
                self._notes.sought(partition)


class Reader:
    """Reads all partitions from their beginning on, with one isolation level."""

    def __init__(
        self,
        name: str,
        history: TransactionHistory,
        partitions: list[TopicPartition],
        options: Options,
    ) -> None:
        self.name = name
        self._history = history
        self._partitions = partitions
        self._options = options
        self._is_committed = options["isolation_level"] == "read_committed"
        self.positions: dict[TopicPartition, int] = {}

    async def run(self, world: World) -> None:
        polls = self._history.committed if self._is_committed else self._history.log
        for partition in self._partitions:
            polls.moved(self.name, partition)
        settings = ConsumerSettings.from_options(self._options)
        async with Consumer(settings, world=world) as consumer:
            consumer.assign(self._partitions)
            consumer.seek_to_beginning()
            while True:
                try:
                    for partition, records in (await consumer.poll(1000)).items():
                        for record in records:
                            self._note(partition, record.offset, record.value, world)
                    for partition in self._partitions:
                        self.positions[partition] = await consumer.position(partition)
                except Refusal as error:
                    if isinstance(error, NoOffset):
                        # The first look-up failed: no broker knew the topic yet.
                        for partition in error.partitions:
                            polls.moved(self.name, partition)
                        consumer.seek_to_beginning(error.partitions)
                    await asyncio.sleep(0.5)

    def reached(self, partition: Hashable, offset: int) -> bool:
        return any(
            topic_partition == partition and at >= offset
            for topic_partition, at in self.positions.items()
        )

    def _note(self, partition: TopicPartition, offset: int, value: bytes, world: World) -> None:
        if self._is_committed:
            now_s = world.clock.monotonic_s()
            self._history.read(self.name, partition, offset, value, now_s)
        else:
            self._history.log.polled(self.name, partition, offset, value)


async def read_all(
    world: World, partitions: Iterable[TopicPartition], options: Options
) -> dict[TopicPartition, list[tuple[int, bytes]]]:
    """Everything that a fresh consumer sees, up to the end as its isolation level has it."""
    found: dict[TopicPartition, list[tuple[int, bytes]]] = {
        topic_partition: [] for topic_partition in partitions
    }
    async with Consumer(ConsumerSettings.from_options(options), world=world) as consumer:
        consumer.assign(found)
        consumer.seek_to_beginning()
        ends = await consumer.end_offsets(found)
        for partition, end in ends.items():
            while await consumer.position(partition) < end:
                for topic_partition, records in (await consumer.poll(1000)).items():
                    found[topic_partition] += [(record.offset, record.value) for record in records]
    return found


async def read_ends(
    world: World, partitions: Iterable[TopicPartition], options: Options
) -> dict[TopicPartition, int]:
    """Where each partition ends, as the isolation level has it."""
    async with Consumer(ConsumerSettings.from_options(options), world=world) as consumer:
        return {
            partition: int(end)
            for partition, end in (await consumer.end_offsets(partitions)).items()
        }


def _noting(
    log: History, send: Send
) -> Callable[[RecordMetadata | None, BaseException | None], None]:
    def delivered(metadata: RecordMetadata | None, _: BaseException | None) -> None:
        # Without an offset (a repetition the broker could not place) it is in the log, and
        # nobody knows where.
        if metadata is not None and metadata.offset >= 0:
            log.acknowledged(send, metadata.offset)

    return delivered
