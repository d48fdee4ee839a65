"""What clients do while hosts suffer: every kind of client, each on a host of its own.

    writers     idempotent producers of librdkafka and of our own client write numbered records
    pairs       a transactional producer (librdkafka) writes each number to two partitions; every
                fourth transaction is aborted
    copies      consume-transform-produce with our own client, one copy in a group of the classic
                protocol and one of the new protocol (KIP-848)
    readers     groups of both protocols, of librdkafka and of our own client, two members each
    followers   consumers with an assignment, of librdkafka and of our own client

Each value is written once, so a value names its send. `judging` compares what they saw.
"""

import asyncio
import itertools
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from odradek.client import Consumer as OwnConsumer
from odradek.client import Producer as OwnProducer
from odradek.client.errors import ClientError, MustAbort, TimedOut
from odradek.client.errors import ProducerFenced as OwnFenced
from odradek.client.producer.deliveries import RecordMetadata
from odradek.protocol.errors import ErrorCode
from odradek.protocol.errors import KafkaError as OwnKafkaError
from simulation.checkers import History, Send
from tests.scenarios.chaos_load import PATIENCE_S, Death, TransactionalLoad, Worker
from tests.scenarios.hosts.network import Network

LOAD, PAIRS = "load", "pairs"
COPIES: Final = {"classic": "copy-classic", "consumer": "copy-consumer"}
PARTITIONS: Final = 4
LIBRDKAFKA_HOST, OWN_HOST, GROUPS_HOST = 21, 22, 23
_CLIENT: Final = {"log_level": 0, "reconnect.backoff.max.ms": 1000, "socket.timeout.ms": 10_000}
_COPIED_AT_A_TIME: Final = 200
_COPY_TIMEOUT_MS: Final = 20_000


def create_topics(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, **_CLIENT})
    config = {"min.insync.replicas": "2"}
    counts = {LOAD: PARTITIONS, PAIRS: 2, **dict.fromkeys(COPIES.values(), PARTITIONS)}
    topics = [NewTopic(name, count, 3, config=config) for name, count in counts.items()]
    for made in admin.create_topics(topics).values():
        made.result(PATIENCE_S)


class Acknowledgements:
    """When each writer of each partition was acknowledged, for the longest gap of a fault."""

    def __init__(self) -> None:
        self.times_s: dict[tuple[str, int], list[float]] = defaultdict(list)

    def add(self, writer: str, partition: int) -> None:
        self.times_s[writer, partition].append(time.monotonic())

    def count(self) -> int:
        return sum(map(len, list(self.times_s.values())))

    def longest_gap_s(self, since_s: float, until_s: float) -> float:
        """The longest time in which a writer got no acknowledgement of some partition."""
        longest = 0.0
        for times in list(self.times_s.values()):
            moments = [since_s, *(one for one in times if since_s < one < until_s), until_s]
            longest = max(longest, *(b - a for a, b in itertools.pairwise(moments)))
        return longest

    def since(self, moment_s: float) -> bool:
        """Whether every writer was acknowledged in every partition since then."""
        return bool(self.times_s) and all(times[-1] > moment_s for times in self.times_s.values())


class Load:
    """What all workers share."""

    def __init__(self, network: Network, bootstrap: str, rate: int) -> None:
        self.network = network
        self.bootstrap = bootstrap
        self.pause_s = 1 / rate
        self.history = History()
        self.lock = threading.Lock()
        self.acknowledgements = Acknowledgements()
        self.failures: list[str] = []
        # Acknowledged, at an offset that nobody was told: a batch that was sent again much later.
        self.unplaced: list[Send] = []
        self.deaths: list[Death] = []
        self.sent_s: dict[bytes, float] = {}
        # What a group has read, and what each copy has written, by value.
        self.read_by_group: dict[str, set[bytes]] = defaultdict(set)

    def sending(self, writer: str, partition: int, value: bytes) -> Send:
        with self.lock:
            self.sent_s[value] = time.monotonic()
            return self.history.sending(writer, partition, value)


class HostWorker(Worker):
    """A thread on a host: the sockets of its clients, and the clients' own threads, are there."""

    def __init__(self, name: str, load: Load, host: int) -> None:
        super().__init__(name)
        self.load = load
        self._host = host

    def _run(self) -> None:
        self.load.network.enter(self._host)
        super()._run()


