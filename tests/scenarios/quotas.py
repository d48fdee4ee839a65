"""Quotas on a real broker with real clients: the rate that each client reaches, and its limit.

    python -m tests.scenarios.quotas [--seconds S] [--limit BYTES] [--only NAME ...] [--apache]

Each measurement sets a quota by the protocol, lets a client do as much as it can for S seconds, and
compares. `--apache` starts Apache Kafka in place of Odradek. The measurements:

    produce-rdkafka, produce-java    producer_byte_rate, confluent-kafka and producer-perf-test
    consume-rdkafka, consume-java    consumer_byte_rate, confluent-kafka and consumer-perf-test
    requests                         request_percentage: requests, by what one costs the broker
    mutations                        controller_mutation_rate: partitions created
    connections                      connection_creation_rate: connections served from 127.0.0.1

What must hold: rates of bytes, mutations and connections are within 10 % of the limit, and the
processor that a client's requests cost is at most the limit and a tenth.
"""

import argparse
import asyncio
import contextlib
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from uuid import uuid4

from confluent_kafka import Consumer, Producer, TopicPartition

from benchmarks.apache_kafka import LONG_TOOL_JVM_FLAGS, ApacheKafka
from benchmarks.broker_process import BrokerProcess, metadata_answer_names_a_broker, odradek_broker
from odradek.client.admin.admin import Admin
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from odradek.protocol.messages.metadata import MetadataRequest, MetadataResponse
from odradek.security.quotas.entities import QuotaEntity

RECORD_BYTES: Final = 1000
TOLERANCE: Final = 0.1
# A batch is delivered as a whole, so it must be small beside a second of the limit.
_BATCH_BYTES: Final = 100_000
# The limits of the measurements that do not count bytes.
REQUEST_PERCENTAGE: Final = 10.0
MUTATIONS_PER_SECOND: Final = 5.0
CONNECTIONS_PER_SECOND: Final = 10.0
# What a token bucket holds at first: eleven windows of a second.
_MUTATION_BURST: Final = 11 * MUTATIONS_PER_SECOND


@dataclass(frozen=True, slots=True)
class Measured:
    """A limit, and what was reached. `is_upper` means that less is as good."""

    name: str
    limit: float
    reached: float
    unit: str
    is_upper: bool = False

    @property
    def is_kept(self) -> bool:
        ratio = self.reached / self.limit
        return ratio <= 1 + TOLERANCE and (self.is_upper or ratio >= 1 - TOLERANCE)

    def __str__(self) -> str:
        ratio = self.reached / self.limit
        judged = "kept" if self.is_kept else "NOT KEPT"
        return (
            f"{self.name:<16} limit {self.limit:>12,.1f}   reached {self.reached:>12,.1f}"
            f" {self.unit:<14} {ratio:6.3f} of it   {judged}"
        )


