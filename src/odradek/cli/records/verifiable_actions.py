"""The actions of the verifiable producer and consumer: each event is one line of JSON."""

import argparse
import asyncio
from functools import partial

from odradek.client.consumer.consumer import Consumer
from odradek.client.consumer.fetched_batches import ConsumerRecord
from odradek.client.leader_requests import EARLIEST, LATEST
from odradek.client.producer.accumulator import RecordMetadata
from odradek.client.producer.producer import Producer
from odradek.client.settings import ConsumerSettings
from odradek.perf.throughput import Throttle
from odradek.protocol.types import TopicPartition
from odradek.tools.admin_session import open_admin_beside, require_producible
from odradek.tools.interruption import until_interrupted
from odradek.tools.producing import producer_settings
from odradek.tools.reading import asked_partitions, start_reading
from odradek.tools.terminal import flush_out, print_json
from odradek.world import SystemClock

_POLL_MS = 1000


class Events:
    """Prints events and flushes after each, so that a program that reads them sees each at once."""

    def __init__(self) -> None:
        self.clock = SystemClock()

    def emit(self, name: str, **details: object) -> None:
        print_json({"timestamp": self.clock.now_ms(), "name": name, **details})
        flush_out()


class VerifiableProducer:
    def __init__(self, arguments: argparse.Namespace, events: Events) -> None:
        self._topic = arguments.topic
        self._most = arguments.max_messages
        self._prefix = arguments.value_prefix
        self._keys = arguments.repeating_keys
        self._created_ms = arguments.message_create_time
        self._events = events
        self.throttle = Throttle(arguments.throughput, events.clock.monotonic_s())
        self.sent = 0
        self.acknowledged = 0

    async def run(self, producer: Producer) -> None:
        clock = self._events.clock
        start_ms = clock.now_ms()
        while self._most < 0 or self.sent < self._most:
            number = self.sent
            self.sent += 1
            value = str(number) if self._prefix is None else f"{self._prefix}.{number}"
            key = None if self._keys is None else str(number % self._keys)
            timestamp_ms = None
            if self._created_ms >= 0:
                timestamp_ms = self._created_ms + clock.now_ms() - start_ms
            await producer.send(
                self._topic,
                value.encode(),
                None if key is None else key.encode(),
                timestamp_ms=timestamp_ms,
                on_delivery=partial(self._delivered, key, value),
            )
            pause_s = self.throttle.wait_s(self.sent, clock.monotonic_s())
            if pause_s > 0:
                await asyncio.sleep(pause_s)

    def _delivered(
        self,
        key: str | None,
        value: str,
        metadata: RecordMetadata | None,
        error: BaseException | None,
    ) -> None:
        if metadata is None:
            self._events.emit(
                "producer_send_error",
                key=key,
                value=value,
                topic=self._topic,
                exception=type(error).__name__,
                message=str(error),
            )
            return
        self.acknowledged += 1
        self._events.emit(
            "producer_send_success",
            key=key,
            value=value,
            offset=metadata.offset,
            topic=metadata.topic,
            partition=metadata.partition,
        )


async def produce(arguments: argparse.Namespace, properties: dict[str, str]) -> int:
    settings = producer_settings(properties)
    async with open_admin_beside(properties) as admin:
        await require_producible(admin, arguments.topic)
    events = Events()
    start_s = events.clock.monotonic_s()
    work = VerifiableProducer(arguments, events)
    async with Producer(settings) as producer:
        events.emit("startup_complete")
        code = await until_interrupted(work.run(producer))
    events.emit("shutdown_complete")
    elapsed_s = max(events.clock.monotonic_s() - start_s, 1e-9)
    events.emit(
        "tool_data",
        sent=work.sent,
        acked=work.acknowledged,
        target_throughput=arguments.throughput,
        avg_throughput=work.acknowledged / elapsed_s,
    )
    return code


class VerifiableConsumer:
    def __init__(self, arguments: argparse.Namespace, events: Events) -> None:
        self._most = arguments.max_messages
        self._verbose = arguments.verbose
        self._events = events
        self._read = 0

    async def run(self, consumer: Consumer) -> None:
        while self._most < 0 or self._read < self._most:
            limit = consumer.settings.max_poll_records
            if self._most >= 0:
                limit = min(limit, self._most - self._read)
            taken = await consumer.poll(_POLL_MS, limit)
            if taken:
                self._report(taken)

    def _report(self, taken: dict[TopicPartition, list[ConsumerRecord]]) -> None:
        summaries = []
        for partition, records in taken.items():
            self._read += len(records)
            summaries.append(
                {
                    "topic": partition.topic,
                    "partition": partition.partition,
                    "count": len(records),
                    "minOffset": records[0].offset,
                    "maxOffset": records[-1].offset,
                }
            )
            if self._verbose:
                for record in records:
                    self._events.emit(
                        "record_data",
                        key=_text(record.key),
                        value=_text(record.value),
                        topic=record.topic,
                        partition=record.partition,
                        offset=record.offset,
                    )
        count = sum(map(len, taken.values()))
        self._events.emit("records_consumed", count=count, partitions=summaries)


async def consume(arguments: argparse.Namespace, properties: dict[str, str]) -> int:
    settings = ConsumerSettings.from_properties(properties)
    async with open_admin_beside(properties) as admin:
        partitions = await asked_partitions(admin, arguments.topic)
    events = Events()
    async with Consumer(settings) as consumer:
        events.emit("startup_complete")
        start_reading(
            consumer, partitions, LATEST if arguments.reset_policy == "latest" else EARLIEST
        )
        assigned = [
            {"topic": partition.topic, "partition": partition.partition} for partition in partitions
        ]
        events.emit("partitions_assigned", partitions=assigned)
        code = await until_interrupted(VerifiableConsumer(arguments, events).run(consumer))
    events.emit("shutdown_complete")
    return code


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode(errors="replace")