class LibrdkafkaWriter(HostWorker):
    def work(self) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self.load.bootstrap,
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 2,
                **_CLIENT,
            }
        )
        for number in itertools.count():
            if self._stops.is_set():
                break
            self._send(producer, number)
            producer.poll(self.load.pause_s)
        left = producer.flush(PATIENCE_S)
        assert left == 0, f"{self.name}: {left} records were never answered"

    def _send(self, producer: Producer, number: int) -> None:
        load, partition, value = self.load, number % PARTITIONS, f"{self.name}:{number}".encode()
        send = load.sending(self.name, partition, value)

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                load.failures.append(f"{value!r}: {error}")
                return
            load.acknowledgements.add(self.name, partition)
            offset = message.offset()
            if offset is None or offset < 0:
                load.unplaced.append(send)
            else:
                load.history.acknowledged(send, offset)

        producer.produce(LOAD, value, partition=partition, on_delivery=delivered)


class OwnWorker(HostWorker):
    """Runs a coroutine of our own client."""

    def work(self) -> None:
        asyncio.run(self.serve())

    async def serve(self) -> None:
        raise NotImplementedError


class OwnWriter(OwnWorker):
    async def serve(self) -> None:
        async with OwnProducer(bootstrap_servers=self.load.bootstrap, linger_ms=2) as producer:
            for number in itertools.count():
                if self._stops.is_set():
                    break
                await self._send(producer, number)
                await asyncio.sleep(self.load.pause_s)
            await producer.flush()

    async def _send(self, producer: OwnProducer, number: int) -> None:
        load, partition, value = self.load, number % PARTITIONS, f"{self.name}:{number}".encode()
        send = load.sending(self.name, partition, value)

        def delivered(metadata: RecordMetadata | None, error: BaseException | None) -> None:
            if metadata is None:
                load.failures.append(f"{value!r}: {error!r}")
                return
            load.acknowledgements.add(self.name, partition)
            load.history.acknowledged(send, metadata.offset)

        try:
            await producer.send(LOAD, value, partition=partition, on_delivery=delivered)
        except ClientError as error:
            # Nothing was sent: the buffer was full, or metadata did not come in time.
            load.failures.append(f"{value!r} was not sent: {error!r}")


class Pairs(TransactionalLoad):
    """The transactions of `chaos_load` on a host, with the moment at which each commit began."""

    def __init__(self, load: Load, host: int) -> None:
        super().__init__(load.bootstrap, 0.05)
        self._load = load
        self._host = host
        self.commit_begun_s: dict[int, float] = {}

    def _run(self) -> None:
        self._load.network.enter(self._host)
        super()._run()

    def committing(self, number: int) -> None:
        self.commit_begun_s[number] = time.monotonic()


class Copy(OwnWorker):
    """Consume-transform-produce: each record of the load once in another topic."""

    def __init__(self, load: Load, host: int, protocol: str) -> None:
        super().__init__(f"copy-{protocol}", load, host)
        self._protocol = protocol
        self.commits = 0
        self.restarts = 0
        self.begun_s = time.monotonic()
        self.copied: set[bytes] = set()

    async def serve(self) -> None:
        while not self._stops.is_set():
            try:
                await self._copy()
            except (ClientError, OwnKafkaError) as error:
                # As a supervisor would: a new producer fences the old one, and the group's
                # offsets say where to go on.
                self.note_death(error)
                await asyncio.sleep(0.2)

    def note_death(self, error: ClientError | OwnKafkaError) -> None:
        """It may lose its patience, and may be refused after the time-out of its transaction."""
        open_s = time.monotonic() - self.begun_s
        allowed = ""
        if isinstance(error, TimedOut):
            allowed = "it waited for as long as it was told to"
        elif open_s * 1000 >= _COPY_TIMEOUT_MS and _is_refusal(error):
            allowed = "its transaction was open for longer than its time-out"
        reason = f"{error!r}, {open_s:.1f} s after its transaction began"
        self.load.deaths.append(Death(self.name, reason, time.monotonic(), allowed))
        self.restarts += 1

    async def _copy(self) -> None:
        bootstrap = self.load.bootstrap
        async with (
            OwnProducer(
                bootstrap_servers=bootstrap,
                transactional_id=self.name,
                transaction_timeout_ms=_COPY_TIMEOUT_MS,
                max_block_ms=30_000,
            ) as producer,
            OwnConsumer(
                bootstrap_servers=bootstrap,
                group_id=self.name,
                group_protocol="classic" if self._protocol == "classic" else "consumer",
                auto_offset_reset="earliest",
                enable_auto_commit=False,
                isolation_level="read_committed",
            ) as consumer,
        ):
            await producer.init_transactions()
            consumer.subscribe([LOAD])
            while not self._stops.is_set():
                taken = await consumer.poll(500, max_records=_COPIED_AT_A_TIME)
                if taken:
                    await self._write(producer, consumer, taken)

    async def _write(self, producer: OwnProducer, consumer: OwnConsumer, taken: dict) -> None:  # type: ignore[type-arg]
        self.begun_s = time.monotonic()
        try:
            async with producer.transaction():
                for partition, records in taken.items():
                    for record in records:
                        await producer.send(
                            COPIES[self._protocol], record.value, partition=partition.partition
                        )
                offsets = {one: records[-1].offset + 1 for one, records in taken.items()}
                await producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
        except MustAbort:
            # The transaction was aborted: read the same records again.
            for partition, records in taken.items():
                if partition in consumer.assignment():
                    consumer.seek(partition, records[0].offset)
        else:
            self.commits += 1
            self.copied.update(record.value for records in taken.values() for record in records)