class QuotaScenario:
    """Measures one quota after the other on a running broker."""

    def __init__(self, broker: BrokerProcess, seconds: float, limit: int) -> None:
        self._broker = broker
        self._seconds = seconds
        self._limit = limit

    def measure(self, name: str) -> Measured:
        return {
            "produce-rdkafka": self._produce_rdkafka,
            "produce-java": self._produce_java,
            "consume-rdkafka": self._consume_rdkafka,
            "consume-java": self._consume_java,
            "requests": self._requests,
            "mutations": self._mutations,
            "connections": self._connections,
        }[name]()

    # Setting quotas

    @contextmanager
    def _quota(self, entity: QuotaEntity, key: str, value: float) -> Iterator[None]:
        asyncio.run(self._alter(entity, {key: value}))
        try:
            yield
        finally:
            asyncio.run(self._alter(entity, {key: None}))

    async def _alter(self, entity: QuotaEntity, change: dict[str, float | None]) -> None:
        async with Admin(bootstrap_servers=self._broker.bootstrap) as admin:
            for error in (await admin.alter_client_quotas({entity: change})).values():
                if error is not None:
                    raise error

    def _topic(self, records: int = 0) -> str:
        """Creates a topic, with records in it if asked for."""
        topic = f"quotas-{uuid4().hex[:8]}"

        async def create() -> None:
            async with Admin(bootstrap_servers=self._broker.bootstrap) as admin:
                await admin.create_topic(topic, 1, 1)

        asyncio.run(create())
        if records:
            producer = Producer(
                {
                    "bootstrap.servers": self._broker.bootstrap,
                    "linger.ms": 5,
                    "batch.size": _BATCH_BYTES,
                }
            )
            for _ in range(records):
                while True:
                    try:
                        producer.produce(topic, bytes(RECORD_BYTES))
                        break
                    except BufferError:
                        producer.poll(0.1)
            assert producer.flush(120) == 0
        return topic

    # Bytes

    def _produce_rdkafka(self) -> Measured:
        client_id, topic = f"rd-{uuid4().hex[:8]}", self._topic()
        delivered = 0

        def count(error: object, _: object) -> None:
            nonlocal delivered
            delivered += error is None

        with self._quota(QuotaEntity(client_id=client_id), "producer_byte_rate", self._limit):
            producer = Producer(
                {
                    "bootstrap.servers": self._broker.bootstrap,
                    "client.id": client_id,
                    "linger.ms": 5,
                    "batch.size": _BATCH_BYTES,
                    "queue.buffering.max.kbytes": 4096,
                }
            )
            producer.list_topics(topic)
            begin_s = time.monotonic()
            while time.monotonic() < begin_s + self._seconds:
                with contextlib.suppress(BufferError):
                    producer.produce(topic, bytes(RECORD_BYTES), on_delivery=count)
                    producer.poll(0)
                    continue
                producer.poll(0.05)
            reached = delivered * RECORD_BYTES / (time.monotonic() - begin_s)
            producer.purge()
            producer.flush(10)
        return Measured("produce-rdkafka", self._limit, reached, "bytes/s")

    def _produce_java(self) -> Measured:
        client_id, topic = f"java-{uuid4().hex[:8]}", self._topic()
        kafka = ApacheKafka.install()
        count = int(self._limit * (self._seconds + 2) / RECORD_BYTES)
        with self._quota(QuotaEntity(client_id=client_id), "producer_byte_rate", self._limit):
            output = kafka.run_tool(
                "producer-perf-test",
                *("--topic", topic, "--num-records", str(count), "--throughput", "-1"),
                *("--reporting-interval", "1000"),
                *("--record-size", str(RECORD_BYTES), "--command-property"),
                f"bootstrap.servers={self._broker.bootstrap}",
                f"client.id={client_id}",
                timeout_s=300,
                jvm_flags=LONG_TOOL_JVM_FLAGS,
            )
        # A line for each second; in the first one the JVM warms up.
        rates = [
            float(line.split("records sent, ")[1].split(" records/sec")[0].replace(",", "."))
            for line in output.splitlines()
            if "records/sec" in line and "99.9th" not in line
        ]
        reached = sum(rates[1:]) / len(rates[1:]) * RECORD_BYTES
        return Measured("produce-java", self._limit, reached, "bytes/s")

    def _records_to_read(self) -> int:
        return int(self._limit * (self._seconds * 1.3 + 3) / RECORD_BYTES)

    def _consume_rdkafka(self) -> Measured:
        client_id, topic = f"rd-{uuid4().hex[:8]}", self._topic(self._records_to_read())
        with self._quota(QuotaEntity(client_id=client_id), "consumer_byte_rate", self._limit):
            consumer = Consumer(
                {
                    "bootstrap.servers": self._broker.bootstrap,
                    "client.id": client_id,
                    "group.id": client_id,
                    "enable.auto.commit": False,
                }
            )
            consumer.assign([TopicPartition(topic, 0, 0)])
            read = 0
            begin_s = time.monotonic()
            while time.monotonic() < begin_s + self._seconds:
                for message in consumer.consume(10_000, 0.1):
                    assert message.error() is None, message.error()
                    read += len(message.value() or b"")
            reached = read / (time.monotonic() - begin_s)
            consumer.close()
        return Measured("consume-rdkafka", self._limit, reached, "bytes/s")

    def _consume_java(self) -> Measured:
        client_id, topic = f"java-{uuid4().hex[:8]}", self._topic(self._records_to_read())
        kafka = ApacheKafka.install()
        count = int(self._limit * self._seconds / RECORD_BYTES)
        with self._quota(QuotaEntity(client_id=client_id), "consumer_byte_rate", self._limit):
            output = kafka.run_tool(
                "consumer-perf-test",
                *("--bootstrap-server", self._broker.bootstrap, "--topic", topic),
                *("--num-records", str(count), "--timeout", "60000"),
                *("--command-property", f"client.id={client_id}"),
                timeout_s=300,
                jvm_flags=LONG_TOOL_JVM_FLAGS,
            )
        heads, values = (line.split(", ") for line in output.splitlines()[-2:])
        figures = dict(zip(heads, values, strict=True))
        # A quarter of a second may pass between the first assignment and the first fetch.
        read = float(figures["data.consumed.in.MB"]) * (1 << 20)
        reached = read / (float(figures["fetch.time.ms"]) / 1000)
        return Measured("consume-java", self._limit, reached, "bytes/s")

    # The others

    def _requests(self) -> Measured:
        """Returns the requests of a client as a percentage of a processor: how many there are, by
        what one costs the broker without a quota."""
        client_id = f"busy-{uuid4().hex[:8]}"
        free, free_percent = self._busy(client_id, min(self._seconds, 5))
        entity = QuotaEntity(client_id=client_id)
        with self._quota(entity, "request_percentage", REQUEST_PERCENTAGE):
            limited, limited_percent = self._busy(client_id, self._seconds)
        print(
            f"requests         without a quota {free:,.0f} a second and {free_percent:.0f} % of a"
            f" processor, with it {limited:,.0f} and {limited_percent:.0f} %"
        )
        reached = limited * free_percent / free
        return Measured("requests", REQUEST_PERCENTAGE, reached, "percent", is_upper=True)

    def _busy(self, client_id: str, duration_s: float) -> tuple[float, float]:
        """Returns how many requests a second a client could send, and the percentage of a
        processor that the broker used."""

        async def ask() -> tuple[float, float]:
            answered = 0
            async with Admin(
                bootstrap_servers=self._broker.bootstrap,
                client_id=client_id,
                request_timeout_ms=60_000,
            ) as admin:
                await admin.describe_cluster()
                before_s, begin_s = self._broker.usage().cpu_s, time.monotonic()

                async def go_on() -> None:
                    nonlocal answered
                    while time.monotonic() < begin_s + duration_s:
                        await admin.request(MetadataRequest(topics=[]), MetadataResponse)
                        answered += 1

                await asyncio.gather(*(go_on() for _ in range(5)))
                took_s = time.monotonic() - begin_s
                used_s = self._broker.usage().cpu_s - before_s
                return answered / took_s, 100 * used_s / took_s

        return asyncio.run(ask())

    def _mutations(self) -> Measured:
        client_id = f"admin-{uuid4().hex[:8]}"

        async def create() -> float:
            partitions, number = 0, 0
            async with Admin(
                bootstrap_servers=self._broker.bootstrap, client_id=client_id
            ) as admin:
                begin_s = time.monotonic()
                while time.monotonic() < begin_s + self._seconds:
                    number += 1
                    topic = CreatableTopic(
                        name=f"{client_id}-{number}", num_partitions=5, replication_factor=1
                    )
                    response = await admin.controller_request(
                        CreateTopicsRequest(topics=[topic], timeout_ms=30_000),
                        CreateTopicsResponse,
                    )
                    (result,) = response.topics
                    if not result.error_code:
                        partitions += 5
                    elif result.error_code != ErrorCode.THROTTLING_QUOTA_EXCEEDED:
                        raise KafkaError(ErrorCode(result.error_code), result.error_message or "")
                    else:
                        # As Kafka's own clients do.
                        await asyncio.sleep(response.throttle_time_ms / 1000)
                return (partitions - _MUTATION_BURST) / (time.monotonic() - begin_s)

        entity = QuotaEntity(client_id=client_id)
        with self._quota(entity, "controller_mutation_rate", MUTATIONS_PER_SECOND):
            reached = asyncio.run(create())
        return Measured("mutations", MUTATIONS_PER_SECOND, reached, "partitions/s")

    def _connections(self) -> Measured:
        async def connect(admin: Admin) -> float:
            entity = QuotaEntity(ip="127.0.0.1")
            change: dict[str, float | None] = {"connection_creation_rate": CONNECTIONS_PER_SECOND}
            await admin.alter_client_quotas({entity: change})
            served = 0
            begin_s = time.monotonic()

            def keep_connecting() -> int:
                served = 0
                while time.monotonic() < begin_s + self._seconds:
                    served += metadata_answer_names_a_broker(self._broker.port)
                return served

            loops = [asyncio.to_thread(keep_connecting) for _ in range(16)]
            served = sum(await asyncio.gather(*loops))
            reached = served / (time.monotonic() - begin_s)
            # Over the connection that was there before.
            await admin.alter_client_quotas({entity: {"connection_creation_rate": None}})
            return reached

        async def run() -> float:
            async with Admin(bootstrap_servers=self._broker.bootstrap) as admin:
                await admin.describe_client_quotas()
                return await connect(admin)

        reached = asyncio.run(run())
        return Measured("connections", CONNECTIONS_PER_SECOND, reached, "connections/s")


NAMES: Final = (
    "produce-rdkafka",
    "produce-java",
    "consume-rdkafka",
    "consume-java",
    "requests",
    "mutations",
    "connections",
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.scenarios.quotas")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--limit", type=int, default=2_000_000)
    parser.add_argument("--only", nargs="+", choices=NAMES, default=NAMES)
    parser.add_argument("--apache", action="store_true")
    arguments = parser.parse_args()
    start: Callable[[Path], contextlib.AbstractContextManager[BrokerProcess]]
    start = ApacheKafka.install().broker if arguments.apache else odradek_broker
    is_kept = True
    with tempfile.TemporaryDirectory() as directory, start(Path(directory)) as broker:
        scenario = QuotaScenario(broker, arguments.seconds, arguments.limit)
        for name in arguments.only:
            measured = scenario.measure(name)
            print(measured, flush=True)
            is_kept = is_kept and measured.is_kept
    return 0 if is_kept else 1


if __name__ == "__main__":
    sys.exit(main())
