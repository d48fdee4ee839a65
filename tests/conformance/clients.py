"""Real clients behind two verbs, so that each can be crossed with each.

``produce`` writes rows to partition 0 and returns once every one is acknowledged; ``consume``
reads ``count`` rows of partition 0 from the beginning, without a group. What a client cannot
express (kcat sets no timestamps) its ``promise`` takes out of the rows: tests compare the rest.
"""

import asyncio
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioTopicPartition
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as PythonTopicPartition

from odradek.client import Consumer as OwnConsumer
from odradek.client import Producer as OwnProducer
from odradek.client import TopicPartition as OwnTopicPartition
from tests.conformance.rows import Row

PATIENCE_S = 30.0


class Client(Protocol):
    name: str

    def promise(self, row: Row) -> Row: ...

    def produce(self, bootstrap: str, topic: str, codec: str, rows: Sequence[Row]) -> None: ...

    def consume(self, bootstrap: str, topic: str, count: int) -> list[Row]: ...


def as_it_is(row: Row) -> Row:
    return row


def confluent_row(message: Message) -> Row:
    headers = tuple((name, value) for name, value in message.headers() or [])
    return Row(message.key(), message.value(), headers, message.timestamp()[1])


Settings = Mapping[str, str | int | bool]


def read_messages(
    bootstrap: str, topic: str, count: int, settings: Settings | None = None, *, offset: int = 0
) -> list[Message]:
    """Up to ``count`` messages of partition 0 with librdkafka; an error among them fails."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "no-group",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "fetch.wait.max.ms": 50,
            **(settings or {}),
        }
    )
    try:
        consumer.assign([TopicPartition(topic, 0, offset)])
        messages: list[Message] = []
        deadline = time.monotonic() + PATIENCE_S
        while len(messages) < count and time.monotonic() < deadline:
            for message in consumer.consume(min(count - len(messages), 100_000), 0.2):
                assert message.error() is None, message.error()
                messages.append(message)
        return messages
    finally:
        consumer.close()


def send(
    bootstrap: str,
    topic: str,
    value: bytes,
    settings: Settings,
    *,
    partition: int = 0,
    timestamp_ms: int = 0,
) -> KafkaError | None:
    """Send one record with librdkafka and return the error it was answered with."""
    outcome: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, **settings})
    producer.produce(
        topic,
        value,
        partition=partition,
        timestamp=timestamp_ms,
        on_delivery=lambda error, message: outcome.append(error),
    )
    assert producer.flush(PATIENCE_S) == 0, "no answer"
    return outcome[0]


@dataclass
class ConfluentClient:
    """librdkafka by confluent-kafka."""

    name: str = "confluent"
    promise: Callable[[Row], Row] = as_it_is

    def produce(self, bootstrap: str, topic: str, codec: str, rows: Sequence[Row]) -> None:
        failures: list[object] = []

        def delivered(error: object, message: Message) -> None:
            if error is not None:
                failures.append(error)

        producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "compression.type": codec,
                "linger.ms": 5,
                "acks": "all",
            }
        )
        for row in rows:
            producer.produce(
                topic,
                row.value,
                row.key,
                partition=0,
                headers=list(row.headers),
                timestamp=row.timestamp_ms,
                on_delivery=delivered,
            )
        assert producer.flush(PATIENCE_S) == 0, "records were left unsent"
        assert not failures, failures

    def consume(self, bootstrap: str, topic: str, count: int) -> list[Row]:
        return [confluent_row(message) for message in read_messages(bootstrap, topic, count)]


def without_null_headers(row: Row) -> Row:
    return row._replace(headers=tuple(pair for pair in row.headers if pair[1] is not None))


@dataclass
class KafkaPythonClient:
    """kafka-python, which shares no code with librdkafka, and refuses to send null headers."""

    name: str = "kafka-python"
    promise: Callable[[Row], Row] = without_null_headers

    def produce(self, bootstrap: str, topic: str, codec: str, rows: Sequence[Row]) -> None:
        producer = KafkaProducer(
            bootstrap_servers=bootstrap,
            compression_type=None if codec == "none" else codec,
            linger_ms=5,
            acks="all",
        )
        try:
            sent = [
                producer.send(
                    topic,
                    value=row.value,
                    key=row.key,
                    headers=list(row.headers),
                    partition=0,
                    timestamp_ms=row.timestamp_ms,
                )
                for row in map(without_null_headers, rows)
            ]
            for each in sent:
                each.get(PATIENCE_S)
        finally:
            producer.close(5)

    def consume(self, bootstrap: str, topic: str, count: int) -> list[Row]:
        consumer = KafkaConsumer(
            bootstrap_servers=bootstrap,
            group_id=None,
            auto_offset_reset="none",
            fetch_max_wait_ms=50,
        )
        try:
            partition = PythonTopicPartition(topic, 0)
            consumer.assign([partition])
            consumer.seek(partition, 0)
            rows: list[Row] = []
            deadline = time.monotonic() + PATIENCE_S
            while len(rows) < count and time.monotonic() < deadline:
                polled = consumer.poll(timeout_ms=200, max_records=count - len(rows))
                for record in polled.get(partition, []):
                    headers = tuple((name, value) for name, value in record.headers)
                    rows.append(Row(record.key, record.value, headers, record.timestamp))
            return rows
        finally:
            consumer.close()


@dataclass
class AiokafkaClient:
    """aiokafka: a third implementation, on asyncio."""

    name: str = "aiokafka"
    promise: Callable[[Row], Row] = as_it_is

    def produce(self, bootstrap: str, topic: str, codec: str, rows: Sequence[Row]) -> None:
        asyncio.run(self._produce(bootstrap, topic, codec, rows))

    def consume(self, bootstrap: str, topic: str, count: int) -> list[Row]:
        return asyncio.run(self._consume(bootstrap, topic, count))

    async def _produce(self, bootstrap: str, topic: str, codec: str, rows: Sequence[Row]) -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=bootstrap,
            compression_type=None if codec == "none" else codec,
            acks="all",
            linger_ms=5,
        )
        await producer.start()
        try:
            sent = [
                await producer.send(
                    topic,
                    value=row.value,
                    key=row.key,
                    headers=list(row.headers),
                    partition=0,
                    timestamp_ms=row.timestamp_ms,
                )
                for row in rows
            ]
            await asyncio.wait_for(asyncio.gather(*sent), PATIENCE_S)
        finally:
            await producer.stop()

    async def _consume(self, bootstrap: str, topic: str, count: int) -> list[Row]:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=bootstrap,
            group_id=None,
            auto_offset_reset="none",
            fetch_max_wait_ms=50,
        )
        await consumer.start()
        try:
            partition = AioTopicPartition(topic, 0)
            consumer.assign([partition])
            consumer.seek(partition, 0)
            rows: list[Row] = []
            async with asyncio.timeout(PATIENCE_S):
                while len(rows) < count:
                    record = await consumer.getone()
                    headers = tuple((name, value) for name, value in record.headers)
                    rows.append(Row(record.key, record.value, headers, record.timestamp))
            return rows
        finally:
            await consumer.stop()


@dataclass
class OdradekClient:
    """Our own client, which must get along with Apache Kafka too."""

    name: str = "odradek.client"
    promise: Callable[[Row], Row] = as_it_is

    def produce(self, bootstrap: str, topic: str, codec: str, rows: Sequence[Row]) -> None:
        asyncio.run(self._produce(bootstrap, topic, codec, rows))

    def consume(self, bootstrap: str, topic: str, count: int) -> list[Row]:
        return asyncio.run(self._consume(bootstrap, topic, count))

    async def _produce(self, bootstrap: str, topic: str, codec: str, rows: Sequence[Row]) -> None:
        config = {"bootstrap.servers": bootstrap, "compression.type": codec, "linger.ms": 5}
        async with OwnProducer(config) as producer:
            sent = [
                await producer.send(
                    topic,
                    row.value,
                    row.key,
                    partition=0,
                    headers=list(row.headers),
                    timestamp_ms=row.timestamp_ms,
                )
                for row in rows
            ]
            await asyncio.wait_for(asyncio.gather(*sent), PATIENCE_S)

    async def _consume(self, bootstrap: str, topic: str, count: int) -> list[Row]:
        rows: list[Row] = []
        async with OwnConsumer(bootstrap_servers=bootstrap, auto_offset_reset="none") as consumer:
            partition = OwnTopicPartition(topic, 0)
            consumer.assign([partition])
            consumer.seek(partition, 0)
            async with asyncio.timeout(PATIENCE_S):
                while len(rows) < count:
                    polled = await consumer.poll(timeout_ms=200, max_records=count - len(rows))
                    for record in polled.get(partition, []):
                        headers = tuple(record.headers)
                        rows.append(Row(record.key, record.value, headers, record.timestamp_ms))
        return rows


def without_timestamp(row: Row) -> Row:
    return row._replace(timestamp_ms=0)


# Lengths first, so that keys and values may hold any byte.
KCAT_FORMAT = "%T %K %S %h\n%k%s"


@dataclass
class KcatClient:
    """kcat: librdkafka of the distribution, and its legacy consumer."""

    program: str
    name: str = "kcat"
    promise: Callable[[Row], Row] = without_timestamp

    def produce(self, bootstrap: str, topic: str, codec: str, rows: Sequence[Row]) -> None:
        """One run a row with headers (kcat gives the same to all it sends), in order."""
        for row in rows:
            command: list[str | bytes] = [self.program, "-P", "-b", bootstrap, "-t", topic]
            command += ["-p", "0", "-z", codec, "-X", "acks=all", "-X", "linger.ms=0"]
            for name, value in row.headers:
                command += [b"-H", name.encode() + (b"" if value is None else b"=" + value)]
            payload = row.value or b""
            if row.key is not None:
                command += ["-K", "|"]
                payload = row.key + b"|" + payload
            if row.value is None:
                command += ["-Z"]
            self._run(command, payload + b"\n")

    def consume(self, bootstrap: str, topic: str, count: int) -> list[Row]:
        command = [self.program, "-C", "-q", "-b", bootstrap, "-t", topic, "-p", "0"]
        command += ["-o", "beginning", "-c", str(count), "-X", "fetch.wait.max.ms=50"]
        return list(self._parse(self._run([*command, "-f", KCAT_FORMAT], b"")))

    def _run(self, command: Sequence[str | bytes], stdin: bytes) -> bytes:
        done = subprocess.run(
            command, input=stdin, capture_output=True, timeout=PATIENCE_S, check=False
        )
        assert done.returncode == 0, done.stderr.decode(errors="replace")
        return done.stdout

    def _parse(self, output: bytes) -> list[Row]:
        rows = []
        position = 0
        while position < len(output):
            end = output.index(b"\n", position)
            timestamp, key_length, value_length, headers = output[position:end].split(b" ", 3)
            position = end + 1
            key, position = _cut(output, position, int(key_length))
            value, position = _cut(output, position, int(value_length))
            rows.append(Row(key, value, _kcat_headers(headers), int(timestamp)))
        return rows


def _cut(output: bytes, position: int, length: int) -> tuple[bytes | None, int]:
    if length < 0:
        return None, position
    return output[position : position + length], position + length


def _kcat_headers(text: bytes) -> tuple[tuple[str, bytes | None], ...]:
    pairs = [pair.partition(b"=") for pair in text.split(b",") if pair]
    return tuple((name.decode(), None if value == b"NULL" else value) for name, _, value in pairs)