def _is_refusal(error: ClientError | OwnKafkaError) -> bool:
    """Of a transaction that is over: the coordinator has aborted it."""
    if isinstance(error, OwnKafkaError):
        return error.code is ErrorCode.INVALID_TXN_STATE
    return isinstance(error, OwnFenced)


class LibrdkafkaReader(HostWorker):
    """A member of a group; commits what it has noted."""

    def __init__(self, name: str, load: Load, host: int, protocol: str) -> None:
        super().__init__(name, load, host)
        self._group = f"librdkafka-{protocol}"
        self._protocol = protocol

    def work(self) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": self.load.bootstrap,
                "group.id": self._group,
                "group.protocol": self._protocol,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                **_CLIENT,
            }
        )
        consumer.subscribe([LOAD])
        seen = self.load.read_by_group[self._group]
        try:
            while not self._stops.is_set():
                messages = consumer.consume(500, 0.3)
                _raise_if_fatal(messages)
                seen.update(one.value() or b"" for one in messages if one.error() is None)
                if messages:
                    try:
                        consumer.commit(asynchronous=False)
                    except KafkaException:
                        # It will be read again, by this member or by another.
                        continue
        finally:
            consumer.close()


class OwnReader(OwnWorker):
    def __init__(self, name: str, load: Load, host: int, protocol: str) -> None:
        super().__init__(name, load, host)
        self._group = f"own-{protocol}"
        self._protocol = protocol

    async def serve(self) -> None:
        seen = self.load.read_by_group[self._group]
        async with OwnConsumer(
            bootstrap_servers=self.load.bootstrap,
            group_id=self._group,
            group_protocol="classic" if self._protocol == "classic" else "consumer",
            auto_offset_reset="earliest",
            auto_commit_interval_ms=500,
        ) as consumer:
            consumer.subscribe([LOAD])
            while not self._stops.is_set():
                try:
                    taken = await consumer.poll(300)
                except (ClientError, OwnKafkaError):
                    continue
                seen.update(record.value for records in taken.values() for record in records)


class LibrdkafkaFollower(HostWorker):
    """Reads with an assignment, without a break: no offset may be skipped or come twice."""

    def __init__(
        self,
        name: str,
        load: Load,
        host: int,
        topic: tuple[str, int],
        note: Callable[[int, int, bytes], None],
    ) -> None:
        super().__init__(name, load, host)
        self._topic, self._partitions = topic
        self._note = note

    def work(self) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": self.load.bootstrap,
                "group.id": self.name,
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                **_CLIENT,
            }
        )
        consumer.assign([TopicPartition(self._topic, one, 0) for one in range(self._partitions)])
        try:
            while not self._stops.is_set():
                messages = consumer.consume(500, 0.2)
                _raise_if_fatal(messages)
                for message in messages:
                    if message.error() is None:
                        partition, offset = message.partition(), message.offset()
                        assert partition is not None
                        assert offset is not None
                        self._note(partition, offset, message.value() or b"")
        finally:
            consumer.close()


def _raise_if_fatal(messages: Iterable[Message]) -> None:
    """A consumer that cannot go on says so in what it returns."""
    for message in messages:
        error = message.error()
        if error is not None and error.fatal():
            raise KafkaException(error)


class OwnFollower(OwnWorker):
    async def serve(self) -> None:
        async with OwnConsumer(
            bootstrap_servers=self.load.bootstrap, auto_offset_reset="earliest"
        ) as consumer:
            consumer.assign([(LOAD, one) for one in range(PARTITIONS)])
            while not self._stops.is_set():
                for partition, records in (await consumer.poll(300)).items():
                    for record in records:
                        self.load.history.polled(
                            self.name, partition.partition, record.offset, record.value
                        )
